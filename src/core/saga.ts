/**
 * A saga is a multi-step external change recorded step by step. This file is the pure part: what the runner does
 * next, given the journal. The effects live in `lifecycle/`, one entry per step name.
 */
import type { LifecycleOpKind, StepState } from "./lifecycle.ts";

export interface SagaStepPlan {
  name: string;
  /** What must be undone when a later step fails, in words; null when there is nothing outside to undo. */
  compensation: string | null;
  /** How a restart recognises that the effect already happened. */
  observation: string;
}

export interface SagaPlan {
  kind: LifecycleOpKind;
  steps: readonly SagaStepPlan[];
}

export interface JournalStep {
  ordinal: number;
  name: string;
  state: StepState;
}

export type NextMove =
  | { move: "run"; ordinal: number; name: string }
  /** The step was started before a crash: observe first, then adopt, run, or fail. */
  | { move: "observe"; ordinal: number; name: string }
  | { move: "compensate"; ordinal: number; name: string }
  | { move: "finished" }
  | { move: "failed" };

/** What to do next, from the journal alone. `failing` is set once a step failed: then completed steps unwind. */
export function nextMove(steps: readonly JournalStep[], failing: boolean): NextMove {
  const ordered = [...steps].sort((a, b) => a.ordinal - b.ordinal);
  if (failing) {
    // Reverse order. A step that had started when it failed may have half-happened, so it unwinds as well.
    for (const step of ordered.reverse()) {
      if (step.state === "Completed" || step.state === "Compensating" || step.state === "Started") {
        return { move: "compensate", ordinal: step.ordinal, name: step.name };
      }
    }
    return { move: "failed" };
  }
  for (const step of ordered) {
    if (step.state === "Completed") continue;
    if (step.state === "Started")
      return { move: "observe", ordinal: step.ordinal, name: step.name };
    if (step.state === "Pending") return { move: "run", ordinal: step.ordinal, name: step.name };
    return { move: "failed" };
  }
  return { move: "finished" };
}

export const CRASH_MOMENTS = ["before", "started", "effected", "completed"] as const;
export type CrashMoment = (typeof CRASH_MOMENTS)[number];

/** Moments of unwinding, reached only after a step has failed. */
export const UNDO_MOMENTS = ["undo-started", "undo-effected", "undo-completed"] as const;

/** Names of every crash point of a plan, generated, so that a new step is in the matrix by itself. */
export function crashPoints(plan: SagaPlan): string[] {
  return plan.steps.flatMap((s) => CRASH_MOMENTS.map((m) => `${plan.kind}.${s.name}.${m}`));
}

/** The same for unwinding: steps that have something to undo. */
export function undoCrashPoints(plan: SagaPlan): string[] {
  return plan.steps
    .filter((s) => s.compensation !== null)
    .flatMap((s) => UNDO_MOMENTS.map((m) => `${plan.kind}.${s.name}.${m}`));
}
