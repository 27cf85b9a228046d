/**
 * Whether a process stands still: every one of its threads, not only the first, which is all /proc/<pid>/stat shows.
 *
 * A thread that waits for the child of its vfork (posix_spawn, many shells) is in uninterruptible sleep, shows D, and
 * reaches its stop only when the child has run another program or has ended. If the child is stopped before that, the
 * parent shows D for ever. It stands still all the same, provided that (1) a child with the thread's own memory is
 * alive, so that the wait is not over, and (2) the stop is certain to take it before its next instruction: SIGSTOP is
 * pending, or another of its threads has already stopped for it. Any other D may finish a write, and counts as running.
 */
import type { Observation, ProcessIdentity } from "../../ports/processes.ts";
import { shares } from "./kernel.ts";
import { DENIED, hasEnded, listFolder, liveStat, readProc, readStat } from "./proc-fs.ts";

const RUNNING: Observation = { state: "running", tracer: null };
const STOPPED: Observation = { state: "stopped", tracer: null };
const GONE: Observation = { state: "gone", tracer: null };
/** Bit 18 of a signal mask: SIGSTOP is 19. */
const SIGSTOP_BIT = 1n << 18n;

export function observeProcess(process: ProcessIdentity): Observation {
  const stat = liveStat(process.pid);
  if (stat?.startTime !== process.startTime) return GONE;
  if (stat.threads === 1) {
    if (stat.state === "T") return STOPPED;
    if (stat.state !== "t" && stat.state !== "D") return RUNNING;
  }
  const seen = observeThreads(process.pid);
  // The threads read were this process's only if it is still the one under its number.
  return liveStat(process.pid)?.startTime === process.startTime ? seen : GONE;
}

function observeThreads(pid: number): Observation {
  const tasks = listFolder(`/proc/${pid}/task`);
  if (tasks === null || tasks === DENIED) return RUNNING;
  let stopped = 0;
  let tracer: number | null = null;
  const waiting: number[] = [];
  for (const task of tasks) {
    const state = readStat(`/proc/${pid}/task/${task}/stat`)?.state;
    if (state === undefined || hasEnded(state)) continue;
    if (state === "T") stopped += 1;
    else if (state === "t") tracer = tracerOf(pid, task);
    else if (state === "D") waiting.push(Number(task));
    else return RUNNING;
  }
  if (waiting.length > 0) {
    const certain = stopped > 0 || waiting.every((task) => hasPendingStop(pid, task));
    if (!certain || !waiting.every((task) => waitsForVfork(pid, task))) return RUNNING;
  }
  return tracer === null ? STOPPED : { state: "traced", tracer };
}

function tracerOf(pid: number, task: string): number {
  return Number(statusField(`/proc/${pid}/task/${task}/status`, "TracerPid") ?? 0);
}

/** SigPnd is the thread's own, ShdPnd the process's. */
function hasPendingStop(pid: number, task: number): boolean {
  const path = `/proc/${pid}/task/${task}/status`;
  return ["SigPnd", "ShdPnd"].some((name) => {
    const mask = statusField(path, name);
    return mask !== null && (BigInt(`0x${mask}`) & SIGSTOP_BIT) !== 0n;
  });
}

/** `children` needs CONFIG_PROC_CHILDREN; without it nothing is proved and the process counts as running. */
function waitsForVfork(pid: number, task: number): boolean {
  const children = readProc(`/proc/${pid}/task/${task}/children`);
  if (children === null || children === DENIED) return false;
  return children
    .split(" ")
    .filter((child) => child !== "")
    .some((child) => shares(pid, Number(child), "memory") === true);
}

function statusField(path: string, name: string): string | null {
  const text = readProc(path);
  if (text === null || text === DENIED) return null;
  return new RegExp(`^${name}:\\s*(\\S+)`, "m").exec(text)?.[1] ?? null;
}
