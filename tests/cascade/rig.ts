/**
 * The cascade on real jj and a real repository database, without tmux, daemon or harness process: threads are real
 * workspaces, an agent is the hook protocol spoken by hand. What a hook would do, `Agent` does: it confirms a hold at
 * once and waits for its end.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../src/backends/jj/backend.ts";
import { realClock } from "../../src/backends/clock.ts";
import { realIds } from "../../src/backends/ids.ts";
import * as durable from "../../src/backends/files.ts";
import * as secondNames from "../../src/backends/second-names.ts";
import { makeCascade, type Cascade } from "../../src/cascade/cascade.ts";
import { survivorsEnded } from "../../src/cascade/survivors.ts";
import { DEFAULT_SETTINGS, type CascadeDeps } from "../../src/cascade/deps.ts";
import { makeExclusive, Patience } from "../../src/daemon/exclusive.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import type { CommitId } from "../../src/core/ids.ts";
import { repoPaths, threadPaths } from "../../src/core/paths.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { NO_CRASH, type CrashPoints } from "../../src/ports/crash.ts";
import type { FsEvents } from "../../src/ports/fs-events.ts";
import type { Harness, HarnessEvent } from "../../src/ports/harness.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Processes } from "../../src/ports/processes.ts";
import { openAttention, raiseAttention } from "../../src/store/attention.ts";
import { write, type Db } from "../../src/store/db.ts";
import { intentsOf, type IntentRow } from "../../src/store/intents.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { ClaudeCodeHarness } from "../../src/backends/harness/claude-code/adapter.ts";
import { sessionById } from "../../src/store/sessions.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { RigAgents, type Started } from "./rig-agents.ts";
import { copyOf } from "../support/copies.ts";
import { makeRepo, personIn, type TestRepo } from "../support/jj-repo.ts";

export const REPO_ID = "11111111-1111-4111-8111-111111111111";
const DENIED = "PreToolUse:Tool hook error: ";

const claude = new ClaudeCodeHarness();

/** Event objects travel as they are; refusals are wrapped the way Claude Code 2.1.332 wraps them. */
const harness = {
  name: "claude-code",
  agentTool: "Agent",
  interpretEvent: (raw: unknown) => raw as HarnessEvent,
  denyOutput: (reason: string) => reason,
  batching: "reported",
  expectedResult: (...of: Parameters<Harness["expectedResult"]>) => claude.expectedResult(...of),
  refusalPrefixes: (...of: Parameters<Harness["refusalPrefixes"]>) => claude.refusalPrefixes(...of),
} as unknown as Harness;

const log: Log =
  process.env["KIKI_TEST_LOG"] === undefined
    ? { info: () => undefined, warn: () => undefined, error: () => undefined }
    : console;

const NOTHING_RUNS: CascadeDeps["standStill"] = {
  hold: () => Promise.resolve({ still: true, open: [] }),
  pause: () => Promise.resolve(null),
  release: () => Promise.resolve(),
};

export interface TestThread {
  id: string;
  name: string;
  workspace: string;
  path: string;
  incarnation: string;
}

export interface Rig {
  repo: TestRepo;
  db: Db;
  jj: JjRepo;
  stateDir: string;
  cascade: Cascade;
  /** The neighbour that stops, ends and starts agents. */
  agents: RigAgents;
  /** Waits for the thread's nth replacement; from then on `thread` and its agents speak for that one. */
  replaced(thread: TestThread, nth?: number): Promise<Started>;
  thread(name: string, follows?: TestThread, base?: string): Promise<TestThread>;
  agent(thread: TestThread): Agent;
  intents(thread: TestThread): IntentRow[];
  attention(thread: TestThread): string[];
  barrier(thread: TestThread): boolean;
  /** Content of a file in a thread's workspace, or null. */
  file(thread: TestThread, path: string): string | null;
  /** Exact `@` of a thread at the current single operation head. */
  head(thread: TestThread): Promise<string>;
  /** Drops all memory: a new cascade on the same database and the same repository. Boot recovery has run. */
  reboot(crash?: CrashPoints): Promise<void>;
  /** A cascade of its own on another database of the same repository, with its own jj if given; not started. */
  cascadeOn(db: Db, jj?: JjRepo): Cascade;
  close(): Promise<void>;
}

export interface RigOptions {
  colocated?: boolean;
  settings?: Partial<CascadeDeps["settings"]>;
  wrapJj?(jj: JjRepo): JjRepo;
  /** Where threads are, when `wrapJj` puts another repository in the place of the fresh one. */
  threads?: { folder(workspace: string): string; base(): Promise<CommitId> };
  /** Default: the agent has no processes. */
  standStill?(db: Db, stateDir: string): CascadeDeps["standStill"];
  /** For agents that speak a harness's own payloads. */
  harness?: Harness;
  /** Environment of kiki's own jj commands; default: the person's. */
  jjEnv?(repo: TestRepo): Record<string, string>;
  /** What a jj command of kiki's gets while somebody stands still for it; default: the product's. */
  stoppedCommandMs?: number;
  /** Default: none, the reason is "test". */
  fsEvents?: FsEvents;
  /** What kiki sees of the machine's processes; default: nothing. */
  processes?: Processes;
}

export async function makeRig(options: RigOptions = {}): Promise<Rig> {
  const { colocated = false } = options;
  if (options.threads !== undefined) return openRig(await makeRepo({ colocated }), options);
  const { dir } = await copyOf(JSON.stringify(["rig", colocated]), async () => {
    const rig = await openRig(await makeRepo({ colocated }), {});
    await closeForCopies(rig);
    return { dir: rig.repo.dir, known: null };
  });
  return openRig(personIn(dir, join(dir, "repo")), options);
}

/** With all that the database holds in the one file. */
export async function closeForCopies(rig: Rig): Promise<void> {
  rig.db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  await rig.close();
}

/** On a repository that is new to kiki, or on the copy of a rig. */
export async function openRig(repo: TestRepo, options: RigOptions): Promise<Rig> {
  const stateDir = join(repo.dir, "state");
  const paths = repoPaths(stateDir, REPO_ID);
  const isCopy = existsSync(paths.db);
  mkdirSync(paths.root, { recursive: true, mode: 0o700 });
  const backend = createJj({ env: options.jjEnv?.(repo) ?? repo.env });
  const location = (await backend.locate(repo.root))!;
  const patience = new Patience(options.stoppedCommandMs);
  const plain = backend.open(location, paths.neutral, patience.limit);
  const jj = options.wrapJj?.(plain) ?? plain;
  if (!isCopy) await jj.ensureNeutral(crypto.randomUUID());
  const db = openRepoDb(paths.db);
  const rig = { repo, db, jj, stateDir } as Rig;

  const build = (crash: CrashPoints, on = db, through = jj): Cascade => {
    const queues = new SerialQueues();
    // Polling is off: every test says itself when operations are read.
    const settings = { ...DEFAULT_SETTINGS, pollMs: 3_600_000, ...options.settings };
    const processes = options.processes ?? new FakeProcesses();
    const around = { db: on, processes, clock: realClock, log };
    const prepare = (): Promise<void> => survivorsEnded(around, settings.survivorMs);
    return makeCascade({
      repoId: REPO_ID,
      stateDir,
      db: on,
      jj: through,
      exclusive: makeExclusive(through, queues, "jj", prepare, patience).exclusive,
      standStill: options.standStill?.(db, stateDir) ?? NOTHING_RUNS,
      harness: () => options.harness ?? harness,
      files: { ...durable, ...secondNames },
      fsEvents: options.fsEvents ?? {
        watch: () =>
          Promise.resolve({ armed: false, reason: "test", stop: () => Promise.resolve() }),
      },
      processes,
      clock: realClock,
      ids: realIds,
      crash,
      log,
      queues,
      settings,
      sha256: (text) => createHash("sha256").update(text).digest("hex"),
      raiseAttention: (row) => void raiseAttention(on, { ...row, now: realClock.now() }),
      waitReady: (incarnation) => Promise.resolve(sessionById(on, incarnation)?.readyAt !== null),
      sessionStarted: () => Promise.resolve(),
      agents: rig.agents,
    });
  };
  rig.agents = new RigAgents({
    db: () => db,
    cascade: () => rig.cascade,
    uuid: () => crypto.randomUUID(),
    now: () => realClock.now(),
  });
  rig.replaced = async (thread, nth = 1) => {
    const started = await rig.agents.nth(nth);
    thread.incarnation = started.incarnation;
    return started;
  };
  rig.cascade = build(NO_CRASH);
  await rig.cascade.start();

  rig.cascadeOn = (other, own) => build(NO_CRASH, other, own);
  rig.reboot = async (crash = NO_CRASH) => {
    rig.agents.suspend(true);
    await rig.cascade.stop();
    rig.agents.suspend(false);
    rig.cascade = build(crash);
    await rig.cascade.start();
  };
  rig.close = async () => {
    rig.agents.suspend(true);
    await rig.cascade.stop();
    db.close();
  };
  rig.thread = async (name, follows, base) => {
    const path = options.threads?.folder(`kk-${name}`) ?? join(repo.dir, `repo-kiki-${name}`);
    const on =
      follows === undefined
        ? await (options.threads?.base() ?? repo.commit(base ?? "@-"))
        : await rig.head(follows);
    return makeThread(rig, { name, path, on }, follows);
  };
  rig.agent = (thread) => new Agent(rig, thread);
  rig.intents = (thread) => intentsOf(db, thread.id);
  rig.attention = (thread) => openAttention(db, thread.id).map((a) => a.message);
  rig.barrier = (thread) => existsSync(threadPaths(stateDir, REPO_ID, thread.id).barrier);
  rig.file = (thread, path) => {
    const file = join(thread.path, path);
    return existsSync(file) ? readFileSync(file, "utf8") : null;
  };
  rig.head = async (thread) => {
    const [op] = await jj.heads();
    return (await jj.workspaces(op!)).find((w) => w.workspace === thread.workspace)!.commitId;
  };
  return rig;
}

/** What `kk new` leaves behind, by the shortest way: a workspace on the parent's exact `@` and the rows. */
async function makeThread(
  rig: Rig,
  { name, path, on }: { name: string; path: string; on: CommitId },
  follows?: TestThread,
): Promise<TestThread> {
  const { db, jj } = rig;
  const thread: TestThread = {
    id: crypto.randomUUID(),
    name,
    workspace: `kk-${name}`,
    path,
    incarnation: crypto.randomUUID(),
  };
  await jj.addWorkspace({
    name: thread.workspace,
    path: thread.path,
    base: on,
    description: name,
    token: crypto.randomUUID(),
  });
  const [op] = await jj.heads();
  const at = (await jj.workspaces(op!)).find((w) => w.workspace === thread.workspace)!;
  await jj.createBookmark(`kk/${name}`, at.commitId, crypto.randomUUID());
  await rig.cascade.refreshToFrontier();
  for (const folder of ["passed", "spool"] as const) {
    mkdirSync(threadPaths(rig.stateDir, REPO_ID, thread.id)[folder], { recursive: true });
  }
  write(db, () => {
    db.query(
      `INSERT INTO threads (thread_id, name, slug, lifecycle, harness, harness_executable, harness_args_json,
         workspace_name, workspace_path, bookmark, tmux_session, owned_stack_base_commit_id, thread_head_commit_id,
         thread_head_change_id, thread_head_op_id, checkpoint_commit_id, created_at)
       VALUES ($id, $name, $name, 'Creating', 'claude-code', '/x/claude', '[]', $workspace, $path, $bookmark, $name,
         $base, $head, $change, $op, $head, 1)`,
    ).run({
      id: thread.id,
      name,
      workspace: thread.workspace,
      path: thread.path,
      bookmark: `kk/${name}`,
      base: on,
      head: at.commitId,
      change: at.changeId,
      op: op!,
    });
    if (follows !== undefined) {
      db.query("INSERT INTO thread_links VALUES ($child, $parent, $base, 1)").run({
        child: thread.id,
        parent: follows.id,
        base: on,
      });
    }
    insertIncarnation(db, thread);
    db.query("UPDATE threads SET lifecycle = 'Active' WHERE thread_id = $id").run({
      id: thread.id,
    });
  });
  return thread;
}

function insertIncarnation(db: Db, thread: TestThread): void {
  const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
  db.query(
    `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id,
       secret_sha256, settings_fingerprint, capabilities_json, pid, start_time, status, created_at, session_started_at,
       ready_at)
     VALUES ($incarnation, $thread, 'claude-code', '2.1.332', $session, $secret, $print, '{}', 4242, '1', 'Running', 1, 1, 1)`,
  ).run({
    incarnation: thread.incarnation,
    thread: thread.id,
    session: crypto.randomUUID(),
    secret: hash(thread.incarnation),
    print: hash("settings"),
  });
}

let calls = 0;

/** Speaks the hook protocol for one incarnation. */
export class Agent {
  readonly #rig: Rig;
  readonly thread: TestThread;
  prompt = "prompt-1";
  session = "s";

  constructor(rig: Rig, thread: TestThread) {
    this.#rig = rig;
    this.thread = thread;
  }

  get #caller(): { threadId: string; incarnation: string } {
    return { threadId: this.thread.id, incarnation: this.thread.incarnation };
  }

  newId(): string {
    calls += 1;
    return `toolu_${calls}`;
  }

  /** First answer only: what the hook sees before it would confirm. */
  ask(toolUseId: string, agentId: string | null = null): Promise<HookDecision> {
    return this.#rig.cascade.preToolUse(this.#caller, {
      type: "PreTool",
      sessionId: this.session,
      agentId,
      promptId: this.prompt,
      toolUseId,
      toolName: "Tool",
      recordPath: null,
    } satisfies HarnessEvent);
  }

  confirm(token: string, signal = new AbortController().signal): Promise<HookDecision> {
    return this.#rig.cascade.hold(this.#caller, token, signal);
  }

  /** One call to its end: "pass", or the text the hook printed. `deliver` reports MarkDelivered like the hook does. */
  async call(
    toolUseId = this.newId(),
    agentId: string | null = null,
    deliver = true,
  ): Promise<Answer> {
    let answer = await this.ask(toolUseId, agentId);
    if (answer.decision === "hold") answer = await this.confirm(answer.token);
    if (answer.decision === "hold") throw new Error("held twice");
    if (answer.decision === "pass") return { toolUseId, text: null };
    if (answer.delivered !== undefined && deliver) {
      const { intentId, turn, batch } = answer.delivered;
      this.#rig.cascade.markDelivered(this.#caller, intentId, turn, batch);
    }
    return { toolUseId, text: answer.output };
  }

  event(event: HarnessEvent): Promise<void> {
    return this.#rig.cascade.event(this.#caller, event);
  }

  /** The closing event of a batch: what the model got for every call, refusals in the harness's wrapper. */
  close(
    answers: readonly (Answer & { got?: string; toolName?: string })[],
    agentId: string | null = null,
  ): Promise<void> {
    return this.event({
      type: "BatchClosed",
      sessionId: this.session,
      agentId,
      promptId: this.prompt,
      calls: answers.map((a) => ({
        toolUseId: a.toolUseId,
        toolName: a.toolName ?? "Tool",
        response: a.got ?? (a.text === null ? "ran" : DENIED + a.text),
      })),
    });
  }

  /** A whole batch of concurrent calls, closed. */
  async batch(size = 1): Promise<Answer[]> {
    const answers = await Promise.all(Array.from({ length: size }, () => this.call()));
    await this.close(answers);
    return answers;
  }

  /** What a hook does with an event the daemon could not take. */
  spool(event: HarnessEvent): void {
    const folder = threadPaths(this.#rig.stateDir, REPO_ID, this.thread.id).spool;
    const name = String(1000 + readdirSync(folder).length).padStart(15, "0");
    const body = { incarnation: this.thread.incarnation, secret: "", event };
    writeFileSync(join(folder, `${name}-1-0.json`), JSON.stringify(body));
  }

  /** What a hook does that could not reach the daemon and found no marker. */
  passUnseen(toolUseId: string | null, agentId: string | null = null): void {
    const folder = threadPaths(this.#rig.stateDir, REPO_ID, this.thread.id).passed;
    const event: HarnessEvent = {
      type: "PreTool",
      sessionId: "s",
      agentId,
      promptId: this.prompt,
      toolUseId: toolUseId ?? "",
      toolName: "Tool",
      recordPath: null,
    };
    const body = toolUseId === null ? "" : JSON.stringify(event);
    writeFileSync(
      join(folder, `${this.thread.incarnation}.${readdirSync(folder).length + 1000}`),
      body,
    );
  }
}

export interface Answer {
  toolUseId: string;
  /** null: the call was allowed. */
  text: string | null;
}
