/**
 * Starting processes with as little of our own as possible: posix_spawn and waitpid through bun:ffi, blocking. What is
 * measured is then the program, not Bun's process handling (about 1 ms, and as variable as the event loop).
 */
import { CString, dlopen, ptr } from "bun:ffi";

const LIBC = process.platform === "darwin" ? "libSystem.B.dylib" : "libc.so.6";
const O_RDONLY = 0;
const O_WRONLY = 1;
/** Larger than posix_spawn_file_actions_t anywhere (glibc 80 bytes). */
const FILE_ACTIONS_BYTES = 256;

const { symbols: c } = dlopen(LIBC, {
  posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "int" },
  posix_spawn_file_actions_init: { args: ["ptr"], returns: "int" },
  posix_spawn_file_actions_addopen: { args: ["ptr", "int", "ptr", "int", "int"], returns: "int" },
  posix_spawn_file_actions_destroy: { args: ["ptr"], returns: "int" },
  waitpid: { args: ["int", "ptr", "int"], returns: "int" },
  strerror: { args: ["int"], returns: "ptr" },
});

/** One program to run again and again; building it is not part of the measurement. */
export interface Program {
  readonly path: Buffer;
  readonly argv: BigUint64Array;
  readonly envp: BigUint64Array;
  readonly actions: Buffer;
  /** Keeps the strings the pointers point to. */
  readonly strings: readonly Buffer[];
}

/** `input` becomes standard input; output goes to /dev/null, errors to this process's. */
export function program(
  argv: readonly string[],
  env: Record<string, string>,
  input: string,
): Program {
  const strings: Buffer[] = [];
  const vector = (words: readonly string[]): BigUint64Array => {
    const pointers = new BigUint64Array(words.length + 1);
    words.forEach((word, i) => {
      const bytes = Buffer.from(`${word}\0`);
      strings.push(bytes);
      pointers[i] = BigInt(ptr(bytes));
    });
    return pointers;
  };
  const actions = Buffer.alloc(FILE_ACTIONS_BYTES);
  const inputPath = Buffer.from(`${input}\0`);
  const nowhere = Buffer.from("/dev/null\0");
  strings.push(inputPath, nowhere);
  c.posix_spawn_file_actions_init(ptr(actions));
  c.posix_spawn_file_actions_addopen(ptr(actions), 0, ptr(inputPath), O_RDONLY, 0);
  c.posix_spawn_file_actions_addopen(ptr(actions), 1, ptr(nowhere), O_WRONLY, 0);
  return {
    path: Buffer.from(`${argv[0]}\0`),
    argv: vector(argv),
    envp: vector(Object.entries(env).map(([name, value]) => `${name}=${value}`)),
    actions,
    strings,
  };
}

/** Starts it; returns the process id. Throws when the program cannot be started. */
export function start(p: Program): number {
  const pid = new Int32Array(1);
  const error = c.posix_spawn(
    ptr(pid),
    ptr(p.path),
    ptr(p.actions),
    null,
    ptr(p.argv),
    ptr(p.envp),
  );
  if (error !== 0) {
    const text = c.strerror(error);
    throw new Error(
      `cannot start ${p.path.toString()}: ${text === null ? error : new CString(text)}`,
    );
  }
  return pid[0] ?? 0;
}

/** Waits for its end; the exit code, or 128 + signal. */
export function finish(pid: number): number {
  const status = new Int32Array(1);
  if (c.waitpid(pid, ptr(status), 0) !== pid) throw new Error(`waitpid ${pid} failed`);
  const value = status[0] ?? 0;
  return (value & 0x7f) === 0 ? (value >> 8) & 0xff : 128 + (value & 0x7f);
}
