/**
 * The child's owned stack and the stacks of the threads that follow it, validated against one pinned operation
 * (threads chapter, "Owned stack"), and the inspection of a staged rebase of exactly those commits.
 */
import type { CommitId, OpId, ThreadId } from "../core/ids.ts";
import { err, ok, type Result } from "../core/result.ts";
import { validateStack, type StackCommit } from "../core/stack.ts";
import type { CommitView } from "../ports/jj.ts";
import type { Db } from "../store/db.ts";
import { cascadeThread, edges } from "../store/edges.ts";
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
  const ours = behind(descendants, heads);
  const checked = validateStack({
    base,
    head,
    members,
    outsideChildren: descendants.map((c) => c.commitId),
    followsChildren: new Set(ours.map((c) => c.commitId)),
  });
  if (!checked.ok) return err(checked.error.reason);
  const broken = ours.find((c) => c.parents.length !== 1 || c.divergent || c.immutable);
  if (broken !== undefined) return err("FollowerStackInvalid");
  return ok({ chain: checked.value, followers: ours });
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
    moved.every((c) => c.parents.length === 1 && !c.divergent) &&
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
  const ids = new Set(b.map((c) => c.changeId));
  return a.length === b.length && ids.size === b.length && a.every((c) => ids.has(c.changeId));
}
