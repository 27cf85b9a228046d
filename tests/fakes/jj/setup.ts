/** What is in a fake repository before a story begins. */
import type { CommitId } from "../../../src/core/ids.ts";
import type { Caller, JjEngine } from "./engine.ts";
import { Transaction } from "./transaction.ts";
import { EMPTY_TREE, withPaths } from "./tree.ts";

const PERSON: Caller = { args: "", workspace: null, root: null };

/** A workspace that was there before kiki, with a new change on `parents`. */
export function workspace(
  engine: JjEngine,
  headsFolder: string,
  { name, root, parents }: { name: string; root: string; parents: readonly CommitId[] },
): CommitId {
  const { files } = engine.disk;
  files.makeFolders(root);
  if (root === engine.location.repoRoot) files.makeFolders(headsFolder);
  else files.put(`${root}/.jj/repo`, engine.location.repoDir);
  if (engine.location.colocated) engine.git.add(root);
  engine.roots.set(name, root);
  const op = engine.reconcile(PERSON);
  const tx = new Transaction(engine.store, op.view);
  const made = tx.write({ parents });
  tx.edit(name, made.id);
  const caller = { ...PERSON, workspace: name, root };
  const done = engine.publish(tx, op, `add workspace '${name}'`, caller);
  engine.disk.setRecord(root, { op: done.id, workspace: name, tree: EMPTY_TREE });
  engine.updateFiles(done, caller);
  return made.id;
}

/** A commit outside every workspace: `files` on top of its parent's. */
export function commit(
  engine: JjEngine,
  input: { parent: CommitId; description: string; files: Record<string, string> },
): CommitId {
  const { parent, description } = input;
  const changes = new Map(Object.entries(input.files).map(([path, text]) => [path, `f:${text}`]));
  const tree = withPaths(engine.store.commit(parent).tree, changes);
  let id = "";
  engine.run(PERSON, (tx) => {
    ({ id } = tx.write({ parents: [parent], description, tree }));
    return "new empty commit";
  });
  return id;
}
