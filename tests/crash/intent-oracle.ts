/**
 * What must hold in the intents' world after every step and after every change of a file, whoever died when. It looks
 * at the world and at what is durable, never into a daemon.
 */
import { startupMark } from "../../src/core/delivery.ts";
import { isResolved, needsMarker } from "../../src/core/intent.ts";
import { recoveryBundle, threadPaths } from "../../src/core/paths.ts";
import { openAttention } from "../../src/store/attention.ts";
import { edges } from "../../src/store/edges.ts";
import { liveSession } from "../../src/store/sessions.ts";
import { newestOfEdge, type IntentRow } from "../../src/store/intents.ts";
import { write, type ToolSpec } from "../fakes/agent-tools.ts";
import { valueAt } from "../fakes/jj/tree.ts";
import type { DiskChange } from "../sim/disk.ts";
import { CHILD, PARENT, REPO_ID, STATE, type IntentScene } from "./intent-threads.ts";
import type { Command } from "./intent-troubles.ts";

interface Own {
  path: string;
  text: string;
}

export class IntentOracle {
  readonly violations: string[] = [];
  /** Per intent: updates by kiki that changed the child's files, and rebases that became part of the repository. */
  readonly updates = new Map<string, number>();
  readonly rebases = new Map<string, number>();
  /** Followers' revisions that recovery took along. */
  readonly moves = new Map<string, number>();
  readonly #w: IntentScene;
  readonly #own: Own[] = [];
  readonly #payloads = new Map<string, string>();
  readonly #acknowledged = new Set<string>();
  /** Files that somebody's own jj changed. */
  readonly #handled = new Set<string>();
  #changed = false;
  #on = false;

  readonly #disobedient: boolean;

  /** `disobedient`: the agent runs tools it was told not to, and that is not the product's doing. */
  constructor(world: IntentScene, disobedient: boolean) {
    this.#w = world;
    this.#disobedient = disobedient;
    world.files.onChange = (change) => this.#fileChange(change);
  }

  begin(): void {
    this.#on = true;
  }

  violation(text: string): void {
    if (!this.violations.includes(text)) this.violations.push(text);
  }

  /** The agent writes a file of its own. */
  edit(own: Own): ToolSpec {
    const spec = write(own.path, own.text);
    const effect = spec.effect!;
    return {
      ...spec,
      effect: (files) => {
        this.#own.push(own);
        return effect(files);
      },
    };
  }

  /** Somebody else writes it for the agent. */
  note(own: Own): void {
    this.#own.push(own);
  }

  /** Runs one jj command of kiki's and counts what it did. */
  async command(name: Command, run: () => Promise<unknown>): Promise<unknown> {
    const intent = this.#reconciling();
    const before = this.#w.jj.engine.heads.size + this.#w.jj.head;
    this.#changed = false;
    const result = await run();
    const id = intent?.intentId ?? "none";
    const count = (map: Map<string, number>): void => void map.set(id, (map.get(id) ?? 0) + 1);
    if (name === "updateStale" && this.#changed) count(this.updates);
    if (name === "integrate" && before !== this.#w.jj.engine.heads.size + this.#w.jj.head)
      count(intent?.recovering === true ? this.moves : this.rebases);
    if (intent === null) this.violation(`${name} runs for no intent`);
    return result;
  }

  /** Why a tool of the agent must not run now. */
  forbidden(): string | null {
    // Where nobody can read what the model got, and nothing else waits, a call passes.
    if (this.#w.blind) return null;
    const intent = this.#w.intents().find((i) => needsMarker(i.state, i.barrier !== null));
    return intent === undefined ? null : `intent ${intent.seq} is ${intent.state}`;
  }

  /** Under way: kiki may change files for it. */
  #reconciling(): IntentRow | null {
    return this.#w.intents().find((i) => i.state === "Reconciling" || i.recovering) ?? null;
  }

  /** kiki changes the files of a managed workspace only behind a bound barrier, with the agent standing still. */
  #fileChange({ path }: DiskChange): void {
    if (!this.#on) return;
    if (this.#w.files.actor === "jj") this.#handled.add(path);
    if (this.#w.files.actor !== "kiki") return;
    const thread = Object.values(this.#w.threads).find((t) => path.startsWith(`${t.root}/`));
    if (thread === undefined || /^\/\.(jj|git)(\/|$)/.test(path.slice(thread.root.length))) return;
    this.#changed = true;
    const told = (what: string): void => this.violation(`${path} changes ${what}`);
    if (thread.id !== CHILD) return told("in a workspace that is not being reconciled");
    const intent = this.#reconciling();
    if (intent === null) told("for no intent");
    if (intent?.barrier === null && !this.#w.still) told("beside an agent that is not bound");
    if (!this.#marked()) told("without a barrier marker");
    if (this.#w.still) return;
    const calls = this.#w.agent.main.batch?.calls ?? [];
    for (const call of calls)
      if (["allowed", "dialog", "running"].includes(call.state)) told(`under ${call.id}`);
  }

  /** After every step, with a daemon or without. */
  check(): void {
    if (!this.#on) return;
    const intents = this.#w.intents();
    for (const intent of intents) this.#checkIntent(intent);
    const needing = intents.find((i) => needsMarker(i.state, i.barrier !== null));
    if (needing !== undefined && !this.#marked())
      this.violation(`intent ${needing.seq} is ${needing.state} and there is no marker`);
    for (const own of this.#own) this.#checkKept(own, intents);
    if (!this.#disobedient) for (const text of this.#w.agent.violations) this.violation(text);
  }

  #checkIntent(intent: IntentRow): void {
    const { intentId, payload, seq } = intent;
    const known = this.#payloads.get(intentId);
    if (known !== undefined && known !== payload) this.violation(`payload of ${seq} changed`);
    if (payload !== null) this.#payloads.set(intentId, payload);
    const told = intent.state === "Acknowledged" && !this.#isGivenUp(intentId);
    if (told && !this.#acknowledged.has(intentId)) {
      this.#acknowledged.add(intentId);
      if (intent.restart !== null) this.#checkEcho(intent);
      else if (intent.receipt !== "matching")
        this.violation(`${seq} acknowledged without its receipt`);
      if (!this.#w.agent.context.some((s) => s.text.includes(payload!)))
        this.violation(`${seq} acknowledged although the model never saw the payload`);
    }
  }

  /** The very process that acknowledges was given the payload as a prompt, under the id of its own start. */
  #checkEcho({ seq, restart, payload }: IntentRow): void {
    const sql = "SELECT startup_echo_at AS at FROM agent_sessions WHERE agent_session_id = ?";
    const row = this.#w.outside.query<{ at: number | null }, [string]>(sql);
    if (row.get(restart!.incarnation)?.at == null)
      this.violation(`${seq} acknowledged without the echo of its start`);
    const mark = startupMark(restart!.deliveryId);
    const told = this.#w.agent.context.some(
      (s) => s.kind === "prompt" && s.text.startsWith(payload!) && s.text.includes(mark),
    );
    if (!told) this.violation(`${seq} acknowledged by an agent that was not told at its start`);
  }

  /**
   * In the files, or in the bundle of a stopped intent. Where a person's jj or a disobedient agent had its hands in it,
   * what jj itself kept in a visible commit will do.
   */
  #checkKept(own: Own, intents: readonly IntentRow[]): void {
    if (this.#w.files.get(own.path)?.includes(own.text) === true) return;
    const path = own.path.slice(this.#w.threads.child.root.length);
    const stopped = intents.filter((i) => i.state === "RecoveryRequired");
    const kept = stopped.some((i) => {
      const copy = `${recoveryBundle(STATE, REPO_ID, i.intentId)}/files${path}`;
      return this.#w.files.get(copy)?.includes(own.text) === true;
    });
    if (kept) return;
    // jj's stale recovery takes edits off the disk into a visible commit, and the agent does not go on until they are back.
    const underWay = intents.some(
      (i) => i.state === "Reconciling" || i.state === "RecoveryRequired",
    );
    const commitWillDo = underWay || this.#disobedient || this.#handled.has(own.path);
    if (commitWillDo && this.#recorded(own, path)) return;
    this.violation(`${own.path} is lost or hidden`);
  }

  #recorded(own: Own, path: string): boolean {
    const { store } = this.#w.jj.engine;
    const { visible } = store.index(this.#w.jj.engine.newestHead().view);
    return [...visible].some((id) => {
      const entry = valueAt(store.commit(id).tree, path.slice(1));
      return typeof entry === "string" && entry.includes(own.text);
    });
  }

  #marked(): boolean {
    return this.#w.files.get(threadPaths(STATE, REPO_ID, CHILD).barrier) !== null;
  }

  /**
   * With a daemon, and everybody at rest. `settled`: every intent is resolved. `nobody`: what is not is merely detected,
   * and its agent has ended; the next one is told of it, and a crash alone starts none.
   */
  atRest(limits: { updates: number }): { settled: boolean; nobody: boolean; states: string } {
    this.check();
    const w = this.#w;
    const intents = w.intents();
    const needing = intents.some((i) => needsMarker(i.state, i.barrier !== null));
    if (this.#marked() !== needing) this.violation(`marker ${needing ? "missing" : "left behind"}`);
    for (const i of intents)
      if (i.state === "Acknowledged" && !this.#isGivenUp(i.intentId)) this.#checkTurn(i);
    for (const [id, n] of this.updates)
      if (n > limits.updates) this.violation(`${n} updates of the files for ${this.#seq(id)}`);
    // Files of a rebase that was cut short are edits on the old base to jj: recovered there, they are rebased once more.
    const recovered = new Set(
      intents.filter((i) => i.recoveryChoice !== null).map((i) => i.intentId),
    );
    for (const [id, n] of [...this.rebases, ...this.moves])
      if (n > (recovered.has(id) ? 2 : 1)) this.violation(`${n} rebases for ${this.#seq(id)}`);
    this.#checkEdges();
    this.#checkHalves();
    const live = w.outside.query("SELECT count(*) AS n FROM op_attribution WHERE live = 1").get();
    if ((live as { n: number }).n > 0 && this.#reconciling() === null)
      this.violation("operations of kiki's are left to a handler that is gone");
    const open = intents.filter((i) => !isResolved(i.state));
    return {
      settled: open.length === 0,
      nobody: open.length > 0 && !w.agent.alive && open.every((i) => i.state === "Detected"),
      states: intents.map((i) => `${i.state} ${i.reason ?? ""}`.trim()).join(", "),
    };
  }

  /** After everything: what is not resolved by now is something a person has been told of. */
  atEnd(): void {
    const loud = openAttention(this.#w.outside, CHILD).length > 0;
    for (const i of this.#w.intents())
      if (!isResolved(i.state) && !loud) this.violation(`${i.seq} ends silently as ${i.state}`);
    const { agents, outside } = this.#w;
    const waits = this.#w.intents().some((i) => i.state === "RecoveryRequired" || i.exhausted);
    // Whom kiki ended it also started, unless a person has to decide first.
    if (
      agents.asked.some((one) => one.startsWith("end ")) &&
      !waits &&
      liveSession(outside, CHILD) === null
    )
      this.violation("the agent that kiki ended was not started again");
  }

  /** The call that acknowledged belongs to a later response than one that got the payload. */
  #checkTurn({ intentId, payload, seq, restart }: IntentRow): void {
    if (restart !== null) return;
    const sql = "SELECT acknowledged_by AS id FROM sync_intents WHERE intent_id = ?";
    const { id } = this.#w.outside.query<{ id: string }, [string]>(sql).get(intentId)!;
    const { batches } = this.#w.agent.main;
    const told = batches.findIndex((b) => b.calls.some((c) => c.result?.includes(payload!)));
    const by = batches.findIndex((b) => b.calls.some((c) => c.id === id));
    if (told < 0 || by <= told) this.violation(`${seq} acknowledged by a call of no later turn`);
  }

  /** Every transition of a parent is where its child stands, or an intent of the edge has it. */
  #checkEdges(): void {
    const { outside, jj, threads } = this.#w;
    for (const edge of edges(outside)) {
      const parent = edge.parent === PARENT ? threads.parent : threads.child;
      const at = jj.at(parent.workspace);
      const newest = newestOfEdge(outside, edge.child, edge.parent);
      if (this.#w.intents().some((i) => this.#isGivenUp(i.intentId))) continue;
      if (newest?.state === "TopologyDiverged" || newest?.state === "RecoveryRequired") continue;
      if (at !== edge.lastSynchronized && at !== newest?.toBase)
        this.violation(`what ${parent.name} did is lost for the thread that follows it`);
    }
  }

  /** What jj was killed in the middle of is in no revision of the child's: halves are nobody's edits. */
  #checkHalves(): void {
    const { jj, threads } = this.#w;
    const { store } = jj.engine;
    const view = jj.engine.newestHead().view;
    const halves = new Set(jj.engine.disk.halves);
    if (halves.size === 0) return;
    for (const id of store.index(view).visible)
      for (const [path, entry] of store.commit(id).tree.terms.flatMap((term) => [...term]))
        if (halves.has(`${path}\0${entry}`))
          this.violation(`half of ${path} is in a revision (${threads.child.workspace})`);
  }

  /** A person wanted nothing of it. */
  #isGivenUp(intentId: string): boolean {
    const sql = "SELECT discard FROM sync_intents WHERE intent_id = ?";
    const row = this.#w.outside.query<{ discard: string | null }, [string]>(sql).get(intentId);
    return row?.discard === "transition";
  }

  #seq(intentId: string): string {
    return `intent ${this.#w.intents().find((i) => i.intentId === intentId)?.seq ?? intentId}`;
  }
}
