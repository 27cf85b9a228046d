/**
 * `tool_admissions`: every decided tool call of an incarnation. Batches are numbered per (incarnation, agent) and
 * the number only grows: it is one more than the newest closed batch's, or the open batch's own. Rows are never
 * deleted while the incarnation lives, so a daemon restart knows every in-flight call.
 */
import type { IncarnationId, IntentId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export type Admission = "PassThrough" | "Block";
export type Resolution =
  | "post-tool"
  | "batch-closed"
  | "batch-ended"
  | "denied"
  | "incarnation-retired";

export interface AdmissionRow {
  agentId: string;
  ordinal: number;
  promptId: string | null;
  toolUseId: string;
  toolName: string;
  admission: Admission;
  intentId: IntentId | null;
  answer: "payload" | "generic" | null;
  resolved: boolean;
  /** The session record that shows the call, and the response it belongs to there; null: not known (yet). */
  recordPath: string | null;
  modelTurn: number | null;
}

interface Raw {
  agent_id: string;
  batch_ordinal: number;
  prompt_id: string | null;
  tool_use_id: string;
  tool_name: string;
  admission: Admission;
  intent_id: string | null;
  answer: "payload" | "generic" | null;
  resolved_at: number | null;
  record_path: string | null;
  model_turn: number | null;
}

function fromRaw(r: Raw): AdmissionRow {
  return {
    agentId: r.agent_id,
    ordinal: r.batch_ordinal,
    promptId: r.prompt_id,
    toolUseId: r.tool_use_id,
    toolName: r.tool_name,
    admission: r.admission,
    intentId: r.intent_id,
    answer: r.answer,
    resolved: r.resolved_at !== null,
    recordPath: r.record_path,
    modelTurn: r.model_turn,
  };
}

/** Calls of batches that have neither closed nor ended, every agent of the incarnation, in order of arrival. */
export function openCalls(db: Db, incarnation: IncarnationId): AdmissionRow[] {
  return db
    .query<Raw, { incarnation: string }>(
      `SELECT agent_id, batch_ordinal, prompt_id, tool_use_id, tool_name, admission, intent_id, answer, resolved_at,
         record_path, model_turn
       FROM tool_admissions WHERE agent_session_id = $incarnation AND batch_closed_at IS NULL ORDER BY admission_id`,
    )
    .all({ incarnation })
    .map(fromRaw);
}

/** The agent's batch of that number closed or ended, or a later one has begun: no call of it is admitted any more. */
export function isOver(
  db: Db,
  incarnation: IncarnationId,
  agentId: string,
  ordinal: number,
): boolean {
  return (
    db
      .query(
        `SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND agent_id = $agentId
           AND (batch_ordinal > $ordinal OR (batch_ordinal = $ordinal AND batch_closed_at IS NOT NULL))`,
      )
      .get({ incarnation, agentId, ordinal }) !== null
  );
}

/** Highest batch number ever used by one agent; 0 before its first. */
export function lastOrdinal(db: Db, incarnation: IncarnationId, agentId: string): number {
  return (
    db
      .query<{ n: number | null }, { incarnation: string; agentId: string }>(
        "SELECT max(batch_ordinal) AS n FROM tool_admissions WHERE agent_session_id = $incarnation AND agent_id = $agentId",
      )
      .get({ incarnation, agentId })?.n ?? 0
  );
}

export function admit(
  db: Db,
  row: {
    incarnation: IncarnationId;
    agentId: string;
    ordinal: number;
    promptId: string | null;
    toolUseId: string;
    toolName: string;
    admission: Admission;
    intentId: IntentId | null;
    answer: "payload" | "generic" | null;
    recordPath?: string | null;
    modelTurn?: number | null;
    now: number;
  },
): void {
  const denied = row.admission === "Block";
  db.query(
    `INSERT INTO tool_admissions (agent_session_id, agent_id, batch_ordinal, prompt_id, tool_use_id, tool_name,
       admission, intent_id, answer, admitted_at, resolved_at, resolution, record_path, model_turn)
     VALUES ($incarnation, $agentId, $ordinal, $promptId, $toolUseId, $toolName, $admission, $intentId, $answer, $now,
       $resolvedAt, $resolution, $recordPath, $modelTurn)
     ON CONFLICT (agent_session_id, tool_use_id) DO UPDATE
       SET answer = CASE admission WHEN 'Block' THEN coalesce(excluded.answer, answer) END`,
  ).run({
    incarnation: row.incarnation,
    agentId: row.agentId,
    ordinal: row.ordinal,
    promptId: row.promptId,
    toolUseId: row.toolUseId,
    toolName: row.toolName,
    admission: row.admission,
    intentId: row.intentId,
    answer: row.answer,
    now: row.now,
    recordPath: row.recordPath ?? null,
    modelTurn: row.modelTurn ?? null,
    resolvedAt: denied ? row.now : null,
    resolution: denied ? "denied" : null,
  });
}

/** A call id whose batch is over is used again: the old row keeps its story under another name. */
export function retireCallId(db: Db, incarnation: IncarnationId, toolUseId: string): void {
  const used = db
    .query(
      "SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND batch_closed_at IS NOT NULL",
    )
    .get({ incarnation, toolUseId });
  if (used === null) return;
  db.query(
    `UPDATE tool_admissions SET tool_use_id = tool_use_id || '#' || admission_id
     WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND batch_closed_at IS NOT NULL`,
  ).run({ incarnation, toolUseId });
}

/** A call of this id was decided in the incarnation, however long ago. */
export function isKnownCall(db: Db, incarnation: IncarnationId, toolUseId: string): boolean {
  const sql =
    "SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId";
  return db.query(sql).get({ incarnation, toolUseId }) !== null;
}

/** A call of an agent that is neither the main one nor in `but`, or one of the tool that starts such an agent. */
export function hasOtherAgents(
  db: Db,
  incarnation: IncarnationId,
  of: { but: string; tool: string },
): boolean {
  const sql = `SELECT 1 FROM tool_admissions
    WHERE agent_session_id = $incarnation AND (agent_id NOT IN ('', $but) OR tool_name = $tool)`;
  return db.query(sql).get({ incarnation, ...of }) !== null;
}

/** Some of these calls belong to a batch that is over. */
export function anyClosed(db: Db, incarnation: IncarnationId, ids: ReadonlySet<string>): boolean {
  const closed = db.query(
    "SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND batch_closed_at IS NOT NULL",
  );
  return [...ids].some((toolUseId) => closed.get({ incarnation, toolUseId }) !== null);
}

/** What a blocked call was finally told. */
export function setAnswer(
  db: Db,
  incarnation: IncarnationId,
  toolUseId: string,
  answer: "payload" | "generic",
): void {
  db.query(
    "UPDATE tool_admissions SET answer = $answer WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND admission = 'Block'",
  ).run({ incarnation, toolUseId, answer });
}

export function resolveCall(
  db: Db,
  incarnation: IncarnationId,
  toolUseId: string,
  resolution: Resolution,
  now: number,
): void {
  db.query(
    `UPDATE tool_admissions SET resolved_at = $now, resolution = $resolution
     WHERE agent_session_id = $incarnation AND tool_use_id = $toolUseId AND resolved_at IS NULL`,
  ).run({ incarnation, toolUseId, resolution, now });
}

/** Closes (PostToolBatch) or ends (anything else that proves it over) one agent's batch; resolves its calls. */
export function closeBatch(
  db: Db,
  incarnation: IncarnationId,
  agentId: string,
  ordinal: number,
  how: "closed" | "ended",
  now: number,
): void {
  db.query(
    `UPDATE tool_admissions SET batch_closed_at = $now, batch_end = $how,
       resolution = CASE WHEN resolved_at IS NULL THEN $resolution ELSE resolution END,
       resolved_at = coalesce(resolved_at, $now)
     WHERE agent_session_id = $incarnation AND agent_id = $agentId AND batch_ordinal = $ordinal
       AND batch_closed_at IS NULL`,
  ).run({
    incarnation,
    agentId,
    ordinal,
    how,
    now,
    resolution: how === "closed" ? "batch-closed" : "batch-ended",
  });
}

/**
 * A batch the harness closed in which kiki decided nothing at all (every call was refused before hooks) still counts
 * as a model turn; nothing needs a row for it because no call of it was ever admitted.
 */
export function blockedInARow(db: Db, incarnation: IncarnationId): number {
  const rows = db
    .query<{ blocked: number }, { incarnation: string }>(
      `SELECT max(admission = 'Block') AS blocked FROM tool_admissions
       WHERE agent_session_id = $incarnation AND agent_id = '' AND batch_closed_at IS NOT NULL
       GROUP BY batch_ordinal ORDER BY batch_ordinal DESC LIMIT 3`,
    )
    .all({ incarnation });
  const firstPassed = rows.findIndex((r) => r.blocked === 0);
  return firstPassed === -1 ? rows.length : firstPassed;
}

/** Blocked calls of one agent's batch, for the receipt. */
export function blockedCalls(
  db: Db,
  incarnation: IncarnationId,
  agentId: string,
  ordinal: number,
): { toolUseId: string; toolName: string; answer: "payload" | "generic" | null }[] {
  return db
    .query<
      { tool_use_id: string; tool_name: string; answer: "payload" | "generic" | null },
      { incarnation: string; agentId: string; ordinal: number }
    >(
      `SELECT tool_use_id, tool_name, answer FROM tool_admissions
       WHERE agent_session_id = $incarnation AND agent_id = $agentId AND batch_ordinal = $ordinal
         AND admission = 'Block' ORDER BY admission_id`,
    )
    .all({ incarnation, agentId, ordinal })
    .map((r) => ({ toolUseId: r.tool_use_id, toolName: r.tool_name, answer: r.answer }));
}

/** This agent was already handed a copy of the intent's payload. */
export function hasCopy(
  db: Db,
  incarnation: IncarnationId,
  agentId: string,
  intentId: IntentId,
): boolean {
  return (
    db
      .query(
        `SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND agent_id = $agentId
           AND intent_id = $intentId AND answer = 'payload'`,
      )
      .get({ incarnation, agentId, intentId }) !== null
  );
}

/** Copies of one payload that an agent may be refused with although its model never gets them. */
const MAX_COPIES = 3;

/** What the agent's batch was refused with did not reach its model: it has no copy yet, unless it was given often enough. */
export function copyLost(
  db: Db,
  incarnation: IncarnationId,
  { agentId, ordinal, intentId }: { agentId: string; ordinal: number; intentId: IntentId },
): void {
  const of = { incarnation, agentId, intentId };
  const { n } = db
    .query<{ n: number }, typeof of>(
      `SELECT count(DISTINCT batch_ordinal) AS n FROM tool_admissions
       WHERE agent_session_id = $incarnation AND agent_id = $agentId AND intent_id = $intentId`,
    )
    .get(of)!;
  if (n >= MAX_COPIES) return;
  db.query(
    `UPDATE tool_admissions SET answer = 'generic' WHERE agent_session_id = $incarnation AND agent_id = $agentId
       AND batch_ordinal = $ordinal AND admission = 'Block' AND intent_id = $intentId`,
  ).run({ ...of, ordinal });
}

/** Everything a dead process had open is over. */
export function retireCalls(db: Db, incarnation: IncarnationId, now: number): void {
  db.query(
    `UPDATE tool_admissions SET batch_closed_at = $now, batch_end = 'ended',
       resolution = CASE WHEN resolved_at IS NULL THEN 'incarnation-retired' ELSE resolution END,
       resolved_at = coalesce(resolved_at, $now)
     WHERE agent_session_id = $incarnation AND batch_closed_at IS NULL`,
  ).run({ incarnation, now });
}

/** Whether a call was decided in a turn of that prompt. */
export function hasCallOf(db: Db, incarnation: IncarnationId, promptId: string): boolean {
  const sql =
    "SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND prompt_id = $promptId LIMIT 1";
  return db.query(sql).get({ incarnation, promptId }) !== null;
}
