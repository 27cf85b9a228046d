/**
 * What lies in a workspace's folder, apart from what the repository records: its files, and jj's own record of what
 * it last wrote there (`.jj/working_copy`). Everything is in the fake file system, so a folder can be moved, lost or
 * tampered with like any other.
 */
import type { OpId } from "../../../src/core/ids.ts";
import type { FakeFiles } from "../files.ts";
import { isIgnored, type IgnoreFile } from "./ignore.ts";
import {
  isConflicted,
  materialised,
  pathsOf,
  resolved,
  valueAt,
  withPaths,
  writingOrder,
  type Entry,
  type Tree,
} from "./tree.ts";

/** jj's default `snapshot.max-new-file-size`. */
const MAX_NEW_FILE_BYTES = 1024 * 1024;

export interface DiskRecord {
  /** Operation the files were last written or recorded for. */
  op: OpId;
  workspace: string;
  tree: Tree;
}

export interface DiskChange {
  letter: "M" | "A" | "D" | "T";
  path: string;
  /** null: nothing jj would record lies there any more. */
  entry: Entry | null;
}

export class JjDisk {
  readonly files: FakeFiles;
  /** Patterns of `.git/info/exclude`. */
  exclude = "";
  /** Makes the error of a jj that is ended in the middle of an update, with a file written in half. */
  tear: (() => Error) | null = null;
  /** What that left, as `path NUL entry`. */
  readonly halves: string[] = [];
  readonly #trees: Tree[] = [];
  readonly #numbers = new Map<Tree, number>();

  constructor(files: FakeFiles) {
    this.files = files;
  }

  /** null when the folder is no workspace of jj's. */
  record(root: string): DiskRecord | null {
    const checkout = this.files.get(`${root}/.jj/working_copy/checkout`);
    const state = this.files.get(`${root}/.jj/working_copy/tree_state`);
    if (checkout === null || state === null) return null;
    const space = checkout.indexOf(" ");
    const tree = this.#trees[Number(state)];
    if (tree === undefined) return null;
    return { op: checkout.slice(0, space), workspace: checkout.slice(space + 1), tree };
  }

  setRecord(root: string, record: DiskRecord): void {
    this.setTreeState(root, record.tree);
    this.files.put(`${root}/.jj/working_copy/checkout`, `${record.op} ${record.workspace}`);
  }

  /** The first half of `setRecord` alone: what a jj that is killed in between leaves. */
  setTreeState(root: string, tree: Tree): void {
    let number = this.#numbers.get(tree);
    if (number === undefined) {
      number = this.#trees.push(tree) - 1;
      this.#numbers.set(tree, number);
    }
    this.files.put(`${root}/.jj/working_copy/tree_state`, String(number));
  }

  /** Files that differ from the recorded tree, and new ones that jj would record. */
  changes(root: string, tree: Tree): DiskChange[] {
    const tracked = pathsOf(tree);
    const found: DiskChange[] = [];
    for (const path of tracked) {
      const entry = this.entryAt(root, path);
      if (entry === materialised(valueAt(tree, path))) continue;
      if (entry !== null) found.push({ letter: "M", path, entry });
      else found.push({ letter: this.files.isFolder(`${root}/${path}`) ? "T" : "D", path, entry });
    }
    const known = new Set(tracked);
    for (const path of this.newFiles(root, known)) {
      found.push({ letter: "A", path, entry: this.entryAt(root, path) });
    }
    return found;
  }

  /** The tree jj's snapshot of the folder makes. */
  snapshot(root: string, tree: Tree): Tree {
    const changes = this.changes(root, tree);
    for (const { path, entry } of changes) {
      const before = isConflicted(tree) ? valueAt(tree, path) : "";
      if (typeof before !== "string" && entry?.includes("<<<<<<<") === true)
        throw new Error(`not in this fake: ${path} is a conflict that is resolved in part`);
    }
    return withPaths(tree, new Map(changes.map(({ path, entry }) => [path, entry])));
  }

  /** Every file jj would record of a folder it knows nothing about. */
  whole(root: string): Tree {
    return resolved(
      [...this.newFiles(root, new Set())].map((path) => [path, this.entryAt(root, path)!]),
    );
  }

  /**
   * Brings the files from one tree to another, as jj does: without looking whether they were changed meanwhile, and
   * leaving alone what it does not track. Returns the paths that were skipped for that reason.
   */
  update(root: string, from: Tree, to: Tree): string[] {
    const tracked = new Set(pathsOf(from));
    const skipped: string[] = [];
    const paths = writingOrder(from, to);
    const middle = Math.floor(paths.length / 2);
    for (const [at, path] of paths.entries()) {
      const entry = materialised(valueAt(to, path));
      if (entry === null) {
        if (this.entryAt(root, path) === null) continue;
        this.files.remove(`${root}/${path}`);
        this.#removeEmptyFolders(root, path);
      } else if (!this.#isFree(root, path, tracked)) skipped.push(path);
      else {
        if (at === middle && this.tear !== null) this.#tearAt(root, path, entry);
        this.write(root, path, entry);
      }
    }
    return skipped;
  }

  /** jj is ended while it writes this file; the old one is gone. */
  #tearAt(root: string, path: string, entry: Entry): never {
    this.files.remove(`${root}/${path}`);
    if (!entry.startsWith("l:")) {
      const half = `f:${entry.slice(2, 2 + entry.length / 2)}`;
      this.write(root, path, half);
      this.halves.push(`${path}\0${half}`);
    }
    throw this.tear!();
  }

  entryAt(root: string, path: string): Entry | null {
    const file = this.files.entryNow(`${root}/${path}`);
    if (file === null) return null;
    if (file.isLink) return `l:${file.text}`;
    return `${(file.mode & 0o111) === 0 ? "f" : "x"}:${file.text}`;
  }

  write(root: string, path: string, entry: Entry): void {
    const full = `${root}/${path}`;
    if (entry.startsWith("l:")) this.files.symlink(entry.slice(2), full);
    else this.files.put(full, entry.slice(2), entry.startsWith("x:") ? 0o755 : 0o644);
  }

  /** Not tracked, not ignored, not in a nested repository, not too big. */
  *newFiles(root: string, tracked: ReadonlySet<string>, bounded = true): Generator<string> {
    const all = this.files.below(root).map((path) => path.slice(root.length + 1));
    const others = all.filter(
      (path) => !tracked.has(path) && !path.startsWith(".jj/") && !/^\.git(\/|$)/.test(path),
    );
    if (others.length === 0) return;
    const ignores = this.#ignoreFiles(root, all);
    for (const path of others) {
      if (isIgnored(path, ignores) || this.isNested(root, path)) continue;
      const size = Buffer.byteLength(this.files.entryNow(`${root}/${path}`)!.text);
      if (!bounded || size <= MAX_NEW_FILE_BYTES) yield path;
    }
  }

  #ignoreFiles(root: string, all: readonly string[]): IgnoreFile[] {
    const nested = all.filter((path) => path === ".gitignore" || path.endsWith("/.gitignore"));
    return [
      // `*.ignored` stands for what the person's own git configuration ignores.
      { folder: "", text: `*.ignored\n${this.exclude}` },
      ...nested.map((path) => ({
        folder: path.slice(0, -".gitignore".length).replace(/\/$/, ""),
        text: this.files.get(`${root}/${path}`) ?? "",
      })),
    ];
  }

  /** Below a folder that is a repository of its own. */
  isNested(root: string, path: string): boolean {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
      const folder = `${root}/${path.slice(0, at)}`;
      if ([".git", ".jj"].some((name) => this.files.kindNow(`${folder}/${name}`) !== "absent"))
        return true;
    }
    return false;
  }

  /** jj writes a file where there is nothing, or what it tracks. */
  #isFree(root: string, path: string, tracked: ReadonlySet<string>): boolean {
    for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
      if (this.files.entryNow(`${root}/${path.slice(0, at)}`) !== null) return false;
    }
    const full = `${root}/${path}`;
    if (this.files.isFolder(full)) {
      this.files.removeEmptyFolder(full);
      return !this.files.isFolder(full);
    }
    return tracked.has(path) || this.files.entryNow(full) === null;
  }

  #removeEmptyFolders(root: string, path: string): void {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
      this.files.removeEmptyFolder(`${root}/${path.slice(0, at)}`);
    }
  }
}
