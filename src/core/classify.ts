/**
 * Classification of one follows edge across one parent-head transition, from before/after views only; never from
 * command names, never from bookmarks (cascade chapter).
 */
import type { CommitId } from "./ids.ts";
import type { IntentKind } from "./intent.ts";

export type DivergedReason =
  | "ParentMovedBackward"
  | "ParentAbandoned"
  | "ChildAbandoned"
  | "AnchorNotInChild"
  | "DivergentChange"
  | "IncoherentViews";

export interface TransitionFacts {
  /** Parent commit this edge was last synchronised with, or the pending intent's starting point. */
  fromBase: CommitId;
  /** Parent's exact `@` after the operation; null when the parent's workspace has no `@` any more. */
  toBase: CommitId | null;
  /** Child's exact `@` after the operation; null when the child's workspace has no `@` any more. */
  childHead: CommitId | null;
  /** `toBase` is an ancestor of (or equal to) the child's `@`. */
  toBaseInChild: boolean;
  /** `toBase` is a proper ancestor of `fromBase`: the parent went back. */
  toBaseBehindFrom: boolean;
  /**
   * The child still stands on the anchor: `fromBase` itself, or the one visible commit of the same change, is an
   * ancestor of the child's `@`.
   */
  anchorInChild: boolean;
  /** Parent's or child's `@` belongs to a divergent change whose copies cannot be put in order. */
  divergent: boolean;
  /** The child's `@` belongs to a divergent change one copy of which has all that the others have. */
  shownTwice: boolean;
}

export type Classification =
  | { kind: IntentKind; fromBase: CommitId; toBase: CommitId }
  | { kind: "AlreadyAligned" }
  | { kind: "TopologyDiverged"; reason: DivergedReason };

export function classify(f: TransitionFacts): Classification {
  if (f.toBase === null) return { kind: "TopologyDiverged", reason: "ParentAbandoned" };
  if (f.childHead === null) return { kind: "TopologyDiverged", reason: "ChildAbandoned" };
  if (f.toBase === f.fromBase) return { kind: "AlreadyAligned" };
  if (f.divergent) return { kind: "TopologyDiverged", reason: "DivergentChange" };
  // Backward first: an ancestor of the old base is an ancestor of the child as well, and would else look native.
  if (f.toBaseBehindFrom) return { kind: "TopologyDiverged", reason: "ParentMovedBackward" };
  if (f.toBaseInChild) return { kind: "NativeRewrite", fromBase: f.fromBase, toBase: f.toBase };
  if (!f.anchorInChild) return { kind: "TopologyDiverged", reason: "AnchorNotInChild" };
  return { kind: "ParentAdvance", fromBase: f.fromBase, toBase: f.toBase };
}
