/** Set-up recipes on a real machine. Symlinks are never written through, and never followed out of the repository. */
import { createHash } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmdirSync } from "node:fs";
import type { Dirent, Stats } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorLine, fail } from "../core/errors.ts";
import { checkPattern, inToolFolder, SETUP_MARKER } from "../core/setup.ts";
import type { ProcessIdentity, Processes } from "../ports/processes.ts";
import type { CopiedFile, Recipes } from "../ports/recipes.ts";
import { startDetached } from "./exec.ts";
import { appendLine, endOfFile, keepNewest, removeDurable, writeNew } from "./files.ts";

/** A recipe copies settings, not dependencies; those are what its command is for. */
const MAX_FILES = 1_000;
const MAX_FILE_BYTES = 64 * 1024 * 1024;
const LAST_LINE_CHARS = 200;
const END_POLL_MS = 50;
/** SIGKILL cannot be refused; a process in uninterruptible sleep may still take long. */
const KILL_WAIT_MS = 5_000;

export function createRecipes(processes: Processes): Recipes {
  return {
    match,
    copy,
    uncopy: async (workspace, copied) => uncopy(workspace, copied),
    note: (log, lines) => {
      for (const line of lines) appendLine(log, line);
    },
    lastLine: (log) => lastLine(log),
    trim: keepNewest,
    start(request) {
      const { pid, exited } = startDetached(request);
      return { process: processes.identify(pid), exited };
    },
    carrying: (token) => carrying(processes, token),
    ofSession: (leader) => ofSession(processes, leader),
    end: (find, graceMs) => end(processes, find, graceMs),
  };
}

// ---- files --------------------------------------------------------------------------------------------------

async function match(
  root: string,
  patterns: readonly string[],
): Promise<{ files: string[]; missing: string[]; problems: string[] }> {
  const files = new Set<string>();
  const missing: string[] = [];
  const problems = new Set<string>();
  for (const pattern of patterns) {
    const checked = checkPattern(pattern);
    if (!checked.ok) {
      problems.add(`${pattern} ${checked.error}`);
      continue;
    }
    const found = await filesOf(root, checked.value, problems);
    if (found.length === 0) missing.push(pattern);
    for (const file of found) files.add(file);
  }
  const sorted = [...files].sort();
  if (sorted.length > MAX_FILES) {
    problems.add(`${sorted.length} files, of which only the first ${MAX_FILES} are copied`);
  }
  return { files: sorted.slice(0, MAX_FILES), missing, problems: [...problems] };
}

/** A literal name may be a symlink that stays inside; what a glob or a folder finds is plain files only. */
async function filesOf(root: string, pattern: string, problems: Set<string>): Promise<string[]> {
  const accepted = (file: string): boolean => {
    const why = refusal(root, file);
    if (why !== null) problems.add(`${file} ${why}`);
    return why === null;
  };
  const stat = look(join(root, pattern));
  if (stat !== null && !stat.isDirectory()) return accepted(pattern) ? [pattern] : [];
  if (stat === null && !PATTERN.test(pattern)) return [];
  const glob = stat === null ? new Bun.Glob(pattern) : null;
  const begin = stat === null ? beginOf(pattern) : pattern;
  if (leadsOut(root, begin)) {
    problems.add(`${begin} is a symlink out of the repository`);
    return [];
  }
  const levels = glob === null || pattern.includes("**") ? Infinity : levelsOf(pattern, begin);
  const found: string[] = [];
  for await (const file of walk(root, begin, levels, problems)) {
    // One more than is used, so that "too many" is noticed without walking on for ever.
    if (found.length > MAX_FILES) break;
    if (glob?.match(file) ?? true) found.push(file);
  }
  return found.filter(accepted);
}

const PATTERN = /[*?[{]/;

/** The folder that everything a pattern names lies in. */
function beginOf(pattern: string): string {
  const parts = pattern.split("/");
  return parts
    .slice(
      0,
      parts.findIndex((part) => PATTERN.test(part)),
    )
    .join("/");
}

/** How many folders deep a match can lie, the beginning counted. A slash in braces may count twice, never too little. */
function levelsOf(pattern: string, begin: string): number {
  return pattern.slice(begin.length).replace(/^\//, "").split("/").length;
}

/**
 * Plain files below a folder of `root`, without jj's and git's own; no symlink is followed. A folder that cannot be
 * read is a problem, not the end. Not synchronous: a large tree would keep every agent's hook waiting.
 */
async function* walk(
  root: string,
  folder: string,
  levels: number,
  problems: Set<string>,
): AsyncGenerator<string> {
  let entries: Dirent[];
  try {
    entries = await readdir(join(root, folder), { withFileTypes: true });
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== "ENOENT" && code !== "ENOTDIR") problems.add(`${folder} cannot be read (${code})`);
    return;
  }
  for (const entry of entries) {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (inToolFolder(entry.name)) continue;
    if (entry.isDirectory()) {
      if (levels > 1) yield* walk(root, path, levels - 1, problems);
    } else if (entry.isFile()) yield path;
  }
}

/** What of a name's bytes is no UTF-8 arrives as this, and leads to no file any more. */
const NOT_UTF8 = "\ufffd";

/** null where there is nothing, or nothing that can be seen. */
function look(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch {
    return null;
  }
}

function leadsOut(root: string, below: string): boolean {
  try {
    return !`${realpathSync(join(root, below))}/`.startsWith(`${realpathSync(root)}/`);
  } catch {
    return false; // there is nothing to lead to
  }
}

/** Why a file is not copied; null when it can be. */
function refusal(root: string, file: string): string | null {
  let real: string;
  try {
    real = realpathSync(join(root, file));
  } catch {
    return file.includes(NOT_UTF8) && look(join(root, file)) === null
      ? "has a name that is not UTF-8"
      : "is a symlink to nothing";
  }
  if (leadsOut(root, file)) return "is a symlink out of the repository";
  const stat = look(real);
  if (stat?.isFile() !== true) return "is no plain file";
  return stat.size <= MAX_FILE_BYTES ? null : `is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB`;
}

async function copy(
  root: string,
  workspace: string,
  files: readonly string[],
): Promise<{ copied: CopiedFile[]; notes: string[]; problems: string[] }> {
  const copied: CopiedFile[] = [];
  const notes: string[] = [];
  const problems: string[] = [];
  for (const path of files) {
    try {
      const result = await copyOne(root, workspace, path, problems);
      if (result === null) continue;
      if (typeof result === "string") notes.push(`${path}: ${result}`);
      else copied.push(result);
    } catch (error) {
      problems.push(`${path} could not be copied: ${errorLine(error)}`);
    }
  }
  return { copied, notes, problems };
}

/** The copy; a note when there is none to be made; null when it became a problem. */
async function copyOne(
  root: string,
  workspace: string,
  path: string,
  problems: string[],
): Promise<CopiedFile | string | null> {
  const from = join(root, path);
  if (lstatSync(from, { throwIfNoEntry: false }) === undefined) return "not there any more";
  const why = refusal(root, path);
  if (why !== null) {
    problems.push(`${path} ${why}`);
    return null;
  }
  const real = realpathSync(from);
  const to = join(workspace, path);
  const blocked = makeParents(workspace, path);
  if (blocked !== null) {
    problems.push(`${path} not copied: ${blocked} is no folder in the new workspace`);
    return null;
  }
  const bytes = await readFile(real);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  if (await writeNew(to, bytes, lstatSync(real).mode & 0o777, unseenFolder(workspace, to)))
    return { path, sha256 };
  // After a crash the copy is there already; a file of the commit, or of anybody else, is left alone.
  const there = lstatSync(to, { throwIfNoEntry: false });
  return there?.isFile() && hashOf(to) === sha256
    ? { path, sha256 }
    : "there already, left as it is";
}

/**
 * Where a copy is put together: where jj does not look. Under a name of its own beside the target, what a daemon that is
 * killed leaves of an ignored file would be in the next commit.
 */
function unseenFolder(workspace: string, to: string): string {
  const own = join(workspace, ".jj");
  return look(own)?.isDirectory() === true ? own : dirname(to);
}

/** Makes the folders above `path`, one by one; the first that is something else (a symlink, a file) is returned. */
function makeParents(workspace: string, path: string): string | null {
  const parts = path.split("/").slice(0, -1);
  let at = workspace;
  for (const part of parts) {
    at = join(at, part);
    const stat = lstatSync(at, { throwIfNoEntry: false });
    if (stat === undefined) mkdirSync(at);
    else if (!stat.isDirectory()) return at.slice(workspace.length + 1);
  }
  return null;
}

function uncopy(workspace: string, copied: readonly CopiedFile[]): void {
  for (const { path, sha256 } of copied) {
    const at = join(workspace, path);
    // A folder that became a symlink since leads elsewhere, even to the very file that was copied.
    if (!insideFolders(workspace, path)) continue;
    const stat = lstatSync(at, { throwIfNoEntry: false });
    if (stat === undefined || !stat.isFile() || hashOf(at) !== sha256) continue;
    removeDurable(at);
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
      const full = join(workspace, folder);
      if (readdirSync(full).length > 0) break;
      rmdirSync(full);
    }
  }
}

/** Every folder between `workspace` and `path` is one, and no symlink. */
function insideFolders(workspace: string, path: string): boolean {
  for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
    const stat = lstatSync(join(workspace, folder), { throwIfNoEntry: false });
    if (stat?.isDirectory() !== true) return false;
  }
  return true;
}

function hashOf(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

function lastLine(log: string): string {
  const lines = endOfFile(log, 4_096).split("\n");
  const said = lines.map((line) => line.trim()).filter((line) => !line.startsWith("kiki: "));
  const last = said.findLast((line) => line !== "");
  return (last ?? "").slice(0, LAST_LINE_CHARS);
}

// ---- processes ----------------------------------------------------------------------------------------------

/** Arguments on every system; the environment where the system shows it, which only its owner may read. */
function carrying(processes: Processes, token: string): ProcessIdentity[] {
  const found = new Map(processes.withArgument(token).map((p) => [p.pid, p]));
  for (const { pid, startTime, marked } of processes.sample([`${SETUP_MARKER}=${token}`]).processes)
    if (marked === "yes" && pid !== process.pid) found.set(pid, { pid, startTime });
  return [...found.values()];
}

/** A session's number is not given to a new process while a member is left. */
function ofSession(processes: Processes, leader: number): ProcessIdentity[] {
  return processes
    .sample([])
    .processes.filter((p) => p.session === leader)
    .map(({ pid, startTime }) => ({ pid, startTime }));
}

async function end(
  processes: Processes,
  find: () => ProcessIdentity[],
  graceMs: number,
): Promise<ProcessIdentity[]> {
  const ended = new Map<number, ProcessIdentity>();
  const signal = (name: "SIGTERM" | "SIGKILL", to: readonly ProcessIdentity[]): void => {
    for (const process of to) {
      ended.set(process.pid, process);
      processes.signal(process, name);
    }
  };
  const first = find();
  signal("SIGTERM", first);
  const grace = performance.now() + graceMs;
  while (find().length > 0 && performance.now() < grace) await Bun.sleep(END_POLL_MS);
  const deadline = performance.now() + KILL_WAIT_MS;
  for (;;) {
    // Found anew each time: one that was just started by another is ended as well.
    const left = find();
    if (left.length === 0) return [...ended.values()];
    if (performance.now() >= deadline) {
      throw fail(
        "failed",
        "recipe-still-running",
        `processes of the set-up recipe do not end: ${left.map((p) => p.pid).join(", ")}`,
        "end them, then try again",
      );
    }
    signal("SIGKILL", left);
    await Bun.sleep(END_POLL_MS);
  }
}
