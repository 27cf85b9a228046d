/** Edges that wait for a person: what can be done about them, and the sagas that do it. */
import type { Claim } from "../core/approval.ts";
import { fail } from "../core/errors.ts";
import type { IntentId, LifecycleOpId, ThreadId } from "../core/ids.ts";
import { REPAIRS } from "../core/plans/repair.ts";
import { planOf } from "../core/plans/template.ts";
import type { SagaPlan } from "../core/saga.ts";
import {
  examineTrouble,
  troublePlans,
  type EdgeTrouble,
  type TroubleOrder,
} from "../core/trouble.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Ids } from "../ports/ids.ts";
import type { Log } from "../ports/log.ts";
import { raiseAttention } from "../store/attention.ts";
import { write, type Db } from "../store/db.ts";
import { intentById } from "../store/intents.ts";
import {
  insertOperation,
  latestOperation,
  operationById,
  runningOperations,
  type OperationRow,
} from "../store/lifecycle-ops.ts";
import { threadById } from "../store/threads.ts";
import type { Repairer } from "./repairs.ts";

/** Part of the journal. */
interface EdgeRepairArgs {
  repair: "edge";
  repairId: string;
  intentId: IntentId;
  order: TroubleOrder;
}

/** A saga's step, as its runner knows it. */
interface Step<I, E> {
  readonly name: string;
  identity(ctx: OperationRow): I;
  observe(
    ctx: OperationRow,
    identity: I,
  ): { is: "done"; evidence: E } | { is: "not-done" } | { is: "unknown"; reason: string };
  run(ctx: OperationRow, identity: I): Promise<E>;
  retryable?(error: unknown): boolean;
}

export interface EdgeSaga {
  plan: SagaPlan;
  steps: readonly Step<unknown, unknown>[];
  operationId: LifecycleOpId;
  ctx: OperationRow;
  db: Db;
  clock: Clock;
  crash: CrashPoints;
  log: Log;
  stopping: AbortSignal;
  progressed(): void;
  onFinished(db: Db): void;
  onFailed(db: Db, error: string): void;
}

export interface EdgeRepairDeps {
  db: Db;
  clock: Clock;
  ids: Ids;
  crash: CrashPoints;
  log: Log;
  /** The neighbour that brings children up to date. */
  troubles: {
    of(threadId: ThreadId): { intentId: IntentId } | null;
    look(threadId: ThreadId): Promise<EdgeTrouble | null>;
    settle(intentId: IntentId, order: TroubleOrder, operationId: LifecycleOpId): Promise<string>;
  };
  /** The neighbour that runs journals. Rejects when the saga is left for the next start. */
  runSaga(saga: EdgeSaga): Promise<unknown>;
  repairHolds(threadId: ThreadId, repairId: string): Promise<boolean>;
}

export interface EdgeRepairs extends Repairer {
  /** At boot: goes on with every repair of an edge that an earlier daemon left unfinished. Returns how many. */
  resumeAll(): number;
  /** What runs is left at its next journal entry, for the next start. */
  stop(): Promise<void>;
}

const EDITS = planOf(REPAIRS.recoverEdits);
const TRANSITION = planOf(REPAIRS.giveUpTransition);

export function makeEdgeRepairs(deps: EdgeRepairDeps): EdgeRepairs {
  const stopping = new AbortController();
  const running = new Set<Promise<unknown>>();

  const start = (op: OperationRow): void => {
    const run = deps.runSaga(sagaOf(deps, op, stopping.signal)).catch((error: unknown) => {
      if (!stopping.signal.aborted) deps.log.error(`repair ${op.operationId} stopped`, error);
    });
    running.add(run);
    void run.finally(() => running.delete(run));
  };

  return {
    concerns: (thread) =>
      thread.lifecycle === "Active" && deps.troubles.of(thread.threadId) !== null,
    async examine(thread) {
      const trouble = await deps.troubles.look(thread.threadId);
      return trouble === null
        ? { authority: [], observed: [], notes: [], proposals: [], needsRepair: false }
        : examineTrouble(trouble);
    },
    async prepare(thread, kind) {
      const trouble = await deps.troubles.look(thread.threadId);
      const chosen =
        trouble === null ? undefined : troublePlans(trouble).find((p) => p.proposal.kind === kind);
      if (trouble === null || chosen === undefined)
        throw fail("failed", "repair-unknown", `no repair of kind ${kind}`, "kk repair");
      const { intentId } = trouble;
      return {
        textFor: () => "",
        digest: JSON.stringify([intentId, chosen.order]),
        async begin(repairId, claim) {
          const args: EdgeRepairArgs = { repair: "edge", repairId, intentId, order: chosen.order };
          const op = begin(deps, thread.threadId, args, claim);
          start(op);
          return op.operationId;
        },
      };
    },
    resumeAll() {
      const ops = runningOperations(deps.db, "Repair").filter(isEdgeRepair);
      for (const op of ops) start(op);
      return ops.length;
    },
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

function isEdgeRepair(op: OperationRow): boolean {
  return (op.args as Partial<EdgeRepairArgs>).repair === "edge";
}

/** The journal and the approval it is spent on, in one transaction. */
function begin(
  deps: EdgeRepairDeps,
  threadId: ThreadId,
  args: EdgeRepairArgs,
  claim: Claim,
): OperationRow {
  const { db } = deps;
  const operationId = deps.ids.uuid();
  const { steps } = planFor(args.order);
  write(db, () => {
    const running = latestOperation(db, threadId)?.state === "Running";
    const same = deps.troubles.of(threadId)?.intentId === args.intentId;
    if (threadById(db, threadId)?.lifecycle !== "Active" || running || !same) throw stale();
    insertOperation(db, {
      operationId,
      threadId,
      kind: "Repair",
      args,
      steps,
      now: deps.clock.now(),
    });
    claim(operationId);
  });
  return operationById(db, operationId)!;
}

function planFor(order: TroubleOrder): SagaPlan {
  return order.do === "discard" || order.do === "reanchor" ? TRANSITION : EDITS;
}

function stale(): Error {
  return fail(
    "approval",
    "repair-stale",
    "this is not the state the repair was made for any more",
    "kk repair shows what there is to repair now",
  );
}

function sagaOf(deps: EdgeRepairDeps, op: OperationRow, stopping: AbortSignal): EdgeSaga {
  const args = op.args as EdgeRepairArgs;
  const plan = planFor(args.order);
  return {
    plan,
    steps: [recheck(deps, args), carryOut(deps, plan, args)] as Step<unknown, unknown>[],
    operationId: op.operationId,
    ctx: op,
    db: deps.db,
    clock: deps.clock,
    crash: deps.crash,
    log: deps.log,
    stopping,
    progressed: () => undefined,
    onFinished: () => undefined,
    onFailed(db, error) {
      const name = threadById(db, op.threadId)?.name ?? op.threadId;
      raiseAttention(db, {
        threadId: op.threadId,
        kind: "repair-failed",
        dedupKey: op.operationId,
        message: `"${name}" could not be repaired: ${error}`,
        loud: false,
        now: deps.clock.now(),
      });
    },
  };
}

function recheck(
  deps: EdgeRepairDeps,
  args: EdgeRepairArgs,
): Step<{ repairId: string }, { repairId: string }> {
  return {
    name: "recheck",
    identity: () => ({ repairId: args.repairId }),
    observe: () => ({ is: "not-done" }), // `run` only looks
    async run(op, id) {
      if (!(await deps.repairHolds(op.threadId, id.repairId))) throw stale();
      return id;
    },
  };
}

/** Looks before it acts, at every step of its own: it may be run again after a crash. */
function carryOut(
  deps: EdgeRepairDeps,
  plan: SagaPlan,
  args: EdgeRepairArgs,
): Step<{ intentId: IntentId; order: TroubleOrder }, { outcome: string }> {
  return {
    name: plan.steps.at(-1)!.name,
    identity: () => ({ intentId: args.intentId, order: args.order }),
    observe() {
      const state = intentById(deps.db, args.intentId)?.state;
      const waits = state === "RecoveryRequired" || state === "TopologyDiverged";
      return waits
        ? { is: "not-done" }
        : { is: "done", evidence: { outcome: `the intent is ${state}` } };
    },
    async run(op, { intentId, order }) {
      return { outcome: await deps.troubles.settle(intentId, order, op.operationId) };
    },
    retryable: (error) => (error as { kind?: string }).kind === "failed",
  };
}
