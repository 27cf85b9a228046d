/** Bookmark targets of the fake jj: lists that alternate add, remove, add, as in jj. */
import type { CommitId } from "../../../src/core/ids.ts";
import type { Target } from "./store.ts";

type IsAncestor = (ancestor: CommitId, of: CommitId) => boolean;

export const NO_TARGET: Target = [null];

export function addsOf(target: Target): CommitId[] {
  return target.filter((id, at): id is CommitId => at % 2 === 0 && id !== null);
}

export function isAbsent(target: Target): boolean {
  return addsOf(target).length === 0;
}

/** One commit that became several (or none): each of them, less the old one for every further one. */
export function replacedBy(old: CommitId, fresh: readonly CommitId[]): Target {
  return fresh.length === 0 ? NO_TARGET : fresh.flatMap((id, at) => (at === 0 ? [id] : [old, id]));
}

/** jj's merge of bookmark targets: trivially, else the descendant of two adds wins where a remove lies below both. */
export function mergeTargets(a: Target, base: Target, b: Target, isAncestor: IsAncestor): Target {
  if (same(a, base)) return b;
  if (same(b, base) || same(a, b)) return a;
  const terms = [...a, ...base, ...b];
  const adds = terms.filter((_, at) => at % 2 === 0);
  const removes = terms.filter((_, at) => at % 2 === 1);
  cancel(adds, removes);
  while (removes.length > 0) {
    const pair = pairToRemove(adds, removes, isAncestor);
    if (pair === null) break;
    adds.splice(pair.add, 1);
    removes.splice(pair.remove, 1);
  }
  return adds.flatMap((id, at) => (at === 0 ? [id] : [removes[at - 1]!, id]));
}

function same(a: Target, b: Target): boolean {
  return a.length === b.length && a.every((id, at) => id === b[at]);
}

function cancel(adds: (CommitId | null)[], removes: (CommitId | null)[]): void {
  for (let at = 0; at < removes.length;) {
    const pair = adds.indexOf(removes[at]!);
    if (pair < 0) at += 1;
    else {
      adds.splice(pair, 1);
      removes.splice(at, 1);
    }
  }
  if (adds.length === 2 && adds[0] === adds[1]) {
    adds.pop();
    removes.pop();
  }
}

function pairToRemove(
  adds: readonly (CommitId | null)[],
  removes: readonly (CommitId | null)[],
  isAncestor: IsAncestor,
): { add: number; remove: number } | null {
  for (const [i, first] of adds.entries()) {
    for (const [offset, second] of adds.slice(i + 1).entries()) {
      if (first === null || second === null) continue;
      const j = i + 1 + offset;
      const add = isAncestor(first, second) ? i : isAncestor(second, first) ? j : -1;
      if (add < 0) continue;
      const remove = removes.findIndex((id) => id === null || isAncestor(id, adds[add]!));
      if (remove >= 0) return { add, remove };
    }
  }
  return null;
}
