/** `kk config` and what a command takes its context from, on the binary: text, JSON, exit codes, no ANSI. */
import { Database } from "bun:sqlite";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { threadPaths } from "../../src/core/paths.ts";
import type { Output } from "../../src/rpc/contract/methods.ts";
import type { ThreadSummary } from "../../src/rpc/contract/types.ts";
import { runAs, type CommandResult } from "../support/jj-repo.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);

let w: World;
let userFile: string;
let sharedFile: string;

beforeAll(async () => {
  w = await initialised();
  userFile = join(w.stateDir, "config.toml");
  sharedFile = join(w.repo.root, ".kiki.toml");
});
afterAll(() => w.close());

const kk = (
  args: readonly string[],
  env: Record<string, string> = {},
  cwd = w.repo.root,
): Promise<CommandResult> => runAs({ ...w.env, ...env }, ["kk", ...args], cwd);

function outcome({ code, stdout, stderr }: CommandResult): {
  code: number;
  out: string[];
  err: string[];
} {
  // eslint-disable-next-line no-control-regex
  expect(`${stdout}${stderr}`).not.toMatch(/\u001b/);
  const lines = (text: string): string[] => {
    const told = text.replaceAll(w.repo.root, "<repo>").replaceAll(w.dir, "<dir>").trimEnd();
    return told === "" ? [] : told.split("\n");
  };
  return { code, out: lines(stdout), err: lines(stderr) };
}

describe("kk config get", () => {
  test("no configuration → the default, and when a change takes effect; nothing on stderr", async () => {
    expect(outcome(await kk(["config", "get", "cascade.hold_s"]))).toEqual({
      code: 0,
      out: [
        "cascade.hold_s = 30",
        "  layer   default",
        "  change  takes effect at once",
        "  about   How long an agent's tool call may be held while its files are brought up to date.",
      ],
      err: [],
    });
  });

  test("layers, edited while the daemon runs → value, layer, file and line of the next call", async () => {
    const layer = async (): Promise<string[]> =>
      outcome(await kk(["config", "get", "close.disposable"])).out.slice(0, 2);
    writeFileSync(sharedFile, "[close]\ndisposable = ['shared']\n");
    expect(await layer()).toEqual([
      'close.disposable = ["shared"]',
      "  layer   repo-shared <repo>/.kiki.toml:2",
    ]);
    writeFileSync(userFile, "close.disposable = ['user']\n");
    expect(await layer()).toEqual([
      'close.disposable = ["user"]',
      "  layer   user <dir>/state/config.toml:1",
    ]);
    rmSync(userFile);
    rmSync(sharedFile);
    expect((await layer())[1]).toBe("  layer   default");
  });

  test("unknown key → one line with the nearest, exit 3; a command that is not there → exit 2", async () => {
    expect(outcome(await kk(["config", "get", "cascade.hold"]))).toEqual({
      code: 3,
      out: [],
      err: ['kk: there is no key "cascade.hold" — did you mean cascade.hold_s?'],
    });
    expect((await kk(["config", "get", "x.y"])).stderr).toContain("kk config show lists all keys");
    expect((await kk(["config", "set", "a", "b"])).code).toBe(2);
    expect((await kk(["config", "get"])).code).toBe(2);
  });

  test("malformed file → file, line and column on stderr, exit 1, the last good value", async () => {
    writeFileSync(userFile, "[cascade]\nhold_s = 60\n");
    await kk(["config", "get", "cascade.hold_s"]);
    writeFileSync(userFile, "[cascade]\nhold_s = \n");
    const broken = outcome(await kk(["config", "get", "cascade.hold_s"]));
    expect(broken.code).toBe(1);
    expect(broken.err).toEqual([
      "kk: <dir>/state/config.toml:2:10: this is not TOML: invalid value",
    ]);
    expect(broken.out.slice(0, 2)).toEqual([
      "cascade.hold_s = 60",
      "  layer   user <dir>/state/config.toml:2 (the last good value)",
    ]);
    rmSync(userFile);
  });

  test("unknown and foreign keys in files → warnings, exit 0; an error elsewhere → exit 0 for this key", async () => {
    writeFileSync(sharedFile, "[ui]\ntheme = 'soft-light'\n[github]\npol_s = 5\nbackend = 'hub'\n");
    const said = outcome(await kk(["config", "get", "ui.theme"]));
    expect(said.err).toEqual([
      "kiki: <repo>/.kiki.toml:2:1: ui.theme is ignored here: only your own configuration may set it",
      "kiki: <repo>/.kiki.toml:4:1: unknown key github.pol_s — did you mean github.poll_s?",
      'kk: <repo>/.kiki.toml:5:11: github.backend must be "gh", not "hub"',
    ]);
    expect([said.code, said.out[0]]).toEqual([0, 'ui.theme = "soft-dark"']);
    expect((await kk(["config", "get", "github"])).code).toBe(1);
    rmSync(sharedFile);
  });

  test("variables → the caller's for what commands read; a warning for what the daemon reads", async () => {
    const theme = outcome(
      await kk(["config", "get", "ui.theme"], { KIKI_UI__THEME: "high-contrast" }),
    );
    expect(theme.out.slice(0, 2)).toEqual([
      'ui.theme = "high-contrast"',
      "  layer   env KIKI_UI__THEME",
    ]);
    const hold = outcome(
      await kk(["config", "get", "cascade.hold_s"], { KIKI_CASCADE__HOLD_S: "9" }),
    );
    expect(hold.out[0]).toBe("cascade.hold_s = 30");
    expect(hold.err).toEqual([
      "kiki: KIKI_CASCADE__HOLD_S is set in this shell, but the daemon, which reads it, was started without it; kk daemon restart takes it over",
    ]);
  });

  test("--json → the documented shape", async () => {
    const { settings } = JSON.parse(
      (await kk(["config", "get", "cascade", "--json"])).stdout,
    ) as Output<"GetConfig">;
    expect(settings.map(({ key }) => key)).toEqual([
      "cascade.snapshot",
      "cascade.drain_s",
      "cascade.hold_s",
      "cascade.attempts",
    ]);
    expect(settings[2]).toEqual({
      key: "cascade.hold_s",
      value: 30,
      layer: "default",
      file: null,
      line: null,
      column: null,
      variable: null,
      kept: false,
      reload: "hot",
      effect: "at once",
      planned: false,
      doc: "How long an agent's tool call may be held while its files are brought up to date.",
    });
  });
});

describe("kk config show", () => {
  test("in a repository → its files and every key; outside → the user's file alone", async () => {
    const inside = outcome(await kk(["config", "show"]));
    expect(inside.code).toBe(0);
    expect(inside.out.slice(0, 3)).toEqual([
      "Configuration of <repo>",
      "  repo-shared  <repo>/.kiki.toml (not there)",
      "  user         <dir>/state/config.toml (not there)",
    ]);
    expect(inside.out.filter((line) => /^\w+(?:\.[\w-]+)+ /.test(line)).length).toBeGreaterThan(50);
    const outside = outcome(await kk(["config", "show"], {}, w.dir));
    expect(outside.out.slice(0, 3)).toEqual([
      "Configuration of the user's alone: this folder is in no registered repository",
      "  user         <dir>/state/config.toml (not there)",
      "",
    ]);
  });
});

describe("what a thread is made with", () => {
  let thread: ThreadSummary;

  test("environment, arguments, workspaces root, no shell pane → in the plan and in the thread", async () => {
    writeFileSync(
      userFile,
      `paths.workspaces_root = '${w.dir}/spaces'\nui.shell_pane = false\n` +
        "[agent]\nenv.KK_TEST_COLOUR = 'blue'\nharness_args.claude-code = ['--model', 'opus']\n",
    );
    const refused = outcome(await kk(["new", "first", "-m", "x"]));
    expect(refused.err).toEqual([
      "kk: paths.workspaces_root is <dir>/spaces, and there is no such folder — mkdir -p <dir>/spaces, or change the configuration",
    ]);
    mkdirSync(join(w.dir, "spaces"));
    thread = await w.newThread(["first", "-m", w.scenario("first", { turns: [] }, "hello")]);
    const state = await w.state("first");
    expect(state.workspacePath).toBe(`${w.dir}/spaces/shop-kiki-first`);
    const given = readFileSync(
      threadPaths(w.stateDir, thread.repoId, thread.threadId).harness + "/env.json",
      "utf8",
    );
    expect(JSON.parse(given)).toMatchObject({ KK_TEST_COLOUR: "blue", HOME: w.env["HOME"] });
    const plan = outcome(await kk(["new", "second", "-m", "x"]));
    expect(plan.code).toBe(4);
    expect(plan.out.join("\n")).toContain("--model opus");
    expect(plan.out.join("\n")).toContain("KK_TEST_COLOUR");
    expect(plan.out.join("\n")).toContain("one pane: the agent");
    rmSync(userFile);
  });

  test("in the thread's workspace → its rows are the thread layer", async () => {
    const { workspacePath } = await w.state("first");
    const db = new Database(join(w.stateDir, "repos", thread.repoId, "state.db"));
    db.run("PRAGMA busy_timeout = 5000");
    db.run("INSERT INTO thread_config (thread_id, key, value_json, set_at) VALUES (?, ?, ?, 0)", [
      thread.threadId,
      "close.disposable",
      '["t"]',
    ]);
    db.close();
    const get = async (cwd: string): Promise<string[]> =>
      outcome(await kk(["config", "get", "close.disposable"], {}, cwd)).out.slice(0, 2);
    expect(await get(workspacePath)).toEqual(['close.disposable = ["t"]', "  layer   thread"]);
    expect((await get(w.repo.root))[1]).toBe("  layer   default");
  });

  test("context: workspace, a link to it, variable, stale variable, none → thread or reason", async () => {
    const { workspacePath } = await w.state("first");
    const link = join(w.dir, "link");
    symlinkSync(workspacePath, link);
    const named = async (env: Record<string, string>, cwd: string): Promise<string> => {
      const { code, stdout, stderr } = await kk(["status", "--no-jj", "--json"], env, cwd);
      if (code !== 0) return `exit ${code} ${stderr.trim()}`;
      const { summary } = JSON.parse(stdout) as { summary: { name: string } };
      return [summary.name, stderr.trim()].join(" ").trim();
    };
    const gone = "00000000-0000-4000-8000-000000000000";
    expect(await named({}, workspacePath)).toBe("first");
    expect(await named({}, link)).toBe("first");
    expect(await named({ KIKI_THREAD_ID: thread.threadId }, "/")).toBe("first");
    expect(await named({ KIKI_THREAD_ID: gone }, workspacePath)).toBe(
      `first kiki: KIKI_THREAD_ID names a thread that is not there any more (${gone}); going by the folder: "first"`,
    );
    expect(await named({ KIKI_THREAD_ID: gone }, w.repo.root)).toBe(
      `exit 3 kk: no thread here: KIKI_THREAD_ID names a thread that is not there any more (${gone}) — name one: kk ls lists them`,
    );
    // Its own session; one of another state folder, which says nothing; and a server that is not there.
    const { socket } = w.tmux;
    const tmux = (...args: string[]): string => w.tmux.ok(...args);
    const pane = (of: string): Record<string, string> => ({ TMUX: `${socket},1,0`, TMUX_PANE: of });
    const own = tmux("list-panes", "-s", "-t", thread.tmuxSessionId!, "-F", "#{pane_id}").split(
      "\n",
    )[0]!;
    const other = tmux("new-session", "-d", "-s", "other", "-P", "-F", "#{pane_id}", "sleep 600");
    tmux("set-option", "-t", "=other:", "@kiki_thread", gone);
    expect(await named(pane(own), "/")).toBe("first");
    expect(await named(pane(own), w.repo.root)).toBe("first");
    expect(await named({ ...pane(own), KIKI_THREAD_ID: gone }, "/")).toContain("going by the tmux");
    expect(await named(pane(other), workspacePath)).toBe("first");
    expect(await named({ TMUX: `${w.dir}/no.sock,1,0` }, workspacePath)).toBe("first");
    expect(await named(pane(other), w.repo.root)).toContain(
      "no thread here: this tmux session names",
    );
    expect(await named({}, w.repo.root)).toBe(
      "exit 3 kk: no thread here: this is neither a thread's workspace nor its tmux session — name one: kk ls lists them",
    );
  });
});
