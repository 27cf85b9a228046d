/**
 * A machine in memory on which threads are made: one repository, one tmux server, one harness, the pane wrappers of
 * kiki, and a daemon that can be killed and started again. Only the database is real.
 */
import { join } from "node:path";
import { repoPaths, threadPaths } from "../../src/core/paths.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import {
  NO_SETUP,
  settingsOf,
  sha256Hex,
  type CreateInput,
  type CreationDeps,
  type SetupSettings,
} from "../../src/lifecycle/creation-deps.ts";
import type { Launch } from "../../src/lifecycle/launch.ts";
import { makeCreation, type Created, type Creation } from "../../src/lifecycle/creation.ts";
import { creationRepairer } from "../../src/repair/creation-repairs.ts";
import { makeRepairs, type Repairs } from "../../src/repair/repairs.ts";
import type { CodexSettings } from "../../src/ports/harness.ts";
import type { JjBackend } from "../../src/ports/jj.ts";
import type { Db } from "../../src/store/db.ts";
import { latestOperation, stepsOf, type StepRow } from "../../src/store/lifecycle-ops.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { attributionOf, liveAttributions } from "../../src/store/ops.ts";
import { threadById, type ThreadRow } from "../../src/store/threads.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { FakeIds } from "../fakes/ids.ts";
import { FakeJj } from "../fakes/jj.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { FakeRecipes } from "../fakes/recipes.ts";
import { FakeTmux, type FakePane } from "../fakes/tmux.ts";

export const REPO_ID = "aaaaaaaa-1111-4111-8111-111111111111";
export const STATE = "/state";
/** A person has agreed; approvals have tests of their own. */
export const AGREED = (): void => undefined;
const WRAPPER_WAIT_MS = 25_000;
const DEADLINE_MS = 20_000;

/** How the stand-in for the harness behaves once its wrapper has started it. */
export type AgentBehaviour =
  | "ready" // reports its session, then runs
  | "ready-first" // its report overtakes the wrapper's report of the process
  | "silent" // runs and reports nothing
  | "composer" // shows its composer, and reports nothing before its first prompt
  | "exit-1"; // ends at once

/** Thrown where the daemon "dies"; its database is closed, so nothing of it writes any more. */
export class Killed extends Error {
  constructor() {
    super("killed");
    this.name = "Killed";
  }
}

export class Rig {
  readonly clock = new FakeClock();
  readonly ids = new FakeIds();
  readonly processes = new FakeProcesses();
  readonly files = new FakeFiles();
  readonly jj = new FakeJj(this.files);
  readonly tmux = new FakeTmux(this.processes);
  readonly harness = new FakeHarness(this.files);
  readonly recipes = new FakeRecipes(this.files, this.processes);
  /** `[agent.codex]`, as configured now. */
  codex: CodexSettings = { boundary: "soft", auth: "copy" };
  /** `[setup]`, as configured now. */
  setup: SetupSettings = NO_SETUP;
  readonly active: string[] = [];
  readonly classified: string[] = [];
  readonly spawned: string[] = [];
  readonly log: string[] = [];
  readonly crashesSeen: string[] = [];
  agent: AgentBehaviour = "ready";
  /** What the pane of a "composer" agent shows. */
  composer = "COMPOSER";
  /** Looks at the world at every crash point. */
  onPoint: (name: string) => void = () => undefined;
  /** Name of the crash point at which the daemon dies, once. */
  crashAt: string | null = null;
  readonly #file: string;
  readonly #harnesses = new Map<string, number>();
  /** A wrapper dies with its pane, and with it the question it had open; pane ids are used again. */
  readonly #gone = new Map<FakePane, AbortController>();
  #daemon: { creation: Creation; db: Db; dead: AbortController } | null = null;
  #stopped = false;

  constructor(folder: string) {
    this.#file = join(folder, `state-${Math.floor(performance.now() * 1e6)}.db`);
    this.jj.personWorkspace("default", "/src/calc");
    this.tmux.onPane = (pane) => this.#runWrapper(pane);
    this.tmux.onKill = (pane) => {
      this.#endHarness(pane.id);
      this.#gone.get(pane)?.abort();
    };
    this.jj.attributed = (token) => attributionOf(this.db, token)?.handler === "lifecycle";
    this.boot();
  }

  // ---- the daemon --------------------------------------------------------------------------------------------

  get creation(): Creation {
    if (this.#daemon === null) throw new Error("no daemon");
    return this.#daemon.creation;
  }

  get db(): Db {
    if (this.#daemon === null) throw new Killed();
    return this.#daemon.db;
  }

  get alive(): boolean {
    return this.#daemon !== null;
  }

  /** `kk repair`, on the daemon that is there now. */
  get repairs(): Repairs {
    const repairer = creationRepairer({
      ...this.deps(this.db),
      tmux: () => this.tmux,
      creation: this.creation,
    });
    return makeRepairs({ db: this.db, sha256Hex, repairers: [repairer] });
  }

  boot(): void {
    const db = openRepoDb(this.#file);
    db.run("PRAGMA synchronous = OFF"); // a daemon dies here, never the machine
    this.#daemon = { creation: makeCreation(this.deps(db)), db, dead: new AbortController() };
    this.creation.resumeAll();
  }

  kill(): void {
    const daemon = this.#daemon;
    this.#daemon = null;
    daemon?.db.close();
    daemon?.dead.abort();
    // What of it waits for time to pass must not wake up and act beside its successor.
    void daemon?.creation.stop().catch(() => undefined);
  }

  /** Ends everything, so that no test waits for another's. */
  async close(): Promise<void> {
    this.#stopped = true;
    const daemon = this.#daemon;
    this.#daemon = null;
    await daemon?.creation.stop();
    daemon?.db.close();
    daemon?.dead.abort();
  }

  deps(db: Db): CreationDeps {
    return {
      repoId: REPO_ID,
      stateDir: STATE,
      db,
      jj: this.jj,
      exclusive: (body) => body(this.jj),
      jjBackend: {
        checkVersions: () => Promise.resolve({ jj: "0.46.0", git: "2.53.0" }),
      } as unknown as JjBackend,
      tmux: () => this.tmux,
      harness: () => this.harness,
      processes: this.processes,
      files: this.files,
      recipes: this.recipes,
      settings: () => ({ ...settingsOf({}), setup: this.setup, codex: this.codex }),
      clock: this.clock,
      ids: this.ids,
      crash: { at: (name) => this.#crashPoint(name) },
      log: {
        info: (m) => void this.log.push(m),
        warn: (m) => void this.log.push(m),
        error: (m) => void this.log.push(m),
      },
      queues: new SerialQueues(),
      kkPath: "/opt/kiki/kk",
      hookPath: "/opt/kiki/kk-hook",
      socketPath: "/state/kkd.sock",
      refreshToFrontier: () => Promise.resolve(this.jj.head),
      classifyEdge: (child) => Promise.resolve(void this.classified.push(child)),
      repairHolds: (threadId, repairId) => this.repairs.holds(threadId, repairId),
      onActive: (threadId) => void this.active.push(threadId),
    };
  }

  #crashPoint(name: string): void {
    this.crashesSeen.push(name);
    this.onPoint(name);
    if (name !== this.crashAt) return;
    this.crashAt = null;
    this.kill();
    throw new Killed();
  }

  // ---- the wrappers ------------------------------------------------------------------------------------------

  #runWrapper(pane: FakePane): void {
    if (!pane.command.includes("agent")) return;
    const threadId = pane.command[pane.command.indexOf("--thread") + 1]!;
    void this.#wrapper(pane, threadId);
  }

  /** Asks whichever daemon is there, as `kk __pane agent` does, until its pane is gone. */
  async #wrapper(pane: FakePane, threadId: string): Promise<void> {
    const gone = new AbortController();
    this.#gone.set(pane, gone);
    while (this.tmux.panes.includes(pane) && !this.#stopped) {
      const daemon = this.#daemon;
      if (daemon === null) {
        await Bun.sleep(1);
        continue;
      }
      const { dead, creation } = daemon;
      const launch = await creation
        .awaitGate(threadId, pane.id, WRAPPER_WAIT_MS, AbortSignal.any([dead.signal, gone.signal]))
        .catch(() => null);
      // An answer of a daemon that died meanwhile never arrives.
      if (launch === null || dead.signal.aborted || gone.signal.aborted) {
        await Bun.sleep(0);
        continue;
      }
      await this.#runHarness(pane, launch);
    }
  }

  async #runHarness(pane: FakePane, { incarnation, argv, env }: Launch): Promise<void> {
    const process =
      this.agent === "composer"
        ? this.processes.spawn({ argv: ["/usr/bin/node", ...argv], env: entries(env) })
        : this.processes.start(incarnation);
    if (this.agent === "composer") pane.text = this.composer;
    this.spawned.push(incarnation);
    this.#harnesses.set(pane.id, process.pid);
    const session = `session-of-${incarnation}`;
    if (this.agent === "ready-first") {
      await this.#deliver((c) => c.sessionStarted(incarnation, session));
    }
    await this.#deliver((c) => c.harnessStarted(incarnation, process.pid, process.startTime));
    if (this.agent === "ready") await this.#deliver((c) => c.sessionStarted(incarnation, session));
    if (this.agent === "exit-1") {
      pane.text = "Error: no network\nkiki: agent ended (exit 1); the thread stays, its pane too\n";
      this.#endHarness(pane.id);
      await this.#deliver((c) => c.harnessExited(incarnation, 1, null));
    }
    // A harness that runs: the wrapper waits for its end.
    while (this.#harnesses.has(pane.id)) {
      if (!this.tmux.panes.includes(pane) || this.#stopped) return;
      await Bun.sleep(1);
    }
  }

  #endHarness(paneId: string): void {
    const pid = this.#harnesses.get(paneId);
    this.#harnesses.delete(paneId);
    if (pid !== undefined) this.processes.end(pid);
  }

  /** Reports survive an absence of the daemon: they are made again until one answers. A refusal is final. */
  async #deliver(report: (creation: Creation) => void | Promise<void>): Promise<void> {
    while (!this.#stopped) {
      const daemon = this.#daemon;
      if (daemon !== null) {
        try {
          await report(daemon.creation);
          return;
        } catch {
          if (!daemon.dead.signal.aborted) return;
        }
      }
      await Bun.sleep(1);
    }
  }

  // ---- asking ------------------------------------------------------------------------------------------------

  async create(input: CreateInput): Promise<Created> {
    const { digest } = await this.creation.plan(input);
    return this.creation.create({ ...input, digest }, AGREED);
  }

  /** Creates and waits for the end; the daemon must not die meanwhile. */
  async made(input: CreateInput): Promise<ThreadRow> {
    const { threadId } = await this.create(input);
    await this.ended(threadId);
    return this.thread(threadId);
  }

  thread(threadId: string): ThreadRow {
    return threadById(this.db, threadId)!;
  }

  steps(threadId: string): StepRow[] {
    return stepsOf(this.db, latestOperation(this.db, threadId)!.operationId);
  }

  error(threadId: string): string {
    return latestOperation(this.db, threadId)?.error ?? "";
  }

  async ended(threadId: string): Promise<void> {
    await this.until(
      () => latestOperation(this.db, threadId)?.state !== "Running",
      "operation ended",
    );
  }

  async until(condition: () => boolean, what: string): Promise<void> {
    const deadline = performance.now() + DEADLINE_MS;
    while (!condition()) {
      if (performance.now() > deadline)
        throw new Error(`never: ${what}; log: ${this.log.join(" | ")}`);
      await Bun.sleep(0);
    }
  }

  liveTokens(): number {
    return liveAttributions(this.db).length;
  }
}

function entries(env: Record<string, string>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

export function inputFor(name: string | null, more: Partial<CreateInput> = {}): CreateInput {
  return {
    name,
    prompt: "write the lexer",
    follows: null,
    noFollow: false,
    base: null,
    harness: null,
    harnessArgs: [],
    harnessExecutable: "/usr/bin/claude",
    contextThread: null,
    folder: "/src/calc",
    tmuxSocket: null,
    columns: 120,
    rows: 40,
    shell: "/bin/bash",
    env: { PATH: "/usr/bin", HOME: "/home/ana" },
    ...more,
  };
}

export function pathsFor(threadId: string): ReturnType<typeof threadPaths> & { root: string } {
  return { ...threadPaths(STATE, REPO_ID, threadId), root: repoPaths(STATE, REPO_ID).root };
}
