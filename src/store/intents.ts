/** `sync_intents`: the only record of progress of one cascade. */
import type { ChangeId, CommitId, IncarnationId, IntentId, OpId, ThreadId } from "../core/ids.ts";
import { moveIntent, type IntentKind, type IntentState, type NextIntent } from "../core/intent.ts";
import type { ObservedReceipt } from "../core/barrier.ts";
import type { Db } from "./db.ts";

export interface IntentRow {
  intentId: IntentId;
  threadId: ThreadId;
  parentThreadId: ThreadId;
  seq: number;
  kind: IntentKind;
  state: IntentState;
  fromBase: CommitId;
  toBase: CommitId;
  detectedOp: OpId;
  plan: unknown;
  probeFingerprint: string | null;
  resultCommit: CommitId | null;
  payload: string | null;
  payloadSha256: string | null;
  /** The replacement incarnation that claims it, live or retired, and the one-use id its first input carries. */
  restart: { incarnation: IncarnationId; deliveryId: string } | null;
  epoch: number;
  barrier: { incarnation: IncarnationId; turn: number; batch: number } | null;
  batchCompletedAt: number | null;
  receipt: ObservedReceipt | null;
  /** Conversation whose batch completed. */
  receiptSession: string | null;
  softRedeliveryCount: number;
  exhausted: boolean;
  reason: string | null;
  recoveryBundle: string | null;
  /** `RecoveryRequired`, and kiki may still bring it to its end by itself. */
  recovering: boolean;
  /** What recovery adopted, newest last; null before the first. */
  recoveryChoice: unknown;
}

interface Raw {
  intent_id: string;
  thread_id: string;
  parent_thread_id: string;
  seq: number;
  kind: IntentKind;
  state: IntentState;
  from_base_commit_id: string;
  to_base_commit_id: string;
  detected_op_id: string;
  plan_json: string | null;
  probe_fingerprint: string | null;
  result_commit_id: string | null;
  payload: string | null;
  payload_sha256: string | null;
  restart_agent_session_id: string | null;
  restart_delivery_id: string | null;
  delivery_epoch: number;
  delivery_mode: string | null;
  barrier_agent_session_id: string | null;
  barrier_model_turn: number | null;
  barrier_tool_batch: number | null;
  batch_completed_at: number | null;
  receipt: ObservedReceipt | null;
  receipt_session: string | null;
  soft_redelivery_count: number;
  delivery_exhausted_at: number | null;
  reason: string | null;
  recovery_bundle_path: string | null;
  recovery_choice_json: string | null;
  recovering: number | null;
}

function fromRaw(r: Raw): IntentRow {
  return {
    intentId: r.intent_id,
    threadId: r.thread_id,
    parentThreadId: r.parent_thread_id,
    seq: r.seq,
    kind: r.kind,
    state: r.state,
    fromBase: r.from_base_commit_id,
    toBase: r.to_base_commit_id,
    detectedOp: r.detected_op_id,
    plan: r.plan_json === null ? null : JSON.parse(r.plan_json),
    probeFingerprint: r.probe_fingerprint,
    resultCommit: r.result_commit_id,
    payload: r.payload,
    payloadSha256: r.payload_sha256,
    restart:
      r.delivery_mode === "RestartStartup"
        ? { incarnation: r.restart_agent_session_id!, deliveryId: r.restart_delivery_id! }
        : null,
    epoch: r.delivery_epoch,
    barrier:
      r.delivery_mode === "SoftBatch"
        ? {
            incarnation: r.barrier_agent_session_id!,
            turn: r.barrier_model_turn!,
            batch: r.barrier_tool_batch!,
          }
        : null,
    batchCompletedAt: r.batch_completed_at,
    receipt: r.receipt,
    receiptSession: r.receipt_session,
    softRedeliveryCount: r.soft_redelivery_count,
    exhausted: r.delivery_exhausted_at !== null,
    reason: r.reason,
    recoveryBundle: r.recovery_bundle_path,
    recovering: r.state === "RecoveryRequired" && r.recovering === 1,
    recoveryChoice:
      r.recovery_choice_json === null ? null : (JSON.parse(r.recovery_choice_json) as unknown),
  };
}

const COLUMNS =
  "*, receipt_json ->> '$.session' AS receipt_session, plan_json ->> '$.recovery.open' AS recovering";
const UNRESOLVED = "state NOT IN ('Acknowledged','Superseded')";

export function intentById(db: Db, intentId: IntentId): IntentRow | null {
  const r = db
    .query<Raw, { intentId: string }>(
      `SELECT ${COLUMNS} FROM sync_intents WHERE intent_id = $intentId`,
    )
    .get({ intentId });
  return r === null ? null : fromRaw(r);
}

/** Every intent of a thread, oldest first. */
export function intentsOf(db: Db, threadId: ThreadId): IntentRow[] {
  const sql = `SELECT ${COLUMNS} FROM sync_intents WHERE thread_id = $threadId ORDER BY seq`;
  return db.query<Raw, { threadId: string }>(sql).all({ threadId }).map(fromRaw);
}

export function unresolvedIntents(db: Db, threadId: ThreadId): IntentRow[] {
  const sql = `SELECT ${COLUMNS} FROM sync_intents WHERE thread_id = $threadId AND ${UNRESOLVED} ORDER BY seq`;
  return db.query<Raw, { threadId: string }>(sql).all({ threadId }).map(fromRaw);
}

/** Bound and unacknowledged: at most one per thread (partial unique index). */
export function boundIntents(db: Db): IntentRow[] {
  return db
    .query<Raw, []>(
      `SELECT ${COLUMNS} FROM sync_intents WHERE delivery_mode IS NOT NULL
         AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired') ORDER BY thread_id, seq`,
    )
    .all()
    .map(fromRaw);
}

/** Newest intent of an edge that has not been given up, or null: its `toBase` is where the next one starts. */
export function newestOfEdge(
  db: Db,
  threadId: ThreadId,
  parentThreadId: ThreadId,
): IntentRow | null {
  const r = db
    .query<Raw, { threadId: string; parentThreadId: string }>(
      `SELECT ${COLUMNS} FROM sync_intents WHERE thread_id = $threadId AND parent_thread_id = $parentThreadId
         AND ${UNRESOLVED} ORDER BY seq DESC LIMIT 1`,
    )
    .get({ threadId, parentThreadId });
  return r === null ? null : fromRaw(r);
}

export function insertIntent(
  db: Db,
  row: {
    intentId: IntentId;
    threadId: ThreadId;
    parentThreadId: ThreadId;
    kind: IntentKind;
    fromBase: CommitId;
    toBase: CommitId;
    op: OpId;
    now: number;
  },
): void {
  db.query(
    `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
       to_base_commit_id, detected_op_id, created_at)
     SELECT $intentId, $threadId, $parentThreadId,
       1 + coalesce((SELECT max(seq) FROM sync_intents WHERE thread_id = $threadId), 0),
       $kind, 'Detected', $fromBase, $toBase, $op, $now`,
  ).run(row);
}

/** Recorded when a transition cannot be followed: changes no files, stays visible, later intents of the edge wait. */
export function insertDiverged(
  db: Db,
  row: {
    intentId: IntentId;
    threadId: ThreadId;
    parentThreadId: ThreadId;
    fromBase: CommitId;
    toBase: CommitId;
    op: OpId;
    reason: string;
    evidence: unknown;
    now: number;
  },
): void {
  db.query(
    `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
       to_base_commit_id, detected_op_id, created_at, reason, evidence_json)
     SELECT $intentId, $threadId, $parentThreadId,
       1 + coalesce((SELECT max(seq) FROM sync_intents WHERE thread_id = $threadId), 0),
       'ParentAdvance', 'TopologyDiverged', $fromBase, $toBase, $op, $now, $reason, $evidence`,
  ).run({ ...row, evidence: JSON.stringify(row.evidence) });
}

/** A `Detected` intent absorbs a later compatible transition. */
export function coalesce(
  db: Db,
  intentId: IntentId,
  row: { kind: IntentKind; toBase: CommitId },
): void {
  db.query(
    "UPDATE sync_intents SET kind = $kind, to_base_commit_id = $toBase WHERE intent_id = $intentId AND state = 'Detected'",
  ).run({ intentId, ...row });
}

export function addTrigger(
  db: Db,
  row: { intentId: IntentId; op: OpId; from: CommitId; to: CommitId },
): void {
  db.query(
    `INSERT INTO sync_intent_triggers (intent_id, op_id, from_commit_id, to_commit_id)
     VALUES ($intentId, $op, $from, $to) ON CONFLICT DO NOTHING`,
  ).run(row);
}

export function triggersOf(
  db: Db,
  intentId: IntentId,
): { op: OpId; from: CommitId; to: CommitId }[] {
  return db
    .query<{ op_id: string; from_commit_id: string; to_commit_id: string }, { intentId: string }>(
      "SELECT op_id, from_commit_id, to_commit_id FROM sync_intent_triggers WHERE intent_id = $intentId ORDER BY rowid",
    )
    .all({ intentId })
    .map((r) => ({ op: r.op_id, from: r.from_commit_id, to: r.to_commit_id }));
}

/** Checked move: the row must still be in `from`, and the table must have the transition. */
export function setIntentState<F extends IntentState>(
  db: Db,
  intentId: IntentId,
  from: F,
  to: NextIntent<F>,
  extra: {
    reason?: string;
    evidence?: unknown;
    bundle?: string;
    fingerprint?: string;
    supersededBy?: IntentId;
    /** What recovery adopted, and when that was decided. */
    choice?: { what: unknown; at: number };
  } = {},
): void {
  moveIntent(from, to);
  const changed = db
    .query(
      `UPDATE sync_intents SET state = $to,
         reason = coalesce($reason, reason),
         evidence_json = coalesce($evidence, evidence_json),
         recovery_bundle_path = coalesce($bundle, recovery_bundle_path),
         probe_fingerprint = coalesce($fingerprint, probe_fingerprint),
         superseded_by = coalesce($supersededBy, superseded_by),
         recovery_choice_json = coalesce($choice, recovery_choice_json),
         recovery_chosen_at = coalesce($chosenAt, recovery_chosen_at)
       WHERE intent_id = $intentId AND state = $from`,
    )
    .run({
      intentId,
      from,
      to,
      reason: extra.reason ?? null,
      evidence: extra.evidence === undefined ? null : JSON.stringify(extra.evidence),
      bundle: extra.bundle ?? null,
      fingerprint: extra.fingerprint ?? null,
      supersededBy: extra.supersededBy ?? null,
      choice: extra.choice === undefined ? null : JSON.stringify(extra.choice.what),
      chosenAt: extra.choice?.at ?? null,
    }).changes;
  if (changed !== 1) throw new Error(`intent ${intentId} is no longer ${from}`);
}

export function savePlan(db: Db, intentId: IntentId, plan: unknown, fingerprint: string): void {
  db.query(
    `UPDATE sync_intents SET plan_json = $plan, probe_fingerprint = $fingerprint
     WHERE intent_id = $intentId AND state IN ('Reconciling','RecoveryRequired')`,
  ).run({ intentId, plan: JSON.stringify(plan), fingerprint });
}

/** Reconciling → Materialized with everything the constraints ask for. */
export function materialize(
  db: Db,
  intentId: IntentId,
  row: {
    resultCommit: CommitId;
    payload: string;
    payloadSha256: string;
    payloadJson: unknown;
    anchor: { change: ChangeId; commit: CommitId; op: OpId };
    now: number;
  },
): void {
  moveIntent("Reconciling", "Materialized");
  const changed = db
    .query(
      // A payload that was prepared before a recovery stays what it was.
      `UPDATE sync_intents SET state = 'Materialized', result_commit_id = coalesce(result_commit_id, $resultCommit),
         payload_sha256 = coalesce(payload_sha256, $payloadSha256),
         payload_json = CASE WHEN payload IS NULL THEN $payloadJson ELSE payload_json END,
         payload = coalesce(payload, $payload), anchor_change_id = coalesce(anchor_change_id, $change),
         anchor_commit_id = coalesce(anchor_commit_id, $commit), anchor_op_id = coalesce(anchor_op_id, $op),
         prepared_at = coalesce(prepared_at, $now)
       WHERE intent_id = $intentId AND state = 'Reconciling'`,
    )
    .run({
      intentId,
      resultCommit: row.resultCommit,
      payload: row.payload,
      payloadSha256: row.payloadSha256,
      payloadJson: JSON.stringify(row.payloadJson),
      change: row.anchor.change,
      commit: row.anchor.commit,
      op: row.anchor.op,
      now: row.now,
    }).changes;
  if (changed !== 1) throw new Error(`intent ${intentId} is not Reconciling`);
}

/** A person gave the transition up. Throws (CHECK, trigger) without the approval, or when a payload was bound to it. */
export function discardTransition(
  db: Db,
  intentId: IntentId,
  row: { by: string; approvalId: string; now: number },
): void {
  const changed = db
    .query(
      `UPDATE sync_intents SET state = 'Acknowledged', acknowledged_at = $now, acknowledged_by = $by,
         discard = 'transition', discard_approval_id = $approvalId
       WHERE intent_id = $intentId AND state IN ('Detected','TopologyDiverged')`,
    )
    .run({ intentId, ...row }).changes;
  if (changed !== 1) throw new Error(`the transition of intent ${intentId} cannot be discarded`);
}
