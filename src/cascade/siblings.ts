/**
 * Two calls in one response of a harness that was proved to ask for one: the second waits for the first, and what was
 * seen counts against the incarnation's boundary.
 */
import { needsMarker } from "../core/intent.ts";
import { MAX_SERIAL_VIOLATIONS } from "../core/serial.ts";
import { admit, lastOrdinal, openCalls } from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import { unresolvedIntents } from "../store/intents.ts";
import { countViolation, loseBoundary } from "../store/serial.ts";
import type { Boundary, Hold } from "./boundary.ts";
import { genericDecision } from "./decisions.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { flights, resolveRecorded } from "./flights.ts";
import { HOLD_TEXT } from "./texts.ts";

const RECHECK_MS = 50;

/** Durable and said: the harness showed two calls where it was proved to have one. */
export function noteViolation(
  deps: CascadeDeps,
  caller: HookCaller,
  call: { toolUseId: string; response: number | null },
): void {
  const { db, clock } = deps;
  const { threadId, incarnation } = caller;
  const seen = write(db, () => {
    const violations = countViolation(db, incarnation);
    appendEvent(db, {
      threadId,
      kind: "serial_violation",
      data: { incarnation, toolUseId: call.toolUseId, response: call.response, violations },
      now: clock.now(),
    });
    if (violations >= MAX_SERIAL_VIOLATIONS) lose(deps, caller, "two calls in one response");
    return violations;
  });
  const lost = seen >= MAX_SERIAL_VIOLATIONS;
  deps.raiseAttention({
    threadId,
    kind: "serial_violation",
    dedupKey: `${incarnation}:${seen}`,
    message: lost
      ? "the harness asks for several calls at once again and again; from now on this agent is restarted to be told what changed"
      : "the harness asked for two calls at once, which kiki had run one after the other",
    loud: lost,
  });
}

/** Outside of a transaction. `why`: a few words for the event. */
export function boundaryLost(deps: CascadeDeps, caller: HookCaller, why: string): void {
  write(deps.db, () => lose(deps, caller, why));
}

function lose(deps: CascadeDeps, { threadId, incarnation }: HookCaller, why: string): void {
  const { db, clock } = deps;
  if (!loseBoundary(db, incarnation)) return;
  deps.log.warn(`the boundary of ${incarnation} is not what was proved: ${why}`);
  appendEvent(db, {
    threadId,
    kind: "boundary_lost",
    data: { incarnation, why },
    now: clock.now(),
  });
}

/**
 * Whether a call that has come may be decided about by itself. `waits`: until the call of its response that runs is over.
 * `refused`: it may not begin beside those that run or wait, and nothing will tell it when they are over.
 */
export function besideOthers(
  deps: CascadeDeps,
  caller: HookCaller,
  boundary: Boundary,
  call: { ordinal: number; sibling: boolean; unjoined?: boolean },
): "decided" | "waits" | "refused" {
  if (!call.sibling && call.unjoined !== true) return "decided";
  resolveRecorded(deps, caller);
  const flying = flights(deps, caller);
  if (call.unjoined === true)
    return boundary.holds.size + flying.length > 0 ? "refused" : "decided";
  if (!flying.some((c) => c.ordinal === call.ordinal)) return "decided";
  // While admission is closed, it is the settlement that decides about everybody who is held.
  return boundary.settling === null ? "waits" : "refused";
}

export interface Waiting {
  deps: CascadeDeps;
  boundary: Boundary;
  caller: HookCaller;
  hold: Hold;
  drain(): Promise<void>;
  stopped(): boolean;
}

/** A sibling waits until the first call of its response is over: then it goes, or is refused with it. Never throws. */
export async function releaseAfterFirst(w: Waiting): Promise<void> {
  const { deps, boundary, caller, hold } = w;
  const deadline = deps.clock.monotonic() + deps.settings.holdMs;
  try {
    while (boundary.holds.has(hold.token) && !hold.gone && !w.stopped()) {
      await w.drain();
      // While admission is closed, the settlement decides about everybody who is held.
      const verdict = boundary.settling === null ? fate(deps, caller, hold) : "wait";
      if (verdict === "pass") return goes(deps, caller, hold);
      if (verdict === "deny" || deps.clock.monotonic() > deadline) break;
      await boundary.nextChange(deps.clock, RECHECK_MS);
    }
  } catch (error) {
    deps.log.error(`sibling ${hold.call.toolUseId} of thread ${caller.threadId}`, error);
  }
  try {
    if (boundary.holds.has(hold.token)) hold.settle(genericDecision(deps, caller, HOLD_TEXT));
  } catch (error) {
    // A refusal is composed from the database: the hook's own limit is then the answer.
    deps.log.error(`sibling ${hold.call.toolUseId} could not be answered`, error);
  }
}

function fate(deps: CascadeDeps, caller: HookCaller, hold: Hold): "pass" | "deny" | "wait" {
  resolveRecorded(deps, caller);
  const { call } = hold;
  const batch = openCalls(deps.db, caller.incarnation).filter(
    (c) => c.agentId === "" && c.ordinal === call.ordinal,
  );
  if (batch.length === 0 || batch.some((c) => c.admission === "Block")) return "deny";
  // Its launcher wrote down that the first one passed, and refused it when it saw the marker.
  if (isBarred(deps, caller)) return "deny";
  // A call that passed unseen has begun another batch behind it, and may be at work.
  if (lastOrdinal(deps.db, caller.incarnation, "") > call.ordinal) return "deny";
  return batch.every((c) => c.resolved) && hold.confirmed ? "pass" : "wait";
}

/** Something is to be told, or waits for a person: a call goes only by a decision of its own. */
function isBarred({ db }: CascadeDeps, { threadId }: HookCaller): boolean {
  return unresolvedIntents(db, threadId).some((i) => needsMarker(i.state, i.barrier !== null));
}

function goes({ db, clock }: CascadeDeps, caller: HookCaller, hold: Hold): void {
  write(db, () =>
    admit(db, {
      ...hold.call,
      incarnation: caller.incarnation,
      admission: "PassThrough",
      intentId: null,
      answer: null,
      now: clock.now(),
    }),
  );
  hold.settle({ decision: "pass" });
}
