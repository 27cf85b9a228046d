/**
 * What one operation means for every follows edge. Reads first (gather), then yields plain writes that the caller
 * applies in its own transaction: the watcher for foreign operations, a reconciliation for its own.
 */
import type { CommitId, OpId, ThreadId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import { isPrepared } from "../core/intent.ts";
import { classify, type Classification, type TransitionFacts } from "../core/classify.ts";
import type { JjRepo, WorkspaceView } from "../ports/jj.ts";
import { edges, watchedThreads, type CascadeThread, type Edge } from "../store/edges.ts";
import {
  addTrigger,
  coalesce,
  insertDiverged,
  insertIntent,
  newestOfEdge,
  setIntentState,
  type IntentRow,
} from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import type { View } from "./views.ts";

/** One edge's parent head changed, as seen in one operation. */
interface Transition {
  edge: Edge;
  child: CascadeThread;
  parent: CascadeThread;
  after: WorkspaceView | null;
  childAfter: WorkspaceView | null;
  /** Parent views of a merge operation disagree and its result fits none of them. */
  incoherent: boolean;
}

export interface Interpretation {
  op: OpId;
  /** Per transition: the classification from each possible starting point, computed before the transaction. */
  edges: { transition: Transition; tail: CommitId; decided: Classification }[];
}

/**
 * Transitions of `op`. `before` are the views of all its parents; an operation with several parents is compared with
 * every one of them and never with a preferred one.
 */
export function transitionsOf(
  deps: Pick<CascadeDeps, "db">,
  before: readonly View[],
  after: View,
  skip: (edge: Edge) => boolean = () => false,
): Transition[] {
  const threads = new Map(watchedThreads(deps.db).map((t) => [t.threadId, t]));
  const found: Transition[] = [];
  for (const edge of edges(deps.db)) {
    const child = threads.get(edge.child);
    const parent = threads.get(edge.parent);
    if (child === undefined || parent === undefined || skip(edge)) continue;
    const now = after.get(parent.workspaceName) ?? null;
    const was = before.map((view) => view.get(parent.workspaceName) ?? null);
    if (was.length > 0 && was.every((w) => (w?.commitId ?? null) === (now?.commitId ?? null)))
      continue;
    const incoherent =
      was.length > 1 &&
      now !== null &&
      (now.divergent || !was.some((w) => w !== null && w.changeId === now.changeId));
    found.push({
      edge,
      child,
      parent,
      after: now,
      childAfter: after.get(child.workspaceName) ?? null,
      incoherent,
    });
  }
  return found;
}

/** Where the edge's next transition starts: the pending intent's own start if it may still absorb, else its end. */
function startOf(db: CascadeDeps["db"], edge: Edge): { tail: CommitId; open: IntentRow | null } {
  const newest = newestOfEdge(db, edge.child, edge.parent);
  if (newest === null) return { tail: edge.lastSynchronized, open: null };
  if (newest.state === "Detected") return { tail: newest.fromBase, open: newest };
  // Once materialised, the edge itself says what the child stands on; it may be later than what the intent pinned.
  if (isPrepared(newest.state)) return { tail: edge.lastSynchronized, open: newest };
  return { tail: newest.toBase, open: newest };
}

/** Reads jj for every transition; no writes. */
export async function interpret(
  deps: Pick<CascadeDeps, "db" | "jj">,
  op: OpId,
  transitions: readonly Transition[],
): Promise<Interpretation> {
  const out: Interpretation = { op, edges: [] };
  for (const transition of transitions) {
    const { tail } = startOf(deps.db, transition.edge);
    const decided: Classification = transition.incoherent
      ? { kind: "TopologyDiverged", reason: "IncoherentViews" }
      : classify(
          await transitionFacts(deps.jj, op, {
            fromBase: tail,
            standsOn: transition.edge.lastSynchronized,
            parent: transition.after,
            child: transition.childAfter,
          }),
        );
    out.edges.push({ transition, tail, decided });
  }
  return out;
}

/** Ancestry facts of one edge in the view of one operation. */
export async function transitionFacts(
  jj: JjRepo,
  op: OpId,
  input: {
    fromBase: CommitId;
    /** Base the child was last brought onto, where `fromBase` is one it is only being brought onto. */
    standsOn?: CommitId;
    parent: WorkspaceView | null;
    child: WorkspaceView | null;
  },
): Promise<TransitionFacts> {
  const { fromBase, parent, child } = input;
  const toBase = parent?.commitId ?? null;
  const childHead = child?.commitId ?? null;
  const facts: TransitionFacts = {
    fromBase,
    toBase,
    childHead,
    toBaseInChild: false,
    toBaseBehindFrom: false,
    anchorInChild: false,
    divergent: (parent?.divergent ?? false) || (child?.divergent ?? false),
  };
  if (toBase === null || childHead === null || toBase === fromBase) return facts;
  [facts.toBaseInChild, facts.toBaseBehindFrom] = await Promise.all([
    jj.isAncestor(op, toBase, childHead),
    jj.isAncestor(op, toBase, fromBase),
  ]);
  facts.anchorInChild = facts.toBaseInChild;
  for (const anchor of new Set([fromBase, input.standsOn ?? fromBase])) {
    facts.anchorInChild ||=
      (await standingBase(jj, op, { fromBase: anchor, toBase, childHead })) !== null;
  }
  return facts;
}

/**
 * The commit the child's chain really stands on: `fromBase` itself; or the one visible commit of the same change that
 * is an ancestor of the child's head (jj rewrote the base and evolved the child with it); or, when the base was
 * squashed away, the commit it went into, which the chain's root then stands on and which records it as a predecessor.
 * null: none of these, or several. An abandoned base went into nothing.
 */
export async function standingBase(
  jj: JjRepo,
  op: OpId,
  at: { fromBase: CommitId; toBase: CommitId; childHead: CommitId },
): Promise<CommitId | null> {
  const { fromBase, toBase, childHead } = at;
  const [recorded] = await jj.existing(op, [fromBase]);
  if (recorded === undefined) return null;
  if (!recorded.hidden && (await jj.isAncestor(op, fromBase, childHead))) return fromBase;
  const evolved = await jj.commits(op, `change_id(${recorded.changeId}) & ::${childHead}`);
  if (evolved.length > 0) return evolved.length === 1 ? evolved[0]!.commitId : null;
  const roots = await jj.commits(op, `roots(${toBase}..${childHead})`);
  const below = roots.length === 1 && roots[0]!.parents.length === 1 ? roots[0]!.parents[0]! : null;
  if (below === null) return null;
  return (await jj.evolvedFrom(op, below)).includes(fromBase) ? below : null;
}

/** An edge's starting point changed between reading and writing; interpret again. */
export class EdgeMoved extends Error {}

/** Applies an interpretation. Synchronous: runs inside the caller's transaction. Idempotent per operation. */
export function applyInterpretation(deps: CascadeDeps, interpretation: Interpretation): void {
  for (const item of interpretation.edges) applyEdge(deps, interpretation.op, item);
}

function applyEdge(deps: CascadeDeps, op: OpId, item: Interpretation["edges"][number]): void {
  const { db } = deps;
  const { edge, child, parent } = item.transition;
  const { tail, open } = startOf(db, edge);
  // The tail moved between reading and writing (a boundary was reached meanwhile): the caller reads anew.
  if (tail !== item.tail) throw new EdgeMoved();
  const decided = coveredOr(item.decided, edge);
  const toBase = item.transition.after?.commitId ?? tail;
  if (open !== null && open.state === "TopologyDiverged") {
    // Later transitions of a diverged edge wait with it; they are its triggers until a person repairs the edge.
    addTrigger(db, { intentId: open.intentId, op, from: tail, to: toBase });
    return;
  }
  switch (decided.kind) {
    case "AlreadyAligned":
      if (open !== null && open.state === "Detected") {
        addTrigger(db, { intentId: open.intentId, op, from: tail, to: toBase });
        setIntentState(db, open.intentId, "Detected", "Superseded", {
          reason: "the child already stands on it",
        });
      }
      return;
    case "NativeRewrite":
    case "ParentAdvance": {
      let intentId: string;
      if (open !== null && open.state === "Detected") {
        intentId = open.intentId;
        if (open.toBase === decided.toBase) return; // replay
        coalesce(db, intentId, { kind: decided.kind, toBase: decided.toBase });
      } else {
        intentId = deps.ids.uuid();
        insertIntent(db, {
          intentId,
          threadId: edge.child,
          parentThreadId: edge.parent,
          kind: decided.kind,
          fromBase: tail,
          toBase: decided.toBase,
          op,
          now: deps.clock.now(),
        });
      }
      addTrigger(db, { intentId, op, from: tail, to: decided.toBase });
      return;
    }
    case "TopologyDiverged": {
      const evidence = {
        op,
        parentAfter: item.transition.after?.commitId ?? null,
        childAfter: item.transition.childAfter?.commitId ?? null,
      };
      if (open !== null && open.state === "Detected") {
        addTrigger(db, { intentId: open.intentId, op, from: tail, to: toBase });
        setIntentState(db, open.intentId, "Detected", "TopologyDiverged", {
          reason: decided.reason,
          evidence,
        });
      } else {
        const intentId = deps.ids.uuid();
        insertDiverged(db, {
          intentId,
          threadId: edge.child,
          parentThreadId: edge.parent,
          fromBase: tail,
          toBase,
          op,
          reason: decided.reason,
          evidence,
          now: deps.clock.now(),
        });
        addTrigger(db, { intentId, op, from: tail, to: toBase });
      }
      raiseDiverged(deps, child.threadId, parent.name, decided.reason, op);
    }
  }
}

/** An earlier intent's reconciliation already went this far: nothing is left to do or to tell. */
function coveredOr(decided: Classification, edge: Edge): Classification {
  const moves = decided.kind === "NativeRewrite" || decided.kind === "ParentAdvance";
  return moves && decided.toBase === edge.lastSynchronized ? { kind: "AlreadyAligned" } : decided;
}

function raiseDiverged(
  deps: CascadeDeps,
  threadId: ThreadId,
  parentName: string,
  reason: string,
  op: OpId,
): void {
  deps.raiseAttention({
    threadId,
    kind: "cascade_conflict",
    dedupKey: op,
    message: `${parentName} moved in a way kiki does not follow (${reason}, operation ${short(op)}); no file was changed`,
    loud: true,
  });
}
