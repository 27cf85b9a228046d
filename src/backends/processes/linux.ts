/** Processes as Linux shows them in /proc. */
import { statSync } from "node:fs";
import { userInfo } from "node:os";
import type { ProcessFacts, ProcessIdentity } from "../../core/process-tree.ts";
import type { Processes, ProcessSample } from "../../ports/processes.ts";
import { signalExactly } from "./kernel.ts";
import { findHolders, openLocksOf } from "./linux-holders.ts";
import { observeProcess } from "./linux-state.ts";
import { DENIED, listPids, liveStat, readProc, searchEnvironment, type Stat } from "./proc-fs.ts";

/** A process table that grows faster than it is read is given up on; the next sample goes on. */
const MAX_LISTINGS = 8;
/** An exec has no environment for a moment. */
const EXEC_TRIES = 20;

export const linuxProcesses: Processes = {
  identify(pid) {
    const stat = liveStat(pid);
    return stat === null ? null : { pid, startTime: stat.startTime };
  },
  parentOf(pid) {
    return liveStat(pid)?.parent ?? null;
  },
  withArgument(text) {
    const found: ProcessIdentity[] = [];
    for (const pid of listPids()) {
      if (pid === process.pid) continue;
      const command = readProc(`/proc/${pid}/cmdline`);
      if (command === null || command === DENIED || !command.includes(text)) continue;
      const identity = this.identify(pid);
      if (identity !== null) found.push(identity);
    }
    return found;
  },
  sample: (marks) => sample(marks),
  argvOf(target) {
    const command = readProc(`/proc/${target.pid}/cmdline`);
    if (command === null || command === DENIED) return null;
    if (liveStat(target.pid)?.startTime !== target.startTime) return null;
    // Each argument is ended by NUL; a program that rewrites its title may leave the last one out.
    return command === "" ? [] : command.replace(/\0$/, "").split("\0");
  },
  observe: observeProcess,
  signal: signalExactly,
  openLocks: openLocksOf,
  holders: (folder) => findHolders(folder, sample([]).processes),
};

/** Listed again until a listing shows nobody new: what was forked while others were read is read too. */
function sample(marks: readonly string[]): ProcessSample {
  const me = userInfo().uid;
  const seen = new Set<number>();
  const processes: ProcessFacts[] = [];
  for (let listing = 0; listing < MAX_LISTINGS; listing += 1) {
    const fresh = listPids().filter((pid) => !seen.has(pid));
    if (fresh.length === 0) return { processes, complete: true };
    for (const pid of fresh) {
      seen.add(pid);
      const facts = factsOf(pid, me, marks);
      if (facts !== null) processes.push(facts);
    }
  }
  return { processes, complete: true };
}

function factsOf(pid: number, me: number, marks: readonly string[]): ProcessFacts | null {
  const stat = liveStat(pid);
  if (stat === null) return null;
  const mine = isMine(pid, me);
  if (mine === null) return null;
  const { startTime, parent, pgid, session, name } = stat;
  const marked = mine && marks.length > 0 ? markedAs(pid, stat, marks) : "no";
  return { pid, startTime, parent, pgid, session, mine, name, marked };
}

/**
 * The folder belongs to the process's effective user; to root also when it has made itself undumpable, so that then
 * its status has to be asked (real and effective user). null when it has ended.
 */
function isMine(pid: number, me: number): boolean | null {
  const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
  if (owner === undefined) return null;
  if (owner === me || owner !== 0) return owner === me;
  const text = readProc(`/proc/${pid}/status`);
  if (text === null || text === DENIED) return null;
  const [, real, effective] = /^Uid:\s+(\d+)\s+(\d+)/m.exec(text) ?? [];
  return Number(real) === me || Number(effective) === me;
}

function markedAs(pid: number, stat: Stat, marks: readonly string[]): ProcessFacts["marked"] {
  for (let tries = 0; tries < EXEC_TRIES; tries += 1) {
    const found = searchEnvironment(`/proc/${pid}/environ`, marks);
    if (found === "found") return "yes";
    if (found === "not-found" || found === null) return "no";
    if (found === DENIED) return "unreadable";
    const now = tries === 0 ? stat : liveStat(pid);
    // Empty for good: started without any environment, or about to end.
    if (now === null || now.environmentEnd !== "0") return "no";
  }
  return "unreadable";
}
