/**
 * A settlement: from "work is ready and a call is held" to "every held call has its answer". Nothing is mutated until
 * every call told to hold has confirmed, nothing of the incarnation is in flight, no call passed unseen, and the
 * durable decision is committed. Until then everything is released; from then on nothing is.
 */
import { errorLine } from "../core/errors.ts";
import type { OpId } from "../core/ids.ts";
import { needsMarker } from "../core/intent.ts";
import { admit, isOver, openCalls, setAnswer } from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { intentById } from "../store/intents.ts";
import { boundaryProof } from "../store/serial.ts";
import type { Boundary, Hold, Settling } from "./boundary.ts";
import { genericDecision, payloadDecision } from "./decisions.ts";
import { tupleOf } from "./deliver.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { flights, resolveRecorded } from "./flights.ts";
import type { Inbox } from "./inbox.ts";
import { ensureMarker, refreshMarker } from "./marker.ts";
import { changeIntents } from "./moves.ts";
import { meetHeads } from "./one-head.ts";
import { isUnderWay, reconcile } from "./reconcile.ts";
import { isSerial } from "./serial.ts";
import { boundaryLost } from "./siblings.ts";
import { blockText, HOLD_TEXT } from "./texts.ts";
import { noteUnbindable } from "./unbindable.ts";
import type { Views } from "./views.ts";

export type SettleMode = "bind" | "rebind" | "resume";

export interface SettleInput {
  deps: CascadeDeps;
  views: Views;
  inbox: Inbox;
  boundary: Boundary;
  settling: Settling;
  caller: HookCaller;
  intentId: string;
  ordinal: number;
  /** The batch's response in the session record; null where the harness reports its batches. */
  modelTurn: number | null;
  mode: SettleMode;
  refresh: () => Promise<OpId[]>;
  /** Of a serial harness: what shows that files were changed while no call was in flight; null: nothing does. */
  unhooked: (() => Promise<string | null>) | null;
  /** The incarnation's boundary is not what was proved of it: it is to be replaced. */
  restart(): void;
}

/** Longest nap while waiting for confirmations, drains or `passed/` files. */
const RECHECK_MS = 50;

/** Never throws: a failure is logged, the held calls are denied, and the durable state says what is true. */
export async function settle(s: SettleInput): Promise<void> {
  try {
    const bound = s.mode === "resume" ? await drained(s) : await bindOrRelease(s);
    if (bound) await reconcileAndAnswer(s);
  } catch (error) {
    s.deps.log.error(`settling intent ${s.intentId} failed`, error);
    try {
      failed(s, error);
    } catch (again) {
      s.deps.log.error(`the failure could not be recorded`, again);
    }
  } finally {
    // Only when nothing could be recorded: a call that waits for an answer nobody owes would wait for its limit.
    if (s.boundary.settling === s.settling) answerByItself(s);
  }
}

/** A refusal is composed from the database, which may be what failed: the hook's own limit is then the answer. */
function answerByItself(s: SettleInput): void {
  try {
    for (const h of s.boundary.holds.values())
      h.settle(genericDecision(s.deps, s.caller, HOLD_TEXT));
  } catch (error) {
    s.deps.log.error(`held calls of thread ${s.caller.threadId} could not be answered`, error);
  }
  s.boundary.end(s.settling);
}

/** Loud. What is bound, or may be, stays blocked; what was never bound goes on as if nothing had been ready. */
function failed(s: SettleInput, error: unknown): void {
  s.deps.raiseAttention({
    threadId: s.caller.threadId,
    kind: "cascade_conflict",
    dedupKey: `${s.intentId}:${errorLine(error).slice(0, 80)}`,
    message: `bringing this thread up to date failed: ${errorLine(error)}`,
    loud: true,
  });
  if (s.settling.open) release(s);
  else answerAll(s, HOLD_TEXT);
  refreshMarker(s.deps, s.caller.threadId);
}

/**
 * What is bound already was bound while nothing was in flight. Only where a person has settled a refused tool that ran
 * (tool-ran.ts) may calls from before that be at the files: they come to their end first.
 */
async function drained(s: SettleInput): Promise<boolean> {
  const { clock, settings } = s.deps;
  const deadline = clock.monotonic() + settings.drainMs;
  for (;;) {
    await s.inbox.drain(s.caller);
    if (isSerial(s.deps, s.caller.threadId)) resolveRecorded(s.deps, s.caller);
    if (flights(s.deps, s.caller).length === 0) return true;
    if (clock.monotonic() > deadline) return giveUp(s, "a call was in flight");
    await s.boundary.nextChange(clock, RECHECK_MS);
  }
}

/** True once the decision is durable. False: everything was released (or, for a rebind, denied) unchanged. */
async function bindOrRelease(s: SettleInput): Promise<boolean> {
  if (!(await quiet(s))) return giveUp(s, "a call was in flight");
  // What moved on only one of several heads is found out before anybody is bound to anything.
  if ((await meetHeads(s.deps)).length !== 1) return giveUp(s, "jj has several operation heads");
  const unhooked = s.mode === "bind" ? ((await s.unhooked?.()) ?? null) : null;
  if (unhooked !== null) {
    boundaryLost(s.deps, s.caller, unhooked);
    return unproved(s);
  }
  // Complete the picture before committing to it: the newest transition, coalesced, is what gets bound.
  await s.refresh();
  if (!isStillOpen(s)) return giveUp(s, null);
  if ((await s.deps.jj.heads()).length !== 1) return giveUp(s, "jj has several operation heads");
  ensureMarker(s.deps, s.caller.threadId, s.intentId);
  // Create-then-check against write-then-list: a call that passed unseen shows its file here, or saw the marker.
  if (!(await quiet(s))) {
    if (s.mode === "bind") refreshMarker(s.deps, s.caller.threadId);
    return giveUp(s, "a call passed while the barrier was being set");
  }
  // Their hooks died, and the harness went on without them: nobody waits at this boundary any more.
  if (!stillHeld(s)) {
    if (s.mode === "bind") refreshMarker(s.deps, s.caller.threadId);
    return giveUp(s, "its batch ended first");
  }
  // Another refresh, or a person, may have changed the intent during these waits.
  if (!isStillOpen(s)) return movedMeanwhile(s);
  // Siblings that came while these calls were held have cost the incarnation its boundary.
  if (!boundaryProof(s.deps.db, s.caller.incarnation).soft) {
    if (s.mode === "bind") refreshMarker(s.deps, s.caller.threadId);
    return unproved(s);
  }
  commitBinding(s);
  return true;
}

/** The intent can be bound, as far as its own state goes. */
function isStillOpen(s: SettleInput): boolean {
  const intent = intentById(s.deps.db, s.intentId);
  return intent?.state === "Detected" || (s.mode === "rebind" && isUnderWay(intent));
}

/** Calls pass where nothing is left to do; where somebody else has begun with it they are refused, and ask again. */
function movedMeanwhile(s: SettleInput): false {
  const { db } = s.deps;
  refreshMarker(s.deps, s.caller.threadId);
  const intent = intentById(db, s.intentId);
  if (intent === null || !needsMarker(intent.state, intent.barrier !== null))
    return giveUp(s, null);
  s.settling.open = false;
  answerAll(s, HOLD_TEXT);
  return false;
}

/** A barrier would not hold everything: the agent is told by a restart. Nothing is bound or mutated. */
function unproved(s: SettleInput): false {
  s.settling.open = false;
  answerAll(s, blockText("boundary-unproved"));
  s.restart();
  return false;
}

/** Every told hold has confirmed, no batch that was let through is open, and nothing passed unseen. */
async function quiet(s: SettleInput): Promise<boolean> {
  const { clock, settings, db } = s.deps;
  const serial = isSerial(s.deps, s.caller.threadId);
  const drainDeadline = clock.monotonic() + settings.drainMs;
  for (;;) {
    await s.inbox.drain(s.caller);
    const unconfirmed = [...s.boundary.holds.values()].filter((h) => !h.confirmed);
    const late = unconfirmed.some((h) => clock.monotonic() - h.toldAt > settings.confirmMs);
    if (late) return false;
    if (serial) resolveRecorded(s.deps, s.caller);
    const passed = openCalls(db, s.caller.incarnation).filter((c) => c.admission === "PassThrough");
    // A call of the very batch that is held here passed unseen: the batch is a passed one and can never drain.
    if (passed.some((c) => c.agentId === "" && c.ordinal === s.ordinal)) return false;
    // No event closes a serial batch, and a later call of it would be a sibling: what counts is that its call is over.
    const flying = passed.some((c) => !serial || !c.resolved);
    if (s.inbox.passedUnresolved(s.caller)) return false;
    if (unconfirmed.length === 0 && !flying) return true;
    if (clock.monotonic() > drainDeadline) return false;
    await s.boundary.nextChange(clock, RECHECK_MS);
  }
}

/** Calls of batches that are over are nobody's; the batch to be bound must not be one of them. */
function stillHeld(s: SettleInput): boolean {
  for (const h of s.boundary.holds.values())
    if (overBy(s, h)) h.settle(genericDecision(s.deps, s.caller, HOLD_TEXT));
  const { holds } = s.boundary;
  return holds.size > 0 && !isOver(s.deps.db, s.caller.incarnation, "", s.ordinal);
}

function overBy(s: SettleInput, h: Hold): boolean {
  return isOver(s.deps.db, s.caller.incarnation, h.call.agentId, h.call.ordinal);
}

function stillNot(s: SettleInput, why: string, at: "bound" | "unbound"): void {
  const { threadId } = s.caller;
  noteUnbindable(s.deps, s.boundary, { threadId, intentId: s.intentId, why }, at);
}

/** Nothing was mutated: the batch is let through, durably, before any of its calls is released. */
function giveUp(s: SettleInput, why: string | null): false {
  if (why !== null) stillNot(s, why, s.mode === "bind" ? "unbound" : "bound");
  // Already blocked once for this intent: a durable block is never released.
  if (s.mode === "bind") release(s);
  else answerAll(s, HOLD_TEXT);
  return false;
}

/** The batch is a passed one, durably, before any of its calls is released. */
function release(s: SettleInput): void {
  const { db, clock } = s.deps;
  for (const h of s.boundary.holds.values())
    if (overBy(s, h)) h.settle(genericDecision(s.deps, s.caller, HOLD_TEXT));
  // A sibling goes after the first of its response, which goes now.
  const holds = [...s.boundary.holds.values()].filter((h) => h.call.sibling !== true);
  write(db, () => {
    for (const h of holds) {
      admit(db, {
        ...h.call,
        incarnation: s.caller.incarnation,
        admission: "PassThrough",
        intentId: null,
        answer: null,
        now: clock.now(),
      });
    }
  });
  for (const h of holds) h.settle({ decision: "pass" });
  s.boundary.end(s.settling);
}

/** The full tuple and the blocked calls in one transaction, before the first mutation. */
function commitBinding(s: SettleInput): void {
  const tuple = tupleOf(s.caller, s);
  // From here an error leaves it open whether the decision is durable: nothing is released any more.
  s.settling.open = false;
  changeIntents(s.deps, (changes) => {
    changes.bound(s.intentId, tuple, s.deps.clock.now());
    for (const h of s.boundary.holds.values()) blockHeld(s, h, null);
  });
  // What could not be bound before says nothing of how it goes now; a rebind is another try of the same.
  if (s.mode === "bind") s.boundary.unbindable = 0;
}

function blockHeld(s: SettleInput, h: Hold, answer: "payload" | "generic" | null): void {
  if (overBy(s, h)) return; // refused all the same; its batch has its rows
  admit(s.deps.db, {
    ...h.call,
    incarnation: s.caller.incarnation,
    admission: "Block",
    intentId: s.intentId,
    answer,
    now: s.deps.clock.now(),
  });
}

async function reconcileAndAnswer(s: SettleInput): Promise<void> {
  const intent = intentById(s.deps.db, s.intentId);
  if (isUnderWay(intent)) {
    const outcome = await reconcile(s.deps, s.views, s.intentId, s.refresh);
    s.deps.log.info(
      `intent ${s.intentId}: ${outcome.outcome}${"reason" in outcome ? ` (${outcome.reason})` : ""}`,
    );
    if (outcome.outcome === "recovery-required")
      return answerAll(s, blockText("recovery-required"));
    if (outcome.outcome !== "materialized") {
      refreshMarker(s.deps, s.caller.threadId);
      // What does not pass by itself, a lock that somebody's git has left, is a person's to know of.
      if (outcome.outcome === "not-now") stillNot(s, outcome.reason, "bound");
      return answerAll(s, HOLD_TEXT);
    }
  }
  s.boundary.unbindable = 0;
  const { db } = s.deps;
  for (const h of s.boundary.holds.values()) {
    write(db, () => {
      blockHeld(s, h, "payload");
      setAnswer(db, s.caller.incarnation, h.call.toolUseId, h.gone ? "generic" : "payload");
    });
    h.settle(payloadDecision(s.deps, s.caller, h.call, s.intentId));
  }
  s.boundary.end(s.settling);
}

/** Denies every held call with the same text; each gets its row. */
function answerAll(s: SettleInput, text: string): void {
  for (const h of s.boundary.holds.values()) {
    write(s.deps.db, () => blockHeld(s, h, "generic"));
    h.settle(genericDecision(s.deps, s.caller, text));
  }
  s.boundary.end(s.settling);
}
