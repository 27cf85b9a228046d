/** `kk new`: the door to planning, starting, resuming and finishing the making of a thread. */
import { agentEnv } from "../core/agent-env.ts";
import { errorLine, fail } from "../core/errors.ts";
import type { IncarnationId, LifecycleOpId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { CREATE_PLAN } from "../core/saga-plans.ts";
import { acknowledgeAttention, raiseAttention } from "../store/attention.ts";
import { write, type Db } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import {
  insertOperation,
  operationById,
  runningOperations,
  type OperationRow,
} from "../store/lifecycle-ops.ts";
import { deleteLink, insertThread, setLifecycle, slugTaken, threadById } from "../store/threads.ts";
import {
  envFile,
  type CreateArgs,
  type CreateContext,
  type CreateInput,
  type CreationDeps,
} from "./creation-deps.ts";
import { planCreation, type CreationPlan } from "./creation-plan.ts";
import { credentialStep, harnessConfigStep, setupStep } from "./creation-steps-agent.ts";
import { allocateStep, bookmarkStep, headStep, workspaceStep } from "./creation-steps-jj.ts";
import { readyStep } from "./creation-steps-ready.ts";
import { gateStep, launchStep, sessionStep } from "./creation-steps-session.ts";
import { Gate } from "./gate.ts";
import { goneAgents } from "./gone-agents.ts";
import type { Launch } from "./launch.ts";
import { runSaga, SagaSuspended, type AnyStep, type Saga } from "./saga-runner.ts";
import { Signals } from "./signals.ts";

/** In the order of `CREATE_PLAN`; the runner checks that the two agree. */
export const CREATE_STEPS: readonly AnyStep<CreateContext>[] = [
  allocateStep,
  workspaceStep,
  headStep,
  bookmarkStep,
  credentialStep,
  harnessConfigStep,
  setupStep,
  sessionStep,
  launchStep,
  gateStep,
  readyStep,
] as AnyStep<CreateContext>[];

export interface Created {
  repoId: string;
  threadId: ThreadId;
  name: string;
  operationId: LifecycleOpId;
}

export interface Creation {
  /** Non-mutating preflight; errors as `planCreation`. */
  plan(input: CreateInput): Promise<CreationPlan>;
  /**
   * Resolves as soon as thread row and journal are durable; the making itself goes on in the background. Throws
   * `plan-changed` when the plan a person confirmed (`digest`) is not the one that would be carried out now.
   */
  create(input: CreateInput & { digest: string }): Promise<Created>;
  /** At boot: goes on with every creation an earlier daemon left unfinished. Returns how many. */
  resumeAll(): number;
  awaitGate(
    threadId: ThreadId,
    paneId: string,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<Launch | null>;
  harnessStarted(incarnation: IncarnationId, pid: number, startTime: string): void;
  harnessExited(incarnation: IncarnationId, exitCode: number | null, signal: number | null): void;
  sessionStarted(incarnation: IncarnationId, sessionId: string): Promise<void>;
  /** Retires every agent that is gone together with the wrapper that would have said so. Returns how many. */
  retireGone(): number;
  isReady(incarnation: IncarnationId): boolean;
  waitReady(incarnation: IncarnationId, ms: number): Promise<boolean>;
  /** Resolves when something about the thread's operation or incarnation changed, or after `ms`. Look again then. */
  changed(threadId: ThreadId, ms: number, signal?: AbortSignal): Promise<void>;
  /** Stops waiting without failing anything; what is unfinished goes on with the next `resumeAll`. */
  stop(): Promise<void>;
}

export function makeCreation(deps: CreationDeps): Creation {
  const signals = new Signals(deps.clock);
  const gate = new Gate(deps, signals);
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();

  const enqueue = (op: OperationRow): void => {
    const saga = sagaOf(deps, op, { signals, gate, stopping: stopping.signal });
    // A queue of its own: the handshake of this very thread must not wait behind the step that waits for it.
    const run = deps.queues
      .run(`creation:${op.threadId}`, () => runSaga(saga))
      .then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof SagaSuspended) return;
          deps.log.error(`making thread ${op.threadId} stopped: ${errorLine(error)}`, error);
        },
      );
    running.add(run);
    void run.finally(() => running.delete(run));
  };

  return {
    plan: (input) => planCreation(deps, input),
    async create(input) {
      const plan = await planCreation(deps, input);
      const created = await begin(deps, plan, input);
      enqueue(operationById(deps.db, created.operationId)!);
      return created;
    },
    resumeAll() {
      const unfinished = runningOperations(deps.db, "Create");
      for (const op of unfinished) enqueue(op);
      return unfinished.length;
    },
    awaitGate: (threadId, paneId, waitMs, signal) =>
      gate.awaitGate(threadId, paneId, waitMs, signal),
    harnessStarted: (incarnation, pid, startTime) =>
      gate.harnessStarted(incarnation, pid, startTime),
    harnessExited: (incarnation, code, signal) => gate.harnessExited(incarnation, code, signal),
    sessionStarted: (incarnation, sessionId) => gate.sessionStarted(incarnation, sessionId),
    retireGone() {
      const gone = goneAgents(deps);
      for (const incarnation of gone) gate.harnessExited(incarnation, null, null);
      return gone.length;
    },
    isReady: (incarnation) => gate.isReady(incarnation),
    waitReady: (incarnation, ms) => gate.waitReady(incarnation, ms),
    changed: (threadId, ms, signal) => signals.wait(threadId, ms, signal),
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

/** The environment file, then row and journal in one transaction: a creation that exists can always be resumed. */
async function begin(
  deps: CreationDeps,
  plan: CreationPlan,
  input: CreateInput & { digest: string },
): Promise<Created> {
  if (plan.digest !== input.digest) throw planChanged();
  const threadId = deps.ids.uuid();
  const operationId = deps.ids.uuid();
  const { harness } = threadPaths(deps.stateDir, deps.repoId, threadId);
  // Filtered again: whoever calls, nothing outside the list reaches an agent.
  const env = JSON.stringify(agentEnv(input.env));
  await deps.files.ensureDir(harness, 0o700);
  await deps.files.writeDurable(envFile(harness), env, 0o600);
  try {
    write(deps.db, () => insertCreation(deps, plan, input, { threadId, operationId }));
  } catch (error) {
    await deps.files.removeTree(harness);
    throw error;
  }
  return { repoId: deps.repoId, threadId, name: plan.names.name, operationId };
}

function insertCreation(
  deps: CreationDeps,
  plan: CreationPlan,
  input: CreateInput,
  ids: { threadId: ThreadId; operationId: LifecycleOpId },
): void {
  const { db } = deps;
  const now = deps.clock.now();
  // Another creation may have taken the name since the plan was recomputed.
  if (slugTaken(db, plan.names.slug)) throw planChanged();
  insertThread(db, {
    ...plan.names,
    threadId: ids.threadId,
    harness: plan.harness,
    harnessExecutable: plan.harnessExecutable,
    harnessArgs: input.harnessArgs,
    firstPrompt: input.prompt,
    tmuxSocket: input.tmuxSocket,
    createdAt: now,
  });
  const steps = CREATE_PLAN.steps.map((s) => s.name);
  insertOperation(db, { ...ids, kind: "Create", args: plan.args, steps, now });
  appendEvent(db, { threadId: ids.threadId, kind: "lifecycle", data: { to: "Creating" }, now });
}

function planChanged(): Error {
  return fail(
    "approval",
    "plan-changed",
    "what you confirmed is not what would happen now: something it is based on has changed",
    "run kk new again and look at the new plan",
  );
}

function sagaOf(
  deps: CreationDeps,
  op: OperationRow,
  of: { signals: Signals; gate: Gate; stopping: AbortSignal },
): Saga<CreateContext> {
  const { threadId, operationId } = op;
  const ctx: CreateContext = {
    deps,
    signals: of.signals,
    stopping: of.stopping,
    operationId,
    threadId,
    args: op.args as CreateArgs,
    trouble: () => of.gate.trouble(threadId),
  };
  return {
    plan: CREATE_PLAN,
    steps: CREATE_STEPS,
    operationId,
    ctx,
    db: deps.db,
    clock: deps.clock,
    crash: deps.crash,
    log: deps.log,
    stopping: of.stopping,
    progressed: () => of.signals.notify(threadId),
    // The handshake's own transaction ends a creation (gate.ts); a journal that ended otherwise is a bug.
    onFinished: (db) => setLifecycle(db, threadId, "Creating", "Active"),
    onFailed: (db, error) => creationFailed(db, deps, threadId, operationId, error),
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
