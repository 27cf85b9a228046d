/**
 * A whole machine in a folder: real kiki binary, real jj, real tmux on a socket of its own, the scripted agent as
 * `claude`. Nothing of the machine's user is seen, nothing is left behind by `close`.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { RepoSummary, ThreadState, ThreadSummary } from "../../src/rpc/contract/types.ts";
import { makeRepo, runAs, type CommandResult, type TestRepo } from "./jj-repo.ts";
import { onTerminal, type TerminalResult } from "./person.ts";
import { tempDir } from "./temp.ts";
import { isAlive as alive } from "../../src/cmd/alive.ts";
import { tmuxOn, type TestTmux } from "./tmux.ts";
import { waitFor } from "./wait.ts";

const ROOT = join(import.meta.dir, "../..");

export interface World {
  dir: string;
  repo: TestRepo;
  env: Record<string, string>;
  stateDir: string;
  tmux: TestTmux;
  /** Runs `kk` without a terminal. */
  kk(args: readonly string[], cwd?: string): Promise<CommandResult>;
  /** Runs `kk` without a terminal and parses what it prints; throws on a non-zero exit. */
  kkJson<T>(args: readonly string[], cwd?: string): Promise<T>;
  /** Runs `kk` on a terminal of its own and answers its question with `answer` and Enter. */
  kkOnTerminal(args: readonly string[], answer: string, cwd?: string): Promise<TerminalResult>;
  /** Registers a repository, a person agreeing; throws with the screen when that fails. */
  register(cwd?: string): Promise<void>;
  /** Creates a thread on a terminal, confirming the plan; throws with the screen when that fails. */
  newThread(args: readonly string[]): Promise<ThreadSummary>;
  threads(): Promise<ThreadSummary[]>;
  state(thread: string): Promise<ThreadState>;
  /** Writes a scenario for the scripted agent and returns the prompt that chooses it. */
  scenario(name: string, scenario: unknown, words?: string): string;
  /** Absolute path of a signal file shared with scenarios. */
  signal: (name: string) => string;
  raise(name: string): void;
  daemonPid(): number;
  /** Waits until the daemon's process is gone. */
  gone(pid: number): Promise<void>;
  close(): Promise<void>;
}

export interface WorldOptions {
  colocated?: boolean;
  files?: Record<string, string>;
  dir?: string;
  /** Put first on PATH, before the scripted agent. */
  path?: readonly string[];
}

export async function makeWorld(options: WorldOptions = {}): Promise<World> {
  if (!existsSync(join(ROOT, "dist/kk")))
    throw new Error("dist/kk is missing: run `npm run build` first");
  const dir = options.dir ?? tempDir("world");
  const repo = await makeRepo({
    dir,
    name: "shop",
    colocated: options.colocated ?? true,
    ...(options.files === undefined ? {} : { files: options.files }),
  });
  const stateDir = join(dir, "state");
  const socket = join(dir, "tmux.sock");
  const signals = join(dir, "signals");
  mkdirSync(signals, { recursive: true });
  const env: Record<string, string> = {
    ...repo.env,
    PATH: [
      ...(options.path ?? []),
      join(ROOT, "dist"),
      join(ROOT, "fixtures/agents"),
      repo.env["PATH"] ?? "",
    ].join(":"),
    KIKI_PATHS__USER_STATE_DIR: stateDir,
    KIKI_TMUX_SOCKET: socket,
    // Claude Code keeps per-session folders there; without it they would stay in the machine's /tmp.
    CLAUDE_CODE_TMPDIR: join(dir, "claude-tmp"),
    TERM: "xterm-256color",
  };
  const tmux = tmuxOn(socket);
  const world: World = {
    dir,
    repo,
    env,
    stateDir,
    tmux,
    kk: (args, cwd = repo.root) => runAs(env, ["kk", ...args], cwd),
    async kkJson<T>(args: readonly string[], cwd?: string): Promise<T> {
      const result = await world.kk([...args, "--json"], cwd);
      if (result.code !== 0)
        throw new Error(`kk ${args.join(" ")}: exit ${result.code}\n${result.stderr}`);
      return JSON.parse(result.stdout) as T;
    },
    kkOnTerminal: (args, answer, cwd = repo.root) => onTerminal(env, ["kk", ...args], answer, cwd),
    async register(cwd) {
      const result = await world.kkOnTerminal(["init"], "y", cwd);
      if (result.code !== 0) throw new Error(`kk init: exit ${result.code}\n${result.screen}`);
    },
    async newThread(args) {
      const before = new Set((await world.threads()).map((t) => t.threadId));
      const result = await world.kkOnTerminal(["new", ...args, "--detach"], "y");
      if (result.code !== 0)
        throw new Error(`kk new ${args.join(" ")}: exit ${result.code}\n${result.screen}`);
      return (await world.threads()).find((t) => !before.has(t.threadId))!;
    },
    threads: async () => (await world.kkJson<{ threads: ThreadSummary[] }>(["ls"])).threads,
    state: (thread) => world.kkJson<ThreadState>(["status", thread, "--no-jj"]),
    scenario(name, scenario, words = "") {
      const file = join(dir, `${name}.scenario.json`);
      writeFileSync(file, JSON.stringify(scenario));
      return `${words}${words === "" ? "" : " "}SCENARIO:${file}`;
    },
    signal: (name) => join(signals, name),
    raise: (name) => writeFileSync(join(signals, name), ""),
    daemonPid: () => Number(readFileSync(join(stateDir, "kkd.pid"), "utf8")),
    gone: async (pid) => {
      await waitFor(() => !alive(pid), 10_000, `process ${pid} gone`);
    },
    async close() {
      // The agents first, and their last hooks: one that finds no daemon would start another.
      await tmux.kill();
      await ended(() => processesOf(dir).filter((pid) => cwdOf(pid) !== stateDir));
      await world.kk(["daemon", "stop"]);
      // One that was still waiting for the lock, or was killed and replaced in between.
      await ended(() => processesOf(dir), 0);
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  return world;
}

export async function initialised(options: WorldOptions = {}): Promise<World> {
  const world = await makeWorld(options);
  await world.register();
  return world;
}

/** Processes that work in `folder` or below, or name it in their arguments; not this one. */
function processesOf(folder: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      if (pid === process.pid || !alive(pid)) return false;
      const cwd = cwdOf(pid);
      if (cwd === folder || cwd?.startsWith(`${folder}/`)) return true;
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(folder);
      } catch {
        return false; // ended meanwhile
      }
    });
}

function cwdOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null; // ended meanwhile, or not ours to look at
  }
}

/** Waits for processes to end by themselves, and ends those that do not. */
async function ended(left: () => number[], patienceMs = 10_000): Promise<void> {
  const patient = waitFor(() => left().length === 0, patienceMs, "processes ended");
  if (
    await patient.then(
      () => true,
      () => false,
    )
  )
    return;
  for (const pid of left()) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // it ended in this moment
    }
  }
  await waitFor(
    () => left().length === 0,
    10_000,
    () => `processes ${left().join(", ")} gone`,
  );
}

export type { RepoSummary, ThreadState, ThreadSummary };
