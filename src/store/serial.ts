/**
 * Calls of a harness that runs one at a time: where the main agent's calls stand in its session record, what was seen
 * against its being serial, and whether its boundary still counts as proved.
 */
import type { ObservedReceipt } from "../core/barrier.ts";
import type { IncarnationId, IntentId } from "../core/ids.ts";
import type { Db } from "./db.ts";

/** The capability that a boundary without proof does not have. */
const BOUNDARY = "parallel_batch_boundary";

/** What the rows say about an arriving main call of `record`: all of the incarnation's earlier ones. */
export interface EarlierCalls {
  /** Highest response of the same record that a call was decided in. */
  highest: number | null;
  /** A call of the same response in the same turn. */
  sameResponse: { ordinal: number } | null;
  /** The newest call's turn is another, and this one was there before it. */
  turnWasLeft: boolean;
}

export function earlierCalls(
  db: Db,
  incarnation: IncarnationId,
  call: { toolUseId: string; turn: string | null; record: string; response: number | null },
): EarlierCalls {
  const { toolUseId, turn, record, response } = call;
  const of = "agent_session_id = $incarnation AND agent_id = '' AND tool_use_id <> $toolUseId";
  const key = { incarnation, toolUseId };
  const highest = db
    .query<{ n: number | null }, typeof key & { record: string }>(
      `SELECT max(model_turn) AS n FROM tool_admissions WHERE ${of} AND record_path = $record`,
    )
    .get({ ...key, record });
  const same = db
    .query<
      { ordinal: number },
      typeof key & { record: string; response: number | null; turn: string | null }
    >(
      `SELECT batch_ordinal AS ordinal FROM tool_admissions WHERE ${of} AND record_path = $record
         AND model_turn = $response AND prompt_id IS $turn ORDER BY admission_id LIMIT 1`,
    )
    .get({ ...key, record, response, turn });
  const newest = db
    .query<{ turn: string | null }, typeof key>(
      `SELECT prompt_id AS turn FROM tool_admissions WHERE ${of} AND prompt_id IS NOT NULL
       ORDER BY admission_id DESC LIMIT 1`,
    )
    .get(key);
  const left =
    turn !== null &&
    newest !== null &&
    newest.turn !== turn &&
    db
      .query(`SELECT 1 FROM tool_admissions WHERE ${of} AND prompt_id = $turn`)
      .get({ ...key, turn }) !== null;
  return { highest: highest?.n ?? null, sameResponse: same, turnWasLeft: left };
}

/** The record shows a call that it did not show when the call was decided. */
export function setModelTurn(
  db: Db,
  incarnation: IncarnationId,
  toolUseId: string,
  modelTurn: number,
): void {
  db.query(
    `UPDATE tool_admissions SET model_turn = $modelTurn
     WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND model_turn IS NULL
       AND record_path IS NOT NULL`,
  ).run({ incarnation, toolUseId, modelTurn });
}

/** One more sibling where the harness's boundary excludes them. Returns how many that makes. */
export function countViolation(db: Db, incarnation: IncarnationId): number {
  const row = db
    .query<{ n: number }, { incarnation: string }>(
      `UPDATE agent_sessions SET serial_violations = serial_violations + 1
       WHERE agent_session_id = $incarnation RETURNING serial_violations AS n`,
    )
    .get({ incarnation });
  if (row === null) throw new Error(`no incarnation ${incarnation}`);
  return row.n;
}

/** What the boundary of an incarnation is worth. */
export interface BoundaryProof {
  /** Calls may be blocked, told and acknowledged there; if not, only a restart tells the agent. */
  soft: boolean;
  violations: number;
  /** It was started in order to be told, and no batch of it has passed and completed since. */
  fresh: boolean;
}

export function boundaryProof(db: Db, incarnation: IncarnationId): BoundaryProof {
  const row = db
    .query<{ soft: number | null; violations: number; fresh: number }, { incarnation: string }>(
      `SELECT capabilities_json ->> '$.${BOUNDARY}' AS soft, serial_violations AS violations,
         startup_intent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tool_admissions a
           WHERE a.agent_session_id = s.agent_session_id AND a.agent_id = '' AND a.admission = 'PassThrough'
             AND a.batch_closed_at IS NOT NULL) AS fresh
       FROM agent_sessions s WHERE agent_session_id = $incarnation`,
    )
    .get({ incarnation });
  return {
    soft: row?.soft !== 0,
    violations: row?.violations ?? 0,
    fresh: row?.fresh === 1,
  };
}

/** Something showed that the boundary is not what was proved of it. True when it counted as proved until now. */
export function loseBoundary(db: Db, incarnation: IncarnationId): boolean {
  return (
    db
      .query(
        `UPDATE agent_sessions SET capabilities_json = json_set(capabilities_json, '$.${BOUNDARY}', json('false'))
         WHERE agent_session_id = $incarnation AND (capabilities_json ->> '$.${BOUNDARY}') IS NOT 0`,
      )
      .run({ incarnation }).changes === 1
  );
}

/** Times in which calls of the incarnation may have changed files, by the wall clock. `until` null: still now. */
export function callTimes(
  db: Db,
  incarnation: IncarnationId,
): { since: number; calls: { from: number; until: number | null }[] } | null {
  const session = db
    .query<{ since: number | null }, { incarnation: string }>(
      "SELECT ready_at AS since FROM agent_sessions WHERE agent_session_id = $incarnation",
    )
    .get({ incarnation });
  if (session?.since == null) return null;
  // Only the event that follows a tool says that its process is gone: without it the command may run on behind a poll.
  const calls = db
    .query<{ from: number; until: number | null }, { incarnation: string }>(
      `SELECT admitted_at AS "from", CASE resolution WHEN 'post-tool' THEN resolved_at END AS until
       FROM tool_admissions WHERE agent_session_id = $incarnation AND admission = 'PassThrough'`,
    )
    .all({ incarnation });
  return { since: session.since, calls };
}

/** The record could be read after all. False when that was known already, or the tuple is another. */
export function rereadReceipt(
  db: Db,
  intentId: IntentId,
  tuple: { incarnation: IncarnationId; batch: number },
  receipt: { judged: Exclude<ObservedReceipt, "unreadable">; evidence: unknown },
): boolean {
  return (
    db
      .query(
        `UPDATE sync_intents SET receipt = $receipt, receipt_json = $evidence
         WHERE intent_id = $intentId AND receipt = 'unreadable'
           AND barrier_agent_session_id = $incarnation AND barrier_tool_batch = $batch`,
      )
      .run({
        intentId,
        ...tuple,
        receipt: receipt.judged,
        evidence: JSON.stringify(receipt.evidence),
      }).changes === 1
  );
}
