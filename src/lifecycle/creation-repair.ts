/**
 * What becomes of a creation that failed, once a person has chosen: made again under the same id and name, or cleaned
 * up for good. Both first undo what the failed one could not, by its own journal and its own rules.
 */
import { agentEnv } from "../core/agent-env.ts";
import type { Claim } from "../core/approval.ts";
import { fail } from "../core/errors.ts";
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { CREATE_PLAN } from "../core/plans/agent.ts";
import { REPAIRS } from "../core/plans/repair.ts";
import { planOf } from "../core/plans/template.ts";
import { takesUp, type SagaPlan } from "../core/saga.ts";
import { acknowledgeAttention, raiseAttention } from "../store/attention.ts";
import { write, type Db } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import {
  insertOperation,
  latestOperation,
  moveStep,
  operationById,
  startUndo,
  stepsOf,
  type OperationRow,
  type StepRow,
} from "../store/lifecycle-ops.ts";
import { setHarnessExecutable, setLifecycle, threadById } from "../store/threads.ts";
import {
  envFile,
  settingsOf,
  type CreateArgs,
  type CreateContext,
  type CreationDeps,
} from "./creation-deps.ts";
import { CREATE_STEPS } from "./creation-steps.ts";
import type { AnyStep, StepDef } from "./saga.ts";

const RETRY = planOf(REPAIRS.retryCreation);
const CLEAN_UP = planOf(REPAIRS.cleanUpCreation);

export type CreationRepair = "retry" | "clean-up";

/** Part of the journal; no secrets. */
export interface RepairArgs {
  repair: CreationRepair;
  /** What the person chose: a hash of the plan and of what was observed. */
  repairId: string;
  /** The creation that failed. */
  failed: LifecycleOpId;
  /** Of the creation that follows; null for a clean-up. */
  create: CreateArgs | null;
  /** The program as it was found for this retry. */
  harnessExecutable: string | null;
}

export interface RepairContext {
  readonly deps: CreationDeps;
  readonly operationId: LifecycleOpId;
  readonly threadId: ThreadId;
  readonly args: RepairArgs;
  /** The failed creation, as its own steps see it. */
  readonly failed: CreateContext;
}

export function repairPlan(repair: CreationRepair): SagaPlan {
  return repair === "retry" ? RETRY : CLEAN_UP;
}

export function repairSteps(repair: CreationRepair): readonly AnyStep<RepairContext>[] {
  const steps =
    repair === "retry" ? [recheckStep, unwindStep] : [recheckStep, unwindStep, tombstoneStep];
  return steps as AnyStep<RepairContext>[];
}

/** The environment of the creation to come waits here: the thread's own folder goes while the old one is undone. */
function stashFile(ctx: Pick<RepairContext, "deps" | "threadId">): string {
  return `${harnessOf(ctx)}.retry.json`;
}

function harnessOf({ deps, threadId }: Pick<RepairContext, "deps" | "threadId">): string {
  return threadPaths(deps.stateDir, deps.repoId, threadId).harness;
}

/** The environment first, then the journal in one transaction. */
export async function beginRepair(
  deps: CreationDeps,
  threadId: ThreadId,
  args: RepairArgs,
  env: Record<string, string> | null,
  claim: Claim,
): Promise<LifecycleOpId> {
  const operationId = deps.ids.uuid();
  // What a running repair keeps aside is in the same file.
  checkFailed(deps, threadId);
  if (env !== null) {
    const text = JSON.stringify({ ...agentEnv(env), ...settingsOf(deps).agentEnv });
    await deps.files.ensureDir(harnessOf({ deps, threadId }).replace(/\/[^/]*$/, ""), 0o700);
    await deps.files.writeDurable(stashFile({ deps, threadId }), text, 0o600);
  }
  try {
    write(deps.db, () => {
      const now = deps.clock.now();
      checkFailed(deps, threadId);
      const { steps } = repairPlan(args.repair);
      insertOperation(deps.db, { operationId, threadId, kind: "Repair", args, steps, now });
      claim(operationId);
    });
  } catch (error) {
    if (env !== null) await dropStash(deps, threadId);
    throw error;
  }
  return operationId;
}

/** Throws `repair-stale` unless it failed and nothing is done about it yet. */
function checkFailed(deps: CreationDeps, threadId: ThreadId): void {
  const thread = threadById(deps.db, threadId);
  const last = latestOperation(deps.db, threadId);
  if (thread?.lifecycle !== "CreateFailed" || last?.state === "Running") throw stale();
}

export function stale(): Error {
  return fail(
    "approval",
    "repair-stale",
    "this is not the state the repair was made for any more",
    "kk repair shows what there is to repair now",
  );
}

/** A repair that did not get to its end keeps nothing of the person's environment. */
export async function dropStash(deps: CreationDeps, threadId: ThreadId): Promise<void> {
  await deps.files.removeDurable(stashFile({ deps, threadId }));
}

// ---- steps --------------------------------------------------------------------------------------------------

const recheckStep: StepDef<RepairContext, { repairId: string }, { repairId: string }> = {
  name: "recheck",
  identity: (ctx) => ({ repairId: ctx.args.repairId }),
  observe: () => ({ is: "not-done" }), // `run` only looks
  async run(ctx, id) {
    if (!(await ctx.deps.repairHolds(ctx.threadId, id.repairId))) throw stale();
    return id;
  },
};

const unwindStep: StepDef<RepairContext, { failed: string }, { undone: string[] }> = {
  name: "unwind",
  identity: (ctx) => ({ failed: ctx.args.failed }),
  observe: () => ({ is: "not-done" }), // `run` goes on from the failed operation's own journal
  async run(ctx) {
    const undone = await unwind(ctx.failed);
    if (ctx.args.repair === "retry") await restoreEnv(ctx);
    return { undone };
  },
};

/** The row says Destroyed in the transaction that ends the repair; before it, what kiki kept of the thread goes. */
const tombstoneStep: StepDef<RepairContext, { op: string }, { op: string }> = {
  name: "tombstone",
  identity: (ctx) => ({ op: ctx.operationId }),
  observe: () => ({ is: "not-done" }),
  async run(ctx, id) {
    const { deps, threadId } = ctx;
    const { setup, harness } = threadPaths(deps.stateDir, deps.repoId, threadId);
    for (const folder of [setup, harness]) await deps.files.removeTree(folder);
    await dropStash(deps, threadId);
    return id;
  },
};

/** Steps of a failed creation that still have something to undo, last one first. */
export function leftToUndo(db: Db, failed: OperationRow): StepRow[] {
  const steps = stepsOf(db, failed.operationId);
  if (takesUp(CREATE_PLAN, steps) !== "unwind") return [];
  const open = new Set(["Started", "Completed", "Compensating"]);
  return steps.filter((step) => open.has(step.state)).reverse();
}

/** Undoes them in the journal of the operation they are of. Throws what the first one that cannot be undone throws. */
async function unwind(failed: CreateContext): Promise<string[]> {
  const { db } = failed.deps;
  const op = operationById(db, failed.operationId);
  if (op === null) throw new Error(`no operation ${failed.operationId}`);
  const undone: string[] = [];
  for (const row of leftToUndo(db, op)) {
    const def = CREATE_STEPS[row.ordinal - 1]!;
    const at = { operationId: op.operationId, ordinal: row.ordinal };
    if (def.compensate === undefined) {
      write(db, () => {
        moveStep(db, at, [row.state], row.state === "Completed" ? "Compensated" : "Failed");
        def.onCompensated?.(db, failed, row.identity);
      });
      continue;
    }
    write(db, () => {
      startUndo(db, at, row);
      if (row.state !== "Compensating") def.onCompensating?.(db, failed, row.identity);
    });
    await def.compensate(failed, row.identity, row.result);
    write(db, () => {
      moveStep(db, at, ["Compensating"], "Compensated");
      def.onCompensated?.(db, failed, row.identity);
    });
    undone.push(row.name);
  }
  return undone;
}

async function restoreEnv(ctx: RepairContext): Promise<void> {
  const { files } = ctx.deps;
  const harness = harnessOf(ctx);
  const stash = await files.readText(stashFile(ctx));
  // After a crash it may have been moved already.
  if (stash === null && (await files.readText(envFile(harness))) !== null) return;
  if (stash === null)
    throw fail("failed", "environment-lost", `${stashFile(ctx)} is gone`, "kk repair");
  await files.ensureDir(harness, 0o700);
  await files.writeDurable(envFile(harness), stash, 0o600);
  await files.removeDurable(stashFile(ctx));
}

// ---- its end ------------------------------------------------------------------------------------------------

/** Attention that was about the creation that is no more. */
const OVER = ["create-failed", "folder-kept", "setup-failed", "repair-failed"];

/** In the transaction that ends the repair: the row's new state, and for a retry the journal of the new creation. */
export function repairFinished(db: Db, ctx: RepairContext): void {
  const { threadId, args, deps } = ctx;
  const now = deps.clock.now();
  for (const kind of OVER) acknowledgeAttention(db, threadId, kind, now);
  const to = args.repair === "retry" ? "Creating" : "Destroyed";
  setLifecycle(db, threadId, "CreateFailed", to);
  appendEvent(db, { threadId, kind: "lifecycle", data: { to }, now });
  if (args.create === null) return;
  if (args.harnessExecutable !== null) setHarnessExecutable(db, threadId, args.harnessExecutable);
  insertOperation(db, {
    operationId: deps.ids.uuid(),
    threadId,
    kind: "Create",
    args: args.create,
    steps: CREATE_PLAN.steps,
    now,
  });
}

/** The thread stays `CreateFailed`; its creation's own journal says how far undoing has come. */
export function repairFailed(db: Db, ctx: RepairContext, error: string): void {
  const { threadId, deps } = ctx;
  const name = threadById(db, threadId)?.name ?? threadId;
  raiseAttention(db, {
    threadId,
    kind: "repair-failed",
    dedupKey: ctx.operationId,
    message: `"${name}" could not be repaired: ${error}`,
    loud: false,
    now: deps.clock.now(),
  });
}
