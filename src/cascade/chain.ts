/**
 * The child's owned stack and the stacks of the threads that follow it, validated against one pinned operation
 * (threads chapter, "Owned stack"), and the inspection of a staged rebase of exactly those commits.
 */
import type { ChangeId, CommitId, OpId, ThreadId } from "../core/ids.ts";
import { err, ok, type Result } from "../core/result.ts";
import { validateStack, type StackCommit } from "../core/stack.ts";
import type { CommitView, JjRepo } from "../ports/jj.ts";
import type { Db } from "../store/db.ts";
import { cascadeThread, edges } from "../store/edges.ts";
import { fullestOf } from "./copies.ts";
import type { Scene } from "./scene.ts";
import { standingBase } from "./standing.ts";

export interface OwnedStack {
  /** Root first, the thread's head last. */
  chain: StackCommit[];
  /**
   * Commits of registered followers that stand on the chain. They are named in the rebase as well: `jj rebase -r`
   * would otherwise put them back onto the old base, without the chain's content (jj 0.46, observed).
   */
  followers: CommitView[];
  /** Changes of followers of which there are several copies, for the time being. */
  twice: ReadonlySet<ChangeId>;
}

/** The error is the reason of a `TopologyDiverged`. */
export async function ownedStack(scene: Scene, op: OpId): Promise<Result<OwnedStack, string>> {
  const { jj, child, deps } = scene;
  const view = await scene.views.heads(op);
  const head = view.get(child.workspaceName)?.commitId;
  if (head === undefined) return err("ChildAbandoned");
  const base = await standingBase(jj, op, {
    fromBase: scene.edge.lastSynchronized,
    toBase: scene.plan.toBase,
    childHead: head,
  });
  if (base === null) return err("AnchorNotInChild");
  const heads = followersOf(deps.db, child.threadId)
    .map((id) => view.get(cascadeThread(deps.db, id)!.workspaceName)?.commitId)
    .filter((id): id is CommitId => id !== undefined);
  // The members, and all that stands on them: whatever lies between two of these commits is one of them.
  const all = await jj.commits(op, `descendants(${base}..${head})`);
  const members = behind(all, [head]);
  const inChain = new Set(members);
  const descendants = all.filter((c) => !inChain.has(c));
  const own = behind(descendants, heads);
  const { twice, copies } = await secondCopies(jj, op, own, descendants);
  const ours = [...own, ...copies];
  const checked = validateStack({
    base,
    head,
    members,
    outsideChildren: descendants.map((c) => c.commitId),
    followsChildren: new Set(ours.map((c) => c.commitId)),
  });
  if (!checked.ok) return err(checked.error.reason);
  const broken = ours.find(
    (c) => c.parents.length !== 1 || c.immutable || (c.divergent && !twice.has(c.changeId)),
  );
  if (broken !== undefined) return err("FollowerStackInvalid");
  return ok({ chain: checked.value, followers: ours, twice });
}

/**
 * Changes of followers that jj shows several times, where one copy has all that the others have: who follows is brought in
 * order at a boundary of its own, and until then its second copies go along. `copies`: those that stand on the chain.
 */
async function secondCopies(
  jj: JjRepo,
  op: OpId,
  own: readonly CommitView[],
  descendants: readonly CommitView[],
): Promise<{ twice: ReadonlySet<ChangeId>; copies: CommitView[] }> {
  const twice = new Set<ChangeId>();
  for (const { changeId, commitId } of own.filter((c) => c.divergent)) {
    const all = await jj.commits(op, `change_id(${changeId})`);
    const ids = all.map((c) => c.commitId);
    if ((await fullestOf(jj, op, ids, commitId)) !== null) twice.add(changeId);
  }
  const copies = descendants.filter((c) => twice.has(c.changeId) && !own.includes(c));
  return { twice, copies };
}

/** Threads that follow `thread`, directly or through others. */
export function followersOf(db: Db, thread: ThreadId): ThreadId[] {
  const all = edges(db);
  const found: ThreadId[] = [];
  for (let level = [thread]; level.length > 0;) {
    level = all
      .filter((e) => level.includes(e.parent) && !found.includes(e.child))
      .map((e) => e.child);
    found.push(...level);
  }
  return found;
}

/**
 * The staged view must show the same changes, each with one parent, on the new base, and the child's head among them.
 * Returns that head; null where it is otherwise.
 */
export async function stagedHead(
  scene: Scene,
  staged: OpId,
  toBase: CommitId,
  owned: OwnedStack,
): Promise<CommitView | null> {
  const { jj, views, child } = scene;
  // By the workspace's name: one read then says what the new commits are, and who stands where costs none.
  const at = `present(${JSON.stringify(child.workspaceName)}@)`;
  const moved = await jj.commits(staged, `descendants(roots(${toBase}..${at}))`);
  const head = (await views.heads(staged)).get(child.workspaceName)?.commitId;
  if (head === undefined) return null;
  const chain = behind(moved, [head]);
  const ids = new Set(chain.map((c) => c.commitId));
  const roots = chain.filter((c) => !c.parents.some((parent) => ids.has(parent)));
  const fits =
    sameChanges(chain, owned.chain) &&
    sameChanges(moved, [...owned.chain, ...owned.followers]) &&
    moved.every((c) => c.parents.length === 1 && (!c.divergent || owned.twice.has(c.changeId))) &&
    roots.length === 1 &&
    roots[0]!.parents[0] === toBase;
  return (fits ? chain.find((c) => c.commitId === head) : null) ?? null;
}

/** Those of `commits` that are one of `heads` or behind one, by way of others of them. */
function behind(commits: readonly CommitView[], heads: readonly CommitId[]): CommitView[] {
  const byId = new Map(commits.map((c) => [c.commitId, c]));
  const found = new Set<CommitView>();
  for (const open = [...heads]; open.length > 0;) {
    const commit = byId.get(open.pop()!);
    if (commit === undefined || found.has(commit)) continue;
    found.add(commit);
    open.push(...commit.parents);
  }
  return commits.filter((c) => found.has(c));
}

function sameChanges(
  a: readonly { changeId: string }[],
  b: readonly { changeId: string }[],
): boolean {
  const sorted = (of: readonly { changeId: string }[]): string =>
    of
      .map((c) => c.changeId)
      .sort()
      .join();
  return sorted(a) === sorted(b);
}
