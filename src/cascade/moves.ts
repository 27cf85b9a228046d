/**
 * The one door to every change of an intent. A change is said by its name before it is made and after it is durable,
 * so that the crash matrix finds each of them, and a new one as well.
 */
import type { IntentId } from "../core/ids.ts";
import type {
  IntentCrashPoint,
  IntentEffect,
  IntentMove,
  IntentRecord,
  IntentState,
  NextIntent,
} from "../core/intent.ts";
import { write, type Db } from "../store/db.ts";
import * as deliveries from "../store/deliveries.ts";
import * as intents from "../store/intents.ts";
import * as serial from "../store/serial.ts";
import * as softBatch from "../store/soft-batch.ts";
import { recordEcho } from "../store/startup-prompts.ts";
import type { CascadeDeps } from "./deps.ts";

/** The rest of a store function's arguments, after the database. */
type After<F> = F extends (db: Db, ...rest: infer R) => unknown ? R : never;

interface Durable {
  db: Db;
  crash: { at(name: IntentCrashPoint): void };
}

/**
 * One transaction that may change intents. `body` is synchronous, like that of `write`, and may run at most once. The
 * moments after the changes come once all of it has committed.
 */
export function changeIntents<T>(
  deps: Durable,
  body: (changes: IntentChanges) => T extends Promise<unknown> ? never : T,
): T {
  const changes = new IntentChanges(deps);
  const result = write<T>(deps.db, () => body(changes));
  changes.committed();
  return result;
}

/**
 * The same inside a transaction of somebody else's. Returns what is to be called once that has committed, and must not
 * be called when it has not.
 */
export function alongside(deps: Durable, body: (changes: IntentChanges) => void): () => void {
  const changes = new IntentChanges(deps);
  body(changes);
  return () => changes.committed();
}

/** Changes within one transaction. Each method is the store's function of a similar name, and throws as it does. */
export class IntentChanges {
  readonly #deps: Durable;
  readonly #made: (IntentMove | IntentRecord)[] = [];

  constructor(deps: Durable) {
    this.#deps = deps;
  }

  detected(...args: After<typeof intents.insertIntent>): void {
    this.#making("detected");
    intents.insertIntent(this.#deps.db, ...args);
  }

  foundDiverged(...args: After<typeof intents.insertDiverged>): void {
    this.#making("found-diverged");
    intents.insertDiverged(this.#deps.db, ...args);
  }

  coalesced(...args: After<typeof intents.coalesce>): void {
    this.#making("coalesced");
    intents.coalesce(this.#deps.db, ...args);
  }

  planned(...args: After<typeof intents.savePlan>): void {
    this.#making("planned");
    intents.savePlan(this.#deps.db, ...args);
  }

  moved<F extends IntentState>(
    intentId: IntentId,
    from: F,
    to: NextIntent<F>,
    extra: Parameters<typeof intents.setIntentState>[4],
  ): void {
    this.#making(`${from}-${to}` as IntentMove);
    intents.setIntentState(this.#deps.db, intentId, from, to, extra);
  }

  /** The tuple: the first one, which for fresh work is the move to `Reconciling`, or the counted one of rule 5b. */
  bound(...args: After<typeof softBatch.bindSoftBatch>): void {
    const { db } = this.#deps;
    const intent = intents.intentById(db, args[0]);
    if (intent?.barrier != null) {
      this.#making("rebound");
      softBatch.rebindSoftBatch(db, ...args);
    } else {
      this.#making(intent?.state === "Detected" ? "Detected-Reconciling" : "bound-prepared");
      softBatch.bindSoftBatch(db, ...args);
    }
  }

  materialized(...args: After<typeof intents.materialize>): void {
    this.#making("Reconciling-Materialized");
    intents.materialize(this.#deps.db, ...args);
  }

  delivered(...args: After<typeof softBatch.markDelivered>): boolean {
    if (this.#state(args[0]) === "Materialized") this.#making("Materialized-Delivered");
    return softBatch.markDelivered(this.#deps.db, ...args);
  }

  batchCompleted(...args: After<typeof softBatch.completeBatch>): boolean {
    this.#making("batch-completed");
    return softBatch.completeBatch(this.#deps.db, ...args);
  }

  /** The receipt of a completed batch that could not be read before. */
  receiptReread(...args: After<typeof serial.rereadReceipt>): boolean {
    this.#making("batch-completed");
    return serial.rereadReceipt(this.#deps.db, ...args);
  }

  /** By the proof its delivery has: a batch's receipt, or the echo of a startup. */
  acknowledged(...args: After<typeof softBatch.acknowledge>): void {
    const intent = intents.intentById(this.#deps.db, args[0]);
    const lost = intent?.state === "Materialized";
    this.#making(lost ? "Materialized-Acknowledged" : "Delivered-Acknowledged");
    if (intent?.restart != null) deliveries.acknowledgeStartup(this.#deps.db, ...args);
    else softBatch.acknowledge(this.#deps.db, ...args);
  }

  /** Work that is reconciled without a batch, at a stopped agent. */
  quiesced(...args: After<typeof deliveries.quiesce>): void {
    this.#making("Detected-Reconciling");
    deliveries.quiesce(this.#deps.db, ...args);
  }

  restarting(...args: After<typeof deliveries.claimByRestart>): void {
    this.#making("restarting");
    deliveries.claimByRestart(this.#deps.db, ...args);
  }

  /** The ready handshake of a replacement. */
  startupDelivered(...args: After<typeof deliveries.markStartupDelivered>): void {
    if (this.#state(args[0]) === "Materialized") this.#making("Materialized-Delivered");
    deliveries.markStartupDelivered(this.#deps.db, ...args);
  }

  startupEchoed(...args: After<typeof recordEcho>): void {
    this.#making("startup-echoed");
    recordEcho(this.#deps.db, ...args);
  }

  exhausted(...args: After<typeof deliveries.setExhausted>): void {
    this.#making("exhausted");
    deliveries.setExhausted(this.#deps.db, ...args);
  }

  retried(...args: After<typeof deliveries.startEpoch>): void {
    this.#making("retried");
    deliveries.startEpoch(this.#deps.db, ...args);
  }

  discarded(...args: After<typeof deliveries.discardDelivery>): void {
    const lost = this.#state(args[0]) === "Materialized";
    this.#making(lost ? "Materialized-Acknowledged" : "Delivered-Acknowledged");
    deliveries.discardDelivery(this.#deps.db, ...args);
  }

  transitionDiscarded(...args: After<typeof intents.discardTransition>): void {
    const diverged = this.#state(args[0]) === "TopologyDiverged";
    this.#making(diverged ? "TopologyDiverged-Acknowledged" : "Detected-Acknowledged");
    intents.discardTransition(this.#deps.db, ...args);
  }

  /** Everything said so far is durable. */
  committed(): void {
    for (const name of this.#made) this.#deps.crash.at(`intent.${name}.completed`);
  }

  #making(name: IntentMove | IntentRecord): void {
    this.#deps.crash.at(`intent.${name}.before`);
    this.#made.push(name);
  }

  #state(intentId: IntentId): IntentState | undefined {
    return intents.intentById(this.#deps.db, intentId)?.state;
  }
}

/** An effect outside of the database that is over when `run` returns. */
export function fileEffect<T>(
  deps: Pick<CascadeDeps, "crash">,
  name: Extract<IntentEffect, "marker-written" | "marker-removed" | "bundle" | "links" | "mend">,
  run: () => T,
): T {
  deps.crash.at(`intent.${name}.before`);
  const result = run();
  deps.crash.at(`intent.${name}.effected`);
  return result;
}

/** What a neighbour does to an agent's processes. */
export async function agentEffect<T>(
  deps: Pick<CascadeDeps, "crash">,
  name: Extract<IntentEffect, "agent-stopped" | "harness-ended">,
  run: () => Promise<T>,
): Promise<T> {
  deps.crash.at(`intent.${name}.before`);
  const result = await run();
  deps.crash.at(`intent.${name}.effected`);
  return result;
}

/** An effect of a command of jj or git. */
export async function jjEffect<T>(
  deps: Pick<CascadeDeps, "crash">,
  name: Exclude<
    IntentEffect,
    | "marker-written"
    | "marker-removed"
    | "bundle"
    | "links"
    | "mend"
    | "agent-stopped"
    | "harness-ended"
  >,
  run: () => Promise<T>,
): Promise<T> {
  deps.crash.at(`intent.${name}.before`);
  const result = await run();
  deps.crash.at(`intent.${name}.effected`);
  return result;
}
