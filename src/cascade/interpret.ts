/**
 * What one operation means for every follows edge. Reads first (gather), then yields plain writes that the caller
 * applies in its own transaction: the watcher for foreign operations, a reconciliation for its own.
 */
import { workspaceMove } from "../core/ancestry.ts";
import { edgeStep, edgeTail } from "../core/edge.ts";
import { KikiError } from "../core/errors.ts";
import type { CommitId, OpId, ThreadId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import { assertNever } from "../core/result.ts";
import { classify, type Classification, type TransitionFacts } from "../core/classify.ts";
import type { JjRepo, WorkspaceView } from "../ports/jj.ts";
import { edges, watchedThreads, type CascadeThread, type Edge } from "../store/edges.ts";
import { addTrigger, newestOfEdge, unresolvedIntents, type IntentRow } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import type { IntentChanges } from "./moves.ts";
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
 * every one of them and never with a preferred one. `forks`: views of the operations where those parents part.
 */
export function transitionsOf(
  deps: Pick<CascadeDeps, "db">,
  before: readonly View[],
  after: View,
  skip: (edge: Edge) => boolean = () => false,
  forks: readonly View[] = [],
): Transition[] {
  const threads = new Map(watchedThreads(deps.db).map((t) => [t.threadId, t]));
  const found: Transition[] = [];
  for (const edge of edges(deps.db)) {
    const child = threads.get(edge.child);
    const parent = threads.get(edge.parent);
    if (child === undefined || parent === undefined || skip(edge)) continue;
    const now = after.get(parent.workspaceName) ?? null;
    const at = (view: View): WorkspaceView | null => view.get(parent.workspaceName) ?? null;
    const move = workspaceMove(before.map(at), now, forks.map(at));
    if (move.kind === "unchanged") continue;
    found.push({
      edge,
      child,
      parent,
      after: now,
      childAfter: after.get(child.workspaceName) ?? null,
      incoherent: move.kind === "IncoherentViews",
    });
  }
  return found;
}

function startOf(db: CascadeDeps["db"], edge: Edge): { tail: CommitId; open: IntentRow | null } {
  const open = newestOfEdge(db, edge.child, edge.parent);
  return { tail: edgeTail(open, edge.lastSynchronized), open };
}

/**
 * Where the child stands, or nowhere that counts: an intent under way may take it off there any moment, so a parent
 * that came back there has moved all the same.
 */
function standsOn(db: CascadeDeps["db"], edge: Edge): CommitId | null {
  const moving = unresolvedIntents(db, edge.child).some(
    (i) =>
      i.parentThreadId === edge.parent &&
      (i.state === "Reconciling" || i.state === "RecoveryRequired"),
  );
  return moving ? null : edge.lastSynchronized;
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
    const decided = await decide(deps.jj, op, transition, tail);
    if (decided === null) continue;
    out.edges.push({ transition, tail, decided });
  }
  return out;
}

/**
 * null: the edge starts from a commit that came after `op`. A reconciliation brought the child there and a crash left
 * `op` unread; what the parent did in it is behind the edge already, and jj knows no such commit in its view.
 */
async function decide(
  jj: JjRepo,
  op: OpId,
  transition: Transition,
  tail: CommitId,
): Promise<Classification | null> {
  if (transition.incoherent) return { kind: "TopologyDiverged", reason: "IncoherentViews" };
  const { edge, after: parent, childAfter: child } = transition;
  const asked = { fromBase: tail, standsOn: edge.lastSynchronized, parent, child };
  try {
    return classify(await transitionFacts(jj, op, asked));
  } catch (error) {
    const unknown = error instanceof KikiError && error.code === "jj-revset";
    if (!unknown || (await jj.existing(op, [tail])).length > 0) throw error;
    return null;
  }
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
export function applyInterpretation(
  deps: CascadeDeps,
  changes: IntentChanges,
  interpretation: Interpretation,
): void {
  for (const item of interpretation.edges) applyEdge(deps, changes, interpretation.op, item);
}

function applyEdge(
  deps: CascadeDeps,
  changes: IntentChanges,
  op: OpId,
  item: Interpretation["edges"][number],
): void {
  const { db } = deps;
  const { edge, child, parent } = item.transition;
  const { tail, open } = startOf(db, edge);
  // The tail moved between reading and writing (a boundary was reached meanwhile): the caller reads anew.
  if (tail !== item.tail) throw new EdgeMoved();
  const toBase = item.transition.after?.commitId ?? tail;
  const step = edgeStep(open, standsOn(db, edge), item.decided);
  const intentId = open?.intentId ?? "";
  const trigger = (id: string): void =>
    addTrigger(db, { intentId: id, op, from: tail, to: toBase });
  const fresh = {
    threadId: edge.child,
    parentThreadId: edge.parent,
    fromBase: tail,
    toBase,
    op,
    now: deps.clock.now(),
  };
  const evidence = {
    op,
    parentAfter: item.transition.after?.commitId ?? null,
    childAfter: item.transition.childAfter?.commitId ?? null,
  };
  switch (step.step) {
    case "nothing":
      return;
    case "wait":
      trigger(intentId);
      return;
    case "insert": {
      const id = deps.ids.uuid();
      changes.detected({ ...fresh, intentId: id, kind: step.kind });
      trigger(id);
      return;
    }
    case "coalesce":
      changes.coalesced(intentId, { kind: step.kind, toBase: step.toBase });
      trigger(intentId);
      return;
    case "supersede":
      trigger(intentId);
      changes.moved(intentId, "Detected", "Superseded", {
        reason: "the child already stands on it",
      });
      return;
    case "diverge":
      trigger(intentId);
      changes.moved(intentId, "Detected", "TopologyDiverged", {
        reason: step.reason,
        evidence,
      });
      raiseDiverged(deps, child.threadId, parent.name, step.reason, op);
      return;
    case "insert-diverged": {
      const id = deps.ids.uuid();
      changes.foundDiverged({ ...fresh, intentId: id, reason: step.reason, evidence });
      trigger(id);
      raiseDiverged(deps, child.threadId, parent.name, step.reason, op);
      return;
    }
    default:
      assertNever(step, "edge step");
  }
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
