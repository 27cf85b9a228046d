/**
 * The saga journal: `thread_lifecycle_ops` and `thread_lifecycle_steps`. Every move of a step names the state it
 * moves from, so that two runners of one operation cannot both believe that they advanced it.
 */
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import type { LifecycleOpKind, OpState, StepState } from "../core/lifecycle.ts";
import type { Db } from "./db.ts";

export interface OperationRow {
  operationId: LifecycleOpId;
  threadId: ThreadId;
  kind: LifecycleOpKind;
  state: OpState;
  args: unknown;
  /** A step failed: completed steps are being undone. */
  failing: boolean;
  error: string | null;
  /** How often the operation was begun: once, and once more each time it was taken up again. */
  attempts: number;
  startedAt: number;
  endedAt: number | null;
}

export interface StepRow {
  ordinal: number;
  name: string;
  state: StepState;
  /** What the effect is recognised by, recorded before it happens. */
  identity: unknown;
  /** Evidence of the effect. */
  result: unknown;
  /** Of every attempt that failed. */
  error: string | null;
  /** Starts of the effect, counted before each of them. */
  attempts: number;
  /** Starts of the compensation. */
  undoAttempts: number;
}

interface RawOperation {
  operation_id: string;
  thread_id: string;
  kind: LifecycleOpKind;
  state: OpState;
  args_json: string;
  failing: number;
  error: string | null;
  attempts: number;
  started_at: number;
  ended_at: number | null;
}

function fromRaw(r: RawOperation): OperationRow {
  return {
    operationId: r.operation_id,
    threadId: r.thread_id,
    kind: r.kind,
    state: r.state,
    args: JSON.parse(r.args_json) as unknown,
    failing: r.failing === 1,
    error: r.error,
    attempts: r.attempts,
    startedAt: r.started_at,
    endedAt: r.ended_at,
  };
}

/** The operation with all its steps `Pending`, ordinals from 1. `args` must not hold secrets. */
export function insertOperation(
  db: Db,
  row: {
    operationId: LifecycleOpId;
    threadId: ThreadId;
    kind: LifecycleOpKind;
    args: unknown;
    steps: readonly { name: string; irreversible?: true }[];
    now: number;
  },
): void {
  db.query(
    `INSERT INTO thread_lifecycle_ops (operation_id, thread_id, kind, state, args_json, started_at)
     VALUES ($operationId, $threadId, $kind, 'Running', $args, $now)`,
  ).run({
    operationId: row.operationId,
    threadId: row.threadId,
    kind: row.kind,
    args: JSON.stringify(row.args),
    now: row.now,
  });
  const step = db.query(
    `INSERT INTO thread_lifecycle_steps (operation_id, ordinal, name, state, irreversible)
     VALUES ($operationId, $ordinal, $name, 'Pending', $irreversible)`,
  );
  for (const [index, { name, irreversible }] of row.steps.entries()) {
    const ordinal = index + 1;
    step.run({ operationId: row.operationId, ordinal, name, irreversible: irreversible ? 1 : 0 });
  }
}

export function operationById(db: Db, operationId: LifecycleOpId): OperationRow | null {
  const r = db
    .query<RawOperation, { operationId: string }>(
      "SELECT * FROM thread_lifecycle_ops WHERE operation_id = $operationId",
    )
    .get({ operationId });
  return r === null ? null : fromRaw(r);
}

/** What a restart has to go on with, oldest first. */
export function runningOperations(db: Db, kind: LifecycleOpKind): OperationRow[] {
  return db
    .query<RawOperation, { kind: string }>(
      `SELECT * FROM thread_lifecycle_ops WHERE state = 'Running' AND kind = $kind
       ORDER BY started_at, operation_id`,
    )
    .all({ kind })
    .map(fromRaw);
}

/** The thread's newest operation: the running one, else the one inserted last. */
export function latestOperation(db: Db, threadId: ThreadId): OperationRow | null {
  const r = db
    .query<RawOperation, { threadId: string }>(
      `SELECT * FROM thread_lifecycle_ops WHERE thread_id = $threadId
       ORDER BY state = 'Running' DESC, rowid DESC LIMIT 1`,
    )
    .get({ threadId });
  return r === null ? null : fromRaw(r);
}

/** The thread's newest operation of one kind. */
export function latestOperationOf(
  db: Db,
  threadId: ThreadId,
  kind: LifecycleOpKind,
): OperationRow | null {
  const r = db
    .query<RawOperation, { threadId: string; kind: string }>(
      `SELECT * FROM thread_lifecycle_ops WHERE thread_id = $threadId AND kind = $kind
       ORDER BY rowid DESC LIMIT 1`,
    )
    .get({ threadId, kind });
  return r === null ? null : fromRaw(r);
}

/** Hash of the set-up recipe of `source` that a person agreed to last; null when there was none. */
export function lastApprovedRecipe(db: Db, source: string): string | null {
  return (
    db
      .query<{ sha256: string }, { source: string }>(
        `SELECT args_json ->> '$.setup.sha256' AS sha256 FROM thread_lifecycle_ops
         WHERE kind = 'Create' AND args_json ->> '$.setup.source' = $source ORDER BY rowid DESC LIMIT 1`,
      )
      .get({ source })?.sha256 ?? null
  );
}

/** In order. */
export function stepsOf(db: Db, operationId: LifecycleOpId): StepRow[] {
  return db
    .query<
      {
        ordinal: number;
        name: string;
        state: StepState;
        identity_json: string | null;
        result_json: string | null;
        error: string | null;
        attempts: number;
        undo_attempts: number;
      },
      { operationId: string }
    >("SELECT * FROM thread_lifecycle_steps WHERE operation_id = $operationId ORDER BY ordinal")
    .all({ operationId })
    .map((r) => ({
      ordinal: r.ordinal,
      name: r.name,
      state: r.state,
      identity: r.identity_json === null ? null : (JSON.parse(r.identity_json) as unknown),
      result: r.result_json === null ? null : (JSON.parse(r.result_json) as unknown),
      error: r.error,
      attempts: r.attempts,
      undoAttempts: r.undo_attempts,
    }));
}

interface StepRef {
  operationId: LifecycleOpId;
  ordinal: number;
}

/** Pending → Started, which is the effect's first start. */
export function startStep(db: Db, at: StepRef, identity: unknown): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET state = 'Started', identity_json = $identity,
           attempts = attempts + 1
         WHERE operation_id = $operationId AND ordinal = $ordinal AND state = 'Pending'`,
      )
      .run({ ...at, identity: JSON.stringify(identity) }).changes,
    at,
    "Pending",
    "Started",
  );
}

/** Counts one more start of a `Started` step's effect; `starts` is what the caller has read. */
export function restartStep(db: Db, at: StepRef, starts: number): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET attempts = attempts + 1 WHERE operation_id = $operationId
           AND ordinal = $ordinal AND state = 'Started' AND attempts = $starts`,
      )
      .run({ ...at, starts }).changes,
    at,
    `Started ${starts} times`,
    "Started again",
  );
}

/** To `Compensating`, or one more start of a compensation that began before. Counts it. */
export function startUndo(db: Db, at: StepRef, row: StepRow): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET state = 'Compensating', undo_attempts = undo_attempts + 1
         WHERE operation_id = $operationId AND ordinal = $ordinal AND state = $state
           AND state IN ('Started','Completed','Compensating') AND undo_attempts = $undoAttempts`,
      )
      .run({ ...at, state: row.state, undoAttempts: row.undoAttempts }).changes,
    at,
    `${row.state}, undone ${row.undoAttempts} times`,
    "Compensating",
  );
}

/** Started → Completed, with the evidence. */
export function completeStep(db: Db, at: StepRef, result: unknown): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET state = 'Completed', result_json = $result
         WHERE operation_id = $operationId AND ordinal = $ordinal AND state = 'Started'`,
      )
      .run({ ...at, result: JSON.stringify(result) }).changes,
    at,
    "Started",
    "Completed",
  );
}

/** The ends of unwinding. Throws when the step is in none of `from`. */
export function moveStep(
  db: Db,
  at: StepRef,
  from: readonly StepState[],
  to: "Compensated" | "Failed",
): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET state = $to WHERE operation_id = $operationId
           AND ordinal = $ordinal AND state IN (SELECT value FROM json_each($from))`,
      )
      .run({ ...at, to, from: JSON.stringify(from) }).changes,
    at,
    from.join(" or "),
    to,
  );
}

export function setStepError(db: Db, at: StepRef, error: string): void {
  db.query(
    `UPDATE thread_lifecycle_steps SET error = $error
     WHERE operation_id = $operationId AND ordinal = $ordinal`,
  ).run({ ...at, error });
}

/** From here on the operation only unwinds. The first error is the one a person needs; it stays. */
export function setFailing(db: Db, operationId: LifecycleOpId, error: string): void {
  db.query(
    `UPDATE thread_lifecycle_ops SET failing = 1, error = coalesce(error, $error)
     WHERE operation_id = $operationId AND state = 'Running'`,
  ).run({ operationId, error });
}

/** Running → its end. `error` replaces what was recorded, when given. */
export function endOperation(
  db: Db,
  operationId: LifecycleOpId,
  end: { state: "Completed" | "Failed"; error?: string; now: number },
): void {
  const done = db
    .query(
      `UPDATE thread_lifecycle_ops SET state = $state, error = coalesce($error, error), ended_at = $now
       WHERE operation_id = $operationId AND state = 'Running'`,
    )
    .run({ operationId, state: end.state, error: end.error ?? null, now: end.now });
  if (done.changes !== 1) throw new Error(`operation ${operationId} is not running: cannot end`);
  endApproved(db, operationId, end);
}

/** The approval a saga was begun with is consumed in the transaction that ends the saga. */
function endApproved(
  db: Db,
  operationId: LifecycleOpId,
  end: { state: "Completed" | "Failed"; error?: string; now: number },
): void {
  const failed = end.state === "Failed";
  db.query(
    `UPDATE approved_operations SET state = $state, ended_at = $now,
       error = CASE WHEN $failed THEN coalesce($error, (SELECT error FROM thread_lifecycle_ops
         WHERE operation_id = $operationId), 'failed') ELSE error END
     WHERE lifecycle_operation_id = $operationId AND ended_at IS NULL`,
  ).run({
    operationId,
    state: end.state,
    error: end.error ?? null,
    now: end.now,
    failed: failed ? 1 : 0,
  });
  db.query(
    `UPDATE human_approvals SET consumed_at = $now WHERE consumed_at IS NULL AND operation_id IN
       (SELECT operation_id FROM approved_operations WHERE lifecycle_operation_id = $operationId)`,
  ).run({ operationId, now: end.now });
}

/** Failed → Running: what `error` says stays. `failing`: whether there is only undoing left to do. */
export function takeUpOperation(db: Db, operationId: LifecycleOpId, failing: boolean): void {
  const done = db
    .query(
      `UPDATE thread_lifecycle_ops SET state = 'Running', failing = $failing, ended_at = NULL,
         attempts = attempts + 1 WHERE operation_id = $operationId AND state = 'Failed'`,
    )
    .run({ operationId, failing: failing ? 1 : 0 });
  if (done.changes !== 1) throw new Error(`operation ${operationId} has not failed: no taking up`);
}

function moved(changes: number, at: StepRef, from: string, to: string): void {
  if (changes === 1) return;
  throw new Error(`step ${at.ordinal} of ${at.operationId} is not ${from}: cannot become ${to}`);
}
