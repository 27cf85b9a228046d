/** Owned stacks: validated single-parent chains (threads chapter, "Owned stack"). Purely structural. */
import type { ChangeId, CommitId } from "./ids.ts";
import { err, ok, type Result } from "./result.ts";

export interface StackCommit {
  commitId: CommitId;
  changeId: ChangeId;
  parents: readonly CommitId[];
  conflict: boolean;
  divergent: boolean;
  immutable: boolean;
}

export type StackProblem =
  | { reason: "HeadNotInStack"; commit: CommitId }
  | { reason: "MergeCommit"; commit: CommitId }
  | { reason: "MultipleRoots"; commits: CommitId[] }
  | { reason: "ForkedChain"; commits: CommitId[] }
  | { reason: "RootParentIsNotBase"; commit: CommitId; parent: CommitId }
  | { reason: "ConflictedCommit"; commit: CommitId }
  | { reason: "DivergentChange"; commit: CommitId }
  | { reason: "ImmutableCommit"; commit: CommitId }
  | { reason: "ForeignDescendant"; commit: CommitId };

/**
 * `members` are the commits reachable from `head` but not from `base`; `outsideChildren` the visible children of
 * members that are not members; `followHeads` commits known to belong to registered follows children.
 * Success: the chain, root first, `head` last.
 */
export function validateStack(input: {
  base: CommitId;
  head: CommitId;
  members: readonly StackCommit[];
  outsideChildren: readonly CommitId[];
  followsChildren: ReadonlySet<CommitId>;
}): Result<StackCommit[], StackProblem> {
  const { base, head, members } = input;
  const byId = new Map(members.map((c) => [c.commitId, c]));
  if (!byId.has(head)) return err({ reason: "HeadNotInStack", commit: head });
  for (const c of members) {
    if (c.parents.length !== 1) return err({ reason: "MergeCommit", commit: c.commitId });
    if (c.divergent) return err({ reason: "DivergentChange", commit: c.commitId });
    if (c.immutable) return err({ reason: "ImmutableCommit", commit: c.commitId });
    if (c.conflict) return err({ reason: "ConflictedCommit", commit: c.commitId });
  }
  const roots = members.filter((c) => !byId.has(c.parents[0]!));
  if (roots.length !== 1) {
    return err({ reason: "MultipleRoots", commits: roots.map((c) => c.commitId) });
  }
  const root = roots[0]!;
  if (root.parents[0] !== base) {
    return err({ reason: "RootParentIsNotBase", commit: root.commitId, parent: root.parents[0]! });
  }
  const chain: StackCommit[] = [];
  for (let at: StackCommit | undefined = byId.get(head); at; at = byId.get(at.parents[0]!))
    chain.unshift(at);
  if (chain.length !== members.length) {
    const inChain = new Set(chain.map((c) => c.commitId));
    return err({
      reason: "ForkedChain",
      commits: members.filter((c) => !inChain.has(c.commitId)).map((c) => c.commitId),
    });
  }
  const foreign = input.outsideChildren.find((id) => !input.followsChildren.has(id));
  if (foreign !== undefined) return err({ reason: "ForeignDescendant", commit: foreign });
  return ok(chain);
}
