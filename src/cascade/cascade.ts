/** One repository's cascade: watching, boundaries, boot recovery. The daemon talks to nothing else in this folder. */
import type { HookDecision } from "../core/hook-decision.ts";
import type { OpId, ThreadId } from "../core/ids.ts";
import { errorLine } from "../core/errors.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import { write } from "../store/db.ts";
import { cascadeThread, liveIncarnations, watchedThreads } from "../store/edges.ts";
import { boundIntents } from "../store/intents.ts";
import { closeOrphanedAttributions, liveAttributions } from "../store/ops.ts";
import { Boundary } from "./boundary.ts";
import { Deliver, forgetHeld, refreshMarker } from "./deliver.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { Inbox } from "./inbox.ts";
import { changeIntents } from "./moves.ts";
import { settle, type SettleMode } from "./settle.ts";
import { Views } from "./views.ts";
import { Watcher } from "./watcher.ts";

/** kiki's own jj commands that survived a killed daemon get this long to end by themselves. */
const SURVIVING_JJ_MS = 5_000;
const SURVIVING_JJ_POLL_MS = 20;
/** A `UserPromptSubmit` may wait this long for the ready transaction. */
const READY_WAIT_MS = 9_000;

export interface Cascade {
  /** Boot recovery, then watching. Hook calls that arrive earlier wait for the recovery. */
  start(): Promise<void>;
  stop(): Promise<void>;
  refreshToFrontier(): Promise<OpId[]>;
  /** A new edge: what its parent did between the pinned operation and the edge's row gets its intent now. */
  classifyEdge(child: ThreadId): Promise<void>;
  preToolUse(caller: HookCaller, raw: unknown): Promise<HookDecision>;
  hold(caller: HookCaller, token: string, signal: AbortSignal): Promise<HookDecision>;
  markDelivered(caller: HookCaller, intentId: string, turn: number, batch: number): boolean;
  event(caller: HookCaller, raw: unknown): Promise<void>;
  watching(): { events: boolean; reason: string | null };
}

export function makeCascade(deps: CascadeDeps): Cascade {
  const views = new Views(deps.jj);
  const watcher = new Watcher(deps, views);
  const boundaries = new Map<string, Boundary>();
  const running = new Set<Promise<void>>();
  const booted = Promise.withResolvers<void>();

  const boundary = (incarnation: string): Boundary => {
    const known = boundaries.get(incarnation);
    if (known !== undefined) return known;
    const fresh = new Boundary();
    boundaries.set(incarnation, fresh);
    return fresh;
  };
  const inbox = new Inbox(
    deps,
    (incarnation) => boundary(incarnation).changed(),
    (caller, whose) => forgetHeld(deps, caller, boundary(caller.incarnation), whose),
  );

  const startSettling = (
    caller: HookCaller,
    intentId: string,
    ordinal: number,
    mode: SettleMode,
  ): void => {
    const b = boundary(caller.incarnation);
    const settling = { intentId, ordinal, open: mode === "bind" };
    b.begin(settling);
    const work = settle({
      deps,
      views,
      inbox,
      boundary: b,
      settling,
      caller,
      intentId,
      ordinal,
      mode,
      refresh: () => watcher.refresh(),
    });
    running.add(work);
    void work.finally(() => running.delete(work));
  };
  const deliver = new Deliver({ deps, inbox, boundary, settle: startSettling });

  const recover = async (): Promise<void> => {
    await survivingJj(deps);
    write(deps.db, () => closeOrphanedAttributions(deps.db));
    for (const thread of watchedThreads(deps.db)) refreshMarker(deps, thread.threadId);
    // Events that were spooled while no daemon was there count before anything is resumed.
    for (const caller of liveIncarnations(deps.db)) await inbox.drain(caller);
    for (const intent of boundIntents(deps.db)) {
      if (intent.state !== "Reconciling" || intent.barrier === null) continue;
      const caller = { threadId: intent.threadId, incarnation: intent.barrier.incarnation };
      deps.log.info(`resuming intent ${intent.intentId}`);
      startSettling(caller, intent.intentId, intent.barrier.batch, "resume");
    }
  };

  return {
    async start() {
      try {
        await recover();
      } finally {
        booted.resolve();
      }
      await watcher.start();
      await watcher
        .refresh()
        .catch((error: unknown) => deps.log.error("first read of operations failed", error));
    },
    async stop() {
      await watcher.stop();
      await Promise.all(running);
    },
    refreshToFrontier: () => watcher.refresh(),
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
    },
    watching: () => watcher.state,
  };
}

/** After a `kill -9` a jj child of ours may still be running: nothing is judged before it has ended. */
async function survivingJj(deps: CascadeDeps): Promise<void> {
  const deadline = deps.clock.monotonic() + SURVIVING_JJ_MS;
  for (const { token } of liveAttributions(deps.db)) {
    try {
      while (deps.processes.withArgument(token).length > 0 && deps.clock.monotonic() < deadline) {
        await deps.clock.sleep(SURVIVING_JJ_POLL_MS);
      }
    } catch (error) {
      deps.log.warn(`cannot look for surviving jj processes: ${errorLine(error)}`);
    }
  }
}
