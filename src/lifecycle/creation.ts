/** `kk new`: the door to planning, starting, resuming and finishing the making of a thread. */
import { agentEnv } from "../core/agent-env.ts";
import type { Claim } from "../core/approval.ts";
import { errorLine, fail } from "../core/errors.ts";
import type { IncarnationId, LifecycleOpId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { CREATE_PLAN } from "../core/plans/agent.ts";
import { write } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import {
  insertOperation,
  latestOperation,
  operationById,
  runningOperations,
  type OperationRow,
} from "../store/lifecycle-ops.ts";
import { insertThread, slugTaken } from "../store/threads.ts";
import { envFile, type CreateInput, type CreationDeps, settingsOf } from "./creation-deps.ts";
import { chooseNames, NameReservations } from "./creation-names.ts";
import { planCreation, type CreationPlan } from "./creation-plan.ts";
import {
  beginRepair,
  dropStash,
  leftToUndo,
  stale,
  type CreationRepair,
  type RepairArgs,
} from "./creation-repair.ts";
import { failedCreation, planRetry, retryBase, type RetryCaller } from "./creation-retry.ts";
import { isCreationRepair, repairSagaOf, sagaOf } from "./creation-sagas.ts";
import { sweepForgotten } from "./creation-sweep.ts";
import type { BaseChoice } from "./creation-base.ts";
import { Gate } from "./gate.ts";
import { goneAgents } from "./gone-agents.ts";
import type { Launch } from "./launch.ts";
import { QuietAgents } from "./quiet-agents.ts";
import { releaseAllSettings, releaseSettings } from "./release-settings.ts";
import { Relaunch } from "./relaunch.ts";
import { runSaga } from "./saga-runner.ts";
import { SagaSuspended } from "./saga.ts";
import { Signals } from "./signals.ts";

export interface Created {
  repoId: string;
  threadId: ThreadId;
  name: string;
  operationId: LifecycleOpId;
}

export interface Creation {
  /**
   * Non-mutating preflight; errors as `chooseNames` and `planCreation`. The plan's names are kept for it while the
   * process `clientPid`, which shows it, lives, at most as long as a challenge does.
   */
  plan(input: CreateInput, clientPid?: number): Promise<CreationPlan>;
  /**
   * Resolves as soon as thread row and journal are durable, with the approval spent on them (`claim`); the making itself
   * goes on in the background. Throws `plan-changed` when the plan a person confirmed (`digest`) is not the one that
   * would be carried out now, and what `claim` throws, and `daemon-stopping` once it was told to stop.
   */
  create(input: CreateInput & { digest: string }, claim: Claim): Promise<Created>;
  /** At boot: goes on with every creation and repair an earlier daemon left unfinished. Returns how many. */
  resumeAll(): number;
  /** Steps of a failed creation that still have something to undo, by name, last one first. */
  leftovers(threadId: ThreadId): string[];
  /** Where a retry would start from. Throws why none is possible. */
  retryBase(threadId: ThreadId): Promise<BaseChoice>;
  /** The plan of the failed creation made once more. Errors as `planCreation`. */
  planRetry(threadId: ThreadId, caller: RetryCaller): Promise<CreationPlan>;
  /**
   * Takes up a failed creation as a person chose (`repairId`): a retry needs the plan they agreed to. Resolves with the
   * repair's operation as soon as it is durable. Throws `repair-stale`.
   */
  repair(
    threadId: ThreadId,
    choice: { repair: CreationRepair; repairId: string },
    retry: { plan: CreationPlan; caller: RetryCaller } | null,
    claim: Claim,
  ): Promise<LifecycleOpId>;
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
  /** Ends, for display, turns that a person broke off without any hook saying so. Returns how many. */
  lookAtQuiet(): Promise<number>;
  /** What is done to a thread's agent after its first incarnation. */
  readonly agents: Relaunch;
  isReady(incarnation: IncarnationId): boolean;
  waitReady(incarnation: IncarnationId, ms: number): Promise<boolean>;
  /** Resolves when something about the thread's operation or incarnation changed, or after `ms`. Look again then. */
  changed(threadId: ThreadId, ms: number, signal?: AbortSignal): Promise<void>;
  /** Stops waiting without failing anything; what is unfinished goes on with the next `resumeAll`. */
  stop(): Promise<void>;
}

export function makeCreation(given: CreationDeps): Creation {
  const deps: CreationDeps = {
    ...given,
    onRetired(threadId, incarnation) {
      releaseSettings(given, threadId);
      given.onRetired?.(threadId, incarnation);
    },
  };
  const signals = new Signals(deps.clock);
  const gate = new Gate(deps, signals);
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  const names = new NameReservations(deps.clock, deps.processes);
  /** Threads whose files are there already and whose row is not. */
  const beginning = new Set<ThreadId>();

  const agents = new Relaunch(deps, gate, signals, stopping.signal);
  const quiet = new QuietAgents(deps);
  const around = { signals, gate, stopping: stopping.signal };

  const background = (threadId: ThreadId, work: () => Promise<unknown>): void => {
    // A queue of its own: the handshake of this very thread must not wait behind the step that waits for it.
    const run = deps.queues.run(`creation:${threadId}`, work).then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof SagaSuspended) return;
        deps.log.error(`making thread ${threadId} stopped: ${errorLine(error)}`, error);
      },
    );
    running.add(run);
    void run.finally(() => running.delete(run));
  };
  const enqueue = (op: OperationRow): void =>
    background(op.threadId, () => runSaga(sagaOf(deps, op, around)));
  const enqueueRepair = (op: OperationRow): void =>
    background(op.threadId, async () => {
      const ended = await runSaga(repairSagaOf(deps, op, around));
      if (ended === "Failed") return dropStash(deps, op.threadId);
      const next = latestOperation(deps.db, op.threadId);
      if (next?.kind === "Create" && next.state === "Running") enqueue(next);
    });

  return {
    async plan(input, clientPid) {
      const held = names.hold(chooseNames(deps, input, names));
      try {
        const plan = await planCreation(deps, input, held.chosen);
        names.keep(held, plan.digest, clientPid);
        return plan;
      } catch (error) {
        names.release(held);
        throw error;
      }
    },
    async create(input, claim) {
      // Held until the row has them: a plan made meanwhile must not show them as free.
      const held = names.of(input.digest) ?? names.hold(chooseNames(deps, input, names));
      try {
        const plan = await planCreation(deps, input, held.chosen);
        const created = await begin(deps, plan, input, {
          beginning,
          claim,
          stopping: stopping.signal,
        });
        enqueue(operationById(deps.db, created.operationId)!);
        return created;
      } finally {
        names.release(held);
      }
    },
    resumeAll() {
      background("sweep", () => sweepForgotten(deps, beginning));
      const creations = runningOperations(deps.db, "Create");
      for (const op of creations) enqueue(op);
      const repairs = runningOperations(deps.db, "Repair").filter(isCreationRepair);
      for (const op of repairs) enqueueRepair(op);
      return creations.length + repairs.length;
    },
    leftovers: (threadId) =>
      leftToUndo(deps.db, failedCreation(deps, threadId).op).map((step) => step.name),
    retryBase: (threadId) => retryBase(deps, threadId),
    planRetry: (threadId, caller) =>
      planRetry(
        deps,
        threadId,
        caller,
        leftToUndo(deps.db, failedCreation(deps, threadId).op).length > 0,
      ),
    async repair(threadId, choice, retry, claim) {
      if ((choice.repair === "retry") !== (retry !== null)) throw stale();
      const args: RepairArgs = {
        ...choice,
        failed: failedCreation(deps, threadId).op.operationId,
        create: retry?.plan.args ?? null,
        harnessExecutable: retry?.plan.harnessExecutable ?? null,
      };
      // One at a time: both would keep their environment in one place.
      if (beginning.has(threadId)) throw stale();
      beginning.add(threadId);
      try {
        const operationId = await beginRepair(
          deps,
          threadId,
          args,
          retry?.caller.env ?? null,
          claim,
        );
        enqueueRepair(operationById(deps.db, operationId)!);
        return operationId;
      } finally {
        beginning.delete(threadId);
      }
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
      releaseAllSettings(deps);
      return gone.length;
    },
    lookAtQuiet: () => quiet.look(),
    agents,
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
  { beginning, claim, stopping }: { beginning: Set<ThreadId>; claim: Claim; stopping: AbortSignal },
): Promise<Created> {
  if (plan.digest !== input.digest) throw planChanged();
  const threadId = deps.ids.uuid();
  beginning.add(threadId);
  const operationId = deps.ids.uuid();
  const { harness } = threadPaths(deps.stateDir, deps.repoId, threadId);
  // Filtered again: whoever calls, nothing outside the list reaches an agent.
  const env = JSON.stringify({ ...agentEnv(input.env), ...settingsOf(deps).agentEnv });
  try {
    await deps.files.ensureDir(harness, 0o700);
    await deps.files.writeDurable(envFile(harness), env, 0o600);
    // The repository is being closed, or unregistered: nothing would go on with it, and nobody know of it.
    if (stopping.aborted) {
      throw fail("daemonUnavailable", "daemon-stopping", "the daemon is stopping", "try again");
    }
    write(deps.db, () => {
      insertCreation(deps, plan, input, { threadId, operationId });
      claim(operationId);
    });
  } catch (error) {
    await deps.files.removeTree(harness);
    throw error;
  } finally {
    beginning.delete(threadId);
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
  const { steps } = CREATE_PLAN;
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
