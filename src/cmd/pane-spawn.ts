/**
 * libc for the pane wrapper: a child in a process group of its own that owns the terminal, as a shell's job does.
 *
 * posix_spawn by bun:ffi and not Bun.spawn (1.4.5), which can put a child into a session of its own but not into a
 * group of its own inside this session, and so cannot hand it the terminal. The wrapper keeps its event loop: a wait
 * inside waitpid would leave it deaf to SIGHUP and SIGTERM and unable to report the start while the daemon is away.
 */
import { dlopen, ptr, type Pointer } from "bun:ffi";
import { readFileSync } from "node:fs";
import { constants as os } from "node:os";
import { fail } from "../core/errors.ts";

export interface ChildExit {
  /** null when a signal ended the child, or when nobody can tell any more. */
  code: number | null;
  signal: number | null;
}

export interface SpawnRequest {
  /** Absolute path. */
  executable: string;
  argv: readonly string[];
  env: Record<string, string>;
  cwd: string;
  /** Keys typed before the child runs were meant for something else: drop them. */
  dropTyped: boolean;
}

/** What the wrapper needs from the machine; tests of its loop give another one. */
export interface PaneSystem {
  /** Starts the child in the foreground; returns its pid, which is its group's id too. `spawn-failed` otherwise. */
  spawn(request: SpawnRequest): number;
  /** Start time as ports/processes.ts has it; "" when the process is gone. */
  startTime(pid: number): string;
  /** Resolves when the child has ended. A stopped child has not. */
  ended(pid: number): Promise<ChildExit>;
  /** Takes the terminal back and gives it the line settings it had before the child. */
  takeTerminal(): void;
  /** False when there was a terminal at the start and it has hung up. */
  terminalThere(): boolean;
  signalGroup(pid: number, signal: number): void;
}

const MAC = process.platform === "darwin";
const LIBC = MAC ? "libSystem.B.dylib" : "libc.so.6";
const WNOHANG = 1;
/** Not TCSADRAIN, which waits for output that a typed Ctrl-S holds back. */
const TCSANOW = 0;
const TCIFLUSH = MAC ? 1 : 0;
/** Dispositions are passed where a handler's address goes. */
const SIG_DFL = 0 as Pointer;
const SIG_IGN = 1 as Pointer;
const POSIX_SPAWN_SETPGROUP = 0x02;
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
/** macOS only: descriptors above 2 do not reach the child. On Linux Bun opens everything close-on-exec. */
const POSIX_SPAWN_CLOEXEC_DEFAULT = 0x4000;
/** More than any libc needs: posix_spawnattr_t is 336 bytes in glibc 2.36 x86-64, a pointer on macOS. */
const OPAQUE_BYTES = 1024;
/** sigset_t: 128 bytes in glibc, 4 on macOS; signal n is bit n-1 everywhere. */
const SIGSET_BYTES = 128;
/** The classic signals; a disposition of a real-time signal is never "ignore" in practice. */
const LAST_SIGNAL = 31;
/** Larger than termios anywhere (60 on Linux, 72 on macOS). */
const TERMIOS_BYTES = 256;
const TERMINAL_FD = 0;
/** SIGCHLD tells of an end at once; this only bounds what a lost one could cost. */
const SAFETY_POLL_MS = 10_000;
const PS_TIMEOUT_MS = 5_000;

const SYMBOLS = {
  posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "int" },
  posix_spawnattr_init: { args: ["ptr"], returns: "int" },
  posix_spawnattr_destroy: { args: ["ptr"], returns: "int" },
  posix_spawnattr_setflags: { args: ["ptr", "i16"], returns: "int" },
  posix_spawnattr_setpgroup: { args: ["ptr", "int"], returns: "int" },
  posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "int" },
  posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "int" },
  posix_spawn_file_actions_init: { args: ["ptr"], returns: "int" },
  posix_spawn_file_actions_destroy: { args: ["ptr"], returns: "int" },
  // glibc 2.29, macOS 10.15.
  posix_spawn_file_actions_addchdir_np: { args: ["ptr", "ptr"], returns: "int" },
  waitpid: { args: ["int", "ptr", "int"], returns: "int" },
  kill: { args: ["int", "int"], returns: "int" },
  signal: { args: ["int", "ptr"], returns: "ptr" },
  getpgrp: { args: [], returns: "int" },
  tcgetpgrp: { args: ["int"], returns: "int" },
  tcsetpgrp: { args: ["int", "int"], returns: "int" },
  tcgetattr: { args: ["int", "ptr"], returns: "int" },
  tcsetattr: { args: ["int", "int", "ptr"], returns: "int" },
  tcflush: { args: ["int", "int"], returns: "int" },
  strerror: { args: ["int"], returns: "cstring" },
} as const;

function openLibc() {
  return dlopen(LIBC, SYMBOLS).symbols;
}

/**
 * Lets the child take the terminal itself, before it runs; null where libc cannot (before glibc 2.35, macOS). Done by
 * the parent, a shell that has just seen itself in the background may stop itself after the one SIGCONT.
 */
function openTakeAtSpawn(): ((actions: Pointer) => number) | null {
  const name = "posix_spawn_file_actions_addtcsetpgrp_np";
  try {
    const { symbols } = dlopen(LIBC, { [name]: { args: ["ptr", "int"], returns: "int" } } as const);
    return (actions) => symbols[name](actions, TERMINAL_FD);
  } catch {
    return null;
  }
}

type Libc = ReturnType<typeof openLibc>;

/**
 * Makes this process inert and returns the machine. It holds nothing of the place it was started in, and the keys
 * that stop or end a job do nothing to it while it owns the terminal; SIGTTOU is ignored because taking the terminal
 * back happens from the background. SIGHUP and SIGTERM are the caller's: it passes them on and exits.
 */
export function inertWrapper(): PaneSystem {
  const libc = openLibc();
  process.chdir("/");
  for (const name of ["SIGINT", "SIGQUIT", "SIGTSTP", "SIGTTOU"] as const) {
    libc.signal(os.signals[name], SIG_IGN);
  }
  // Ignored by whoever started this process, it would make the kernel swallow the child's exit status.
  libc.signal(os.signals.SIGCHLD, SIG_DFL);
  const termios = new Uint8Array(TERMIOS_BYTES);
  let saved = false;
  const had = libc.tcgetattr(TERMINAL_FD, ptr(termios)) === 0;
  const takeAtSpawn = openTakeAtSpawn();
  const takeTerminal = (): void => {
    libc.tcsetpgrp(TERMINAL_FD, libc.getpgrp());
    if (saved) libc.tcsetattr(TERMINAL_FD, TCSANOW, ptr(termios));
  };
  return {
    spawn(request) {
      saved = libc.tcgetattr(TERMINAL_FD, ptr(termios)) === 0;
      if (request.dropTyped) libc.tcflush(TERMINAL_FD, TCIFLUSH);
      try {
        // Without a terminal the action would fail the spawn.
        const pid = posixSpawn(libc, request, saved ? takeAtSpawn : null);
        libc.tcsetpgrp(TERMINAL_FD, pid);
        // Where it could not take the terminal itself, it may have touched it too early and have been stopped.
        libc.kill(-pid, os.signals.SIGCONT);
        return pid;
      } catch (error) {
        takeTerminal();
        throw error;
      }
    },
    startTime: MAC ? startTimeDarwin : startTimeLinux,
    ended: (pid) => ended(libc, pid),
    takeTerminal,
    terminalThere: () => !had || libc.tcgetpgrp(TERMINAL_FD) !== -1,
    signalGroup: (pid, signal) => void libc.kill(-pid, signal),
  };
}

/** Memory that C reads. Everything stays reachable, and so in place, until `release`. */
class Arena {
  private readonly kept: (Uint8Array | BigUint64Array)[] = [];

  bytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    this.kept.push(bytes);
    return bytes;
  }

  string(text: string): Pointer {
    const encoded = new TextEncoder().encode(`${text}\0`);
    this.kept.push(encoded);
    return ptr(encoded);
  }

  /** `char *const[]`, ended by NULL. */
  strings(texts: readonly string[]): Pointer {
    const pointers = new BigUint64Array(texts.length + 1);
    texts.forEach((text, i) => {
      pointers[i] = BigInt(this.string(text));
    });
    this.kept.push(pointers);
    return ptr(pointers);
  }

  release(): void {
    this.kept.length = 0;
  }
}

function posixSpawn(
  libc: Libc,
  request: SpawnRequest,
  takeAtSpawn: ((actions: Pointer) => number) | null,
): number {
  const { executable, cwd, argv } = request;
  const env = Object.entries(request.env).map(([name, value]) => `${name}=${value}`);
  const cannot = (why: string) =>
    fail("failed", "spawn-failed", `cannot start ${executable} in ${cwd}: ${why}`);
  if ([executable, cwd, ...argv, ...env].some((text) => text.includes("\0"))) {
    throw cannot("a NUL byte in its arguments or environment");
  }
  const arena = new Arena();
  const pid = new Int32Array(1);
  const attr = ptr(arena.bytes(OPAQUE_BYTES));
  const actions = ptr(arena.bytes(OPAQUE_BYTES));
  const flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
  libc.posix_spawnattr_init(attr);
  libc.posix_spawn_file_actions_init(actions);
  try {
    libc.posix_spawnattr_setflags(attr, MAC ? flags | POSIX_SPAWN_CLOEXEC_DEFAULT : flags);
    libc.posix_spawnattr_setpgroup(attr, 0); // 0: a new group named after the child
    libc.posix_spawnattr_setsigdefault(attr, ptr(everySignal(arena)));
    libc.posix_spawnattr_setsigmask(attr, ptr(arena.bytes(SIGSET_BYTES)));
    libc.posix_spawn_file_actions_addchdir_np(actions, arena.string(cwd));
    takeAtSpawn?.(actions);
    const path = arena.string(executable);
    const [args, environment] = [arena.strings(argv), arena.strings(env)];
    const errno = libc.posix_spawn(ptr(pid), path, actions, attr, args, environment);
    if (errno !== 0) throw cannot(String(libc.strerror(errno)));
    return pid[0] ?? 0;
  } finally {
    libc.posix_spawn_file_actions_destroy(actions);
    libc.posix_spawnattr_destroy(attr);
    arena.release();
  }
}

/** All but SIGKILL and SIGSTOP: Bun ignores SIGPIPE and SIGXFSZ, this wrapper some more, and exec would keep that. */
function everySignal(arena: Arena): Uint8Array {
  const set = arena.bytes(SIGSET_BYTES);
  for (let signal = 1; signal <= LAST_SIGNAL; signal += 1) {
    if (signal === os.signals.SIGKILL || signal === os.signals.SIGSTOP) continue;
    const byte = (signal - 1) >> 3;
    set[byte] = (set[byte] ?? 0) | (1 << ((signal - 1) & 7));
  }
  return set;
}

function ended(libc: Libc, pid: number): Promise<ChildExit> {
  return new Promise((resolve) => {
    const check = (): void => {
      const exit = reap(libc, pid);
      if (exit === null) return;
      process.off("SIGCHLD", check);
      clearInterval(timer);
      resolve(exit);
    };
    process.on("SIGCHLD", check);
    const timer = setInterval(check, SAFETY_POLL_MS);
    check(); // it may have ended before anybody listened
  });
}

/** null while the child runs. Without WUNTRACED: a child that is stopped, by kiki above all, has not ended. */
function reap(libc: Libc, pid: number): ChildExit | null {
  const status = new Int32Array(1);
  const reaped = libc.waitpid(pid, ptr(status), WNOHANG);
  if (reaped === 0) return null;
  if (reaped === pid) return decodeStatus(status[0] ?? 0);
  // EINTR, or not our child any more; an unreaped child always answers signal 0.
  return libc.kill(pid, 0) === 0 ? null : { code: null, signal: null };
}

/** A wait status as Linux and macOS pack it. */
export function decodeStatus(status: number): ChildExit {
  const signal = status & 0x7f;
  return signal === 0 ? { code: (status >> 8) & 0xff, signal: null } : { code: null, signal };
}

/** Field 22 of /proc/<pid>/stat; the name in field 2 may hold blanks and parentheses. */
function startTimeLinux(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

/** As backends/processes/darwin.ts reads it: the two are compared. */
function startTimeDarwin(pid: number): string {
  const { stdout } = Bun.spawnSync(["ps", "-ww", "-p", String(pid), "-o", "lstart="], {
    cwd: "/",
    env: { PATH: "/bin:/usr/bin", LC_ALL: "C" },
    stdin: "ignore",
    timeout: PS_TIMEOUT_MS,
  });
  return stdout.toString().trim().replace(/\s+/g, " ");
}
