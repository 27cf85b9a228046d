/** Follows edges and the thread facts the cascade works with. */
import type { ChangeId, CommitId, IncarnationId, OpId, ThreadId } from "../core/ids.ts";
import type { AgentStatus, Lifecycle } from "../core/lifecycle.ts";
import type { Db } from "./db.ts";

export interface CascadeThread {
  threadId: ThreadId;
  name: string;
  lifecycle: Lifecycle;
  harness: "claude-code" | "codex";
  workspaceName: string;
  workspacePath: string;
  bookmark: string;
  head: CommitId | null;
  headChange: ChangeId | null;
  checkpoint: CommitId | null;
  base: CommitId | null;
  tmuxSocket: string | null;
  tmuxSessionId: string | null;
}

interface RawThread {
  thread_id: string;
  name: string;
  lifecycle: Lifecycle;
  harness: "claude-code" | "codex";
  workspace_name: string;
  workspace_path: string;
  bookmark: string;
  thread_head_commit_id: string | null;
  thread_head_change_id: string | null;
  checkpoint_commit_id: string | null;
  owned_stack_base_commit_id: string | null;
  tmux_socket: string | null;
  tmux_session_id: string | null;
}

function fromRaw(r: RawThread): CascadeThread {
  return {
    threadId: r.thread_id,
    name: r.name,
    lifecycle: r.lifecycle,
    harness: r.harness,
    workspaceName: r.workspace_name,
    workspacePath: r.workspace_path,
    bookmark: r.bookmark,
    head: r.thread_head_commit_id,
    headChange: r.thread_head_change_id,
    checkpoint: r.checkpoint_commit_id,
    base: r.owned_stack_base_commit_id,
    tmuxSocket: r.tmux_socket,
    tmuxSessionId: r.tmux_session_id,
  };
}

/** Threads whose workspace jj should record: every one that has a head and is neither closed nor gone. */
export function watchedThreads(db: Db): CascadeThread[] {
  return db
    .query<RawThread, []>(
      `SELECT * FROM threads WHERE thread_head_commit_id IS NOT NULL
         AND lifecycle NOT IN ('Closed','Destroyed','CreateFailed') ORDER BY thread_id`,
    )
    .all()
    .map(fromRaw);
}

export function cascadeThread(db: Db, threadId: ThreadId): CascadeThread | null {
  const r = db
    .query<RawThread, { threadId: string }>("SELECT * FROM threads WHERE thread_id = $threadId")
    .get({ threadId });
  return r === null ? null : fromRaw(r);
}

export interface Edge {
  child: ThreadId;
  parent: ThreadId;
  lastSynchronized: CommitId;
}

/** Edges in a stable order: children by id. */
export function edges(db: Db): Edge[] {
  return db
    .query<
      {
        child_thread_id: string;
        parent_thread_id: string;
        last_synchronized_parent_commit_id: string;
      },
      []
    >(
      "SELECT child_thread_id, parent_thread_id, last_synchronized_parent_commit_id FROM thread_links ORDER BY child_thread_id",
    )
    .all()
    .map((r) => ({
      child: r.child_thread_id,
      parent: r.parent_thread_id,
      lastSynchronized: r.last_synchronized_parent_commit_id,
    }));
}

export function setHead(
  db: Db,
  threadId: ThreadId,
  head: { commit: CommitId; change: ChangeId; op: OpId },
): void {
  db.query(
    `UPDATE threads SET thread_head_commit_id = $commit, thread_head_change_id = $change, thread_head_op_id = $op
     WHERE thread_id = $threadId`,
  ).run({ threadId, ...head });
}

/** jj moved the bookmark with a rewrite of its commit: kiki follows. */
export function setCheckpoint(db: Db, threadId: ThreadId, commit: CommitId): void {
  db.query("UPDATE threads SET checkpoint_commit_id = $commit WHERE thread_id = $threadId").run({
    threadId,
    commit,
  });
}

/** The child now stands on `base`: the edge's anchor and the owned stack's base move together. */
export function synchronize(db: Db, child: ThreadId, parent: ThreadId, base: CommitId): void {
  db.query(
    `UPDATE thread_links SET last_synchronized_parent_commit_id = $base
     WHERE child_thread_id = $child AND parent_thread_id = $parent`,
  ).run({ child, parent, base });
  db.query("UPDATE threads SET owned_stack_base_commit_id = $base WHERE thread_id = $child").run({
    child,
    base,
  });
}

export interface IncarnationRow {
  incarnation: IncarnationId;
  threadId: ThreadId;
  secretSha256: string;
  harnessSessionId: string | null;
  harnessVersion: string;
  ready: boolean;
  retired: boolean;
}

export function incarnation(db: Db, id: IncarnationId): IncarnationRow | null {
  const r = db
    .query<
      {
        agent_session_id: string;
        thread_id: string;
        secret_sha256: string;
        harness_session_id: string | null;
        harness_version: string;
        ready_at: number | null;
        retired_at: number | null;
      },
      { id: string }
    >("SELECT * FROM agent_sessions WHERE agent_session_id = $id")
    .get({ id });
  if (r === null) return null;
  return {
    incarnation: r.agent_session_id,
    threadId: r.thread_id,
    secretSha256: r.secret_sha256,
    harnessSessionId: r.harness_session_id,
    harnessVersion: r.harness_version,
    ready: r.ready_at !== null,
    retired: r.retired_at !== null,
  };
}

/** Every incarnation that has not been retired, with its thread. */
export function liveIncarnations(db: Db): { threadId: ThreadId; incarnation: IncarnationId }[] {
  return db
    .query<{ threadId: string; incarnation: string }, []>(
      "SELECT thread_id AS threadId, agent_session_id AS incarnation FROM agent_sessions WHERE retired_at IS NULL",
    )
    .all();
}

/** Display facts; never evidence. */
export function noteActivity(
  db: Db,
  id: IncarnationId,
  row: { status: AgentStatus; turnCompleted: boolean; event: string; now: number },
): void {
  db.query(
    `UPDATE agent_sessions SET status = $status, last_turn_completed = $turnCompleted, last_event = $event,
       last_event_at = $now WHERE agent_session_id = $id AND retired_at IS NULL`,
  ).run({
    id,
    status: row.status,
    turnCompleted: row.turnCompleted ? 1 : 0,
    event: row.event,
    now: row.now,
  });
}
