/**
 * A machine in memory that outlives its daemons: one repository, its people, one tmux server, its panes and agents, a
 * clock. Only the database is real. Nothing happens by itself: whoever schedules takes one step after another, and
 * `settle` lets everything that can go on without another step go on.
 */
import type { Db } from "../../src/store/db.ts";
import { NO_SETUP, type SetupSettings } from "../../src/lifecycle/creation-deps.ts";
import { edges } from "../../src/store/edges.ts";
import { allThreads, type ThreadRow } from "../../src/store/threads.ts";
import type { FakeAgent } from "../fakes/agent.ts";
import type { Step } from "../fakes/agent-scheduler.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeCodex } from "../fakes/codex-harness.ts";
import { FakeFsEvents } from "../fakes/fs-events.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { FakeIds } from "../fakes/ids.ts";
import { FakeJj } from "../fakes/jj.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { FakeRecipes } from "../fakes/recipes.ts";
import { FakeTmux } from "../fakes/tmux.ts";
import type { Random } from "../support/random.ts";
import type { SimDatabase } from "./database.ts";
import { bootDaemon, startDaemon, type Life } from "./daemon.ts";
import { REPO_ROOT, SimFiles } from "./disk.ts";
import { Observer } from "./observe.ts";
import { Oracle } from "./oracle.ts";
import { SerialOracle } from "./oracle-serial.ts";
import { childSteps, type Child } from "./children.ts";
import type { Shown } from "./repairs.ts";
import { SimPane, type SimAgent } from "./panes.ts";
import { Ports } from "./ports.ts";
import { SimRecords } from "./records.ts";

/** How harnesses of this world behave (actions.ts, `Rates`). */
interface Manners {
  garbles: number;
  runsDenied: number;
  frail: number;
  /** Probability that a new thread has a harness that runs one call at a time. */
  serial: number;
}

/** A macrotask begins when no microtask is left: whatever needs no clock and no step has then happened. */
const macrotask = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class World {
  readonly clock = new FakeClock();
  readonly ids = new FakeIds();
  readonly agentIds = new FakeIds();
  readonly processes = new FakeProcesses();
  readonly files = new SimFiles();
  readonly jj: FakeJj;
  readonly tmux = new FakeTmux(this.processes);
  readonly harness = new FakeHarness(this.files);
  readonly records = new SimRecords();
  readonly codex = new FakeCodex(this.files, this.records);
  readonly recipes = new FakeRecipes(this.files, this.processes);
  readonly fsEvents = new FakeFsEvents();
  readonly ports: Ports;
  readonly oracle: Oracle;
  readonly serial: SerialOracle;
  readonly observer: Observer;
  readonly random: Random;
  readonly panes: SimPane[] = [];
  /** Which agent was told to hold, by token; null: a main one. */
  readonly holders = new Map<string, string | null>();
  readonly children: Child[] = [];
  /** Calls a harness ran although it had been told to refuse them, by session and id. */
  readonly rogue = new Set<string>();
  /** Plans of `kk repair` on somebody's terminal. */
  readonly shown: Shown[] = [];
  readonly breaches: string[] = [];
  readonly trace: string[] = [];
  /** Reads only what is durable, and stays open across daemons. */
  readonly outside: Db;
  readonly database: SimDatabase;
  setup: SetupSettings = NO_SETUP;
  life: Life | null = null;
  /** Operations from before kiki: nobody owes their interpretation. */
  baseline: ReadonlySet<string> = new Set();
  readonly #rates: Manners;
  #lines = 0;
  #calls = 0;
  readonly #counted: Map<string, number>;
  #heads = "";
  #threads: { version: number; rows: readonly ThreadRow[] } = { version: -1, rows: [] };

  constructor(
    database: SimDatabase,
    random: Random,
    counted: Map<string, number>,
    options: Manners & { colocated: boolean },
  ) {
    this.#rates = options;
    this.database = database;
    this.random = random;
    this.#counted = counted;
    this.jj = new FakeJj(this.files, REPO_ROOT, options);
    this.ports = new Ports(random);
    this.ports.kill = (at) => this.kill(at);
    this.ports.seen = (what) => this.count(what);
    this.fsEvents.held = true;
    this.outside = database.outside;
    this.observer = new Observer(this);
    this.oracle = new Oracle(this);
    this.serial = new SerialOracle(this);
    this.files.now = () => this.clock.now();
    this.files.onChange = (change) => this.oracle.fileChange(change);
    this.tmux.onPane = (pane) => {
      if (!pane.command.includes("agent")) return;
      const threadId = pane.command[pane.command.indexOf("--thread") + 1]!;
      this.panes.push(new SimPane(this, pane, threadId));
    };
    this.tmux.onKill = (pane) => this.panes.find((p) => p.pane === pane)?.close();
    this.jj.during = (moment) => this.ports.within(moment);
  }

  /** Somebody worked here before kiki came. */
  async begin(): Promise<void> {
    this.files.as("jj", () => {
      this.jj.personWorkspace("default", REPO_ROOT);
      const person = this.jj.in("default");
      person.write("shared.txt", "one\ntwo\nthree\n").write("readme.txt", "calc\n");
      person.commit("begin");
      person.write("main.txt", "main\n");
      person.status();
    });
    this.boot();
    this.baseline = new Set(this.jj.engine.store.operations.keys());
    await this.settle();
  }

  /** Bytes that nobody ever wrote before. */
  fresh(who: string): string {
    this.#lines += 1;
    return `${who} ${this.#lines}`;
  }

  /** Ids of calls where the model's provider gives them: never twice. */
  callId(): string {
    this.#calls += 1;
    return `call_${this.#calls}`;
  }

  /** Which harness a new thread has. */
  drawHarness(): "claude-code" | "codex" {
    const { serial } = this.#rates;
    return serial > 0 && this.random.chance(serial) ? "codex" : "claude-code";
  }

  // ---- the daemon --------------------------------------------------------------------------------------------

  boot(): void {
    this.life = bootDaemon(this);
    this.count("daemon boots");
    startDaemon(this, this.life);
  }

  kill(at: string): void {
    const { life } = this;
    if (life === null) return;
    this.note(`daemon dies ${at}`);
    this.count("daemon dies");
    this.life = null;
    life.dead = true;
    this.ports.doom = null;
    this.ports.bury(life);
    life.end.abort();
    // A transaction it died in is rolled back by what unwinds it, as SQLite does for a process that is gone.
    if (life.db.inTransaction) queueMicrotask(() => life.db.close());
    else life.db.close();
  }

  /** Ends everything. */
  close(): void {
    this.kill("at the end");
    this.observer.end();
    this.database.close();
  }

  // ---- what is there -----------------------------------------------------------------------------------------

  /** Grows with every commit of a daemon. */
  get version(): number {
    return this.database.version();
  }

  threads(): readonly ThreadRow[] {
    const { version } = this;
    if (this.#threads.version !== version)
      this.#threads = { version, rows: allThreads(this.outside) };
    return this.#threads.rows;
  }

  /** Workspaces of threads that others follow. */
  followed(): string[] {
    const parents = new Set(edges(this.outside).map((e) => e.parent));
    return this.threads()
      .filter((t) => parents.has(t.threadId))
      .map((t) => t.workspaceName);
  }

  agents(): SimAgent[] {
    return this.panes.flatMap((pane) => pane.current ?? []);
  }

  /** Those that go on by themselves, and that a person's words reach. */
  running(): SimAgent[] {
    return this.panes.filter((pane) => !pane.stopped).flatMap((pane) => pane.current ?? []);
  }

  agentOf(threadId: string): { workspace: string; root: string } {
    const thread = this.threads().find((t) => t.threadId === threadId)!;
    return { workspace: thread.workspaceName, root: thread.workspacePath };
  }

  /** Whatever of the agents, their panes and their processes could happen next. */
  steps(): Step[] {
    return [...this.panes.flatMap((p) => p.steps()), ...childSteps(this)];
  }

  /** A harness that is not what it was proved to be, from time to time. */
  misbehave(agent: FakeAgent): void {
    const { garbles, runsDenied } = this.#rates;
    if (garbles > 0)
      agent.misbehaviour.alters = (text) =>
        this.ports.turbulent && this.random.chance(garbles) ? `${wrapperOf(text)}garbled` : text;
    // Only what cannot hurt a file: that it must not happen is the harness's, that it is noticed is kiki's.
    if (runsDenied > 0)
      agent.misbehaviour.runsDenied = ({ id, spec }) => {
        const runs = this.ports.turbulent && spec.concurrent && this.random.chance(runsDenied);
        if (runs) this.rogue.add(`${agent.sessionId} ${id}`);
        return runs;
      };
  }

  /** A harness that is started once more ends at once. */
  fails(again: boolean): boolean {
    const { frail } = this.#rates;
    return again && frail > 0 && this.ports.turbulent && this.random.chance(frail);
  }

  // ---- going on ----------------------------------------------------------------------------------------------

  /** One mutating jj command of kiki's. */
  jjCommand(name: string, args: readonly unknown[], run: () => Promise<unknown>): Promise<unknown> {
    const done = this.oracle.kikiCommand(name, args);
    this.observer.mutated(name, args);
    return run().finally(done);
  }

  /** Until nothing moves without a further step. */
  async settle(): Promise<void> {
    for (let before = -1; before !== this.ports.calls;) {
      before = this.ports.calls;
      await macrotask();
      this.#tellOfHeads();
    }
  }

  /** Time passes, from one sleeper to the next. */
  async pass(ms: number): Promise<void> {
    const end = this.clock.monotonic() + ms;
    for (let wakes = 0; wakes < 400; wakes += 1) {
      const next = this.clock.nextWake;
      if (next === null || this.clock.monotonic() + next > end) break;
      this.clock.advance(Math.max(0, next));
      await this.settle();
    }
    if (this.clock.monotonic() < end) this.clock.advance(end - this.clock.monotonic());
    await this.settle();
  }

  note(line: string): void {
    this.trace.push(line);
  }

  count(what: string): void {
    this.#counted.set(what, (this.#counted.get(what) ?? 0) + 1);
  }

  breach(what: string): void {
    this.breaches.push(what);
  }

  /** The product met an error it did not expect. */
  unexpected(what: string): void {
    this.breach(`unexpected error: ${what}`);
  }

  #tellOfHeads(): void {
    const heads = [...this.jj.engine.heads].join();
    if (heads === this.#heads) return;
    this.#heads = heads;
    this.fsEvents.changed(`${this.jj.headsFolder}/x`);
  }
}

/** What stands before the reason of a refusal. */
function wrapperOf(text: string): string {
  const reason = text.startsWith("PreToolUse:") ? text.indexOf(":") + 1 : 0;
  return text.slice(0, text.indexOf(":", reason) + 2);
}
