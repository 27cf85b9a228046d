/** What a person hears of an agent that is to be restarted and cannot be, and when it has been answered. */
import type { ThreadId } from "../core/ids.ts";
import { acknowledgeAttention } from "../store/attention.ts";
import type { IntentRow } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";

/** Something outside kiki is in the way; looked at again later. */
export function sayNotNow(deps: CascadeDeps, { threadId, intentId }: IntentRow, why: string): void {
  deps.log.warn(`agent of ${threadId} not restarted: ${why}`);
  deps.raiseAttention({
    threadId,
    kind: "cascade_conflict",
    dedupKey: `${intentId}:restart:${why.slice(0, 80)}`,
    message: `the agent must be restarted to be told what changed, and cannot be now: ${why}`,
    loud: true,
    recurs: true,
  });
}

/** Loud once for each epoch, whichever daemon finds it. */
export function sayExhausted(deps: CascadeDeps, { threadId, intentId, epoch }: IntentRow): void {
  deps.log.warn(`delivery of intent ${intentId} is exhausted; nothing more is started`);
  deps.raiseAttention({
    threadId,
    kind: "cascade_conflict",
    dedupKey: `${intentId}:exhausted:${epoch}`,
    message: `the agent could not be told what changed under it, after ${deps.settings.attempts} restarts; it stays paused — kk repair`,
    loud: true,
  });
}

/** It was ended, and nobody runs. */
export function sayNotStarted(deps: CascadeDeps, threadId: ThreadId, why: string): void {
  deps.raiseAttention({
    threadId,
    kind: "cascade_conflict",
    dedupKey: `restart:${why.slice(0, 80)}`,
    message: `the thread's agent was ended and cannot be started again: ${why}`,
    loud: true,
    recurs: true,
  });
}

/** In a transaction: what was said about it has been decided, or is over. */
export function answered(deps: CascadeDeps, threadId: ThreadId, about: string): void {
  acknowledgeAttention(deps.db, threadId, "cascade_conflict", deps.clock.now(), about);
}
