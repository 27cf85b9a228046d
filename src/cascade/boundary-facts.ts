/** What is durable about a thread's deliveries and an agent's calls, as core/barrier decides about a boundary from it. */
import {
  NO_ECHO,
  type ActiveBarrier,
  type ActiveRestart,
  type BoundaryFacts,
  type BoundaryWorth,
} from "../core/barrier.ts";
import { isPrepared } from "../core/intent.ts";
import type { SerialPlace } from "../core/serial.ts";
import { blockedInARow, hasCopy, type AdmissionRow } from "../store/admissions.ts";
import type { Db } from "../store/db.ts";
import { promptNumber, startupEcho } from "../store/startup-prompts.ts";
import { unresolvedIntents, type IntentRow } from "../store/intents.ts";
import { boundaryProof } from "../store/serial.ts";
import { sessionById } from "../store/sessions.ts";
import type { HeldCall } from "./boundary.ts";
import type { HookCaller } from "./deps.ts";
import { isUnseen } from "./unseen-calls.ts";

/** A call as it is decided about. */
export interface AskedCall {
  call: HeldCall;
  open: readonly AdmissionRow[];
  sessionId: string;
  /** Main calls of a serial harness. */
  place?: SerialPlace;
}

/** Everything the decision about a call is made from. */
export function boundaryFacts(
  db: Db,
  caller: HookCaller,
  { call, open, sessionId, place }: AskedCall,
): BoundaryFacts {
  const unresolved = unresolvedIntents(db, caller.threadId);
  const active =
    unresolved.find((i) => i.barrier !== null && i.state !== "TopologyDiverged") ?? null;
  const started = unresolved.find((i) => i.restart !== null && isPrepared(i.state) && !i.exhausted);
  const next = nextReady(unresolved, active ?? started ?? null);
  return {
    agentId: call.agentId === "" ? null : call.agentId,
    batch: { incarnation: caller.incarnation, ordinal: call.ordinal },
    admission: decidedFor(call, open)?.admission ?? null,
    active: active === null ? null : toBarrier(active, sessionId),
    restart: started === undefined ? null : toRestart(db, started),
    promptOrdinal:
      started === undefined || call.promptId === null
        ? null
        : promptNumber(db, caller.threadId, caller.incarnation, call.promptId),
    unknownBatch:
      call.agentId === "" && open.some((c) => c.agentId === "" && isUnseen(c.toolUseId)),
    next:
      next === null
        ? null
        : { intentId: next.intentId, state: next.state, exhausted: next.exhausted },
    blockedInARow: next?.state === "Detected" ? blockedInARow(db, caller.incarnation) : 0,
    hasCopy:
      active !== null &&
      call.agentId !== "" &&
      hasCopy(db, caller.incarnation, call.agentId, active.intentId),
    ...(place === undefined ? {} : { place }),
    // Asked only where something is to be told: this is every call's path.
    ...(active === null && next === null ? {} : { proof: worth(db, caller, open) }),
  };
}

function worth(db: Db, { incarnation }: HookCaller, open: readonly AdmissionRow[]): BoundaryWorth {
  return {
    ...boundaryProof(db, incarnation),
    inFlight: open.some((c) => c.admission === "PassThrough" && !c.resolved),
  };
}

/** What was decided for a call's batch: a refusal, once one of it was refused, whatever passed before. */
export function decidedFor(
  call: Pick<HeldCall, "agentId" | "ordinal">,
  open: readonly AdmissionRow[],
): AdmissionRow | null {
  const batch = open.filter((c) => c.agentId === call.agentId && c.ordinal === call.ordinal);
  return batch.find((c) => c.admission === "Block") ?? batch[0] ?? null;
}

function toBarrier(i: IntentRow, sessionId: string): ActiveBarrier {
  return {
    intentId: i.intentId,
    // A recovery that goes on by itself is a reconciliation to whoever waits for it.
    state: i.recovering ? "Reconciling" : i.state,
    batch: { incarnation: i.barrier!.incarnation, ordinal: i.barrier!.batch },
    completed: i.batchCompletedAt !== null,
    receipt: i.receipt,
    sessionChanged: i.receiptSession !== null && i.receiptSession !== sessionId,
    redeliveries: i.softRedeliveryCount,
  };
}

function toRestart(db: Db, i: IntentRow): ActiveRestart {
  const { incarnation } = i.restart!;
  // Before the handshake nothing of it counts.
  const ready = sessionById(db, incarnation)?.readyAt != null;
  const echo = ready ? startupEcho(db, i.threadId, incarnation) : NO_ECHO;
  return { intentId: i.intentId, incarnation, echo };
}

/** Oldest unresolved intent that may be worked on: those of an edge wait behind a diverged one of that edge. */
function nextReady(unresolved: readonly IntentRow[], active: IntentRow | null): IntentRow | null {
  const diverged = new Set<string>();
  for (const intent of unresolved) {
    if (intent.state === "TopologyDiverged") diverged.add(intent.parentThreadId);
    else if (intent !== active && !diverged.has(intent.parentThreadId)) return intent;
  }
  return null;
}
