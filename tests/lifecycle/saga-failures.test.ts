/**
 * The runner when things go wrong: attempts that are counted, steps that cannot be undone, proofs that die with the
 * daemon, and neighbours that must not notice.
 */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { runSaga, takeUp } from "../../src/lifecycle/saga-runner.ts";
import { SagaSuspended, type Observation, type Saga } from "../../src/lifecycle/saga.ts";
import type { Db } from "../../src/store/db.ts";
import { insertOperation, operationById, stepsOf } from "../../src/store/lifecycle-ops.ts";
import { FakeClock } from "../fakes/clock.ts";
import { addOperation, addThread } from "../store/fixture.ts";
import { removeTempDirs } from "../support/temp.ts";
import { dieAt, NAMES, planWith, Toys, type Toy } from "./toy-saga.ts";

let toys: Toys;
let db: Db;
let did: string[];
beforeEach(() => {
  toys = new Toys();
  ({ db, did } = toys);
});
afterAll(removeTempDirs);

const saga: Toys["saga"] = (change, more) => toys.saga(change, more);
const states = (operationId?: string): string => toys.states(operationId);

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error("never");
    await Bun.sleep(0);
  }
}

/** Fails so many times, then does what it should. */
function failing(times: number, error = new Error("busy")): Toy {
  let left = times;
  return {
    retryable: (e) => e === error,
    run: () => {
      did.push("try");
      left -= 1;
      return left >= 0 ? Promise.reject(error) : { made: "two" };
    },
  };
}

/** Every wait is over as soon as it begins. */
function impatient(): FakeClock {
  const clock = new FakeClock();
  clock.sleep = () => Promise.resolve();
  return clock;
}

describe("saga runner and failures another attempt may cure", () => {
  test("runner: fails twice of three → done, starts counted in the journal, both errors kept", async () => {
    expect(await runSaga(saga({ two: failing(2) }, { clock: impatient() }))).toBe("Completed");
    expect(did.filter((d) => d === "try")).toHaveLength(3);
    expect(stepsOf(db, "op")[1]).toMatchObject({ attempts: 3, error: "busy; attempt 2: busy" });
    expect(operationById(db, "op")!.error).toBeNull();
  });

  test("runner: fails as often as it may → undone, every error kept", async () => {
    expect(await runSaga(saga({ two: failing(9) }, { clock: impatient() }))).toBe("Failed");
    expect(did.filter((d) => d === "try")).toHaveLength(3);
    const error = "busy; attempt 2: busy; attempt 3: busy";
    expect(did.at(-1)).toBe(`failed: ${error}`);
    expect(stepsOf(db, "op")[1]!.error).toBe(error);
  });

  test("runner: failed start had done it all the same → seen before the next one, not done again", async () => {
    const two = {
      ...failing(9),
      observe: (): Observation<unknown> => ({ is: "done", evidence: { found: 2 } }),
    };
    expect(await runSaga(saga({ two }, { clock: impatient() }))).toBe("Completed");
    expect(did.filter((d) => d === "try")).toHaveLength(1);
    expect(stepsOf(db, "op")[1]).toMatchObject({ attempts: 1, result: { found: 2 } });
  });

  test("runner: a failure that is not of that kind → fails at once", async () => {
    const two = { ...failing(1), retryable: () => false };
    expect(await runSaga(saga({ two }, { clock: impatient() }))).toBe("Failed");
    expect(did.filter((d) => d === "try")).toHaveLength(1);
  });

  test("runner: waits between attempts; daemon stops meanwhile → suspended, goes on later", async () => {
    const stopping = new AbortController();
    const clock = new FakeClock();
    const run = runSaga(saga({ two: failing(1) }, { clock, stopping: stopping.signal }));
    await until(() => clock.waiting);
    stopping.abort();
    expect(run).rejects.toThrow(SagaSuspended);
    await run.catch(() => undefined);
    expect(states()).toBe("Completed Started Pending");
    expect(await runSaga(saga())).toBe("Completed");
    expect(stepsOf(db, "op")[1]!.attempts).toBe(2);
  });

  test("runner: every daemon dies with the effect → the fourth one gives up and undoes", async () => {
    const deadly = { at: (name: string) => dieAt(name, "Create.two.effected") };
    for (let death = 0; death < 3; death += 1) {
      expect(runSaga(saga({}, { crash: deadly }))).rejects.toThrow("died");
      await Bun.sleep(0);
    }
    expect(await runSaga(saga())).toBe("Failed");
    expect(did.filter((d) => d === "run two")).toHaveLength(3);
    expect(operationById(db, "op")!.error).toContain("started 3 times, and still not done");
  });

  test("runner: undoing fails in a way that passes → undone, counted; in one that does not pass → stuck in the end", async () => {
    const three = { run: () => Promise.reject(new Error("first")) };
    let left = 2;
    const two: Toy = {
      retryable: () => true,
      compensate: () => {
        left -= 1;
        return left >= 0 ? Promise.reject(new Error("busy")) : Promise.resolve();
      },
    };
    expect(await runSaga(saga({ two, three }, { clock: impatient() }))).toBe("Failed");
    expect(states()).toBe("Compensated Compensated Compensated");
    expect(stepsOf(db, "op")[1]!.undoAttempts).toBe(3);
  });
});

describe("saga runner and what cannot be undone", () => {
  const plan = planWith({ two: { irreversible: true }, three: { irreversible: true } });
  const three = { run: () => Promise.reject(new Error("no")) };
  beforeEach(() => {
    addThread(db, "b");
    const { steps } = plan;
    insertOperation(db, {
      operationId: "fixed",
      threadId: "b",
      kind: "Close",
      args: {},
      steps,
      now: 1,
    });
  });
  const fixed = (change: Record<string, Toy> = {}): Saga<null> =>
    saga(change, { plan, operationId: "fixed" });
  const stepStates = (): string => states("fixed");

  test("runner: fails past the irreversible step → nothing undone, Failed, completed steps kept", async () => {
    expect(await runSaga(fixed({ three }))).toBe("Failed");
    expect(did).toEqual(["run one", "run two", "stuck: no"]);
    expect(stepStates()).toBe("Completed Completed Started");
  });

  test("runner: the irreversible step itself fails → nothing undone: it may have happened", async () => {
    expect(await runSaga(fixed({ two: three }))).toBe("Failed");
    expect(did).toEqual(["run one", "stuck: no"]);
  });

  test("runner: what it would do cannot even be told → not started, so undone", async () => {
    expect(await runSaga(fixed({ two: { identity: () => Promise.reject(new Error("?")) } }))).toBe(
      "Failed",
    );
    expect(did.at(-1)).toBe("failed: ?");
    expect(stepStates()).toBe("Compensated Pending Pending");
  });

  test("runner: taken up again → only what is left, looked at first; the old error stays", async () => {
    await runSaga(fixed({ three }));
    did.length = 0;
    expect(takeUp(db, plan, "fixed")).toBe("forward");
    expect(await runSaga(fixed())).toBe("Completed");
    expect(did).toEqual(["run three", "finished"]);
    expect(operationById(db, "fixed")).toMatchObject({ attempts: 2, error: "no" });
    expect(() => takeUp(db, plan, "fixed")).not.toThrow();
    expect(takeUp(db, plan, "fixed")).toBe("nothing");
  });

  test("runner: undoing had failed, taken up again → goes on undoing from there", async () => {
    const one = { compensate: () => Promise.reject(new Error("stuck")) };
    await runSaga(fixed({ one, two: { identity: () => Promise.reject(new Error("?")) } }));
    expect(stepStates()).toBe("Compensating Pending Pending");
    did.length = 0;
    expect(takeUp(db, plan, "fixed")).toBe("unwind");
    expect(await runSaga(fixed())).toBe("Failed");
    expect(did[0]).toStartWith("undo one");
    expect(stepStates()).toBe("Compensated Pending Pending");
    expect(takeUp(db, plan, "fixed")).toBe("nothing");
    expect(operationById(db, "fixed")!.state).toBe("Failed");
  });
});

describe("saga runner and a proof that dies with the daemon", () => {
  const plan = planWith({ two: { restart: "unwind" } });
  for (const [point, undone] of [
    ["Create.two.before", ["one"]],
    ["Create.two.started", ["two", "one"]],
  ] as const) {
    test(`runner: daemon dies at ${point} → the next one undoes instead of going on`, async () => {
      const crash = { at: (name: string) => dieAt(name, point) };
      expect(runSaga(saga({}, { plan, crash }))).rejects.toThrow("died");
      await Bun.sleep(0);
      did.length = 0;
      expect(await runSaga(saga({}, { plan }))).toBe("Failed");
      const order = did.filter((d) => d.startsWith("undo")).map((d) => d.split(" ")[1]!);
      expect(order).toEqual([...undone]);
      expect(operationById(db, "op")!.error).toBe("kiki's daemon stopped before two was done");
    });
  }

  test("runner: daemon dies before anything was begun, or after the proof → goes on", async () => {
    for (const point of ["Create.one.before", "Create.two.completed"]) {
      const crash = { at: (name: string) => dieAt(name, point) };
      expect(runSaga(saga({}, { plan, crash }))).rejects.toThrow("died");
      await Bun.sleep(0);
    }
    expect(await runSaga(saga({}, { plan }))).toBe("Completed");
  });
});

describe("saga runner and its neighbours", () => {
  /** 20 threads, each with the toy saga, on one database and one set of queues. */
  async function twenty(odd: (of: string) => Partial<Saga<null>>): Promise<Map<string, string>> {
    const queues = new SerialQueues();
    const ended = new Map<string, string>();
    for (let n = 0; n < 20; n += 1) {
      const id = `n${n}`;
      addThread(db, id);
      addOperation(db, id, `op-${id}`, NAMES);
      const mine = saga({}, { operationId: `op-${id}`, ...odd(id) });
      void queues
        .run(id, () => runSaga(mine))
        .then(
          (how) => ended.set(id, how),
          (error: unknown) => ended.set(id, `threw ${String(error)}`),
        );
    }
    await until(() => ended.size >= 19);
    return ended;
  }
  const completed = (ended: Map<string, string>): number =>
    [...ended.values()].filter((how) => how === "Completed").length;

  test("runner: one of 20 threads throws where nothing catches → the 19 others complete", async () => {
    const crash = { at: (name: string) => dieAt(name, "Create.two.started") };
    const ended = await twenty((id) => (id === "n7" ? { crash } : {}));
    expect(completed(ended)).toBe(19);
    expect(operationById(db, "op-n7")!.state).toBe("Running");
  });

  test("runner: one of 20 threads hangs → the 19 others complete, and its own next work waits", async () => {
    const never = { run: () => new Promise<never>(() => undefined) };
    const ended = await twenty((id) => (id === "n7" ? { steps: saga({ two: never }).steps } : {}));
    expect([completed(ended), ended.has("n7")]).toEqual([19, false]);
    expect(operationById(db, "op-n7")!.state).toBe("Running");
  });

  test("runner: one of 20 threads has a corrupt journal → refused by name, the 19 others complete", async () => {
    const ended = await twenty((id) => {
      if (id === "n7") {
        db.run(
          "UPDATE thread_lifecycle_steps SET name = 'other' WHERE operation_id = 'op-n7' AND ordinal = 2",
        );
      }
      return {};
    });
    expect(completed(ended)).toBe(19);
    expect(ended.get("n7")).toContain("steps of Create differ");
  });

  test("runner: one of 20 threads cannot write its end → rolled back and said, the 19 others complete", async () => {
    const onFinished = (d: Db): void => {
      d.run("UPDATE threads SET slug = NULL WHERE thread_id = 'n7'");
    };
    const ended = await twenty((id) => (id === "n7" ? { onFinished } : {}));
    expect(completed(ended)).toBe(19);
    expect(ended.get("n7")).toBe("Failed");
    expect(operationById(db, "op-n7")!.error).toContain("NOT NULL");
  });
});
