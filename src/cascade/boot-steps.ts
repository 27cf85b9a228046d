/**
 * Recovery at a start of the daemon, in steps of which each looks first. One that fails (a disk that is full, a folder that
 * cannot be read) is said, and tried again until it works: meanwhile the others are done, and operations are read.
 */
import { errorLine } from "../core/errors.ts";
import type { ThreadId } from "../core/ids.ts";
import { acknowledgeAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import type { CascadeDeps } from "./deps.ts";

export interface BootStep {
  /** Whose step it is; null: everybody's. */
  threadId: ThreadId | null;
  /** In words, for the log. */
  what: string;
  /** Nothing after it may be done before it has been. */
  gate?: true;
  run(): Promise<void> | void;
}

interface Failed {
  step: BootStep;
  why: string;
}

const AGAIN_MS = 5_000;
const ABOUT = "recovery";

/** Those that failed, in their order. `before`: what is known of them already, and not said again. */
export async function runSteps(
  deps: CascadeDeps,
  steps: readonly BootStep[],
  before: readonly Failed[] = [],
): Promise<Failed[]> {
  const failed: Failed[] = [];
  for (const [at, step] of steps.entries()) {
    const known = before.find((one) => one.step === step);
    try {
      await step.run();
      if (known !== undefined) over(deps, step);
    } catch (error) {
      const why = errorLine(error);
      failed.push({ step, why });
      if (known?.why !== why) say(deps, step, why, error);
      if (step.gate === true) {
        const waiting = `waits for ${step.what}`;
        return [...failed, ...steps.slice(at + 1).map((later) => ({ step: later, why: waiting }))];
      }
    }
  }
  return failed;
}

/** Ends when none is left, or with `signal`. */
export async function runAgain(
  deps: CascadeDeps,
  failed: Failed[],
  signal: AbortSignal,
): Promise<void> {
  let left = failed;
  while (left.length > 0) {
    try {
      await deps.clock.sleep(AGAIN_MS, signal);
    } catch {
      return; // stopped
    }
    const steps = left.map((one) => one.step);
    left = await runSteps(deps, steps, left);
  }
}

function say(deps: CascadeDeps, { what, threadId }: BootStep, why: string, error: unknown): void {
  deps.log.error(`recovery of ${what} failed and is tried again`, error);
  if (threadId === null) return;
  try {
    deps.raiseAttention({
      threadId,
      kind: "cascade_conflict",
      dedupKey: `${ABOUT}:${why.slice(0, 80)}`,
      message: `after a start of the daemon this thread could not be taken up again: ${why}`,
      loud: true,
      recurs: true,
    });
  } catch (again) {
    deps.log.error("and that could not be recorded", again);
  }
}

function over(deps: CascadeDeps, { what, threadId }: BootStep): void {
  deps.log.info(`recovery of ${what}: done`);
  if (threadId === null) return;
  const { db, clock } = deps;
  write(db, () => acknowledgeAttention(db, threadId, "cascade_conflict", clock.now(), ABOUT));
}
