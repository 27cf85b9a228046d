/** A real kkd from its sources, driven by kk, on a real jj repository: start, registry, damage, end. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { isAlive } from "../../src/cmd/alive.ts";
import { makeClient, type Client } from "../../src/rpc/client.ts";
import { makeRepo, runAs, type CommandResult, type TestRepo } from "../support/jj-repo.ts";
import { onTerminal, type TerminalResult } from "../support/person.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(60_000);

const MAIN = join(import.meta.dir, "../../src/main.ts");
/** The scripted `claude`. */
const AGENTS = join(import.meta.dir, "../../fixtures/agents");
let repo: TestRepo;
let state: string;

beforeAll(async () => {
  repo = await makeRepo({ colocated: true });
  state = join(repo.dir, "state");
});
afterAll(async () => {
  await kk(["daemon", "stop"]);
  removeTempDirs();
});

function kk(args: readonly string[], cwd = repo.root): Promise<CommandResult> {
  const PATH = `${AGENTS}:${repo.env["PATH"]}`;
  const env = { ...repo.env, PATH, KIKI_PATHS__USER_STATE_DIR: state };
  return runAs(env, [process.execPath, MAIN, ...args], cwd);
}

async function json<T>(args: readonly string[], cwd?: string): Promise<T> {
  const result = await kk([...args, "--json"], cwd);
  expect([result.code, result.stderr]).toEqual([0, ""]);
  return JSON.parse(result.stdout) as T;
}

function client(): Client {
  const credential = readFileSync(join(state, "registration-cred"), "utf8").trim();
  return makeClient({ socket: join(state, "kkd.sock"), credential, clientVersion: "test" });
}

/** What a hook with this credential is told: kind and code of the refusal. */
async function hookAnswer(credential: string): Promise<string> {
  const hook = makeClient({ socket: join(state, "kkd.sock"), credential, clientVersion: "test" });
  const call = { incarnation: "i", secret: "s", event: {} };
  const error = await hook.call("PreToolUseDecision", call).catch((e: unknown) => e);
  const { kind, code } = error as { kind: string; code: string };
  return `${kind} ${code}`;
}

/** On a terminal, with a person's yes. */
const init = (folder: string): Promise<TerminalResult> => {
  const env = { ...repo.env, KIKI_PATHS__USER_STATE_DIR: state };
  return onTerminal(env, [process.execPath, MAIN, "init"], "y", folder);
};

const pidOf = (): number => Number(readFileSync(join(state, "kkd.pid"), "utf8"));
const modeOf = (path: string): number => statSync(path).mode & 0o777;

describe("daemon process", () => {
  test("first command → a daemon that is nobody's child, with private files", async () => {
    const status = await kk(["ls"]);
    expect([status.code, status.stdout, status.stderr]).toEqual([
      0,
      "no repositories — kk init registers the jj repository it is run in\n",
      "",
    ]);
    expect([state, join(state, "repos")].map(modeOf)).toEqual([0o700, 0o700]);
    const files = ["kkd.sock", "kkd.pid", "kkd.log", "registration-cred", "state.db"];
    expect(files.map((name) => modeOf(join(state, name)))).toEqual(files.map(() => 0o600));
    const { pid } = await json<{ pid: number }>(["daemon", "status"]);
    expect(pid).toBe(pidOf());
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [, parent, , session] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    expect(session).toBe(pid);
    expect(parent).not.toBe(process.pid);
  });

  test("no credential, wrong credential → refused by methods that need one", async () => {
    for (const credential of [null, "f".repeat(64)]) {
      const stranger = makeClient({
        socket: join(state, "kkd.sock"),
        credential,
        clientVersion: "test",
      });
      const error: unknown = await stranger.call("ListRepos", {}).catch((e: unknown) => e);
      expect(error).toMatchObject({ kind: "approval" });
      expect((await stranger.call("DaemonStatus", {})).pid).toBe(pidOf());
    }
  });

  test("kk init → registered; again, from below, at once twice → the same repository", async () => {
    mkdirSync(join(repo.root, "deep/er"), { recursive: true });
    const folders = [repo.root, join(repo.root, "deep/er")];
    const results = await Promise.all(folders.map((folder) => init(folder)));
    expect(results.map((r) => r.code)).toEqual([0, 0]);
    for (const { screen } of results) expect(screen).toMatch(/^(already )?registered/m);
    const { repos } = await json<{ repos: { path: string; repoId: string }[] }>(["repo", "ls"]);
    expect(repos.map((r) => r.path)).toEqual([repo.root]);
    const again = await kk(["init"]);
    expect(again.stdout).toContain(`already registered: ${repo.root} (since `);
    expect(again.stdout).toContain("0 active, 0 closed");
    expect(again.stdout).toContain(`${state}/repos/${repos[0]!.repoId}/state.db`);
  });

  test("folder that is in no repository, or in an unregistered one → said, exit 3", async () => {
    const plain = await kk(["init"], repo.dir);
    expect([plain.code, plain.stderr]).toEqual([
      3,
      `kk: ${repo.dir} is not in a jj repository — jj git init --colocate makes one here\n`,
    ]);
    const other = await makeRepo({ dir: repo.dir, name: "other" });
    const unregistered = await kk(["new", "x"], other.root);
    expect([unregistered.code, unregistered.stderr]).toEqual([
      3,
      `kk: ${other.root} is in no registered repository — kk init\n`,
    ]);
  });

  test("bare kk → summary and threads here; elsewhere it says where it is, and all", async () => {
    expect((await kk([])).stdout).toBe(
      `${repo.root} — 0 active, 0 closed\nno threads — kk new starts one\n`,
    );
    expect((await kk([], repo.dir)).stdout).toBe(
      "this folder is in no registered repository (kk init registers it) — the others:\n" +
        "no threads in any repository — kk new, in one, starts one\n",
    );
    expect((await kk(["ls"], repo.dir)).stdout).toBe(
      "no threads in any repository — kk new, in one, starts one\n",
    );
  });

  test("unknown thread → one line, exit 3; no thread here → says what to name", async () => {
    const unknown = await kk(["status", "nobody"]);
    expect([unknown.code, unknown.stderr]).toEqual([
      3,
      'kk: no thread "nobody" in this repository — kk ls --all\n',
    ]);
    expect((await kk(["status"])).code).toBe(3);
  });

  test("doctor without Claude Code → that line fails and says what to install", async () => {
    const without = (repo.env["PATH"] ?? "")
      .split(":")
      .filter((p) => !existsSync(join(p, "claude")));
    const env = { ...repo.env, PATH: without.join(":"), KIKI_PATHS__USER_STATE_DIR: state };
    const doctor = await runAs(env, [process.execPath, MAIN, "doctor"], repo.root);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(/^! claude-code +claude is not on PATH\n {2}→ install Claude/m);
    // Another harness is a choice of its own: that it is missing is said, and is no failure.
    expect(doctor.stdout).toMatch(/^✓ codex +codex is not on PATH$/m);
  });

  test("doctor → every line ok, exit 0", async () => {
    const { lines } = await json<{ lines: { name: string; ok: boolean }[] }>(["doctor"]);
    expect(lines.filter((line) => !line.ok)).toEqual([]);
    expect(lines.map((line) => line.name)).toContain(`repo ${repo.root}`);
  });

  test("SIGTERM → ends by itself, socket and pid file gone; the next command starts another", async () => {
    const pid = pidOf();
    process.kill(pid, "SIGTERM");
    await waitFor(() => !isAlive(pid), 10_000, "the daemon's end");
    expect(["kkd.sock", "kkd.pid"].filter((name) => existsSync(join(state, name)))).toEqual([]);
    expect((await kk(["repo", "ls"])).stdout).toContain(repo.root);
    expect(pidOf()).not.toBe(pid);
  });

  test("kill -9 → the next command starts another over the stale socket", async () => {
    const pid = pidOf();
    process.kill(pid, "SIGKILL");
    await waitFor(() => !isAlive(pid), 10_000, "the daemon's end");
    expect(existsSync(join(state, "kkd.sock"))).toBe(true);
    expect((await kk(["ls"])).code).toBe(0);
    expect(pidOf()).not.toBe(pid);
  });

  test("shutdown meant for another process → ignored", async () => {
    const { stopping } = await client().call("DaemonShutdown", { reason: "test", pid: 1 });
    expect(stopping).toBe(false);
    expect((await client().call("DaemonStatus", {})).pid).toBe(pidOf());
  });

  test("five commands at once, no daemon → one daemon answers all", async () => {
    await kk(["daemon", "stop"]);
    const results = await Promise.all([1, 2, 3, 4, 5].map(() => kk(["ls"])));
    expect(results.map((r) => [r.code, r.stderr])).toEqual(results.map(() => [0, ""]));
    const { pid } = await json<{ pid: number }>(["daemon", "status"]);
    expect(pid).toBe(pidOf());
  });

  test("registered repository moved away → daemon serves, says so; back again → works", async () => {
    const away = `${repo.root}-away`;
    const [registered] = (await json<{ repos: { repoId: string }[] }>(["repo", "ls"])).repos;
    const agent = "a".repeat(64);
    const credentials = join(state, "repos", registered!.repoId, "credentials");
    writeFileSync(join(credentials, "some-thread"), `${agent}\n`, { mode: 0o600 });
    renameSync(repo.root, away);
    try {
      expect((await kk(["daemon", "restart"], repo.dir)).code).toBe(0);
      expect((await kk(["repo", "ls"], repo.dir)).stdout).toContain(repo.root);
      // To the repository's agents that is an outage, not a refusal: their calls go by the barrier marker.
      expect(await hookAnswer(agent)).toBe("failed repo-unavailable");
      expect(await hookAnswer("f".repeat(64))).toBe("approval credential-unknown");
      const doctor = await kk(["doctor"], repo.dir);
      expect(doctor.code).toBe(1);
      expect(doctor.stdout).toContain("no jj repository at");
    } finally {
      renameSync(away, repo.root);
    }
    expect((await kk(["init"])).stdout).toContain("already registered");
    expect((await kk(["doctor"])).code).toBe(0);
  });

  test("socket replaced by a folder → one line naming it, folder kept; doctor still works", async () => {
    await kk(["daemon", "stop"]);
    const socket = join(state, "kkd.sock");
    mkdirSync(socket);
    writeFileSync(join(socket, "keep"), "x");
    const ls = await kk(["ls"]);
    expect([ls.code, ls.stdout]).toEqual([5, ""]);
    expect(ls.stderr).toBe(
      `kk: ${socket} is a folder, where the daemon's socket has to be — move it away and try again\n`,
    );
    const doctor = await kk(["doctor"]);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain("! daemon");
    expect(doctor.stdout).toContain("✓ jj");
    renameSync(socket, `${socket}-moved`);
    expect((await kk(["ls"])).code).toBe(0);
  });

  test("socket file removed under the daemon → it makes way, the next command is served", async () => {
    await kk(["ls"]);
    const pid = pidOf();
    rmSync(join(state, "kkd.sock"));
    const ls = await kk(["ls"]);
    expect([ls.code, ls.stderr]).toEqual([0, ""]);
    expect(isAlive(pid)).toBe(false);
    expect(pidOf()).not.toBe(pid);
  });

  test("state folder removed under the daemon → it ends, and leaves its successor's socket alone", async () => {
    const pid = pidOf();
    renameSync(state, `${state}-gone`);
    expect((await kk(["ls"])).code).toBe(0);
    await waitFor(() => !isAlive(pid), 15_000, "the end of the daemon nobody can reach");
    expect(pidOf()).not.toBe(pid);
    expect((await kk(["daemon", "status"])).code).toBe(0);
  });
});
