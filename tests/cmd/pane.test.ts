/** The pane wrapper in a real tmux pane, against a daemon that is a few lines of this test. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { isAlive } from "../../src/cmd/alive.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { runInPane, tmuxOn, type PaneRun } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";

const REPO = "11111111-1111-4111-8111-111111111111";
const THREAD = "22222222-2222-4222-8222-222222222222";
const ROOT = join(import.meta.dir, "../..");
/** In the foreground, whatever its priority is. */
const FOREGROUND_SLEEP = /^S[<N]?\+\s+sleep 600/m;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});
afterAll(removeTempDirs);

interface Call {
  method: string;
  input: Record<string, unknown>;
}

interface Launch {
  incarnation: string;
  argv: string[];
  env: Record<string, string>;
  cwd: string;
}

/** A box with a fake daemon; `up` and `down` start and end it. */
class Box {
  readonly dir = tempDir("pane");
  readonly workspace = join(this.dir, "workspace");
  readonly calls: Call[] = [];
  readonly launches: Launch[] = [];
  refusal: object | null = null;
  /** By method. */
  readonly refused: Record<string, object> = {};
  private server: ReturnType<typeof Bun.serve> | null = null;

  constructor() {
    mkdirSync(this.workspace);
    const credential = threadPaths(this.dir, REPO, THREAD).credential;
    mkdirSync(dirname(credential), { recursive: true });
    writeFileSync(credential, `${"a".repeat(64)}\n`);
    writeFileSync(
      join(this.dir, "entry.ts"),
      `import { runPane } from ${JSON.stringify(join(ROOT, "src/cmd/pane.ts"))};\n` +
        "process.exit(await runPane(process.argv.slice(2)));\n",
    );
    ends.push(async () => {
      await tmuxOn(this.socket).kill();
      await this.down();
    });
  }

  get socket(): string {
    return join(this.dir, "tmux.sock");
  }

  up(): void {
    this.server = Bun.serve({
      unix: join(this.dir, "kkd.sock"),
      fetch: async (request) => {
        const method = new URL(request.url).pathname.slice("/v1/".length);
        const input = (await request.json()) as Call["input"];
        if (this.refusal !== null) return Response.json({ error: this.refusal }, { status: 409 });
        if (method !== "AwaitLaunchGate") {
          this.calls.push({ method, input });
          const error = this.refused[method];
          if (error !== undefined) return Response.json({ error }, { status: 409 });
          return Response.json({});
        }
        this.calls.push({ method, input });
        const launch = await waitFor(() => this.launches.shift(), 2000, "a launch").catch(
          () => null,
        );
        return Response.json({ launch });
      },
    });
  }

  async down(): Promise<void> {
    await this.server?.stop(true);
    this.server = null;
    rmSync(join(this.dir, "kkd.sock"), { force: true });
  }

  launch(argv: string[], incarnation = "i-1"): void {
    const env = { PATH: "/usr/bin:/bin", INCARNATION: incarnation };
    this.launches.push({ incarnation, argv, env, cwd: this.workspace });
  }

  /** The wrapper as the root of a pane, started in the workspace. */
  pane(args: string[], asRoot = true): PaneRun {
    return runInPane({
      asRoot,
      socket: this.socket,
      env: { PATH: process.env["PATH"] ?? "", HOME: this.dir, TMPDIR: this.dir },
      cwd: this.workspace,
      command: [process.execPath, join(this.dir, "entry.ts"), ...args],
    });
  }

  agent(): PaneRun {
    return this.pane(["agent", "--repo", REPO, "--thread", THREAD, "--state-dir", this.dir]);
  }

  report(method: string, nth = 0): Promise<Record<string, unknown>> {
    return waitFor(
      () => this.calls.filter((call) => call.method === method)[nth]?.input,
      10_000,
      () => `${method} number ${nth} among ${this.calls.map((call) => call.method).join(" ")}`,
    );
  }

  async startedPid(nth = 0): Promise<number> {
    return Number((await this.report("ReportHarnessStarted", nth))["pid"]);
  }
}

/** Fields of /proc/<pid>/stat from the state on: 0 state, 1 ppid, 2 pgrp, 3 session, 5 foreground group. */
function stat(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function ticks(pid: number): number {
  const fields = stat(pid);
  return Number(fields[11]) + Number(fields[12]);
}

function status(pid: number, name: string): string | undefined {
  return new RegExp(`^${name}:\\s*(\\S+)`, "m").exec(
    readFileSync(`/proc/${pid}/status`, "utf8"),
  )?.[1];
}

function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

test("agent whose start is refused, because its incarnation was retired on the way → ended, and the wrapper asks for the next launch", async () => {
  const box = new Box();
  box.up();
  box.refused["ReportHarnessStarted"] = {
    code: "incarnation-retired",
    kind: "failed",
    message: "ended already",
  };
  box.launch(["/bin/sh", "-c", "sleep 1000"]);
  box.agent();
  const pid = await box.startedPid();
  await waitFor(() => !isAlive(pid), 10_000, "its agent gone");
  delete box.refused["ReportHarnessStarted"];
  box.launch(["/bin/sh", "-c", "sleep 1000"], "i-2");
  expect(await box.report("ReportHarnessStarted", 1)).toMatchObject({ incarnation: "i-2" });
  expect(isAlive(await box.startedPid(1))).toBe(true);
});

describe("agent pane", () => {
  test("cat as harness: typed keys, Ctrl-C, end → the child's alone; reported; the next gate works", async () => {
    const box = new Box();
    box.up();
    const pane = box.agent();
    await pane.waitForText(/kiki: waiting for the launch gate/);
    box.launch(["/bin/cat"]);
    const started = await box.report("ReportHarnessStarted");
    const child = Number(started["pid"]);
    const wrapper = Number(stat(child)[1]);
    expect(started).toEqual({
      repoId: REPO,
      threadId: THREAD,
      incarnation: "i-1",
      pid: child,
      startTime: stat(child)[19]!,
    });

    pane.type("hello to the agent");
    pane.enter();
    await pane.waitForText(/hello to the agent\nhello to the agent/);
    // A group of its own in the foreground, in the wrapper's session; the wrapper elsewhere and empty-handed.
    expect([stat(child)[2], stat(child)[5]]).toEqual([String(child), String(child)]);
    expect(stat(wrapper)[2]).not.toBe(String(child));
    expect(stat(child)[3]).toBe(stat(wrapper)[3]!);
    expect(readlinkSync(`/proc/${wrapper}/cwd`)).toBe("/");
    expect(openFiles(wrapper).filter((file) => file.startsWith(box.workspace))).toEqual([]);
    expect(readlinkSync(`/proc/${child}/cwd`)).toBe(box.workspace);
    expect(readdirSync(`/proc/${child}/fd`).toSorted()).toEqual(["0", "1", "2"]);
    const env = readFileSync(`/proc/${child}/environ`, "utf8").split("\0").toSorted();
    expect(env.map((line) => line.split("=")[0]).filter(Boolean)).toEqual(
      [
        "INCARNATION",
        "PATH",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TMUX",
        "TMUX_PANE",
      ].filter((name) => !name.startsWith("TERM_") || env.some((line) => line.startsWith(name))),
    );

    pane.send("C-c");
    expect(await box.report("ReportHarnessExited")).toEqual({
      repoId: REPO,
      threadId: THREAD,
      incarnation: "i-1",
      exitCode: null,
      signal: 2,
    });
    await pane.waitForText(/kiki: agent ended \(SIGINT\); the thread stays, its pane too/);
    expect(isAlive(wrapper)).toBe(true);

    // Nobody runs: Ctrl-C, Ctrl-\ and Ctrl-Z are nothing to the wrapper.
    pane.send("C-c", "C-\\", "C-z");
    box.launch(["/bin/sh", "-c", "echo second; exit 7"], "i-2");
    await pane.waitForText(/second\r?\n?/);
    expect(await box.report("ReportHarnessExited", 1)).toMatchObject({
      incarnation: "i-2",
      exitCode: 7,
      signal: null,
    });
    await pane.waitForText(/agent ended \(exit 7\)/);
    expect(isAlive(wrapper)).toBe(true);
    const order = box.calls.map((call) => call.method).filter((m) => m !== "AwaitLaunchGate");
    expect(order).toEqual([
      "ReportHarnessStarted",
      "ReportHarnessExited",
      "ReportHarnessStarted",
      "ReportHarnessExited",
    ]);
  });

  test("child group stopped by SIGSTOP: tmux running → stays stopped until SIGCONT", async () => {
    const box = new Box();
    box.up();
    const pane = box.agent();
    const counter = join(box.dir, "counter");
    // One process without children: a shell caught in the middle of its vfork would show D instead of T.
    const count = `setInterval(() => require("fs").appendFileSync(${JSON.stringify(counter)}, "x"), 20)`;
    box.launch([process.execPath, "-e", count]);
    const child = await box.startedPid();
    const size = () => (existsSync(counter) ? readFileSync(counter).length : 0);
    await waitFor(() => size() > 4, 5000, "the counter to grow");

    process.kill(-child, "SIGSTOP");
    await waitFor(() => stat(child)[0] === "T", 5000, "the child stopped");
    const before = size();
    const until = performance.now() + 1500;
    while (performance.now() < until) {
      // The server is busy with this very session meanwhile.
      pane.screen();
      expect(stat(child)[0]).toBe("T");
      await Bun.sleep(50);
    }
    expect(size()).toBe(before);
    expect(box.calls.some((call) => call.method === "ReportHarnessExited")).toBe(false);

    process.kill(-child, "SIGCONT");
    await waitFor(() => size() > before, 5000, "the counter to grow again");
    process.kill(-child, "SIGTERM");
    expect(await box.report("ReportHarnessExited")).toMatchObject({ exitCode: null, signal: 15 });
  });

  test("child at start: signals → none ignored, none blocked", async () => {
    const box = new Box();
    box.up();
    box.agent();
    box.launch(["/bin/sleep", "600"]);
    const child = await box.startedPid();
    await waitFor(() => readlinkSync(`/proc/${child}/exe`).endsWith("sleep"), 5000, "exec");
    // Beyond 31 are real-time signals; glibc's own posix_spawn makes its child ignore 32 and 33.
    const classic = (name: string) => BigInt(`0x${status(child, name)}`) & 0x7fffffffn;
    expect(classic("SigIgn")).toBe(0n);
    expect(classic("SigBlk")).toBe(0n);
  });

  test("full-screen child killed in raw mode → terminal as it was, message readable", async () => {
    const box = new Box();
    box.up();
    const pane = box.agent();
    const tui =
      "stty raw -echo; printf '\\033[?1049h\\033[2J\\033[H\\033[?25lDRAWN\\033[?1000h'; sleep 600";
    box.launch(["/bin/sh", "-c", tui]);
    const child = await box.startedPid();
    await waitFor(() => pane.screen().startsWith("DRAWN"), 5000, "the child's screen");
    process.kill(-child, "SIGKILL");
    await pane.waitForText(/agent ended \(SIGKILL\)/);
    const mode = (name: string) =>
      pane.tmux.ok("display-message", "-p", "-t", pane.paneId, `#{${name}}`);
    expect([mode("alternate_on"), mode("cursor_flag"), mode("mouse_any_flag")]).toEqual([
      "0",
      "1",
      "0",
    ]);
    expect(pane.screen()).not.toContain("DRAWN");
    const settings = Bun.spawnSync(["stty", "-a", "-F", mode("pane_tty")]).stdout.toString();
    expect(settings).toMatch(/(^|\s)icanon\s/);
    expect(settings).toMatch(/(^|\s)echo\s/);
  });

  test("daemon away at start, and when the harness starts and ends → waits, then tells everything", async () => {
    const box = new Box();
    const pane = box.agent();
    await pane.waitForText(/kiki: the daemon is away/);
    box.up();
    const go = join(box.dir, "go");
    box.launch([
      "/bin/sh",
      "-c",
      `echo started; while [ ! -e ${go} ]; do sleep 0.05; done; exit 3`,
    ]);
    // Down as soon as the launch is out: the start cannot be reported.
    await waitFor(() => box.launches.length === 0, 5000, "the launch taken");
    await pane.waitForText(/started/);
    await box.down();
    box.calls.length = 0;
    writeFileSync(go, "");
    await pane.waitForText(/agent ended \(exit 3\)/);
    box.up();
    await box.report("ReportHarnessExited");
    const said = box.calls.map((call) => call.method);
    expect(said.indexOf("ReportHarnessExited")).toBeGreaterThanOrEqual(0);
    expect(said.lastIndexOf("ReportHarnessStarted")).toBeLessThan(
      said.indexOf("ReportHarnessExited"),
    );
    expect(await box.report("ReportHarnessExited")).toMatchObject({ exitCode: 3 });
    await box.report("AwaitLaunchGate");
  });

  test("harness that cannot be started → said, reported as exit 127, wrapper goes on", async () => {
    const box = new Box();
    box.up();
    const pane = box.agent();
    box.launch(["/nonexistent/claude", "--x"]);
    expect(await box.report("ReportHarnessExited")).toMatchObject({ exitCode: 127, signal: null });
    await pane.waitForText(/kiki: cannot start \/nonexistent\/claude in .*: No such file/);
    box.launch(["/bin/sh", "-c", "echo alive again"], "i-2");
    await pane.waitForText(/alive again/);
  });

  test("daemon fails for a while (disk full) when the harness starts and ends → told both all the same", async () => {
    const box = new Box();
    box.up();
    const pane = box.agent();
    const go = join(box.dir, "go");
    box.launch(["/bin/sh", "-c", `while [ ! -e ${go} ]; do sleep 0.05; done`]);
    await waitFor(() => box.launches.length === 0, 5000, "the launch taken");
    box.refusal = { kind: "failed", code: "database-disk-full", message: "no space left" };
    writeFileSync(go, "");
    await pane.waitForText(/agent ended \(exit 0\)/);
    box.refusal = null;
    expect(await box.report("ReportHarnessExited")).toMatchObject({ exitCode: 0 });
  });

  test("daemon refuses → said once with its reason, wrapper stays", async () => {
    const box = new Box();
    box.refusal = { kind: "notFound", code: "thread-gone", message: "no such thread" };
    box.up();
    const pane = box.agent();
    await pane.waitForText(/kiki: not yet: no such thread/);
    box.refusal = null;
    box.launch(["/bin/sh", "-c", "echo running"]);
    await pane.waitForText(/running/);
    expect(pane.history().match(/no such thread/g)).toHaveLength(1);
  });

  test("wrapper while its child runs → no processor time", async () => {
    const box = new Box();
    box.up();
    box.agent();
    box.launch(["/bin/sleep", "600"]);
    const wrapper = Number(stat(await box.startedPid())[1]);
    // The runtime settles (compiles, collects) in its first moments.
    const idle = await waitFor(
      async () => {
        const before = ticks(wrapper);
        await Bun.sleep(1000);
        return ticks(wrapper) - before <= 1;
      },
      15_000,
      "a second of at most one tick",
    );
    expect(idle).toBe(true);
  });

  test("pane killed by tmux, child stopped or not → wrapper and child are gone", async () => {
    for (const stopped of [false, true]) {
      const box = new Box();
      box.up();
      const pane = box.agent();
      box.launch(["/bin/sleep", "600"]);
      const child = await box.startedPid();
      const wrapper = Number(stat(child)[1]);
      if (stopped) process.kill(-child, "SIGSTOP");
      pane.tmux.ok("kill-session", "-t", pane.sessionId);
      await waitFor(() => !isAlive(wrapper) && !isAlive(child), 5000, "both gone");
    }
  });

  test("terminal gone, but the wrapper not its session's leader, daemon away → both end all the same", async () => {
    const box = new Box();
    box.up();
    const args = ["agent", "--repo", REPO, "--thread", THREAD, "--state-dir", box.dir];
    const pane = box.pane(args, false);
    box.launch(["/bin/sleep", "600"]);
    const child = await box.startedPid();
    const wrapper = Number(stat(child)[1]);
    await box.down();
    pane.tmux.ok("kill-session", "-t", pane.sessionId);
    await waitFor(() => !isAlive(wrapper) && !isAlive(child), 10_000, "both gone");
  });

  test("wrapper ended by SIGTERM, or by SIGKILL → its child goes too", async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const box = new Box();
      box.up();
      box.pane(["agent", "--repo", REPO, "--thread", THREAD, "--state-dir", box.dir]);
      box.launch(["/bin/sleep", "600"]);
      const child = await box.startedPid();
      process.kill(Number(stat(child)[1]), signal);
      await waitFor(() => !isAlive(child), 5000, `the child gone after ${signal}`);
    }
  });
});

describe("shell pane", () => {
  function shellBox(shell = "/bin/bash"): { box: Box; args: string[] } {
    const box = new Box();
    const envFile = join(box.dir, "env.json");
    const env = { PATH: "/usr/bin:/bin", HOME: box.dir, PS1: "ready> ", LC_ALL: "C.UTF-8", A: "b" };
    writeFileSync(envFile, JSON.stringify(env));
    const args = ["shell", "--cwd", box.workspace, "--shell", shell, "--env-file", envFile];
    return { box, args };
  }

  test("interactive bash: job control, environment, end → as in a terminal of its own", async () => {
    const { box, args } = shellBox();
    writeFileSync(join(box.dir, ".bashrc"), "PS1='ready> '\n");
    const pane = box.pane([...args, "--state-dir", box.dir], false);
    await pane.waitForText(/^ready> $|^ready>/m);
    expect(pane.history()).not.toMatch(/job control|ioctl|tty/);
    pane.type('echo "$PWD $A $KIKI_PATHS__USER_STATE_DIR ${KIKI_THREAD_ID-none}"');
    pane.enter();
    await pane.waitForText(new RegExp(`^${box.workspace} b ${box.dir} none$`, "m"));

    pane.type("sleep 600");
    pane.enter();
    const tty = pane.tmux.ok("display-message", "-p", "-t", pane.paneId, "#{pane_tty}");
    const foreground = () =>
      Bun.spawnSync(["ps", "-o", "stat=,args=", "-t", tty]).stdout.toString();
    await waitFor(() => FOREGROUND_SLEEP.test(foreground()), 5000, foreground);
    pane.send("C-z");
    await pane.waitForText(/Stopped\s+sleep 600/);
    pane.type("fg");
    pane.enter();
    await waitFor(() => FOREGROUND_SLEEP.test(foreground()), 5000, foreground);
    pane.send("C-c");
    pane.type("echo back=$?");
    pane.enter();
    await pane.waitForText(/^back=130$/m);
    pane.type("exit 5");
    pane.enter();
    expect(await pane.exitCode()).toBe(5);
  });

  test("workspace or shell gone → said, and a shell starts all the same", async () => {
    const { box, args } = shellBox("/nonexistent/zsh");
    rmSync(box.workspace, { recursive: true });
    mkdirSync(box.workspace);
    const gone = args.with(2, join(box.dir, "gone"));
    const pane = box.pane(gone);
    await pane.waitForText(/kiki: cannot start \/nonexistent\/zsh[^]*^ready>/m);
    pane.type('echo "in $PWD"');
    pane.enter();
    await pane.waitForText(new RegExp(`^in ${box.dir}$`, "m"));
  });

  test("background job of the shell, pane closed → gone with it", async () => {
    const { box, args } = shellBox();
    const pane = box.pane(args);
    pane.type("sleep 601 & echo pid=$!; sleep 602");
    pane.enter();
    const text = await pane.waitForText(/pid=\d+$/m);
    const job = Number(/pid=(\d+)$/m.exec(text)![1]);
    expect(isAlive(job)).toBe(true);
    pane.tmux.ok("kill-session", "-t", pane.sessionId);
    await waitFor(() => !isAlive(job), 5000, "the job gone");
  });
});
