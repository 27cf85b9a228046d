/** What must hold of a journal and its world after every single entry, whatever crashed and whatever failed. */
import { UNDO_ATTEMPTS, type SagaPlan } from "../../src/core/saga.ts";
import type { Db } from "../../src/store/db.ts";
import {
  operationById,
  stepsOf,
  type OperationRow,
  type StepRow,
} from "../../src/store/lifecycle-ops.ts";
import type { ModelWorld } from "./model.ts";

const LETTERS = {
  Pending: "P",
  Started: "S",
  Completed: "C",
  Failed: "F",
  Compensating: "U",
  Compensated: "X",
} as const;

/** More entries than any of these sagas can have: it runs in circles. */
const MAX_ENTRIES = 2_000;

export class Oracle {
  readonly violations: string[] = [];
  readonly #plan: SagaPlan;
  readonly #operationId: string;
  readonly #world: ModelWorld;
  #attempts: number[] = [];
  #errors: (string | null)[] = [];
  #error: string | null = null;
  #entries = 0;

  constructor(plan: SagaPlan, operationId: string, world: ModelWorld) {
    this.#plan = plan;
    this.#operationId = operationId;
    this.#world = world;
  }

  check(db: Db): void {
    this.#entries += 1;
    if (this.#entries > MAX_ENTRIES) throw new Error("the saga runs in circles");
    const op = operationById(db, this.#operationId)!;
    const rows = stepsOf(db, this.#operationId);
    this.#checkRunning(db, op);
    this.#checkShape(op, rows);
    for (const [i, row] of rows.entries()) {
      this.#checkCounts(op, row, i);
      this.#checkWorld(row);
      this.#checkErrors(row, i);
    }
    if (this.#error !== null && op.error?.startsWith(this.#error) !== true) {
      this.#note(`error "${this.#error}" became "${op.error ?? ""}"`);
    }
    this.#error = op.error;
    for (const violation of this.#world.violations.splice(0)) this.#note(violation);
  }

  #checkRunning(db: Db, op: OperationRow): void {
    const running = db
      .query<{ n: number }, { threadId: string }>(
        `SELECT count(*) AS n FROM thread_lifecycle_ops WHERE thread_id = $threadId
           AND state = 'Running'`,
      )
      .get({ threadId: op.threadId })!.n;
    if (running !== (op.state === "Running" ? 1 : 0)) this.#note(`${running} operations run`);
  }

  #checkShape(op: OperationRow, rows: readonly StepRow[]): void {
    const shape = rows.map((r) => LETTERS[r.state]).join("");
    const legal = op.failing ? /^C*[SU]?[XF]*P*$/ : /^C*S?P*$/;
    if (!legal.test(shape)) this.#note(`journal ${shape}, ${op.failing ? "failing" : "going on"}`);
    if (op.state === "Completed" && !/^C+$/.test(shape)) this.#note(`Completed with ${shape}`);
    if (op.failing && op.error === null) this.#note("fails without an error");
    const passed = rows.some(
      (r, i) => this.#plan.steps[i]!.irreversible === true && r.state !== "Pending",
    );
    if (passed && /[UXF]/.test(shape)) this.#note(`undone past the point of no return: ${shape}`);
  }

  #checkCounts(op: OperationRow, row: StepRow, i: number): void {
    const bound = this.#plan.steps[i]!.attempts * op.attempts;
    const { attempts, name, undoAttempts } = row;
    if (attempts > bound) this.#note(`${name} started ${attempts} times, bound ${bound}`);
    if (attempts < (this.#attempts[i] ?? 0)) this.#note(`${name} forgot an attempt`);
    if (attempts < this.#world.starts(name)) this.#note(`${name} has starts nobody counted`);
    if (this.#world.starts(name) > bound) {
      this.#note(`${name} really started ${this.#world.starts(name)} times, bound ${bound}`);
    }
    const undoBound = UNDO_ATTEMPTS * op.attempts;
    if (undoAttempts > undoBound || undoAttempts < this.#world.undoStarts(name)) {
      this.#note(`${name} undone ${undoAttempts} times, bound ${undoBound}`);
    }
    this.#attempts[i] = attempts;
  }

  #checkWorld(row: StepRow): void {
    const { name, state } = row;
    const there = this.#world.isThere(name);
    if (state === "Pending" && (there || row.attempts > 0 || row.identity !== null)) {
      this.#note(`${name} is Pending, but something of it is there`);
    }
    if (
      state === "Completed" &&
      (row.result === null || row.result !== this.#world.receipt(name))
    ) {
      this.#note(`${name} is Completed without the evidence of what is there`);
    }
    const step = this.#plan.steps[row.ordinal - 1]!;
    if (state === "Compensated" && step.compensation !== null && there) {
      this.#note(`${name} is Compensated, and still there`);
    }
  }

  /** Errors are added to, never replaced. */
  #checkErrors(row: StepRow, i: number): void {
    const before = this.#errors[i] ?? null;
    if (before !== null && row.error?.startsWith(before) !== true) {
      this.#note(`${row.name}: error "${before}" became "${row.error ?? ""}"`);
    }
    this.#errors[i] = row.error;
  }

  #note(violation: string): void {
    if (!this.violations.includes(violation)) this.violations.push(violation);
  }
}
