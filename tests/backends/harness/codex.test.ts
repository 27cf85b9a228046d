/** The Codex adapter: arguments, generated home, login, proof before the launch. Codex's part is played by a stand-in. */
import { afterAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "smol-toml";
import { hookHash, type HookEvent } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { modelOf } from "../../../src/backends/harness/codex/arguments.ts";
import { catalogText, seenUpgrades } from "../../../src/backends/harness/codex/catalog.ts";
import { codexComposer, codexStartupDialog } from "../../../src/backends/harness/codex/dialogs.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import { hookCommand } from "../../../src/backends/harness/codex/settings.ts";
import type { KikiError } from "../../../src/core/errors.ts";
import type { LaunchRequest, LaunchSpec } from "../../../src/ports/harness.ts";
import { codexProgram } from "../../support/codex-program.ts";
import { failureOf } from "../../support/failure.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

// A launch is a handful of processes, and a test may make a dozen of them.
setDefaultTimeout(30_000);
afterAll(removeTempDirs);

const FIXTURES = join(import.meta.dir, "../../../fixtures/hooks/codex/0.171.0");
const SECRET = "ab".repeat(32);
const FOREIGN = { hooks: { PreToolUse: [{ hooks: [{ type: "command", command: "foreign" }] }] } };

let root = "";
let harness = new CodexHarness();
beforeEach(() => {
  root = realpathSync(tempDir("codex"));
  harness = new CodexHarness({ managedFolder: join(root, "managed") });
  for (const folder of ["ws", "home/.codex"]) mkdirSync(join(root, folder), { recursive: true });
  codexProgram(join(root, "codex"), "codex-cli 0.171.0");
});

function file(place: string, content: unknown): string {
  const path = join(root, place);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function request(over: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    repoId: "repo-1",
    threadId: "thread-1",
    threadName: "tests",
    incarnation: "incarnation-1",
    incarnationSecret: SECRET,
    sessionId: null,
    resume: false,
    workspaceRoot: join(root, "ws"),
    folder: join(root, "harness"),
    executable: join(root, "codex"),
    prompt: null,
    extraArgs: [],
    env: { HOME: join(root, "home"), PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    briefing: null,
    hook: {
      executable: "/opt/kk-hook",
      socket: "/s/kkd.sock",
      credentialFile: "/s/credential",
      errorLog: "/s/errors.log",
      passedFolder: "/s/passed",
      spoolFolder: "/s/spool",
      barrierFile: "/s/barrier",
      kk: "/opt/kk",
      stateDir: join(root, "state"),
    },
    ...over,
  };
}

const launch = (over: Partial<LaunchRequest> = {}): Promise<LaunchSpec> =>
  harness.prepare(request(over));
const refusal = async (over: Partial<LaunchRequest> = {}): Promise<string> => {
  const error = (await failureOf(launch(over))) as KikiError;
  return `${error.code}: ${error.message}`;
};
type Table = Record<string, unknown>;
const config = (): Table =>
  parse(readFileSync(join(root, "harness/codex-home/config.toml"), "utf8")) as Table;
const settingsOf = ({ argv }: LaunchSpec): string[] =>
  argv.flatMap((word, i) => (word === "-c" ? [argv[i + 1] ?? ""] : []));

describe("arguments", () => {
  const refused = (...args: string[]): string => {
    try {
      harness.checkArguments(args);
    } catch (error) {
      return `${(error as KikiError).code} ${(error as Error).message}`;
    }
    return "taken";
  };

  test("model, sandbox, approvals, folders and looks → taken", () => {
    for (const args of [
      ["-m", "gpt-6-sol"],
      ["--model=gpt-6-sol", "-s", "workspace-write", "-anever"],
      ["--add-dir", "/data", "--no-alt-screen", "--oss", "--local-provider", "ollama"],
      ["--dangerously-bypass-approvals-and-sandbox"],
      ["-c", 'model_providers.mine.base_url="http://127.0.0.1:1"', "-cmodel_provider=mine"],
      ['--config=mcp_servers.docs.command="docs"', "-c", "tui.theme=dark"],
      ["-c", "shell_environment_policy.inherit=core"],
    ]) {
      expect([args, refused(...args)]).toEqual([args, "taken"]);
    }
  });

  test("settings, hooks, trust, profile, session, place, server, what is unknown → harness-arg naming it", () => {
    for (const [args, name] of [
      [["--enable", "x"], "--enable"],
      [["--disable=hooks"], "--disable"],
      [["-p", "work"], "--profile"],
      [["--profile=work"], "--profile"],
      [["-C", "/tmp"], "--cd"],
      [["--worktree"], "--worktree"],
      [["--search"], "--search"],
      [["--remote", "ws://x"], "--remote"],
      [["--dangerously-bypass-hook-trust"], "--dangerously-bypass-hook-trust"],
      [["-i", "a.png"], "--image"],
      [["--brand-new"], "--brand-new"],
      [["-z"], "-z"],
      [["resume"], "resume"],
      [["--"], "--"],
      [["-m", "x", "fork"], "fork"],
      [["-m"], "its value is missing"],
      [["-c", "hooks.PreToolUse=[]"], "-c hooks.PreToolUse"],
      [["-c", "features.hooks=false"], "-c features.hooks"],
      [["-c", 'projects."/ws".trust_level="trusted"'], "no plain dotted name"],
      [["-c", "profile=x"], "-c profile"],
      [["-c", "model_catalog_json=/x"], "-c model_catalog_json"],
      [["-c", "web_search=live"], "-c web_search"],
      [["-c", "developer_instructions=x"], "AGENTS.md"],
      [["-c", "sqlite_home=/x"], "-c sqlite_home"],
      [["-c", "agents.enabled=true"], "-c agents.enabled"],
      [["-c", "mcp_servers.codex_tui.enabled=true"], "-c mcp_servers.codex_tui.enabled"],
      [["-c", "mcp_servers={}"], "one by one"],
      [["-c", "shell_environment_policy.set.KIKI_INCARNATION=x"], "KIKI_INCARNATION"],
      [["-c", '"hooks"={}'], "no plain dotted name"],
      [["--config=hooks={}"], "-c hooks"],
      [["-chooks={}"], "-c hooks"],
    ] as const) {
      const said = refused(...args);
      expect([args, said.startsWith("harness-arg ") && said.includes(name)]).toEqual([args, true]);
    }
  });

  test("model by option or by setting → the last one", () => {
    expect(modelOf([])).toBeNull();
    expect(modelOf(["-m", "a", "-c", 'model="b"'])).toBe("b");
    expect(modelOf(["-c", "model=a", "--model=b"])).toBe("b");
  });
});

describe("generated home", () => {
  test("fresh launch → home and workspace by real path, secret in the environment alone, no session chosen", async () => {
    symlinkSync(join(root, "harness"), join(root, "link"));
    mkdirSync(join(root, "harness"));
    const spec = await launch({ folder: join(root, "link"), prompt: "-do it" });
    const home = join(root, "harness/codex-home");
    expect(spec.env["CODEX_HOME"]).toBe(home);
    expect(spec.argv.slice(0, 2)).toEqual([join(root, "codex"), "--no-daemon"]);
    expect(spec.argv.slice(-2)).toEqual(["--", "-do it"]);
    expect(spec.argv).not.toContain("resume");
    expect(JSON.stringify(spec.argv)).not.toContain(SECRET);
    for (const path of spec.files) expect(readFileSync(path, "utf8")).not.toContain(SECRET);
    expect(spec.env["KIKI_INCARNATION_SECRET"]).toBe(SECRET);
    expect(config()["projects"]).toEqual({ [join(root, "ws")]: { trust_level: "trusted" } });
  });

  test("resume → the conversation by its id, then the prompt; without a known one → fresh", async () => {
    const id = "01a2313d-0fa6-7fd1-9267-07e7364297a9";
    const resumed = await launch({ sessionId: id, resume: true, prompt: "review" });
    expect(resumed.argv[1]).toBe("resume");
    expect(resumed.argv.slice(-3)).toEqual(["--", id, "review"]);
    const silent = await launch({ sessionId: id, resume: true });
    expect(silent.argv.slice(-2)).toEqual(["--", id]);
    const unknown = await launch({ sessionId: null, resume: true, prompt: "go" });
    expect(unknown.argv[1]).toBe("--no-daemon");
  });

  test("kiki's hooks, every one with the hash Codex computes; the pre-tool hook ends with 2 whatever goes wrong", async () => {
    await launch();
    const { hooks } = config() as { hooks: Table };
    const { state, ...events } = hooks as { state: Record<string, { trusted_hash: string }> };
    expect(Object.keys(state).length).toBe(Object.keys(events).length);
    for (const [event, groups] of Object.entries(events)) {
      const [{ hooks: handlers }] = groups as [{ hooks: [{ command: string; timeout: number }] }];
      const hash = hookHash(event as HookEvent, handlers[0]);
      expect(Object.values(state).some((s) => s.trusted_hash === hash)).toBe(true);
      const cut = event === "Interrupt" || event === "SessionEnd";
      // A Codex that is paused past this runs the tool its hook has refused.
      const asks = event === "PreToolUse" ? 365 * 86_400 : 600;
      expect(handlers[0].timeout).toBe(cut ? 3 : asks);
      expect(handlers[0].command.includes("exit 2")).toBe(event === "PreToolUse");
    }
    for (const shell of ["/bin/sh", "/bin/bash"]) {
      const run = Bun.spawnSync([shell, "-c", hookCommand("/no/such 'hook", "PreToolUse")]);
      expect([run.exitCode, run.stderr.toString()]).toEqual([
        2,
        expect.stringContaining("refused"),
      ]);
    }
  });

  test("what the proof stands on → on the command line, after the person's, whatever a project says", async () => {
    file(
      "ws/.codex/config.toml",
      '[features]\nhooks = false\nmulti_agent = true\nbrand_new = true\n"odd name" = true\n',
    );
    const spec = await launch({
      extraArgs: ["-c", "model_reasoning_effort=high"],
      briefing: 'Line "one"\n',
    });
    const settings = settingsOf(spec);
    expect(settings[0]).toBe("model_reasoning_effort=high");
    for (const wanted of [
      "features.hooks=true",
      "features.multi_agent=false",
      "features.brand_new=false",
      "features.plugins=false",
      'web_search="disabled"',
      "agents.enabled=false",
      "mcp_servers.codex_tui.enabled=false",
      'developer_instructions="Line \\"one\\"\\n"',
      `model_catalog_json=${JSON.stringify(join(root, "harness/codex-home/models.json"))}`,
      'shell_environment_policy.set.KIKI_INCARNATION="incarnation-1"',
    ]) {
      expect(settings).toContain(wanted);
    }
  });

  test("a project, or the person, lets commands have some variables only → kiki's own stays among them", async () => {
    const only = (spec: LaunchSpec) =>
      settingsOf(spec).findLast((s) => s.startsWith("shell_environment_policy.include_only"));
    expect(only(await launch())).toBeUndefined();
    const own = ["-c", 'shell_environment_policy.include_only=["PATH"]'];
    expect(only(await launch({ extraArgs: own }))).toContain('"PATH", "KIKI_INCARNATION"');
    const filtered = await launch({
      extraArgs: ["-c", "shell_environment_policy.filters.PATH=include"],
    });
    expect(settingsOf(filtered)).toContain(
      'shell_environment_policy.filters.KIKI_INCARNATION="include"',
    );
    file("ws/.codex/config.toml", '[shell_environment_policy]\ninclude_only = ["HOME"]\n');
    expect(only(await launch())).toContain('"HOME", "KIKI_INCARNATION"');
  });

  test("catalog → every model direct, alone, asking for one call at a time; a model Codex never heard of as well", async () => {
    const models = (): Table[] =>
      (
        JSON.parse(readFileSync(join(root, "harness/codex-home/models.json"), "utf8")) as {
          models: Table[];
        }
      ).models;
    await launch({ extraArgs: ["-m", "qwen-local"] });
    expect(models().map(({ slug }) => slug)).toEqual(["gpt-6.2-sol", "gpt-5.5", "qwen-local"]);
    for (const model of models()) {
      expect(model).toMatchObject({
        tool_mode: "direct",
        multi_agent_version: "disabled",
        use_responses_lite: true,
        experimental_supported_tools: [],
        supports_search_tool: false,
        upgrade: null,
      });
    }
    file("ws/.codex/config.toml", 'model = "theirs"\n');
    await launch();
    expect(models().map(({ slug }) => slug)).toContain("theirs");
    expect(catalogText([{ slug: "a" }], "a")).toContain('"slug":"a"');
    expect(seenUpgrades([{ slug: "a", upgrade: { model: "b" } }, { slug: "c" }])).toEqual({
      a: "b",
    });
  });

  test('boundary "restart" → no catalog, soft delivery withheld, everything else as before', async () => {
    const spec = await launch({ codex: { boundary: "restart", auth: "copy" } });
    expect(spec.proofs.find(({ outcome }) => outcome !== "proved")).toMatchObject({
      takes: ["parallel_batch_boundary"],
      outcome: "not-tried",
    });
    expect(spec.argv.join(" ")).not.toContain("model_catalog_json");
    expect(spec.argv.join(" ")).toContain('web_search="disabled"');
    expect(existsSync(join(root, "harness/codex-home/models.json"))).toBe(false);
  });

  test("another start → sessions and what else is in the home stay, generated files are new", async () => {
    await launch();
    const rollout = file("harness/codex-home/sessions/2026/12/01/rollout-1.jsonl", "{}\n");
    file("harness/codex-home/config.toml", "model = 'tampered'\n");
    const spec = await launch({ incarnation: "incarnation-2" });
    expect(existsSync(rollout)).toBe(true);
    expect(config()["model"]).toBeUndefined();
    expect(settingsOf(spec).join()).toContain("incarnation-2");
  });

  test("the person's ~/.codex → neither its settings nor its hooks nor its instructions reach the home", async () => {
    file("home/.codex/config.toml", "model = 'theirs'\n");
    file("home/.codex/hooks.json", FOREIGN);
    file("home/.codex/AGENTS.md", "be theirs\n");
    const spec = await launch();
    for (const path of spec.files) {
      const text = readFileSync(path, "utf8");
      expect([text.includes("theirs"), text.includes("foreign")]).toEqual([false, false]);
    }
  });
});

describe("login", () => {
  const auth = (): string => join(root, "harness/codex-home/auth.json");
  const key = (text: string): string => JSON.stringify({ OPENAI_API_KEY: text });

  test("copy: the person's as it is now, 0600; of an own CODEX_HOME, but never of another thread's", async () => {
    file("home/.codex/auth.json", key("one"));
    await launch();
    expect(readFileSync(auth(), "utf8")).toBe(key("one"));
    expect(statSync(auth()).mode & 0o777).toBe(0o600);
    const env = request().env;
    file("elsewhere/auth.json", key("two"));
    await launch({ env: { ...env, CODEX_HOME: join(root, "elsewhere") } });
    expect(readFileSync(auth(), "utf8")).toBe(key("two"));
    file("state/harness/t/codex-home/auth.json", key("a neighbour's"));
    await launch({ env: { ...env, CODEX_HOME: join(root, "state/harness/t/codex-home") } });
    expect(readFileSync(auth(), "utf8")).toBe(key("one"));
  });

  test("copy: nothing to copy → the thread's own login stays; renewed inside the thread since → stays", async () => {
    await launch();
    expect(existsSync(auth())).toBe(false);
    const login = (at: string): string => JSON.stringify({ tokens: {}, last_refresh: at });
    file("harness/codex-home/auth.json", login("2026-12-01T10:00:00Z"));
    await launch();
    expect(existsSync(auth())).toBe(true);
    file("home/.codex/auth.json", login("2026-11-01T10:00:00Z"));
    await launch();
    expect(readFileSync(auth(), "utf8")).toContain("2026-12-01");
    file("home/.codex/auth.json", login("2026-12-02T10:00:00Z"));
    await launch();
    expect(readFileSync(auth(), "utf8")).toContain("2026-12-02");
  });

  test("link: the person's own file, and back to a copy without touching it", async () => {
    expect(await refusal({ codex: { boundary: "soft", auth: "link" } })).toContain("codex-auth");
    const own = file("home/.codex/auth.json", key("one"));
    await launch({ codex: { boundary: "soft", auth: "link" } });
    expect(readlinkSync(auth())).toBe(own);
    await launch();
    expect(lstatSync(auth()).isSymbolicLink()).toBe(false);
    expect(lstatSync(own).isFile()).toBe(true);
  });

  test("env:NAME: the key in that variable; not there → codex-auth naming it", async () => {
    const codex = { boundary: "soft", auth: "env:MY_KEY" } as const;
    expect(await refusal({ codex })).toContain("MY_KEY");
    await launch({ codex, env: { ...request().env, MY_KEY: "sk-x" } });
    expect(JSON.parse(readFileSync(auth(), "utf8"))).toEqual({ OPENAI_API_KEY: "sk-x" });
    expect(statSync(auth()).mode & 0o777).toBe(0o600);
  });
});

describe("proof before the launch", () => {
  test("hooks of the project → switched off in the generated home with their present hash", async () => {
    const path = file("ws/.codex/hooks.json", FOREIGN);
    const before = readFileSync(path, "utf8");
    await launch();
    const { hooks } = config() as { hooks: { state: Record<string, Table> } };
    expect(hooks.state[`${path}:pre_tool_use:0:0`]).toEqual({
      enabled: false,
      trusted_hash: hookHash("PreToolUse", { command: "foreign" }),
    });
    expect(readFileSync(path, "utf8")).toBe(before);
  });

  test("managed hooks, only managed ones, hooks switched off, nothing one can read → refused, naming the file", async () => {
    for (const [name, text] of [
      ["requirements.toml", "allow_managed_hooks_only = true\n"],
      ["requirements.toml", "[features]\nhooks = false\n"],
      ["requirements.toml", "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype='command'\ncommand='x'\n"],
      ["managed_config.toml", "[features]\nhooks = false\n"],
      ["managed_config.toml", "not = = toml"],
      [
        "config.toml",
        "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype='command'\ncommand='x'\n",
      ],
      ["hooks.json", JSON.stringify(FOREIGN)],
      ["hooks.json", "{ not json"],
    ] as const) {
      const path = file(`managed/${name}`, text);
      expect(await refusal()).toStartWith(`hooks-not-exclusive: `);
      expect(await refusal()).toContain(path);
      writeFileSync(path, "");
    }
    file("managed/config.toml", "[features]\nhooks = false\nmodel = 'x'\n");
    await launch(); // there the command line has the last word
  });

  test("Codex lists a hook more, one less, an altered one, another home or setting → refused by name", async () => {
    const program = join(root, "codex");
    const alter = (filter: string): void => {
      const real = codexProgram(join(root, "codex-real"), "codex-cli 0.171.0");
      writeFileSync(program, `#!/bin/sh\n'${real}' "$@" | sed -u '${filter}'\n`);
      chmodSync(program, 0o755);
    };
    const listing = `"hooks":[`;
    const managed = JSON.stringify({
      key: "mdm:pre_tool_use:0:0",
      eventName: "preToolUse",
      command: "audit",
      sourcePath: "/etc/somewhere/else.toml",
      source: "managed",
      enabled: true,
      isManaged: true,
      currentHash: "sha256:0",
      trustStatus: "managed",
    });
    for (const [filter, code, says] of [
      [
        `s#${listing.replace("[", "\\[")}#${listing}${managed},#`,
        "hooks-not-exclusive",
        "/etc/somewhere/else.toml",
      ],
      ['s#"trustStatus":"trusted"#"trustStatus":"modified"#', "hooks-not-exclusive", "config.toml"],
      [
        's#"enabled":true,"isManaged"#"enabled":false,"isManaged"#',
        "hooks-not-exclusive",
        "config.toml",
      ],
      [
        's#"hooks":\\[.*\\],"warnings"#"hooks":[],"warnings"#',
        "hooks-not-exclusive",
        "does not run kiki's",
      ],
      ['s#"codexHome":"[^"]*"#"codexHome":"/root/.codex"#', "codex-home", "/root/.codex"],
      ['s#"web_search":"disabled"#"web_search":"live"#', "codex-settings", "web_search"],
      [
        's#"agents":{"enabled":false}#"agents":{"enabled":true}#',
        "codex-settings",
        "agents.enabled",
      ],
      [
        's#"origins":#"x":1,"origins":#;s#"config":{#"config":{"code_mode":{"enabled":true},#',
        "codex-settings",
        "code_mode",
      ],
    ] as const) {
      alter(filter);
      const said = await refusal();
      expect([filter, said.startsWith(`${code}: `), said.includes(says)]).toEqual([
        filter,
        true,
        true,
      ]);
    }
  });

  test("Codex has no app server → codex-preflight", async () => {
    const real = codexProgram(join(root, "codex-real"), "codex-cli 0.171.0");
    file("codex", `#!/bin/sh\n[ "$1" = debug ] && exec '${real}' "$@"\necho usage >&2\n`);
    expect(await refusal()).toContain("codex-preflight: ");
    file("codex", `#!/bin/sh\necho nothing\n`);
    chmodSync(join(root, "codex"), 0o755);
  });

  test("fingerprint: same launch → same; another hook of the project, another managed file → another", async () => {
    const first = (await launch()).settingsFingerprint;
    expect((await launch()).settingsFingerprint).toBe(first);
    file("managed/config.toml", "model = 'x'\n");
    const second = (await launch()).settingsFingerprint;
    expect(second).not.toBe(first);
    file("ws/.codex/hooks.json", FOREIGN);
    expect((await launch()).settingsFingerprint).not.toBe(second);
  });

  test("login shell that runs nothing → refused, because no hook would run; one not listed → taken", async () => {
    const uid = process.getuid?.() ?? 0;
    const passwdFile = file(
      "passwd",
      `other:x:${uid}1:0::/:/bin/sh\nme:x:${uid}:0:,:/home/me:/usr/sbin/nologin\n`,
    );
    harness = new CodexHarness({ managedFolder: join(root, "managed"), passwdFile });
    expect(await refusal()).toContain("/usr/sbin/nologin, which runs nothing");
    for (const text of [`me:x:${uid}:0::/home/me:/usr/bin/fish\n`, "", "garbage\n"]) {
      writeFileSync(passwdFile, text);
      await launch();
    }
  });

  test("variables that move Codex's settings, or are kiki's → harness-env naming them", async () => {
    for (const name of [
      "CODEX_SQLITE_HOME",
      "CODEX_MANAGED_PACKAGE_ROOT",
      "BUN_OPTIONS",
      "KIKI_X",
    ]) {
      expect(await refusal({ env: { ...request().env, [name]: "x" } })).toContain(`harness-env`);
    }
  });
});

describe("program", () => {
  test("npm's script → the native program of its platform package; anything else → itself", () => {
    const script = file("lib/node_modules/@openai/codex/bin/codex.js", "// script\n");
    file("lib/node_modules/@openai/codex/package.json", { name: "@openai/codex" });
    mkdirSync(join(root, "bin"));
    symlinkSync(script, join(root, "bin/codex"));
    expect(nativeProgram(join(root, "bin/codex"), "linux-x64")).toBe(join(root, "bin/codex"));
    file("lib/node_modules/@openai/codex-linux-x64/package.json", { name: "@openai/codex" });
    const native = file(
      "lib/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
      "",
    );
    expect(nativeProgram(join(root, "bin/codex"), "linux-x64")).toBe(native);
    expect(nativeProgram(join(root, "bin/codex"), "sunos-x64")).toBe(join(root, "bin/codex"));
    expect(nativeProgram(join(root, "codex"), "linux-x64")).toBe(join(root, "codex"));
  });

  test("version: its own first line → read; anything else → harness-version", async () => {
    expect(await harness.version(join(root, "codex"), {})).toBe("0.171.0");
    const other = codexProgram(join(root, "other"), "2.1.332 (Claude Code)");
    expect(((await failureOf(harness.version(other, {}))) as KikiError).code).toBe(
      "harness-version",
    );
    expect(((await failureOf(harness.version("/no/such", {}))) as KikiError).code).toBe(
      "harness-version",
    );
  });
});

describe("recorded from 0.171.0", () => {
  const screen = (name: string): string =>
    readFileSync(join(FIXTURES, `screen-${name}.txt`), "utf8");

  test("screens: dialogs → named; the composer → ready; a folder of menus and messages → neither", () => {
    for (const [name, words] of [
      ["folder-access", "trust"],
      ["login", "log in"],
    ] as const) {
      expect(codexStartupDialog(screen(name))).toContain(words);
      expect(codexComposer(screen(name))).toBe(false);
    }
    const review =
      "  Hooks need review\n  1 hook is new or changed.\n\n› 1. Review hooks\n  2. Trust all\n";
    expect(codexStartupDialog(review)).toContain("hooks");
    expect(codexStartupDialog("  Meet GPT-6 Sol\n\n› 1. Try new model\n")).toContain("model");
    for (const name of ["idle", "working"]) {
      expect([name, codexStartupDialog(screen(name)), codexComposer(screen(name))]).toEqual([
        name,
        null,
        true,
      ]);
    }
    expect(codexComposer(screen("ended"))).toBe(false);
    // Drawn before Codex has found out whether it has to ask something.
    expect(codexComposer("› Ask Codex to do anything\n\n  ? for shortcuts\n")).toBe(false);
    expect(codexComposer("› 1. Try new model\n  2. Use existing model\n")).toBe(false);
    expect(codexComposer(`› said before\n\n${"answer\n".repeat(8)}`)).toBe(false);
    expect(codexComposer("")).toBe(false);
  });

  test("permission dialog, as it came from 0.171.0 → attention naming the tool", () => {
    const raw = {
      session_id: "01a23159-52b4-7223-b44d-64d126478249",
      turn_id: "01a23159-5422-7870-9584-36d453fc3995",
      transcript_path: "/home/me/codex-home/sessions/2026/12/01/rollout.jsonl",
      cwd: "/home/me/shop",
      hook_event_name: "PermissionRequest",
      model: "gpt-6.2-sol",
      permission_mode: "default",
      tool_name: "Bash",
      tool_input: { command: "touch asked", description: "because" },
    };
    expect(harness.interpretEvent(raw)).toEqual({
      type: "Attention",
      sessionId: raw.session_id,
      kind: "permission_prompt",
      message: "Codex asks whether it may use Bash",
    });
  });

  test("results of denied calls → exactly what the adapter expects, for a command and for a patch", () => {
    const outputs = JSON.parse(readFileSync(join(FIXTURES, "outputs.json"), "utf8")) as Record<
      string,
      string
    >;
    const reason = `  line 1\n"q" é🙂 `;
    const record = harness.record(join(FIXTURES, "rollout.jsonl"))!;
    for (const [id, toolName] of [
      ["c_deny", "Bash"],
      ["c_deny_patch", "apply_patch"],
    ] as const) {
      const command = record.commands.get(id);
      expect(record.outputs.get(id)).toBe(outputs[id]!);
      expect(harness.expectedResult(reason, { toolName, command })).toBe(outputs[id]!);
    }
    for (const [id, text] of Object.entries(outputs)) {
      expect([id, record.outputs.get(id)]).toEqual([id, text]);
      const refused = harness.refusalPrefixes().some((prefix) => text.startsWith(prefix));
      expect([id, refused]).toEqual([id, id.startsWith("c_deny")]);
    }
    expect(record.responses.get("c_deny")).toBe(record.responses.get("c_deny_patch")!);
    expect(record.responses.get("c_patch")).toBe(record.responses.get("c_echo")! + 1);
    expect(harness.denyOutput(reason)).toContain(JSON.stringify(reason.trim()).slice(1, -1));
  });
});
