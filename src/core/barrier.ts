/**
 * What a `PreToolUse` may do, decided from durable state (cascade chapter, "On every PreToolUse"). Pure: the caller
 * gathers the facts, acts on one decision, records it, and asks again when the decision was `acknowledge`.
 */
import type { IncarnationId, IntentId } from "./ids.ts";
import type { IntentState } from "./intent.ts";

/** A main agent's place: batches of one incarnation are numbered, and the number never restarts. */
export interface BatchRef {
  incarnation: IncarnationId;
  ordinal: number;
}

export type Receipt = "matching" | "contrary";

/** The bound, unacknowledged intent of the thread. */
export interface ActiveBarrier {
  intentId: IntentId;
  state: IntentState;
  batch: BatchRef;
  completed: boolean;
  receipt: Receipt | null;
  /** The completing batch belonged to another conversation: the one that calls now never got the payload. */
  sessionChanged?: boolean;
  /** Rebinds so far in this delivery epoch. */
  redeliveries: number;
}

export interface BoundaryFacts {
  /** null for the main agent. */
  agentId: string | null;
  /** The call's own batch and, once its first call was decided, that batch's fixed admission. */
  batch: BatchRef;
  admission: "PassThrough" | "Block" | null;
  active: ActiveBarrier | null;
  /** Oldest unresolved intent that is not `active`. */
  next: { intentId: IntentId; state: IntentState; exhausted: boolean } | null;
  /** Blocked main batches that immediately precede this one, without a passed and completed one between. */
  blockedInARow: number;
  /** Sub-agents only: this agent already got a copy of the active payload. */
  hasCopy: boolean;
}

export type BoundaryDecision =
  | { act: "pass" }
  /** Rule 5: record the acknowledgement, then decide again. */
  | { act: "acknowledge"; intentId: IntentId }
  /** Deny with the saved payload, byte for byte. */
  | { act: "deny-payload"; intentId: IntentId }
  /** Hold; deny with the payload when it is prepared, generically at the hold limit. */
  | { act: "await-payload"; intentId: IntentId }
  /** Hold, confirm, drain, bind durably, reconcile. */
  | { act: "bind"; intentId: IntentId }
  /** Rule 5b: bind the prepared intent to this batch, counted, and deny with the payload. */
  | { act: "rebind"; intentId: IntentId; needsReconcile: boolean }
  /** The batch was blocked and its barrier is no more: what was decided for one call holds for its siblings. */
  | { act: "stay-blocked" }
  /** Blocked until something outside this call changes; `restart` names the hard-restart path. */
  | { act: "block"; intentId: IntentId; reason: BlockReason };

export type BlockReason =
  | "recovery-required"
  | "delivery-exhausted"
  | "batch-not-complete"
  | "second-contrary-receipt"
  | "no-rule-matches";

/** A busy parent may block at most this many main batches in a row with merely detected work. */
export const MAX_BLOCKED_BATCHES_IN_A_ROW = 2;
/** Soft redeliveries before the ladder leaves for `RestartStartup`. */
export const MAX_SOFT_REDELIVERIES = 1;

export function decideBoundary(f: BoundaryFacts): BoundaryDecision {
  return f.agentId === null ? decideMain(f) : decideSubAgent(f);
}

function decideMain(f: BoundaryFacts): BoundaryDecision {
  const a = f.active;
  if (a !== null) {
    if (a.state === "RecoveryRequired") {
      return { act: "block", intentId: a.intentId, reason: "recovery-required" };
    }
    const prepared = a.state === "Materialized" || a.state === "Delivered";
    if (sameBatch(a.batch, f.batch)) {
      return { act: prepared ? "deny-payload" : "await-payload", intentId: a.intentId };
    }
    if (!a.completed) return { act: "block", intentId: a.intentId, reason: "batch-not-complete" };
    const later = a.batch.incarnation === f.batch.incarnation && f.batch.ordinal > a.batch.ordinal;
    if (prepared && a.receipt === "matching" && later && a.sessionChanged !== true)
      return { act: "acknowledge", intentId: a.intentId };
    if (a.receipt === "contrary" && a.redeliveries >= MAX_SOFT_REDELIVERIES) {
      return { act: "block", intentId: a.intentId, reason: "second-contrary-receipt" };
    }
    if (prepared || a.state === "Reconciling" || a.state === "Detected") {
      return { act: "rebind", intentId: a.intentId, needsReconcile: !prepared };
    }
    return { act: "block", intentId: a.intentId, reason: "no-rule-matches" };
  }
  if (f.admission === "PassThrough") return { act: "pass" };
  if (f.admission === "Block") return { act: "stay-blocked" };
  const n = f.next;
  if (n === null) return { act: "pass" };
  if (n.state === "RecoveryRequired") {
    return { act: "block", intentId: n.intentId, reason: "recovery-required" };
  }
  if (n.exhausted) return { act: "block", intentId: n.intentId, reason: "delivery-exhausted" };
  if (n.state === "Detected") {
    return f.blockedInARow >= MAX_BLOCKED_BATCHES_IN_A_ROW
      ? { act: "pass" }
      : { act: "bind", intentId: n.intentId };
  }
  // Prepared but unbound (for example adopted after a crash): always ready.
  if (n.state === "Materialized" || n.state === "Delivered") {
    return { act: "rebind", intentId: n.intentId, needsReconcile: false };
  }
  return { act: "block", intentId: n.intentId, reason: "no-rule-matches" };
}

/** Only the main agent binds, completes and acknowledges; others get uncounted copies. */
function decideSubAgent(f: BoundaryFacts): BoundaryDecision {
  const a = f.active;
  if (a === null) return { act: "pass" };
  if (a.state === "RecoveryRequired") {
    return { act: "block", intentId: a.intentId, reason: "recovery-required" };
  }
  const prepared = a.state === "Materialized" || a.state === "Delivered";
  if (!prepared) return { act: "await-payload", intentId: a.intentId };
  if (!a.completed || !f.hasCopy) return { act: "deny-payload", intentId: a.intentId };
  return { act: "pass" };
}

function sameBatch(a: BatchRef, b: BatchRef): boolean {
  return a.incarnation === b.incarnation && a.ordinal === b.ordinal;
}

/**
 * What one closing batch says about an open batch of the same agent. `listed` are the ids in `PostToolBatch`;
 * `admitted` the ids kiki admitted or blocked in that batch. Extra members are fine (calls refused before hooks);
 * an admitted call that is missing means this event belongs to something else.
 */
export function completionOf(
  admitted: readonly string[],
  listed: ReadonlySet<string>,
): "complete" | "omits-admitted" {
  return admitted.every((id) => listed.has(id)) ? "complete" : "omits-admitted";
}

/**
 * The receipt: what the model actually got for the blocked calls. At least one blocked id shows the payload inside
 * the version's wrapper → matching; none does → contrary; a blocked id shows a real result → the tool ran.
 */
export function judgeReceipt(
  blocked: readonly { toolUseId: string; expected: string; generic: readonly string[] }[],
  responses: ReadonlyMap<string, string>,
): Receipt | "tool-ran" {
  let matching = false;
  for (const call of blocked) {
    const got = responses.get(call.toolUseId);
    if (got === undefined) continue;
    if (got === call.expected) matching = true;
    else if (!call.generic.some((prefix) => got.startsWith(prefix))) return "tool-ran";
  }
  return matching ? "matching" : "contrary";
}
