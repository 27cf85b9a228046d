/**
 * What one transition of a parent's head means for the intents of one follows edge (cascade chapter, "Coalescing").
 * Idempotent: the same transition again, after a crash or a second reading, asks for nothing.
 */
import type { Classification, DivergedReason } from "./classify.ts";
import type { CommitId } from "./ids.ts";
import { isPrepared, type IntentKind, type IntentState } from "./intent.ts";

/** The edge's newest intent that is not resolved. */
export interface EdgeIntent {
  state: IntentState;
  fromBase: CommitId;
  toBase: CommitId;
}

/** Where the edge's next transition starts: the pending intent's own start if it may still absorb, else its end. */
export function edgeTail(newest: EdgeIntent | null, lastSynchronized: CommitId): CommitId {
  if (newest === null) return lastSynchronized;
  if (newest.state === "Detected") return newest.fromBase;
  // Once materialised, the edge itself says what the child stands on; it may be later than what the intent pinned.
  return isPrepared(newest.state) ? lastSynchronized : newest.toBase;
}

export type EdgeStep =
  | { step: "nothing" }
  /** Only another trigger: transitions of a diverged edge wait with it until a person repairs the edge. */
  | { step: "wait" }
  | { step: "insert"; kind: IntentKind; toBase: CommitId }
  /** The `Detected` intent absorbs the transition. */
  | { step: "coalesce"; kind: IntentKind; toBase: CommitId }
  /** The parent came back to where the child stands: the `Detected` intent has nothing left to do. */
  | { step: "supersede" }
  | { step: "diverge"; reason: DivergedReason }
  | { step: "insert-diverged"; reason: DivergedReason };

/**
 * `decided`: the transition from the edge's tail to the parent's head, classified. `lastSynchronized` null: an intent
 * under way may take the child off it any moment.
 */
export function edgeStep(
  newest: EdgeIntent | null,
  lastSynchronized: CommitId | null,
  decided: Classification,
): EdgeStep {
  if (newest?.state === "TopologyDiverged") return { step: "wait" };
  const absorbs = newest?.state === "Detected";
  switch (decided.kind) {
    case "AlreadyAligned":
      return { step: absorbs ? "supersede" : "nothing" };
    case "NativeRewrite":
    case "ParentAdvance": {
      // An earlier intent's reconciliation already went this far: nothing is left to do or to tell.
      if (decided.toBase === lastSynchronized) return { step: absorbs ? "supersede" : "nothing" };
      if (!absorbs) return { step: "insert", kind: decided.kind, toBase: decided.toBase };
      // Known already: a replay.
      if (newest.toBase === decided.toBase) return { step: "nothing" };
      return { step: "coalesce", kind: decided.kind, toBase: decided.toBase };
    }
    case "TopologyDiverged":
      return { step: absorbs ? "diverge" : "insert-diverged", reason: decided.reason };
  }
}
