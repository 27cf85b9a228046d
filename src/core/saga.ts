/**
 * A saga is a multi-step external change recorded step by step. This file is the pure part: what the runner does
 * next, given the plan and the journal. The effects live in `lifecycle/`, one entry per step name.
 */
import type { Lifecycle, LifecycleOpKind, StepState } from "./lifecycle.ts";

export interface SagaStepPlan {
  name: string;
  /** What the effect is recognised by, recorded before it happens, in words. */
  identity: string;
  /** How a restart recognises that the effect already happened. */
  observation: string;
  /** What must be undone when a later step fails, in words; null when there is nothing outside to undo. */
  compensation: string | null;
  /**
   * How often the effect may be started, the first time included: after failures that another attempt may cure, and
   * after crashes. An operation a person takes up again gets as many once more.
   */
  attempts: number;
  /** Once this step has been started nothing is undone any more: the operation can only be finished. */
  irreversible?: true;
  /** A restart that finds this step unfinished does not go on with it but turns round: what it proved is not true any more. */
  restart?: "unwind";
}

/** `prior`: as the operation found the thread. `recorded`: the state a `ProjectionDiverged` thread goes back to. */
export type SagaEnd = Lifecycle | "prior" | "recorded";

/** What the saga does to its thread's lifecycle. */
export interface SagaLifecycle {
  from: readonly Lifecycle[];
  during: Lifecycle | "prior";
  completed: SagaEnd;
  /** Failed, and everything was undone. */
  unwound: SagaEnd;
  /** Failed, and something stays: past an irreversible step, or undoing itself failed. */
  stuck: SagaEnd;
}

export interface SagaPlan {
  kind: LifecycleOpKind;
  /** Tells plans of one kind apart; "" for the plain one. */
  variant: string;
  lifecycle: SagaLifecycle;
  steps: readonly SagaStepPlan[];
}

export interface JournalStep {
  ordinal: number;
  name: string;
  state: StepState;
}

export type NextMove =
  | { move: "run"; ordinal: number; name: string }
  /** The step was started before: observe first, then adopt, run again, or fail. */
  | { move: "observe"; ordinal: number; name: string }
  | { move: "compensate"; ordinal: number; name: string }
  | { move: "finished" }
  /** Everything that was done is undone. */
  | { move: "unwound" }
  /** An irreversible step was started: what is done stays, and only this very plan can be finished. */
  | { move: "stuck"; ordinal: number; name: string };

function inOrder<S extends JournalStep>(journal: readonly S[]): S[] {
  return [...journal].sort((a, b) => a.ordinal - b.ordinal);
}

/** The first irreversible step that was started; null while everything can still be undone. */
function pointOfNoReturn(plan: SagaPlan, journal: readonly JournalStep[]): JournalStep | null {
  const passed = inOrder(journal).find(
    (s) => s.state !== "Pending" && plan.steps[s.ordinal - 1]?.irreversible === true,
  );
  return passed ?? null;
}

/** What to do next, from the journal alone. `failing` is set once a step failed: then completed steps unwind. */
export function nextMove(
  plan: SagaPlan,
  journal: readonly JournalStep[],
  failing: boolean,
): NextMove {
  const steps = inOrder(journal);
  if (failing) {
    const passed = pointOfNoReturn(plan, steps);
    if (passed !== null) return { move: "stuck", ordinal: passed.ordinal, name: passed.name };
    // Reverse order. A step that had started when it failed may have half-happened, so it unwinds as well.
    for (const step of steps.reverse()) {
      if (step.state === "Completed" || step.state === "Compensating" || step.state === "Started") {
        return { move: "compensate", ordinal: step.ordinal, name: step.name };
      }
    }
    return { move: "unwound" };
  }
  for (const step of steps) {
    if (step.state === "Completed") continue;
    if (step.state === "Started")
      return { move: "observe", ordinal: step.ordinal, name: step.name };
    if (step.state === "Pending") return { move: "run", ordinal: step.ordinal, name: step.name };
    return { move: "unwound" };
  }
  return { move: "finished" };
}

/** The step at which a saga found unfinished by a restart turns round; null when it simply goes on. */
export function turnsRoundAt(plan: SagaPlan, journal: readonly JournalStep[]): JournalStep | null {
  const steps = inOrder(journal);
  const open = steps.find((s) => s.state !== "Completed");
  const begun = steps.some((s) => s.state !== "Pending");
  if (!begun || open === undefined) return null;
  return plan.steps[open.ordinal - 1]?.restart === "unwind" ? open : null;
}

/**
 * What is left to do of an operation that ended `Failed`: finish it (an irreversible step was started), go on undoing
 * it, or nothing.
 */
export function takesUp(
  plan: SagaPlan,
  journal: readonly JournalStep[],
): "forward" | "unwind" | "nothing" {
  if (journal.every((s) => s.state === "Completed")) return "nothing";
  if (pointOfNoReturn(plan, journal) !== null) return "forward";
  return nextMove(plan, journal, true).move === "compensate" ? "unwind" : "nothing";
}

/** Starts of one compensation that are allowed: like an effect's, they are counted in the journal. */
export const UNDO_ATTEMPTS = 5;

/** Whether one more start is allowed after `starts`, in an operation that was taken up `times` times. */
export function mayStartAgain(bound: number, starts: number, times: number): boolean {
  return starts < bound * times;
}

/** The errors of every attempt in one line: the first as it is, each later one with its number. */
export function attemptErrors(before: string | null, attempt: number, error: string): string {
  const numbered = attempt > 1 ? `attempt ${attempt}: ${error}` : error;
  return before === null ? numbered : `${before}; ${numbered}`;
}

// ---- crash points -------------------------------------------------------------------------------------------

/** Moments of every step, in the order in which they pass when nothing fails. */
export const CRASH_MOMENTS = ["before", "started", "effected", "completed"] as const;

/** Moments of an effect that failed: journaled as such; started again; given up. */
export const RETRY_MOMENTS = ["attempt-failed", "retried"] as const;
export const FAIL_MOMENTS = ["failing"] as const;

/** Moments of unwinding, reached only after a step has failed. */
export const UNDO_MOMENTS = ["undo-started", "undo-effected", "undo-completed"] as const;

export type CrashMoment =
  | (typeof CRASH_MOMENTS)[number]
  | (typeof RETRY_MOMENTS)[number]
  | (typeof FAIL_MOMENTS)[number]
  | (typeof UNDO_MOMENTS)[number];

/** `<saga>.<step>.<moment>`, as `CrashPoints.at` gets it. */
export function crashPoint(plan: SagaPlan, step: string, moment: CrashMoment): string {
  return `${plan.kind}.${step}.${moment}`;
}

function points(
  plan: SagaPlan,
  moments: readonly CrashMoment[],
  has: (step: SagaStepPlan) => boolean,
): string[] {
  return plan.steps
    .filter(has)
    .flatMap((step) => moments.map((moment) => crashPoint(plan, step.name, moment)));
}

/** Names of every crash point of a plan, generated, so that a new step is in the matrix by itself. */
export function crashPoints(plan: SagaPlan): string[] {
  return points(plan, CRASH_MOMENTS, () => true);
}

/** The same for effects that fail: every step may, and those with several attempts try again. */
export function failCrashPoints(plan: SagaPlan): string[] {
  return [
    ...points(plan, RETRY_MOMENTS, (s) => s.attempts > 1),
    ...points(plan, FAIL_MOMENTS, () => true),
  ];
}

/** The same for unwinding: steps that have something to undo, up to the first irreversible one. */
export function undoCrashPoints(plan: SagaPlan): string[] {
  const last = plan.steps.findIndex((s) => s.irreversible === true);
  const undoable = new Set(last < 0 ? plan.steps : plan.steps.slice(0, last));
  return points(plan, UNDO_MOMENTS, (s) => s.compensation !== null && undoable.has(s));
}
