/**
 * Whether a thread's agent has to be started anew so that it is told of an intent, from durable state alone: a daemon
 * that boots comes to the same answer as the one that died.
 */
import { MAX_SOFT_REDELIVERIES } from "../core/barrier.ts";
import type { IncarnationId, ThreadId } from "../core/ids.ts";
import { isPrepared } from "../core/intent.ts";
import { openCalls } from "../store/admissions.ts";
import type { Db } from "../store/db.ts";
import { blockedAfter } from "../store/deliveries.ts";
import { cascadeThread } from "../store/edges.ts";
import { unresolvedIntents, type IntentRow } from "../store/intents.ts";
import { boundaryProof } from "../store/serial.ts";
import { liveSession, sessionsOf, type SessionRow } from "../store/sessions.ts";
import { startupEcho } from "../store/startup-prompts.ts";
import { isUnseen } from "./unseen-calls.ts";

export type RestartNeed =
  /** End the live incarnation, if there is one, and start another with the payload. */
  | { act: "restart"; intent: IntentRow; live: SessionRow | null }
  /** An attempt is on its way. */
  | { act: "await"; intent: IntentRow; live: SessionRow }
  /** The attempts are used up: a person has to hear of it, and nothing is started. */
  | { act: "surface"; intent: IntentRow };

/** `demanded`: the incarnation whose boundary was found unprovable just now. null: nothing is to be done. */
export function restartNeed(
  db: Db,
  threadId: ThreadId,
  demanded: IncarnationId | null,
): RestartNeed | null {
  // While a thread is being made, closed or repaired, its agent is somebody else's to start and end.
  if (cascadeThread(db, threadId)?.lifecycle !== "Active") return null;
  const intent = owed(db, threadId);
  // A recovery that goes on by itself is a reconciliation; any other is for a person.
  if (intent === null || (intent.state === "RecoveryRequired" && !intent.recovering)) return null;
  if (intent.exhausted) return { act: "surface", intent };
  const live = liveSession(db, threadId);
  if (live === null) return afterEnd(db, threadId, intent);
  if (live.incarnation === demanded || unprovable(db, intent, live))
    return { act: "restart", intent, live };
  const attempt = intent.restart?.incarnation === live.incarnation;
  return attempt && live.readyAt === null ? { act: "await", intent, live } : null;
}

/** The oldest intent that may be worked on; one whose files or payload are under way comes first. */
function owed(db: Db, threadId: ThreadId): IntentRow | null {
  const diverged = new Set<ThreadId>();
  const open: IntentRow[] = [];
  for (const intent of unresolvedIntents(db, threadId)) {
    if (intent.state === "TopologyDiverged") diverged.add(intent.parentThreadId);
    else if (!diverged.has(intent.parentThreadId) || intent.state !== "Detected") open.push(intent);
  }
  return open.find((i) => i.state !== "Detected") ?? open[0] ?? null;
}

/**
 * Nobody runs. A crash is answered at once, and so is an attempt that ended before it was ready; an agent that a person
 * has ended is theirs to start, and the start will be an attempt.
 */
function afterEnd(db: Db, threadId: ThreadId, intent: IntentRow): RestartNeed | null {
  // Of merely detected work the next agent is told at its own boundary.
  if (intent.state === "Detected") return null;
  const last = sessionsOf(db, threadId).at(-1);
  const crashed = last?.status === "Crashed" || last?.readyAt === null;
  return crashed ? { act: "restart", intent, live: null } : null;
}

/** What the live incarnation's own rows say against its boundary. */
function unprovable(db: Db, intent: IntentRow, live: SessionRow): boolean {
  const { barrier, state } = intent;
  const { soft } = boundaryProof(db, live.incarnation);
  const toRestart = !soft && blockedAfter(db, intent.intentId, live.incarnation, 0);
  if (state === "Detected") {
    if (toRestart) return !inFlight(db, live.incarnation);
    const batch = openCalls(db, live.incarnation).filter((c) => c.agentId === "");
    return (
      batch.some((c) => isUnseen(c.toolUseId)) && batch.some((c) => c.intentId === intent.intentId)
    );
  }
  // Quiesced for a restart that did not come to its end.
  if ((state === "Reconciling" || intent.recovering) && barrier === null) return true;
  if (barrier !== null) {
    const over = intent.batchCompletedAt === null || used(intent) || !soft;
    return over && blockedAfter(db, intent.intentId, live.incarnation, barrier.batch);
  }
  if (isPrepared(state) && intent.restart === null) return toRestart;
  if (!isPrepared(state) || intent.restart?.incarnation !== live.incarnation) return false;
  return live.readyAt !== null && live.lastEvent === "Stop" && !isAnswered(db, live);
}

/** A turn of what it was started with has come to its end, so that the text is in its conversation. */
export function isAnswered(db: Db, live: SessionRow): boolean {
  return startupEcho(db, live.threadId, live.incarnation).answered !== null;
}

function inFlight(db: Db, incarnation: IncarnationId): boolean {
  return openCalls(db, incarnation).some((c) => c.admission === "PassThrough" && !c.resolved);
}

function used(intent: IntentRow): boolean {
  return intent.softRedeliveryCount >= MAX_SOFT_REDELIVERIES;
}
