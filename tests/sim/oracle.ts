/**
 * What must hold in a simulated world after every step (performance chapter, "The oracle's invariants"), as far as the
 * product goes today. It looks at what is durable and at the world itself, never into the daemon.
 */
import { isPrepared, type IntentState } from "../../src/core/intent.ts";
import { startupMark } from "../../src/core/delivery.ts";
import { repoPaths } from "../../src/core/paths.ts";
import { edges } from "../../src/store/edges.ts";
import { intentById, unresolvedIntents, type IntentRow } from "../../src/store/intents.ts";
import { liveSession, sessionById } from "../../src/store/sessions.ts";
import type { Call } from "../fakes/agent-batch.ts";
import { evolvedFrom } from "../fakes/jj/reads.ts";
import { materialised, valueAt } from "../fakes/jj/tree.ts";
import { alive, writers } from "./children.ts";
import { REPO_ID, STATE } from "./daemon.ts";
import { REPO_ROOT, type DiskChange } from "./disk.ts";
import { isFromBeforeChoice } from "./oracle-flights.ts";
import { checkCover } from "./oracle-watch.ts";
import { contains, reachability } from "./oracle-words.ts";
import { loose, type SimAgent } from "./panes.ts";
import type { World } from "./world.ts";

/** One intent, as far as it must not change. */
interface Known {
  id: string;
  thread: string;
  state: IntentState;
  seq: number;
  /** SHA-256. */
  payload: string | null;
  result: string | null;
  mode: string | null;
}

const OVER: ReadonlySet<IntentState> = new Set(["Acknowledged", "Superseded", "TopologyDiverged"]);

/** Moves that may lie between two looks. */
const REACHABLE = reachability();

export class Oracle {
  readonly #w: World;
  readonly #intents = new Map<string, Known>();
  readonly #processed = new Map<string, number>();
  #lastRow = 0;
  /** Workspace folder → paths whose edits a command of kiki's took off the disk; nobody may go on there unseen. */
  readonly #hidden = new Map<string, { path: string; entry: string }[]>();
  /** Last bytes that an agent or a person wrote, by path: they must be somewhere for ever. */
  readonly #written = new Map<string, string>();
  #command: string | null = null;
  #version = -1;
  #heads = "";

  constructor(world: World) {
    this.#w = world;
  }

  // ---- moments -----------------------------------------------------------------------------------------------

  /** A file is about to change. */
  fileChange(change: DiskChange): void {
    const root = this.#rootOf(change.path);
    if (root === null) return;
    const { actor } = this.#w.files;
    if (actor === "edit") {
      if (change.after === null) this.#written.delete(change.path);
      else this.#written.set(change.path, change.after);
      this.#hidden.delete(root);
      return;
    }
    const relative = change.path.slice(root.length + 1);
    if (change.before !== null && !this.#kept(relative, change.before)) {
      this.#w.breach(`${actor} destroyed unrecorded bytes of ${change.path}${this.#doing()}`);
    }
    if (actor === "jj") this.#hidden.delete(root);
    if (actor === "kiki") this.#checkBarrier(root, change.path);
  }

  /** Why a tool must not be at the files now; null when it may. */
  forbidden(sim: SimAgent, call: Call): string | null {
    const intents = unresolvedIntents(this.#w.outside, sim.threadId);
    const moving = intents.find((i) => i.state === "Reconciling");
    if (moving !== undefined && !isFromBeforeChoice(this.#w, sim, call, moving.intentId))
      return `intent ${moving.intentId} is changing the files`;
    if (intents.some((i) => i.state === "RecoveryRequired")) return "the thread waits for recovery";
    const told = intents.find((i) => isPrepared(i.state));
    const main = sim.agent.main.batches.some((b) => b.calls.includes(call));
    const excused = this.#w.serial.excuses(sim, call);
    if (main && told?.payload != null && !excused && !this.#saw(sim, told.payload))
      return `the model was not told of intent ${told.seq}`;
    if (this.#hidden.has(sim.root))
      return `its edits of ${this.#hidden
        .get(sim.root)!
        .map((h) => h.path)
        .join()} are hidden`;
    return this.#w.serial.beside(sim, call);
  }

  /** A command of kiki's that changes jj begins; the returned function is called when it has ended. */
  kikiCommand(name: string, args: readonly unknown[]): () => void {
    const before = this.#command;
    this.#command = name;
    this.#w.count(`jj ${name}`);
    if (name !== "updateStale" && name !== "edit") return () => (this.#command = before);
    const root = args[0] as string;
    if (name === "edit") {
      return () => {
        this.#command = before;
        if (
          this.#hidden.get(root)?.every(({ path, entry }) => this.#isBack(root, path, entry)) ===
          true
        )
          this.#hidden.delete(root);
      };
    }
    const { disk } = this.#w.jj.engine;
    const record = disk.record(root);
    const dirty =
      record === null ? [] : disk.changes(root, record.tree).filter((c) => c.entry !== null);
    return () => {
      this.#command = before;
      const gone = dirty.filter(({ path, entry }) => disk.entryAt(root, path) !== entry);
      const hidden = gone.filter(({ path, entry }) => !contains(disk.entryAt(root, path), entry!));
      if (hidden.length > 0) this.#hidden.set(root, hidden as { path: string; entry: string }[]);
    };
  }

  /** The files are those of a revision that evolved from jj's record of exactly these bytes: merged, not dropped. */
  #isBack(root: string, path: string, entry: string): boolean {
    const { engine } = this.#w.jj;
    const record = engine.disk.record(root);
    const at =
      record === null ? undefined : engine.newestHead().view.workspaces.get(record.workspace);
    if (record === null || at === undefined || record.tree !== engine.store.commit(at).tree)
      return false;
    return evolvedFrom(engine, engine.newestHead(), at).some(
      (id) => valueAt(engine.store.commit(id).tree, path) === entry,
    );
  }

  // ---- after every step --------------------------------------------------------------------------------------

  check(): void {
    const w = this.#w;
    for (const sim of w.agents()) this.#note(sim);
    for (const pane of w.panes)
      for (const { agent } of pane.agents)
        for (const violation of agent.violations.splice(0))
          if (!w.rogue.has(`${agent.sessionId} ${violation.split(" ")[0]!.replace(":", "")}`))
            w.breach(`agent: ${violation}`);
    if (!this.#moved()) return;
    w.observer.look();
    w.serial.look();
    w.serial.checkBounds();
    this.#checkIntents();
    for (const thread of w.threads()) {
      if (thread.lifecycle === "Active") this.#checkActive(thread.threadId, thread.name);
      this.#checkOnce(thread.threadId, thread.name);
    }
    this.#checkOperations();
    checkCover(w);
  }

  /** Since the last look something was committed, or jj or tmux moved. */
  #moved(): boolean {
    const { jj, tmux, ports } = this.#w;
    const { version } = this.#w;
    const sessions = tmux.sessions.map((s) => s.id).join();
    const heads = `${[...jj.engine.heads].join()} ${sessions} ${ports.parked.length}`;
    if (version === this.#version && heads === this.#heads) return false;
    [this.#version, this.#heads] = [version, heads];
    return true;
  }

  /** At the end: no operation was interpreted again, and every byte somebody wrote is on disk, in a commit or a bundle. */
  checkAtEnd(): void {
    for (const [id, at] of this.#processed) {
      const row = this.#w.outside
        .query<{ at: number | null }, { id: string }>(
          "SELECT processed_at AS at FROM op_history WHERE op_id = $id",
        )
        .get({ id });
      if (row?.at !== at) this.#w.breach(`operation ${id.slice(0, 8)} was interpreted twice`);
    }
    for (const [path, text] of this.#written) {
      const root = this.#rootOf(path);
      if (this.#w.files.get(path) === text || root === null) continue;
      if (!this.#kept(path.slice(root.length + 1), text))
        this.#w.breach(`bytes of ${path} are lost`);
    }
  }

  #note(sim: SimAgent): void {
    const seen = sim.saw.get(sim.agent.sessionId) ?? new Set();
    sim.saw.set(sim.agent.sessionId, seen);
    for (const { text } of sim.agent.context) seen.add(text);
  }

  #saw(sim: SimAgent, payload: string): boolean {
    this.#note(sim);
    return [...(sim.saw.get(sim.agent.sessionId) ?? [])].some((text) => text.includes(payload));
  }

  #checkIntents(): void {
    const w = this.#w;
    const bound = new Set<string>();
    for (const now of this.#intentsNow()) {
      const known = this.#intents.get(now.id);
      const name = `intent ${now.seq} of ${now.thread.slice(-4)}`;
      if (known?.state !== now.state) this.#stateMoved(now.id, known?.state ?? null, name);
      if (known !== undefined && known.seq !== now.seq) w.breach(`${name} changed its seq`);
      if (known?.payload != null && known.payload !== now.payload)
        w.breach(`${name}: payload changed`);
      if (known?.result != null && known.result !== now.result)
        w.breach(`${name} was materialised twice`);
      this.#intents.set(now.id, now);
      if (now.mode === null || OVER.has(now.state)) continue;
      if (bound.has(now.thread)) w.breach(`several intents of ${now.thread} are bound`);
      bound.add(now.thread);
    }
  }

  #intentsNow(): Known[] {
    return this.#w.outside
      .query<Known, []>(
        `SELECT intent_id AS id, thread_id AS thread, seq, state, payload_sha256 AS payload,
           result_commit_id AS result, delivery_mode AS mode FROM sync_intents`,
      )
      .all();
  }

  #stateMoved(id: string, from: IntentState | null, name: string): void {
    const w = this.#w;
    const i = intentById(w.outside, id)!;
    if (from === null) w.count(`intent ${i.kind}`);
    w.count(`intent ${i.state}${i.reason === null ? "" : ` (${i.reason.slice(0, 40)})`}`);
    if (from !== null && !REACHABLE.has(`${from} ${i.state}`))
      w.breach(`${name} went from ${from} to ${i.state}`);
    // A person has chosen which copy goes on; it may be the one without the edits.
    const chosen = (i.recoveryChoice as { by?: string }[] | null)?.at(-1)?.by === "person";
    if (from === "RecoveryRequired" && chosen)
      this.#hidden.delete(w.threads().find((t) => t.threadId === i.threadId)!.workspacePath);
    if (i.state === "Acknowledged") this.#checkAcknowledged(i, name);
    if (isPrepared(i.state) && (from === null || !isPrepared(from))) this.#checkResult(i, name);
  }

  /** The files are those of the commit that jj has for the workspace, and it stands on the new base. */
  #checkResult(i: IntentRow, name: string): void {
    const { engine } = this.#w.jj;
    const thread = this.#w.threads().find((t) => t.threadId === i.threadId)!;
    const op = engine.newestHead();
    if (engine.heads.size > 1 || op.view.workspaces.get(thread.workspaceName) !== i.resultCommit)
      return;
    const record = engine.disk.record(thread.workspacePath);
    const freshness = record === null ? "lost" : engine.freshness(record, op, thread.workspaceName);
    if (freshness !== "fresh")
      this.#w.breach(`${name} is materialised on files that are ${freshness}`);
    const edge = edges(this.#w.outside).find((e) => e.child === i.threadId);
    if (edge !== undefined && !engine.store.isAncestor(edge.lastSynchronized, i.resultCommit!))
      this.#w.breach(`${name} is materialised, and does not stand on its base`);
  }

  /** Nothing is acknowledged without the model having been given the bytes, and a later turn of its own. */
  #checkAcknowledged(i: IntentRow, name: string): void {
    const w = this.#w;
    const row = w.outside
      .query<
        {
          receipt: string | null;
          by: string | null;
          ordinal: number | null;
          incarnation: string | null;
          discard: string | null;
        },
        { id: string }
      >(
        `SELECT receipt, discard, acknowledged_by AS "by", barrier_agent_session_id AS incarnation,
           (SELECT batch_ordinal FROM tool_admissions WHERE agent_session_id = barrier_agent_session_id
              AND tool_use_id = acknowledged_by) AS ordinal
         FROM sync_intents WHERE intent_id = $id`,
      )
      .get({ id: i.intentId })!;
    // A person gave it up: the database asks for the approval.
    if (row.discard !== null) return;
    if (i.restart !== null) return this.#checkEcho(i, name);
    if (row.receipt !== "matching" || i.batchCompletedAt === null)
      w.breach(`${name} acknowledged with receipt ${row.receipt}`);
    if (row.ordinal !== null && i.barrier !== null && row.ordinal <= i.barrier.batch)
      w.breach(`${name} acknowledged by batch ${row.ordinal}, delivered in ${i.barrier.batch}`);
    w.serial.checkAcknowledged(i, row.by, name);
    const sim = w.panes.flatMap((p) => p.agents).find((a) => a.incarnation === row.incarnation);
    const told = [...(sim?.saw.values() ?? [])].some((texts) =>
      [...texts].some((text) => text.includes(i.payload ?? "\0")),
    );
    if (sim === undefined || !told) w.breach(`${name} acknowledged, and no model was told`);
  }

  /** The very process that was started for it was given it as a prompt, under the id of that start. */
  #checkEcho(i: IntentRow, name: string): void {
    const w = this.#w;
    const { incarnation, deliveryId } = i.restart!;
    const session = sessionById(w.outside, incarnation);
    if (session?.echoPrompt == null || session.readyAt === null)
      w.breach(`${name} acknowledged without the echo of its start`);
    const sim = w.panes.flatMap((p) => p.agents).find((a) => a.incarnation === incarnation);
    const mark = startupMark(deliveryId);
    const texts = [...(sim?.saw.values() ?? [])].flatMap((seen) => [...seen]);
    if (!texts.some((text) => text.startsWith(i.payload ?? "\0") && text.includes(mark)))
      w.breach(`${name} acknowledged, and its agent was not told at its start`);
    w.count("acknowledged by an echo");
  }

  /** `Active` implies a proven incarnation, and a session while nobody took it away. */
  #checkActive(threadId: string, name: string): void {
    const w = this.#w;
    const proved = w.outside
      .query<{ n: number }, { threadId: string }>(
        "SELECT count(*) AS n FROM agent_sessions WHERE thread_id = $threadId AND ready_at IS NOT NULL",
      )
      .get({ threadId })!.n;
    if (proved === 0) w.breach(`${name} is Active without a proven incarnation`);
    if (!w.tmux.sessions.some((s) => s.tags["@kiki_thread"] === threadId))
      w.breach(`${name} is Active without a session`);
    const running = w.panes.filter((p) => p.threadId === threadId).flatMap((p) => p.current ?? []);
    for (const { incarnation } of running) {
      const known = w.outside
        .query("SELECT 1 FROM agent_sessions WHERE agent_session_id = $incarnation")
        .get({ incarnation });
      if (known === null) w.breach(`an agent of ${name} is no incarnation`);
    }
  }

  /** At most one outside thing of each kind. */
  #checkOnce(threadId: string, name: string): void {
    const { tmux, panes } = this.#w;
    const sessions = tmux.sessions.filter((s) => s.tags["@kiki_thread"] === threadId).length;
    if (sessions > 1) this.#w.breach(`${name} has ${sessions} sessions`);
    const agents = panes.filter((p) => p.threadId === threadId && p.current !== null).length;
    if (agents > 1) this.#w.breach(`${name} has ${agents} agents`);
    const exhausted = unresolvedIntents(this.#w.outside, threadId).some((i) => i.exhausted);
    if (exhausted && liveSession(this.#w.outside, threadId) !== null)
      this.#w.breach(`${name} has a live incarnation beside an exhausted delivery`);
    const starts = panes.flatMap((p) => p.agents).filter((a) => a.threadId === threadId);
    if (new Set(starts.map((a) => a.incarnation)).size !== starts.length)
      this.#w.breach(`an incarnation of ${name} was started twice`);
  }

  /** An operation is interpreted once; the frontier is an antichain of interpreted ones. */
  #checkOperations(): void {
    const { outside, jj } = this.#w;
    const rows = outside
      .query<{ row: number; id: string; at: number }, { last: number }>(
        "SELECT rowid AS row, op_id AS id, processed_at AS at FROM op_history WHERE rowid > $last AND processed_at IS NOT NULL",
      )
      .all({ last: this.#lastRow });
    for (const { row, id, at } of rows) {
      this.#lastRow = Math.max(this.#lastRow, row);
      this.#processed.set(id, at);
    }
    const frontier = outside
      .query<{ id: string; at: number | null }, []>(
        `SELECT f.op_id AS id, h.processed_at AS at FROM op_watch_frontier f
           LEFT JOIN op_history h ON h.op_id = f.op_id`,
      )
      .all();
    for (const { id, at } of frontier) {
      if (at === null) this.#w.breach("the frontier has an operation nobody interpreted");
      const { store } = jj.engine;
      const above = frontier.some(
        (f) => f.id !== id && store.isAncestorOp(store.operation(id), store.operation(f.id)),
      );
      if (above) this.#w.breach("the frontier is no antichain");
    }
  }

  // ---- within ------------------------------------------------------------------------------------------------

  /** Files of a managed workspace change only under a bound barrier, with every call of its agent held or over. */
  #checkBarrier(root: string, path: string): void {
    const w = this.#w;
    const thread = w.threads().find((t) => t.workspacePath === root);
    if (thread === undefined) {
      w.breach(`kiki changed ${path}, which is no managed workspace's${this.#doing()}`);
      return;
    }
    if (thread.lifecycle === "Creating" || thread.lifecycle === "CreateFailed") return;
    const moving = unresolvedIntents(w.outside, thread.threadId).find(
      (i) => i.state === "Reconciling" || i.recovering,
    );
    if (moving === undefined)
      w.breach(`kiki changed ${path} without a bound intent${this.#doing()}`);
    const running = w.running().filter((a) => a.threadId === thread.threadId);
    for (const child of writers(w, thread.threadId))
      w.breach(`kiki changed ${path} beside process ${child.pid}${this.#doing()}`);
    const writer = w.children.find((c) => alive(w, c)?.open.includes(`${root}/${path}`) === true);
    if (writer !== undefined)
      w.breach(`kiki changed ${path}, which process ${writer.pid} has open${this.#doing()}`);
    // Without a batch only behind an agent that stands still.
    if (moving?.barrier === null && running.length > 0)
      w.breach(`kiki changed ${path} beside an agent that is not bound${this.#doing()}`);
    for (const sim of running.filter((a) => a.threadId === thread.threadId)) {
      // One that runs although it was refused cannot be known of, and reads at most.
      const calls = loose(sim)
        .filter((c) => !w.rogue.has(`${sim.agent.sessionId} ${c.id}`))
        .map((c) => `${c.id} is ${c.state}`);
      if (calls.length > 0)
        w.breach(`kiki changed ${path} while ${calls.join(", ")}${this.#doing()}`);
    }
  }

  #doing(): string {
    return this.#command === null ? "" : ` (${this.#command})`;
  }

  /** The bytes are in some commit under that path, in a bundle, or where they were copied from. */
  #kept(path: string, text: string): boolean {
    const { store } = this.#w.jj.engine;
    // A set-up recipe's copy of what lies in the main workspace.
    if (this.#w.files.get(`${REPO_ROOT}/${path}`) === text) return true;
    for (const { tree } of store.commits.values()) {
      for (const term of tree.terms) if (term.get(path)?.slice(2) === text) return true;
      if (tree.terms.length > 1 && materialised(valueAt(tree, path))?.slice(2) === text)
        return true;
    }
    const { recovery } = repoPaths(STATE, REPO_ID);
    return this.#w.files
      .below(recovery)
      .some((file) => file.endsWith(`/files/${path}`) && this.#w.files.get(file) === text);
  }

  /** Folder of the workspace a file lies in; null for jj's and git's own files, and for everything else. */
  #rootOf(path: string): string | null {
    for (const root of this.#w.jj.engine.roots.values()) {
      if (!path.startsWith(`${root}/`)) continue;
      const top = path.slice(root.length + 1).split("/")[0];
      return top === ".jj" || top === ".git" ? null : root;
    }
    return null;
  }
}
