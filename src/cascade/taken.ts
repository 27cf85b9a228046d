/**
 * What an operation made in one thread's workspace takes away from another thread: `jj abandon` of its revision, `jj op
 * restore`, `jj op revert` or `jj undo` of what it did. To follow that would adopt the loss of somebody else's work in
 * silence. Told from views alone: the owner's `@` is afterwards a commit that does not come from the one before, or one
 * that it had left behind already. What a thread does to itself, and what a person does elsewhere, is followed.
 */
import type { DivergedReason } from "../core/classify.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import type { JjRepo, WorkspaceHead } from "../ports/jj.ts";
import type { Db } from "../store/db.ts";
import type { CascadeThread } from "../store/edges.ts";
import { changeOfHead, wasHeadBefore, type OpRow } from "../store/ops.ts";
import type { Heads } from "./views.ts";

/** A thread whose `@` another thread's operation moved, other than by an ordinary rewrite. */
export interface Suspect {
  who: "parent" | "child";
  before: WorkspaceHead;
  after: WorkspaceHead;
  /** `after` was the thread's `@` in an earlier operation: it went back. */
  back: boolean;
}

/** `made`: in which of the threads' workspaces; null: kiki made it, or the operation merges others. */
export interface Made {
  op: OpRow;
  by: string;
}

/** null: nobody but its own thread could be touched, or nobody's thread made it. */
export function madeByThread(op: OpRow, threads: readonly CascadeThread[]): Made | null {
  const by = op.workspaceName;
  if (by === null || op.token !== null || op.parents.length !== 1) return null;
  return threads.some((t) => t.workspaceName === by) ? { op, by } : null;
}

/** Synchronous, and without a process: a parent that is amended moves its child like this all the time. */
export function suspectOf(
  db: Db,
  made: Made | null,
  who: Suspect["who"],
  thread: CascadeThread,
  [before, after]: readonly [Heads | undefined, Heads],
): Suspect | null {
  if (made === null || made.by === thread.workspaceName) return null;
  const [was, is] = [before?.get(thread.workspaceName), after.get(thread.workspaceName)];
  if (was === undefined || is === undefined || was.commitId === is.commitId) return null;
  const back = wasHeadBefore(db, made.op.opId, thread.workspaceName, is.commitId);
  return !back && was.changeId === is.changeId ? null : { who, before: was, after: is, back };
}

/**
 * Why the edge is not followed; null: nothing was lost. `parentBefore`: the parent's `@` before the operation; what is
 * behind it is no revision of the child's.
 */
export async function takenAway(
  jj: JjRepo,
  op: OpId,
  suspect: Suspect,
  parentBefore: CommitId | null,
): Promise<DivergedReason | null> {
  const { who, before, after, back } = suspect;
  if (!back) {
    if (await comesFrom(jj, op, before.commitId, after.commitId)) return null;
    return who === "parent" ? "ParentAbandoned" : "ChildAbandoned";
  }
  if (who === "parent") return "ParentMovedBackward";
  // A parent that undoes its own step takes its child back with it, with all that is the child's own.
  const own = await keepsOwn(jj, op, before.commitId, after.commitId, parentBefore);
  return own ? null : "ChildAbandoned";
}

/** The files of a workspace are from `from`, and jj has it on `to`. Costs no process in the ordinary case. */
export async function isAbandoned(
  { jj, db }: { jj: JjRepo; db: Db },
  op: OpId,
  from: CommitId,
  to: Pick<WorkspaceHead, "workspace" | "commitId" | "changeId" | "parents">,
): Promise<boolean> {
  if (from === to.commitId || changeOfHead(db, to.workspace, from) === to.changeId) return false;
  const [was] = await jj.existing(op, [from]);
  if (was?.hidden === false || was?.changeId === to.changeId) return false;
  for (const commit of [to.commitId, ...to.parents])
    if (await comesFrom(jj, op, from, commit)) return false;
  return true;
}

/** `to` is `from`, stands on it, or was made of it by rewrites that jj recorded. */
async function comesFrom(jj: JjRepo, op: OpId, from: CommitId, to: CommitId): Promise<boolean> {
  if ((await jj.evolvedFrom(op, to)).includes(from)) return true;
  return jj.isAncestor(op, from, to);
}

/** Every revision of the child's own is there again, with the change it made before. */
async function keepsOwn(
  jj: JjRepo,
  op: OpId,
  from: CommitId,
  to: CommitId,
  parentBefore: CommitId | null,
): Promise<boolean> {
  const others = parentBefore === null ? "" : ` ~ ::${parentBefore}`;
  const lost = await jj.commits(op, `(${to}..${from})${others}`);
  const there = new Map((await jj.commits(op, `${from}..${to}`)).map((c) => [c.changeId, c]));
  for (const { changeId, commitId } of lost) {
    const again = there.get(changeId);
    if (again === undefined || !(await jj.sameChange(op, commitId, again.commitId))) return false;
  }
  return true;
}
