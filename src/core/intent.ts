/** Sync intents: the durable record of one unit of cascade work (cascade chapter). */

export const INTENT_STATES = [
  "Detected",
  "Reconciling",
  "Materialized",
  "Delivered",
  "Acknowledged",
  "RecoveryRequired",
  "TopologyDiverged",
  "Superseded",
] as const;
export type IntentState = (typeof INTENT_STATES)[number];

export const INTENT_KINDS = ["NativeRewrite", "ParentAdvance"] as const;
export type IntentKind = (typeof INTENT_KINDS)[number];

export const CLASSIFICATIONS = [
  "NativeRewrite",
  "ParentAdvance",
  "AlreadyAligned",
  "TopologyDiverged",
] as const;
export type ClassificationName = (typeof CLASSIFICATIONS)[number];

export const DELIVERY_MODES = ["SoftBatch", "RestartStartup"] as const;
export type DeliveryMode = (typeof DELIVERY_MODES)[number];

export const PROBE_STATES = [
  "FreshClean",
  "FreshDirty",
  "StaleClean",
  "StaleDirty",
  "Unknown",
] as const;
export type ProbeState = (typeof PROBE_STATES)[number];

export const CASCADE_STATUSES = ["in sync", "pending", "conflicted"] as const;
export type CascadeStatus = (typeof CASCADE_STATUSES)[number];

const TRANSITIONS: Record<IntentState, readonly IntentState[]> = {
  // Detected → TopologyDiverged: revalidation at the boundary may find that the transition no longer describes
  // reality; Detected → Superseded: an earlier intent of the edge already covers it.
  Detected: ["Reconciling", "TopologyDiverged", "Superseded"],
  Reconciling: ["Materialized", "RecoveryRequired", "TopologyDiverged"],
  RecoveryRequired: ["Reconciling"],
  // Materialized → Acknowledged: the same proof repairs a lost MarkDelivered and acknowledges at once.
  // …→ RecoveryRequired: the receipt shows that a blocked tool ran after all.
  Materialized: ["Delivered", "Acknowledged", "RecoveryRequired"],
  Delivered: ["Acknowledged", "RecoveryRequired"],
  Acknowledged: [],
  TopologyDiverged: [],
  Superseded: [],
};

export function canMoveIntent(from: IntentState, to: IntentState): boolean {
  return TRANSITIONS[from].includes(to);
}

/** Throws by name on a move the table does not have. */
export function moveIntent(from: IntentState, to: IntentState): IntentState {
  if (!canMoveIntent(from, to)) throw new Error(`illegal intent transition ${from} → ${to}`);
  return to;
}

export function isResolved(state: IntentState): boolean {
  return state === "Acknowledged" || state === "Superseded";
}

/** States in which the payload exists and may be emitted. */
export function isPrepared(state: IntentState): boolean {
  return state === "Materialized" || state === "Delivered";
}

/** States during which the barrier marker file must exist (harness chapter), given the intent is bound. */
export function needsMarker(state: IntentState, bound: boolean): boolean {
  if (state === "RecoveryRequired" || state === "Reconciling") return true;
  if (state === "Materialized" || state === "Delivered") return true;
  return state === "Detected" && bound;
}

/** Cascade status of a thread: a query over its unresolved intents, nothing else. */
export function cascadeStatus(
  intents: readonly { state: IntentState; exhausted: boolean }[],
): CascadeStatus {
  if (
    intents.some(
      (i) => i.state === "RecoveryRequired" || i.state === "TopologyDiverged" || i.exhausted,
    )
  ) {
    return "conflicted";
  }
  return intents.some((i) => !isResolved(i.state)) ? "pending" : "in sync";
}
