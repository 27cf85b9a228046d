/** Who keeps a folder in use, from /proc: working directory, root, mapped files, open descriptors, of every thread. */
import { realpathSync, statSync } from "node:fs";
import { isLockFile } from "../../core/freeze.ts";
import type { ProcessFacts } from "../../core/process-tree.ts";
import {
  MAX_HOLDS,
  type Hold,
  type Holder,
  type HolderReport,
  type ProcessIdentity,
} from "../../ports/processes.ts";
import { shares } from "./kernel.ts";
import { aliasesOf, isWithin, parseMounts } from "./linux-mounts.ts";
import { DENIED, listFolder, liveStat, readLink, readProc, searchProc } from "./proc-fs.ts";

/** The daemon answers hooks in between. */
const BREATH_EVERY = 25;

/** Thrown inside: this process does not let itself be looked at. */
class Unreadable extends Error {}

/** `processes` is a sample taken for this question. */
export async function findHolders(
  folder: string,
  processes: readonly ProcessFacts[],
): Promise<HolderReport> {
  const places = new Places(folder);
  const report: HolderReport = { holders: [], unreadable: [], complete: true };
  let looked = 0;
  for (const { pid, startTime, name, mine } of processes) {
    if (!mine) continue;
    if (++looked % BREATH_EVERY === 0) await breath();
    try {
      const holds = holdsOf(pid, places);
      // What was read belongs to whoever has the number now.
      if (liveStat(pid)?.startTime !== startTime) continue;
      if (holds.length > 0) report.holders.push({ pid, startTime, name, holds } satisfies Holder);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      report.unreadable.push({ pid, startTime, name });
    }
  }
  return report;
}

/** Lock files of jj and git among the descriptors; null when they cannot be read. */
export function openLocksOf({ pid, startTime }: ProcessIdentity): string[] | null {
  try {
    const locks = new Set<string>();
    for (const task of ownTables(pid, "files")) {
      for (const path of descriptors(task)) if (isLockFile(path)) locks.add(path);
    }
    return liveStat(pid)?.startTime === startTime ? [...locks] : [];
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}

function holdsOf(pid: number, places: Places): Hold[] {
  const holds: Hold[] = [];
  const prefixes = places.forProcess(pid);
  const note = (kind: Hold["kind"], path: string): void => {
    if (holds.length >= MAX_HOLDS || !prefixes.some((prefix) => isWithin(path, prefix))) return;
    if (!holds.some((hold) => hold.kind === kind && hold.path === path)) holds.push({ kind, path });
  };
  const tasks = ownTables(pid, "fs");
  for (const task of tasks) {
    for (const kind of ["cwd", "root"] as const) {
      const path = link(`${task}/${kind}`);
      if (path !== null) note(kind, path);
    }
  }
  for (const task of ownTables(pid, "files")) {
    for (const path of descriptors(task)) note("descriptor", path);
  }
  if (tasks[0] !== undefined) for (const path of mapped(tasks[0], prefixes)) note("map", path);
  return holds;
}

/**
 * Folders of the threads that have their own descriptor table (`files`) or own cwd and root (`fs`). Threads usually
 * share both; where kcmp cannot say so each is read. A leader that has ended has none left.
 */
function ownTables(pid: number, what: "files" | "fs"): string[] {
  const tasks = listFolder(`/proc/${pid}/task`);
  if (tasks === DENIED) throw new Unreadable();
  const kept: number[] = [];
  for (const task of tasks ?? []) {
    const tid = Number(task);
    if (!kept.some((other) => shares(other, tid, what) === true)) kept.push(tid);
  }
  return kept.map((tid) => `/proc/${pid}/task/${tid}`);
}

function* descriptors(task: string): Generator<string> {
  const numbers = listFolder(`${task}/fd`);
  if (numbers === DENIED) throw new Unreadable();
  for (const number of numbers ?? []) {
    const path = link(`${task}/fd/${number}`);
    // Pipes, sockets and the like have names that are no paths.
    if (path?.startsWith("/")) yield path;
  }
}

function mapped(task: string, prefixes: readonly string[]): string[] {
  const file = `${task}/maps`;
  const found = searchProc(
    file,
    // Only a newline is escaped here, which a folder of kiki's never has.
    prefixes.map((prefix) => Buffer.from(prefix)),
  );
  if (found === DENIED) throw new Unreadable();
  if (found !== "found") return [];
  const text = readProc(file);
  if (text === null || text === DENIED) return [];
  // Range, permissions, offset, device, inode, then the path up to the end of the line.
  return text.split("\n").flatMap((line) => /^(?:\S+\s+){5}(\/.*)$/.exec(line)?.[1] ?? []);
}

function link(path: string): string | null {
  const target = readLink(path);
  if (target === DENIED) throw new Unreadable();
  return target;
}

/** Names of the folder, per mount namespace. */
class Places {
  readonly #folder: string;
  readonly #own: ReturnType<typeof parseMounts>;
  readonly #ownNamespace: string | null;
  readonly #byNamespace = new Map<string, readonly string[]>();

  constructor(folder: string) {
    this.#folder = resolved(folder);
    const mounts = readProc("/proc/self/mountinfo");
    if (mounts === null || mounts === DENIED) throw new Error("/proc/self/mountinfo is closed");
    this.#own = parseMounts(mounts);
    this.#ownNamespace = link("/proc/self/ns/mnt");
  }

  forProcess(pid: number): readonly string[] {
    const namespace = link(`/proc/${pid}/ns/mnt`);
    const root = link(`/proc/${pid}/root`);
    if (namespace === null || root === null) return [];
    // Links are shown to kiki relative to kiki's own root, whatever the process's root is.
    const same = namespace === this.#ownNamespace;
    const key = same ? namespace : `${namespace} ${root}`;
    let names = this.#byNamespace.get(key);
    if (names === undefined) {
      names = same
        ? [...new Set([this.#folder, ...aliasesOf(this.#folder, this.#own, this.#own, "")])]
        : this.#elsewhere(pid, root);
      this.#byNamespace.set(key, names);
    }
    return names;
  }

  #elsewhere(pid: number, root: string): string[] {
    const mounts = readProc(`/proc/${pid}/mountinfo`);
    if (mounts === DENIED) throw new Unreadable();
    const others = parseMounts(mounts ?? "");
    return aliasesOf(this.#folder, this.#own, others, root === "/" ? "" : root);
  }
}

/** A folder that is gone is looked for under its old name, which the kernel then marks as deleted. */
function resolved(folder: string): string {
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return `${folder} (deleted)`;
  return realpathSync(folder);
}

function breath(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
