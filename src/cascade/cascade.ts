/** One repository's cascade: watching, boundaries, boot recovery. The daemon talks to nothing else in this folder. */
import type { HookDecision } from "../core/hook-decision.ts";
import type { IncarnationId, IntentId, OpId, ThreadId } from "../core/ids.ts";
import { errorLine } from "../core/errors.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import { write } from "../store/db.ts";
import { cascadeThread, liveIncarnations, watchedThreads } from "../store/edges.ts";
import { boundIntents, unresolvedIntents } from "../store/intents.ts";
import { closeOrphanedAttributions } from "../store/ops.ts";
import { runAgain, runSteps, type BootStep } from "./boot-steps.ts";
import { Boundary, type HeldCall } from "./boundary.ts";
import { Deliver, forgetHeld } from "./deliver.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { Inbox } from "./inbox.ts";
import { refreshMarker } from "./marker.ts";
import { changeIntents } from "./moves.ts";
import { refreshToOneHead } from "./one-head.ts";
import { watchFirstAnswer } from "./refused.ts";
import { Restarts } from "./restart.ts";
import { isSerial } from "./serial.ts";
import { settle, type SettleMode } from "./settle.ts";
import { releaseAfterFirst } from "./siblings.ts";
import { makeTroubles, type Troubles } from "./troubles.ts";
import { hardPause } from "./still.ts";
import { survivorsEnded } from "./survivors.ts";
import { turnEnded, type TurnEndInput } from "./turn-end.ts";
import { unhookedEdit } from "./unhooked.ts";
import { Views } from "./views.ts";
import { Watcher } from "./watcher.ts";
import type { Watching } from "./wake.ts";

/** A `UserPromptSubmit` may wait this long for the ready transaction. */
const READY_WAIT_MS = 9_000;

export interface Cascade {
  /** Boot recovery, then watching. Hook calls that arrive earlier wait for the recovery. */
  start(): Promise<void>;
  stop(): Promise<void>;
  refreshToFrontier(): Promise<OpId[]>;
  /** The same for whoever needs one exact view; several heads are merged. Throws `several-op-heads`. */
  refreshToOneHead(): Promise<OpId>;
  /** A new edge: what its parent did between the pinned operation and the edge's row gets its intent now. */
  classifyEdge(child: ThreadId): Promise<void>;
  preToolUse(caller: HookCaller, raw: unknown): Promise<HookDecision>;
  hold(caller: HookCaller, token: string, signal: AbortSignal): Promise<HookDecision>;
  markDelivered(caller: HookCaller, intentId: string, turn: number, batch: number): boolean;
  event(caller: HookCaller, raw: unknown): Promise<void>;
  /** Edges that wait for a person. */
  readonly troubles: Troubles;
  /** Inside the transaction that makes an incarnation ready, or retires it. Call what it returns after the commit. */
  agentReady(threadId: ThreadId, incarnation: IncarnationId): () => void;
  agentEnded(threadId: ThreadId, incarnation: IncarnationId): () => void;
  /** An agent has ended, or a person has repaired something: starts another one where an intent is owed to it. */
  considerRestart(threadId: ThreadId): void;
  /**
   * Inside a transaction: what a person decided about an exhausted delivery. Call what it returns after the commit; it
   * goes on with the thread. Throws when the intent is not exhausted, or in another epoch.
   */
  retryDelivery(intentId: IntentId, epoch: number): () => void;
  discardDelivery(intentId: IntentId, approvalId: string): () => void;
  watching(): Watching;
}

export function makeCascade(deps: CascadeDeps): Cascade {
  const views = new Views(deps.jj);
  const snapshots = new Set<string>();
  /** The commands of the daemon before. */
  let survivorsOver = false;
  const mayRun = (token: string): boolean => !survivorsOver || snapshots.has(token);
  const watcher = new Watcher(deps, views, mayRun);
  const boundaries = new Map<string, Boundary>();
  const running = new Set<Promise<void>>();
  const booted = Promise.withResolvers<void>();
  const stopping = new AbortController();
  let stopped = false;

  const boundary = (incarnation: string): Boundary => {
    const known = boundaries.get(incarnation);
    if (known !== undefined) return known;
    const fresh = new Boundary();
    boundaries.set(incarnation, fresh);
    return fresh;
  };
  /** Never rejects; `stop` waits for it. */
  const track = (work: Promise<void>): void => {
    running.add(work);
    void work.finally(() => running.delete(work));
  };
  const pause = (intentId: string, toolRan = false): void =>
    track(
      hardPause(deps, intentId, toolRan).catch((error: unknown) =>
        deps.log.error(`intent ${intentId}: the agent could not be paused`, error),
      ),
    );
  const awaitAnswer = (caller: HookCaller, turn: string | null): void =>
    track(
      watchFirstAnswer(deps, caller, turn, stopping.signal).catch((error: unknown) => {
        if (!stopped) deps.log.warn(`first answer of ${caller.incarnation}: ${errorLine(error)}`);
      }),
    );
  const inbox: Inbox = new Inbox(
    deps,
    (incarnation) => boundary(incarnation).changed(),
    (caller, whose) => forgetHeld(deps, caller, boundary(caller.incarnation), whose),
    (caller) => {
      track(turnEnded(turnEnd, caller));
      restarts.turnEnded(caller);
    },
    pause,
  );
  const restarts = new Restarts({
    deps,
    views,
    inbox,
    boundary,
    refresh: () => watcher.refresh(),
  });
  const turnEnd: TurnEndInput = {
    deps,
    running: snapshots,
    refresh: () => watcher.refresh(),
    isBusy: (caller) =>
      boundary(caller.incarnation).settling !== null ||
      boundary(caller.incarnation).holds.size > 0 ||
      inbox.passedUnresolved(caller),
  };

  const startSettling = (
    caller: HookCaller,
    intentId: string,
    { ordinal, modelTurn = null }: Pick<HeldCall, "ordinal" | "modelTurn">,
    mode: SettleMode,
  ): void => {
    const b = boundary(caller.incarnation);
    const settling = { intentId, ordinal, open: mode === "bind" };
    b.begin(settling);
    track(
      settle({
        deps,
        views,
        inbox,
        boundary: b,
        settling,
        caller,
        intentId,
        ordinal,
        modelTurn,
        mode,
        refresh: () => watcher.refresh(),
        unhooked: isSerial(deps, caller.threadId) ? () => unhookedEdit(deps, caller) : null,
        restart: () => restarts.consider(caller.threadId, caller.incarnation),
      }),
    );
  };
  const deliver = new Deliver({
    deps,
    inbox,
    boundary,
    settle: startSettling,
    afterFirst: (caller, hold) =>
      track(
        releaseAfterFirst({
          deps,
          boundary: boundary(caller.incarnation),
          caller,
          hold,
          drain: () => inbox.drain(caller),
          stopped: () => stopped,
        }),
      ),
    restart: (caller) => restarts.consider(caller.threadId, caller.incarnation),
    pause,
  });

  /** Events that were spooled while no daemon was there count before anything is resumed. */
  const recoverThread = async (threadId: ThreadId): Promise<void> => {
    refreshMarker(deps, threadId);
    for (const caller of liveIncarnations(deps.db))
      if (caller.threadId === threadId) await inbox.drain(caller);
    for (const intent of boundIntents(deps.db)) {
      if (intent.threadId !== threadId || intent.barrier === null) continue;
      if (intent.state !== "Reconciling" && !intent.recovering) continue;
      const caller = { threadId, incarnation: intent.barrier.incarnation };
      // Where this is not the first try, a call may have come by and begun with it.
      if (boundary(caller.incarnation).settling !== null) continue;
      deps.log.info(`resuming intent ${intent.intentId}`);
      const { batch: ordinal, turn: modelTurn } = intent.barrier;
      startSettling(caller, intent.intentId, { ordinal, modelTurn }, "resume");
    }
  };
  const recovery = (): BootStep[] => {
    const threads = new Set([
      ...watchedThreads(deps.db).map((t) => t.threadId),
      ...liveIncarnations(deps.db).map((c) => c.threadId),
      ...boundIntents(deps.db).map((i) => i.threadId),
    ]);
    return [
      {
        threadId: null,
        what: "what the daemon before had running",
        // A command of jj that may still be writing: nobody resumes beside it.
        gate: true,
        run: async () => {
          await survivorsEnded(deps, deps.settings.survivorMs);
          survivorsOver = true;
          write(deps.db, () => closeOrphanedAttributions(deps.db));
        },
      },
      ...[...threads].map((threadId) => ({
        threadId,
        what: `thread ${threadId}`,
        run: () => recoverThread(threadId),
      })),
      {
        threadId: null,
        what: "agents that are to be started anew",
        run: () => restarts.boot(),
      },
      {
        threadId: null,
        what: "agents that wait",
        run: () => {
          for (const caller of liveIncarnations(deps.db)) awaitAnswer(caller, null);
          // A daemon may have died between the decision and the signal.
          for (const { threadId, lifecycle } of watchedThreads(deps.db))
            if (lifecycle === "Active")
              for (const intent of unresolvedIntents(deps.db, threadId)) pause(intent.intentId);
        },
      },
    ];
  };

  return {
    async start() {
      try {
        const failed = await runSteps(deps, recovery());
        track(runAgain(deps, failed, stopping.signal));
      } finally {
        booted.resolve();
      }
      await watcher.start();
      await watcher
        .refresh()
        .catch((error: unknown) => deps.log.error("first read of operations failed", error));
    },
    async stop() {
      stopped = true;
      stopping.abort();
      await watcher.stop();
      await restarts.stop();
      await Promise.all(running);
    },
    refreshToFrontier: () => watcher.refresh(),
    refreshToOneHead: () => refreshToOneHead(deps, () => watcher.refresh()),
    async classifyEdge(child) {
      await watcher.refresh();
      await watcher.classifyNow((edge) => edge.child === child);
    },
    async preToolUse(caller, raw) {
      await booted.promise;
      const event: HarnessEvent = deps
        .harness(cascadeThread(deps.db, caller.threadId)!.harness)
        .interpretEvent(raw);
      if (event.type !== "PreTool") throw new Error("not a PreToolUse payload");
      return deliver.preTool(caller, event);
    },
    async hold(caller, token, signal) {
      return deliver.hold(caller, token, signal);
    },
    markDelivered(caller, intentId, turn, batch) {
      return changeIntents(deps, (changes) =>
        changes.delivered(
          intentId,
          { incarnation: caller.incarnation, turn, batch },
          deps.clock.now(),
        ),
      );
    },
    async event(caller, raw) {
      await booted.promise;
      const event = deps
        .harness(cascadeThread(deps.db, caller.threadId)!.harness)
        .interpretEvent(raw);
      // Proof before prompt: the first prompt waits until the incarnation is ready.
      if (event.type === "UserPrompt") await deps.waitReady(caller.incarnation, READY_WAIT_MS);
      await inbox.event(caller, raw);
      if (event.type === "UserPrompt") awaitAnswer(caller, event.promptId);
    },
    troubles: makeTroubles(
      deps,
      views,
      () => watcher.refresh(),
      (threadId) => restarts.consider(threadId),
    ),
    agentReady: (threadId, incarnation) => restarts.ready(threadId, incarnation),
    agentEnded: (threadId, incarnation) => restarts.ended(threadId, incarnation),
    considerRestart: (threadId) => restarts.consider(threadId),
    retryDelivery: (intentId, epoch) => restarts.retry(intentId, epoch),
    discardDelivery: (intentId, approvalId) => restarts.discard(intentId, approvalId),
    watching: () => watcher.state,
  };
}
