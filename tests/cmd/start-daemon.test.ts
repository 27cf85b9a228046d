/** Starting a daemon from clients; the daemon is a stand-in with the real lock, socket and start. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../../src/cmd/alive.ts";
import { startDaemon } from "../../src/cmd/start-daemon.ts";
import { daemonEnv } from "../../src/core/daemon-env.ts";
import { KikiError } from "../../src/core/errors.ts";
import { hermeticEnv, removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

const SUPPORT = join(import.meta.dir, "../support");
const STANDIN = [process.execPath, join(SUPPORT, "daemon-standin.ts")];

const stateDirs: string[] = [];
afterEach(async () => {
  for (const dir of stateDirs.splice(0)) await stop(dir);
});
afterAll(removeTempDirs);

interface About {
  pid: number;
  ppid: number;
  starter: number;
  wasAdopted: boolean;
  descriptors: string[];
  cwd: string;
  env: Record<string, string>;
  socket: string;
}

function newStateDir(): string {
  const dir = join(tempDir("start"), "state");
  stateDirs.push(dir);
  return dir;
}

function starter(command: readonly string[] = STANDIN): string[] {
  return [process.execPath, join(SUPPORT, "start-standin.ts"), JSON.stringify(command)];
}

async function ask(socket: string): Promise<About> {
  const response = await fetch("http://kiki/", { unix: socket });
  return (await response.json()) as About;
}

/** Every process that was ever started as a daemon on this folder, as long as it lives. */
function running(stateDir: string): number[] {
  const file = join(stateDir, "started");
  const pids = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : [];
  return pids.filter(isAlive);
}

async function stop(stateDir: string): Promise<void> {
  for (const pid of running(stateDir)) process.kill(pid, "SIGKILL");
  await waitFor(() => running(stateDir).length === 0, 5000, "daemons gone");
}

function log(stateDir: string): string {
  return readFileSync(join(stateDir, "kkd.log"), "utf8");
}

async function failure(promise: Promise<unknown>): Promise<KikiError> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(KikiError);
  return error as KikiError;
}

describe("start", () => {
  test("no daemon → one that is nobody's descendant, in its own session, in the state folder", async () => {
    const stateDir = newStateDir();
    const { socket } = await startDaemon({ stateDir, starter: starter() });
    expect(socket).toBe(join(stateDir, "kkd.sock"));
    const about = await ask(socket);
    expect(about.wasAdopted).toBe(true);
    expect(about.ppid).not.toBe(about.starter);
    expect(isAlive(about.starter)).toBe(false);
    expect(about.cwd).toBe(stateDir);
    const stat = readFileSync(`/proc/${about.pid}/stat`, "utf8");
    const [, ppid, group, session, tty] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    expect(Number(ppid)).not.toBe(process.pid);
    expect([group, session, tty]).toEqual([String(about.pid), String(about.pid), "0"]);
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
    expect(statSync(join(stateDir, "kkd.log")).mode & 0o777).toBe(0o600);
  });

  test("daemon that answers already → nothing is started", async () => {
    const stateDir = newStateDir();
    const { socket } = await startDaemon({ stateDir, starter: starter() });
    const first = await ask(socket);
    await startDaemon({ stateDir, starter: ["/nonexistent"] });
    expect((await ask(socket)).pid).toBe(first.pid);
  });

  test("daemon that is stopping → its successor, once the lock is free", async () => {
    const stateDir = newStateDir();
    const { socket } = await startDaemon({ stateDir, starter: starter() });
    const old = await ask(socket);
    process.kill(old.pid, "SIGTERM");
    // Two clients: one comes while it still answers, one while only its lock is left.
    const first = startDaemon({ stateDir, starter: starter() });
    await waitFor(async () => !(await ask(socket).catch(() => null)), 5000, "the socket gone");
    const second = startDaemon({ stateDir, starter: starter() });
    expect(await Promise.all([first, second])).toEqual([{ socket }, { socket }]);
    expect((await ask(socket)).pid).not.toBe(old.pid);
    expect(isAlive(old.pid)).toBe(false);
  });

  test("client inside a thread, with open files → neither its environment nor its files get through", async () => {
    const stateDir = newStateDir();
    const dir = tempDir("client");
    const held = join(dir, "held-open");
    writeFileSync(held, "");
    const client = join(dir, "client.ts");
    const source = join(import.meta.dir, "../../src/cmd/start-daemon.ts");
    const request = JSON.stringify({ stateDir, starter: starter() });
    writeFileSync(
      client,
      `import { startDaemon } from ${JSON.stringify(source)};\nconsole.log((await startDaemon(${request})).socket);\n`,
    );
    const env: Record<string, string> = {
      ...hermeticEnv(dir),
      TMUX: "/tmp/x,1,0",
      TMUX_PANE: "%1",
      KIKI_THREAD_ID: "t",
      KIKI_INCARNATION_SECRET: "s3cret",
      KIKI_CASCADE__HOLD_S: "3",
      ANTHROPIC_API_KEY: "sk-x",
      BUN_INSPECT: "",
    };
    const run = Bun.spawnSync(
      ["sh", "-c", 'exec 7<"$0" 8>>"$0" 9<"$0"; exec "$@"', held, process.execPath, client],
      { env, cwd: dir },
    );
    expect(run.stderr.toString()).toBe("");
    const about = await ask(run.stdout.toString().trim());
    expect(about.descriptors.filter((fd) => fd.includes("held-open"))).toEqual([]);
    expect(about.descriptors.filter((fd) => /^[012] /.test(fd))).toEqual([
      "0 /dev/null",
      `1 ${join(stateDir, "kkd.log")}`,
      `2 ${join(stateDir, "kkd.log")}`,
    ]);
    // What is above is the runtime's own: nothing with a name in the file system.
    const named = about.descriptors.filter((fd) => !/^[012] /.test(fd) && / \//.test(fd));
    expect(named.filter((fd) => !/ \/(proc|dev\/u?random|tests?|.*\.ts$)/.test(fd))).toEqual([]);
    expect(about.env).toMatchObject({
      PATH: env["PATH"]!,
      HOME: env["HOME"]!,
      JJ_CONFIG: env["JJ_CONFIG"]!,
      KIKI_CASCADE__HOLD_S: "3",
      KIKI_PATHS__USER_STATE_DIR: stateDir,
      BUN_TMPDIR: join(stateDir, "tmp"),
    });
    const text = JSON.stringify(about.env);
    for (const foreign of ["TMUX", "KIKI_THREAD_ID", "s3cret", "sk-x", "BUN_INSPECT"]) {
      expect([foreign, text.includes(foreign)]).toEqual([foreign, false]);
    }
  });

  test("six clients at once, three rounds of kill -9 in between → exactly one daemon each time", async () => {
    const stateDir = newStateDir();
    const seen = new Set<number>();
    for (let round = 0; round < 3; round += 1) {
      const starts = Array.from({ length: 6 }, () => startDaemon({ stateDir, starter: starter() }));
      const sockets = await Promise.all(starts);
      const pids = await Promise.all(sockets.map(async ({ socket }) => (await ask(socket)).pid));
      expect(new Set(pids).size).toBe(1);
      expect(seen.has(pids[0]!)).toBe(false);
      seen.add(pids[0]!);
      await waitFor(() => running(stateDir).length === 1, 5000, "the losers gone");
      expect(running(stateDir)).toEqual([pids[0]!]);
      expect(log(stateDir).match(/^serving \d+$/gm)).toHaveLength(round + 1);
      await stop(stateDir);
    }
  });

  test("home of 200 characters → a daemon on a short path, found again under another runtime folder", async () => {
    const deep = join(tempDir("start"), "h".repeat(200), "state");
    stateDirs.push(deep);
    const runtime = tempDir("run");
    const before = process.env["XDG_RUNTIME_DIR"];
    try {
      process.env["XDG_RUNTIME_DIR"] = runtime;
      const { socket } = await startDaemon({ stateDir: deep, starter: starter() });
      expect(socket).toStartWith(join(runtime, "kiki/"));
      delete process.env["XDG_RUNTIME_DIR"];
      expect(await startDaemon({ stateDir: deep, starter: ["/nonexistent"] })).toEqual({ socket });
    } finally {
      if (before === undefined) delete process.env["XDG_RUNTIME_DIR"];
      else process.env["XDG_RUNTIME_DIR"] = before;
    }
  });
});

describe("start that fails", () => {
  test("daemon ends at once → the last line of this start, not of an older one; soon", async () => {
    const stateDir = newStateDir();
    mkdirSync(stateDir, { mode: 0o700 });
    writeFileSync(join(stateDir, "kkd.log"), "an old line\n");
    const command = [
      "/bin/sh",
      "-c",
      "echo first; echo 'database is newer than this kiki'; exit 1",
    ];
    const begun = performance.now();
    const error = await failure(startDaemon({ stateDir, starter: starter(command) }));
    expect(error.toData()).toEqual({
      kind: "daemonUnavailable",
      code: "daemon-start-failed",
      message: "the daemon ended at once: database is newer than this kiki",
      hint: `see ${join(stateDir, "kkd.log")}`,
    });
    expect(performance.now() - begun).toBeLessThan(4000);
    const silent = await failure(startDaemon({ stateDir, starter: starter(["/bin/false"]) }));
    expect(silent.message).toBe("the daemon ended at once: it wrote nothing to its log");
  });

  test("daemon that never answers → given up after the limit", async () => {
    const stateDir = newStateDir();
    const command = ["/bin/sh", "-c", "echo thinking; exec sleep 600"];
    const error = await failure(startDaemon({ stateDir, starter: starter(command) }));
    expect(error.message).toBe("the daemon did not answer within 5 s: thinking");
  }, 30_000);

  test("a folder where the socket belongs → the daemon's own sentence about it", async () => {
    const stateDir = newStateDir();
    mkdirSync(join(stateDir, "kkd.sock"), { recursive: true });
    const error = await failure(startDaemon({ stateDir, starter: starter() }));
    expect(error.message).toContain(`${join(stateDir, "kkd.sock")} is a folder`);
  });

  test("starter that fails, state folder that is a file → said", async () => {
    const stateDir = newStateDir();
    const starting = ["/bin/sh", "-c", "echo 'no room' >&2; exit 3"];
    const error = await failure(startDaemon({ stateDir, starter: starting }));
    expect(error.message).toBe("the daemon could not be started: no room");
    const file = join(tempDir("start"), "file");
    writeFileSync(file, "");
    expect((await failure(startDaemon({ stateDir: file }))).code).toBe("folder-unsafe");
  });
});

test("daemon environment: names of every kind → the allow-list and configuration only", () => {
  const from = {
    PATH: "/bin",
    LC_TIME: "C",
    XDG_DATA_HOME: "/d",
    KIKI_UI__THEME: "soft-dark",
    KIKI_THREAD_ID: "t",
    KIKI_STATE_DIR: "/s",
    KIKI_AS: "kk",
    CLAUDECODE: "1",
    BUN_OPTIONS: "--preload x",
    NODE_OPTIONS: "x",
    LD_PRELOAD: "x",
    GONE: undefined,
  };
  expect(Object.keys(daemonEnv(from)).toSorted()).toEqual([
    "KIKI_UI__THEME",
    "LC_TIME",
    "PATH",
    "XDG_DATA_HOME",
  ]);
});
