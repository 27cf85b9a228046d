/**
 * Delivery by restart: the attempts are the `agent_sessions` rows that claim an intent, bounds are counted from them,
 * and what a person grants or gives up is on the intent. Callers change intents through cascade/moves.ts.
 */
import { NO_ECHO } from "../core/barrier.ts";
import type { Delivery } from "../core/delivery.ts";
import type { IncarnationId, IntentId, ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";
import { intentById, unresolvedIntents, type IntentRow } from "./intents.ts";
import { startupEcho } from "./startup-prompts.ts";

/** Everything durable about one intent's delivery, as core/delivery.ts decides from it. Throws for an unknown one. */
export function deliveryOf(db: Db, intentId: IntentId): Delivery {
  const intent = intentById(db, intentId);
  if (intent === null) throw new Error(`no intent ${intentId}`);
  const rows = db
    .query<
      { id: string; epoch: number; delivery: string; retired: number; ready: number },
      { intentId: string }
    >(
      `SELECT agent_session_id AS id, startup_intent_epoch AS epoch, startup_delivery_id AS delivery,
         retired_at IS NOT NULL AS retired, ready_at IS NOT NULL AS ready
       FROM agent_sessions WHERE startup_intent_id = $intentId ORDER BY rowid`,
    )
    .all({ intentId });
  const last = rows.at(-1);
  const active = last !== undefined && last.retired === 0 ? last : null;
  return {
    epoch: intent.epoch,
    softRedeliveries: intent.softRedeliveryCount,
    exhausted: intent.exhausted,
    acknowledged:
      intent.state === "Acknowledged" ? { by: "proof", evidence: intent.intentId } : null,
    soft:
      intent.barrier === null
        ? null
        : {
            at: { incarnation: intent.barrier.incarnation, ordinal: intent.barrier.batch },
            completed: intent.batchCompletedAt !== null,
            receipt: intent.receipt,
          },
    attempts: rows.map((r) => ({
      incarnation: r.id,
      epoch: r.epoch,
      startupDeliveryId: r.delivery,
      retired: r.retired === 1,
    })),
    ready: active?.ready === 1,
    echo: active === null ? NO_ECHO : startupEcho(db, intent.threadId, active.id),
  };
}

/** How each attempt of one epoch ended, in words, oldest first. */
export function attemptsOf(db: Db, intentId: IntentId, epoch: number): string[] {
  return db
    .query<{ end: string }, { intentId: string; epoch: number }>(
      `SELECT CASE WHEN retired_at IS NULL THEN 'runs'
         WHEN startup_echo_at IS NOT NULL THEN 'told, then ended: ' || coalesce(last_event, 'no report')
         WHEN ready_at IS NOT NULL THEN 'ready, then ended: ' || coalesce(last_event, 'no report')
         ELSE 'never ready: ' || coalesce(last_event, 'no report') END AS end
       FROM agent_sessions WHERE startup_intent_id = $intentId AND startup_intent_epoch = $epoch
       ORDER BY rowid`,
    )
    .all({ intentId, epoch })
    .map((r) => r.end);
}

/** The unresolved intent that this incarnation was started for. */
export function startedFor(
  db: Db,
  threadId: ThreadId,
  incarnation: IncarnationId,
): IntentRow | null {
  return (
    unresolvedIntents(db, threadId).find((i) => i.restart?.incarnation === incarnation) ?? null
  );
}

/** The intent whose delivery was given up after the thread's last agent, an attempt at it, had ended; null otherwise. */
export function givenUpBehind(db: Db, threadId: ThreadId): IntentId | null {
  const row = db
    .query<{ id: string }, { threadId: string }>(
      `SELECT i.intent_id AS id FROM agent_sessions s JOIN sync_intents i ON i.intent_id = s.startup_intent_id
       WHERE s.rowid = (SELECT max(rowid) FROM agent_sessions WHERE thread_id = $threadId)
         AND s.retired_at IS NOT NULL AND i.discard = 'delivery'`,
    )
    .get({ threadId });
  return row?.id ?? null;
}

/** Detected → Reconciling without a batch: admission is closed and the agent's processes stand still. */
export function quiesce(db: Db, intentId: IntentId, now: number): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET state = 'Reconciling', quiesced_at = $now
         WHERE intent_id = $intentId AND state = 'Detected'`,
      )
      .run({ intentId, now }).changes,
    `intent ${intentId} is not Detected`,
  );
}

/** The tuple goes, the claim of a replacement comes; its row must be there. */
export function claimByRestart(
  db: Db,
  intentId: IntentId,
  claim: { incarnation: IncarnationId; deliveryId: string },
): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET delivery_mode = 'RestartStartup', barrier_agent_session_id = NULL,
           barrier_model_turn = NULL, barrier_tool_batch = NULL, barrier_bound_at = NULL,
           batch_completed_at = NULL, receipt = NULL, receipt_json = NULL,
           restart_agent_session_id = $incarnation, restart_delivery_id = $deliveryId
         WHERE intent_id = $intentId AND state IN ('Materialized','Delivered')`,
      )
      .run({ intentId, ...claim }).changes,
    `intent ${intentId} has no payload to start an agent with`,
  );
}

/** The ready handshake of the incarnation that claims it; the first one is when it was delivered. */
export function markStartupDelivered(
  db: Db,
  intentId: IntentId,
  incarnation: IncarnationId,
  now: number,
): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET state = 'Delivered', delivered_at = coalesce(delivered_at, $now)
         WHERE intent_id = $intentId AND restart_agent_session_id = $incarnation
           AND state IN ('Materialized','Delivered')`,
      )
      .run({ intentId, incarnation, now }).changes,
    `intent ${intentId} is not delivered by ${incarnation}`,
  );
  db.query(
    "UPDATE agent_sessions SET delivered_intent_id = $intentId WHERE agent_session_id = $incarnation",
  ).run({ intentId, incarnation });
}

/** Throws (trigger, or by its own count) without the echo on the incarnation that claims it. */
export function acknowledgeStartup(db: Db, intentId: IntentId, by: string, now: number): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET state = 'Acknowledged', acknowledged_at = $now, acknowledged_by = $by
         WHERE intent_id = $intentId AND state = 'Delivered' AND delivery_mode = 'RestartStartup'`,
      )
      .run({ intentId, by, now }).changes,
    `intent ${intentId} has no proof for an acknowledgement`,
  );
}

/** The last attempt of the epoch has failed: only a person's repair writes to it from here on. */
export function setExhausted(db: Db, intentId: IntentId, now: number): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET delivery_exhausted_at = $now
         WHERE intent_id = $intentId AND delivery_exhausted_at IS NULL
           AND state IN ('Materialized','Delivered')`,
      )
      .run({ intentId, now }).changes,
    `intent ${intentId} cannot be exhausted`,
  );
}

/** `retry-delivery`: the next epoch, unclaimed, counting from zero. */
export function startEpoch(db: Db, intentId: IntentId, from: number): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET delivery_exhausted_at = NULL, delivery_epoch = delivery_epoch + 1,
           soft_redelivery_count = 0, delivery_mode = NULL, barrier_agent_session_id = NULL,
           barrier_model_turn = NULL, barrier_tool_batch = NULL, barrier_bound_at = NULL,
           batch_completed_at = NULL, receipt = NULL, receipt_json = NULL,
           restart_agent_session_id = NULL, restart_delivery_id = NULL
         WHERE intent_id = $intentId AND delivery_exhausted_at IS NOT NULL AND delivery_epoch = $from`,
      )
      .run({ intentId, from }).changes,
    `intent ${intentId} is not exhausted in epoch ${from}`,
  );
}

/** `discard-delivery`: acknowledged without proof, on a person's one approval of exactly that. */
export function discardDelivery(
  db: Db,
  intentId: IntentId,
  by: { approvalId: string; now: number },
): void {
  one(
    db
      .query(
        `UPDATE sync_intents SET state = 'Acknowledged', acknowledged_at = $now,
           acknowledged_by = 'discard-delivery', discard = 'delivery', discard_approval_id = $approvalId
         WHERE intent_id = $intentId AND delivery_exhausted_at IS NOT NULL
           AND state IN ('Materialized','Delivered')`,
      )
      .run({ intentId, ...by }).changes,
    `intent ${intentId} is not exhausted`,
  );
}

/** A later main batch of the bound incarnation was blocked on this intent's account: its own was never complete. */
export function blockedAfter(
  db: Db,
  intentId: IntentId,
  incarnation: IncarnationId,
  ordinal: number,
): boolean {
  return (
    db
      .query(
        `SELECT 1 FROM tool_admissions WHERE agent_session_id = $incarnation AND agent_id = ''
           AND admission = 'Block' AND intent_id = $intentId AND batch_ordinal > $ordinal`,
      )
      .get({ intentId, incarnation, ordinal }) !== null
  );
}

/** The harness can take the conversation up again: it was started, and somebody said something in it. */
export function provenConversation(db: Db, threadId: ThreadId): string | null {
  return (
    db
      .query<{ id: string }, { threadId: string }>(
        `SELECT harness_session_id AS id FROM agent_sessions s WHERE thread_id = $threadId
           AND session_started_at IS NOT NULL AND (prompts > 0 OR EXISTS
             (SELECT 1 FROM tool_admissions a WHERE a.agent_session_id = s.agent_session_id))
         ORDER BY rowid DESC LIMIT 1`,
      )
      .get({ threadId })?.id ?? null
  );
}

function one(changes: number, otherwise: string): void {
  if (changes !== 1) throw new Error(otherwise);
}
