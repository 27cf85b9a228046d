/**
 * What must hold of threads whose harness runs one call at a time, besides what holds of all: their session record, as it
 * really was written, is the witness, whatever kiki could read of it. Counts their paths as well.
 */
import { threadPaths } from "../../src/core/paths.ts";
import { isPrepared } from "../../src/core/intent.ts";
import { DEFAULT_SETTINGS } from "../../src/cascade/deps.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { intentById, unresolvedIntents, type IntentRow } from "../../src/store/intents.ts";
import { boundaryProof } from "../../src/store/serial.ts";
import { codexRecord } from "../fakes/agent-codex.ts";
import type { Call } from "../fakes/agent-batch.ts";
import { REPO_ID, STATE } from "./daemon.ts";
import { isCodex } from "./codex.ts";
import type { SimAgent } from "./panes.ts";
import { COUNTED, type SerialPath } from "./paths.ts";
import type { World } from "./world.ts";

/** A call that a daemon is asked about. */
export interface Asked {
  sim: SimAgent;
  id: string;
  path: string;
  /** The record did not show the call, or no result of what its barrier had blocked. */
  blind: boolean;
  /** The prepared intent whose barrier is up. */
  active: IntentRow | null;
  /** Unresolved besides it, and not waiting behind a person. */
  pending: ReadonlySet<string>;
  /** Another call of its response was asked about before. */
  sibling: boolean;
}

export class SerialOracle {
  readonly #w: World;
  /** Calls a daemon was asked about, those it let through, and those of them that it could not have known better of. */
  readonly #asked = new Set<string>();
  readonly #passed = new Set<string>();
  readonly #excused = new Set<string>();
  readonly #held = new Map<string, Asked>();
  /** Intents by the batch they are bound to. */
  #bound: ReadonlySet<string> = new Set();
  /** Incarnations whose boundary does not count any more. */
  readonly #lost = new Set<string>();
  #lastEvent = 0;

  constructor(world: World) {
    this.#w = world;
  }

  // ---- a call -------------------------------------------------------------------------------------------------

  /** Right before a daemon is asked. null: the harness is another. */
  asks(sim: SimAgent | undefined, event: Record<string, unknown>): Asked | null {
    if (sim === undefined || !isCodex(sim)) return null;
    const id = event["tool_use_id"] as string;
    const path = event["transcript_path"] as string;
    const calls = sim.agent.main.batch?.calls ?? [];
    const sibling =
      calls.some((c) => c.id === id) && calls.some((c) => c.id !== id && this.#asked.has(c.id));
    this.#asked.add(id);
    const active = this.#w.observer.before(sim.threadId);
    const prepared = active !== null && isPrepared(active.state) ? active : null;
    const blind = this.#isBlind(id, path, prepared);
    return { sim, id, path, blind, active: prepared, pending: this.#pending(sim, active), sibling };
  }

  answered(asked: Asked | null, token: string | null, decision: HookDecision): void {
    if (asked === null) return;
    if (decision.decision === "hold") {
      if (asked.sibling) this.#count("sibling held");
      this.#held.set(decision.token, asked);
      return;
    }
    if (asked.sibling && decision.decision === "deny") {
      const calls = asked.sim.agent.main.batch?.calls ?? [];
      if (calls.some((c) => c.id !== asked.id && c.denied !== null))
        this.#count("sibling denied with the blocked one");
    }
    if (decision.decision !== "pass") return;
    if (token !== null && asked.sibling) this.#count("sibling released");
    this.#passed.add(asked.id);
    this.#checkPassed(asked);
  }

  /** The end of a `Hold`. */
  released(token: string, decision: HookDecision): void {
    const asked = this.#held.get(token);
    this.#held.delete(token);
    if (asked !== undefined) this.answered(asked, token, decision);
  }

  /** A barrier lets a call through only where nothing can be read of what it blocked, and then nothing else may wait. */
  #checkPassed(asked: Asked): void {
    const { sim, id, path, active } = asked;
    if (active === null) return;
    const now = intentById(this.#w.outside, active.intentId)!;
    if (!isPrepared(now.state)) return;
    const name = `${id} passes before intent ${now.seq}`;
    if (!asked.blind && !this.#isBlind(id, path, active))
      return this.#w.breach(`${name}, and its record could be read`);
    this.#excused.add(id);
    this.#count("receipt unreadable, deferred");
    const pending = this.#pending(sim, now);
    if ([...asked.pending].some((one) => pending.has(one)))
      this.#w.breach(`${name}, whose receipt is unreadable, and more work is pending`);
    if (this.#unplaced(id, path) && boundaryProof(this.#w.outside, sim.incarnation).violations > 0)
      this.#w.breach(`${name}, may be a blocked call's sibling, and its agent has shown one`);
    if (JSON.stringify(now.barrier) !== JSON.stringify(active.barrier))
      this.#w.breach(`${name}, and its tuple is another`);
    if (this.#w.files.get(threadPaths(STATE, REPO_ID, sim.threadId).barrier) === null)
      this.#w.breach(`${name}, and its marker is gone`);
  }

  #pending(sim: SimAgent, active: IntentRow | null): Set<string> {
    const open = unresolvedIntents(this.#w.outside, sim.threadId);
    const diverged = new Set(
      open.filter((i) => i.state === "TopologyDiverged").map((i) => i.parentThreadId),
    );
    return new Set(
      open
        .filter((i) => i.intentId !== active?.intentId && !diverged.has(i.parentThreadId))
        .map((i) => i.intentId),
    );
  }

  #unplaced(id: string, path: string): boolean {
    return this.#w.records.read(path)?.responses.has(id) !== true;
  }

  #isBlind(id: string, path: string, active: IntentRow | null): boolean {
    if (this.#unplaced(id, path)) return true;
    const blocked = active === null ? [] : this.#blockedOf(active);
    const outputs = this.#w.records.read(path)?.outputs;
    return blocked.length > 0 && !blocked.some((one) => outputs?.has(one));
  }

  #blockedOf({ barrier }: IntentRow): string[] {
    if (barrier === null) return [];
    return this.#w.outside
      .query<{ id: string }, { incarnation: string; batch: number }>(
        `SELECT tool_use_id AS id FROM tool_admissions WHERE agent_session_id = $incarnation
           AND agent_id = '' AND batch_ordinal = $batch AND admission = 'Block'`,
      )
      .all({ incarnation: barrier.incarnation, batch: barrier.batch })
      .map((row) => row.id);
  }

  /** The model need not have been told when this call ran: nothing could be read, and the chapter lets it pass. */
  excuses(sim: SimAgent, call: Call): boolean {
    return isCodex(sim) && this.#excused.has(call.id);
  }

  /** Why a tool must not run beside the others of its response; those nobody was asked about are nobody's. */
  beside(sim: SimAgent, call: Call): string | null {
    if (!isCodex(sim) || !this.#passed.has(call.id)) return null;
    const calls = sim.agent.main.batch?.calls ?? [];
    const other = calls.find(
      (c) => c !== call && this.#passed.has(c.id) && ["allowed", "running"].includes(c.state),
    );
    return other === undefined ? null : `${other.id} of its response is not over`;
  }

  // ---- rows ---------------------------------------------------------------------------------------------------

  /** After every step in which something was committed. */
  look(): void {
    this.#checkBound();
    const rows = this.#w.outside
      .query<
        { seq: number; kind: string; why: string | null; incarnation: string },
        { last: number }
      >(
        `SELECT seq, kind, data_json ->> '$.why' AS why, data_json ->> '$.incarnation' AS incarnation FROM events
         WHERE seq > $last AND kind IN ('serial_violation', 'boundary_lost') ORDER BY seq`,
      )
      .all({ last: this.#lastEvent });
    for (const { seq, kind, why, incarnation } of rows) {
      this.#lastEvent = seq;
      if (kind === "boundary_lost") this.#lost.add(incarnation);
      if (kind === "serial_violation") this.#count("violation");
      else this.#count(why === "two calls in one response" ? "capability lost" : "unhooked edit");
    }
  }

  /** Nobody is told at a boundary that was found to be none, before this look. */
  #checkBound(): void {
    const rows = this.#w.outside
      .query<{ key: string; seq: number; incarnation: string }, []>(
        `SELECT intent_id || ' ' || barrier_agent_session_id || ' ' || barrier_tool_batch AS key, seq,
           barrier_agent_session_id AS incarnation FROM sync_intents WHERE barrier_tool_batch IS NOT NULL`,
      )
      .all();
    for (const { key, seq, incarnation } of rows)
      if (!this.#bound.has(key) && this.#lost.has(incarnation))
        this.#w.breach(`intent ${seq} is bound, and the boundary of its incarnation is lost`);
    this.#bound = new Set(rows.map((row) => row.key));
  }

  /** Bounds of one epoch, whichever harness and however many daemons. */
  checkBounds(): void {
    const attempts = this.#w.outside
      .query<{ intent: string; n: number }, { most: number }>(
        `SELECT startup_intent_id AS intent, count(*) AS n FROM agent_sessions
         WHERE startup_intent_id IS NOT NULL GROUP BY startup_intent_id, startup_intent_epoch
         HAVING n > $most`,
      )
      .all({ most: DEFAULT_SETTINGS.attempts });
    for (const { intent, n } of attempts) this.#w.breach(`${n} attempts for intent ${intent}`);
    const again = this.#w.outside
      .query<{ seq: number }, []>("SELECT seq FROM sync_intents WHERE soft_redelivery_count > 1")
      .all();
    for (const { seq } of again) this.#w.breach(`intent ${seq} was redelivered twice in one epoch`);
  }

  /** A blocked call was answered with the payload, and the call that acknowledges was asked for later, in that record. */
  checkAcknowledged(i: IntentRow, by: string | null, name: string): void {
    const w = this.#w;
    const thread = w.threads().find((t) => t.threadId === i.threadId)!;
    if (thread.harness !== "codex" || i.barrier === null) return;
    this.#count("acknowledged");
    const blocked = this.#blockedOf(i);
    if (by === null || blocked.includes(by))
      return w.breach(`${name} acknowledged by the blocked call itself`);
    const lines = w.records.lines(codexRecord(thread.workspacePath, i.receiptSession ?? ""));
    const told = lines.findIndex(
      (line) =>
        line.is === "output" &&
        blocked.includes(line.id) &&
        /^(Command|Tool call) blocked by PreToolUse hook: /.test(line.text) &&
        line.text.includes(i.payload ?? "\0"),
    );
    const later = lines.findIndex((line) => line.is === "call" && line.id === by);
    if (told < 0) return w.breach(`${name} acknowledged, and its record has no such result`);
    if (later < told) return w.breach(`${name} acknowledged by ${by}, which was not asked later`);
    const response = (at: number): number =>
      lines.slice(0, at).filter((line) => line.is === "usage").length;
    const asked = lines.findIndex((line) => line.is === "call" && blocked.includes(line.id));
    if (response(later) <= response(asked))
      w.breach(`${name} acknowledged by ${by} of the same response`);
  }

  /** The turn has ended, and with it a batch was completed. */
  turnEnded(before: IntentRow | null): void {
    if (before === null || before.batchCompletedAt !== null) return;
    const now = intentById(this.#w.outside, before.intentId)!;
    const same = JSON.stringify(now.barrier) === JSON.stringify(before.barrier);
    if (same && now.batchCompletedAt !== null) this.#count("completed by Stop");
  }

  #count(path: SerialPath): void {
    this.#w.count(`${COUNTED}serial ${path}`);
  }
}
