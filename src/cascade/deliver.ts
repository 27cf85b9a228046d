/**
 * Delivery: the answers to `PreToolUse` and `Hold`. core/barrier decides, from what is durable (`boundary-facts.ts`);
 * this file acts and records. Decisions of one thread run one after another; a settlement runs beside them.
 */
import { AFTER_BLOCK, decideBoundary, type BoundaryDecision } from "../core/barrier.ts";
import type { HookDecision } from "../core/hook-decision.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import { admit, openCalls, retireCallId, type AdmissionRow } from "../store/admissions.ts";
import { writeBeforeAnswer } from "../store/db.ts";
import { noteActivity } from "../store/edges.ts";
import { batchOf } from "./batch.ts";
import { boundaryFacts, decidedFor, type AskedCall } from "./boundary-facts.ts";
import { Boundary, type HeldCall, type Hold } from "./boundary.ts";
import { genericDecision, payloadDecision } from "./decisions.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import type { Inbox } from "./inbox.ts";
import { ensureMarker, refreshMarker } from "./marker.ts";
import { changeIntents } from "./moves.ts";
import { arrive, endReused, isSerial } from "./serial.ts";
import { besideOthers, noteViolation } from "./siblings.ts";
import { blockText, HOLD_TEXT, NOT_READY_TEXT } from "./texts.ts";
import { forgetTyped } from "./typed.ts";
import { noteUnbindable, waitsFor } from "./unbindable.ts";

type PreTool = Extract<HarnessEvent, { type: "PreTool" }>;

/** Acknowledgements one call may make before its own decision: one per intent of the thread. */
const MAX_DECISIONS_PER_CALL = 50;

export interface DeliverDeps {
  deps: CascadeDeps;
  inbox: Inbox;
  boundary(incarnation: string): Boundary;
  /** Starts a settlement for the intent; admission is closed when it returns. */
  settle(
    caller: HookCaller,
    intentId: string,
    /** Its batch is the one to be bound. */
    call: Pick<HeldCall, "ordinal" | "modelTurn">,
    mode: "bind" | "rebind" | "resume",
  ): void;
  /** A sibling that is held until the first call of its response is over. */
  afterFirst(caller: HookCaller, hold: Hold): void;
  /** The incarnation's boundary cannot be proved: it is to be replaced. */
  restart(caller: HookCaller): void;
  /** It waits for a person, and was not stopped, or continued by somebody; `toolRan`: because a refused tool ran. */
  pause(intentId: string, toolRan?: boolean): void;
}

export class Deliver {
  readonly #d: DeliverDeps;

  constructor(d: DeliverDeps) {
    this.#d = d;
  }

  /** The answer to one `PreToolUse`. */
  preTool(caller: HookCaller, event: PreTool): Promise<HookDecision> {
    return this.#d.deps.queues.run(`thread:${caller.threadId}`, async () => {
      await this.#d.inbox.drain(caller);
      if (!(await this.#d.deps.waitReady(caller.incarnation, 0)))
        return this.#deny(caller, NOT_READY_TEXT);
      endReused(this.#d.deps, caller, event);
      const open = openCalls(this.#d.deps.db, caller.incarnation);
      // A repeated call id (a harness that asks twice) gets the same answer, and no second row.
      const known = open.find((c) => c.toolUseId === event.toolUseId);
      if (known?.admission === "PassThrough") return { decision: "pass" };
      // Over and asked for again: from here it is another call.
      if (known === undefined) retireCallId(this.#d.deps.db, caller.incarnation, event.toolUseId);
      if (isSerial(this.#d.deps, caller.threadId)) return this.#serially(caller, event);
      return this.#decide(caller, {
        call: this.#place(caller, event, open),
        open,
        sessionId: event.sessionId,
      });
    });
  }

  /** Every call is a batch of its own, and its arrival says what is over. */
  #serially(caller: HookCaller, event: PreTool): Promise<HookDecision> {
    const { deps } = this.#d;
    const { sessionId, promptId, toolUseId, toolName, recordPath } = event;
    if (event.agentId !== null) {
      // There is to be one agent only.
      noteViolation(deps, caller, { toolUseId, response: null });
      const open = openCalls(deps.db, caller.incarnation);
      return this.#decide(caller, { call: this.#place(caller, event, open), open, sessionId });
    }
    const boundary = this.#d.boundary(caller.incarnation);
    const arrival = arrive(deps, caller, boundary, event, (intentId) =>
      this.#d.pause(intentId, true),
    );
    const { place, ordinal, modelTurn } = arrival;
    // Beside a call that is held, one that nothing places may be its sibling.
    const sibling = place === "sibling" || (place === "unknown" && boundary.holds.size > 0);
    const call: HeldCall = {
      agentId: "",
      ordinal,
      promptId,
      toolUseId,
      toolName,
      recordPath,
      modelTurn,
      sibling,
    };
    const beside = besideOthers(deps, caller, boundary, { ...arrival, sibling });
    if (beside === "waits") return Promise.resolve(this.#hold(caller, call));
    if (beside === "refused") return Promise.resolve(this.#deny(caller, HOLD_TEXT));
    const open = openCalls(deps.db, caller.incarnation);
    return this.#decide(caller, { call, open, sessionId, place });
  }

  #place(caller: HookCaller, event: PreTool, open: readonly AdmissionRow[]): HeldCall {
    if (event.agentId === null) {
      const another = (held: HeldCall): boolean =>
        held.agentId === "" &&
        held.promptId !== null &&
        event.promptId !== null &&
        held.promptId !== event.promptId;
      forgetHeld(this.#d.deps, caller, this.#d.boundary(caller.incarnation), another);
    }
    return {
      agentId: event.agentId ?? "",
      ordinal: batchOf(this.#d.deps, caller, event, open),
      promptId: event.promptId,
      toolUseId: event.toolUseId,
      toolName: event.toolName,
    };
  }

  async #decide(caller: HookCaller, at: AskedCall): Promise<HookDecision> {
    const { call, open } = at;
    const boundary = this.#d.boundary(caller.incarnation);
    for (let round = 0; round < MAX_DECISIONS_PER_CALL; round += 1) {
      if (boundary.settling !== null) {
        // Admission is closed. Siblings of a batch that was let through go through, or it could never drain.
        if (boundary.settling.open && decidedFor(call, open)?.admission === "PassThrough")
          return this.#pass(caller, call);
        return this.#hold(caller, call);
      }
      const facts = boundaryFacts(this.#d.deps.db, caller, at);
      const decision = decideBoundary(facts);
      const why = waitsFor(facts, decision);
      if (why !== null) {
        const { intentId } = facts.next!;
        noteUnbindable(this.#d.deps, boundary, { threadId: caller.threadId, intentId, why });
      }
      if (decision.act !== "acknowledge") return await this.#act(caller, call, decision);
      changeIntents(this.#d.deps, (changes) =>
        changes.acknowledged(decision.intentId, call.toolUseId, this.#d.deps.clock.now()),
      );
      forgetTyped(this.#d.deps, caller.threadId);
      refreshMarker(this.#d.deps, caller.threadId);
    }
    throw new Error("too many acknowledgements for one call");
  }

  async #act(
    caller: HookCaller,
    call: HeldCall,
    decision: Exclude<BoundaryDecision, { act: "acknowledge" }>,
  ): Promise<HookDecision> {
    const { db } = this.#d.deps;
    switch (decision.act) {
      case "pass":
        return this.#pass(caller, call);
      case "deny-payload":
        return this.#denyPayload(caller, call, decision.intentId);
      case "await-payload":
        this.#d.settle(caller, decision.intentId, call, "resume");
        return this.#hold(caller, call);
      case "bind":
        this.#d.settle(caller, decision.intentId, call, "bind");
        return this.#hold(caller, call);
      case "rebind": {
        if (decision.needsReconcile) {
          this.#d.settle(caller, decision.intentId, call, "rebind");
          return this.#hold(caller, call);
        }
        const tuple = tupleOf(caller, call);
        ensureMarker(this.#d.deps, caller.threadId, decision.intentId);
        changeIntents(this.#d.deps, (changes) =>
          changes.bound(decision.intentId, tuple, this.#d.deps.clock.now()),
        );
        return this.#denyPayload(caller, call, decision.intentId);
      }
      case "stay-blocked": {
        const { intentId } = decidedFor(call, openCalls(db, caller.incarnation))!;
        this.#block(caller, call, intentId!, "generic");
        return this.#deny(caller, HOLD_TEXT);
      }
      case "block": {
        this.#block(caller, call, decision.intentId, "generic");
        if (AFTER_BLOCK[decision.reason] === "restart") {
          this.#d.deps.log.info(`thread ${caller.threadId} is restarted: ${decision.reason}`);
          this.#d.restart(caller);
        }
        if (decision.reason === "recovery-required") this.#d.pause(decision.intentId);
        return this.#deny(caller, blockText(decision.reason));
      }
    }
  }

  #pass(caller: HookCaller, call: HeldCall): HookDecision {
    this.#admit(caller, call, { admission: "PassThrough", intentId: null, answer: null });
    return { decision: "pass" };
  }

  #block(
    caller: HookCaller,
    call: HeldCall,
    intentId: string,
    answer: "payload" | "generic",
  ): void {
    this.#admit(caller, call, { admission: "Block", intentId, answer });
  }

  /** The row that makes the answer durable, and what the agent is doing, in one commit: this is every call's path. */
  #admit(
    caller: HookCaller,
    call: HeldCall,
    row: Pick<Parameters<typeof admit>[1], "admission" | "intentId" | "answer">,
  ): void {
    const { db, clock } = this.#d.deps;
    const now = clock.now();
    writeBeforeAnswer(db, () => {
      admit(db, { ...call, ...row, incarnation: caller.incarnation, now });
      this.#note(caller, call, now);
    });
  }

  #note(caller: HookCaller, call: HeldCall, now: number): void {
    noteActivity(this.#d.deps.db, caller.incarnation, {
      status: "Running",
      turnCompleted: false,
      event: `PreToolUse ${call.toolName}`,
      now,
    });
  }

  #denyPayload(caller: HookCaller, call: HeldCall, intentId: string): HookDecision {
    this.#block(caller, call, intentId, "payload");
    return payloadDecision(this.#d.deps, caller, call, intentId);
  }

  #hold(caller: HookCaller, call: HeldCall): HookDecision {
    const { ids, clock, settings } = this.#d.deps;
    const token = ids.uuid();
    this.#note(caller, call, clock.now());
    const hold = this.#d.boundary(caller.incarnation).add(token, call, clock.monotonic());
    if (call.sibling === true) this.#d.afterFirst(caller, hold);
    return { decision: "hold", token, holdMs: settings.holdMs };
  }

  #deny(caller: HookCaller, reason: string): HookDecision {
    return genericDecision(this.#d.deps, caller, reason);
  }

  /** `Hold(token)`: confirms, and waits for the end. A token of before a restart is unknown: deny. */
  async hold(caller: HookCaller, token: string, signal: AbortSignal): Promise<HookDecision> {
    const boundary = this.#d.boundary(caller.incarnation);
    const hold = boundary.holds.get(token);
    if (hold === undefined) return boundary.takeEarly(token) ?? this.#deny(caller, HOLD_TEXT);
    hold.confirmed = true;
    boundary.changed();
    let leave = (): void => undefined;
    const gone = new Promise<HookDecision>((resolve) => {
      leave = (): void => {
        hold.gone = true;
        boundary.changed();
        resolve(this.#deny(caller, HOLD_TEXT));
      };
    });
    // A signal that fired already fires no event any more.
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave);
    try {
      return await Promise.race([hold.answer, gone]);
    } finally {
      // One that ends with the daemon only would keep every call that ever listened to it (Bun 1.4.5).
      signal.removeEventListener("abort", leave);
    }
  }
}

/** The identity of a batch: of a serial harness the response by its record, else the number is the turn's as well. */
export function tupleOf(
  { incarnation }: HookCaller,
  { ordinal, modelTurn }: Pick<HeldCall, "ordinal" | "modelTurn">,
): { incarnation: string; turn: number; batch: number } {
  return { incarnation, turn: modelTurn ?? ordinal, batch: ordinal };
}

/** Their batch is over, so that whoever asked has gone; a hook that is there all the same denies. */
export function forgetHeld(
  deps: CascadeDeps,
  caller: HookCaller,
  boundary: Boundary,
  whose: (call: HeldCall) => boolean,
): void {
  for (const h of boundary.holds.values())
    if (whose(h.call)) h.settle(genericDecision(deps, caller, HOLD_TEXT));
}
