/**
 * `SoftBatch`: delivery at a boundary. An intent is bound to one exact batch, delivered and acknowledged by what is
 * known of that batch. (By a restart: `deliveries.ts`.) Callers change intents through cascade/moves.ts.
 */
import type { ObservedReceipt } from "../core/barrier.ts";
import type { IncarnationId, IntentId } from "../core/ids.ts";
import type { Db } from "./db.ts";

/** The durable decision, before the first mutation: tuple and, for fresh work, Detected → Reconciling. */
export function bindSoftBatch(
  db: Db,
  intentId: IntentId,
  tuple: { incarnation: IncarnationId; turn: number; batch: number },
  now: number,
): void {
  const changed = db
    .query(
      `UPDATE sync_intents SET state = CASE state WHEN 'Detected' THEN 'Reconciling' ELSE state END,
         delivery_mode = 'SoftBatch', barrier_agent_session_id = $incarnation, barrier_model_turn = $turn,
         barrier_tool_batch = $batch, barrier_bound_at = $now, batch_completed_at = NULL, receipt = NULL,
         receipt_json = NULL
       WHERE intent_id = $intentId AND delivery_mode IS NULL
         AND state IN ('Detected','Materialized','Delivered')`,
    )
    .run({ intentId, ...tuple, now }).changes;
  if (changed !== 1) throw new Error(`intent ${intentId} cannot be bound`);
}

/** Rule 5b: the same intent moves to the arriving batch; counted in the same statement. */
export function rebindSoftBatch(
  db: Db,
  intentId: IntentId,
  tuple: { incarnation: IncarnationId; turn: number; batch: number },
  now: number,
): void {
  const changed = db
    .query(
      `UPDATE sync_intents SET delivery_mode = 'SoftBatch', barrier_agent_session_id = $incarnation,
         barrier_model_turn = $turn, barrier_tool_batch = $batch, barrier_bound_at = $now,
         batch_completed_at = NULL, receipt = NULL, receipt_json = NULL,
         soft_redelivery_count = soft_redelivery_count + 1
       WHERE intent_id = $intentId AND batch_completed_at IS NOT NULL
         AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired')`,
    )
    .run({ intentId, ...tuple, now }).changes;
  if (changed !== 1) throw new Error(`intent ${intentId} cannot be rebound`);
}

/** After stdout: state, first delivery time, the incarnation's pointer. False when the tuple does not match. */
export function markDelivered(
  db: Db,
  intentId: IntentId,
  tuple: { incarnation: IncarnationId; turn: number; batch: number },
  now: number,
): boolean {
  const changed = db
    .query(
      `UPDATE sync_intents SET state = 'Delivered', delivered_at = coalesce(delivered_at, $now)
       WHERE intent_id = $intentId AND state IN ('Materialized','Delivered')
         AND barrier_agent_session_id = $incarnation AND barrier_model_turn = $turn AND barrier_tool_batch = $batch`,
    )
    .run({ intentId, ...tuple, now }).changes;
  if (changed === 1) {
    db.query(
      "UPDATE agent_sessions SET delivered_intent_id = $intentId WHERE agent_session_id = $incarnation",
    ).run({ intentId, incarnation: tuple.incarnation });
  }
  return changed === 1;
}

/** The closing batch: completion and receipt, once, for the exact tuple. False for a duplicate or a stale one. */
export function completeBatch(
  db: Db,
  intentId: IntentId,
  tuple: { incarnation: IncarnationId; batch: number },
  receipt: { judged: ObservedReceipt; evidence: unknown },
  now: number,
): boolean {
  return (
    db
      .query(
        `UPDATE sync_intents SET batch_completed_at = $now, receipt = $receipt, receipt_json = $evidence
         WHERE intent_id = $intentId AND delivery_mode = 'SoftBatch' AND batch_completed_at IS NULL
           AND barrier_agent_session_id = $incarnation AND barrier_tool_batch = $batch
           AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired')`,
      )
      .run({
        intentId,
        ...tuple,
        receipt: receipt.judged,
        evidence: JSON.stringify(receipt.evidence),
        now,
      }).changes === 1
  );
}

/** Delivered (or Materialized with the same proof: a lost MarkDelivered) → Acknowledged. */
export function acknowledge(db: Db, intentId: IntentId, by: string, now: number): void {
  const changed = db
    .query(
      `UPDATE sync_intents SET state = 'Acknowledged', delivered_at = coalesce(delivered_at, $now),
         acknowledged_at = $now, acknowledged_by = $by
       WHERE intent_id = $intentId AND state IN ('Materialized','Delivered')
         AND batch_completed_at IS NOT NULL AND receipt = 'matching'`,
    )
    .run({ intentId, by, now }).changes;
  if (changed !== 1) throw new Error(`intent ${intentId} has no proof for an acknowledgement`);
}
