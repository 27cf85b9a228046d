/**
 * The saga journal: `thread_lifecycle_ops` and `thread_lifecycle_steps`. Every move of a step names the state it
 * moves from, so that two runners of one operation cannot both believe that they advanced it.
 */
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import type { LifecycleOpKind, StepState } from "../core/lifecycle.ts";
import type { Db } from "./db.ts";

export type OpState = "Running" | "Completed" | "Failed";

export interface OperationRow {
  operationId: LifecycleOpId;
  threadId: ThreadId;
  kind: LifecycleOpKind;
  state: OpState;
  args: unknown;
  /** A step failed: completed steps are being undone. */
  failing: boolean;
  error: string | null;
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
  error: string | null;
}

interface RawOperation {
  operation_id: string;
  thread_id: string;
  kind: LifecycleOpKind;
  state: OpState;
  args_json: string;
  failing: number;
  error: string | null;
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
    steps: readonly string[];
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
    `INSERT INTO thread_lifecycle_steps (operation_id, ordinal, name, state)
     VALUES ($operationId, $ordinal, $name, 'Pending')`,
  );
  for (const [index, name] of row.steps.entries()) {
    step.run({ operationId: row.operationId, ordinal: index + 1, name });
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
    }));
}

interface StepRef {
  operationId: LifecycleOpId;
  ordinal: number;
}

/** Pending → Started. */
export function startStep(db: Db, at: StepRef, identity: unknown): void {
  moved(
    db
      .query(
        `UPDATE thread_lifecycle_steps SET state = 'Started', identity_json = $identity
         WHERE operation_id = $operationId AND ordinal = $ordinal AND state = 'Pending'`,
      )
      .run({ ...at, identity: JSON.stringify(identity) }).changes,
    at,
    "Pending",
    "Started",
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

/** The states of unwinding. Throws when the step is in none of `from`. */
export function moveStep(
  db: Db,
  at: StepRef,
  from: readonly StepState[],
  to: "Compensating" | "Compensated" | "Failed",
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
}

function moved(changes: number, at: StepRef, from: string, to: string): void {
  if (changes === 1) return;
  throw new Error(`step ${at.ordinal} of ${at.operationId} is not ${from}: cannot become ${to}`);
}
