/** `jj workspace update-stale` (jj 0.46), step by step: what it does to edits is the heart of the cascade. */
import { isConflicted, pathsOf, sameTree } from "./tree.ts";
import type { Caller, JjEngine } from "./engine.ts";
import { Transaction } from "./transaction.ts";

/**
 * Fresh: a snapshot. Stale: the files are recorded on top of the operation they are from (with edits that makes a
 * sibling operation, whose merge leaves the edits in a divergent commit), then they are replaced, then git HEAD is
 * imported and the files recorded once more. Never fails for what it finds.
 */
export function updateStale(engine: JjEngine, caller: Caller): void {
  const [root, workspace] = [caller.root!, caller.workspace!];
  const record = engine.disk.record(root);
  if (record === null) throw new Error(`${root} is no workspace`);
  const from = engine.store.operations.get(record.op);
  if (from === undefined || engine.lost.has(record.op)) return recover(engine, caller);
  if (from.view.workspaces.has(workspace)) engine.snapshot(from, caller);
  engine.onMoment("stale-snapshot");
  let op = engine.reconcile(caller);
  if (!op.view.workspaces.has(workspace)) return;
  const now = engine.disk.record(root)!;
  if (engine.freshness(now, op, workspace) !== "fresh") {
    engine.updateFiles(op, caller);
    op = resetGitHead(engine, caller);
  }
  op = engine.importGitHead(op, caller);
  engine.snapshot(op, caller);
}

/** A HEAD that git did not move follows the files; one that git moved is left to be imported. */
function resetGitHead(engine: JjEngine, caller: Caller): ReturnType<JjEngine["newestHead"]> {
  const [root, workspace] = [caller.root!, caller.workspace!];
  const op = engine.reconcile(caller);
  const believed = op.view.gitHeads.get(workspace) ?? null;
  const { parents } = engine.store.commit(op.view.workspaces.get(workspace)!);
  const actual = engine.git.head(root);
  if (actual === undefined || actual !== believed || actual === (parents[0] ?? null)) return op;
  const tx = new Transaction(engine.store, op.view);
  const next = engine.publish(tx, op, "reset git head", caller);
  const { tree } = engine.disk.record(root)!;
  engine.disk.setRecord(root, { op: next.id, workspace, tree });
  return next;
}

/** The operation the files are from is gone: everything on disk goes into a commit on top of `@`. */
function recover(engine: JjEngine, caller: Caller): void {
  const [root, workspace] = [caller.root!, caller.workspace!];
  const op = engine.reconcile(caller);
  const at = engine.store.commit(op.view.workspaces.get(workspace)!);
  const tx = new Transaction(engine.store, op.view);
  const description = "RECOVERY COMMIT FROM `jj workspace update-stale`";
  tx.edit(workspace, tx.write({ parents: [at.id], description, tree: at.tree }).id);
  const recovery = engine.publish(tx, op, "recovery commit", { ...caller, root: null });
  const whole = engine.disk.whole(root);
  const kept = isConflicted(at.tree) || pathsOf(whole).length > 0 ? whole : at.tree;
  engine.disk.setRecord(root, { op: recovery.id, workspace, tree: at.tree });
  if (sameTree(kept, at.tree)) return;
  const fill = new Transaction(engine.store, recovery.view);
  const commit = engine.store.commit(recovery.view.workspaces.get(workspace)!);
  fill.rewrite(commit, { tree: kept });
  const filled = engine.publish(fill, recovery, "snapshot working copy", caller, {
    isSnapshot: true,
  });
  engine.disk.setRecord(root, { op: filled.id, workspace, tree: kept });
}
