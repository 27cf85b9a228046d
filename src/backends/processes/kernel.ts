/**
 * Linux system calls that have no function in Bun: a handle on exactly one process (pidfd_open, pidfd_send_signal;
 * Linux 5.3), a signal to one thread (tgkill), and whether two tasks share a resource (kcmp; Linux 3.5, where
 * configured).
 *
 * Through glibc's `syscall`. Where that cannot be (another libc, no JIT for bun:ffi, a seccomp filter), signals fall
 * back to a look at the start time right before kill(2) — a window of microseconds in which the number could change
 * hands, and pids are handed out in a circle — and `shares` says that it does not know.
 */
import { dlopen } from "bun:ffi";
import { closeSync } from "node:fs";
import { constants as os } from "node:os";
import type { ProcessIdentity, ProcessSignal } from "../../ports/processes.ts";
import { DENIED, listFolder, liveStat, readStat } from "./proc-fs.ts";

/** The same on every architecture since Linux 5.1 unified new numbers. */
const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;
const SYS_KCMP: Partial<Record<string, number>> = { x64: 312, arm64: 272 };
const SYS_TGKILL: Partial<Record<string, number>> = { x64: 234, arm64: 131 };
const KCMP_TYPE = { memory: 1, files: 2, fs: 3 } as const;

type Syscall = (number: number, a: number, b: number, c: number, d: number, e: number) => number;

let syscall: Syscall | null | undefined;

function openSyscall(): Syscall | null {
  try {
    const args = ["i64", "i64", "i64", "i64", "i64", "i64"] as const;
    const { symbols } = dlopen("libc.so.6", { syscall: { args, returns: "i64" } } as const);
    return (...values) => Number(symbols.syscall(...values));
  } catch {
    return null;
  }
}

function call(...values: Parameters<Syscall>): number {
  syscall ??= process.platform === "linux" ? openSyscall() : null;
  return syscall === null ? -1 : syscall(...values);
}

/** Whether two tasks (thread ids) have the same memory, descriptor table, or folders (cwd, root); null: not known. */
export function shares(a: number, b: number, what: keyof typeof KCMP_TYPE): boolean | null {
  const number = SYS_KCMP[process.arch];
  if (number === undefined) return null;
  // 0 equal, 1 to 3 not equal, -1 an error.
  const answer = call(number, a, b, KCMP_TYPE[what], 0, 0);
  return answer < 0 ? null : answer === 0;
}

/**
 * The identity is compared while the handle is held. The handle's process is the recorded one, or had its number before
 * that and has ended, which the signal reports.
 */
export function signalExactly(
  target: ProcessIdentity,
  signal: ProcessSignal,
): "sent" | "gone" | "refused" {
  const sent = signalProcess(target, signal);
  if (sent === "sent" && signal === "SIGSTOP") stopBesideVfork(target);
  return sent;
}

function signalProcess(
  target: ProcessIdentity,
  signal: ProcessSignal,
): "sent" | "gone" | "refused" {
  const fd = call(SYS_PIDFD_OPEN, target.pid, 0, 0, 0, 0);
  try {
    if (liveStat(target.pid)?.startTime !== target.startTime) return "gone";
    if (fd >= 0 && call(SYS_PIDFD_SEND_SIGNAL, fd, os.signals[signal], 0, 0, 0) === 0) {
      return "sent";
    }
    // No handle on this kernel, or a failure whose reason kill(2) will tell.
    return kill(target, signal);
  } finally {
    if (fd >= 0) closeSync(fd);
  }
}

/**
 * A process takes a stop in one thread, which then stops the others. Linux gives it to the first thread, and when that
 * waits for its vfork the others run on until the wait is over (measured, Linux 6.18). So one of those is asked too.
 */
function stopBesideVfork({ pid, startTime }: ProcessIdentity): void {
  const number = SYS_TGKILL[process.arch];
  const stat = liveStat(pid);
  if (number === undefined || stat === null || stat.threads <= 1) return;
  const tasks = listFolder(`/proc/${pid}/task`);
  if (tasks === null || tasks === DENIED) return;
  const states = tasks.map((tid) => ({
    tid,
    state: readStat(`/proc/${pid}/task/${tid}/stat`)?.state,
  }));
  if (!states.some(({ state }) => state === "D")) return;
  const awake = states.find(({ state }) => state === "R" || state === "S");
  if (awake === undefined || liveStat(pid)?.startTime !== startTime) return;
  call(number, pid, Number(awake.tid), os.signals.SIGSTOP, 0, 0);
}

function kill(target: ProcessIdentity, signal: ProcessSignal): "sent" | "gone" | "refused" {
  if (liveStat(target.pid)?.startTime !== target.startTime) return "gone";
  try {
    process.kill(target.pid, signal);
    return "sent";
  } catch (error) {
    return (error as { code?: string }).code === "ESRCH" ? "gone" : "refused";
  }
}
