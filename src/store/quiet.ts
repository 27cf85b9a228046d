/** Agents that count as running and were not heard of for a while. Display facts; never evidence. */
import type { IncarnationId, ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";
import type { HarnessColumn } from "./threads.ts";

export interface QuietAgent {
  incarnation: IncarnationId;
  threadId: ThreadId;
  harness: HarnessColumn;
  harnessSessionId: string;
  lastEventAt: number;
}

/**
 * Ready and `Running`, the newest event not after `before`, or later than `now` (milliseconds since the epoch): the clock was
 * set back, and nothing can be said of its age.
 */
export function quietlyRunning(db: Db, before: number, now: number): QuietAgent[] {
  return db
    .query<QuietAgent, { before: number; now: number }>(
      `SELECT agent_session_id AS incarnation, thread_id AS threadId, harness,
         harness_session_id AS harnessSessionId, last_event_at AS lastEventAt
       FROM agent_sessions
       WHERE retired_at IS NULL AND ready_at IS NOT NULL AND status = 'Running' AND (last_event_at <= $before OR last_event_at > $now)
         AND harness_session_id IS NOT NULL`,
    )
    .all({ before, now });
}

/** False when something was heard of it since. */
export function endQuietly(
  db: Db,
  { incarnation, lastEventAt }: QuietAgent,
  { event, now }: { event: string; now: number },
): boolean {
  return (
    db
      .query(
        `UPDATE agent_sessions SET status = 'Quiescent', last_turn_completed = 0, last_event = $event, last_event_at = $now
         WHERE agent_session_id = $incarnation AND retired_at IS NULL AND status = 'Running'
           AND last_event_at = $lastEventAt`,
      )
      .run({ incarnation, lastEventAt, event, now }).changes === 1
  );
}
