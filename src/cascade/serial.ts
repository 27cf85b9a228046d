/**
 * A harness whose calls run one at a time and that reports no batches (Codex). Every call is a batch of its own; the
 * session record says which response it belongs to and what the model got. A call of a later response, or the turn's
 * end, is what says that a call is over; nothing that a blocked call's own hook reports does.
 */
import { placeSerial, type SerialPlace } from "../core/serial.ts";
import type { HarnessEvent, SessionRecord } from "../ports/harness.ts";
import {
  closeBatch,
  isOver,
  lastOrdinal,
  openCalls,
  resolveCall,
  type AdmissionRow,
} from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { cascadeThread } from "../store/edges.ts";
import { unresolvedIntents, type IntentRow } from "../store/intents.ts";
import { earlierCalls, setModelTurn } from "../store/serial.ts";
import type { Boundary } from "./boundary.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { readRecord } from "./flights.ts";
import { changeIntents, type IntentChanges } from "./moves.ts";
import { receiptIn } from "./receipts.ts";
import { noteViolation } from "./siblings.ts";
import { recordToolRan } from "./tool-ran.ts";

type PreTool = Extract<HarnessEvent, { type: "PreTool" }>;

/** Where an arriving main call stands, and the number of its batch. */
export interface Arrival {
  place: SerialPlace;
  ordinal: number;
  modelTurn: number | null;
  record: SessionRecord | null;
  /** A sibling that can join the batch of its response no more: that one is over, or another has begun behind it. */
  unjoined?: boolean;
}

export function isSerial(deps: CascadeDeps, threadId: string): boolean {
  return deps.harness(cascadeThread(deps.db, threadId)!.harness).batching === "serial";
}

/** The intent waits for a person from here, because a refused tool ran. */
type ToolRan = (intentId: string) => void;

/**
 * A provider may give every call the same id: one of a later response is another call, not the same asked about again.
 * The earlier one is over, but completes nothing: what the model got is told apart by ids.
 */
export function endReused(deps: CascadeDeps, caller: HookCaller, event: PreTool): void {
  const { db, clock } = deps;
  const known = openCalls(db, caller.incarnation).find((c) => c.toolUseId === event.toolUseId);
  if (known?.modelTurn == null || !isSerial(deps, caller.threadId)) return;
  const response = readRecord(deps, caller, event.recordPath)?.responses.get(event.toolUseId);
  if (known.recordPath !== event.recordPath || (response ?? 0) <= known.modelTurn) return;
  write(db, () =>
    closeBatch(db, caller.incarnation, known.agentId, known.ordinal, "ended", clock.now()),
  );
}

/** Places an arriving main call, and records what its arrival proves about those before it. */
export function arrive(
  deps: CascadeDeps,
  caller: HookCaller,
  boundary: Boundary,
  event: PreTool,
  toolRan: ToolRan,
): Arrival {
  const record = readRecord(deps, caller, event.recordPath);
  showTurns(deps, caller, record);
  const arrival = placed(deps, caller, boundary, event, record);
  const stopped: string[] = [];
  const note: ToolRan = (intentId) => void stopped.push(intentId);
  if (arrival.place === "later") earlierAreOver(deps, caller, event, arrival, note);
  reread(deps, caller, event.sessionId, record, note);
  stopped.forEach(toolRan);
  if (arrival.place === "sibling" || arrival.place === "contradicted")
    noteViolation(deps, caller, { toolUseId: event.toolUseId, response: arrival.modelTurn });
  return arrival;
}

function placed(
  deps: CascadeDeps,
  caller: HookCaller,
  boundary: Boundary,
  event: PreTool,
  record: SessionRecord | null,
): Arrival {
  const { db } = deps;
  const { incarnation } = caller;
  const { toolUseId, promptId: turn, recordPath } = event;
  const response = record?.responses.get(toolUseId) ?? null;
  const known = openCalls(db, incarnation).find((c) => c.toolUseId === toolUseId);
  if (known !== undefined) {
    const { ordinal, modelTurn } = known;
    return { place: "later", ordinal, modelTurn, record };
  }
  const rows = earlierCalls(db, incarnation, {
    toolUseId,
    turn,
    record: recordPath ?? "",
    response,
  });
  // Whoever is held has no row yet.
  const held = [...boundary.holds.values()].map((h) => h.call).filter((c) => c.agentId === "");
  const beside = held.find(
    (c) => c.recordPath === recordPath && c.modelTurn === response && c.promptId === turn,
  );
  const sameResponse = rows.sameResponse ?? (response === null ? null : (beside ?? null));
  const last = Math.max(lastOrdinal(db, incarnation, ""), ...held.map((c) => c.ordinal));
  const place = placeSerial({ ...rows, response, sameResponse: sameResponse !== null });
  const arrival = { ordinal: last + 1, modelTurn: response, record };
  if (place === "sibling") {
    const { ordinal } = sameResponse!;
    // A batch that is over admits no call, and neither does one behind which another has begun.
    const joins = ordinal === last && !isOver(db, incarnation, "", ordinal);
    return joins
      ? { ...arrival, place, ordinal }
      : { ...arrival, place: "contradicted", unjoined: true };
  }
  // Nothing tells it from a sibling of the call that is held: it shares that one's fate.
  if (place === "unknown" && held.length > 0) return { ...arrival, place, ordinal: last };
  return { ...arrival, place };
}

/** A call of a later response has come: calls of earlier ones have their results, and blocked ones their receipts. */
function earlierAreOver(
  deps: CascadeDeps,
  caller: HookCaller,
  event: PreTool,
  arrival: Arrival,
  toolRan: ToolRan,
): void {
  const { db, clock } = deps;
  const { record, modelTurn } = arrival;
  const batches = openBatches(deps, caller).filter((b) => b[0]!.ordinal !== arrival.ordinal);
  if (batches.length === 0 || record === null || modelTurn === null) return;
  const alone = [...record.responses].every(
    ([id, response]) => response !== modelTurn || id === event.toolUseId || record.outputs.has(id),
  );
  changeIntents(deps, (changes) => {
    for (const batch of batches) {
      const { ordinal, admission } = batch[0]!;
      const over = (how: "closed" | "ended"): void =>
        closeBatch(db, caller.incarnation, "", ordinal, how, clock.now());
      const earlier = batch.every((c) =>
        c.recordPath === null
          ? alone // nobody knows which call it was, but it is none of this response
          : c.recordPath === event.recordPath && c.modelTurn !== null && c.modelTurn < modelTurn,
      );
      const anotherTurn = batch.some(
        (c) => c.promptId !== null && event.promptId !== null && c.promptId !== event.promptId,
      );
      if (admission === "Block") {
        if (earlier) {
          const of = { batch, record, session: event.sessionId };
          complete(deps, changes, caller, of, toolRan);
        }
        if (earlier || anotherTurn) over(earlier ? "closed" : "ended");
        continue;
      }
      const open = batch.filter(
        (c) => !c.resolved && c.recordPath !== null && !record.outputs.has(c.toolUseId),
      );
      for (const c of batch)
        if (record.outputs.has(c.toolUseId))
          resolveCall(db, caller.incarnation, c.toolUseId, "batch-closed", clock.now());
      if (earlier && open.length === 0) over("closed");
      else if (anotherTurn) over("ended");
    }
  });
}

/**
 * The main agent's turn is over: a bound batch is complete with it, if the calls were answered. Never
 * acknowledges.
 */
export function turnIsOver(
  deps: CascadeDeps,
  caller: HookCaller,
  sessionId: string,
  toolRan: ToolRan,
): void {
  const { db, clock } = deps;
  const stopped: string[] = [];
  for (const batch of openBatches(deps, caller)) {
    const { ordinal, admission, recordPath } = batch[0]!;
    if (admission !== "Block" || boundTo(deps, caller, ordinal) === null) continue;
    const record = readRecord(deps, caller, recordPath);
    changeIntents(deps, (changes) => {
      const of = { batch, record, session: sessionId };
      complete(deps, changes, caller, of, (intentId) => void stopped.push(intentId));
      closeBatch(db, caller.incarnation, "", ordinal, "closed", clock.now());
    });
  }
  stopped.forEach(toolRan);
}

/** In a transaction. */
function complete(
  deps: CascadeDeps,
  changes: IntentChanges,
  caller: HookCaller,
  of: { batch: readonly AdmissionRow[]; record: SessionRecord | null; session: string },
  toolRan: ToolRan,
): void {
  const { ordinal } = of.batch[0]!;
  const bound = boundTo(deps, caller, ordinal);
  if (bound === null || bound.batchCompletedAt !== null) return;
  const { intentId, payload } = bound;
  const judged = receiptIn(deps, caller, { agentId: "", ordinal, payload }, of.record);
  if (judged === "tool-ran") {
    ran(deps, changes, caller, intentId, of);
    return toolRan(intentId);
  }
  changes.batchCompleted(
    intentId,
    { incarnation: caller.incarnation, batch: ordinal },
    {
      judged,
      evidence: { listed: of.batch.map((c) => c.toolUseId), session: of.session },
    },
    deps.clock.now(),
  );
}

/** A receipt that could not be read when its batch was completed. */
function reread(
  deps: CascadeDeps,
  caller: HookCaller,
  session: string,
  record: SessionRecord | null,
  toolRan: ToolRan,
): void {
  const bound = unresolvedIntents(deps.db, caller.threadId).find(
    (i) =>
      // What diverged tells nobody anything any more.
      i.state !== "TopologyDiverged" &&
      i.receipt === "unreadable" &&
      i.barrier?.incarnation === caller.incarnation &&
      i.receiptSession === session,
  );
  if (bound === undefined || record === null) return;
  const { intentId, payload } = bound;
  const ordinal = bound.barrier!.batch;
  const judged = receiptIn(deps, caller, { agentId: "", ordinal, payload }, record);
  if (judged === "unreadable") return;
  changeIntents(deps, (changes) => {
    if (judged === "tool-ran") {
      ran(deps, changes, caller, intentId, { record });
      toolRan(intentId);
      return;
    }
    changes.receiptReread(
      intentId,
      { incarnation: caller.incarnation, batch: ordinal },
      { judged, evidence: { session } },
    );
  });
}

/** In a transaction. */
function ran(
  deps: CascadeDeps,
  changes: IntentChanges,
  caller: HookCaller,
  intentId: string,
  of: { batch?: readonly AdmissionRow[]; record: SessionRecord | null },
): void {
  const ids = new Set(of.batch?.map((c) => c.toolUseId));
  const results = [...(of.record?.outputs ?? [])].filter(([id]) => ids.has(id));
  recordToolRan(deps, changes, caller, { intentId, results });
}

function boundTo(deps: CascadeDeps, caller: HookCaller, ordinal: number): IntentRow | null {
  return (
    unresolvedIntents(deps.db, caller.threadId).find(
      (i) => i.barrier?.incarnation === caller.incarnation && i.barrier.batch === ordinal,
    ) ?? null
  );
}

/** Main batches that are not over, oldest first. */
function openBatches({ db }: CascadeDeps, caller: HookCaller): AdmissionRow[][] {
  const batches = new Map<number, AdmissionRow[]>();
  for (const c of openCalls(db, caller.incarnation)) {
    if (c.agentId === "") batches.set(c.ordinal, [...(batches.get(c.ordinal) ?? []), c]);
  }
  return [...batches.values()];
}

/** Calls that were decided before the record showed them are there by now. */
function showTurns({ db }: CascadeDeps, caller: HookCaller, record: SessionRecord | null): void {
  if (record === null) return;
  const hidden = openCalls(db, caller.incarnation).filter(
    (c) => c.recordPath !== null && c.modelTurn === null && record.responses.has(c.toolUseId),
  );
  if (hidden.length === 0) return;
  write(db, () => {
    for (const { toolUseId } of hidden)
      setModelTurn(db, caller.incarnation, toolUseId, record.responses.get(toolUseId)!);
  });
}
