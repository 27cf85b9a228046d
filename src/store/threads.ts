/** `threads` and `thread_links`. The cascade's narrower view of the same rows is in edges.ts. */
import type { ChangeId, CommitId, OpId, ThreadId } from "../core/ids.ts";
import type { IntentState } from "../core/intent.ts";
import {
  moveLifecycle,
  type AgentStatus,
  type Lifecycle,
  type NextLifecycle,
} from "../core/lifecycle.ts";
import type { Db } from "./db.ts";

export type HarnessColumn = "claude-code" | "codex";

export interface ThreadRow {
  threadId: ThreadId;
  name: string;
  slug: string;
  lifecycle: Lifecycle;
  harness: HarnessColumn;
  harnessExecutable: string;
  harnessArgs: string[];
  firstPrompt: string | null;
  workspaceName: string;
  workspacePath: string;
  bookmark: string;
  tmuxSocket: string | null;
  tmuxSession: string;
  tmuxSessionId: string | null;
  base: CommitId | null;
  head: CommitId | null;
  headChange: ChangeId | null;
  headOp: OpId | null;
  checkpoint: CommitId | null;
  createdAt: number;
}

const COLUMNS = `t.thread_id AS threadId, t.name, t.slug, t.lifecycle, t.harness,
  t.harness_executable AS harnessExecutable, t.harness_args_json AS harnessArgsJson,
  t.first_prompt AS firstPrompt, t.workspace_name AS workspaceName, t.workspace_path AS workspacePath,
  t.bookmark, t.tmux_socket AS tmuxSocket, t.tmux_session AS tmuxSession,
  t.tmux_session_id AS tmuxSessionId, t.owned_stack_base_commit_id AS base,
  t.thread_head_commit_id AS head, t.thread_head_change_id AS headChange,
  t.thread_head_op_id AS headOp, t.checkpoint_commit_id AS checkpoint, t.created_at AS createdAt`;

type Raw = Omit<ThreadRow, "harnessArgs"> & { harnessArgsJson: string };

function fromRaw<R extends Raw>(r: R): Omit<R, "harnessArgsJson"> & { harnessArgs: string[] } {
  const { harnessArgsJson, ...rest } = r;
  return { ...rest, harnessArgs: JSON.parse(harnessArgsJson) as string[] };
}

/** A thread begins as `Creating`, with every name it will have and nothing made yet. */
export function insertThread(
  db: Db,
  row: Omit<
    ThreadRow,
    "lifecycle" | "tmuxSessionId" | "base" | "head" | "headChange" | "headOp" | "checkpoint"
  >,
): void {
  const { harnessArgs, ...rest } = row;
  db.query(
    `INSERT INTO threads (thread_id, name, slug, lifecycle, harness, harness_executable,
       harness_args_json, first_prompt, workspace_name, workspace_path, bookmark, tmux_socket,
       tmux_session, created_at)
     VALUES ($threadId, $name, $slug, 'Creating', $harness, $harnessExecutable, $harnessArgsJson,
       $firstPrompt, $workspaceName, $workspacePath, $bookmark, $tmuxSocket, $tmuxSession, $createdAt)`,
  ).run({ ...rest, harnessArgsJson: JSON.stringify(harnessArgs) });
}

export function threadById(db: Db, threadId: ThreadId): ThreadRow | null {
  const r = db
    .query<Raw, { threadId: string }>(
      `SELECT ${COLUMNS} FROM threads t WHERE t.thread_id = $threadId`,
    )
    .get({ threadId });
  return r === null ? null : fromRaw(r);
}

/** Every thread there ever was, oldest first. */
export function allThreads(db: Db): ThreadRow[] {
  return db
    .query<Raw, []>(`SELECT ${COLUMNS} FROM threads t ORDER BY t.created_at, t.thread_id`)
    .all()
    .map((r) => fromRaw(r));
}

/** A thread that is destroyed has given its names back; what may still be there under them is looked at in any plan. */
export function slugTaken(db: Db, slug: string): boolean {
  const taken = db.query("SELECT 1 FROM threads WHERE slug = $slug AND lifecycle <> 'Destroyed'");
  return taken.get({ slug }) !== null;
}

/** The program as it was found for the next start of the thread's agent. */
export function setHarnessExecutable(db: Db, threadId: ThreadId, path: string): void {
  db.query("UPDATE threads SET harness_executable = $path WHERE thread_id = $threadId").run({
    threadId,
    path,
  });
}

export interface LifecycleExtra {
  /** Required by `ProjectionDiverged`, and only there: the state the thread goes back to. */
  projectionResume?: "Active" | "Closed";
}

/**
 * Moves a thread between lifecycle states. An illegal move does not compile; one computed at run time, or a thread
 * that is not in `from` any more, throws by name.
 */
export function setLifecycle<F extends Lifecycle>(
  db: Db,
  threadId: ThreadId,
  from: F,
  to: NextLifecycle<F>,
  extra: LifecycleExtra = {},
): void {
  const done = db
    .query(
      `UPDATE threads SET lifecycle = $to, projection_resume_lifecycle = $resume
       WHERE thread_id = $threadId AND lifecycle = $from`,
    )
    .run({ threadId, from, to: moveLifecycle(from, to), resume: extra.projectionResume ?? null });
  if (done.changes === 1) return;
  const found = threadById(db, threadId)?.lifecycle ?? "no such thread";
  throw new Error(`lifecycle of ${threadId} is ${found}, not ${from}: cannot become ${String(to)}`);
}

/** The commit the thread's own stack stands on, set when it is allocated; the cascade moves it later. */
export function setBase(db: Db, threadId: ThreadId, base: CommitId): void {
  db.query("UPDATE threads SET owned_stack_base_commit_id = $base WHERE thread_id = $threadId").run(
    {
      threadId,
      base,
    },
  );
}

export function setTmuxSessionId(db: Db, threadId: ThreadId, sessionId: string | null): void {
  db.query("UPDATE threads SET tmux_session_id = $sessionId WHERE thread_id = $threadId").run({
    threadId,
    sessionId,
  });
}

/** A thread that could not be made claims no head and no checkpoint: what it had was undone. */
export function clearHead(db: Db, threadId: ThreadId): void {
  db.query(
    `UPDATE threads SET thread_head_commit_id = NULL, thread_head_change_id = NULL, thread_head_op_id = NULL,
       checkpoint_commit_id = NULL WHERE thread_id = $threadId`,
  ).run({ threadId });
}

// ---- follows edges ------------------------------------------------------------------------------------------

/** Makes or re-anchors the edge of a child. `anchor`: the parent commit the child is in step with. */
export function setLink(
  db: Db,
  row: { child: ThreadId; parent: ThreadId; anchor: CommitId; now: number },
): void {
  db.query(
    `INSERT INTO thread_links (child_thread_id, parent_thread_id, last_synchronized_parent_commit_id, created_at)
     VALUES ($child, $parent, $anchor, $now)
     ON CONFLICT (child_thread_id) DO UPDATE SET parent_thread_id = $parent,
       last_synchronized_parent_commit_id = $anchor`,
  ).run(row);
}

export function deleteLink(db: Db, child: ThreadId): void {
  db.query("DELETE FROM thread_links WHERE child_thread_id = $child").run({ child });
}

export function parentOf(db: Db, child: ThreadId): ThreadId | null {
  return (
    db
      .query<{ parent: string }, { child: string }>(
        "SELECT parent_thread_id AS parent FROM thread_links WHERE child_thread_id = $child",
      )
      .get({ child })?.parent ?? null
  );
}

/** Threads that follow `parent`, by name. */
export function childrenOf(db: Db, parent: ThreadId): { threadId: ThreadId; name: string }[] {
  return db
    .query<{ threadId: string; name: string }, { parent: string }>(
      `SELECT t.thread_id AS threadId, t.name FROM thread_links l JOIN threads t ON t.thread_id = l.child_thread_id
       WHERE l.parent_thread_id = $parent ORDER BY t.name, t.thread_id`,
    )
    .all({ parent });
}

// ---- summaries ----------------------------------------------------------------------------------------------

/** A thread with what `kk ls` shows of it, in one query; statuses are derived by core from these facts. */
export interface ThreadSummaryRow extends ThreadRow {
  followsThreadId: ThreadId | null;
  followsName: string | null;
  /** Unresolved intents. */
  intents: { state: IntentState; exhausted: boolean }[];
  /** The live incarnation, else the newest one; null before the first. */
  agent: {
    status: AgentStatus;
    ready: boolean;
    retired: boolean;
    lastTurnCompleted: boolean;
    lastEvent: string | null;
    lastEventAt: number | null;
  } | null;
  /** A loud attention event waits for a person. */
  attention: boolean;
}

/** Oldest first. `closed` adds `Closed` and `Destroyed` threads, and changes nothing else. */
export function threadSummaries(db: Db, filter: { closed: boolean }): ThreadSummaryRow[] {
  return summaries(db, filter.closed ? "1" : "t.lifecycle NOT IN ('Closed','Destroyed')", {});
}

export function threadSummary(db: Db, threadId: ThreadId): ThreadSummaryRow | null {
  return summaries(db, "t.thread_id = $threadId", { threadId })[0] ?? null;
}

type RawSummary = Raw & {
  followsThreadId: string | null;
  followsName: string | null;
  intentsJson: string;
  attention: number;
  status: AgentStatus | null;
  readyAt: number | null;
  retiredAt: number | null;
  lastTurnCompleted: number | null;
  lastEvent: string | null;
  lastEventAt: number | null;
};

function summaries(db: Db, where: string, binding: Record<string, string>): ThreadSummaryRow[] {
  return db
    .query<RawSummary, Record<string, string>>(
      `SELECT ${COLUMNS}, p.thread_id AS followsThreadId, p.name AS followsName,
         (SELECT json_group_array(json_object('state', i.state, 'exhausted',
            iif(i.delivery_exhausted_at IS NULL, json('false'), json('true'))))
          FROM sync_intents i WHERE i.thread_id = t.thread_id
            AND i.state NOT IN ('Acknowledged','Superseded')) AS intentsJson,
         EXISTS (SELECT 1 FROM attention a WHERE a.thread_id = t.thread_id AND a.loud = 1
           AND a.acknowledged_at IS NULL) AS attention,
         s.status, s.ready_at AS readyAt, s.retired_at AS retiredAt,
         s.last_turn_completed AS lastTurnCompleted, s.last_event AS lastEvent,
         s.last_event_at AS lastEventAt
       FROM threads t
       LEFT JOIN thread_links l ON l.child_thread_id = t.thread_id
       LEFT JOIN threads p ON p.thread_id = l.parent_thread_id
       LEFT JOIN agent_sessions s ON s.rowid = (SELECT n.rowid FROM agent_sessions n
         WHERE n.thread_id = t.thread_id ORDER BY n.retired_at IS NOT NULL, n.rowid DESC LIMIT 1)
       WHERE ${where} ORDER BY t.created_at, t.thread_id`,
    )
    .all(binding)
    .map(summaryFromRaw);
}

function summaryFromRaw(raw: RawSummary): ThreadSummaryRow {
  const {
    intentsJson,
    status,
    readyAt,
    retiredAt,
    lastTurnCompleted,
    lastEvent,
    lastEventAt,
    ...r
  } = raw;
  return {
    ...fromRaw(r),
    intents: JSON.parse(intentsJson) as { state: IntentState; exhausted: boolean }[],
    attention: r.attention === 1,
    agent:
      status === null
        ? null
        : {
            status,
            ready: readyAt !== null,
            retired: retiredAt !== null,
            lastTurnCompleted: lastTurnCompleted === 1,
            lastEvent,
            lastEventAt,
          },
  };
}
