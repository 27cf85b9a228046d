/**
 * What differs between a workspace's files and jj's record of them (facts: jj §3), without a jj command: tracked
 * files by stat and, where that does not clear them, by content; new files by git's ignore rules, which are jj's;
 * and paths a coming update would collide with. Reads only.
 */
import { isUtf8 } from "node:buffer";
import { existsSync, lstatSync, readdirSync, type BigIntStats, type Dirent } from "node:fs";
import { dirname, join } from "node:path";
import type { OpId } from "../../core/ids.ts";
import type { RunResult } from "../exec.ts";
import { git, readBytes } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { contentHash } from "./content.ts";
import {
  FILE_EXECUTABLE,
  FILE_NORMAL,
  FILE_SYMLINK,
  type FileState,
  type TreeState,
} from "./protobuf.ts";
import { resolveEntry, type GitTrees } from "./trees.ts";
import { Unproved } from "./unproved.ts";

/** One path that differs. The letter is `WorkspaceProbe.changed`'s; the hash goes into the fingerprint only. */
export interface Difference {
  letter: "M" | "A" | "D" | "T" | "C";
  path: string;
  /** SHA-256 of what lies there; "" when there is nothing to hash. */
  hash: string;
}

export interface WorkingCopy {
  root: string;
  /** git directory of the repository's store. */
  gitDir: string;
  state: TreeState;
  /** Modification time of the `tree_state` file itself, milliseconds rounded down. */
  stateMtime: number;
  /** Operation the files were last written for. */
  checkoutOp: OpId;
}

/** Gives the event loop a turn now and then: a large workspace takes 100 ms, and other agents' hooks wait. */
const SLICE_MS = 4;

/** Tracked files that are gone, of another type, or have other content than the recorded tree. */
export async function trackedDifferences(
  ctx: JjContext,
  trees: GitTrees,
  copy: WorkingCopy,
): Promise<Difference[]> {
  const found: Difference[] = [];
  const suspects: FileState[] = [];
  const isRealFolder = realFolders(copy.root);
  const breathe = slices(ctx);
  for (const file of copy.state.files) {
    const stat = isRealFolder(dirname(file.path)) ? statOf(join(copy.root, file.path)) : null;
    const type = stat === null ? null : typeOf(stat);
    if (stat === null) found.push({ letter: "D", path: file.path, hash: "" });
    else if (type === null) found.push({ letter: "T", path: file.path, hash: "" });
    else if (!isClean(stat, type, file, copy.stateMtime)) suspects.push(file);
    await breathe();
  }
  if (suspects.length === 0) return found;
  const terms = await Promise.all(copy.state.trees.map((tree) => trees.listing(tree)));
  for (const file of suspects) {
    const difference = await compare(ctx, copy, file, resolveEntry(terms, file.path));
    if (difference !== null) found.push(difference);
    await breathe();
  }
  return found;
}

/** jj's own rule: same type, size and time, and older than the record itself (else it may have changed since). */
function isClean(stat: BigIntStats, type: number, file: FileState, stateMtime: number): boolean {
  const mtime = Number(stat.mtimeNs / 1_000_000n);
  return (
    type === file.type &&
    mtime === file.mtime &&
    Number(stat.size) === file.size &&
    mtime < stateMtime
  );
}

async function compare(
  ctx: JjContext,
  copy: WorkingCopy,
  file: FileState,
  entry: ReturnType<typeof resolveEntry>,
): Promise<Difference | null> {
  const path = join(copy.root, file.path);
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined)
    throw new Unproved("busy", `${file.path} vanished while it was looked at`);
  const { blob, sha256 } = contentHash(path, stat);
  const changed: Difference = { letter: "M", path: file.path, hash: sha256 };
  const type = typeOf(stat);
  if (entry === "conflict") {
    // Compared with jj's own rendering of the conflict, as it was checked out. The type is jj's record.
    const wanted = await readBytes(
      ctx,
      copy.checkoutOp,
      "show a conflict",
      ["file", "show", "-r", "@", `root-file:${JSON.stringify(file.path)}`],
      { workspaceRoot: copy.root },
    );
    const same = new Bun.CryptoHasher("sha256").update(wanted).digest("hex") === sha256;
    return same && type === file.type ? null : changed;
  }
  const mode = type === FILE_SYMLINK ? "120000" : type === FILE_EXECUTABLE ? "100755" : "100644";
  return entry !== undefined && entry.mode === mode && entry.id === blob ? null : changed;
}

/** Every file git does not ignore, NUL-terminated; a nested repository is its folder, with a slash. */
export function listOthers(ctx: JjContext, gitDir: string, root: string): Promise<RunResult> {
  const settings = ["-c", "core.untrackedCache=false", "-c", "core.fsmonitor=false"];
  const list = ["ls-files", "--others", "--exclude-standard", "-x", "/.jj", "-z"];
  return git(ctx, gitDir, [`--work-tree=${root}`, ...settings, ...list], {
    cwd: root,
    // With an index that does not exist every file that is not ignored is an "other" one.
    env: { GIT_INDEX_FILE: join(gitDir, "kiki-no-such-index") },
  });
}

/** New files jj would record: not tracked, not ignored, not in a nested repository, not too big, named in UTF-8. */
export async function newFiles(
  ctx: JjContext,
  copy: WorkingCopy,
  tracked: ReadonlySet<string>,
  maxNewFileBytes: () => Promise<number>,
): Promise<Difference[]> {
  if (await holdsTrackedOnly(ctx, copy.root, tracked)) return [];
  const result = await listOthers(ctx, copy.gitDir, copy.root);
  if (result.code !== 0 || result.stderr !== "") {
    throw new Unproved("unreadable", `git cannot list the files: ${result.stderr.split("\n")[0]}`);
  }
  const limit = await maxNewFileBytes();
  const isNested = nestedRepositories(copy.root);
  const breathe = slices(ctx);
  const found: Difference[] = [];
  for (const bytes of splitAtZero(result.stdout)) {
    // A trailing slash is a nested repository; names that are not UTF-8 jj does not record.
    if (!isUtf8(bytes) || bytes.at(-1) === 0x2f) continue;
    const path = bytes.toString("utf8");
    if (tracked.has(path) || isNested(dirname(path))) continue;
    const stat = lstatSync(join(copy.root, path), { throwIfNoEntry: false });
    if (stat === undefined) throw new Unproved("busy", `${path} vanished while it was looked at`);
    if (stat.size > limit) continue;
    found.push({ letter: "A", path, hash: contentHash(join(copy.root, path), stat).sha256 });
    await breathe();
  }
  return found;
}

/**
 * Whether every file below the workspace is a tracked one: then no ignore rule matters, and git need not be asked. Folder
 * by folder from the top, so that what is ignored there (`node_modules`) ends it at once.
 */
async function holdsTrackedOnly(
  ctx: JjContext,
  root: string,
  tracked: ReadonlySet<string>,
): Promise<boolean> {
  const breathe = slices(ctx);
  const folders = [""];
  for (const folder of folders) {
    let entries: Dirent[];
    try {
      entries = readdirSync(join(root, folder), { withFileTypes: true });
    } catch {
      return false; // git says what is wrong with it
    }
    for (const entry of entries) {
      // The workspace's own; anywhere else they are a repository in it.
      if (folder === "" && (entry.name === ".jj" || entry.name === ".git")) continue;
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) folders.push(path);
      else if (!tracked.has(path)) return false;
    }
    await breathe();
  }
  return true;
}

/**
 * Paths on disk that jj does not track and that stand where the target tree has a file: an update would silently
 * keep the old content, and the next snapshot would record it as an edit that reverts the parent.
 */
export function collisions(
  root: string,
  tracked: ReadonlySet<string>,
  targetPaths: Iterable<string>,
): Difference[] {
  const found = new Map<string, Difference>();
  const known = new Map<string, "folder" | "free" | "taken">([[".", "folder"]]);
  // What the parents of a coming file are: real folders, nothing, something tracked that goes away, or in the way.
  const parent = (folder: string): "folder" | "free" | "taken" => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    let state = parent(dirname(folder));
    if (state === "folder") {
      const stat = lstatSync(join(root, folder), { throwIfNoEntry: false });
      if (stat === undefined || (!stat.isDirectory() && tracked.has(folder))) state = "free";
      else if (!stat.isDirectory()) {
        state = "taken";
        found.set(folder, collision(root, folder));
      }
    }
    known.set(folder, state);
    return state;
  };
  const isNested = nestedRepositories(root);
  for (const path of targetPaths) {
    if (tracked.has(path) || parent(dirname(path)) !== "folder") continue;
    // jj writes it, sees only the other repository's folder afterwards, and records that it is gone.
    if (isNested(dirname(path))) {
      found.set(path, collision(root, path));
      continue;
    }
    const stat = lstatSync(join(root, path), { throwIfNoEntry: false });
    if (stat === undefined) continue;
    if (stat.isDirectory() && holdsOnlyTracked(root, path, tracked)) continue;
    found.set(path, collision(root, path));
  }
  return [...found.values()];
}

function collision(root: string, path: string): Difference {
  const stat = lstatSync(join(root, path), { throwIfNoEntry: false });
  const hashable = stat !== undefined && (stat.isFile() || stat.isSymbolicLink());
  return { letter: "C", path, hash: hashable ? contentHash(join(root, path), stat).sha256 : "" };
}

/** jj removes the tracked files of a folder that becomes a file, and then the folder, if nothing else is in it. */
function holdsOnlyTracked(root: string, folder: string, tracked: ReadonlySet<string>): boolean {
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  return (
    entries.length > 0 &&
    entries.every((entry) => {
      const path = `${folder}/${entry.name}`;
      return entry.isDirectory() ? holdsOnlyTracked(root, path, tracked) : tracked.has(path);
    })
  );
}

/** Whether a folder and all its parents are real folders: jj never looks through a symlink. */
export function realFolders(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>([[".", true]]);
  const isReal = (folder: string): boolean => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    const real = isReal(dirname(folder)) && statOf(join(root, folder))?.isDirectory() === true;
    known.set(folder, real);
    return real;
  };
  return isReal;
}

/** Whether a folder lies in a repository of its own, by jj's rule: it or a parent holds `.git` or `.jj`. */
function nestedRepositories(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>([[".", false]]);
  const isNested = (folder: string): boolean => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    const nested =
      isNested(dirname(folder)) ||
      existsSync(join(root, folder, ".git")) ||
      existsSync(join(root, folder, ".jj"));
    known.set(folder, nested);
    return nested;
  };
  return isNested;
}

/** null when nothing is there; any other failure means that nothing can be proved. */
function statOf(path: string): BigIntStats | null {
  try {
    return lstatSync(path, { bigint: true });
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new Unproved("unreadable", `${path}: ${String(code)}`);
  }
}

/** null for what jj does not track: folders, fifos, sockets, devices. */
function typeOf(stat: {
  isSymbolicLink(): boolean;
  isFile(): boolean;
  mode: number | bigint;
}): number | null {
  if (stat.isSymbolicLink()) return FILE_SYMLINK;
  if (!stat.isFile()) return null;
  return (Number(stat.mode) & 0o111) === 0 ? FILE_NORMAL : FILE_EXECUTABLE;
}

export function* splitAtZero(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(0, at);
    const stop = end < 0 ? bytes.length : end;
    if (stop > at) yield bytes.subarray(at, stop);
    at = stop + 1;
  }
}

/** Awaited between pieces of work of one look. */
export function slices(ctx: JjContext): () => Promise<void> | undefined {
  let since = ctx.clock.monotonic();
  return () => {
    if (ctx.clock.monotonic() - since < SLICE_MS) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        since = ctx.clock.monotonic();
        resolve();
      });
    });
  };
}
