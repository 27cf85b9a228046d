/**
 * Counts the paths of paths.ts in one world. It watches what the product says of itself anyway, and changes nothing: what
 * it reads, it reads from outside.
 */
import type { BlockReason } from "../../src/core/barrier.ts";
import { blockText, HOLD_TEXT } from "../../src/cascade/texts.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import type { WorkspaceProbe } from "../../src/ports/jj.ts";
import { unresolvedIntents, type IntentRow } from "../../src/store/intents.ts";
import { startupEcho } from "../../src/store/startup-prompts.ts";
import { COUNTED, type DeliveryPath, type SerialPath } from "./paths.ts";
import type { World } from "./world.ts";

/** Rows of an intent that say which way it went. */
interface Way {
  id: string;
  state: string;
  kind: string;
  /** Classification of its reconciliation. */
  planned: string | null;
  reason: string | null;
  mode: string | null;
  discard: string | null;
  batch: string | null;
  receipt: string | null;
  serial: boolean;
}

export class Observer {
  readonly #w: World;
  readonly #ways = new Map<string, Way>();
  readonly #looks = new Map<string, { fingerprint: string; by: string }>();
  readonly #failed = new Set<string>();
  readonly #paused = new Set<string>();
  readonly #acknowledged = new Set<string>();

  constructor(world: World) {
    this.#w = world;
  }

  // ---- the crash port ----------------------------------------------------------------------------------------

  /** A point that is passed once the transaction has committed. */
  point(name: string): void {
    const move = /^intent\.(.+)\.completed$/.exec(name)?.[1];
    if (move === undefined) return;
    const [from, to] = move.split("-");
    if (move === "detected") this.#count("intent Detected");
    else if (move === "found-diverged") this.#count("intent TopologyDiverged");
    else if (move === "rebound" || move === "bound-prepared") this.#delivery("rebind");
    else if (move === "restarting") this.#delivery("restart: attempt");
    else if (move === "startup-echoed") this.#delivery("restart: echo");
    else if (move === "exhausted") this.#delivery("restart: exhausted");
    else if (move === "retried") this.#delivery("retry-delivery");
    else if (/^[A-Z]/.test(to ?? "")) {
      this.#count(`intent ${to}`);
      this.#count(`transition ${from} → ${to}`);
      if (to === "Acknowledged") this.#newlyAcknowledged(from!);
    }
  }

  #newlyAcknowledged(from: string): void {
    const rows = this.#w.outside
      .query<{ id: string; discard: string | null; mode: string | null }, []>(
        `SELECT intent_id AS id, discard, delivery_mode AS mode FROM sync_intents
         WHERE state = 'Acknowledged'`,
      )
      .all()
      .filter((row) => !this.#acknowledged.has(row.id));
    for (const { id, discard, mode } of rows) {
      this.#acknowledged.add(id);
      if (discard === "delivery") this.#delivery("discard-delivery");
      else if (discard === "transition") this.#count("transition given up");
      else if (mode === "SoftBatch") {
        this.#delivery("acknowledged by a later turn");
        // Two at once: a daemon died right behind the first one's commit, and nothing says whose the move was.
        if (from === "Materialized" && rows.length === 1)
          this.#delivery("acknowledged, lost MarkDelivered repaired");
      }
    }
  }

  // ---- other ports -------------------------------------------------------------------------------------------

  /** A look at a workspace's files, for a thread whose intent is `by` or for nobody's. */
  probed(root: string, probe: WorkspaceProbe): void {
    this.#count(`probe ${probe.state}`);
    const thread = this.#w.threads().find((t) => t.workspacePath === root);
    const by = thread === undefined ? null : this.#underWay(thread.threadId);
    const before = this.#looks.get(root);
    if (by === null) this.#looks.delete(root);
    else this.#looks.set(root, { fingerprint: probe.fingerprint, by });
    // Two looks of one reconciliation with nothing of kiki's in between, which is what it compares them for.
    if (before !== undefined && before.by === by && before.fingerprint !== probe.fingerprint)
      this.#count("probe drift");
  }

  /** A command of kiki's: whatever is looked at next may differ because of it. */
  mutated(name: string, args: readonly unknown[]): void {
    this.#looks.clear();
    if (name !== "snapshot") return;
    const row = this.#w.outside
      .query<{ handler: string }, { token: string }>(
        "SELECT handler FROM op_attribution WHERE token = $token",
      )
      .get({ token: args[1] as string });
    if (row?.handler === "snapshot") this.#count("turn-end snapshot");
  }

  logged(message: string): void {
    if (/: nothing bound, /.test(message)) this.#delivery("unbindable batch");
    const restarted = / is restarted: ([a-z-]+)$/.exec(message)?.[1];
    if (restarted !== undefined) this.#count(`block ${restarted}`);
  }

  /** A file the daemon takes away once it has read it. */
  consumed(path: string): void {
    if (/\/spool\/[^/]+\.json$/.test(path)) this.#delivery("spooled event");
    if (/\/passed\/[^/.][^/]*$/.test(path)) this.#delivery("passed/ file");
  }

  /** A hook that got no answer looked at the marker. */
  lookedAtMarker(barred: boolean): void {
    if (barred) this.#delivery("outage: denied at the marker");
  }

  // ---- the hook's answers ------------------------------------------------------------------------------------

  /** What a call is to be judged by: the intent that its thread's barrier is up for. */
  before(threadId: string): IntentRow | null {
    return unresolvedIntents(this.#w.outside, threadId).find((i) => i.barrier !== null) ?? null;
  }

  /** The answer to a `PreToolUse`. */
  answered(
    threadId: string,
    agentId: string | null,
    decision: HookDecision,
    was: IntentRow | null,
  ): void {
    if (decision.decision === "pass") return this.#delivery("pass");
    if (decision.decision === "hold") {
      const waits = was?.state === "Reconciling" || was?.recovering === true;
      if (agentId === null && waits && was.batchCompletedAt === null) this.#delivery("await");
      return;
    }
    const text = reasonIn(decision.output);
    if (text === HOLD_TEXT) return this.#delivery("stay-blocked");
    const reason = (["recovery-required", "delivery-exhausted"] as const).find(
      (r) => blockText(r) === text,
    );
    if (reason !== undefined) return this.#block(reason);
    if (text === blockText("startup-not-echoed")) {
      const { outside } = this.#w;
      const waits = unresolvedIntents(outside, threadId).some(
        ({ restart }) =>
          restart !== null &&
          startupEcho(outside, threadId, restart.incarnation).shown.length === 0,
      );
      // The other reasons with these words are in the log, because a restart follows.
      if (waits) this.#block("startup-not-echoed");
      return;
    }
    const now = this.before(threadId);
    const same = JSON.stringify(now?.barrier) === JSON.stringify(was?.barrier);
    const told = unresolvedIntents(this.#w.outside, threadId).some((i) => i.payload === text);
    if (told && agentId === null && same) this.#delivery("deny-payload");
    if (told && agentId !== null) this.#delivery("sub-agent copy");
  }

  /** The end of a `Hold`. */
  released(threadId: string, agentId: string | null, decision: HookDecision): void {
    if (decision.decision !== "deny" || agentId === null) return;
    const text = reasonIn(decision.output);
    if (unresolvedIntents(this.#w.outside, threadId).some((i) => i.payload === text))
      this.#delivery("sub-agent copy");
  }

  // ---- rows --------------------------------------------------------------------------------------------------

  /** After every step in which something was committed. */
  look(): void {
    for (const now of this.#waysNow()) {
      const was = this.#ways.get(now.id);
      this.#ways.set(now.id, now);
      if (now.state === "TopologyDiverged" && was?.state !== now.state)
        this.#count("classification TopologyDiverged");
      else if (now.state !== "TopologyDiverged" && was?.kind !== now.kind)
        this.#count(`classification ${now.kind}`);
      const aligned =
        (now.planned === "AlreadyAligned" && was?.planned !== now.planned) ||
        (now.state === "Superseded" && was?.state !== now.state && /stands/.test(now.reason ?? ""));
      if (aligned) this.#count("classification AlreadyAligned");
      if (now.mode === "SoftBatch" && (was === undefined || was.state === "Detected")) {
        this.#delivery("bind");
        if (now.serial) this.#serial("bind");
      }
      if (now.receipt !== null && (was?.receipt !== now.receipt || was.batch !== now.batch))
        this.#receipt(now, was);
    }
    this.#lookAtAttempts();
    this.#lookAtPauses();
  }

  /** When it is over: what people had repaired. */
  end(): void {
    const rows = this.#w.outside
      .query<{ repair: string; does: string | null; state: string }, []>(
        `SELECT args_json ->> '$.repair' AS repair, args_json ->> '$.order.do' AS does, state
         FROM thread_lifecycle_ops WHERE kind = 'Repair'`,
      )
      .all();
    for (const { repair, does, state } of rows)
      this.#count(`kk repair ${repair}${does === null ? "" : ` ${does}`}: ${state}`);
  }

  #receipt(now: Way, was: Way | undefined): void {
    if (now.receipt === "unreadable") return this.#serial("receipt unreadable");
    if (was?.receipt === "unreadable" && was.batch === now.batch)
      this.#serial("receipt read later");
    const path = now.receipt === "matching" ? "matching receipt" : "contrary receipt";
    this.#delivery(path);
    if (now.serial) this.#serial(path);
  }

  #waysNow(): Way[] {
    return this.#w.outside
      .query<Way, []>(
        `SELECT intent_id AS id, state, kind, plan_json ->> '$.kind' AS planned, reason, discard,
           delivery_mode AS mode, receipt, barrier_agent_session_id || barrier_tool_batch AS batch,
           (SELECT harness = 'codex' FROM threads t WHERE t.thread_id = i.thread_id) AS serial
         FROM sync_intents i`,
      )
      .all();
  }

  /** A replacement that ended before it had shown what it was started with. */
  #lookAtAttempts(): void {
    const rows = this.#w.outside
      .query<{ id: string }, []>(
        `SELECT agent_session_id AS id FROM agent_sessions WHERE startup_intent_id IS NOT NULL
         AND retired_at IS NOT NULL AND startup_echo_at IS NULL`,
      )
      .all();
    for (const { id } of rows) {
      if (this.#failed.has(id)) continue;
      this.#failed.add(id);
      this.#delivery("restart: failed");
    }
  }

  /** Processes of an agent that stay stopped while a person is waited for. */
  #lookAtPauses(): void {
    const rows = this.#w.outside
      .query<{ id: string; state: string }, []>(
        `SELECT DISTINCT i.intent_id AS id, i.state FROM stopped_processes p
           JOIN sync_intents i ON i.intent_id = p.owner_id
         WHERE p.owner_kind = 'intent' AND p.state = 'Stopped'`,
      )
      .all();
    for (const { id, state } of rows) {
      const key = `${id} ${state}`;
      if (this.#paused.has(key)) continue;
      this.#paused.add(key);
      this.#count(`processes stand still: ${state}`);
    }
  }

  #underWay(threadId: string): string | null {
    const one = unresolvedIntents(this.#w.outside, threadId).find(
      (i) => i.state === "Reconciling" || i.recovering,
    );
    return one?.intentId ?? null;
  }

  #block(reason: BlockReason): void {
    this.#count(`block ${reason}`);
  }

  #serial(path: SerialPath): void {
    this.#count(`serial ${path}`);
  }

  #delivery(path: DeliveryPath): void {
    this.#count(`delivery ${path}`);
  }

  #count(what: string): void {
    this.#w.count(COUNTED + what);
  }
}

function reasonIn(output: string): string {
  const verdict = JSON.parse(output) as {
    hookSpecificOutput?: { permissionDecisionReason?: string };
  };
  return verdict.hookSpecificOutput?.permissionDecisionReason ?? "";
}
