/**
 * Ancestry facts that a transition of a follows edge is classified by: what has to be asked of jj for an edge in the
 * view of one operation, asked for many edges at once, and the facts from the answer.
 */
import { fail } from "../core/errors.ts";
import type { CommitId, OpId, ThreadId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import type { TransitionFacts } from "../core/classify.ts";
import type { JjRepo } from "../ports/jj.ts";
import { edges } from "../store/edges.ts";
import { unresolvedIntents, type IntentRow } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import { related, type Related } from "./related.ts";
import { followersOf } from "./chain.ts";
import { containsAll, fullestOf } from "./copies.ts";
import { rewrittenBase } from "./standing.ts";

/**
 * jj's stale recovery shows a change twice, and all that stands on it, until kiki, or a person, has chosen: no news of its
 * thread's, or of those that follow it, while an intent of it is under way. `@` is exact all the time.
 */
export function settledView<V extends { commitId: CommitId }>(
  db: CascadeDeps["db"],
  thread: ThreadId,
  view: V | null,
): (V & { settling: boolean }) | null {
  if (view === null) return null;
  const settling = [thread, ...threadsAbove(db, thread)].some((of) =>
    unresolvedIntents(db, of).some(isSettling),
  );
  return { ...view, settling };
}

function isSettling({ state }: IntentRow): boolean {
  return state === "Reconciling" || state === "RecoveryRequired";
}

/** kiki itself is at work on a thread above: what jj shows twice here may be gone when that is over. */
export function settlesAbove(db: CascadeDeps["db"], thread: ThreadId): boolean {
  return threadsAbove(db, thread).some((of) =>
    unresolvedIntents(db, of).some((i) => i.state === "Reconciling" || i.recovering),
  );
}

/**
 * kiki recovers edits of a thread that follows this one, directly or through others. One that is `Reconciling` may be
 * waiting for this one: of two, the upper does not wait.
 */
export function settlesBelow(db: CascadeDeps["db"], thread: ThreadId): boolean {
  return followersOf(db, thread).some((of) => unresolvedIntents(db, of).some((i) => i.recovering));
}

/** The threads that `thread` follows, directly or through others; nearest first. */
function threadsAbove(db: CascadeDeps["db"], thread: ThreadId): ThreadId[] {
  const parentOf = new Map(edges(db).map((edge) => [edge.child, edge.parent]));
  const found: ThreadId[] = [];
  for (let at = parentOf.get(thread); at !== undefined; at = parentOf.get(at)) found.push(at);
  return found;
}

/** `settling`: that its change shows up twice is no news (`settledView`). */
interface At {
  commitId: CommitId;
  settling?: boolean;
}

/** What one edge has to know: where it starts, and where parent and child are. */
export interface Asked {
  fromBase: CommitId;
  /** Base the child was last brought onto, where `fromBase` is one it is only being brought onto. */
  standsOn?: CommitId;
  parent: At | null;
  child: At | null;
  merge?: boolean;
}

const NOTHING_ASKED: Related = { rows: new Map(), ids: new Set(), of: new Set() };

/** An edge whose answer is not plain from the ids alone. */
export function isOpen(asked: Asked): asked is Asked & { parent: object; child: object } {
  const { fromBase, parent, child, merge } = asked;
  return parent !== null && child !== null && (parent.commitId !== fromBase || merge === true);
}

/** `known`: an earlier answer for the same operation, which may do. `also`: what else is to be known of commits. */
export async function relate(
  jj: JjRepo,
  op: OpId,
  asked: readonly Asked[],
  known: Related | null = null,
  also: readonly CommitId[] = [],
): Promise<Related> {
  const open = asked.filter(isOpen);
  const ids = new Set(also);
  for (const id of open.flatMap((a) => [
    a.parent.commitId,
    a.child.commitId,
    a.fromBase,
    a.standsOn ?? a.fromBase,
  ]))
    ids.add(id);
  const of = new Set(open.flatMap((a) => [a.child.commitId, a.fromBase]));
  return ids.size === 0 ? NOTHING_ASKED : related(jj, op, ids, of, known);
}

/** Ancestry facts of one edge in the view of one operation. `jj-revset` when it does not know `fromBase`. */
export async function transitionFacts(
  jj: JjRepo,
  op: OpId,
  asked: Asked,
): Promise<TransitionFacts> {
  const answer = await relate(jj, op, [asked]);
  if (isOpen(asked) && !answer.rows.has(asked.fromBase))
    throw fail("failed", "jj-revset", `no commit ${asked.fromBase} in operation ${short(op)}`);
  return factsFrom(jj, op, asked, answer);
}

/** The parent's files are at its `@`: any other copy must have nothing beyond that. */
export async function isParentDivergent(
  jj: JjRepo,
  op: OpId,
  parent: At | null,
  answer: Related,
): Promise<boolean> {
  const copies = await copiesOf(jj, op, parent, answer);
  return copies.length > 0 && !(await containsAll(jj, op, copies, parent!.commitId));
}

/** Every copy of the change of a commit that jj shows more than once; empty where that is not so, or no news. */
async function copiesOf(jj: JjRepo, op: OpId, at: At | null, answer: Related): Promise<CommitId[]> {
  const row = answer.rows.get(at?.commitId ?? "");
  if (at === null || at.settling === true || row?.divergent !== true) return [];
  return (await jj.commits(op, `change_id(${row.changeId})`)).map((c) => c.commitId);
}

export async function factsFrom(
  jj: JjRepo,
  op: OpId,
  asked: Asked,
  answer: Related,
): Promise<TransitionFacts> {
  const { fromBase } = asked;
  const toBase = asked.parent?.commitId ?? null;
  const childHead = asked.child?.commitId ?? null;
  const facts: TransitionFacts = {
    fromBase,
    toBase,
    childHead,
    toBaseInChild: false,
    toBaseBehindFrom: false,
    anchorInChild: false,
    divergent: false,
    shownTwice: false,
  };
  if (toBase === null || childHead === null || toBase === fromBase) return facts;
  const isBehind = (commit: CommitId, of: CommitId): boolean =>
    answer.rows.get(commit)?.behind.includes(of) ?? false;
  const ofChild = await copiesOf(jj, op, asked.child, answer);
  facts.shownTwice = ofChild.length > 0 && (await fullestOf(jj, op, ofChild, childHead)) !== null;
  facts.divergent =
    (ofChild.length > 0 && !facts.shownTwice) ||
    (await isParentDivergent(jj, op, asked.parent, answer));
  facts.toBaseInChild = isBehind(toBase, childHead);
  facts.toBaseBehindFrom = isBehind(toBase, fromBase);
  facts.anchorInChild = facts.toBaseInChild;
  // What classification asks for only when nothing before it decides costs reads of its own.
  if (facts.divergent || facts.toBaseBehindFrom) return facts;
  for (const anchor of new Set([fromBase, asked.standsOn ?? fromBase])) {
    if (facts.anchorInChild) break;
    const recorded = answer.rows.get(anchor);
    const stands = recorded?.hidden === false && isBehind(anchor, childHead);
    const at = { fromBase: anchor, toBase, childHead };
    facts.anchorInChild =
      recorded !== undefined && (stands || (await rewrittenBase(jj, op, recorded, at)) !== null);
  }
  return facts;
}
