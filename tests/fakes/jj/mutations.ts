/** kiki's own commands on the fake: what each `JjRepo` mutation does to view and files, without its faults. */
import { fail } from "../../../src/core/errors.ts";
import type { CommitId, OpId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { JjRepo, StagedOperation } from "../../../src/ports/jj.ts";
import { anonymous, type Caller, type JjEngine } from "./engine.ts";
import type { Commit, View } from "./store.ts";
import { Transaction } from "./transaction.ts";
import { EMPTY_TREE } from "./tree.ts";

/** jj's symbol grammar as far as kiki's names go; and, stricter than jj, only what git takes for a ref as well. */
const BOOKMARK = /^[\p{L}\p{N}_*]+(?:[/.+-][\p{L}\p{N}_*]+)*$/u;
const MAX_NAME = 200;

/** From the neutral folder: nobody's files are looked at. */
export function fromNeutral(token: string, command: string): Caller {
  return {
    args: `jj --config kiki.token=${token} -R neutral ${command}`,
    workspace: "kiki",
    root: null,
  };
}

/** Every commit is named by its full id. */
export function checkFullIds(ids: readonly CommitId[]): void {
  const short = ids.find((id) => !/^[0-9a-f]{40}$/.test(id));
  if (short !== undefined) throw new Error(`not a full commit id: ${short}`);
}

/** A workspace made from the main one, and forgotten: three operations and a folder that stays usable. */
export function makeNeutral(engine: JjEngine, folder: string, token: string): void {
  const { repoRoot, repoDir } = engine.location;
  const record = engine.disk.record(repoRoot);
  if (record === null) throw fail("failed", "jj-failed", `There is no jj repo in "${repoRoot}"`);
  const main = { ...fromNeutral(token, "workspace add"), workspace: record.workspace };
  const op = engine.begin({ ...main, root: repoRoot });
  const name = `kiki-neutral-${token.replace(/[^0-9A-Za-z]/g, "").slice(0, 8)}`;
  const caller = { ...main, workspace: name };
  const first = new Transaction(engine.store, op.view);
  first.edit(name, first.write({ parents: [ROOT_COMMIT] }).id);
  const added = engine.publish(first, op, `add workspace '${name}'`, anonymous(caller));
  const second = new Transaction(engine.store, added.view);
  second.edit(name, second.write({ parents: [ROOT_COMMIT] }).id);
  const description = `create initial working-copy commit in workspace ${name}`;
  engine.publish(second, added, description, caller);
  engine.disk.files.put(`${folder}/.jj/repo`, repoDir);
  forgetWorkspace(engine, name, caller);
}

export type NewWorkspace = Parameters<JjRepo["addWorkspace"]>[0];

/** Two operations; `moment` is told of what a crash can leave. */
export function addWorkspace(
  engine: JjEngine,
  input: NewWorkspace,
  moment: (name: string) => void,
): void {
  const { name, path, base } = input;
  const { files } = engine.disk;
  const caller = fromNeutral(input.token, `workspace add --name=${name} ${path}`);
  checkFullIds([base]);
  checkPlace(engine, path);
  if (name === "") throw fail("failed", "jj-failed", "New workspace name cannot be empty");
  const op = engine.reconcile(caller);
  if (op.view.workspaces.has(name)) {
    throw fail("failed", "jj-workspace-exists", `Workspace named '${name}' already exists`);
  }
  if (!engine.store.index(op.view).visible.has(base))
    throw fail("failed", "jj-failed", `${base} is hidden: it would come back`);
  files.makeFolders(path);
  moment("folder");
  files.put(`${path}/.jj/repo`, engine.location.repoDir);
  if (engine.location.colocated) engine.git.add(path);
  moment("tool-files");
  engine.roots.set(name, path);
  const first = new Transaction(engine.store, op.view);
  first.edit(name, first.write({ parents: [ROOT_COMMIT] }).id);
  const added = engine.publish(first, op, `add workspace '${name}'`, anonymous(caller));
  engine.disk.setRecord(path, { op: added.id, workspace: name, tree: EMPTY_TREE });
  moment("first-operation");
  const second = new Transaction(engine.store, added.view);
  second.edit(name, second.write({ parents: [base], description: input.description }).id);
  const own = { ...caller, workspace: name, root: path };
  const description = `create initial working-copy commit in workspace ${name}`;
  const done = engine.publish(second, added, description, own);
  moment("second-operation");
  engine.updateFiles(done, own);
}

/** Files stay; a described or non-empty `@` stays visible. */
export function forgetWorkspace(engine: JjEngine, name: string, caller: Caller): void {
  engine.run(caller, (tx) => {
    tx.leave(name);
    tx.view.workspaces.delete(name);
    return `forget workspace ${name}`;
  });
}

export function abandon(engine: JjEngine, ids: readonly CommitId[], caller: Caller): void {
  checkFullIds(ids);
  engine.run(
    caller,
    (tx, op) => {
      engine.checkMutable(op.view, ids);
      for (const id of ids) tx.abandon(engine.store.commit(id));
      const more = ids.length === 1 ? "" : ` and ${ids.length - 1} more`;
      return `abandon commit ${ids[0]}${more}`;
    },
    { deleteBookmarksOfAbandoned: true },
  );
}

export function createBookmark(
  engine: JjEngine,
  name: string,
  { commit, of }: { commit: CommitId; of?: string | undefined },
  caller: Caller,
): void {
  checkFullIds([commit]);
  if (!BOOKMARK.test(name) || name.endsWith(".lock") || name === "HEAD" || name.length > MAX_NAME)
    throw fail("failed", "jj-failed", `Failed to parse bookmark name: ${name}`);
  engine.run(caller, (tx, op) => {
    if (of !== undefined && op.view.workspaces.get(of) !== commit)
      throw fail("failed", "jj-moved", `${commit} is not ${of}@: nothing to put ${name} on`);
    if (op.view.bookmarks.has(name))
      throw fail("failed", "jj-bookmark-exists", `Bookmark already exists: ${name}`);
    if (!engine.store.index(op.view).visible.has(commit))
      throw fail("failed", "jj-failed", `${commit} is hidden: it would come back`);
    tx.view.bookmarks.set(name, [commit]);
    return `create bookmark ${name} pointing to commit ${commit}`;
  });
}

export function deleteBookmark(engine: JjEngine, name: string, caller: Caller): void {
  engine.run(caller, (tx) => {
    tx.view.bookmarks.delete(name);
    return `delete bookmark ${name}`;
  });
}

/** `jj rebase -r chain --onto onto`: exactly the named commits; what stood on them goes to where they stood. */
export function stageRebase(
  engine: JjEngine,
  input: { at: OpId; chain: readonly CommitId[]; onto: CommitId },
  caller: Caller,
): StagedOperation {
  checkFullIds([...input.chain, input.onto]);
  const op = engine.store.operation(input.at);
  engine.checkMutable(op.view, input.chain);
  const onto = engine.store.commit(input.onto);
  if (!engine.store.index(op.view).visible.has(onto.id))
    throw fail("failed", "jj-failed", `${input.onto} is hidden: it would come back`);
  const tx = new Transaction(engine.store, op.view);
  if (moveCommits(engine, tx, op.view, input) === 0) {
    throw fail("failed", "jj-nothing-staged", "the revisions are already in place");
  }
  const newest = [...input.chain].sort(
    (a, b) => engine.store.commit(b).seq - engine.store.commit(a).seq,
  );
  const more = newest.length === 1 ? "" : ` and ${newest.length - 1} more`;
  const what = `rebase commit ${newest[0]}${more}`;
  const staged = engine.publish(tx, op, what, caller, { integrate: false });
  return { id: staged.id, notes: `uncommitted because requested: ${staged.id.slice(0, 12)}` };
}

/** Returns how many commits it moved. */
export function moveCommits(
  engine: JjEngine,
  tx: Transaction,
  view: View,
  input: { chain: readonly CommitId[]; onto: CommitId },
): number {
  const { store } = engine;
  const chain = new Set(input.chain);
  if (chain.has(input.onto))
    throw fail("failed", "jj-failed", `Cannot rebase ${input.onto} onto itself`);
  const { visible } = store.index(view);
  /** Where an unnamed commit ends up that stood on a named one. */
  const outside = (id: CommitId): CommitId[] =>
    chain.has(id) ? store.commit(id).parents.flatMap(outside) : [id];
  /** The nearest named commits at or below `id`. */
  const inside = (id: CommitId): CommitId[] =>
    chain.has(id) ? [id] : store.commit(id).parents.flatMap(inside);
  const moved = new Map<CommitId, CommitId>();
  let count = 0;
  const settle = (id: CommitId): CommitId => {
    const known = moved.get(id);
    if (known !== undefined) return known;
    const commit = store.commit(id);
    const parents = newParents(commit).map(settle);
    const same = parents.every((parent, at) => parent === commit.parents[at]);
    const next = same || !visible.has(id) ? id : tx.rebase(commit, parents).id;
    if (next !== id) count += 1;
    moved.set(id, next);
    return next;
  };
  const newParents = (commit: Commit): CommitId[] => {
    if (!chain.has(commit.id)) return [...new Set(commit.parents.flatMap(outside))];
    const within = [...new Set(commit.parents.flatMap(inside))];
    return within.length === 0 ? [input.onto] : within;
  };
  for (const id of visible) settle(id);
  return count;
}

function checkPlace(engine: JjEngine, path: string): void {
  const { files } = engine.disk;
  if (files.kindNow(path) !== "absent")
    throw fail("failed", "workspace-path-exists", `${path} already exists`);
  if (!files.isFolder(path.slice(0, path.lastIndexOf("/")) || "/"))
    throw fail("failed", "workspace-parent-missing", `the folder of ${path} does not exist`);
}
