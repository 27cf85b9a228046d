/**
 * A world that outlives its daemons, for the crash points of intents: one repository of the fake jj with a parent, a
 * child that follows it, a thread that follows the child, and the child's agent. Only the database is a real file. At
 * a death the connection is closed and every port of the dead daemon goes dead with it: whatever its memory still
 * holds can write nowhere and gets no answer.
 */
import { makeCascade, type Cascade } from "../../src/cascade/cascade.ts";
import { DEFAULT_SETTINGS } from "../../src/cascade/deps.ts";
import { fail, KikiError } from "../../src/core/errors.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { raiseAttention } from "../../src/store/attention.ts";
import { connect, write, type Db } from "../../src/store/db.ts";
import { intentsOf, type IntentRow } from "../../src/store/intents.ts";
import { sessionById } from "../../src/store/sessions.ts";
import { sha256Hex } from "../../src/lifecycle/creation-deps.ts";
import { FakeAgent, type FakeAgentOptions } from "../fakes/agent.ts";
import { codexManner, codexRecord } from "../fakes/agent-codex.ts";
import { daemonOn, diskOn } from "../fakes/agent-protocol.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeCodex } from "../fakes/codex-harness.ts";
import { FakeFsEvents } from "../fakes/fs-events.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { FakeIds } from "../fakes/ids.ts";
import { FakeJj } from "../fakes/jj.ts";
import type { FakePerson } from "../fakes/jj/person.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { FakeRecords } from "../fakes/serial-harness.ts";
import { cascadeFilesOn, SimFiles } from "../sim/disk.ts";
import { never } from "../support/never.ts";
import { CrashAgents } from "./intent-agents.ts";
import { IntentOracle } from "./intent-oracle.ts";
import {
  addThreads,
  CHILD,
  REPO_ID,
  STATE,
  type CrashThreads,
  type IntentScene,
} from "./intent-threads.ts";
import {
  COMMANDS,
  Killed,
  mortal,
  type Absence,
  type Command,
  type Mortal,
  type Trouble,
} from "./intent-troubles.ts";

const REPO_ROOT = "/src/calc";

interface Life extends Mortal {
  db: Db;
  end: AbortController;
  cascade: Cascade;
}

/** Sleeps that are somebody's wait; the poll of a repository at rest is none. */
const LONGEST_WAIT_MS = 15_000;
const MAX_STEPS = 3_000;

/** Whatever needs neither a step nor the clock has happened when it resolves. */
const macrotask = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export interface WorldOptions {
  /** A migrated, empty database. */
  dbFile: string;
  colocated: boolean;
  disobedient: boolean;
  /** The child's harness runs one call at a time. */
  serial: boolean;
  troubles: readonly Trouble[];
  absence: Absence;
}

export class IntentWorld implements IntentScene {
  readonly clock = new FakeClock();
  readonly ids = new FakeIds();
  readonly files = new SimFiles();
  readonly #records = new FakeRecords();
  readonly jj: FakeJj;
  readonly outside: Db;
  readonly oracle: IntentOracle;
  /** Crash points passed and commands begun, by every daemon, in order. */
  readonly points: string[] = [];
  readonly commands: Command[] = [];
  readonly log: string[] = [];
  /** Happens at a crash point, once: what the scenario wants there. */
  readonly once = new Map<string, () => void>();
  /** Names of the troubles that came. */
  readonly met: string[] = [];
  threads!: CrashThreads;
  readonly agents: CrashAgents;
  life: Life | null = null;
  /** No connection reaches the daemon, which lives. */
  deaf = false;
  readonly #o: WorldOptions;
  readonly #troubles: Trouble[];
  readonly #survivors: { token: string; looks: number; run: () => Promise<unknown> }[] = [];
  #nth = { point: 0, command: 0 };
  #half = false;
  #edits = 0;

  constructor(options: WorldOptions) {
    this.#o = options;
    this.#troubles = [...options.troubles];
    this.jj = new FakeJj(this.files, REPO_ROOT, { colocated: options.colocated });
    this.outside = connect(options.dbFile);
    this.outside.run("PRAGMA synchronous = OFF"); // a daemon dies here, never the machine
    this.oracle = new IntentOracle(this, options.disobedient);
    this.agents = new CrashAgents({
      db: () => this.#living().db,
      cascade: () => this.#living().cascade,
      uuid: () => this.ids.uuid(),
      now: () => this.clock.now(),
      sleep: (ms) => mortal(this.#living(), this.clock).sleep(ms),
      next: ({ incarnation, resumes }) =>
        this.agent.successor({ resume: resumes !== null, hooks: this.#hooksOf(incarnation) }),
    });
    this.jj.during = (moment) => {
      if (this.#half && /^(snapshot-published|files-updated)$/.test(moment)) throw new Killed();
    };
  }

  /** The child's, whichever process it is by now. */
  get agent(): FakeAgent {
    return this.agents.agent!;
  }

  get still(): boolean {
    return this.agents.still;
  }

  /** The threads, and the agent in its first turn. Nothing goes wrong so far. */
  async begin(): Promise<void> {
    this.files.as("jj", () => {
      this.jj.personWorkspace("default", REPO_ROOT);
      const person = this.jj.in("default");
      person.write("readme.txt", "calc\n");
      person.commit("begin");
    });
    const troubles = this.#troubles.splice(0);
    await this.#boot();
    this.threads = await addThreads(
      this,
      () => this.life!.cascade.refreshToFrontier(),
      this.#o.serial ? "codex" : "claude-code",
    );
    const attributed = this.outside.query("SELECT 1 FROM op_attribution WHERE token = ?");
    this.jj.attributed = (token) => attributed.get(token) !== null;
    const { incarnation } = this.threads.child;
    const paths = threadPaths(STATE, REPO_ID, CHILD);
    for (const folder of [paths.passed, paths.spool]) this.files.makeFolders(folder);
    const agent = new FakeAgent({
      hooks: this.#hooksOf(incarnation),
      sessionId: incarnation,
      files: {
        get: (path) => this.files.get(path),
        put: (path, text) => this.files.as("edit", () => this.files.put(path, text)),
        remove: (path) => this.files.as("edit", () => this.files.remove(path)),
      },
      ids: new FakeIds(),
      cwd: this.threads.child.root,
      forbidden: () => this.oracle.forbidden(),
      ...(this.#o.serial ? this.#serial() : {}),
    });
    this.agents.begin(agent, incarnation);
    agent.start("startup", "go");
    await this.drive();
    this.oracle.begin();
    this.points.length = 0;
    this.#nth = { point: 0, command: 0 };
    this.#troubles.push(...troubles);
  }

  close(): void {
    this.#kill();
    this.outside.close();
  }

  intents(): IntentRow[] {
    return intentsOf(this.outside, CHILD);
  }

  /** Somebody in a thread's workspace, whose commands are not kiki's. */
  somebody(where: "parent" | "child" | "default", act: (person: FakePerson) => void): void {
    const name = where === "default" ? where : this.threads[where].workspace;
    this.files.as("jj", () => act(this.jj.in(name)));
  }

  /** The daemon reads jj's operations, whatever comes in between. */
  async refresh(): Promise<void> {
    let read = false;
    while (!read)
      await this.during(async (cascade) => {
        await cascade.refreshToFrontier();
        read = true;
      });
  }

  /**
   * Everybody goes on until nothing is left to do, or `until`. A daemon that dies meanwhile is followed by another,
   * once the agent has done what it does without one.
   */
  async drive(options: { hold?: RegExp; until?: () => boolean } = {}): Promise<void> {
    for (let taken = 0; ; taken += 1) {
      if (taken > MAX_STEPS) throw new Error("the world never rests");
      await macrotask();
      if (taken > 0) this.oracle.check();
      const away = this.life === null;
      if (away && this.#o.absence === "short") await this.#boot();
      if (options.until?.() === true) return;
      const step = this.#step(options.hold);
      if (step !== undefined) step.take();
      else if (this.life !== null && this.#wrapper()) continue;
      else if (this.life === null) {
        await this.#goOnWithout();
        await this.#boot();
      } else if (!this.#passTime()) return this.#atRest(options.hold);
    }
  }

  /** The model calls tools, if it is asked at all. */
  respond(...args: Parameters<FakeAgent["main"]["respond"]>): void {
    if (this.agent.main.thinking) this.agent.main.respond(...args);
  }

  /** The session record shows no results of calls of this conversation; or all of them again. */
  hidesResults(hides: boolean): void {
    this.#records.late.clear();
    const path = codexRecord(this.threads.child.root, this.agent.sessionId);
    if (hides)
      for (const line of this.#records.lines(path))
        if (line.is !== "usage") this.#records.late.add(line.id);
  }

  /** Nobody can read what the model got. */
  get blind(): boolean {
    return this.#records.late.size > 0;
  }

  #serial(): Pick<FakeAgentOptions, "manner" | "callId"> {
    let calls = 0;
    const manner = codexManner(this.#records, this.threads.child.root);
    return { manner, callId: () => `call_${(calls += 1)}` };
  }

  /** A file that only this agent ever wrote, in a line of its own. */
  fresh(): { path: string; text: string } {
    this.#edits += 1;
    return {
      path: `${this.threads.child.root}/own-${this.#edits}.txt`,
      text: `own ${this.#edits}\n`,
    };
  }

  /** Work of the living daemon, to its end or the daemon's; then the time is somebody else's. */
  async during(work: (cascade: Cascade) => Promise<unknown>): Promise<void> {
    if (this.life === null) await this.drive();
    const life = this.life!;
    let over = false;
    const done = work(life.cascade).then(
      () => (over = true),
      (error: unknown) => {
        over = true;
        if (!life.dead) this.oracle.violation(`it failed: ${String(error)}`);
      },
    );
    while (!over && !life.dead) {
      await macrotask();
      this.#passTime();
    }
    void done;
    this.oracle.check();
  }

  /** A jj that gets to the files is ended in the middle of them. */
  async tearing<T>(error: Error, run: () => Promise<T>): Promise<T> {
    const { disk } = this.jj.engine;
    disk.tear = () => {
      disk.tear = null;
      return error;
    };
    try {
      return await run();
    } finally {
      disk.tear = null;
    }
  }

  /** The next jj that gets to the files is ended in the middle of them. */
  tearNext(): void {
    const { disk } = this.jj.engine;
    disk.tear = () => {
      disk.tear = null;
      return fail("failed", "jj-failed", "ended by SIGKILL");
    };
  }

  /** A process nobody knows of writes a file of the agent's at a moment when it should not. */
  lateEdit(): void {
    const own = this.fresh();
    this.oracle.note(own);
    this.files.as("edit", () => this.files.put(own.path, own.text));
  }

  /** A person grants one more cycle of attempts, whatever comes in between. */
  async retryDelivery(): Promise<void> {
    for (;;) {
      await this.drive();
      const exhausted = this.intents().find((i) => i.exhausted);
      const { life } = this;
      if (exhausted === undefined || life === null) return;
      try {
        write(life.db, () => life.cascade.retryDelivery(exhausted.intentId, exhausted.epoch))();
      } catch (error) {
        if (this.life !== null) throw error;
      }
    }
  }

  /** Two heads become one, as by the next command of anybody. */
  mergeHeads(): void {
    if (this.jj.engine.heads.size > 1) this.somebody("default", (person) => person.status());
  }

  // ---- life and death ----------------------------------------------------------------------------------------

  async #boot(): Promise<void> {
    const life = { dead: false, db: connect(this.#o.dbFile), end: new AbortController() } as Life;
    life.db.run("PRAGMA synchronous = OFF");
    this.life = life;
    life.cascade = this.#cascade(life);
    let booted = false;
    const started = life.cascade.start().then(
      () => (booted = true),
      (error: unknown) => {
        if (!life.dead) this.oracle.violation(`boot failed: ${String(error)}`);
        booted = true;
      },
    );
    while (!booted && !life.dead) {
      await macrotask();
      this.#passTime();
    }
    void started;
  }

  #kill(): void {
    const { life } = this;
    if (life === null) return;
    this.life = null;
    life.dead = true;
    // What was not committed is not there, as after any death; the lock goes with the process.
    if (life.db.inTransaction) life.db.run("ROLLBACK");
    life.db.close();
    life.end.abort();
  }

  #cascade(life: Life): Cascade {
    const queues = new SerialQueues();
    const jj = this.#jjOf(life);
    const clock = mortal(life, this.clock);
    return makeCascade({
      repoId: REPO_ID,
      stateDir: STATE,
      db: life.db,
      jj,
      exclusive: (body) => queues.run("jj", () => body(jj)),
      standStill: mortal(life, {
        hold: () => Promise.resolve({ still: true as const, open: [] }),
        pause: () => Promise.resolve(null),
        release: () => Promise.resolve(),
      }),
      harness: (name) =>
        mortal(
          life,
          name === "codex" ? new FakeCodex(this.files, this.#records) : new FakeHarness(this.files),
        ),
      files: mortal(life, cascadeFilesOn(this.files)),
      fsEvents: mortal(life, new FakeFsEvents()),
      processes: mortal(life, this.#processes()),
      clock,
      ids: mortal(life, this.ids),
      crash: { at: (name) => this.#point(life, name) },
      log: {
        info: (line) => void this.log.push(line),
        warn: (line) => void this.log.push(line),
        error: (line, cause) => {
          this.log.push(`${line} ${String(cause)}`);
          // What a port says is a KikiError; anything else is a mistake.
          if (!life.dead && !(cause instanceof KikiError))
            this.oracle.violation(`unexpected: ${line}: ${String(cause)}`);
        },
      },
      queues,
      settings: { ...DEFAULT_SETTINGS, pollMs: 3_600_000 },
      sha256: sha256Hex,
      raiseAttention: (row) => void raiseAttention(life.db, { ...row, now: clock.now() }),
      waitReady: (incarnation) =>
        life.dead ? never() : Promise.resolve(sessionById(life.db, incarnation)?.readyAt !== null),
      sessionStarted: (incarnation, sessionId) => {
        if (life.dead) return never();
        this.agents.sessionStarted(incarnation, sessionId);
        return Promise.resolve();
      },
      agents: mortal(life, this.agents),
    });
  }

  #point(life: Life, name: string): void {
    if (life.dead) throw new Killed();
    this.points.push(name);
    const act = this.once.get(name);
    this.once.delete(name);
    act?.();
    const trouble = this.#next("point");
    if (trouble === null) return;
    this.met.push(name);
    this.#kill();
    throw new Killed();
  }

  #next(at: Trouble["at"]): Trouble | null {
    this.#nth[at] += 1;
    const [trouble] = this.#troubles;
    if (trouble?.at !== at || trouble.nth !== this.#nth[at]) return null;
    this.#troubles.shift();
    this.#nth = { point: 0, command: 0 };
    return trouble;
  }

  #jjOf(life: Life): JjRepo {
    const bare = this.jj as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    return new Proxy(this.jj, {
      get: (_, name: string) => {
        if (typeof bare[name] !== "function") return bare[name];
        return async (...args: unknown[]) => {
          if (life.dead) return never();
          const run = (): Promise<unknown> => bare[name]!(...args);
          const tokenOf = COMMANDS[name as Command];
          const result =
            tokenOf === undefined
              ? await run()
              : await this.#command(name as Command, tokenOf(args) as string, run);
          return life.dead ? never() : result;
        };
      },
    });
  }

  async #command(name: Command, token: string, run: () => Promise<unknown>): Promise<unknown> {
    this.commands.push(name);
    const counted = (): Promise<unknown> => this.oracle.command(name, run);
    const trouble = this.#next("command");
    if (trouble?.at !== "command") return counted();
    this.met.push(`${name}: ${trouble.how}`);
    const why = fail("failed", "jj-failed", `${name} failed`);
    switch (trouble.how) {
      case "failed":
        throw why;
      case "answer lost":
        await counted();
        throw why;
      case "done later":
        this.#survivors.push({ token, looks: 0, run: counted });
        break;
      case "done":
        await counted();
        break;
      case "half done":
        this.#half = true;
        await run().catch(() => undefined);
        this.#half = false;
        break;
      case "torn alone":
        return await this.tearing(why, counted);
      case "torn":
        await this.tearing(new Killed(), run).catch(() => undefined);
        break;
      case "not done":
        break;
    }
    this.#kill();
    return never();
  }

  /** A command whose daemon is dead is seen for a while, and ends. */
  #processes(): FakeProcesses {
    const processes = new FakeProcesses();
    processes.withArgument = (text) => {
      const at = this.#survivors.findIndex((s) => s.token.includes(text));
      const survivor = this.#survivors[at];
      if (survivor === undefined) return [];
      survivor.looks += 1;
      if (survivor.looks < 2) return [{ pid: 4242, startTime: "1" }];
      this.#survivors.splice(at, 1);
      void survivor.run().catch(() => undefined);
      return [];
    };
    return processes;
  }

  #step(hold?: RegExp) {
    return this.agents.steps().find((s) => !s.fault && hold?.test(s.name) !== true);
  }

  /** A daemon that dies of what the wrapper tells it is told again by it. */
  #wrapper(): boolean {
    try {
      return this.agents.wrapper();
    } catch (error) {
      if (this.life !== null) throw error;
      return true;
    }
  }

  #living(): Life {
    if (this.life === null) throw new Killed();
    return this.life;
  }

  #hooksOf(incarnation: string) {
    const caller = { threadId: CHILD, incarnation };
    const paths = threadPaths(STATE, REPO_ID, CHILD);
    return {
      daemon: daemonOn(() => this.#reached(), caller),
      disk: diskOn(cascadeFilesOn(this.files), paths, incarnation, () => this.clock.now()),
    };
  }

  #reached(): { cascade: Cascade; dead: AbortSignal } | null {
    if (this.life === null || this.deaf) return null;
    return { cascade: this.life.cascade, dead: this.life.end.signal };
  }

  /** One more response of the agent, and all it leads to, while nobody is there. */
  async #goOnWithout(): Promise<void> {
    if (this.#o.absence === "short" || !this.agent.main.thinking) return;
    const spec =
      this.#o.absence === "long"
        ? { name: "Bash", input: { command: "ls" }, concurrent: true }
        : this.oracle.edit(this.fresh());
    this.agent.main.respond([spec]);
    for (;;) {
      const step = this.#step();
      if (step === undefined) return;
      step.take();
      await macrotask();
      this.oracle.check();
    }
  }

  /** True when somebody who waits was woken. */
  #passTime(): boolean {
    const next = this.clock.nextWake;
    if (next === null || next > LONGEST_WAIT_MS) return false;
    this.clock.advance(Math.max(0, next));
    return true;
  }

  #atRest(hold: RegExp | undefined): void {
    if (hold === undefined && this.agents.agent !== null && this.agent.waiting().length > 0)
      this.oracle.violation("a hook waits for an answer that nobody owes");
  }
}
