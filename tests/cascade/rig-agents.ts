/**
 * The neighbour that has the agents' processes, for cascades without processes: everything it is asked is recorded, an
 * incarnation it starts is a row and an input, and the test says when that one is ready or ends.
 */
import { createHash } from "node:crypto";
import type { Cascade } from "../../src/cascade/cascade.ts";
import type { Agents, PlainStart, Startup } from "../../src/cascade/deps.ts";
import { retireCalls } from "../../src/store/admissions.ts";
import { write, type Db } from "../../src/store/db.ts";
import { provenConversation } from "../../src/store/deliveries.ts";
import {
  insertSession,
  liveSession,
  noteSessionStarted,
  retireForGood,
  retireSession,
  sessionById,
  setProcess,
  setReady,
} from "../../src/store/sessions.ts";
import { heldBy, markStopped, recordStops, settleStop } from "../../src/store/stopped-processes.ts";

export interface Started {
  threadId: string;
  incarnation: string;
  /** Its first input; null for none. */
  prompt: string | null;
  deliveryId: string;
  /** The harness's conversation it takes up; null for a new one. */
  resumes: string | null;
}

/** What differs between the worlds it is used in. */
interface Place {
  /** The daemon's own connection and cascade of this moment. */
  db(): Db;
  cascade(): Pick<Cascade, "agentReady" | "agentEnded" | "considerRestart">;
  uuid(): string;
  now(): number;
}

export class RigAgents implements Agents {
  /** In order: `stop`, `end <incarnation>`, `release`, `replace <incarnation>`. */
  readonly asked: string[] = [];
  readonly started: Started[] = [];
  /** Why the agent does not stand still, or cannot be started; null: it does. */
  moving: string | null = null;
  refuses: Error | null = null;
  /** Happens when an agent has been stopped or ended: what a neighbour meanwhile does. */
  after: (what: "stop" | "end") => void = () => undefined;
  readonly #place: Place;
  readonly #ended = new Set<string>();
  readonly #waiting = new Map<string, (end: "ready" | "ended" | "suspended") => void>();
  #wake: (() => void)[] = [];
  #suspended = false;

  constructor(place: Place) {
    this.#place = place;
  }

  stop(threadId: string, intentId: string): Promise<string | null> {
    this.asked.push("stop");
    const db = this.#place.db();
    const live = liveSession(db, threadId);
    if (live?.pid != null && live.startTime !== null && this.moving === null) {
      const harness = { pid: live.pid, startTime: live.startTime };
      const row = { ...harness, pgid: 4242, session: 4242, wasStopped: false };
      recordStops(db, { kind: "intent", id: intentId }, threadId, [row], this.#place.now());
      markStopped(db, { kind: "intent", id: intentId }, [harness]);
    }
    this.after("stop");
    return Promise.resolve(this.moving);
  }

  end(incarnation: string): Promise<string | null> {
    this.asked.push(`end ${incarnation}`);
    this.#ended.add(incarnation);
    this.after("end");
    return Promise.resolve(null);
  }

  release(intentId: string): Promise<void> {
    this.asked.push("release");
    const db = this.#place.db();
    const owner = { kind: "intent", id: intentId } as const;
    for (const row of heldBy(db, owner)) {
      const gone = [...this.#ended].some((i) => sessionById(db, i)?.startTime === row.startTime);
      settleStop(db, owner, row, gone ? "Gone" : "Resumed", this.#place.now());
    }
    return Promise.resolve();
  }

  releaseAllBut(_needed: (intentId: string) => boolean): Promise<void> {
    return Promise.resolve();
  }

  replace(
    threadId: string,
    input: Startup | PlainStart,
    claim: (made: { incarnation: string; deliveryId: string }) => () => void,
  ): Promise<string> {
    if (this.refuses !== null) return Promise.reject(this.refuses);
    const db = this.#place.db();
    const startup = "words" in input ? null : input;
    const [incarnation, deliveryId] = [this.#place.uuid(), this.#place.uuid()];
    const resumes = provenConversation(db, threadId);
    const committed = write(db, () => {
      const now = this.#place.now();
      const before = liveSession(db, threadId);
      if (before !== null) retireForGood(db, before.incarnation, now);
      insertSession(db, {
        incarnation,
        threadId,
        harness: "claude-code",
        harnessVersion: "2.1.332",
        harnessSessionId: resumes ?? this.#place.uuid(),
        capabilities: {},
        now,
        secretSha256: hash(incarnation),
        settingsFingerprint: hash(`settings of ${incarnation}`),
        startup:
          startup === null
            ? null
            : {
                ...startup,
                deliveryId,
              },
      });
      return claim({ incarnation, deliveryId });
    });
    this.asked.push(`replace ${incarnation}`);
    const prompt = "words" in input ? input.words : input.prompt(deliveryId, null);
    this.started.push({ threadId, incarnation, prompt, deliveryId, resumes });
    committed();
    for (const wake of this.#wake.splice(0)) wake();
    return Promise.resolve(incarnation);
  }

  settled(incarnation: string): Promise<"ready" | "ended" | "suspended"> {
    if (this.#suspended) return Promise.resolve("suspended");
    return new Promise((resolve) => this.#waiting.set(incarnation, resolve));
  }

  /** The nth replacement, counted from 1, as soon as there is one. */
  async nth(n: number): Promise<Started> {
    while (this.started.length < n)
      await new Promise<void>((resolve) => void this.#wake.push(resolve));
    return this.started[n - 1]!;
  }

  /** Its ready handshake, in one transaction as the gate makes it. */
  ready({ threadId, incarnation }: Started): void {
    const db = this.#place.db();
    const now = this.#place.now();
    const committed = write(db, () => {
      const { harnessSessionId } = liveSession(db, threadId)!;
      setProcess(db, incarnation, { pid: 4242, startTime: String(this.started.length + 1) });
      noteSessionStarted(db, incarnation, { harnessSessionId: harnessSessionId!, now });
      setReady(db, incarnation, now);
      return this.#place.cascade().agentReady(threadId, incarnation);
    });
    committed();
    this.#settle(incarnation, "ready");
  }

  /** Its process ended: what the gate records when the pane's wrapper says so. */
  ended(of: { threadId: string; incarnation: string }, how: "Crashed" | "Quiescent"): void {
    const db = this.#place.db();
    const now = this.#place.now();
    const committed = write(db, () => {
      const row = { status: how, event: "exit code 1", now };
      if (!retireSession(db, of.incarnation, row)) return null;
      const after = this.#place.cascade().agentEnded(of.threadId, of.incarnation);
      retireCalls(db, of.incarnation, now);
      return after;
    });
    committed?.();
    this.#settle(of.incarnation, "ended");
    this.#place.cascade().considerRestart(of.threadId);
  }

  /** The daemon stops, and nobody waits any more; or there is one again. */
  suspend(suspended: boolean): void {
    this.#suspended = suspended;
    if (!suspended) return;
    for (const resolve of this.#waiting.values()) resolve("suspended");
    this.#waiting.clear();
  }

  #settle(incarnation: string, end: "ready" | "ended"): void {
    this.#waiting.get(incarnation)?.(end);
    this.#waiting.delete(incarnation);
  }
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
