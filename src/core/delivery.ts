/**
 * Delivery of one prepared intent as a state machine (cascade chapter, "Delivery"): the soft barrier, its receipt, the
 * ladder from redelivery to `RestartStartup`, bounded attempts per epoch, exhaustion, and the two exits a person has.
 * Decisions compare ids and epochs. There is no time in here: a clock that goes back cannot spend or refund a bound.
 */
import {
  MAX_SOFT_REDELIVERIES,
  NO_ECHO,
  startupSeen,
  type BatchRef,
  type ObservedReceipt,
  type StartupEcho,
} from "./barrier.ts";
import type { IncarnationId } from "./ids.ts";
import type { DeliveryMode } from "./intent.ts";
import { machine, type Moves } from "./machine.ts";

export const DELIVERY_PHASES = [
  "Unbound",
  "SoftBound",
  "SoftComplete",
  "Restarting",
  "RestartReady",
  "Exhausted",
  "Acknowledged",
] as const;
export type DeliveryPhase = (typeof DELIVERY_PHASES)[number];

const MOVES = {
  // Restarting at once: a harness that proves no batch boundary, or an intent prepared at an idle agent that ended.
  Unbound: ["SoftBound", "Restarting"],
  SoftBound: ["SoftComplete", "Restarting"],
  SoftComplete: ["SoftBound", "Restarting", "Acknowledged"],
  // → itself: an attempt failed and its epoch has another.
  Restarting: ["RestartReady", "Restarting", "Unbound", "Exhausted"],
  RestartReady: ["Acknowledged", "Restarting", "Unbound", "Exhausted"],
  // Only by a person's repair: retry-delivery, discard-delivery.
  Exhausted: ["Unbound", "Acknowledged"],
  Acknowledged: [],
} as const satisfies Moves<DeliveryPhase>;
export const DELIVERY = machine("delivery", ["Unbound"], MOVES);

/** One `RestartStartup` attempt: the `agent_sessions` row that claims the intent. */
export interface Attempt {
  incarnation: IncarnationId;
  /** The intent's epoch when the attempt was made. Bounds count equal epochs only. */
  epoch: number;
  startupDeliveryId: string;
  retired: boolean;
}

/** Everything that is durable about one intent's delivery. */
export interface Delivery {
  epoch: number;
  softRedeliveries: number;
  exhausted: boolean;
  acknowledged: null | { by: "proof" | "person"; evidence: string };
  soft: null | { at: BatchRef; completed: boolean; receipt: ObservedReceipt | null };
  /** Every attempt there ever was, oldest first; the last one is the active one unless it is retired. */
  attempts: readonly Attempt[];
  /** The active attempt's ready handshake is durable. */
  ready: boolean;
  /** Of the active attempt. */
  echo: StartupEcho;
}

export const FRESH_DELIVERY: Delivery = {
  epoch: 1,
  softRedeliveries: 0,
  exhausted: false,
  acknowledged: null,
  soft: null,
  attempts: [],
  ready: false,
  echo: NO_ECHO,
};

export function activeAttempt(d: Delivery): Attempt | null {
  const last = d.attempts.at(-1);
  return last === undefined || last.retired ? null : last;
}

/** `delivery_mode` of the row. */
export function deliveryMode(d: Delivery): DeliveryMode | null {
  if (activeAttempt(d) !== null) return "RestartStartup";
  return d.soft === null ? null : "SoftBatch";
}

export function deliveryPhase(d: Delivery): DeliveryPhase {
  if (d.acknowledged !== null) return "Acknowledged";
  if (d.exhausted) return "Exhausted";
  if (activeAttempt(d) !== null) return d.ready ? "RestartReady" : "Restarting";
  if (d.soft === null) return "Unbound";
  return d.soft.completed ? "SoftComplete" : "SoftBound";
}

export function attemptsInEpoch(attempts: readonly { epoch: number }[], epoch: number): number {
  return attempts.filter((a) => a.epoch === epoch).length;
}

/** What a boundary that cannot be proved leads to. `limit`: `[cascade] attempts`. */
export function restartDecision(
  d: Pick<Delivery, "attempts" | "epoch" | "exhausted">,
  limit: number,
): { act: "attempt"; epoch: number; number: number } | { act: "exhaust" } | { act: "stay-paused" } {
  // A restart of the daemon re-surfaces exhaustion and mints nothing.
  if (d.exhausted) return { act: "stay-paused" };
  const made = attemptsInEpoch(d.attempts, d.epoch);
  return made >= limit ? { act: "exhaust" } : { act: "attempt", epoch: d.epoch, number: made + 1 };
}

export type DeliveryEvent =
  /** The first binding, or the counted one of rule 5b. */
  | { type: "bind"; at: BatchRef }
  | { type: "complete"; at: BatchRef; receipt: ObservedReceipt }
  /** Codex: the session record could be read after all. */
  | { type: "read-again"; receipt: ObservedReceipt }
  /** The first call of a later turn of the bound incarnation, or one whose model has the startup text. */
  | { type: "acknowledge"; at: BatchRef; promptOrdinal: number | null; toolUseId: string }
  | { type: "restart"; incarnation: IncarnationId; startupDeliveryId: string }
  | { type: "ready"; incarnation: IncarnationId }
  | { type: "echo"; incarnation: IncarnationId; text: string; promptOrdinal: number }
  /** The turn of that prompt came to its end. */
  | { type: "answered"; incarnation: IncarnationId; promptOrdinal: number }
  /** The active attempt's process ended before the acknowledgement. */
  | { type: "attempt-failed"; incarnation: IncarnationId }
  | { type: "retry-delivery" }
  | { type: "discard-delivery"; approval: string };

export type DeliveryEventType = DeliveryEvent["type"];

/** Events that may write to an exhausted intent: both are repairs, and there is no third. */
export const EXITS_OF_EXHAUSTION = [
  "retry-delivery",
  "discard-delivery",
] as const satisfies readonly DeliveryEventType[];

/** The delivery after one event. Throws by name on an event that the state has no place for. */
export function deliver(d: Delivery, event: DeliveryEvent, limit: number): Delivery {
  const from = deliveryPhase(d);
  const next = apply(d, event, limit);
  if (next === null) throw new Error(`illegal delivery event ${event.type} in ${from}`);
  const to = deliveryPhase(next);
  if (next !== d && (from !== to || event.type === "restart")) DELIVERY.move(from, to as never);
  return next;
}

/** null: no place for it. The same object: known already, or about something else, and nothing changes. */
function apply(d: Delivery, event: DeliveryEvent, limit: number): Delivery | null {
  const exit: readonly string[] = EXITS_OF_EXHAUSTION;
  if (d.acknowledged !== null || d.exhausted !== exit.includes(event.type)) return null;
  switch (event.type) {
    case "bind":
      return bind(d, event.at);
    case "complete":
      return complete(d, event.at, event.receipt);
    case "read-again":
      return d.soft?.receipt === "unreadable"
        ? { ...d, soft: { ...d.soft, receipt: event.receipt } }
        : null;
    case "acknowledge":
      return mayAcknowledge(d, event)
        ? { ...d, acknowledged: { by: "proof", evidence: event.toolUseId } }
        : null;
    case "restart":
      return restart(d, event, limit);
    case "ready":
      return activeAttempt(d)?.incarnation === event.incarnation ? { ...d, ready: true } : null;
    case "echo": {
      const attempt = activeAttempt(d);
      if (attempt?.incarnation !== event.incarnation) return d;
      if (!event.text.includes(startupMark(attempt.startupDeliveryId))) return d;
      const shown = new Set([...d.echo.shown, event.promptOrdinal]);
      return { ...d, echo: { ...d.echo, shown: [...shown].sort((a, b) => a - b) } };
    }
    case "answered": {
      const mine = activeAttempt(d)?.incarnation === event.incarnation;
      return mine && d.echo.answered === null && d.echo.shown.includes(event.promptOrdinal)
        ? { ...d, echo: { ...d.echo, answered: event.promptOrdinal } }
        : d;
    }
    case "attempt-failed":
      return attemptFailed(d, event.incarnation, limit);
    case "retry-delivery":
      return { ...d, exhausted: false, epoch: d.epoch + 1, softRedeliveries: 0 };
    case "discard-delivery":
      return { ...d, acknowledged: { by: "person", evidence: event.approval } };
  }
}

/** What a startup payload carries, so that the harness's own report of the prompt shows which delivery it was. */
export function startupMark(startupDeliveryId: string): string {
  return `[[kiki:${startupDeliveryId}]]`;
}

function bind(d: Delivery, at: BatchRef): Delivery | null {
  if (activeAttempt(d) !== null) return null;
  const soft = { at, completed: false, receipt: null };
  if (d.soft === null) return { ...d, soft };
  // A batch that is not durably complete is never left for another one, nor a complete one for an earlier.
  if (!d.soft.completed || d.softRedeliveries >= MAX_SOFT_REDELIVERIES) return null;
  if (d.soft.at.incarnation === at.incarnation && at.ordinal <= d.soft.at.ordinal) return null;
  return { ...d, soft, softRedeliveries: d.softRedeliveries + 1 };
}

function complete(d: Delivery, at: BatchRef, receipt: ObservedReceipt): Delivery | null {
  if (d.soft === null) return null;
  const mine = d.soft.at.incarnation === at.incarnation && d.soft.at.ordinal === at.ordinal;
  // Duplicates, stale and mismatched ones change nothing; the first completion stands.
  return !mine || d.soft.completed
    ? d
    : { ...d, soft: { at: d.soft.at, completed: true, receipt } };
}

function mayAcknowledge(
  d: Delivery,
  call: { at: BatchRef; promptOrdinal: number | null },
): boolean {
  const attempt = activeAttempt(d);
  if (attempt !== null) {
    if (attempt.incarnation !== call.at.incarnation || !d.ready) return false;
    return startupSeen(d.echo, call.promptOrdinal) === "told";
  }
  if (d.soft === null || !d.soft.completed || d.soft.receipt !== "matching") return false;
  return d.soft.at.incarnation === call.at.incarnation && call.at.ordinal > d.soft.at.ordinal;
}

/** One transaction: retires the old incarnation's claim, clears the soft tuple, makes the attempt. */
function restart(
  d: Delivery,
  event: { incarnation: IncarnationId; startupDeliveryId: string },
  limit: number,
): Delivery | null {
  if (restartDecision(d, limit).act !== "attempt") return null;
  // An id is used once.
  const used = d.attempts.some(
    (a) => a.incarnation === event.incarnation || a.startupDeliveryId === event.startupDeliveryId,
  );
  if (used) return null;
  return {
    ...d,
    soft: null,
    ready: false,
    echo: NO_ECHO,
    attempts: [
      ...d.attempts.map((a) => ({ ...a, retired: true })),
      {
        incarnation: event.incarnation,
        epoch: d.epoch,
        startupDeliveryId: event.startupDeliveryId,
        retired: false,
      },
    ],
  };
}

function attemptFailed(d: Delivery, incarnation: IncarnationId, limit: number): Delivery | null {
  const attempt = activeAttempt(d);
  if (attempt === null) return null;
  if (attempt.incarnation !== incarnation) return d;
  const attempts = d.attempts.map((a) => (a === attempt ? { ...a, retired: true } : a));
  // The same transaction says that it was the last one: no restart of the daemon can mint another.
  const exhausted = attemptsInEpoch(attempts, d.epoch) >= limit;
  return { ...d, attempts, exhausted, ready: false, echo: NO_ECHO };
}
