/**
 * Whatever changes an agent's files does it while nothing of the agent but its harness and hooks can run; where a person
 * has to decide, the harness stands still as well.
 */
import { isForAPerson } from "../core/intent.ts";
import { cascadeThread } from "../store/edges.ts";
import { intentById } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import { OPEN_REASON } from "./links.ts";
import { keepStoppedForTool } from "./tool-ran.ts";
import { Unproven, type ReconcileOutcome } from "./stop.ts";

/** The boundary is bound already, and its calls wait: giving it up costs a redelivery. */
const STILL_MS = 10_000;
const STILL_POLL_MS = 50;

/**
 * Afterwards what was stopped goes on, except where the agent is paused for a person: its files are not what its
 * processes believe. `paused`: the caller has stopped them on the intent's account, and continues them itself. Tried
 * again for a while where a process does not stop, or was caught with a file open.
 *
 * One at a time for each intent: a repair and a boundary may both be at it, and the first one's end must not continue
 * what the second one counts on.
 */
export function standingStill<T extends { outcome: string }>(
  deps: CascadeDeps,
  intentId: string,
  { paused }: { paused: boolean },
  body: (open: readonly string[]) => Promise<T>,
): Promise<T | ReconcileOutcome> {
  return deps.queues.run(`still:${intentId}`, () => stillFor(deps, intentId, paused, body));
}

async function stillFor<T extends { outcome: string }>(
  deps: CascadeDeps,
  intentId: string,
  byCaller: boolean,
  body: (open: readonly string[]) => Promise<T>,
): Promise<T | ReconcileOutcome> {
  const { clock, standStill } = deps;
  const before = intentById(deps.db, intentId)!;
  const { threadId, barrier } = before;
  const paused = byCaller || isForAPerson(before);
  const incarnation = barrier?.incarnation ?? null;
  const { workspacePath } = cascadeThread(deps.db, threadId)!;
  const deadline = clock.monotonic() + STILL_MS;
  for (;;) {
    const of = { threadId, intentId, incarnation, workspacePath, paused };
    const held = await standStill.hold(of);
    let result: T | ReconcileOutcome;
    let unproven = false;
    let forAPerson = false;
    try {
      result = held.still ? await body(held.open) : { outcome: "not-now", reason: held.reason };
    } catch (error) {
      unproven = error instanceof Unproven;
      throw error;
    } finally {
      forAPerson = isForAPerson(intentById(deps.db, intentId)!);
      const kept = byCaller || unproven || forAPerson;
      if (!kept || (!held.still && !paused)) await standStill.release(intentId);
    }
    const passing = !held.still || isOpen(result);
    if (!passing || clock.monotonic() > deadline) {
      // Before anybody is answered: the harness reads that when it goes on.
      if (forAPerson && !byCaller) await pauseNow(deps, intentId);
      return result;
    }
    deps.log.info(`intent ${intentId}: ${"reason" in result ? String(result.reason) : ""}`);
    await clock.sleep(STILL_POLL_MS);
  }
}

/**
 * The hard pause (cascade chapter, "Unsnapshotted-edit recovery"): nothing of the agent runs, its harness included,
 * until a person has decided. Safe to repeat; nothing where the intent waits for nobody. `toolRan`: it has to, because a
 * refused tool ran; whatever was under way for it comes to its end first.
 */
export function hardPause(deps: CascadeDeps, intentId: string, toolRan = false): Promise<void> {
  return deps.queues.run(`still:${intentId}`, () => {
    if (toolRan) keepStoppedForTool(deps, intentId);
    return pauseNow(deps, intentId);
  });
}

async function pauseNow(deps: CascadeDeps, intentId: string): Promise<void> {
  const intent = intentById(deps.db, intentId);
  if (intent === null || !isForAPerson(intent)) return;
  const { threadId, barrier } = intent;
  const { workspacePath } = cascadeThread(deps.db, threadId)!;
  const incarnation = barrier?.incarnation ?? null;
  const of = { threadId, intentId, incarnation, workspacePath, paused: true };
  const moving = await deps.standStill.pause(of);
  // Its calls are refused all the same, and every one of them tries again.
  if (moving !== null) deps.log.warn(`intent ${intentId}: not everybody is paused: ${moving}`);
}

function isOpen(result: { outcome: string }): boolean {
  const { reason } = result as { reason?: string };
  return result.outcome === "not-now" && reason?.startsWith(OPEN_REASON) === true;
}
