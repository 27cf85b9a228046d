/** How jj merges concurrent operation heads: view by view against their nearest common operation. */
import type { ChangeId, CommitId } from "../../../src/core/ids.ts";
import type { JjStore, View } from "./store.ts";
import { isAbsent, mergeTargets, NO_TARGET } from "./targets.ts";
import type { Transaction } from "./transaction.ts";

/** Merges `other` into `tx`, whose view stands for `own`; what descendants have to follow is noted in `tx`. */
export function mergeView(store: JjStore, tx: Transaction, base: View, other: View): void {
  const own = new Set(tx.view.heads);
  mergeNames(tx.view.workspaces, base.workspaces, other.workspaces);
  mergeNames(tx.view.gitHeads, base.gitHeads, other.gitHeads);
  noteRewrites(store, tx, base.heads, own);
  noteRewrites(store, tx, base.heads, other.heads);
  for (const head of other.heads) if (!base.heads.has(head)) tx.addHead(head);
  const isAncestor = (a: CommitId, b: CommitId): boolean => store.isAncestor(a, b);
  for (const name of new Set([...base.bookmarks.keys(), ...other.bookmarks.keys()])) {
    const merged = mergeTargets(
      tx.view.bookmarks.get(name) ?? NO_TARGET,
      base.bookmarks.get(name) ?? NO_TARGET,
      other.bookmarks.get(name) ?? NO_TARGET,
      isAncestor,
    );
    if (isAbsent(merged)) tx.view.bookmarks.delete(name);
    else tx.view.bookmarks.set(name, merged);
  }
}

/** A removal beats a move; of two moves the earlier operation's stays. */
function mergeNames(
  own: Map<string, CommitId>,
  base: ReadonlyMap<string, CommitId>,
  other: ReadonlyMap<string, CommitId>,
): void {
  for (const name of new Set([...base.keys(), ...other.keys()])) {
    const [mine, before, theirs] = [own.get(name), base.get(name), other.get(name)];
    if (before === theirs || mine === theirs) continue;
    if (mine !== before && mine !== undefined && theirs !== undefined) continue;
    if (theirs === undefined) own.delete(name);
    else if (mine !== undefined || before === undefined) own.set(name, theirs);
  }
}

/** Commits that one side hid were rewritten into what it shows of the same change, or abandoned. */
function noteRewrites(
  store: JjStore,
  tx: Transaction,
  oldHeads: ReadonlySet<CommitId>,
  newHeads: ReadonlySet<CommitId>,
): void {
  const before = store.ancestors(oldHeads);
  const after = store.ancestors(newHeads);
  const removed = [...before].filter((id) => !after.has(id)).map((id) => store.commit(id));
  if (removed.length === 0) return;
  const added = new Map<ChangeId, CommitId[]>();
  for (const id of after) {
    if (before.has(id)) continue;
    const { change } = store.commit(id);
    added.set(change, [...(added.get(change) ?? []), id]);
  }
  for (const commit of removed) {
    const to = added.get(commit.change);
    if (to === undefined) tx.abandon(commit);
    else tx.setRewritten(commit.id, to);
  }
}
