/** What a person sees and types next: the real binary on real terminals, in the states where something needs them. */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { makeRepo } from "../support/jj-repo.ts";
import { runInPane } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";
import { bash, say, touch, wait } from "../support/scenario.ts";
import { initialised, makeWorld, type ThreadState, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const worlds: World[] = [];
let w: World;

async function keep(made: Promise<World>): Promise<World> {
  const world = await made;
  worlds.push(world);
  return world;
}

beforeAll(async () => {
  w = await keep(initialised());
});
afterAll(async () => {
  for (const world of worlds) await world.close();
});

/** Runs `kk` in a pane outside tmux's own environment: a person's plain terminal of this width. */
function onScreen(args: readonly string[], env: Record<string, string> = {}, columns = 80) {
  const command = ["kk", ...args];
  return runInPane({
    socket: w.tmux.socket,
    env: { ...w.env, ...env },
    cwd: w.repo.root,
    command,
    columns,
    outside: true,
  });
}

/** Everything a command writes to a terminal, byte for byte. */
async function bytesOnTerminal(args: readonly string[], env: Record<string, string> = {}) {
  const decoder = new TextDecoder();
  let text = "";
  const child = Bun.spawn(["kk", ...args], {
    cwd: w.repo.root,
    env: { ...w.env, ...env },
    terminal: { cols: 80, rows: 24, data: (_, data) => void (text += decoder.decode(data)) },
  });
  const code = await child.exited;
  await waitFor(() => text.endsWith("\n"), 2_000, "the last line");
  child.terminal?.close();
  return { code, text };
}

async function statusOf(thread: string): Promise<string> {
  const result = await w.kk(["status", thread]);
  expect([result.code, result.stderr]).toEqual([0, ""]);
  return result.stdout;
}

describe("before anything is registered", () => {
  test("kk ls, kk, kk repo ls → say that a repository comes first", async () => {
    const fresh = await keep(makeWorld());
    for (const args of [["ls"], ["repo", "ls"]]) {
      expect((await fresh.kk(args)).stdout).toBe(
        "no repositories — kk init registers the jj repository it is run in\n",
      );
    }
    expect((await fresh.kk([])).stdout).toContain("Usage: kk <command>");
    expect(await fresh.kkJson<unknown>(["ls"])).toEqual({ threads: [] });
  });
});

describe("terminal", () => {
  test("error → one plain line without colour codes, whatever NO_COLOR and CLICOLOR say", async () => {
    for (const env of [{}, { NO_COLOR: "1" }, { CLICOLOR: "0" }]) {
      expect(await bytesOnTerminal(["status", "nobody"], env)).toEqual({
        code: 3,
        text: 'kk: no thread "nobody" in this repository — kk ls --all\r\n',
      });
    }
  });

  test("kk help ls → every sign with its word", async () => {
    const { stdout } = await w.kk(["help", "ls"]);
    for (const sign of ["●  working", "◉  blocked", "──  in sync", "↻   pending"]) {
      expect(stdout).toContain(sign);
    }
  });
});

describe("kk new", () => {
  test("Ctrl-C at the question → nothing made, nothing listed", async () => {
    const pane = onScreen(["new", "never"]);
    await pane.waitForText(/\[y\/N\]/);
    pane.send("C-c");
    expect(await pane.exitCode()).toBe(130);
    expect((await w.threads()).map((t) => t.name)).not.toContain("never");
    expect(existsSync(join(w.dir, "shop-kiki-never"))).toBe(false);
  });

  test("Ctrl-C during the steps → says that it goes on and where to look, and it does", async () => {
    const pane = onScreen(["new", "on"]);
    await pane.waitForText(/\[y\/N\]/);
    pane.type("y");
    pane.enter();
    await pane.waitForText(/✓ allocate/);
    pane.send("C-c");
    expect(await pane.exitCode()).toBe(130);
    expect(pane.history()).toContain("creation goes on in the background: kk status on");
    await waitFor(
      async () => (await w.state("on")).summary.lifecycle === "Active",
      30_000,
      "an Active thread",
    );
  });

  test("--json with a terminal → the state alone on stdout, progress on stderr", async () => {
    const out = join(w.dir, "out.json");
    const pane = runInPane({
      socket: w.tmux.socket,
      env: w.env,
      cwd: w.repo.root,
      command: ["sh", "-c", `kk new asjson --json > '${out}'`],
    });
    await pane.waitForText(/\[y\/N\]/);
    pane.type("y");
    pane.enter();
    expect(await pane.exitCode()).toBe(0);
    expect(pane.history()).toContain("✓ ready");
    const state = JSON.parse(readFileSync(out, "utf8")) as ThreadState;
    expect(state.summary).toMatchObject({ name: "asjson", lifecycle: "Active" });
  });

  test("--json without a terminal → the plan as JSON, exit 4", async () => {
    const result = await w.kk(["new", "planned", "--json"]);
    expect(result.code).toBe(4);
    expect(JSON.parse(result.stdout)).toMatchObject({
      method: "NewThread",
      text: expect.stringContaining('New thread "planned"'),
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test("agent that ends at once → one line why, exit 1; ls and status say it and what to do", async () => {
    const folder = join(w.dir, "bad-agent");
    mkdirSync(folder);
    const script = `[ "$1" = --version ] && { echo "2.1.332 (Claude Code)"; exit 0; }\necho "no license" >&2\nexit 3`;
    writeFileSync(join(folder, "claude"), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, "claude"), 0o755);
    const pane = onScreen(["new", "broken"], { PATH: `${folder}:${w.env["PATH"]}` }, 400);
    await pane.waitForText(/\[y\/N\]/);
    pane.type("y");
    pane.enter();
    const code = await pane.exitCode(60_000);
    expect({ code, shown: pane.history() }).toEqual({ code: 1, shown: expect.any(String) });
    expect(pane.history()).toMatch(
      /^kk: broken could not be created: .*no license.* — kk status broken$/m,
    );
    expect((await w.kk(["ls"])).stdout).toMatch(/^ {2}! ── +broken +CreateFailed/m);
    const status = await statusOf("broken");
    expect(status).toMatch(/^lifecycle {3}! CreateFailed$/m);
    expect(status).toMatch(/^operation {3}Create Failed at ready \(Failed\): .*no license/m);
    expect(status.trimEnd().split("\n").at(-1)).toStartWith("next        ");
    expect(await w.kk(["switch", "broken"])).toMatchObject({
      code: 1,
      stderr: 'kk: "broken" has no tmux session: it is CreateFailed — kk status broken\n',
    });
    const { repos } = await w.kkJson<{ repos: { activeThreads: number }[] }>(["repo", "ls"]);
    const active = (await w.threads()).filter((t) => t.lifecycle === "Active");
    expect(repos[0]?.activeThreads).toBe(active.length);
  });

  test("agent that asks before it starts → ls, status and progress say so; answered, it goes on", async () => {
    const config = join(w.dir, "claude-config");
    mkdirSync(config);
    writeFileSync(join(config, ".claude.json"), JSON.stringify({ standInTrustDialog: true }));
    const pane = onScreen(["new", "asks"], { CLAUDE_CONFIG_DIR: config }, 200);
    await pane.waitForText(/\[y\/N\]/);
    pane.type("y");
    pane.enter();
    await pane.waitForText(/! "asks" waits: accept the dialog in the agent pane/, 60_000);
    expect((await w.kk(["ls"])).stdout).toMatch(/^ {2}… ── +asks +Creating, blocked/m);
    const status = await statusOf("asks");
    expect(status).toContain("issue       ! startup-dialog: ");
    expect(status).toContain("next        kk switch asks, and answer in the agent's pane");
    const { tmuxSessionId } = (await w.state("asks")).summary;
    w.tmux.ok("send-keys", "-t", tmuxSessionId!, "y");
    expect(await pane.exitCode(60_000)).toBe(0);
    expect(await statusOf("asks")).not.toMatch(/^(issue|next) /m);
  });
});

describe("kk status", () => {
  test("in a thread's own shell pane → that thread, without naming it", async () => {
    const { threadId, tmuxSessionId } = await w.newThread(["here"]);
    const shell = w.tmux
      .ok("list-panes", "-t", tmuxSessionId!, "-F", "#{@kiki_role} #{pane_id}")
      .split("\n")
      .find((line) => line.startsWith("shell "))!
      .slice("shell ".length);
    const out = join(w.dir, "here.json");
    w.tmux.ok(
      "send-keys",
      "-t",
      shell,
      `cd / && kk status --json > '${out}.new'; mv '${out}.new' '${out}'`,
      "Enter",
    );
    await waitFor(() => existsSync(out), 20_000, "the status");
    expect((JSON.parse(readFileSync(out, "utf8")) as ThreadState).summary.threadId).toBe(threadId);
  });

  test("session killed, folder moved → issues by the glossary's names, with a way on; back again → none", async () => {
    const { tmuxSessionId, tmuxSession } = await w.newThread(["lost"]);
    w.tmux.ok("kill-session", "-t", tmuxSessionId!);
    expect(await w.kk(["switch", "lost"])).toMatchObject({
      code: 6,
      stderr: 'kk: the tmux session of "lost" is gone — kk status lost\n',
    });
    const gone = await statusOf("lost");
    expect(gone).toContain(`issue       ! SessionMissing: there is no tmux session ${tmuxSession}`);
    expect(gone).toMatch(/^next .*kk new --no-follow --base kk-lost@ -m/m);
    // What it says to type is a plan that holds.
    const next = await w.kk(["new", "--no-follow", "--base", "kk-lost@", "-m", "go on"]);
    expect([next.code, next.stdout]).toEqual([4, expect.stringContaining("--base kk-lost@")]);

    const { workspacePath } = await w.state("lost");
    renameSync(workspacePath, `${workspacePath}-away`);
    const moved = await statusOf("lost");
    expect(moved).toContain(
      `issue       ! WorkspaceDirectoryMissing: there is no folder ${workspacePath}`,
    );
    expect(moved).toMatch(/^next +put the folder back/m);
    renameSync(`${workspacePath}-away`, workspacePath);
    expect((await w.state("lost")).issues.map((i) => i.issue)).toEqual(["SessionMissing"]);
  });

  test("edits on a stale workspace → conflicted with the copies' place and a way on, edits untouched", async () => {
    const go = w.signal("go");
    await w.newThread(["moves"]);
    const prompt = w.scenario("stands", {
      responses: [
        [touch(w.signal("stands-ready")), wait(go), bash("s1", "echo hi")],
        [say("done")],
      ],
    });
    await w.newThread(["stands", "--follows", "moves", "-m", prompt]);
    await waitFor(() => existsSync(w.signal("stands-ready")), 30_000, "the child's first response");
    const [parent, child] = [await w.state("moves"), await w.state("stands")];
    // Ignored in the child, where it lies in the way of what the parent brings.
    writeFileSync(join(child.workspacePath, "out.log"), "mine, ignored\n");
    writeFileSync(join(parent.workspacePath, ".gitignore"), "build/\n");
    writeFileSync(join(parent.workspacePath, "out.log"), "new\n");
    await w.repo.jj(["describe", "-m", "moved on"], parent.workspacePath);
    await waitFor(
      async () => (await w.state("stands")).summary.cascade === "pending",
      30_000,
      "pending",
    );
    expect(await statusOf("stands")).toContain("Detected (waits for the agent's next tool call)");
    writeFileSync(join(child.workspacePath, "mine.txt"), "mine\n");
    w.raise("go");
    await waitFor(
      async () => (await w.state("stands")).attention.some((a) => a.kind === "cascade_conflict"),
      30_000,
      "a person told",
    );
    expect((await w.kk(["ls"])).stdout).toMatch(/◉ ◐ +stands +← moves +blocked, conflicted/);
    const status = await statusOf("stands");
    expect(status).toMatch(/^issue +! cascade_conflict: .*copies are in .*recovery/m);
    expect(status).toMatch(/^next +kk repair stands$/m);
    const repair = await w.kk(["repair", "stands"]);
    expect([repair.code, repair.stdout]).toEqual([6, expect.stringContaining("out.log")]);
    expect(readFileSync(join(child.workspacePath, "out.log"), "utf8")).toBe("mine, ignored\n");
    expect(readFileSync(join(child.workspacePath, "mine.txt"), "utf8")).toBe("mine\n");
  });

  // The list is what the tests above have left.
  test("40 columns → every state word whole, no row wider", async () => {
    const pane = onScreen(["ls"], { NO_COLOR: "1" }, 40);
    expect(await pane.exitCode()).toBe(0);
    const screen = pane.history();
    const rows = screen.split("\n");
    expect(rows).toHaveLength((await w.threads()).length);
    expect(screen).toContain("CreateFailed");
    expect(screen).toContain("blocked, conflicted");
  });
});

describe("two repositories", () => {
  test("same name in both → each in its own; outside, told apart by place and id", async () => {
    const other = await makeRepo({ dir: w.dir, name: "second shöp" });
    const unregistered = await w.kk([], other.root);
    expect(unregistered.stdout).toStartWith(
      "this folder is in no registered repository (kk init registers it)",
    );
    await w.register(other.root);
    expect((await w.kk(["ls"], other.root)).stdout).toBe("no threads — kk new starts one\n");
    const made = await w.kkOnTerminal(["new", "here", "--detach"], "y", other.root);
    expect(made.code).toBe(0);
    expect((await w.kk(["ls"], other.root)).stdout).toMatch(/^ {2}. ── {2} ?here +kk\/here/);
    const all = await w.kk(["ls", "--all-repos"], other.root);
    expect((await w.kk(["ls"], "/")).stdout).toBe(all.stdout);
    expect(all.stdout).toMatch(/second shöp +here/);
    const [mine, theirs] = [
      await w.state("here"),
      await w.kkJson<ThreadState>(["status", "here"], other.root),
    ];
    const both = await w.kk(["status", "here"], "/");
    expect(both.code).toBe(2);
    expect(both.stderr).toBe(
      `kk: "here" could be "here" (${mine.summary.threadId} in ${w.repo.root}), ` +
        `"here" (${theirs.summary.threadId} in ${other.root}) — give the id, or go to its repository\n`,
    );
    const byId = await w.kk(["status", theirs.summary.threadId, "--no-jj"], "/");
    expect(byId.stdout).toContain(theirs.workspacePath);
  });
});
