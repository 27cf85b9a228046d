/** The runner alone, on a saga of toy steps: journal order, observation before repetition, unwinding, suspension. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { fail } from "../../src/core/errors.ts";
import { runSaga } from "../../src/lifecycle/saga-runner.ts";
import { SagaSuspended } from "../../src/lifecycle/saga.ts";
import type { Db } from "../../src/store/db.ts";
import { operationById, startStep, stepsOf } from "../../src/store/lifecycle-ops.ts";
import { removeTempDirs } from "../support/temp.ts";
import { noting, planWith, Toys, type Toy } from "./toy-saga.ts";

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

describe("saga runner", () => {
  test("runner: no trouble → every step once in order, identity before effect, evidence after", async () => {
    const seen: string[] = [];
    const look = { run: () => noting(seen, states(), { ok: 1 }) };
    expect(await runSaga(saga({ two: look }))).toBe("Completed");
    expect(did).toEqual(["run one", "run three", "finished"]);
    expect(seen).toEqual(["Completed Started Pending"]);
    expect(stepsOf(db, "op").map((s) => [s.identity, s.result])).toEqual([
      [{ of: "one" }, { made: "one" }],
      [{ of: "two" }, { ok: 1 }],
      [{ of: "three" }, { made: "three" }],
    ]);
    expect(operationById(db, "op")!.state).toBe("Completed");
    expect(await runSaga(saga())).toBe("Completed");
    expect(did).toHaveLength(3);
  });

  test("runner: extra writes of a step → in the transaction of its journal entry, or neither", async () => {
    const write = {
      onStarted: (d: Db) => void d.run("UPDATE threads SET slug = 'started' WHERE thread_id = 'a'"),
      onCompleted: (d: Db) => {
        d.run("UPDATE threads SET slug = 'completed' WHERE thread_id = 'a'");
        throw new Error("no");
      },
    };
    expect(await runSaga(saga({ one: write }))).toBe("Failed");
    expect(db.query("SELECT slug FROM threads").get()).toEqual({ slug: "started" });
    expect(stepsOf(db, "op")[0]).toMatchObject({ state: "Compensated", result: null, error: "no" });
  });

  test("runner: step fails → it and those before it undone in reverse, with identity and evidence", async () => {
    const three = { run: () => Promise.reject(fail("failed", "full", "no room", "make some")) };
    expect(await runSaga(saga({ three }))).toBe("Failed");
    expect(did.slice(2)).toEqual([
      'undo three {"of":"three"} null',
      'undo two {"of":"two"} {"made":"two"}',
      'undo one {"of":"one"} {"made":"one"}',
      "failed: no room — make some",
    ]);
    expect(states()).toBe("Compensated Compensated Compensated");
    expect(operationById(db, "op")).toMatchObject({
      state: "Failed",
      error: "no room — make some",
    });
  });

  test("runner: step without compensation → nothing called; the failed one keeps that name", async () => {
    const bare = { compensate: undefined } as unknown as Toy;
    const plan = planWith({ one: { compensation: null }, two: { compensation: null } });
    const two = { ...bare, run: () => Promise.reject(new Error("x")) };
    await runSaga(saga({ one: bare, two }, { plan }));
    expect(did.filter((d) => d.startsWith("undo"))).toEqual([]);
    expect(states()).toBe("Compensated Failed Pending");
  });

  test("runner: identity cannot be told → fails before anything is done", async () => {
    await runSaga(saga({ two: { identity: () => Promise.reject(new Error("no name")) } }));
    expect(did).toEqual(["run one", 'undo one {"of":"one"} {"made":"one"}', "failed: no name"]);
  });

  test("runner: undoing fails → ends there loudly, both errors kept, steps below untouched", async () => {
    const three = { run: () => Promise.reject(new Error("first")) };
    const two = { compensate: () => Promise.reject(new Error("second")) };
    expect(await runSaga(saga({ two, three }))).toBe("Failed");
    expect(did.at(-1)).toBe("stuck: first; then two could not be undone: second");
    expect(did.some((d) => d.startsWith("log Create op: two could not be undone"))).toBe(true);
    expect(states()).toBe("Completed Compensating Compensated");
    expect(await runSaga(saga())).toBe("Failed");
    expect(states()).toBe("Completed Compensating Compensated");
  });
});

describe("saga runner after a restart", () => {
  beforeEach(() => startStep(db, { operationId: "op", ordinal: 1 }, { of: "before the crash" }));

  test("runner: started step, the world shows it → adopted, never run again", async () => {
    const asked: unknown[] = [];
    const one: Toy = {
      observe: (_ctx, identity) => noting(asked, identity, { is: "done", evidence: { found: 1 } }),
    };
    expect(await runSaga(saga({ one }))).toBe("Completed");
    expect(asked).toEqual([{ of: "before the crash" }]);
    expect(did).toEqual(["run two", "run three", "finished"]);
    expect(stepsOf(db, "op")[0]!.result).toEqual({ found: 1 });
  });

  test("runner: started step, not there → run with the identity of before", async () => {
    const given: unknown[] = [];
    await runSaga(saga({ one: { run: (_ctx, identity) => noting(given, identity, {}) } }));
    expect(given).toEqual([{ of: "before the crash" }]);
  });

  test("runner: started step, nobody can tell → fails with the reason, and looks again while undoing", async () => {
    const one: Toy = { observe: () => ({ is: "unknown", reason: "tmux is silent" }) };
    expect(await runSaga(saga({ one }))).toBe("Failed");
    expect(did).toEqual(['undo one {"of":"before the crash"} null', "failed: tmux is silent"]);
  });

  test("runner: looking itself fails → as if nobody could tell", async () => {
    const one: Toy = { observe: () => Promise.reject(new Error("cannot look")) };
    expect(await runSaga(saga({ one }))).toBe("Failed");
    expect(operationById(db, "op")!.error).toBe("cannot look");
  });
});

describe("saga runner and the outside", () => {
  test("runner: daemon stops, or a step says so → suspended, nothing failed, goes on later", async () => {
    const two = { run: () => Promise.reject(new SagaSuspended()) };
    expect(runSaga(saga({ two }))).rejects.toThrow(SagaSuspended);
    await Bun.sleep(0);
    expect(states()).toBe("Completed Started Pending");
    const stopping = AbortSignal.abort();
    expect(runSaga(saga({}, { stopping }))).rejects.toThrow(SagaSuspended);
    expect(await runSaga(saga())).toBe("Completed");
  });

  test("runner: crash at a crash point → reaches the caller, recorded nowhere", async () => {
    const crash = {
      at: (name: string) => {
        if (name === "Create.two.effected") throw new Error("crash");
      },
    };
    expect(runSaga(saga({}, { crash }))).rejects.toThrow("crash");
    await Bun.sleep(0);
    expect(operationById(db, "op")).toMatchObject({
      state: "Running",
      failing: false,
      error: null,
    });
    expect(states()).toBe("Completed Started Pending");
  });

  test("runner: operation completed from outside while the last step waits → no second completion", async () => {
    const three = {
      run: () => {
        db.run(
          "UPDATE thread_lifecycle_steps SET state = 'Completed', result_json = '1' WHERE ordinal = 3",
        );
        db.run("UPDATE thread_lifecycle_ops SET state = 'Completed', ended_at = 1");
        return Promise.reject(new Error("too late to matter"));
      },
    };
    expect(await runSaga(saga({ three }))).toBe("Completed");
    expect(did).toEqual(["run one", "run two"]);
    expect(operationById(db, "op")!.error).toBeNull();
  });

  test("runner: journal of another plan → refused before anything runs", async () => {
    db.run("UPDATE thread_lifecycle_steps SET name = 'other' WHERE ordinal = 2");
    expect(runSaga(saga())).rejects.toThrow("steps of Create differ");
    await Bun.sleep(0);
    expect(did).toEqual([]);
  });
});
