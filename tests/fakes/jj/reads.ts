/** The pure reads of the fake: each looks at one operation, named in full, and at nothing else. */
import { fail } from "../../../src/core/errors.ts";
import { isOpId, type CommitId, type OpId } from "../../../src/core/ids.ts";
import type {
  BookmarkView,
  CommitRelations,
  CommitView,
  JjOperation,
  WorkspaceHead,
  WorkspaceView,
} from "../../../src/ports/jj.ts";
import { shownOperation, type JjEngine } from "./engine.ts";
import { evaluate } from "./revset.ts";
import type { Operation } from "./store.ts";
import { addsOf } from "./targets.ts";
import { lineDiff } from "./text-merge.ts";
import {
  conflictedPaths,
  isConflicted,
  materialised,
  pathsOf,
  valueAt,
  type Tree,
} from "./tree.ts";

export function operationAt(engine: JjEngine, op: OpId): Operation {
  if (!isOpId(op)) throw fail("failed", "jj-op-missing", `not a full operation id: ${op}`);
  if (engine.lost.has(op))
    throw fail("failed", "jj-op-missing", `No operation ID matching "${op}"`);
  return engine.store.operation(op);
}

/**
 * Children before parents. Of concurrent operations the one whose merge names it first comes first, whatever the
 * time: as in `jj op log`, an order that says nothing.
 */
export function operations(engine: JjEngine, head: OpId, limit: number): JjOperation[] {
  const found: Operation[] = [];
  let next: Operation | undefined = operationAt(engine, head);
  while (next !== undefined && found.length < limit) {
    const parents: Operation[] = next.parents.map((id) => engine.store.operation(id));
    if (parents.length < 2) {
      found.push(next);
      [next] = parents;
    } else {
      const common = engine.store.commonOperation(parents);
      found.push(...between(engine, next, common));
      next = common;
    }
  }
  return found.slice(0, limit).map(shownOperation);
}

/** `from` and what it is made of, without what `common` is made of. */
function between(engine: JjEngine, from: Operation, common: Operation): Operation[] {
  const order: Operation[] = [];
  const entered = new Set<OpId>([from.id]);
  const stack = [{ op: from, left: from.parents.length }];
  while (stack.length > 0) {
    const frame = stack.at(-1)!;
    frame.left -= 1;
    const id = frame.op.parents[frame.left];
    if (id === undefined) {
      order.push(frame.op);
      stack.pop();
      continue;
    }
    const op = engine.store.operation(id);
    if (entered.has(id) || engine.store.isAncestorOp(op, common)) continue;
    entered.add(id);
    stack.push({ op, left: op.parents.length });
  }
  return order.reverse();
}

export function workspaces(engine: JjEngine, op: Operation): WorkspaceView[] {
  return [...op.view.workspaces]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([workspace, id]) => {
      const { hidden: _hidden, ...view } = commitView(engine, op, id);
      return { workspace, root: engine.roots.get(workspace) ?? null, ...view };
    });
}

export function workspaceHeads(engine: JjEngine, ops: readonly OpId[]): Map<OpId, WorkspaceHead[]> {
  const heads = (op: OpId): WorkspaceHead[] =>
    workspaces(engine, operationAt(engine, op)).map((w) => ({
      workspace: w.workspace,
      changeId: w.changeId,
      commitId: w.commitId,
      parents: w.parents,
    }));
  return new Map(ops.map((op) => [op, heads(op)]));
}

/** Newest first, like every list of commits. */
export function relations(
  engine: JjEngine,
  op: Operation,
  ids: readonly CommitId[],
  of: readonly CommitId[],
): CommitRelations[] {
  const { store } = engine;
  const known = (list: readonly CommitId[]): CommitId[] =>
    [...new Set(list)].filter((id) => store.knows(op, id));
  const against = known(of);
  const wanted = known(ids);
  if (wanted.length === 0) return [];
  return commits(engine, op, wanted.map((id) => `present(${id})`).join("|")).map((commit) => ({
    ...commit,
    behind: against.filter((id) => store.isAncestor(commit.commitId, id)),
  }));
}

export function commits(engine: JjEngine, op: Operation, revset: string): CommitView[] {
  return evaluate({ engine, op, workspace: "default" }, revset).map((id) =>
    commitView(engine, op, id),
  );
}

export function commitView(engine: JjEngine, op: Operation, id: CommitId): CommitView {
  const commit = engine.store.commit(id);
  const { visible, byChange } = engine.store.index(op.view);
  return {
    commitId: id,
    changeId: commit.change,
    parents: [...commit.parents],
    description: commit.description.split("\n")[0]!,
    conflict: isConflicted(commit.tree),
    empty: engine.store.isEmpty(commit),
    divergent: (byChange.get(commit.change)?.length ?? 0) > 1,
    immutable: engine.immutableIn(op.view).has(id),
    hidden: !visible.has(id),
  };
}

/** By every recorded predecessor, newest first. */
export function evolvedFrom(engine: JjEngine, op: Operation, id: CommitId): CommitId[] {
  checkKnown(engine, op, id);
  const found = new Set([id]);
  for (const next of found)
    for (const before of engine.store.commit(next).predecessors) found.add(before);
  return [...found].sort((a, b) => engine.store.commit(b).seq - engine.store.commit(a).seq);
}

export function bookmarks(op: Operation): BookmarkView[] {
  return [...op.view.bookmarks]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, target]) => ({ name, targets: addsOf(target) }));
}

/** A file that is gone and one with its content that came are one rename. */
export function changedPaths(from: Tree, to: Tree): { status: string; path: string }[] {
  const changed = differences(from, to);
  const gone = new Map(changed.filter((c) => c.to === null).map((c) => [c.from!, c.path]));
  const renamed = new Set<string>();
  const shown = changed.map(({ path, from: before, to: after }) => {
    if (before !== null) return { status: after === null ? "D" : "M", path };
    const source = after!.length > 2 ? gone.get(after!) : undefined;
    if (source === undefined) return { status: "A", path };
    gone.delete(after!);
    renamed.add(source);
    return { status: "R", path };
  });
  return shown.filter(({ status, path }) => status !== "D" || !renamed.has(path));
}

export function conflicts(tree: Tree): string[] {
  return conflictedPaths(tree);
}

export function diffText(from: Tree, to: Tree): string {
  return differences(from, to)
    .map(({ path, from: before, to: after }) => {
      const { removed, added } = lineDiff(before?.slice(2) ?? "", after?.slice(2) ?? "");
      const lines = [...removed.map((l) => `-${l}`), ...added.map((l) => `+${l}`)];
      const ended = lines.map((line) => (line.endsWith("\n") ? line : `${line}\n`));
      return `diff --git a/${path} b/${path}\n${ended.join("")}`;
    })
    .join("");
}

export function diffStat(from: Tree, to: Tree): string {
  const changed = differences(from, to);
  const lines = changed.map(({ path, from: before, to: after }) => {
    const { removed, added } = lineDiff(before?.slice(2) ?? "", after?.slice(2) ?? "");
    return `${path} | ${removed.length + added.length}\n`;
  });
  return `${lines.join("")}${changed.length} files changed\n`;
}

/** What `jj st` would say, without recording anything. */
export function statusText(engine: JjEngine, root: string): string {
  if (engine.heads.size > 1) {
    return `${engine.heads.size} concurrent operations wait to be merged: the next jj command in this repository does it\n`;
  }
  const record = engine.disk.record(root);
  if (record === null) throw fail("failed", "jj-failed", `There is no jj repo in "${root}"`);
  const head = engine.newestHead();
  if (!head.view.workspaces.has(record.workspace)) return "No working copy.\n";
  const freshness = engine.freshness(record, head, record.workspace);
  if (freshness !== "fresh")
    return `workspace is ${freshness}: files are from before operation ${head.id.slice(0, 12)}\n`;
  const at = engine.store.commit(head.view.workspaces.get(record.workspace)!);
  const changed = changedPaths(
    engine.store.parentTree(at.parents),
    engine.disk.snapshot(root, record.tree),
  );
  const first =
    changed.length === 0 ? "The working copy has no changes.\n" : "Working copy changes:\n";
  const lines = changed.map(({ status, path }) => `${status} ${path}\n`).join("");
  return `${first}${lines}Working copy  (@) : ${at.description}\n`;
}

export function treeOf(engine: JjEngine, op: Operation, id: CommitId): Tree {
  checkKnown(engine, op, id);
  return engine.store.commit(id).tree;
}

export function checkKnown(engine: JjEngine, op: Operation, id: CommitId): void {
  if (!engine.store.knows(op, id))
    throw fail("failed", "jj-revset", `Revision \`${id}\` doesn't exist`);
}

interface PathDifference {
  path: string;
  from: string | null;
  to: string | null;
}

function differences(from: Tree, to: Tree): PathDifference[] {
  const paths = [...new Set([...pathsOf(from), ...pathsOf(to)])].sort();
  return paths
    .map((path) => ({
      path,
      from: materialised(valueAt(from, path)),
      to: materialised(valueAt(to, path)),
    }))
    .filter((difference) => difference.from !== difference.to);
}
