/**
 * The child's agent in the intents' world: one pane whose wrapper starts what it is given and reports, whoever of the
 * daemons is there. Stopped means that it takes no step of its own; its hooks go on.
 */
import { retireCalls } from "../../src/store/admissions.ts";
import type { Cascade } from "../../src/cascade/cascade.ts";
import { acknowledgeAttention, raiseAttention } from "../../src/store/attention.ts";
import { write, type Db } from "../../src/store/db.ts";
import {
  liveSession,
  noteSessionStarted,
  retireSession,
  sessionById,
  setProcess,
  setReady,
} from "../../src/store/sessions.ts";
import { RigAgents, type Started } from "../cascade/rig-agents.ts";
import type { FakeAgent } from "../fakes/agent.ts";
import type { Step } from "../fakes/agent-scheduler.ts";
import { CHILD } from "./intent-threads.ts";

export interface AgentPlace {
  db(): Db;
  cascade(): Cascade;
  uuid(): string;
  now(): number;
  /** Of the daemon that lives now; a dead one's never ends. */
  sleep(ms: number): Promise<void>;
  /** Another process of the same conversation, or of a new one. */
  next(started: Started): FakeAgent;
}

const POLL_MS = 500;

export class CrashAgents extends RigAgents {
  /** The intent on whose account it is stopped. */
  stoppedFor: string | null = null;
  /** So many replacements end before they say anything. */
  stillborn = 0;
  agent: FakeAgent | null = null;
  incarnation = "";
  readonly #at: AgentPlace;
  #reported = true;
  #launched = 0;

  constructor(place: AgentPlace) {
    super(place);
    this.#at = place;
  }

  begin(agent: FakeAgent, incarnation: string): void {
    this.agent = agent;
    this.incarnation = incarnation;
    this.#reported = false;
  }

  /** Nothing of it changes a file now. */
  get still(): boolean {
    return this.stoppedFor !== null || this.agent?.alive !== true;
  }

  /** What the agent and its hooks can do next. */
  steps(): Step[] {
    const agent = this.agent;
    if (agent === null) return [];
    return this.stoppedFor === null ? agent.steps() : agent.hooks.flatMap((h) => h.steps());
  }

  /** The wrapper does the next thing it has to do, with a daemon there. False: nothing. */
  wrapper(): boolean {
    if (this.agent?.alive === false && !this.#reported) {
      this.#ends(this.incarnation);
      this.#reported = true;
      return true;
    }
    const started = this.started[this.#launched];
    if (started === undefined || this.agent?.alive === true) return false;
    const db = this.#at.db();
    if (sessionById(db, started.incarnation)?.retiredAt !== null) {
      this.#launched += 1;
      return true;
    }
    // Said again to the next daemon where this one dies of it.
    if (this.stillborn > 0) {
      this.#ends(started.incarnation);
      this.stillborn -= 1;
      return true;
    }
    this.#launched += 1;
    write(db, () =>
      setProcess(db, started.incarnation, { pid: 4242, startTime: String(this.#launched + 1) }),
    );
    this.begin(this.#at.next(started), started.incarnation);
    this.agent!.start(started.resumes === null ? "startup" : "resume", started.prompt);
    return true;
  }

  override stop(threadId: string, intentId: string): Promise<string | null> {
    this.stoppedFor = intentId;
    return super.stop(threadId, intentId);
  }

  override end(incarnation: string): Promise<string | null> {
    if (incarnation === this.incarnation) this.agent?.crash();
    return super.end(incarnation);
  }

  override release(intentId: string): Promise<void> {
    if (this.stoppedFor === intentId) this.stoppedFor = null;
    return super.release(intentId);
  }

  override releaseAllBut(needed: (intentId: string) => boolean): Promise<void> {
    if (this.stoppedFor !== null && !needed(this.stoppedFor)) this.stoppedFor = null;
    return Promise.resolve();
  }

  override async settled(incarnation: string): Promise<"ready" | "ended" | "suspended"> {
    for (;;) {
      const session = sessionById(this.#at.db(), incarnation)!;
      if (session.retiredAt !== null) return "ended";
      if (session.readyAt !== null) return "ready";
      await this.#at.sleep(POLL_MS);
    }
  }

  /** The harness reports its session: the ready handshake, as the gate makes it. */
  sessionStarted(incarnation: string, sessionId: string): void {
    const db = this.#at.db();
    const now = this.#at.now();
    const committed = write(db, () => {
      if (liveSession(db, CHILD)?.incarnation !== incarnation) return null;
      noteSessionStarted(db, incarnation, { harnessSessionId: sessionId, now });
      if (sessionById(db, incarnation)!.readyAt !== null) return null;
      setReady(db, incarnation, now);
      acknowledgeAttention(db, CHILD, "agent-crashed", now);
      return this.#at.cascade().agentReady(CHILD, incarnation);
    });
    committed?.();
  }

  #ends(incarnation: string): void {
    const db = this.#at.db();
    const now = this.#at.now();
    const cascade = this.#at.cascade();
    const committed = write(db, () => {
      const row = { status: "Crashed" as const, event: "exit code 1", now };
      if (!retireSession(db, incarnation, row)) return null;
      if (!this.asked.includes(`end ${incarnation}`)) {
        const message = "the agent ended: exit code 1";
        const what = { kind: "agent-crashed", dedupKey: incarnation, message, loud: true };
        raiseAttention(db, { threadId: CHILD, ...what, now });
      }
      const after = cascade.agentEnded(CHILD, incarnation);
      retireCalls(db, incarnation, now);
      return after;
    });
    committed?.();
    cascade.considerRestart(CHILD);
  }
}
