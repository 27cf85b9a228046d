/**
 * What one operation means for every follows edge. Reads first (gather), then yields plain writes that the caller
 * applies in its own transaction: the watcher for foreign operations, a reconciliation for its own.
 */
import { workspaceMove } from "../core/ancestry.ts";
import { edgeStep, edgeTail } from "../core/edge.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import { assertNever } from "../core/result.ts";
import { classify, type Classification, type DivergedReason } from "../core/classify.ts";
import type { JjRepo, WorkspaceHead } from "../ports/jj.ts";
import { edges, watchedThreads, type CascadeThread, type Edge } from "../store/edges.ts";
import { addTrigger, newestOfEdge, unresolvedIntents, type IntentRow } from "../store/intents.ts";
import type { OpRow } from "../store/ops.ts";
import type { CascadeDeps } from "./deps.ts";
import type { IntentChanges } from "./moves.ts";
import type { Related } from "./related.ts";
import { madeByThread, suspectOf, takenAway, type Suspect } from "./taken.ts";
import {
  factsFrom,
  isOpen,
  isParentDivergent,
  relate,
  settledView,
  type Asked,
} from "./transition-facts.ts";
import type { Heads } from "./views.ts";

/** One edge's parent head changed, as seen in one operation. */
interface Transition {
  edge: Edge;
  child: CascadeThread;
  parent: CascadeThread;
  after: WorkspaceHead | null;
  childAfter: WorkspaceHead | null;
  /** Parent views of a merge operation disagree and its result fits none of them. */
  incoherent: boolean;
  /** Of a merge of operations: a divergent head is then no coherent result either. */
  merge: boolean;
  /** False: only the child was moved, by somebody who may have taken something away. */
  parentMoved: boolean;
  parentBefore: CommitId | null;
  suspects: readonly Suspect[];
}

export interface Interpretation {
  op: OpId;
  /** Per transition: the classification from each possible starting point, computed before the transaction. */
  edges: { transition: Transition; tail: CommitId; decided: Classification }[];
}

/**
 * Transitions of `op`. `before` are the views of all its parents; an operation with several parents is compared with
 * every one of them and never with a preferred one. `forks`: views of the operations where two of those parents part.
 * `made`: the operation, where it is to be looked at for what it takes away from other threads.
 */
export function transitionsOf(
  deps: Pick<CascadeDeps, "db">,
  before: readonly Heads[],
  after: Heads,
  skip: (edge: Edge) => boolean = () => false,
  forks: (one: number, other: number) => readonly Heads[] = () => [],
  made: OpRow | null = null,
): Transition[] {
  const watched = watchedThreads(deps.db);
  const threads = new Map(watched.map((t) => [t.threadId, t]));
  const by = made === null ? null : madeByThread(made, watched);
  const found: Transition[] = [];
  for (const edge of edges(deps.db)) {
    const child = threads.get(edge.child);
    const parent = threads.get(edge.parent);
    if (child === undefined || parent === undefined || skip(edge)) continue;
    const now = after.get(parent.workspaceName) ?? null;
    const at = (view: Heads): WorkspaceHead | null => view.get(parent.workspaceName) ?? null;
    const move = workspaceMove(before.map(at), now, (one, other) => forks(one, other).map(at));
    const views = [before[0], after] as const;
    const suspects = [
      suspectOf(deps.db, by, "parent", parent, views),
      suspectOf(deps.db, by, "child", child, views),
    ].filter((suspect) => suspect !== null);
    if (move.kind === "unchanged" && suspects.length === 0) continue;
    found.push({
      edge,
      child,
      parent,
      after: now,
      childAfter: after.get(child.workspaceName) ?? null,
      incoherent: move.kind === "IncoherentViews",
      merge: before.length > 1,
      parentMoved: move.kind !== "unchanged",
      parentBefore: before[0] === undefined ? null : (at(before[0])?.commitId ?? null),
      suspects,
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

/** Reads jj for every transition, all of them by one read where nothing was rewritten in between; no writes. */
export async function interpret(
  deps: Pick<CascadeDeps, "db" | "jj">,
  op: OpId,
  transitions: readonly Transition[],
  known: Related | null = null,
): Promise<Interpretation> {
  const questions = transitions.map((transition) => {
    const asked = askedOf(deps.db, transition);
    return { transition, tail: asked.fromBase, asked };
  });
  const answer = await relate(
    deps.jj,
    op,
    questions.map((q) => q.asked),
    known,
  );
  const out: Interpretation = { op, edges: [] };
  for (const { transition, tail, asked } of questions) {
    const decided = await decide(deps.jj, op, transition, asked, answer);
    if (decided !== null) out.edges.push({ transition, tail, decided });
  }
  return out;
}

/** What `interpret` will ask jj about these transitions as things stand, asked ahead of its turn. */
export function readAhead(
  deps: Pick<CascadeDeps, "db" | "jj">,
  op: OpId,
  transitions: readonly Transition[],
): Promise<Related> {
  return relate(
    deps.jj,
    op,
    transitions.map((transition) => askedOf(deps.db, transition)),
  );
}

/**
 * The same before anything is known of the commits that `op` made: of the edges whose parent is elsewhere than in
 * `before`, and of every workspace's new `@`, together with the commits of `also`.
 */
export async function readTogether(
  deps: Pick<CascadeDeps, "db" | "jj">,
  op: OpId,
  before: Heads,
  commits: ReadonlyMap<string, CommitId>,
  also: Iterable<CommitId>,
): Promise<void> {
  const moved = new Map(
    [...commits].filter(([workspace, at]) => before.get(workspace)?.commitId !== at),
  );
  const threads = new Map(watchedThreads(deps.db).map((t) => [t.threadId, t]));
  const asked: Asked[] = [];
  for (const edge of edges(deps.db)) {
    const parent = moved.get(threads.get(edge.parent)?.workspaceName ?? "");
    const child = commits.get(threads.get(edge.child)?.workspaceName ?? "");
    if (parent === undefined || child === undefined) continue;
    asked.push({
      fromBase: startOf(deps.db, edge).tail,
      standsOn: edge.lastSynchronized,
      parent: { commitId: parent },
      child: { commitId: child },
    });
  }
  await relate(deps.jj, op, asked, null, [...moved.values(), ...also]);
}

/**
 * null: only the child moved and has lost nothing; or the edge starts from a commit that came after `op`. A
 * reconciliation brought the child there and a crash left `op` unread; what the parent did in it is behind the edge already, and jj knows no such commit in its view.
 */
async function decide(
  jj: JjRepo,
  op: OpId,
  transition: Transition,
  asked: Asked,
  answer: Related,
): Promise<Classification | null> {
  if (transition.incoherent) return { kind: "TopologyDiverged", reason: "IncoherentViews" };
  for (const suspect of transition.suspects) {
    const reason = await takenAway(jj, op, suspect, transition.parentBefore);
    if (reason !== null) return { kind: "TopologyDiverged", reason };
  }
  if (!transition.parentMoved) return null;
  if (isOpen(asked) && !answer.rows.has(asked.fromBase)) return null;
  if (transition.merge && (await isParentDivergent(jj, op, asked.parent, answer)))
    return { kind: "TopologyDiverged", reason: "IncoherentViews" };
  return classify(await factsFrom(jj, op, asked, answer));
}

function askedOf(db: CascadeDeps["db"], transition: Transition): Asked {
  return {
    fromBase: startOf(db, transition.edge).tail,
    standsOn: transition.edge.lastSynchronized,
    parent: transition.incoherent
      ? null
      : settledView(db, transition.edge.parent, transition.after),
    child: settledView(db, transition.edge.child, transition.childAfter),
    merge: transition.merge,
  };
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
      raiseDiverged(deps, child, parent.name, step.reason, op);
      return;
    case "insert-diverged": {
      const id = deps.ids.uuid();
      changes.foundDiverged({ ...fresh, intentId: id, reason: step.reason, evidence });
      trigger(id);
      raiseDiverged(deps, child, parent.name, step.reason, op);
      return;
    }
    default:
      assertNever(step, "edge step");
  }
}

function raiseDiverged(
  deps: CascadeDeps,
  child: CascadeThread,
  parentName: string,
  reason: DivergedReason,
  op: OpId,
): void {
  const what =
    reason === "ChildAbandoned"
      ? `the revision of ${child.name} was taken away, which follows ${parentName}`
      : reason === "DivergentChange"
        ? `the revision of ${child.name} or of ${parentName} is there in several copies (jj log shows them), and edits may be in another one than the files`
        : `${parentName} moved in a way kiki does not follow`;
  deps.raiseAttention({
    threadId: child.threadId,
    kind: "cascade_conflict",
    dedupKey: op,
    message: `${what} (${reason}, operation ${short(op)}); kiki changed no file`,
    loud: true,
  });
}
