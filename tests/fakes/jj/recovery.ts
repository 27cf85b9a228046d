/** What recovering edits asks of jj, on the model. */
import { createHash } from "node:crypto";
import { fail } from "../../../src/core/errors.ts";
import type { CommitId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { LooseFile, PathProgress } from "../../../src/ports/jj.ts";
import type { Caller, JjEngine } from "./engine.ts";
import { checkKnown } from "./reads.ts";
import type { Operation } from "./store.ts";
import { Transaction } from "./transaction.ts";
import {
  conflictedPaths,
  materialised,
  mergeTrees,
  pathsOf,
  valueAt,
  writingOrder,
  type Tree,
} from "./tree.ts";

/** `from` is moved onto the parents of `to` in memory, and compared. */
export function sameChange(engine: JjEngine, at: Operation, from: CommitId, to: CommitId): boolean {
  for (const id of [from, to]) checkKnown(engine, at, id);
  const [a, b] = [engine.store.commit(from), engine.store.commit(to)];
  if (a.description !== b.description) return false;
  const moved = mergeTrees(
    engine.store.parentTree(b.parents),
    engine.store.parentTree(a.parents),
    a.tree,
    ["", "", ""],
  );
  return sameContent(moved, b.tree);
}

/** Conflicts are equal by their sides, whatever they are called. */
function sameContent(a: Tree, b: Tree): boolean {
  const paths = new Set([...pathsOf(a), ...pathsOf(b)]);
  return [...paths].every(
    (path) => JSON.stringify(valueAt(a, path)) === JSON.stringify(valueAt(b, path)),
  );
}

/** Every path at which not all terms of the two have the same entry. */
export function touchedPaths(from: Tree, to: Tree): string[] {
  const terms = [...from.terms, ...to.terms];
  const paths = new Set(terms.flatMap((term) => [...term.keys()]));
  return [...paths]
    .filter((path) => terms.some((term) => term.get(path) !== terms[0]!.get(path)))
    .sort();
}

export function differing(
  engine: JjEngine,
  tree: Tree,
  folder: string,
  paths: readonly string[],
): string[] {
  const conflicts = new Set(conflictedPaths(tree));
  return paths.filter((path) => {
    if (conflicts.has(path)) return true;
    const entry = engine.disk.entryAt(folder, path);
    return entry !== materialised(valueAt(tree, path));
  });
}

/** Every path that is not the same in both, in the order in which jj writes them. */
export function updateProgress(
  engine: JjEngine,
  from: Tree,
  to: Tree,
  root: string,
): PathProgress[] {
  return writingOrder(from, to).flatMap((path): PathProgress[] => {
    const [old, wanted] = [materialised(valueAt(from, path)), materialised(valueAt(to, path))];
    const entry = engine.disk.entryAt(root, path);
    const sha256 =
      entry === null ? null : createHash("sha256").update(entry.slice(2)).digest("hex");
    const state =
      entry === old
        ? "from"
        : entry === wanted
          ? "to"
          : isBegun(entry, wanted) && !engine.disk.files.isFolder(`${root}/${path}`)
            ? "begun"
            : "other";
    return [{ path, state, had: old !== null, sha256 }];
  });
}

/** Nothing, or a beginning of a file that is not executable yet. */
function isBegun(entry: string | null, wanted: string | null): boolean {
  if (entry === null) return true;
  if (entry === "f:") return wanted !== null;
  if (wanted === null || wanted.startsWith("l:") || !entry.startsWith("f:")) return false;
  return wanted.slice(2).startsWith(entry.slice(2));
}

export function gitHead(
  engine: JjEngine,
  root: string,
  workspace: string,
  at: Operation,
): { actual: CommitId | null; expected: CommitId | null } | null {
  const actual = engine.git.head(root);
  if (actual === undefined) return null;
  const recorded = at.view.gitHeads.get(workspace);
  if (recorded !== undefined) return { actual, expected: recorded };
  const record = engine.disk.record(root);
  const from = record === null ? undefined : engine.store.operations.get(record.op);
  const base = from?.view.workspaces.get(workspace);
  const parent = base === undefined ? undefined : engine.store.commit(base).parents[0];
  return { actual, expected: parent === undefined || parent === ROOT_COMMIT ? null : parent };
}

export function looseFiles(engine: JjEngine, root: string): LooseFile[] {
  const record = engine.disk.record(root);
  const tracked = record === null ? [] : pathsOf(record.tree);
  const others = [...engine.disk.newFiles(root, new Set(tracked), false)];
  const bytes = (path: string): Uint8Array => new TextEncoder().encode(path);
  return [
    ...tracked.map((path) => ({ path: bytes(path), tracked: true })),
    ...others.map((path) => ({ path: bytes(path), tracked: false })),
  ];
}

/** Stricter than jj: only one that is there already. */
export function setBookmark(
  engine: JjEngine,
  name: string,
  commit: CommitId,
  caller: Caller,
): void {
  engine.run(caller, (tx, op) => {
    if (!op.view.bookmarks.has(name)) throw fail("failed", "jj-failed", `no bookmark ${name}`);
    if (!engine.store.index(op.view).visible.has(commit))
      throw fail("failed", "jj-failed", `${commit} is hidden: it would come back`);
    tx.view.bookmarks.set(name, [commit]);
    return `point bookmark ${name} to commit ${commit}`;
  });
}

/** `jj edit`: the files are recorded first, as by every command in a workspace. */
export function edit(engine: JjEngine, caller: Caller, commit: CommitId): void {
  engine.run(caller, (tx: Transaction, op) => {
    engine.checkMutable(op.view, [commit]);
    // Stricter than jj, which would bring it back.
    if (!engine.store.index(op.view).visible.has(commit))
      throw fail("failed", "jj-failed", `${commit} is hidden: it would come back`);
    tx.edit(caller.workspace!, commit);
    return `edit commit ${commit}`;
  });
}
