/** The sagas of making a thread: of a creation, and of the repair of one that failed. */
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import { CREATE_PLAN } from "../core/plans/agent.ts";
import { acknowledgeAttention, raiseAttention } from "../store/attention.ts";
import type { Db } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import { operationById, type OperationRow } from "../store/lifecycle-ops.ts";
import { deleteLink, setLifecycle, threadById } from "../store/threads.ts";
import type { CreateArgs, CreateContext, CreationDeps } from "./creation-deps.ts";
import {
  repairFailed,
  repairFinished,
  repairPlan,
  repairSteps,
  type RepairArgs,
  type RepairContext,
} from "./creation-repair.ts";
import { CREATE_STEPS } from "./creation-steps.ts";
import type { Gate } from "./gate.ts";
import type { Saga } from "./saga.ts";
import type { Signals } from "./signals.ts";

/** What runs beside the sagas of every thread. */
export interface Around {
  signals: Signals;
  gate: Gate;
  stopping: AbortSignal;
}

function contextOf(deps: CreationDeps, op: OperationRow, around: Around): CreateContext {
  const { threadId, operationId } = op;
  return {
    deps,
    signals: around.signals,
    stopping: around.stopping,
    operationId,
    threadId,
    args: op.args as CreateArgs,
    trouble: () => around.gate.trouble(threadId),
    composerSeen: (incarnation) => around.gate.composerSeen(incarnation),
  };
}

/** What every saga of a thread shares, whatever its steps work with. */
function common(deps: CreationDeps, op: OperationRow, around: Around) {
  const { db, clock, crash, log } = deps;
  const progressed = (): void => around.signals.notify(op.threadId);
  const { stopping } = around;
  return { operationId: op.operationId, db, clock, crash, log, stopping, progressed };
}

export function sagaOf(deps: CreationDeps, op: OperationRow, around: Around): Saga<CreateContext> {
  const { threadId, operationId } = op;
  return {
    ...common(deps, op, around),
    plan: CREATE_PLAN,
    steps: CREATE_STEPS,
    ctx: contextOf(deps, op, around),
    // The handshake's own transaction ends a creation (gate.ts); a journal that ended otherwise is a bug.
    onFinished: (db) => setLifecycle(db, threadId, "Creating", "Active"),
    onFailed: (db, error) => creationFailed(db, deps, threadId, operationId, error),
  };
}

export function isCreationRepair(op: OperationRow): boolean {
  const { repair } = op.args as Partial<RepairArgs>;
  return repair === "retry" || repair === "clean-up";
}

export function repairSagaOf(
  deps: CreationDeps,
  op: OperationRow,
  around: Around,
): Saga<RepairContext> {
  const { threadId, operationId } = op;
  const args = op.args as RepairArgs;
  const failed = contextOf(deps, operationById(deps.db, args.failed)!, around);
  const ctx: RepairContext = { deps, operationId, threadId, args, failed };
  return {
    ...common(deps, op, around),
    plan: repairPlan(args.repair),
    steps: repairSteps(args.repair),
    ctx,
    onFinished: (db) => repairFinished(db, ctx),
    onFailed: (db, error) => repairFailed(db, ctx, error),
  };
}

/** The row stays, with its journal; its edge goes, so that nothing waits for a thread that is not there. */
function creationFailed(
  db: Db,
  deps: CreationDeps,
  threadId: ThreadId,
  operationId: LifecycleOpId,
  error: string,
): void {
  const now = deps.clock.now();
  deleteLink(db, threadId);
  setLifecycle(db, threadId, "Creating", "CreateFailed");
  acknowledgeAttention(db, threadId, "startup-dialog", now);
  const name = threadById(db, threadId)?.name ?? threadId;
  raiseAttention(db, {
    threadId,
    kind: "create-failed",
    dedupKey: operationId,
    message: `"${name}" could not be made: ${error}`,
    loud: false,
    now,
  });
  appendEvent(db, { threadId, kind: "lifecycle", data: { to: "CreateFailed" }, now });
}
