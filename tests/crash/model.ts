/**
 * A world for sagas whose effects do not exist yet, made from the plan alone: each step's effect is a thing that is
 * there or not, recognised by the identity the journal recorded. The world is strict: it keeps count of everything and
 * notes whatever no saga may do. It outlives every daemon.
 */
import type { SagaPlan, SagaStepPlan } from "../../src/core/saga.ts";
import type { AnyStep, Observation } from "../../src/lifecycle/saga.ts";
import type { Db } from "../../src/store/db.ts";

/** How an effect that was under way turns out once its daemon has died. */
export const OUTCOMES = [
  "done",
  "not-done",
  // Nobody can tell while the saga goes forward; who undoes it finds nothing, or finds it.
  "unknown",
  "unknown-but-done",
  // Nobody will ever tell.
  "unknown-for-good",
] as const;
/** The same without the ways of not knowing: which of them it is makes a difference once, not at every moment. */
export const PLAIN_OUTCOMES = ["done", "not-done", "unknown"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** What goes wrong with a step's effect, or with undoing it. */
export interface Fault {
  step: string;
  of: "effect" | "undo";
  /** The first so many starts fail. */
  times: number;
  /** Whether another attempt may cure it. */
  transient: boolean;
  /** Whether the thing is there after a failed start all the same. */
  thereAfter: boolean;
}

export interface Identity {
  step: string;
  token: number;
}

export interface ModelContext {
  world: ModelWorld;
  db: Db;
  operationId: string;
}

export class EffectFailed extends Error {
  readonly transient: boolean;
  constructor(message: string, transient: boolean) {
    super(message);
    this.transient = transient;
  }
}

export const UNKNOWN = "nobody can tell whether it was done";

export class ModelWorld {
  readonly plan: SagaPlan;
  readonly faults: Fault[];
  /** What no saga may do, and one did. */
  readonly violations: string[] = [];
  /** Steps whose things were taken away, in that order. */
  readonly undone: string[] = [];
  readonly #there = new Map<string, Identity>();
  readonly #starts = new Map<string, number>();
  readonly #undoStarts = new Map<string, number>();
  readonly #unknown = new Map<string, "until-undone" | "for-good">();
  #tokens = 0;

  constructor(plan: SagaPlan, faults: readonly Fault[]) {
    this.plan = plan;
    this.faults = [...faults];
  }

  isThere(step: string): boolean {
    return this.#there.has(step);
  }

  /** Evidence of the thing that is there; null when none is. */
  receipt(step: string): string | null {
    const made = this.#there.get(step);
    return made === undefined ? null : `receipt ${made.token}`;
  }

  starts(step: string): number {
    return this.#starts.get(step) ?? 0;
  }

  undoStarts(step: string): number {
    return this.#undoStarts.get(step) ?? 0;
  }

  /** After a crash: how the effect that was under way turned out. */
  settle(identity: Identity, outcome: Outcome): void {
    const { step } = identity;
    const done =
      outcome === "done" || outcome === "unknown-but-done" || outcome === "unknown-for-good";
    if (done) this.#there.set(step, identity);
    else this.#there.delete(step);
    if (outcome.startsWith("unknown")) {
      this.#unknown.set(step, outcome === "unknown-for-good" ? "for-good" : "until-undone");
    }
  }

  /** After a crash: how the undoing that was under way turned out. */
  settleUndo(identity: Identity, outcome: Outcome): void {
    const { step } = identity;
    const gone = outcome === "done" || outcome === "unknown-but-done";
    if (gone && this.#there.delete(step)) this.undone.push(step);
    // What was taken away and has come back will be taken away once more.
    if (!gone && !this.#there.has(step) && this.undone.at(-1) === step) {
      this.undone.pop();
      this.#there.set(step, identity);
    }
    if (outcome.startsWith("unknown")) this.#unknown.set(step, "for-good");
  }

  /** A person has cured what was wrong. */
  cure(): void {
    this.faults.length = 0;
    this.#unknown.clear();
  }

  newIdentity(step: string): Identity {
    this.#tokens += 1;
    return { step, token: this.#tokens };
  }

  observe(identity: Identity): Observation<unknown> {
    if (this.#unknown.has(identity.step)) {
      return { is: "unknown", reason: `${identity.step}: ${UNKNOWN}` };
    }
    const evidence = this.receipt(identity.step);
    return evidence === null ? { is: "not-done" } : { is: "done", evidence };
  }

  run(ctx: ModelContext, identity: Identity): string {
    const { step } = identity;
    this.#count(this.#starts, step);
    this.#expectJournal(ctx, identity, "Started", this.starts(step));
    const fault = this.#fault(step, "effect", this.starts(step));
    if (fault === null || fault.thereAfter) this.#make(identity);
    if (fault !== null) throw new EffectFailed(failure(step, this.starts(step)), fault.transient);
    return this.receipt(step)!;
  }

  compensate(ctx: ModelContext, identity: Identity): void {
    const { step } = identity;
    this.#count(this.#undoStarts, step);
    this.#expectJournal(ctx, identity, "Compensating", 0);
    const fault = this.#fault(step, "undo", this.undoStarts(step));
    if (fault !== null) throw new EffectFailed(`undoing ${step} failed`, fault.transient);
    if (this.#unknown.get(step) === "for-good") {
      throw new EffectFailed(`${step}: ${UNKNOWN}`, false);
    }
    if (!this.#there.has(step)) return;
    const at = this.#ordinal(step);
    for (const other of this.#there.keys()) {
      const plan = this.#plan(other);
      if (plan.irreversible === true) this.#note(`${step} undone although ${other} had happened`);
      if (this.#ordinal(other) > at && plan.compensation !== null) {
        this.#note(`${step} undone before ${other}, which came after it`);
      }
    }
    this.#there.delete(step);
    this.undone.push(step);
  }

  #make(identity: Identity): void {
    const { step } = identity;
    if (this.#there.has(step)) this.#note(`${step} done twice`);
    this.#there.set(step, identity);
  }

  #fault(step: string, of: Fault["of"], start: number): Fault | null {
    return this.faults.find((f) => f.step === step && f.of === of && start <= f.times) ?? null;
  }

  /** Whoever acts has said so before, durably, and counted it. */
  #expectJournal(ctx: ModelContext, identity: Identity, state: string, starts: number): void {
    const { step } = identity;
    const row = ctx.db
      .query<
        { state: string; identity: string | null; attempts: number },
        { operationId: string; step: string }
      >(
        `SELECT state, identity_json AS identity, attempts FROM thread_lifecycle_steps
         WHERE operation_id = $operationId AND name = $step`,
      )
      .get({ operationId: ctx.operationId, step });
    if (row?.state !== state) this.#note(`${step} acts while ${row?.state ?? "unknown"}`);
    if (row?.identity !== JSON.stringify(identity)) {
      this.#note(`${step} acts under an identity that is not in the journal`);
    }
    if ((row?.attempts ?? 0) < starts) this.#note(`${step} started without being counted`);
  }

  #count(counter: Map<string, number>, step: string): void {
    counter.set(step, (counter.get(step) ?? 0) + 1);
  }

  #plan(step: string): SagaStepPlan {
    return this.plan.steps[this.#ordinal(step) - 1]!;
  }

  #ordinal(step: string): number {
    return this.plan.steps.findIndex((s) => s.name === step) + 1;
  }

  #note(violation: string): void {
    this.violations.push(violation);
  }
}

/** What a failed start of an effect says. */
export function failure(step: string, start: number): string {
  return `start ${start} of ${step} failed`;
}

/** Every step of the plan, as code: they all speak to the world. */
export function modelledSteps(plan: SagaPlan): AnyStep<ModelContext>[] {
  return plan.steps.map((step): AnyStep<ModelContext> => {
    const bare: AnyStep<ModelContext> = {
      name: step.name,
      identity: (ctx) => ctx.world.newIdentity(step.name),
      observe: (ctx, identity) => ctx.world.observe(identity as Identity),
      run: (ctx, identity) => ctx.world.run(ctx, identity as Identity),
      retryable: (error) => error instanceof EffectFailed && error.transient,
    };
    if (step.compensation === null) return bare;
    return {
      ...bare,
      compensate: async (ctx, identity) => ctx.world.compensate(ctx, identity as Identity),
    };
  });
}
