/** A daemon with many live threads for the hook's benchmark: seeded through the store, no agent behind them. */
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { repoPaths, statePaths, threadPaths } from "../../src/core/paths.ts";
import { insertThreadCredential } from "../../src/store/credentials.ts";
import { write } from "../../src/store/db.ts";
import { setCheckpoint, setHead } from "../../src/store/edges.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { insertRepo } from "../../src/store/repos.ts";
import {
  insertSession,
  noteSessionStarted,
  setProcess,
  setReady,
} from "../../src/store/sessions.ts";
import { insertThread, setBase, setLifecycle } from "../../src/store/threads.ts";

export interface BenchThread {
  threadId: string;
  incarnation: string;
  secret: string;
  credential: string;
  /** Harness folder. */
  folder: string;
}

export interface BenchDaemon {
  socket: string;
  stateDir: string;
  repoId: string;
  threads: BenchThread[];
  /** Reports the end of a batch, so that the daemon stays as it is between the calls of real agents. */
  closeBatch(thread: BenchThread, ids: readonly string[]): Promise<void>;
  stop(): Promise<void>;
}

const START_MS = 10_000;
const POLL_MS = 20;

/** Starts `kkd` on a state folder with `count` active threads of one real jj repository. */
export async function startDaemon(root: string, kkd: string, count: number): Promise<BenchDaemon> {
  const env = hermeticEnv(root);
  const stateDir = join(root, "state");
  mkdirSync(stateDir, { mode: 0o700 });
  const repo = makeRepository(join(root, "repo"), env);
  const repoId = crypto.randomUUID();
  const threads = seed(stateDir, repoId, repo, count);
  const log = join(root, "kkd.out");
  const daemon = Bun.spawn([kkd], {
    cwd: stateDir,
    env: { ...env, KIKI_PATHS__USER_STATE_DIR: stateDir },
    stdin: "ignore",
    stdout: Bun.file(log),
    stderr: Bun.file(log),
  });
  const stop = async (): Promise<void> => {
    daemon.kill("SIGTERM");
    await daemon.exited;
  };
  const socket = statePaths(stateDir).socket;
  try {
    await answering(socket, daemon);
  } catch (error) {
    await stop();
    throw new Error(`kkd does not serve: ${readFileSync(log, "utf8").trim().split("\n").at(-1)}`, {
      cause: error,
    });
  }
  return { socket, stateDir, repoId, threads, closeBatch: closeBatchOn(socket), stop };
}

/** A server that passes every call, to measure the hook without any daemon. */
export async function startStub(root: string, count: number): Promise<BenchDaemon> {
  const stateDir = join(root, "state");
  const socket = join(root, "stub.sock");
  const repoId = crypto.randomUUID();
  const threads = Array.from({ length: count }, () => newThread(stateDir, repoId));
  const script = `Bun.serve({ unix: ${JSON.stringify(socket)}, async fetch(r) { await r.text(); return Response.json({ decision: "pass" }); } });`;
  const server = Bun.spawn([process.execPath, "-e", script], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  await answering(socket, server);
  return {
    socket,
    stateDir,
    repoId,
    threads,
    closeBatch: () => Promise.resolve(),
    async stop() {
      server.kill("SIGTERM");
      await server.exited;
    },
  };
}

function newThread(stateDir: string, repoId: string): BenchThread {
  const threadId = crypto.randomUUID();
  const paths = threadPaths(stateDir, repoId, threadId);
  const credential = hexSecret();
  mkdirSync(dirname(paths.credential), { recursive: true, mode: 0o700 });
  mkdirSync(paths.harness, { recursive: true, mode: 0o700 });
  writeFileSync(paths.credential, `${credential}\n`, { mode: 0o600 });
  return {
    threadId,
    incarnation: crypto.randomUUID(),
    secret: hexSecret(),
    credential,
    folder: paths.harness,
  };
}

interface Repository {
  root: string;
  commit: string;
  change: string;
  op: string;
}

function seed(stateDir: string, repoId: string, repo: Repository, count: number): BenchThread[] {
  const now = Date.now();
  const userDb = openUserDb(statePaths(stateDir).userDb);
  insertRepo(userDb, {
    repoId,
    canonicalPath: join(repo.root, ".jj", "repo"),
    repoRoot: repo.root,
    colocated: false,
    registeredAt: now,
  });
  userDb.close();
  mkdirSync(repoPaths(stateDir, repoId).root, { recursive: true, mode: 0o700 });
  const db = openRepoDb(repoPaths(stateDir, repoId).db);
  const threads = Array.from({ length: count }, () => newThread(stateDir, repoId));
  write(db, () => {
    threads.forEach((thread, i) => {
      const { threadId, incarnation } = thread;
      insertThread(db, {
        threadId,
        name: `bench ${i}`,
        slug: `bench-${i}`,
        harness: "claude-code",
        harnessExecutable: "/nonexistent/claude",
        harnessArgs: [],
        firstPrompt: null,
        workspaceName: `kk-bench-${i}`,
        workspacePath: `${repo.root}-kiki-bench-${i}`,
        bookmark: `kk/bench-${i}`,
        tmuxSocket: join(stateDir, "no-tmux.sock"),
        tmuxSession: `kk-bench-${i}`,
        createdAt: now,
      });
      setBase(db, threadId, repo.commit);
      setHead(db, threadId, { commit: repo.commit, change: repo.change, op: repo.op });
      setCheckpoint(db, threadId, repo.commit);
      const credentialId = crypto.randomUUID();
      insertThreadCredential(db, {
        credentialId,
        threadId,
        secretSha256: sha256(thread.credential),
        now,
      });
      insertSession(db, {
        incarnation,
        threadId,
        harness: "claude-code",
        harnessVersion: "2.1.332",
        harnessSessionId: crypto.randomUUID(),
        secretSha256: sha256(thread.secret),
        settingsFingerprint: "0".repeat(64),
        capabilities: { parallel_batch_boundary: true, exclusive_pre_tool_use: true },
        now,
      });
      setProcess(db, incarnation, { pid: process.pid, startTime: "1" });
      noteSessionStarted(db, incarnation, { harnessSessionId: crypto.randomUUID(), now });
      setReady(db, incarnation, now);
      setLifecycle(db, threadId, "Creating", "Active");
    });
  });
  db.close();
  return threads;
}

function makeRepository(folder: string, env: Record<string, string>): Repository {
  jj(["git", "init", "--no-colocate", folder], dirname(folder), env);
  const root = realpathSync(folder);
  const template = 'commit_id ++ " " ++ change_id';
  const [commit, change] = jj(["log", "--no-graph", "-r", "@", "-T", template], root, env).split(
    " ",
  );
  const op = jj(["op", "log", "--no-graph", "-n", "1", "-T", "id"], root, env);
  return { root, commit: commit ?? "", change: change ?? "", op };
}

function jj(args: string[], cwd: string, env: Record<string, string>): string {
  const result = Bun.spawnSync(["jj", ...args], { cwd, env, stdout: "pipe", stderr: "pipe" });
  if (result.exitCode !== 0) throw new Error(`jj ${args[0]}: ${result.stderr.toString().trim()}`);
  return result.stdout.toString().trim();
}

function hermeticEnv(root: string): Record<string, string> {
  mkdirSync(join(root, "home"));
  const jjConfig = join(root, "jj.toml");
  writeFileSync(jjConfig, '[user]\nname = "Bench"\nemail = "bench@example.com"\n');
  return {
    PATH: process.env["PATH"] ?? "/usr/bin:/bin",
    HOME: join(root, "home"),
    TMPDIR: root,
    TMUX_TMPDIR: root,
    JJ_CONFIG: jjConfig,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
  };
}

function closeBatchOn(socket: string): BenchDaemon["closeBatch"] {
  return async (thread, ids) => {
    const event = {
      session_id: "bench",
      prompt_id: "prompt",
      hook_event_name: "PostToolBatch",
      tool_calls: ids.map((id) => ({ tool_name: "Bash", tool_use_id: id, tool_response: "ok" })),
    };
    const response = await fetch("http://kiki/v1/ReportEvent", {
      unix: socket,
      method: "POST",
      headers: { authorization: `Kiki ${thread.credential}`, "content-type": "application/json" },
      body: JSON.stringify({ incarnation: thread.incarnation, secret: thread.secret, event }),
    });
    if (!response.ok) throw new Error(`ReportEvent: ${await response.text()}`);
  };
}

async function answering(socket: string, server: Bun.Subprocess): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    try {
      await (
        await fetch("http://kiki/v1/DaemonStatus", { unix: socket, method: "POST", body: "{}" })
      ).text();
      return;
    } catch (error) {
      if (server.exitCode !== null || performance.now() > deadline) throw error;
      await Bun.sleep(POLL_MS);
    }
  }
}

function hexSecret(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
}

function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
