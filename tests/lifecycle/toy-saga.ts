/** A saga of three toy steps on a database of its own, for tests of the runner alone. */
import { CREATE_PLAN } from "../../src/core/plans/agent.ts";
import type { SagaPlan, SagaStepPlan } from "../../src/core/saga.ts";
import type { AnyStep, Observation, Saga } from "../../src/lifecycle/saga.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { stepsOf } from "../../src/store/lifecycle-ops.ts";
import { FakeClock } from "../fakes/clock.ts";
import { addOperation, addThread, repoDb } from "../store/fixture.ts";

export function planWith(marks: Record<string, Partial<SagaStepPlan>>): SagaPlan {
  const steps = ["one", "two", "three"].map((name) => ({
    name,
    identity: "its name",
    observation: "seen",
    compensation: "undo",
    attempts: 3,
    ...marks[name],
  }));
  return { kind: "Create", variant: "", lifecycle: CREATE_PLAN.lifecycle, steps };
}

const PLAN = planWith({});
export const NAMES = PLAN.steps.map((s) => s.name);

/** What a test changes of a step. */
export type Toy = Partial<AnyStep<null>>;

/** Remembers `entry` and gives back `value`. */
export function noting<T>(list: unknown[], entry: unknown, value: T): T {
  list.push(entry);
  return value;
}

/** A crash point at which the daemon dies. */
export function dieAt(name: string, point: string): void {
  if (name === point) throw new Error("died");
}

export class Toys {
  readonly db = repoDb();
  /** What steps and runner did. */
  readonly did: string[] = [];

  constructor() {
    addThread(this.db, "a");
    addOperation(this.db, "a", "op", NAMES);
  }

  saga(change: Record<string, Toy> = {}, more: Partial<Saga<null>> = {}): Saga<null> {
    const { db, did } = this;
    const steps = NAMES.map((name): AnyStep<null> => ({
      name,
      identity: () => ({ of: name }),
      observe: (): Observation<unknown> => ({ is: "not-done" }),
      run: () => noting(did, `run ${name}`, { made: name }),
      compensate: async (_ctx, identity, evidence) => {
        did.push(`undo ${name} ${JSON.stringify(identity)} ${JSON.stringify(evidence)}`);
      },
      ...change[name],
    }));
    return {
      plan: PLAN,
      steps,
      operationId: "op",
      ctx: null,
      db,
      clock: new FakeClock(),
      crash: NO_CRASH,
      stopping: new AbortController().signal,
      progressed: () => undefined,
      log: {
        info: () => undefined,
        warn: () => undefined,
        error: (m) => void did.push(`log ${m}`),
      },
      onFinished: () => void did.push("finished"),
      onFailed: (_db, error, how) =>
        void did.push(`${how === "stuck" ? "stuck" : "failed"}: ${error}`),
      ...more,
    };
  }

  /** In order, in one line. */
  states(operationId = "op"): string {
    return stepsOf(this.db, operationId)
      .map((s) => s.state)
      .join(" ");
  }
}
