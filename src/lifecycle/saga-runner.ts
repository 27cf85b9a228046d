/**
 * Runs a saga from its journal, in a fresh process exactly as in the one that began it: every turn of the loop reads
 * the journal, asks `nextMove`, and does that one thing. Each journal entry is a transaction of its own; no
 * transaction spans an effect. Nothing is remembered beside the journal: attempts are counted there before each start,
 * so that an effect which takes the daemon down with it is not tried for ever.
 *
 * Crash points stand outside every `try`: what they throw must reach the caller as a crash would, unrecorded.
 */
import { assertNever } from "../core/result.ts";
import { describeError } from "../core/errors.ts";
import {
  attemptErrors,
  crashPoint,
  mayStartAgain,
  nextMove,
  takesUp,
  turnsRoundAt,
  UNDO_ATTEMPTS,
  type CrashMoment,
  type SagaPlan,
} from "../core/saga.ts";
import { write, type Db } from "../store/db.ts";
import {
  completeStep,
  endOperation,
  moveStep,
  operationById,
  restartStep,
  setFailing,
  setStepError,
  startStep,
  startUndo,
  stepsOf,
  takeUpOperation,
  type OperationRow,
  type StepRow,
} from "../store/lifecycle-ops.ts";
import {
  SagaSuspended,
  type AnyStep,
  type Observation,
  type Saga,
  type SagaFailure,
} from "./saga.ts";

/** Before a failed attempt is repeated, times its number. */
const RETRY_DELAY_MS = 500;

/**
 * Runs until the operation has ended. Resolves with how it ended; throws `SagaSuspended`, a crash, or a failure to
 * write the journal itself: in all three the operation stays `Running`, for the next start.
 */
export async function runSaga<C>(saga: Saga<C>): Promise<"Completed" | "Failed"> {
  checkTable(saga);
  turnRound(saga);
  for (;;) {
    if (saga.stopping.aborted) throw new SagaSuspended();
    const op = operationById(saga.db, saga.operationId);
    if (op === null) throw new Error(`no operation ${saga.operationId}`);
    if (op.state !== "Running") return op.state;
    const steps = stepsOf(saga.db, saga.operationId);
    const next = nextMove(saga.plan, steps, op.failing);
    switch (next.move) {
      case "run":
        await start(saga, op, rowOf(steps, next.ordinal));
        break;
      case "observe":
        await resume(saga, op, rowOf(steps, next.ordinal));
        break;
      case "compensate":
        await compensate(saga, op, rowOf(steps, next.ordinal));
        break;
      case "finished":
        write(saga.db, () => finish(saga));
        saga.progressed();
        break;
      case "unwound":
        write(saga.db, () => fail(saga, op.error ?? "a step had failed before", "unwound"));
        saga.progressed();
        break;
      case "stuck":
        write(saga.db, () => fail(saga, op.error ?? `stopped after ${next.name}`, "stuck"));
        saga.progressed();
        break;
      default:
        assertNever(next, "saga move");
    }
  }
}

/**
 * Makes a `Failed` operation `Running` again, to finish it or to go on undoing it, and says which; "nothing" when
 * there is nothing left to do, and nothing was changed. Call it inside the transaction that moves the thread, then
 * `runSaga` with the same plan.
 */
export function takeUp(
  db: Db,
  plan: SagaPlan,
  operationId: string,
): "forward" | "unwind" | "nothing" {
  const what = takesUp(plan, stepsOf(db, operationId));
  if (what !== "nothing") takeUpOperation(db, operationId, what === "unwind");
  return what;
}

/** Plan, code and journal speak of the same steps; the code undoes exactly what the plan says is undone. */
function checkTable<C>(saga: Saga<C>): void {
  const planned = saga.plan.steps.map((s) => s.name).join(" ");
  const defined = saga.steps.map((s) => s.name).join(" ");
  const journaled = stepsOf(saga.db, saga.operationId)
    .map((s) => s.name)
    .join(" ");
  if (planned !== defined || planned !== journaled) {
    throw new Error(
      `steps of ${saga.plan.kind} differ: plan ${planned}; code ${defined}; journal ${journaled}`,
    );
  }
  for (const [index, step] of saga.plan.steps.entries()) {
    const undoes = saga.steps[index]!.compensate !== undefined;
    if (undoes === (step.compensation !== null)) continue;
    throw new Error(`${saga.plan.kind}.${step.name}: plan and code differ in how it is undone`);
  }
}

/** What an earlier process left in the middle of a step whose proof died with it is undone, not gone on with. */
function turnRound<C>(saga: Saga<C>): void {
  const op = operationById(saga.db, saga.operationId);
  if (op === null || op.state !== "Running" || op.failing) return;
  const open = turnsRoundAt(saga.plan, stepsOf(saga.db, saga.operationId));
  if (open === null) return;
  write(saga.db, () =>
    setFailing(saga.db, saga.operationId, `kiki's daemon stopped before ${open.name} was done`),
  );
  saga.progressed();
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

function planOf<C>(saga: Saga<C>, row: StepRow): SagaPlan["steps"][number] {
  return saga.plan.steps[row.ordinal - 1]!;
}

function crashAt<C>(saga: Saga<C>, row: StepRow, moment: CrashMoment): void {
  saga.crash.at(crashPoint(saga.plan, row.name, moment));
}

/** Pending → Started, then the effect. */
async function start<C>(saga: Saga<C>, op: OperationRow, row: StepRow): Promise<void> {
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
  await effect(saga, op, { ...row, identity, attempts: row.attempts + 1 });
}

/** A step that had been started before, by this process or an earlier one: look first. */
async function resume<C>(saga: Saga<C>, op: OperationRow, row: StepRow): Promise<void> {
  let seen: Observation<unknown>;
  try {
    seen = await defOf(saga, row).observe(saga.ctx, row.identity);
  } catch (error) {
    return failStep(saga, row, error);
  }
  switch (seen.is) {
    case "done":
      return complete(saga, op, row, seen.evidence);
    case "not-done":
      return startAgain(saga, op, row);
    case "unknown":
      return failStep(saga, row, new Error(seen.reason));
    default:
      return assertNever(seen, "observation");
  }
}

/** Counted before the effect, in the journal: whatever ends this process, the count stays. */
async function startAgain<C>(saga: Saga<C>, op: OperationRow, row: StepRow): Promise<void> {
  if (!mayStartAgain(planOf(saga, row).attempts, row.attempts, op.attempts)) {
    return failStep(saga, row, new Error(`started ${row.attempts} times, and still not done`));
  }
  write(saga.db, () => restartStep(saga.db, at(saga, row), row.attempts));
  saga.progressed();
  crashAt(saga, row, "retried");
  await effect(saga, op, { ...row, attempts: row.attempts + 1 });
}

/** `row` is the step as it is now: started, and counted. */
async function effect<C>(saga: Saga<C>, op: OperationRow, row: StepRow): Promise<void> {
  let evidence: unknown;
  try {
    evidence = await defOf(saga, row).run(saga.ctx, row.identity);
  } catch (error) {
    return attemptFailed(saga, op, row, error);
  }
  crashAt(saga, row, "effected");
  await complete(saga, op, row, evidence);
}

/** Started → Completed; the last step ends the operation in the same transaction. */
async function complete<C>(
  saga: Saga<C>,
  op: OperationRow,
  row: StepRow,
  evidence: unknown,
): Promise<void> {
  try {
    write(saga.db, () => {
      // A handshake from outside may have completed the last step and with it the operation.
      if (operationById(saga.db, saga.operationId)?.state !== "Running") return;
      completeStep(saga.db, at(saga, row), evidence);
      defOf(saga, row).onCompleted?.(saga.db, saga.ctx, evidence, row.identity);
      if (row.ordinal === saga.plan.steps.length) finish(saga);
    });
  } catch (error) {
    return attemptFailed(saga, op, row, error);
  }
  saga.progressed();
  crashAt(saga, row, "completed");
}

function finish<C>(saga: Saga<C>): void {
  endOperation(saga.db, saga.operationId, { state: "Completed", now: saga.clock.now() });
  saga.onFinished(saga.db);
}

function fail<C>(saga: Saga<C>, error: string, how: SagaFailure): void {
  endOperation(saga.db, saga.operationId, { state: "Failed", error, now: saga.clock.now() });
  saga.onFailed(saga.db, error, how);
}

/** Keeps the error; the step stays started, so that the next turn looks and then tries again — or this was the last. */
async function attemptFailed<C>(
  saga: Saga<C>,
  op: OperationRow,
  row: StepRow,
  error: unknown,
): Promise<void> {
  if (error instanceof SagaSuspended) throw error;
  const another = mayStartAgain(planOf(saga, row).attempts, row.attempts, op.attempts);
  if (!another || defOf(saga, row).retryable?.(error) !== true) return failStep(saga, row, error);
  const text = describeError(error);
  saga.log.warn(
    `${saga.plan.kind} ${saga.operationId}: ${row.name}, attempt ${row.attempts}: ${text}`,
  );
  write(saga.db, () =>
    setStepError(saga.db, at(saga, row), attemptErrors(row.error, row.attempts, text)),
  );
  saga.progressed();
  crashAt(saga, row, "attempt-failed");
  await pause(saga, row.attempts);
}

/** Cut short when the daemon stops; the loop looks at that next. */
async function pause<C>(saga: Saga<C>, attempt: number): Promise<void> {
  await saga.clock.sleep(RETRY_DELAY_MS * attempt, saga.stopping).catch(() => undefined);
}

/** Records why, and turns the operation round. A failure after the operation has ended changes nothing. */
function failStep<C>(saga: Saga<C>, row: StepRow, error: unknown): void {
  if (error instanceof SagaSuspended) throw error;
  const text = attemptErrors(row.error, row.attempts, describeError(error));
  saga.log.warn(`${saga.plan.kind} ${saga.operationId}: ${row.name} failed: ${text}`);
  write(saga.db, () => {
    if (operationById(saga.db, saga.operationId)?.state !== "Running") return;
    setStepError(saga.db, at(saga, row), text);
    setFailing(saga.db, saga.operationId, text);
  });
  saga.progressed();
  crashAt(saga, row, "failing");
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
  if (!mayStartAgain(UNDO_ATTEMPTS, row.undoAttempts, op.attempts)) {
    const error = new Error(`begun ${row.undoAttempts} times, and still not undone`);
    return notUndone(saga, op, row, error);
  }
  write(saga.db, () => {
    startUndo(saga.db, at(saga, row), row);
    if (row.state !== "Compensating") def.onCompensating?.(saga.db, saga.ctx, row.identity);
  });
  saga.progressed();
  crashAt(saga, row, "undo-started");
  try {
    await def.compensate(saga.ctx, row.identity, row.result);
  } catch (error) {
    if (error instanceof SagaSuspended) throw error;
    const begun = row.undoAttempts + 1;
    const another = mayStartAgain(UNDO_ATTEMPTS, begun, op.attempts);
    if (!another || def.retryable?.(error) !== true) return notUndone(saga, op, row, error);
    saga.log.warn(
      `${saga.plan.kind} ${saga.operationId}: undoing ${row.name}: ${describeError(error)}`,
    );
    return pause(saga, begun);
  }
  crashAt(saga, row, "undo-effected");
  write(saga.db, () => {
    moveStep(saga.db, at(saga, row), ["Compensating"], "Compensated");
    def.onCompensated?.(saga.db, saga.ctx, row.identity);
  });
  saga.progressed();
  crashAt(saga, row, "undo-completed");
}

function notUndone<C>(saga: Saga<C>, op: OperationRow, row: StepRow, error: unknown): void {
  const text = describeError(error);
  saga.log.error(
    `${saga.plan.kind} ${saga.operationId}: ${row.name} could not be undone: ${text}`,
    error,
  );
  const undoing = `could not be undone: ${text}`;
  write(saga.db, () => {
    const kept = row.error === null ? undoing : `${row.error}; ${undoing}`;
    setStepError(saga.db, at(saga, row), kept);
    fail(saga, `${op.error ?? "failed"}; then ${row.name} ${undoing}`, "stuck");
  });
  saga.progressed();
}
