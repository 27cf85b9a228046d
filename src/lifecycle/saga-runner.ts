/**
 * Runs a saga from its journal, in a fresh process exactly as in the one that began it: every turn of the loop reads
 * the journal, asks `nextMove`, and does that one thing. Each journal entry is a transaction of its own; no
 * transaction spans an effect.
 *
 * Crash points stand outside every `try`: what they throw must reach the caller as a crash would, unrecorded.
 */
import { assertNever } from "../core/result.ts";
import { errorLine, KikiError } from "../core/errors.ts";
import { nextMove, type SagaPlan } from "../core/saga.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Log } from "../ports/log.ts";
import { write, type Db } from "../store/db.ts";
import {
  completeStep,
  endOperation,
  moveStep,
  operationById,
  setFailing,
  setStepError,
  startStep,
  stepsOf,
  type OperationRow,
  type StepRow,
} from "../store/lifecycle-ops.ts";

/** What the world says about a step that was started before a restart. */
export type Observation<E> =
  /** It happened: adopted with this evidence, never done again. */
  | { is: "done"; evidence: E }
  /** It did not happen, or only so far that `run` goes on from there: `run` may be called. */
  | { is: "not-done" }
  /** Nobody can tell, or somebody else's thing is in the way: the saga fails and unwinds. */
  | { is: "unknown"; reason: string };

/**
 * One step. `I`: the identity its effect is recognised by, `E`: the evidence of it; both are plain JSON and end up
 * in the journal, so neither holds a secret. The `on…` functions are extra writes in the transaction that journals
 * the move; they are synchronous and have no other effect.
 */
export interface StepDef<C, I, E> {
  readonly name: string;
  identity(ctx: C): I | Promise<I>;
  observe(ctx: C, identity: I): Observation<E> | Promise<Observation<E>>;
  run(ctx: C, identity: I): E | Promise<E>;
  /** Undoes what `run` may have done, wholly or in part; called again after a crash, so it looks before it acts. */
  compensate?(ctx: C, identity: I, evidence: E | null): Promise<void>;
  onStarted?(db: Db, ctx: C, identity: I): void;
  onCompleted?(db: Db, ctx: C, evidence: E, identity: I): void;
  onCompensating?(db: Db, ctx: C, identity: I): void;
  onCompensated?(db: Db, ctx: C, identity: I): void;
}

/** Steps of different identities and evidence in one list: the runner only hands both back to the step they are of. */
export type AnyStep<C> = StepDef<C, unknown, unknown>;

/** Thrown by a step that must stop without failing: the daemon is going down, a later start goes on from here. */
export class SagaSuspended extends Error {
  constructor() {
    super("the daemon is stopping");
    this.name = "SagaSuspended";
  }
}

export interface Saga<C> {
  plan: SagaPlan;
  steps: readonly AnyStep<C>[];
  operationId: string;
  ctx: C;
  db: Db;
  clock: Clock;
  crash: CrashPoints;
  log: Log;
  /** Aborts when the daemon stops: the saga is left at its next journal entry. */
  stopping: AbortSignal;
  /** Called after every journal entry. */
  progressed(): void;
  /** Extra writes in the transaction that ends the operation, after its row has ended. */
  onFinished(db: Db): void;
  onFailed(db: Db, error: string): void;
}

/**
 * Runs until the operation has ended. Resolves with how it ended; throws `SagaSuspended`, a crash, or a failure to
 * write the journal itself: in all three the operation stays `Running`, for the next start.
 */
export async function runSaga<C>(saga: Saga<C>): Promise<"Completed" | "Failed"> {
  checkTable(saga);
  for (;;) {
    if (saga.stopping.aborted) throw new SagaSuspended();
    const op = operationById(saga.db, saga.operationId);
    if (op === null) throw new Error(`no operation ${saga.operationId}`);
    if (op.state !== "Running") return op.state;
    const steps = stepsOf(saga.db, saga.operationId);
    const next = nextMove(steps, op.failing);
    switch (next.move) {
      case "run":
        await start(saga, rowOf(steps, next.ordinal));
        break;
      case "observe":
        await resume(saga, rowOf(steps, next.ordinal));
        break;
      case "compensate":
        await compensate(saga, op, rowOf(steps, next.ordinal));
        break;
      case "finished":
        write(saga.db, () => finish(saga));
        saga.progressed();
        break;
      case "failed":
        write(saga.db, () => fail(saga, op.error ?? "a step had failed before"));
        saga.progressed();
        break;
      default:
        assertNever(next, "saga move");
    }
  }
}

/** One line of an error, with its remedy: what the journal keeps and a person reads. */
export function describeError(error: unknown): string {
  const hint = error instanceof KikiError && error.hint !== undefined ? ` — ${error.hint}` : "";
  return `${errorLine(error)}${hint}`;
}

function checkTable<C>(saga: Saga<C>): void {
  const planned = saga.plan.steps.map((s) => s.name).join(" ");
  const defined = saga.steps.map((s) => s.name).join(" ");
  const journaled = stepsOf(saga.db, saga.operationId)
    .map((s) => s.name)
    .join(" ");
  if (planned === defined && planned === journaled) return;
  throw new Error(
    `steps of ${saga.plan.kind} differ: plan ${planned}; code ${defined}; journal ${journaled}`,
  );
}

function rowOf(steps: readonly StepRow[], ordinal: number): StepRow {
  return steps.find((s) => s.ordinal === ordinal)!;
}

function defOf<C>(saga: Saga<C>, row: StepRow): AnyStep<C> {
  return saga.steps[row.ordinal - 1]!;
}

function at<C>(saga: Saga<C>, row: StepRow): { operationId: string; ordinal: number } {
  return { operationId: saga.operationId, ordinal: row.ordinal };
}

function crashAt<C>(saga: Saga<C>, row: StepRow, moment: string): void {
  saga.crash.at(`${saga.plan.kind}.${row.name}.${moment}`);
}

/** Pending → Started, then the effect. */
async function start<C>(saga: Saga<C>, row: StepRow): Promise<void> {
  const def = defOf(saga, row);
  crashAt(saga, row, "before");
  let identity: unknown;
  try {
    identity = await def.identity(saga.ctx);
  } catch (error) {
    return failStep(saga, row, error);
  }
  write(saga.db, () => {
    startStep(saga.db, at(saga, row), identity);
    def.onStarted?.(saga.db, saga.ctx, identity);
  });
  saga.progressed();
  crashAt(saga, row, "started");
  await effect(saga, row, identity);
}

/** A step that had been started before a restart: look first. */
async function resume<C>(saga: Saga<C>, row: StepRow): Promise<void> {
  let seen: Observation<unknown>;
  try {
    seen = await defOf(saga, row).observe(saga.ctx, row.identity);
  } catch (error) {
    return failStep(saga, row, error);
  }
  switch (seen.is) {
    case "done":
      return complete(saga, row, row.identity, seen.evidence);
    case "not-done":
      return effect(saga, row, row.identity);
    case "unknown":
      return failStep(saga, row, new Error(seen.reason));
    default:
      return assertNever(seen, "observation");
  }
}

async function effect<C>(saga: Saga<C>, row: StepRow, identity: unknown): Promise<void> {
  let evidence: unknown;
  try {
    evidence = await defOf(saga, row).run(saga.ctx, identity);
  } catch (error) {
    return failStep(saga, row, error);
  }
  crashAt(saga, row, "effected");
  complete(saga, row, identity, evidence);
}

/** Started → Completed; the last step ends the operation in the same transaction. */
function complete<C>(saga: Saga<C>, row: StepRow, identity: unknown, evidence: unknown): void {
  try {
    write(saga.db, () => {
      // A handshake from outside may have completed the last step and with it the operation.
      if (operationById(saga.db, saga.operationId)?.state !== "Running") return;
      completeStep(saga.db, at(saga, row), evidence);
      defOf(saga, row).onCompleted?.(saga.db, saga.ctx, evidence, identity);
      if (row.ordinal === saga.plan.steps.length) finish(saga);
    });
  } catch (error) {
    return failStep(saga, row, error);
  }
  saga.progressed();
  crashAt(saga, row, "completed");
}

function finish<C>(saga: Saga<C>): void {
  endOperation(saga.db, saga.operationId, { state: "Completed", now: saga.clock.now() });
  saga.onFinished(saga.db);
}

function fail<C>(saga: Saga<C>, error: string): void {
  endOperation(saga.db, saga.operationId, { state: "Failed", error, now: saga.clock.now() });
  saga.onFailed(saga.db, error);
}

/** Records why, and turns the operation round. A failure after the operation has ended changes nothing. */
function failStep<C>(saga: Saga<C>, row: StepRow, error: unknown): void {
  if (error instanceof SagaSuspended) throw error;
  const text = describeError(error);
  saga.log.warn(`${saga.plan.kind} ${saga.operationId}: ${row.name} failed: ${text}`);
  write(saga.db, () => {
    if (operationById(saga.db, saga.operationId)?.state !== "Running") return;
    setStepError(saga.db, at(saga, row), text);
    setFailing(saga.db, saga.operationId, text);
  });
  saga.progressed();
}

/**
 * Undoes one step. A compensation that fails ends the saga there, loudly: what is below it is still in use by what
 * could not be undone, and stays for a person.
 */
async function compensate<C>(saga: Saga<C>, op: OperationRow, row: StepRow): Promise<void> {
  const def = defOf(saga, row);
  if (def.compensate === undefined) {
    // The step that failed keeps that name; one that had succeeded has nothing outside to undo.
    write(saga.db, () => {
      const to = row.state === "Completed" ? "Compensated" : "Failed";
      moveStep(saga.db, at(saga, row), [row.state], to);
      def.onCompensated?.(saga.db, saga.ctx, row.identity);
    });
    saga.progressed();
    return;
  }
  if (row.state !== "Compensating") {
    write(saga.db, () => {
      moveStep(saga.db, at(saga, row), ["Started", "Completed"], "Compensating");
      def.onCompensating?.(saga.db, saga.ctx, row.identity);
    });
    saga.progressed();
  }
  crashAt(saga, row, "undo-started");
  try {
    await def.compensate(saga.ctx, row.identity, row.result);
  } catch (error) {
    if (error instanceof SagaSuspended) throw error;
    const text = describeError(error);
    saga.log.error(
      `${saga.plan.kind} ${saga.operationId}: ${row.name} could not be undone: ${text}`,
      error,
    );
    write(saga.db, () => {
      setStepError(saga.db, at(saga, row), `could not be undone: ${text}`);
      fail(saga, `${op.error ?? "failed"}; then ${row.name} could not be undone: ${text}`);
    });
    saga.progressed();
    return;
  }
  crashAt(saga, row, "undo-effected");
  write(saga.db, () => {
    moveStep(saga.db, at(saga, row), ["Compensating"], "Compensated");
    def.onCompensated?.(saga.db, saga.ctx, row.identity);
  });
  saga.progressed();
  crashAt(saga, row, "undo-completed");
}
