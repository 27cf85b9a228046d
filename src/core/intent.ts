/** Sync intents: the durable record of one unit of cascade work (cascade chapter). */
import { machine, type Next } from "./machine.ts";

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

/** Why an intent makes a move. Each move of the machine has its reasons, and no move has another. */
export const INTENT_REASONS = {
  Detected: {
    // A boundary of the child, an idle agent with admission closed, or the hard restart's reconciliation.
    Reconciling: ["bound", "idle", "restart"],
    // Revalidation may find that the transition no longer describes reality.
    TopologyDiverged: ["revalidated"],
    // An earlier intent of the edge covers it, or the parent came back to where the child stands.
    Superseded: ["covered", "aligned"],
    // A person's `--discard`: acknowledged without a payload, with the resolution recorded.
    Acknowledged: ["discarded-transition"],
  },
  Reconciling: {
    Materialized: ["reconciled"],
    RecoveryRequired: ["unproved-files", "tool-ran"],
    TopologyDiverged: ["revalidated"],
  },
  RecoveryRequired: {
    Reconciling: ["edits-proved", "person-chose"],
  },
  Materialized: {
    Delivered: ["hook-printed", "restart-ready"],
    // → Acknowledged: the proof repairs a lost MarkDelivered and acknowledges at once.
    Acknowledged: ["proved", "discarded-delivery"],
    RecoveryRequired: ["tool-ran"],
  },
  Delivered: {
    Acknowledged: ["proved", "discarded-delivery"],
    RecoveryRequired: ["tool-ran"],
  },
  // It stays unresolved, and its edge waits, until a person gives the transition up, or repairs the edge with that.
  TopologyDiverged: { Acknowledged: ["discarded-transition"] },
  Acknowledged: {},
  Superseded: {},
} as const satisfies Record<IntentState, Partial<Record<IntentState, readonly string[]>>>;

type Reasons = typeof INTENT_REASONS;
type IntentMoves = { [F in IntentState]: readonly (keyof Reasons[F] & IntentState)[] };

/** A transition that cannot be followed at all is recorded as diverged from the start. */
export const INTENT = machine(
  "intent",
  ["Detected", "TopologyDiverged"],
  Object.fromEntries(
    INTENT_STATES.map((from) => [from, Object.keys(INTENT_REASONS[from])]),
  ) as unknown as IntentMoves,
);

export type NextIntent<F extends IntentState> = Next<IntentMoves, F>;
export type IntentReason<
  F extends IntentState,
  T extends keyof Reasons[F],
> = Reasons[F][T] extends readonly (infer R extends string)[] ? R : never;

/** A move of the machine by its name, for example `Detected-Reconciling`. */
export type IntentMove = { [F in IntentState]: `${F}-${NextIntent<F>}` }[IntentState];

/** What is recorded of an intent without a move. */
export const INTENT_RECORDS = [
  /** A new one: followed, or one that cannot be followed from the start. */
  "detected",
  "found-diverged",
  "coalesced",
  /** Exact operations, base, tokens and staged operation of its reconciliation. */
  "planned",
  /** The tuple of a prepared intent: one that has none, and the counted one of rule 5b. */
  "bound-prepared",
  "rebound",
  /** The batch's end, with the receipt. */
  "batch-completed",
  /** A replacement incarnation claims it: the soft tuple is cleared, the attempt is counted. */
  "restarting",
  /** The claiming incarnation recorded the prompt that carries its startup id. */
  "startup-echoed",
  /** The last attempt of its epoch has failed. */
  "exhausted",
  /** A person granted one fresh cycle of attempts. */
  "retried",
] as const;
export type IntentRecord = (typeof INTENT_RECORDS)[number];

/** What is done for an intent outside of the database, each with its record before or after it. */
export const INTENT_EFFECTS = [
  "marker-written",
  "marker-removed",
  /** Several operation heads into one. */
  "merge-heads",
  "snapshot",
  "update-stale",
  "stage",
  "integrate",
  "bundle",
  /** Recovery: hard links of what jj may replace; the agent's git HEAD kept and put back; the copy with the edits. */
  "links",
  "pin-head",
  "reset-head",
  "bookmark",
  "edit",
  "abandon",
  /** Files that a command has left half-written, put back. */
  "mend",
  /** Everything of the agent stands still; its harness is gone. */
  "agent-stopped",
  "harness-ended",
] as const;
export type IntentEffect = (typeof INTENT_EFFECTS)[number];

/**
 * Where a daemon may die on an intent's way. `before`: nothing of its transaction, or of the effect, is done;
 * `completed`: the transaction has committed; `effected`: the effect is done and not recorded.
 */
export type IntentCrashPoint =
  | `intent.${IntentMove | IntentRecord}.${"before" | "completed"}`
  | `intent.${IntentEffect}.${"before" | "effected"}`;

/** Generated: a move that is added to the machine has its points. */
export const INTENT_CRASH_POINTS: readonly IntentCrashPoint[] = [
  ...[...INTENT.all.map(([from, to]) => `${from}-${to}` as IntentMove), ...INTENT_RECORDS].flatMap(
    (name) => [`intent.${name}.before`, `intent.${name}.completed`] as const,
  ),
  ...INTENT_EFFECTS.flatMap(
    (name) => [`intent.${name}.before`, `intent.${name}.effected`] as const,
  ),
];

export function canMoveIntent(from: IntentState, to: IntentState): boolean {
  return INTENT.can(from, to);
}

/** Typed move: an illegal one does not compile; one computed at run time, or for a reason it has not, throws by name. */
export function moveIntent<F extends IntentState, T extends NextIntent<F>>(
  from: F,
  to: T,
  why?: IntentReason<F, T>,
): IntentState {
  INTENT.move(from, to);
  const reasons = (INTENT_REASONS[from] as Record<string, readonly string[]>)[to]!;
  if (why !== undefined && !reasons.includes(why))
    throw new Error(`illegal intent transition ${from} → ${to} because ${String(why)}`);
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

/** kiki does nothing for it by itself any more; nothing of its agent runs until a person has decided. */
export function isForAPerson(i: { state: IntentState; recovering: boolean }): boolean {
  return i.state === "RecoveryRequired" && !i.recovering;
}
