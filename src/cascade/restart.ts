/**
 * `RestartStartup` (cascade chapter, "Delivery"): where a boundary cannot be proved, the agent is stopped and ended, the
 * files are brought up to date if they were not, and another incarnation is started whose first input is the saved
 * payload. Every step looks first and is durable before the next, so that a restart of the daemon runs the same again.
 */
import { deliver, restartDecision, startupMark } from "../core/delivery.ts";
import { errorLine } from "../core/errors.ts";
import type { IncarnationId, IntentId, OpId, ThreadId } from "../core/ids.ts";
import { isPrepared } from "../core/intent.ts";
import { plainPrompt, startupPrompt } from "../core/payload.ts";
import { deliveryOf, givenUpBehind, startedFor } from "../store/deliveries.ts";
import { cascadeThread, watchedThreads } from "../store/edges.ts";
import { intentById, type IntentRow } from "../store/intents.ts";
import { liveSession, retireForGood, sessionById, type SessionRow } from "../store/sessions.ts";
import { endedForNothing } from "../store/stopped-processes.ts";
import type { Boundary, Settling } from "./boundary.ts";
import { genericDecision } from "./decisions.ts";
import type { CascadeDeps, HookCaller, Startup } from "./deps.ts";
import type { Inbox } from "./inbox.ts";
import { ensureMarker, refreshMarker } from "./marker.ts";
import { agentEffect, alongside, changeIntents } from "./moves.ts";
import { isUnderWay, reconcile } from "./reconcile.ts";
import { answered, sayExhausted, sayNotNow, sayNotStarted } from "./restart-attention.ts";
import { isAnswered, restartNeed, type RestartNeed } from "./restart-need.ts";
import { HOLD_TEXT } from "./texts.ts";
import { forgetTyped, typedForInput } from "./typed.ts";
import type { Views } from "./views.ts";

/** Something outside kiki is in the way (two operation heads, no pane): looked at again after this long. */
const LATER_MS = 20_000;
const RECHECK_MS = 50;

export interface RestartDeps {
  deps: CascadeDeps;
  views: Views;
  inbox: Inbox;
  boundary(incarnation: IncarnationId): Boundary;
  refresh(): Promise<OpId[]>;
}

export class Restarts {
  readonly #d: RestartDeps;
  readonly #stopping = new AbortController();
  readonly #running = new Set<Promise<void>>();
  /** Threads whose restart waits for something outside. */
  readonly #later = new Set<ThreadId>();

  constructor(d: RestartDeps) {
    this.#d = d;
  }

  /**
   * Looks whether the thread's agent has to be restarted, and does it in the background; one at a time for each thread.
   * `demanded`: the incarnation whose boundary was just found unprovable.
   */
  consider(threadId: ThreadId, demanded: IncarnationId | null = null): void {
    this.#background(threadId, () => this.#run(threadId, demanded));
  }

  /** The main agent's turn is over. One that was started with a payload, and it was not that one's turn, is started anew. */
  turnEnded({ threadId, incarnation }: HookCaller): void {
    const { db } = this.#d.deps;
    if (startedFor(db, threadId, incarnation) === null) return;
    const session = sessionById(db, incarnation);
    if (session !== null && !isAnswered(db, session)) this.consider(threadId, incarnation);
  }

  #background(threadId: ThreadId, run: () => Promise<void>): void {
    if (this.#stopping.signal.aborted) return;
    const { deps } = this.#d;
    const work = deps.queues.run(`restart:${threadId}`, run).catch((error: unknown) => {
      deps.log.error(`restarting the agent of ${threadId} failed`, error);
      try {
        sayNotStarted(deps, threadId, errorLine(error));
      } catch (again) {
        // A disk that is full stops both; what is durable is taken up by the next boot.
        deps.log.error("and that could not be recorded", again);
      }
    });
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  /** Boot: whom no intent needs stopped goes on first; then every thread is looked at. */
  async boot(): Promise<void> {
    const { db, agents } = this.#d.deps;
    await agents.releaseAllBut((intentId) => {
      const intent = intentById(db, intentId);
      if (intent === null) return false;
      const { state, exhausted } = intent;
      return state === "Reconciling" || state === "RecoveryRequired" || exhausted;
    });
    for (const { threadId, lifecycle } of watchedThreads(db)) {
      const givenUp = lifecycle === "Active" ? givenUpBehind(db, threadId) : null;
      if (restartNeed(db, threadId, null) !== null) this.consider(threadId);
      else if (givenUp !== null) this.#goOnWithout(threadId, givenUp);
      else if (lifecycle === "Active") this.#takeUp(threadId);
    }
  }

  /** Nothing is owed: a start that the daemon before had made, or had still to make, comes to its end. */
  #takeUp(threadId: ThreadId): void {
    const { db, agents } = this.#d.deps;
    const live = liveSession(db, threadId);
    if (endedForNothing(db, threadId) !== null) this.consider(threadId);
    else if (live !== null && live.readyAt === null)
      // Every call of it is refused until it has reported its start; one that never does is ended, and said.
      this.#background(threadId, async () => void (await agents.settled(live.incarnation)));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#running);
  }

  /** In the transaction that makes an incarnation ready. Call what it returns once that has committed. */
  ready(threadId: ThreadId, incarnation: IncarnationId): () => void {
    const { deps } = this.#d;
    const intent = startedFor(deps.db, threadId, incarnation);
    if (intent === null || !isPrepared(intent.state)) return () => undefined;
    return alongside(deps, (changes) =>
      changes.startupDelivered(intent.intentId, incarnation, deps.clock.now()),
    );
  }

  /** In the transaction that retires an incarnation: a failed attempt, and with the last one the exhaustion. */
  ended(threadId: ThreadId, incarnation: IncarnationId): () => void {
    const { deps } = this.#d;
    const intent = startedFor(deps.db, threadId, incarnation);
    if (intent === null || !isPrepared(intent.state) || intent.exhausted) return () => undefined;
    const delivery = deliveryOf(deps.db, intent.intentId);
    // Its own row is retired already in this transaction; the machine is asked about the moment before.
    const attempts = delivery.attempts.map((a) =>
      a.incarnation === incarnation ? { ...a, retired: false } : a,
    );
    const after = deliver(
      { ...delivery, attempts },
      { type: "attempt-failed", incarnation },
      deps.settings.attempts,
    );
    if (!after.exhausted) return () => undefined;
    sayExhausted(deps, intent);
    return alongside(deps, (changes) => changes.exhausted(intent.intentId, deps.clock.now()));
  }

  /** In a transaction. One fresh cycle of attempts, which begins once it has committed. */
  retry(intentId: IntentId, epoch: number): () => void {
    const { deps } = this.#d;
    const { threadId } = intentById(deps.db, intentId)!;
    // The machine's own word that this is one of the two writes an exhausted delivery takes.
    deliver(deliveryOf(deps.db, intentId), { type: "retry-delivery" }, deps.settings.attempts);
    const committed = alongside(deps, (changes) => changes.retried(intentId, epoch));
    answered(deps, threadId, intentId);
    return () => {
      committed();
      this.consider(threadId);
    };
  }

  /** In a transaction. Given up without proof; the agent is started again as if nothing had been owed to it. */
  discard(intentId: IntentId, approvalId: string): () => void {
    const { deps } = this.#d;
    const { threadId } = intentById(deps.db, intentId)!;
    const now = deps.clock.now();
    const given = { type: "discard-delivery", approval: approvalId } as const;
    deliver(deliveryOf(deps.db, intentId), given, deps.settings.attempts);
    const committed = alongside(deps, (changes) =>
      changes.discarded(intentId, { approvalId, now }),
    );
    answered(deps, threadId, intentId);
    return () => {
      committed();
      this.#goOnWithout(threadId, intentId);
    };
  }

  /** Its delivery was given up, and kiki had ended the agent: it is started again, by the next daemon if need be. */
  #goOnWithout(threadId: ThreadId, intentId: IntentId): void {
    this.#background(threadId, async () => {
      if (liveSession(this.#d.deps.db, threadId) === null)
        await this.#startPlainly(threadId, intentId);
      else forgetTyped(this.#d.deps, threadId);
    });
  }

  async #run(threadId: ThreadId, demanded: IncarnationId | null): Promise<void> {
    const { db, agents } = this.#d.deps;
    while (!this.#stopping.signal.aborted) {
      const need = restartNeed(db, threadId, demanded);
      if (need === null) return this.#startEnded(threadId);
      if (need.act === "surface") return sayExhausted(this.#d.deps, need.intent);
      if (need.act === "await") {
        if ((await agents.settled(need.live.incarnation)) !== "ended") return;
      } else if (!(await this.#restart(threadId, need))) return;
    }
  }

  /** An agent that was ended to be told of what then could not be followed, and was not started again. */
  async #startEnded(threadId: ThreadId): Promise<void> {
    const { db } = this.#d.deps;
    if (cascadeThread(db, threadId)?.lifecycle !== "Active") return;
    const intentId = endedForNothing(db, threadId);
    if (intentId !== null) await this.#startPlainly(threadId, intentId);
  }

  /** One round. True: look again. */
  async #restart(
    threadId: ThreadId,
    need: Extract<RestartNeed, { act: "restart" }>,
  ): Promise<boolean> {
    const { live } = need;
    // One that a boot took up for an agent that is gone.
    await this.#settlementOver(need.intent.barrier?.incarnation ?? null);
    const caller = live === null ? null : { threadId, incarnation: live.incarnation };
    const closed = caller === null ? null : await this.#closeAdmission(caller, need.intent);
    try {
      // What its last events say comes first, and a settlement that was under way may have changed everything.
      if (caller !== null) await this.#d.inbox.drain(caller);
      const now = restartNeed(this.#d.deps.db, threadId, live?.incarnation ?? null);
      if (now?.act !== "restart" || now.intent.intentId !== need.intent.intentId) {
        refreshMarker(this.#d.deps, threadId);
        return now !== null && now.act !== "restart";
      }
      return await this.#carryOut(threadId, now.intent, now.live);
    } finally {
      if (caller !== null && closed !== null) this.#openAdmission(caller, closed);
    }
  }

  async #carryOut(
    threadId: ThreadId,
    intent: IntentRow,
    live: SessionRow | null,
  ): Promise<boolean> {
    const { deps } = this.#d;
    const { agents, db } = deps;
    const { intentId } = intent;
    ensureMarker(deps, threadId, intentId);
    const moving = await this.#stopAgent(threadId, intentId);
    if (moving !== null) return this.#tryLater(threadId, intent, moving);
    if (intent.state === "Detected" && !this.#quiesce(intentId)) {
      // Its transition was covered or taken back meanwhile.
      await agents.release(intentId);
      refreshMarker(deps, threadId);
      return true;
    }
    if (live !== null) {
      const left = await agentEffect(deps, "harness-ended", () => agents.end(live.incarnation));
      if (left !== null) return this.#tryLater(threadId, intent, left);
      // Its stopped children were in groups that are orphaned now, and such a group is continued by the kernel.
      const again = await this.#stopAgent(threadId, intentId);
      if (again !== null) return this.#tryLater(threadId, intent, again);
    }
    if (isUnderWay(intentById(db, intentId))) {
      const refresh = (): Promise<OpId[]> => this.#d.refresh();
      const outcome = await reconcile(deps, this.#d.views, intentId, refresh, { paused: true });
      if (outcome.outcome === "recovery-required") return false;
      if (outcome.outcome === "not-now") return this.#tryLater(threadId, intent, outcome.reason);
      if (outcome.outcome !== "materialized") return this.#startPlainly(threadId, intentId);
    }
    return this.#attempt(threadId, intentById(db, intentId)!);
  }

  #quiesce(intentId: IntentId): boolean {
    const { deps } = this.#d;
    return changeIntents(deps, (changes) => {
      if (intentById(deps.db, intentId)?.state !== "Detected") return false;
      changes.quiesced(intentId, deps.clock.now());
      return true;
    });
  }

  #stopAgent(threadId: ThreadId, intentId: string): Promise<string | null> {
    const { deps } = this.#d;
    return agentEffect(deps, "agent-stopped", () => deps.agents.stop(threadId, intentId));
  }

  /** The transaction of core/delivery's `restart`, made by whoever makes the incarnation. */
  async #attempt(threadId: ThreadId, intent: IntentRow): Promise<boolean> {
    const { deps } = this.#d;
    const { intentId, payload, payloadSha256, epoch } = intent;
    if (!isPrepared(intent.state) || payload === null || payloadSha256 === null) return true;
    const limit = deps.settings.attempts;
    const decided = restartDecision(deliveryOf(deps.db, intentId), limit);
    if (decided.act === "exhaust") {
      // The last attempt was ended by kiki itself: it fails, and with it the epoch, in one transaction.
      changeIntents(deps, (changes) => {
        const now = deps.clock.now();
        const live = liveSession(deps.db, threadId);
        if (live !== null) retireForGood(deps.db, live.incarnation, now);
        changes.exhausted(intentId, now);
      });
      return true;
    }
    if (decided.act !== "attempt") return true;
    const typed = typedForInput(deps, threadId, payload);
    const startup: Startup = {
      intentId,
      epoch,
      payloadSha256,
      prompt: (deliveryId, begunWith) =>
        startupPrompt(payload, startupMark(deliveryId), typed, begunWith),
    };
    try {
      await deps.agents.replace(threadId, startup, (made) => {
        answered(deps, threadId, `${intentId}:restart`);
        return alongside(deps, (changes) => changes.restarting(intentId, made));
      });
    } catch (error) {
      return this.#tryLater(threadId, intent, errorLine(error));
    }
    this.#later.delete(threadId);
    await deps.agents.release(intentId);
    return true;
  }

  /** Nothing is owed after all, but the agent was ended on the way. */
  async #startPlainly(threadId: ThreadId, intentId: string): Promise<boolean> {
    const { deps } = this.#d;
    refreshMarker(deps, threadId);
    await deps.agents.release(intentId);
    try {
      const words = plainPrompt(typedForInput(deps, threadId, ""));
      const incarnation = await deps.agents.replace(threadId, { words }, () => {
        answered(deps, threadId, "restart");
        return () => undefined;
      });
      if ((await deps.agents.settled(incarnation)) === "ready") forgetTyped(deps, threadId);
    } catch (error) {
      sayNotStarted(deps, threadId, errorLine(error));
      this.#lookLater(threadId);
    }
    return false;
  }

  /** The agent stays paused, or goes on and is blocked again; a person hears why. */
  #tryLater(threadId: ThreadId, intent: IntentRow, why: string): false {
    const { deps } = this.#d;
    const now = intentById(deps.db, intent.intentId);
    // What was never begun is not held against hooks that find no daemon.
    if (now?.state === "Detected") refreshMarker(deps, threadId);
    sayNotNow(deps, intent, why);
    this.#lookLater(threadId);
    return false;
  }

  #lookLater(threadId: ThreadId): void {
    if (this.#later.has(threadId)) return;
    this.#later.add(threadId);
    void this.#d.deps.clock.sleep(LATER_MS, this.#stopping.signal).then(
      () => {
        this.#later.delete(threadId);
        this.consider(threadId);
      },
      () => undefined,
    );
  }

  /** From here on calls of the incarnation are held. A settlement that is under way comes to its end first. */
  async #closeAdmission(caller: HookCaller, intent: IntentRow): Promise<Settling> {
    await this.#settlementOver(caller.incarnation);
    const boundary = this.#d.boundary(caller.incarnation);
    const settling: Settling = { intentId: intent.intentId, ordinal: 0, open: false };
    boundary.begin(settling);
    return settling;
  }

  async #settlementOver(incarnation: IncarnationId | null): Promise<void> {
    if (incarnation === null) return;
    const boundary = this.#d.boundary(incarnation);
    while (boundary.settling !== null) await boundary.nextChange(this.#d.deps.clock, RECHECK_MS);
  }

  /** Never released: whoever still waits was ended with its harness, or is asked again by a harness that goes on. */
  #openAdmission(caller: HookCaller, settling: Settling): void {
    const { deps } = this.#d;
    const boundary = this.#d.boundary(caller.incarnation);
    for (const held of boundary.holds.values())
      held.settle(genericDecision(deps, caller, HOLD_TEXT));
    boundary.end(settling);
  }
}
