/**
 * The points of the crash matrix, made from a plan's table alone: every step × every moment × every way in which what
 * was under way can turn out, with what must become of the operation. A new step, or a new plan, is in it by itself.
 */
import {
  UNDO_ATTEMPTS,
  type CrashMoment,
  type SagaPlan,
  type SagaStepPlan,
} from "../../src/core/saga.ts";
import type { Crash, Ended, Scenario } from "./bench.ts";
import { failure, OUTCOMES, PLAIN_OUTCOMES, UNKNOWN, type Fault, type Outcome } from "./model.ts";

export interface Point {
  name: string;
  step: string;
  scenario: Scenario;
  expected: Expected;
}

interface Expected {
  end: "completed" | "unwound" | "stuck";
  /** Each is part of the retained error. */
  error: string[];
  /** Of the step: how often its effect was really started; left out where the point does not fix it. */
  starts?: number;
  /** Whether the step's thing is there in the end. */
  there?: boolean;
  /** How the operation had ended before a person took it up again. */
  first?: "unwound" | "stuck";
}

const ALWAYS = Number.MAX_SAFE_INTEGER;
const isDone = (outcome: Outcome): boolean =>
  outcome === "done" || outcome === "unknown-but-done" || outcome === "unknown-for-good";

export function planTitle(plan: SagaPlan): string {
  return plan.variant === "" ? plan.kind : `${plan.kind} (${plan.variant})`;
}

/** Every point of one step of the plan; `index` counts from 0. */
export function pointsOfStep(plan: SagaPlan, index: number): Point[] {
  const step = new StepPoints(plan, index);
  return [
    ...step.deaths(),
    ...step.failures(),
    ...step.retries(),
    ...step.undoing(),
    ...step.takenUp(),
  ];
}

class StepPoints {
  readonly #plan: SagaPlan;
  readonly #index: number;
  readonly #step: SagaStepPlan;

  constructor(plan: SagaPlan, index: number) {
    this.#plan = plan;
    this.#index = index;
    this.#step = plan.steps[index]!;
  }

  /** The daemon dies at a moment of a step that goes well. */
  deaths(): Point[] {
    const { name } = this.#step;
    const next = this.#plan.steps[this.#index + 1];
    const points = [
      // Nothing had begun: a restart has nothing to turn round.
      this.#death("before", null, this.#index === 0 ? this.#done() : this.#onRestart(this.#done())),
      this.#death(
        "completed",
        null,
        next?.restart === "unwind" ? this.#fails([stoppedBefore(next)]) : this.#done(),
      ),
    ];
    for (const moment of ["started", "effected"] as const) {
      for (const outcome of moment === "started" ? OUTCOMES : PLAIN_OUTCOMES) {
        const starts = moment === "started" ? 0 : 1;
        points.push(this.#death(moment, outcome, this.#afterDeath(outcome, 1, starts)));
      }
    }
    return points.map((p) => ({ ...p, name: `${planTitle(this.#plan)}.${name}.${p.name}` }));
  }

  /** The effect fails for good, before or after the thing is there; with and without a death right then. */
  failures(): Point[] {
    return [true, false].flatMap((thereAfter) => {
      const fault = this.#fault({ thereAfter, transient: false });
      const expected = { ...this.#fails([failure(this.#step.name, 1)], thereAfter), starts: 1 };
      const what = `fails, ${thereAfter ? "done" : "not done"}`;
      return [
        this.#point(what, { faults: [fault] }, expected),
        this.#point(
          `failing, ${thereAfter ? "done" : "not done"}`,
          { faults: [fault], crashes: [this.#crash("failing", null)] },
          expected,
        ),
      ];
    });
  }

  /** Failures another attempt may cure: once, always, and with deaths at every moment of trying again. */
  retries(): Point[] {
    const { attempts, name } = this.#step;
    if (attempts < 2) return [];
    const once = this.#fault({ times: 1 });
    const onceDone = this.#fault({ times: 1, thereAfter: true });
    const always = this.#fault({ times: ALWAYS });
    const gaveUp = Array.from({ length: attempts }, (_, i) => failure(name, i + 1));
    const points = [
      this.#point("fails once", { faults: [once] }, { ...this.#done(), starts: 2 }),
      // The retry looks first: what is there is not made again.
      this.#point("fails once, done", { faults: [onceDone] }, { ...this.#done(), starts: 1 }),
      this.#point(
        "fails always",
        { faults: [always] },
        { ...this.#fails(gaveUp, false), starts: attempts },
      ),
    ];
    for (const outcome of PLAIN_OUTCOMES) {
      for (const [moment, starts] of [
        ["attempt-failed", 1],
        ["retried", 2],
      ] as const) {
        const expected = this.#afterDeath(outcome, starts, 1, [failure(name, 1)]);
        const crashes = [this.#crash(moment, outcome)];
        points.push(this.#point(`${moment}, ${outcome}`, { faults: [once], crashes }, expected));
      }
    }
    return [...points, ...this.#deathAtEveryAttempt(always)];
  }

  /** What is counted in memory is forgotten here, and the effect is started for ever. */
  #deathAtEveryAttempt(always: Fault): Point[] {
    const expected = this.#onRestart(this.#fails([], false));
    return (["attempt-failed", "retried"] as const).map((moment) =>
      this.#point(
        `${moment} every time`,
        {
          faults: [always],
          next: (step, at) => (step === this.#step.name && at === moment ? "not-done" : null),
        },
        expected,
      ),
    );
  }

  /** A later step fails; this one is undone, and the daemon dies at a moment of it. */
  undoing(): Point[] {
    const failing = lastReversible(this.#plan);
    if (this.#step.compensation === null || this.#index > failing) return [];
    const { name } = this.#plan.steps[failing]!;
    const fault: Fault = {
      step: name,
      of: "effect",
      times: ALWAYS,
      transient: false,
      thereAfter: true,
    };
    const error = [failure(name, 1)];
    const unwound: Expected = { end: "unwound", error, there: false };
    const stuck: Expected = {
      end: "stuck",
      error: [...error, `${this.#step.name} could not be undone`],
    };
    const points = [
      this.#point("undo-completed", this.#undone(fault, "undo-completed", null), unwound),
      this.#point("undo fails once", { faults: [fault, this.#undoFault(1, true)] }, unwound),
      this.#point(
        "undo fails",
        { faults: [fault, this.#undoFault(ALWAYS, false)], takenUp: true },
        { ...unwound, first: "stuck" },
      ),
      this.#point(
        "undo fails always",
        { faults: [fault, this.#undoFault(ALWAYS, true)] },
        { ...stuck, there: true },
      ),
      this.#point(
        "undo-started every time",
        {
          faults: [fault],
          next: (step, at) =>
            step === this.#step.name && at === "undo-started" ? "not-done" : null,
        },
        { ...stuck, error: [...stuck.error, `begun ${UNDO_ATTEMPTS} times`], there: true },
      ),
    ];
    for (const moment of ["undo-started", "undo-effected"] as const) {
      for (const outcome of PLAIN_OUTCOMES) {
        const known = !outcome.startsWith("unknown");
        points.push(
          this.#point(
            `${moment}, ${outcome}`,
            this.#undone(fault, moment, outcome),
            known ? unwound : { ...stuck, error: [...stuck.error, UNKNOWN] },
          ),
        );
      }
    }
    return points;
  }

  /** Past the point of no return only the very same plan goes on, once a person has taken it up. */
  takenUp(): Point[] {
    if (this.#step.irreversible !== true) return [];
    const expected: Expected = { ...this.#done(), first: "stuck" };
    return [true, false].flatMap((thereAfter) => {
      const faults = [this.#fault({ thereAfter, transient: false })];
      const what = `taken up, ${thereAfter ? "done" : "not done"}`;
      const again = thereAfter ? "completed" : "retried";
      const crashes = [this.#crash(again, null)];
      return [
        this.#point(what, { faults, takenUp: true }, { ...expected, starts: thereAfter ? 1 : 2 }),
        this.#point(`${what}, dies at ${again}`, { faults, crashes, takenUp: true }, expected),
      ];
    });
  }

  // ---- what becomes of it ------------------------------------------------------------------------------------

  #done(): Expected {
    return { end: "completed", error: [], there: true };
  }

  /** A step whose proof dies with the daemon is not gone on with. */
  #onRestart(otherwise: Expected): Expected {
    return this.#step.restart === "unwind" ? this.#fails([stoppedBefore(this.#step)]) : otherwise;
  }

  /** The operation fails at this step, or right before the next one. `there`: so is this step's thing. */
  #fails(error: string[], there?: boolean): Expected {
    const passed = this.#plan.steps.slice(0, this.#index + 1).some((s) => s.irreversible === true);
    if (passed) return { end: "stuck", error, ...(there === undefined ? {} : { there }) };
    const stays = this.#step.compensation === null && there !== undefined;
    return { end: "unwound", error, ...(stays ? { there } : {}) };
  }

  /** Of a restart that finds the step started `counted` times, of which `real` began the effect. */
  #afterDeath(outcome: Outcome, counted: number, real: number, errors: string[] = []): Expected {
    if (this.#step.restart === "unwind") return this.#turnedRound(outcome);
    if (outcome === "done") return { ...this.#done(), starts: real };
    if (outcome !== "not-done") return this.#cannotTell([...errors, UNKNOWN], outcome);
    if (counted < this.#step.attempts) return { ...this.#done(), starts: real + 1 };
    return this.#fails([...errors, `started ${counted} times, and still not done`], false);
  }

  #turnedRound(outcome: Outcome): Expected {
    return this.#cannotTell([stoppedBefore(this.#step)], outcome);
  }

  /** Undoing looks again: it finds the thing or not, unless nobody will ever tell. */
  #cannotTell(error: string[], outcome: Outcome): Expected {
    const failed = this.#fails(error, isDone(outcome));
    const undoes = failed.end === "unwound" && this.#step.compensation !== null;
    if (!undoes || outcome !== "unknown-for-good") return failed;
    return { end: "stuck", error: [...error, `${this.#step.name} could not be undone`, UNKNOWN] };
  }

  // ---- building ----------------------------------------------------------------------------------------------

  #death(moment: CrashMoment, outcome: Outcome | null, expected: Expected): Point {
    const crashes = [this.#crash(moment, outcome)];
    const name = outcome === null ? moment : `${moment}, ${outcome}`;
    const scenario = { plan: this.#plan, faults: [], crashes };
    return { name, step: this.#step.name, scenario, expected };
  }

  #point(what: string, scenario: Partial<Scenario>, expected: Expected): Point {
    return {
      name: `${planTitle(this.#plan)}.${this.#step.name}.${what}`,
      step: this.#step.name,
      scenario: { plan: this.#plan, faults: [], crashes: [], ...scenario },
      expected,
    };
  }

  #crash(moment: CrashMoment, outcome: Outcome | null): Crash {
    return { step: this.#step.name, moment, outcome };
  }

  #undone(fault: Fault, moment: CrashMoment, outcome: Outcome | null): Partial<Scenario> {
    return { faults: [fault], crashes: [this.#crash(moment, outcome)] };
  }

  #fault(more: Partial<Fault>): Fault {
    const { name: step } = this.#step;
    const fault = { of: "effect", times: ALWAYS, transient: true, thereAfter: false } as const;
    return { ...fault, step, ...more };
  }

  #undoFault(times: number, transient: boolean): Fault {
    return { step: this.#step.name, of: "undo", times, transient, thereAfter: true };
  }
}

function stoppedBefore(step: SagaStepPlan): string {
  return `stopped before ${step.name} was done`;
}

/** Index of the last step that can fail and still be undone. */
function lastReversible(plan: SagaPlan): number {
  const first = plan.steps.findIndex((s) => s.irreversible === true);
  return (first < 0 ? plan.steps.length : first) - 1;
}

// ---- judging ------------------------------------------------------------------------------------------------

/** What is wrong with how a point ended; empty when it survived. */
export function problemsOf(point: Point, ended: Ended): string[] {
  const { expected, step } = point;
  const problems = [...ended.violations, ...settledProblems(point.scenario.plan, ended)];
  const end = endOf(ended);
  if (end !== expected.end) problems.push(`${end}, not ${expected.end} (${ended.error})`);
  for (const part of expected.error) {
    if (!ended.error.includes(part)) problems.push(`error "${ended.error}" lacks "${part}"`);
  }
  const starts = ended.world.starts(step);
  if (expected.starts !== undefined && starts !== expected.starts) {
    problems.push(`started ${starts} times, not ${expected.starts}`);
  }
  if (expected.there !== undefined && ended.world.isThere(step) !== expected.there) {
    problems.push(expected.there ? "its effect is missing" : "its effect is there");
  }
  if (ended.crashesLeft > 0) problems.push("the crash never came");
  if ((expected.first ?? null) !== ended.before) problems.push(`first ended ${ended.before}`);
  return problems;
}

/** However it came about: what journal, world and thread say in the end agrees. */
export function settledProblems(plan: SagaPlan, ended: Ended): string[] {
  const problems: string[] = [];
  const { world } = ended;
  const end = endOf(ended);
  for (const step of plan.steps) {
    const there = world.isThere(step.name);
    if (end === "completed" && !there) problems.push(`Completed without ${step.name}`);
    if (end === "unwound" && there && step.compensation !== null) {
      problems.push(`unwound, and ${step.name} is still there`);
    }
  }
  const order = plan.steps.map((s) => s.name);
  const undone = world.undone.map((s) => order.indexOf(s));
  if (undone.some((at, i) => i > 0 && at >= undone[i - 1]!)) {
    problems.push(`undone in the order ${world.undone.join(" ")}`);
  }
  if (end !== "completed" && ended.error === "") problems.push("failed without an error");
  return problems;
}

export function endOf(ended: Ended): Expected["end"] | "running" {
  if (ended.state === "Completed") return "completed";
  if (ended.state !== "Failed") return "running";
  return ended.how ?? "running";
}
