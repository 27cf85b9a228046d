/**
 * Drives one operation through crashes: a real runner over a real database file and the modelled world. At a crash the
 * connection is closed and everything in memory is dropped; only the file and the world go on.
 */
import { join } from "node:path";
import { LIFECYCLE_OP_KINDS, type Lifecycle } from "../../src/core/lifecycle.ts";
import type { CrashMoment, SagaEnd, SagaPlan } from "../../src/core/saga.ts";
import { runSaga, takeUp } from "../../src/lifecycle/saga-runner.ts";
import type { Saga, SagaFailure } from "../../src/lifecycle/saga.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { connect, write, type Db } from "../../src/store/db.ts";
import {
  insertOperation,
  operationById,
  runningOperations,
  stepsOf,
} from "../../src/store/lifecycle-ops.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { noteSessionStarted, setProcess, setReady } from "../../src/store/sessions.ts";
import { setLifecycle, threadById } from "../../src/store/threads.ts";
import { addProjections, addSession, addThread } from "../store/fixture.ts";
import { tempDir } from "../support/temp.ts";
import { modelledSteps, ModelWorld, type Fault, type Identity, type Outcome } from "./model.ts";
import { Oracle } from "./oracle.ts";

export interface Crash {
  /** Where the daemon dies. */
  step: string;
  moment: CrashMoment;
  /** How what was under way turns out; null where nothing was. */
  outcome: Outcome | null;
}

export interface Scenario {
  plan: SagaPlan;
  faults: readonly Fault[];
  /** One after the other; the next one counts from the restart on. */
  crashes: readonly Crash[];
  /** Chooses the next death at run time, after `crashes`; null: it lives. */
  next?: (step: string, moment: CrashMoment) => Outcome | "no-effect" | null;
  /** After it has failed a person cures the world and takes it up again. */
  takenUp?: boolean;
}

export interface Ended {
  violations: string[];
  state: string;
  /** What the runner said when it gave up. */
  how: SagaFailure | null;
  lifecycle: Lifecycle | null;
  error: string;
  world: ModelWorld;
  /** Scenario crashes that never came. */
  crashesLeft: number;
  /** What an operation taken up again had failed with. */
  before: SagaFailure | null;
}

class Died extends Error {}

/** A daemon that dies more often than this never gets anywhere. */
const MAX_DEATHS = 200;

/** Time passes as soon as somebody waits for it. */
class InstantClock implements Clock {
  #now = 1_700_000_000_000;
  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  sleep(ms: number): Promise<void> {
    this.#now += ms;
    return Promise.resolve();
  }
}

/** How a thread gets into a state, from `Creating` on. */
const ROUTE: Readonly<Record<Lifecycle, readonly Lifecycle[]>> = {
  Creating: [],
  CreateFailed: ["CreateFailed"],
  Active: ["Active"],
  ClosePreflight: ["Active", "ClosePreflight"],
  CloseCommit: ["Active", "ClosePreflight", "CloseCommit"],
  CloseFailed: ["Active", "ClosePreflight", "CloseCommit", "CloseFailed"],
  Closed: ["Active", "ClosePreflight", "CloseCommit", "Closed"],
  ProjectionDiverged: ["Active", "ProjectionDiverged"],
  DestroyCommit: ["Active", "DestroyCommit"],
  DestroyFailed: ["Active", "DestroyCommit", "DestroyFailed"],
  Destroyed: ["Active", "DestroyCommit", "Destroyed"],
};

export class Bench {
  /** Every crash point at which a daemon died. */
  readonly diedAt = new Set<string>();
  readonly #file = join(tempDir("matrix"), "state.db");
  /**
   * A connection beside the daemon's: sees only what is durable, and, staying open, lets a dead daemon's write-ahead
   * log lie as a killed process would.
   */
  readonly #outside = openRepoDb(this.#file);
  /** What a runner gave up without ending it: said once, and not held against other scenarios. */
  readonly #lost = new Set<string>();
  #daemon: Db | null = null;
  #count = 0;

  constructor() {
    this.#outside.run("PRAGMA synchronous = OFF");
  }

  close(): void {
    this.#kill();
    this.#outside.close();
  }

  #kill(): void {
    this.#daemon?.close();
    this.#daemon = null;
  }

  #boot(): Db {
    if (this.#daemon === null) {
      this.#daemon = connect(this.#file);
      this.#daemon.run("PRAGMA synchronous = OFF"); // a daemon dies here, never the machine
    }
    return this.#daemon;
  }

  /**
   * Each scenario is a thread of its own. All of them run in one daemon, each up to its own death; then that daemon
   * dies, once, and the next one finds exactly what was left unfinished.
   */
  async survive(scenarios: readonly Scenario[]): Promise<Ended[]> {
    const runs = scenarios.map((s) => {
      this.#count += 1;
      return new Run(this.#outside, `t${this.#count}`, s);
    });
    for (const [i, run] of runs.entries()) run.begin(i);
    let unfinished = runs;
    for (let deaths = 0; unfinished.length > 0; deaths += 1) {
      if (deaths > MAX_DEATHS) throw new Error("a daemon died more often than anything can need");
      unfinished = await this.#daemonLife(unfinished);
    }
    return runs.map((run) => run.ended());
  }

  /** From its start to its death; returns what it leaves unfinished. */
  async #daemonLife(runs: readonly Run[]): Promise<Run[]> {
    const db = this.#boot();
    const found = LIFECYCLE_OP_KINDS.flatMap((kind) => runningOperations(db, kind));
    const ids = new Set(found.map((op) => op.operationId).filter((id) => !this.#lost.has(id)));
    const left: Run[] = [];
    for (const run of runs) {
      if (!ids.delete(run.operationId)) run.expectEnded();
      else if (!(await run.goOn(db))) left.push(run);
      if (run.gaveUp) this.#lost.add(run.operationId);
    }
    if (ids.size > 0) runs[0]!.violations.push(`a restart finds ${[...ids].join(" ")} as well`);
    if (left.length === 0) return [];
    this.#kill();
    for (const run of left) this.diedAt.add(run.settle());
    return left;
  }
}

/** One operation, from its row to its end. */
class Run {
  readonly violations: string[] = [];
  readonly #outside: Db;
  readonly operationId: string;
  gaveUp = false;
  readonly #threadId: string;
  readonly #scenario: Scenario;
  readonly #plan: SagaPlan;
  readonly #world: ModelWorld;
  readonly #oracle: Oracle;
  readonly #crashes: Crash[];
  readonly #clock = new InstantClock();
  #prior: Lifecycle = "Creating";
  #diedAt = "";
  #before: Ended["before"] = null;
  #how: SagaFailure | null = null;
  #death: Crash | null = null;

  constructor(outside: Db, threadId: string, scenario: Scenario) {
    this.#outside = outside;
    this.#threadId = threadId;
    this.operationId = `${threadId}-op`;
    this.#scenario = scenario;
    this.#plan = scenario.plan;
    this.#world = new ModelWorld(scenario.plan, scenario.faults);
    this.#oracle = new Oracle(scenario.plan, this.operationId, this.#world);
    this.#crashes = [...scenario.crashes];
  }

  /** `nth`: of several states the operation may begin in, each gets its turn. */
  begin(nth: number): void {
    const db = this.#outside;
    const { kind, lifecycle, steps, variant } = this.#plan;
    this.#prior = lifecycle.from[nth % lifecycle.from.length]!;
    write(db, () => {
      addThread(db, this.#threadId);
      addProjections(db, this.#threadId);
      const incarnation = `${this.#threadId}-agent`;
      addSession(db, this.#threadId, incarnation);
      setProcess(db, incarnation, { pid: 7, startTime: "70" });
      noteSessionStarted(db, incarnation, { harnessSessionId: "s", now: 1 });
      setReady(db, incarnation, 1);
      for (const to of ROUTE[this.#prior]) this.#move(db, to);
      this.#move(db, this.#during());
      insertOperation(db, {
        operationId: this.operationId,
        threadId: this.#threadId,
        kind,
        args: { variant },
        steps,
        now: 1,
      });
    });
    this.#oracle.check(db);
  }

  /** A restart did not find it: that is right only of one that died right after its end. */
  expectEnded(): void {
    const { state } = operationById(this.#outside, this.operationId)!;
    if (state === "Running") this.violations.push("a restart does not find it");
  }

  /** True when it has ended, false when the daemon died. */
  async goOn(db: Db): Promise<boolean> {
    try {
      await runSaga(this.#saga(db));
      const again = this.#scenario.takenUp === true && this.#before === null;
      if (!again || this.#how !== "stuck") return true;
      this.#takeUp(db);
      await runSaga(this.#saga(db));
    } catch (error) {
      if (error instanceof Died) return false;
      this.violations.push(`threw ${String(error)}`);
      this.gaveUp = true;
    }
    return true;
  }

  #saga(db: Db): Saga<{ world: ModelWorld; db: Db; operationId: string }> {
    const { lifecycle } = this.#plan;
    return {
      plan: this.#plan,
      steps: modelledSteps(this.#plan),
      operationId: this.operationId,
      ctx: { world: this.#world, db, operationId: this.operationId },
      db,
      clock: this.#clock,
      crash: { at: (name) => this.#crashPoint(name) },
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      stopping: new AbortController().signal,
      progressed: () => this.#oracle.check(this.#outside),
      onFinished: () => this.#move(db, this.#end(lifecycle.completed)),
      onFailed: (_db, _error, how) => {
        this.#how = how;
        this.#move(db, this.#end(lifecycle[how]));
      },
    };
  }

  #crashPoint(name: string): void {
    const rest = name.slice(this.#plan.kind.length + 1);
    const dot = rest.lastIndexOf(".");
    const step = rest.slice(0, dot);
    const moment = rest.slice(dot + 1) as CrashMoment;
    const planned = this.#crashes[0];
    if (planned !== undefined) {
      if (planned.step !== step || planned.moment !== moment) return;
      this.#crashes.shift();
      this.#death = planned;
    } else {
      const outcome = this.#scenario.next?.(step, moment) ?? null;
      if (outcome === null) return;
      this.#death = { step, moment, outcome: outcome === "no-effect" ? null : outcome };
    }
    this.#diedAt = name;
    throw new Died();
  }

  /** The daemon is dead; the world comes to rest. Returns where it died. */
  settle(): string {
    const death = this.#death!;
    if (death.outcome === null) return this.#diedAt;
    const row = stepsOf(this.#outside, this.operationId).find((s) => s.name === death.step)!;
    const identity = row.identity as Identity;
    if (death.moment.startsWith("undo-")) this.#world.settleUndo(identity, death.outcome);
    else this.#world.settle(identity, death.outcome);
    return this.#diedAt;
  }

  #takeUp(db: Db): void {
    this.#before = this.#how;
    this.#world.cure();
    write(db, () => {
      const what = takeUp(db, this.#plan, this.operationId);
      if (what === "nothing") this.violations.push("there was nothing to take up");
      else this.#move(db, this.#during());
    });
    this.#oracle.check(this.#outside);
  }

  ended(): Ended {
    if (this.#oracle.violations.length === 0) this.#oracle.check(this.#outside);
    const op = operationById(this.#outside, this.operationId)!;
    return {
      violations: [...this.violations, ...this.#oracle.violations],
      state: op.state,
      how: this.#how,
      before: this.#before,
      lifecycle: threadById(this.#outside, this.#threadId)?.lifecycle ?? null,
      error: op.error ?? "",
      world: this.#world,
      crashesLeft: this.#crashes.length,
    };
  }

  #during(): Lifecycle {
    const { during } = this.#plan.lifecycle;
    return during === "prior" ? this.#prior : during;
  }

  #end(end: SagaEnd): Lifecycle {
    if (end === "prior") return this.#prior;
    return end === "recorded" ? "Active" : end;
  }

  /** By the product's own transition function, so that an end that is no legal move throws. */
  #move(db: Db, to: Lifecycle): void {
    const from = threadById(db, this.#threadId)!.lifecycle;
    if (from === to) return;
    const resume = from === "Closed" ? "Closed" : "Active";
    const extra = to === "ProjectionDiverged" ? ({ projectionResume: resume } as const) : {};
    setLifecycle(db, this.#threadId, from, to as never, extra);
  }
}
