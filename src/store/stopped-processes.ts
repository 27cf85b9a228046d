/**
 * `stopped_processes`: whom kiki stops, durable before the first signal, so that a crash never leaves a process stopped
 * that nobody remembers. `Recorded`: it may have been signalled. `Stopped`: it was seen to stand still. `Resumed` and
 * `Gone` are settled. One process may be held by several owners; what it was before kiki is then on every row.
 */
import type { ThreadId } from "../core/ids.ts";
import type { ProcessIdentity } from "../core/process-tree.ts";
import { write, type Db } from "./db.ts";

export interface StopOwner {
  /** Whose id it is: a lifecycle operation's, or an intent's. */
  kind: "lifecycle" | "intent";
  id: string;
}

export interface StoppedRow extends ProcessIdentity {
  pgid: number;
  session: number;
  /** It stood still before kiki stopped anything, and is never continued by kiki. */
  wasStopped: boolean;
  state: "Recorded" | "Stopped" | "Resumed" | "Gone";
}

interface Raw extends Omit<StoppedRow, "wasStopped"> {
  wasStopped: number;
}

const COLUMNS = `pid, start_time AS startTime, pgid, session, was_stopped AS wasStopped, state`;
const HELD = `state IN ('Recorded','Stopped')`;

/**
 * Records processes about to be stopped, all or none, and returns when they are on the disk. `wasStopped` is replaced
 * by what an owner that holds the process already found, because by now it is kiki that stopped it.
 */
export function recordStops(
  db: Db,
  owner: StopOwner,
  threadId: ThreadId,
  processes: readonly (ProcessIdentity & { pgid: number; session: number; wasStopped: boolean })[],
  now: number,
): void {
  write(db, () => {
    for (const { pid, startTime, pgid, session, wasStopped } of processes) {
      const before = db
        .query<{ wasStopped: number }, [number, string]>(
          `SELECT min(was_stopped) AS wasStopped FROM stopped_processes
           WHERE pid = ? AND start_time = ? AND ${HELD} HAVING count(*) > 0`,
        )
        .get(pid, startTime);
      db.query(
        `INSERT INTO stopped_processes (owner_kind, owner_id, thread_id, pid, start_time, pgid, session, was_stopped,
           state, recorded_at)
         VALUES ($kind, $id, $threadId, $pid, $startTime, $pgid, $session, $wasStopped, 'Recorded', $now)
         ON CONFLICT (owner_kind, owner_id, pid, start_time) DO UPDATE SET
           pgid = excluded.pgid, session = excluded.session, was_stopped = excluded.was_stopped, state = 'Recorded',
           recorded_at = excluded.recorded_at, settled_at = NULL`,
      ).run({
        kind: owner.kind,
        id: owner.id,
        threadId,
        pid,
        startTime,
        pgid,
        session,
        wasStopped: wasStopped && before?.wasStopped !== 0 ? 1 : 0,
        now,
      });
    }
  });
}

/** The processes were seen to stand still. */
export function markStopped(db: Db, owner: StopOwner, processes: readonly ProcessIdentity[]): void {
  write(db, () => {
    for (const { pid, startTime } of processes) {
      db.query(
        `UPDATE stopped_processes SET state = 'Stopped'
         WHERE owner_kind = $kind AND owner_id = $id AND pid = $pid AND start_time = $startTime AND state = 'Recorded'`,
      ).run({ kind: owner.kind, id: owner.id, pid, startTime });
    }
  });
}

/** The owner has no claim on the process any more. */
export function settleStop(
  db: Db,
  owner: StopOwner,
  { pid, startTime }: ProcessIdentity,
  state: "Resumed" | "Gone",
  now: number,
): void {
  write(db, () => {
    db.query(
      `UPDATE stopped_processes SET state = $state, settled_at = $now
       WHERE owner_kind = $kind AND owner_id = $id AND pid = $pid AND start_time = $startTime AND ${HELD}`,
    ).run({ kind: owner.kind, id: owner.id, pid, startTime, state, now });
  });
}

/** Rows of one owner that are not settled, in the order they were recorded: parents before children. */
export function heldBy(db: Db, owner: StopOwner): StoppedRow[] {
  return db
    .query<Raw, [string, string]>(
      `SELECT ${COLUMNS} FROM stopped_processes WHERE owner_kind = ? AND owner_id = ? AND ${HELD} ORDER BY rowid`,
    )
    .all(owner.kind, owner.id)
    .map(fromRaw);
}

/** Whether somebody else still needs the process stopped. */
export function heldByOthers(
  db: Db,
  owner: StopOwner,
  { pid, startTime }: ProcessIdentity,
): boolean {
  return (
    db
      .query<{ one: number }, [number, string, string, string]>(
        `SELECT 1 AS one FROM stopped_processes
         WHERE pid = ? AND start_time = ? AND ${HELD} AND NOT (owner_kind = ? AND owner_id = ?) LIMIT 1`,
      )
      .get(pid, startTime, owner.kind, owner.id) !== null
  );
}

/**
 * The intent on whose account the thread's newest harness was stopped and never continued, where that intent cannot be
 * followed after all: kiki ended the agent for nothing, and owes it a start. Derived, so that whoever boots knows it.
 */
export function endedForNothing(db: Db, threadId: ThreadId): string | null {
  const row = db
    .query<{ id: string }, { threadId: string }>(
      `SELECT i.intent_id AS id FROM agent_sessions s
       JOIN stopped_processes p ON p.thread_id = s.thread_id AND p.pid = s.pid AND p.start_time = s.start_time
       JOIN sync_intents i ON p.owner_kind = 'intent' AND i.intent_id = p.owner_id
       WHERE s.rowid = (SELECT max(rowid) FROM agent_sessions WHERE thread_id = $threadId)
         AND s.retired_at IS NOT NULL AND p.state <> 'Resumed' AND i.state = 'TopologyDiverged'`,
    )
    .get({ threadId });
  return row?.id ?? null;
}

/** Owners with rows that are not settled, oldest first. */
export function stopOwners(db: Db): StopOwner[] {
  return db
    .query<StopOwner, []>(
      `SELECT owner_kind AS kind, owner_id AS id FROM stopped_processes WHERE ${HELD}
       GROUP BY owner_kind, owner_id ORDER BY min(rowid)`,
    )
    .all();
}

function fromRaw(raw: Raw): StoppedRow {
  return { ...raw, wasStopped: raw.wasStopped === 1 };
}
