/**
 * AncestryQuery: questions about jj's operation graph and what one operation did to each workspace. An operation may
 * have several parents and the graph several heads; no answer here follows a preferred parent or keeps a cursor.
 */
import type { ChangeId, CommitId, OpId } from "./ids.ts";
import { maximal, type OpNode } from "./op-graph.ts";
import { ROOT_COMMIT } from "./revset.ts";

/** Parents of an operation in what has been read; none for one that is older than what was read. */
export type ParentsOf = (id: OpId) => readonly OpId[];

/**
 * Parents that a reading of the graph has not reached yet: while there is one, there may be operations nobody has
 * interpreted. `isKnown`: read before, or the operation every repository starts from.
 */
export function openParents(
  read: ReadonlyMap<OpId, OpNode>,
  isKnown: (id: OpId) => boolean,
): OpId[] {
  const open = [...read.values()].flatMap((op) =>
    op.parents.filter((parent) => !read.has(parent) && !isKnown(parent)),
  );
  return [...new Set(open)].sort();
}

/**
 * The frontier after a round: the sampled heads as an antichain. Throws when a head has not been processed: a frontier
 * is what kiki has interpreted, never what it has merely seen.
 */
export function nextFrontier(
  heads: readonly OpId[],
  parentsOf: ParentsOf,
  isProcessed: (id: OpId) => boolean,
): OpId[] {
  const early = heads.find((id) => !isProcessed(id));
  if (early !== undefined) throw new Error(`operation ${early} is a head and not interpreted`);
  return maximal(heads, parentsOf);
}

/**
 * The newest operations that every one of `ids` descends from (or is): several when histories cross. Walks little more
 * than what lies between `ids` and those, however long the history is.
 */
export function forkPoints(ids: readonly OpId[], parentsOf: ParentsOf): OpId[] {
  const starts = [...new Set(ids)];
  /** Operation → which of the starts it was reached from. */
  const reached = new Map<OpId, Set<number>>();
  const meetings = new Set<OpId>();
  const queue: { id: OpId; from: number }[] = [];
  const isCommon = (id: OpId): boolean => reached.get(id)?.size === starts.length;

  // What was walked below a meeting before it was known to be one is common as well: the walk ends there.
  const closeBelow = (meeting: OpId): void => {
    const below = [...parentsOf(meeting)];
    for (let id = below.pop(); id !== undefined; id = below.pop()) {
      const marks = reached.get(id);
      if (marks === undefined || marks.size === starts.length) continue;
      for (const from of starts.keys()) marks.add(from);
      below.push(...parentsOf(id));
    }
  };
  const arrive = (id: OpId, from: number): void => {
    const marks = reached.get(id) ?? new Set<number>();
    if (marks.has(from)) return;
    reached.set(id, marks.add(from));
    if (marks.size < starts.length) {
      queue.push({ id, from });
      return;
    }
    meetings.add(id);
    closeBelow(id);
  };

  for (const [from, id] of starts.entries()) arrive(id, from);
  // Grows while it is walked, oldest first, so that the walks from all starts stay level.
  for (const { id, from } of queue) {
    if (!isCommon(id)) for (const parent of parentsOf(id)) arrive(parent, from);
  }
  return maximal([...meetings], parentsOf);
}

/** One workspace's `@` in one view. */
export interface HeadView {
  commitId: CommitId;
  changeId: ChangeId;
  /** Needed after a merge of operations only. */
  divergent?: boolean;
}

/** What one operation did to one workspace's `@`. */
export type WorkspaceMove =
  | { kind: "unchanged" }
  | { kind: "moved"; to: HeadView | null }
  /** Parent views disagree in a way that the result does not settle: no parent is preferred. */
  | { kind: "IncoherentViews" };

/**
 * A workspace's `@` where the histories of two of an operation's parents part (their fork points' views), by the parents'
 * places among all of them. None known: each of the two counts as having moved it.
 */
export type ForksOf = (one: number, other: number) => readonly (HeadView | null)[];

/**
 * Compares a workspace's `@` after an operation with every parent view; null is a workspace without one.
 *
 * Parents are compared by twos, each pair with the views where these two part and no others: of three parents two may
 * part later than the third, and what the workspace did before that is the past of both. One parent gives way to
 * another that went on from it: it still shows their fork's `@`, or only rewrote the change that the other one left
 * (`jj new` beside a rebase from below; jj 0.46 rebases the new `@` onto the rewrite). The move is coherent when what
 * remains is one change, and the result is of it.
 */
export function workspaceMove(
  before: readonly (HeadView | null)[],
  after: HeadView | null,
  forks: ForksOf = () => [],
): WorkspaceMove {
  const at = (v: HeadView | null): CommitId => v?.commitId ?? "";
  const changeOf = (v: HeadView | null): ChangeId => v?.changeId ?? "";
  if (before.every((v) => at(v) === at(after)) && before.length > 0) return { kind: "unchanged" };
  if (before.length < 2) return { kind: "moved", to: after };
  // Without an `@` there is nothing that could be followed, whichever parent took it away.
  if (after === null) return { kind: "moved", to: null };
  if (after.divergent === true) return { kind: "IncoherentViews" };

  let parted = false;
  const givesWay = (one: number, other: number): boolean => {
    const [mine, theirs] = [before[one]!, before[other]!];
    const fork = forks(one, other);
    parted ||= fork.length > 0;
    if (at(mine) === at(theirs)) return false;
    if (fork.some((v) => at(v) === at(mine))) return true;
    const left = new Set(fork.map(changeOf));
    return left.has(changeOf(mine)) && !left.has(changeOf(theirs));
  };
  const movers = before.filter(
    (_view, one) => !before.some((_other, other) => other !== one && givesWay(one, other)),
  );
  const changes = new Set(movers.map(changeOf));
  const coherent = changes.has(after.changeId) && (!parted || changes.size === 1);
  return coherent ? { kind: "moved", to: after } : { kind: "IncoherentViews" };
}

/**
 * Workspaces that `jj workspace add` has only begun to add (jj 0.46): its first operation shows them on an empty commit
 * on the root, which its second one abandons. Nothing may be read from that commit.
 */
export function halfAdded<V extends { parents: readonly CommitId[] }>(
  before: readonly ReadonlyMap<string, unknown>[],
  after: ReadonlyMap<string, V>,
): Set<string> {
  const half = new Set<string>();
  for (const [workspace, head] of after) {
    const isNew = before.length > 0 && before.every((view) => !view.has(workspace));
    if (isNew && head.parents.length === 1 && head.parents[0] === ROOT_COMMIT) half.add(workspace);
  }
  return half;
}

/** Workspaces whose `@` differs from that of at least one parent view, or from nothing: what an operation records. */
export function changedHeads<V extends { commitId: CommitId }>(
  before: readonly ReadonlyMap<string, V>[],
  after: ReadonlyMap<string, V>,
): { workspace: string; head: V | null }[] {
  const changed: { workspace: string; head: V | null }[] = [];
  for (const [workspace, head] of after) {
    const same = (v: ReadonlyMap<string, V>): boolean =>
      v.get(workspace)?.commitId === head.commitId;
    if (before.length === 0 || !before.every(same)) changed.push({ workspace, head });
  }
  for (const workspace of new Set(before.flatMap((v) => [...v.keys()]))) {
    if (!after.has(workspace)) changed.push({ workspace, head: null });
  }
  return changed;
}
