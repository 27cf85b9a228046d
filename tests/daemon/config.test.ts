/** ConfigLoader in the daemon: files that change while it runs, whose environment counts, and what consumers get. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readVersioned } from "../../src/backends/versioned.ts";
import { DEFAULT_SETTINGS } from "../../src/cascade/deps.ts";
import { placeOf, problemLine } from "../../src/core/config/problem.ts";
import type { ConfigKey } from "../../src/core/config/keys.ts";
import { Config } from "../../src/daemon/config.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

let dir: string;
let log: string[];
let reads: number;

beforeEach(() => {
  dir = tempDir("config");
  mkdirSync(join(dir, "state/repos/r1"), { recursive: true });
  mkdirSync(join(dir, "shop"));
  log = [];
  reads = 0;
});

const repo = () => ({ repoId: "r1", repoRoot: join(dir, "shop") });
const user = (text: string) => writeFileSync(join(dir, "state/config.toml"), text);
const local = (text: string) => writeFileSync(join(dir, "state/repos/r1/config.toml"), text);
const shared = (text: string) => writeFileSync(join(dir, "shop/.kiki.toml"), text);

function daemon(env: Record<string, string> = {}): Config {
  const say = (message: string): void => void log.push(message.replaceAll(dir, "…"));
  return new Config({
    stateDir: join(dir, "state"),
    env,
    home: "/home/ana",
    log: () => ({ info: say, warn: say }),
    readVersioned(path, known, max) {
      const seen = readVersioned(path, known, max);
      if (seen.is === "read") reads += 1;
      return seen;
    },
  });
}

function told(config: Config, key: ConfigKey, callerEnv?: Record<string, string>): string {
  const setting = config.at({ repo: repo() }, callerEnv).setting(key)!;
  const { value, source, kept } = setting;
  const place = source.layer === "default" ? "" : ` ${placeOf(source).replace(dir, "…")}`;
  return `${JSON.stringify(value)} ${source.layer}${place}${kept ? " kept" : ""}`;
}

describe("reload", () => {
  test("files made, changed, removed while it runs → the next use has it", () => {
    const config = daemon();
    expect(told(config, "cascade.hold_s")).toBe("30 default");
    shared("cascade.hold_s = 1");
    expect(told(config, "cascade.hold_s")).toBe("1 repo-shared …/shop/.kiki.toml:1");
    user("cascade.hold_s = 2");
    expect(told(config, "cascade.hold_s")).toBe("2 user …/state/config.toml:1");
    local("cascade.hold_s = 3");
    expect(told(config, "cascade.hold_s")).toBe("3 repo-local …/state/repos/r1/config.toml:1");
    local("cascade.hold_s = 4");
    expect(told(config, "cascade.hold_s")).toBe("4 repo-local …/state/repos/r1/config.toml:1");
    rmSync(join(dir, "state/repos/r1/config.toml"));
    expect(told(config, "cascade.hold_s")).toBe("2 user …/state/config.toml:1");
    expect(log).toEqual([]);
  });

  test("nothing changed → nothing is read again", () => {
    user("cascade.hold_s = 2");
    // As a file is that has been there for a while.
    expect(
      Bun.spawnSync(["touch", "-d", "2001-09-09", join(dir, "state/config.toml")]).exitCode,
    ).toBe(0);
    const config = daemon();
    for (let n = 0; n < 10; n += 1) told(config, "cascade.hold_s");
    expect(reads).toBe(1);
  });

  test("broken, then mended → the last good value in between, each said once", () => {
    user("[cascade]\nhold_s = 60");
    const config = daemon();
    expect(told(config, "cascade.hold_s")).toBe("60 user …/state/config.toml:2");
    user("[cascade");
    for (let n = 0; n < 3; n += 1) {
      expect(told(config, "cascade.hold_s")).toBe("60 user …/state/config.toml:2 kept");
    }
    user("[cascade]\nhold_s = 0");
    expect(told(config, "cascade.hold_s")).toBe("60 user …/state/config.toml:2 kept");
    user("[cascade]\nhold_s = 61");
    expect(told(config, "cascade.hold_s")).toBe("61 user …/state/config.toml:2");
    expect(log).toEqual([
      "configuration: …/state/config.toml:1:2: this is not TOML: incomplete key-value: cannot find end of key",
      "configuration: …/state/config.toml:2:10: cascade.hold_s must be a whole number of seconds from 1 to 300, not 0",
      "configuration: …/state/config.toml is in order again",
    ]);
  });

  test("broken from the start → defaults, an error, and the other files count", () => {
    user("= 1");
    local("cascade.drain_s = 9");
    const config = daemon();
    expect(told(config, "cascade.hold_s")).toBe("30 default");
    expect(told(config, "cascade.drain_s")).toBe("9 repo-local …/state/repos/r1/config.toml:1");
    expect(config.at({ repo: null }).problems.map((p) => p.severity)).toEqual(["error"]);
  });

  test("a folder, or ten megabytes, in a file's place → an error, the last good value stays", () => {
    user("cascade.hold_s = 60");
    const config = daemon();
    expect(told(config, "cascade.hold_s")).toStartWith("60 user");
    user(`# ${"x".repeat(10_000_000)}`);
    expect(told(config, "cascade.hold_s")).toEndWith("kept");
    rmSync(join(dir, "state/config.toml"));
    mkdirSync(join(dir, "state/config.toml"));
    expect(told(config, "cascade.hold_s")).toEndWith("kept");
    expect(config.at({ repo: null }).problems.map((p) => problemLine(p).replace(dir, "…"))).toEqual(
      ["…/state/config.toml: it is a folder"],
    );
  });
});

describe("places", () => {
  test("no repository → the user's file alone; another repository → not this one's files", () => {
    user("cascade.hold_s = 2");
    local("cascade.hold_s = 3");
    shared("cascade.drain_s = 1");
    const config = daemon();
    expect(config.at({ repo: null }).value("cascade.hold_s")).toBe(2);
    expect(config.at({ repo: null }).value("cascade.drain_s")).toBe(5);
    const other = { repoId: "r2", repoRoot: join(dir, "other") };
    expect(config.at({ repo: other }).value("cascade.hold_s")).toBe(2);
    expect(
      config.files({ repo: repo() }).map((file) => [file.layer, config.isPresent(file)]),
    ).toEqual([
      ["repo-shared", true],
      ["user", true],
      ["repo-local", true],
    ]);
  });

  test("a thread's rows → above every file, below the environment", () => {
    local("close.disposable = ['file']");
    const at = (env: Record<string, string>) =>
      daemon(env).at({ repo: repo(), thread: { "close.disposable": ["thread"] } });
    expect(at({}).setting("close.disposable")).toMatchObject({
      value: ["thread"],
      source: { layer: "thread" },
    });
    expect(at({ KIKI_CLOSE__DISPOSABLE: "['env']" }).value("close.disposable")).toEqual(["env"]);
  });
});

describe("environment", () => {
  test("what the daemon reads → from its own; what a command reads → from the caller's", () => {
    const config = daemon({ KIKI_CASCADE__HOLD_S: "7", KIKI_UI__THEME: "soft-light" });
    expect(told(config, "cascade.hold_s", {})).toBe("7 env KIKI_CASCADE__HOLD_S");
    expect(told(config, "ui.theme", {})).toBe('"soft-dark" default');
    const caller = { KIKI_UI__THEME: "high-contrast" };
    expect(told(config, "ui.theme", caller)).toBe('"high-contrast" env KIKI_UI__THEME');
    // The daemon's own work has nobody else's.
    expect(told(config, "ui.theme")).toBe('"soft-light" env KIKI_UI__THEME');
  });

  test("a variable the daemon has not, or has otherwise → a warning; the same → none", () => {
    const config = daemon({ KIKI_CASCADE__HOLD_S: "7" });
    const said = (env: Record<string, string>): string[] =>
      config.at({ repo: null }, env).problems.map((problem) => problem.message);
    expect(said({ KIKI_CASCADE__HOLD_S: "7" })).toEqual([]);
    expect(said({ KIKI_CASCADE__HOLD_S: "8" })).toEqual([
      "KIKI_CASCADE__HOLD_S is set in this shell, but the daemon, which reads it, was started with another value; kk daemon restart takes it over",
    ]);
    expect(said({ KIKI_CASCADE__DRAIN_S: "8" })[0]).toContain("was started without it");
  });
});

describe("consumers", () => {
  test("creation: nothing configured → the defaults of the contract", () => {
    expect(daemon().creation(repo())).toEqual({
      setup: { copy: [], run: "", timeoutS: 600, source: "default" },
      workspacesRoot: null,
      briefing: true,
      agentEnv: {},
      claudeCode: { pretrust: false },
      shellPane: { wanted: true, position: "below", sizePercent: 25, minRows: 24 },
      codex: { boundary: "soft", auth: "copy" },
    });
  });

  test("creation: configured → as configured, ~ expanded", () => {
    user(
      "[paths]\nworkspaces_root = '~/ws/'\n[agent]\nbriefing = false\nenv.A = '1'\n" +
        "[agent.codex]\nboundary = 'restart'\nauth = 'env:OPENAI_KEY'\n" +
        "[ui]\nshell_pane_position = 'right'\nshell_pane_size_pct = 40\nshell_pane_min_rows = 10\nshell_pane = false\n",
    );
    expect(daemon().creation(repo())).toMatchObject({
      workspacesRoot: "/home/ana/ws",
      briefing: false,
      agentEnv: { A: "1" },
      shellPane: { wanted: false, position: "right", sizePercent: 40, minRows: 10 },
      codex: { boundary: "restart", auth: "env:OPENAI_KEY" },
    });
  });

  test("creation: a recipe any part of which is the repository's → said to be the repository's", () => {
    const source = (): string => daemon().creation(repo()).setup.source;
    user("setup.run = 'make'");
    expect(source()).toBe("user");
    shared("setup.copy = ['.env']");
    expect(source()).toBe("repo-shared");
    local("setup.copy = []");
    expect(source()).not.toBe("repo-shared");
  });

  test("cascade: hold and drain → read anew at each use, in milliseconds", () => {
    const settings = daemon().cascade(repo(), DEFAULT_SETTINGS);
    expect([settings.holdMs, settings.drainMs]).toEqual([30_000, 5_000]);
    user("cascade = { hold_s = 300, drain_s = 0 }");
    expect([settings.holdMs, settings.drainMs]).toEqual([300_000, 0]);
    expect(settings.debounceMs).toBe(DEFAULT_SETTINGS.debounceMs);
  });

  test("harness arguments → of that harness alone", () => {
    user("agent.harness_args = { claude-code = ['--model', 'opus'] }");
    expect(daemon().harnessArgs(repo(), "claude-code")).toEqual(["--model", "opus"]);
    expect(daemon().harnessArgs(repo(), "codex")).toEqual([]);
  });
});
