/** The Claude Code adapter: what it writes for a launch, what it refuses, how it reads hook payloads. */
import { capabilitiesOf, lacking } from "../../../src/core/proofs.ts";
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import { withoutHooks } from "../../../src/backends/harness/claude-code/mirror.ts";
import { merge } from "../../../src/backends/harness/claude-code/settings.ts";
import { KikiError } from "../../../src/core/errors.ts";
import { denyVerdict } from "../../../src/core/generic-deny.ts";
import type { LaunchRequest, LaunchSpec } from "../../../src/ports/harness.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

const SESSION = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const INCARNATION = "11111111-2222-4333-8444-555555555555";

let root: string;
let harness: ClaudeCodeHarness;
beforeEach(() => {
  root = tempDir("claude-code");
  harness = new ClaudeCodeHarness({ managedFolder: join(root, "managed") });
  mkdirSync(join(root, "ws"));
});

function put(path: string, content: unknown): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

function request(over: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    repoId: "repo-1",
    threadId: "thread-1",
    threadName: "tests",
    incarnation: INCARNATION,
    incarnationSecret: "ab".repeat(32),
    sessionId: SESSION,
    resume: false,
    workspaceRoot: join(root, "ws"),
    folder: join(root, "harness"),
    executable: "/opt/claude",
    prompt: "do it",
    extraArgs: [],
    env: { HOME: join(root, "home"), PATH: "/usr/bin:/bin" },
    briefing: "BRIEFING\n",
    hook: {
      executable: "/opt/kk-hook",
      socket: "/s/kkd.sock",
      credentialFile: "/s/credential",
      errorLog: "/s/errors.log",
      passedFolder: "/s/passed",
      spoolFolder: "/s/spool",
      barrierFile: "/s/barrier",
      kk: "/opt/kk",
      stateDir: "/s",
    },
    ...over,
  };
}

function settingsOf(spec: LaunchSpec): Record<string, unknown> {
  const file = spec.argv[spec.argv.indexOf("--settings") + 1] ?? "";
  return JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
}

function valueOf(spec: LaunchSpec, option: string): string | undefined {
  const at = spec.argv.indexOf(option);
  return at < 0 ? undefined : spec.argv[at + 1];
}

/** Code and message of the KikiError a promise rejects with. */
async function refusal(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KikiError) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("it was not refused");
}

describe("prepare, command line", () => {
  test("new session → isolated flags, prompt last, environment with the thread's identity", async () => {
    const spec = await harness.prepare(request());
    const folder = join(root, "harness");
    expect(spec.argv).toEqual([
      "/opt/claude",
      "--settings",
      join(folder, "settings.json"),
      "--setting-sources",
      "",
      "--add-dir",
      join(root, "ws"),
      "--append-system-prompt-file",
      join(folder, "briefing.md"),
      "--session-id",
      SESSION,
      "--",
      "do it",
    ]);
    expect(spec.cwd).toBe(join(root, "ws"));
    expect(spec.env).toEqual({
      HOME: join(root, "home"),
      PATH: "/usr/bin:/bin",
      CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: "1",
      KIKI_THREAD_ID: "thread-1",
      KIKI_REPO_ID: "repo-1",
      KIKI_STATE_DIR: "/s",
      KIKI_INCARNATION: INCARNATION,
      KIKI_INCARNATION_SECRET: "ab".repeat(32),
    });
    expect(spec.argv.join("\n")).not.toContain("ab".repeat(32));
  });

  test("resume without a prompt, own arguments → --resume, arguments after kiki's, nothing after them", async () => {
    const extraArgs = ["--model", "opus", "--allowedTools", "Read", "Bash(git *)"];
    const spec = await harness.prepare(request({ resume: true, prompt: null, extraArgs }));
    expect(spec.argv.slice(-7)).toEqual(["--resume", SESSION, ...extraArgs]);
    expect(spec.argv).not.toContain("--session-id");
  });

  test("prompt beginning with a dash, after an option that takes many values → still the prompt", async () => {
    const spec = await harness.prepare(
      request({ prompt: "-p is odd", extraArgs: ["--add-dir", "/x"] }),
    );
    expect(spec.argv.slice(-4)).toEqual(["--add-dir", "/x", "--", "-p is odd"]);
  });

  test("files → private, the launcher executable", async () => {
    const spec = await harness.prepare(request());
    const modes = spec.files.map((file) => [
      file.slice(root.length + 9),
      statSync(file).mode & 0o777,
    ]);
    expect(modes).toEqual([
      ["hook", 0o700],
      ["settings.json", 0o600],
      ["briefing.md", 0o600],
    ]);
    expect(statSync(join(root, "harness")).mode & 0o777).toBe(0o700);
  });

  test("no briefing, no instructions of the person → no system prompt argument", async () => {
    const spec = await harness.prepare(request({ briefing: null }));
    expect(spec.argv).not.toContain("--append-system-prompt-file");
  });
});

describe("prepare, settings", () => {
  test("hooks → kiki's for every event, calls fail closed", async () => {
    const spec = await harness.prepare(request());
    const command = join(root, "harness", "hook");
    const entry = (event: string, more = {}) => ({
      type: "command",
      command,
      args: [event],
      timeout: 600,
      ...more,
    });
    const block = { onFailure: "block" };
    expect(settingsOf(spec)).toEqual({
      hooks: {
        PreToolUse: [{ matcher: "*", hooks: [entry("PreToolUse", block)] }],
        PostToolUse: [{ matcher: "*", hooks: [entry("PostToolUse")] }],
        PostToolUseFailure: [{ matcher: "*", hooks: [entry("PostToolUseFailure")] }],
        SessionStart: [{ hooks: [entry("SessionStart")] }],
        UserPromptSubmit: [{ hooks: [entry("UserPromptSubmit")] }],
        PostToolBatch: [{ hooks: [entry("PostToolBatch")] }],
        PreSkillShellCommand: [{ hooks: [entry("PreSkillShellCommand", block)] }],
        Stop: [{ hooks: [entry("Stop")] }],
        SubagentStop: [{ hooks: [entry("SubagentStop")] }],
        Notification: [{ hooks: [entry("Notification")] }],
        SessionEnd: [{ hooks: [entry("SessionEnd")] }],
      },
    });
  });

  test("user, project, local → merged in that order, lists joined, hooks and plugins dropped", async () => {
    const foreign = {
      PreToolUse: [{ matcher: "*", hooks: [{ type: "command", command: "evil" }] }],
    };
    put("home/.claude/settings.json", {
      $schema: "x",
      model: "sonnet",
      hooks: foreign,
      disableAllHooks: true,
      enabledPlugins: { "p@m": true },
      permissions: { allow: ["Read", "Bash(ls:*)"], defaultMode: "plan" },
      env: { A: "user", B: "user", BUN_OPTIONS: "x", NODE_OPTIONS: "x", CLAUDE_CODE_SIMPLE: "1" },
      skipDangerousModePermissionPrompt: true,
    });
    put("ws/.claude/settings.json", {
      model: "opus",
      hooks: foreign,
      extraKnownMarketplaces: {},
      allowManagedHooksOnly: true,
      permissions: { allow: ["Bash(ls:*)", "Edit"], deny: ["WebFetch"] },
      env: { B: "project", KIKI_INCARNATION_SECRET: "x" },
      statusLine: { type: "command", command: "project" },
    });
    put("ws/.claude/settings.local.json", {
      hooks: foreign,
      permissions: { allow: ["Write"], defaultMode: "acceptEdits" },
      statusLine: { type: "command", command: "local" },
    });
    const { hooks, ...rest } = settingsOf(await harness.prepare(request()));
    expect(JSON.stringify(hooks)).not.toContain("evil");
    expect(rest).toEqual({
      model: "opus",
      permissions: {
        allow: ["Read", "Bash(ls:*)", "Edit", "Write"],
        deny: ["WebFetch"],
        defaultMode: "acceptEdits",
      },
      env: { A: "user", B: "project" },
      statusLine: { type: "command", command: "local" },
      skipDangerousModePermissionPrompt: true,
    });
  });

  test("a repository that consents for the person → not taken over", async () => {
    put("ws/.claude/settings.json", {
      skipDangerousModePermissionPrompt: true,
      permissions: { defaultMode: "bypassPermissions" },
    });
    const { hooks: _, ...rest } = settingsOf(await harness.prepare(request()));
    expect(rest).toEqual({ permissions: {} });
  });

  test("CLAUDE_CONFIG_DIR → its settings are the user's", async () => {
    put("elsewhere/settings.json", { model: "haiku" });
    put("home/.claude/settings.json", { model: "wrong" });
    const env = { HOME: join(root, "home"), CLAUDE_CONFIG_DIR: join(root, "elsewhere") };
    const spec = await harness.prepare(request({ env }));
    expect(settingsOf(spec)["model"]).toBe("haiku");
    expect(spec.env["CLAUDE_CONFIG_DIR"]).toBe(join(root, "elsewhere"));
  });

  test("settings that cannot be read → refused, the file named", async () => {
    for (const [path, text] of [
      ["home/.claude/settings.json", "{ not json"],
      ["ws/.claude/settings.json", "[1]"],
      ["ws/.claude/settings.local.json", '"text"'],
    ] as const) {
      const file = put(path, text);
      const error = await refusal(harness.prepare(request()));
      expect([path, error.code, error.message.includes(file)]).toEqual([
        path,
        "bad-settings",
        true,
      ]);
      expect(error.message).not.toContain("\n");
      put(path, "{}");
    }
    await harness.prepare(request());
  });

  test("people's own files → byte-identical after a launch", async () => {
    const files = [
      put("home/.claude/settings.json", '{ "model":  "x" }\n'),
      put("ws/.claude/settings.json", '{"hooks":{} }'),
      put("ws/.claude/settings.local.json", "{ }"),
    ];
    const before = files.map((file) => readFileSync(file, "utf8"));
    await harness.prepare(request());
    expect(files.map((file) => readFileSync(file, "utf8"))).toEqual(before);
  });

  test("merge: neither side is changed, null and scalars replace", () => {
    const under = { a: { x: [1], y: 1 }, b: [1], c: "c" };
    const over = { a: { x: [2, 1], z: null }, b: "b", c: [1] };
    expect(merge(under, over)).toEqual({ a: { x: [1, 2], y: 1, z: null }, b: "b", c: [1] });
    expect(under).toEqual({ a: { x: [1], y: 1 }, b: [1], c: "c" });
  });
});

describe("prepare, instructions", () => {
  test("user CLAUDE.md with imports, CLAUDE.local.md → appended after the briefing", async () => {
    put(
      "home/.claude/CLAUDE.md",
      "USER\n@more.md and @~/notes.md\n`@code.md`\n```\n@fence.md\n```\nmail a@b.c\n",
    );
    put("home/.claude/more.md", "MORE\n@CLAUDE.md\n");
    put("home/.claude/code.md", "CODE\n");
    put("home/.claude/fence.md", "FENCE\n");
    put("home/notes.md", "NOTES\n");
    put("ws/CLAUDE.local.md", "LOCAL\n@missing.md\n");
    const spec = await harness.prepare(request());
    const text = readFileSync(join(root, "harness", "briefing.md"), "utf8");
    const order = ["BRIEFING", "USER", "MORE", "NOTES", "LOCAL"].map((mark) => text.indexOf(mark));
    expect(order.toSorted((a, b) => a - b)).toEqual(order);
    expect(order[0]).toBe(0);
    expect(text).not.toMatch(/CODE|FENCE/);
    expect(spec.files).toContain(join(root, "harness", "briefing.md"));
  });
});

describe("prepare, MCP servers", () => {
  const servers = { mcpServers: { a: { command: "a" }, b: { command: "b" } } };

  test("no .mcp.json → no argument; with one → that file", async () => {
    expect(valueOf(await harness.prepare(request()), "--mcp-config")).toBeUndefined();
    const file = put("ws/.mcp.json", servers);
    expect(valueOf(await harness.prepare(request()), "--mcp-config")).toBe(file);
  });

  test("the person approved or rejected some → only the approved ones are named", async () => {
    put("ws/.mcp.json", servers);
    put("ws/.claude/settings.local.json", { enabledMcpjsonServers: ["b"] });
    const spec = await harness.prepare(request());
    const generated = join(root, "harness", "mcp.json");
    expect(valueOf(spec, "--mcp-config")).toBe(generated);
    expect(JSON.parse(readFileSync(generated, "utf8"))).toEqual({
      mcpServers: { b: { command: "b" } },
    });
    expect(spec.files).toContain(generated);
    put("ws/.claude/settings.local.json", { disabledMcpjsonServers: ["a", "b"] });
    expect(valueOf(await harness.prepare(request()), "--mcp-config")).toBeUndefined();
  });
});

describe("prepare, skills, agents and commands", () => {
  test("of project and person → mirrored without hooks, other files linked, originals untouched", async () => {
    const hooked =
      '---\nname: s\n"hooks":\n  PreToolUse: [{hooks: [{type: command, command: evil}]}]\ndescription: "d: e"\n---\nBODY\n';
    const skill = put("ws/.claude/skills/s/SKILL.md", hooked);
    put("ws/.claude/skills/s/run.sh", "#!/bin/sh\n");
    put("ws/.claude/agents/a.md", hooked);
    put("home/.claude/commands/c.md", "no frontmatter");
    const spec = await harness.prepare(request());
    const plugins = join(root, "harness", "plugins");
    const given = spec.argv.filter((_, i) => spec.argv[i - 1] === "--plugin-dir");
    expect(given).toEqual([join(plugins, "project"), join(plugins, "user")]);
    const mirrored = readFileSync(join(plugins, "project/skills/s/SKILL.md"), "utf8");
    expect(mirrored).toBe('---\n"name": "s"\n"description": "d: e"\n---\nBODY\n');
    expect(readFileSync(join(plugins, "project/agents/a.md"), "utf8")).not.toContain("evil");
    expect(lstatSync(join(plugins, "project/skills/s/run.sh")).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(plugins, "user/commands/c.md"), "utf8")).toBe("no frontmatter");
    expect(readFileSync(skill, "utf8")).toBe(hooked);
    expect(existsSync(join(plugins, "project/hooks"))).toBe(false);
  });

  test("a skill that is gone → gone from the mirror at the next launch", async () => {
    put("ws/.claude/skills/old/SKILL.md", "x");
    await harness.prepare(request());
    await Bun.file(join(root, "ws/.claude/skills/old/SKILL.md")).delete();
    put("ws/.claude/skills/new/SKILL.md", "x");
    await harness.prepare(request());
    const skills = join(root, "harness/plugins/project/skills");
    expect([existsSync(join(skills, "old")), existsSync(join(skills, "new"))]).toEqual([
      false,
      true,
    ]);
  });

  test("withoutHooks: however it is spelled → no hooks", () => {
    const spellings = [
      "---\nhooks: {PreToolUse: x}\nname: n\n---\nB",
      "---\n{name: n, hooks: {PreToolUse: x}}\n---\nB",
      '---\nname: n\n"\\x68ooks":\n  PreToolUse: x\n---\nB',
      "---\nname: n\n? hooks\n: PreToolUse\n---\nB",
      "---\r\nname: n\r\nhooks:\r\n  PreToolUse: x\r\n---\r\nB",
      "\ufeff---\nname: n\nHooks:\n  PreToolUse: x\n---\nB",
      "---\nname: n\ndescription: a: b: c\nhooks:\n  PreToolUse: x\n---\nB",
    ];
    for (const markdown of spellings) {
      const result = withoutHooks(markdown);
      expect([markdown, /hooks|PreToolUse|x68/i.test(result)]).toEqual([markdown, false]);
      expect(result).toStartWith("---\n");
      expect(result).toContain('"name": "n"');
      expect(result).toEndWith("---\nB");
    }
    expect(withoutHooks("text\n---\nhooks: x\n---\n")).toBe("text\n---\nhooks: x\n---\n");
  });
});

describe("exclusive hooks", () => {
  const hooks = { PreToolUse: [{ hooks: [{ type: "command", command: "x" }] }] };

  test("managed policy that adds or removes pre-tool hooks → refused, the file named", async () => {
    const cases: [string, unknown][] = [
      ["managed/managed-settings.json", { hooks }],
      ["managed/managed-settings.d/10-x.json", { hooks }],
      ["managed/managed-settings.json", { disableAllHooks: true }],
      ["managed/managed-settings.json", { allowManagedHooksOnly: true }],
      ["managed/managed-settings.json", { strictPluginOnlyCustomization: ["hooks"] }],
      ["managed/managed-settings.json", { enabledPlugins: { "p@m": true } }],
      ["managed/managed-settings.json", { policyHelper: { path: "/x" } }],
      ["managed/managed-settings.json", "{ broken"],
      ["home/.claude/remote-settings.json", { settings: { hooks } }],
    ];
    for (const [path, content] of cases) {
      const file = put(path, content);
      const error = await refusal(harness.prepare(request()));
      expect([content, error.code]).toEqual([content, "hooks-not-exclusive"]);
      expect(error.message).toContain(file);
      await Bun.file(file).delete();
    }
    expect(existsSync(join(root, "harness"))).toBe(false);
  });

  test("managed policy about other things → no objection", async () => {
    put("managed/managed-settings.json", {
      permissions: { deny: ["WebFetch"] },
      hooks: { PreToolUse: [], Stop: [{ hooks: [] }] },
      enabledPlugins: { "p@m": false },
    });
    put("managed/managed-settings.d/.hidden.json", { hooks });
    await harness.prepare(request());
  });

  test("arguments that touch settings, hooks, plugins, session or mode → refused by name", () => {
    const refused = [
      ["--settings", "x"],
      ["--settings=x"],
      ["--setting-sources", "user"],
      ["--session-id=1"],
      ["--resume"],
      ["-r", "x"],
      ["--continue"],
      ["-c"],
      ["--fork-session"],
      ["--plugin-dir", "/x"],
      ["--plugin-url=x"],
      ["--agents", "{}"],
      ["--bare"],
      ["--safe-mode"],
      ["--restricted"],
      ["--managed-settings", "{}"],
      ["--project-config-root", "/x"],
      ["--model", "opus", "--print"],
      ["-p"],
      ["-dp", "-pc"],
      ["--worktree"],
      ["--append-system-prompt", "x"],
      ["--init-only"],
      ["--"],
      ["prompt"],
      ["mcp", "list"],
    ];
    for (const extraArgs of refused) {
      let error: unknown;
      try {
        harness.checkArguments(extraArgs);
      } catch (caught) {
        error = caught;
      }
      expect([extraArgs, (error as KikiError | undefined)?.code]).toEqual([
        extraArgs,
        "harness-arg",
      ]);
      const named = extraArgs.some((arg) =>
        (error as KikiError).message.includes(arg.split("=")[0] ?? ""),
      );
      expect([extraArgs, named]).toEqual([extraArgs, true]);
    }
    for (const extraArgs of [
      [],
      ["--model", "opus"],
      ["--dangerously-skip-permissions"],
      ["--add-dir", "/x", "/y"],
      ["--permission-mode=plan"],
      ["--allowedTools", "Bash(git *)"],
      ["--mcp-config", "{}"],
      ["-d", "hooks"],
      ["-n", "name"],
    ]) {
      harness.checkArguments(extraArgs);
    }
  });

  test("such an argument or variable → prepare refuses too, nothing written", async () => {
    const bad = await refusal(harness.prepare(request({ extraArgs: ["--bare"] })));
    expect(bad.code).toBe("harness-arg");
    for (const name of ["CLAUDE_CODE_SIMPLE", "BUN_OPTIONS", "NODE_OPTIONS", "KIKI_HOOK_SOCKET"]) {
      const error = await refusal(harness.prepare(request({ env: { HOME: root, [name]: "1" } })));
      expect([name, error.code, error.message.includes(name)]).toEqual([name, "harness-env", true]);
    }
    expect(existsSync(join(root, "harness"))).toBe(false);
  });

  test("fingerprint: same launch → same; settings, briefing, arguments, policy changed → another", async () => {
    const fingerprint = async (over: Partial<LaunchRequest> = {}) =>
      (await harness.prepare(request(over))).settingsFingerprint;
    const seen = [await fingerprint()];
    expect(seen[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(await fingerprint()).toBe(seen[0] ?? "");
    seen.push(await fingerprint({ briefing: "other" }));
    seen.push(await fingerprint({ extraArgs: ["--verbose"] }));
    seen.push(await fingerprint({ prompt: "other" }));
    seen.push(await fingerprint({ incarnation: INCARNATION.replace("1", "2") }));
    put("home/.claude/settings.json", { model: "x" });
    seen.push(await fingerprint());
    put("managed/managed-settings.json", { permissions: {} });
    seen.push(await fingerprint());
    const file = put("ws/.mcp.json", { mcpServers: { a: { command: "a" } } });
    seen.push(await fingerprint());
    writeFileSync(file, JSON.stringify({ mcpServers: { a: { command: "b" } } }));
    seen.push(await fingerprint());
    expect(new Set(seen).size).toBe(seen.length);
  });
});

describe("version and capabilities", () => {
  const executable = (body: string): string => {
    const file = put("claude", `#!/bin/sh\n${body}\n`);
    chmodSync(file, 0o700);
    return file;
  };

  test("claude --version → the number; anything else → harness-version", async () => {
    expect(
      await harness.version(executable('[ "$1" = --version ] && echo "2.1.332 (Claude Code)"'), {}),
    ).toBe("2.1.332");
    for (const body of [
      "echo nonsense",
      "exit 1",
      "echo 2.1.332; exit 3",
      "echo broken >&2; exit 1",
    ]) {
      const error = await refusal(harness.version(executable(body), {}));
      expect([body, error.code]).toEqual([body, "harness-version"]);
    }
    expect((await refusal(harness.version(join(root, "missing"), {}))).code).toBe(
      "harness-version",
    );
  });

  test("claude is a script, its interpreter on the person's PATH alone → the number", async () => {
    const bin = join(root, "their-bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "their-node"), "#!/bin/sh\necho 2.1.332\n", { mode: 0o755 });
    const script = join(root, "claude-script");
    writeFileSync(script, "#!/usr/bin/env their-node\n", { mode: 0o755 });
    const PATH = `${bin}:${process.env["PATH"] ?? ""}`;
    expect(await harness.version(script, { PATH })).toBe("2.1.332");
  });

  test("a version the gate ran → everything; any other → no proofs", () => {
    expect(lacking(capabilitiesOf(harness.gateProofs("2.1.332")!))).toEqual([]);
    for (const version of ["2.1.333", "2.1.33", "", "2.1.332-beta"]) {
      expect(harness.gateProofs(version)).toBeNull();
    }
  });
});

describe("hook payloads", () => {
  const common = { session_id: "s", transcript_path: "/t", cwd: "/p", prompt_id: "p", extra: [1] };

  test("each event → its meaning", () => {
    const event = (name: string, more: object = {}) =>
      harness.interpretEvent({ ...common, hook_event_name: name, ...more });
    const main = { sessionId: "s", agentId: null, promptId: "p" };
    expect(event("SessionStart", { source: "resume" })).toEqual({
      type: "SessionStarted",
      sessionId: "s",
      source: "resume",
      transcriptPath: "/t",
    });
    expect(event("UserPromptSubmit", { prompt: "é" })).toEqual({
      type: "UserPrompt",
      sessionId: "s",
      promptId: "p",
      prompt: "é",
    });
    const call = { tool_name: "Bash", tool_use_id: "t1" };
    expect(event("PreToolUse", call)).toEqual({
      type: "PreTool",
      ...main,
      toolName: "Bash",
      toolUseId: "t1",
      recordPath: "/t",
    });
    expect(event("PreToolUse", { ...call, agent_id: "a" })).toMatchObject({ agentId: "a" });
    expect(event("PostToolUse", call)).toMatchObject({
      type: "PostTool",
      failed: false,
      toolUseId: "t1",
    });
    expect(event("PostToolUseFailure", call)).toMatchObject({ type: "PostTool", failed: true });
    const response = "PreToolUse:Bash hook error: no\n ";
    const batch = {
      tool_calls: [
        { ...call, tool_input: {}, tool_response: response },
        { tool_use_id: "t2", tool_response: { a: 1 } },
      ],
    };
    expect(event("PostToolBatch", batch)).toEqual({
      type: "BatchClosed",
      ...main,
      calls: [
        { toolUseId: "t1", toolName: "Bash", response },
        { toolUseId: "t2", toolName: "", response: '{"a":1}' },
      ],
    });
    expect(event("Stop")).toEqual({ type: "TurnStopped", ...main });
    expect(event("SubagentStop", { agent_id: "a" })).toEqual({
      type: "TurnStopped",
      ...main,
      agentId: "a",
    });
    expect(event("SubagentStop")).toEqual({ type: "Other", name: "SubagentStop" });
    expect(event("Notification", { message: "m", notification_type: "idle_prompt" })).toEqual({
      type: "Attention",
      sessionId: "s",
      kind: "idle_prompt",
      message: "m",
    });
    expect(event("SessionEnd", { reason: "clear" })).toEqual({
      type: "SessionEnded",
      sessionId: "s",
      reason: "clear",
    });
    expect(event("MessageDisplay")).toEqual({ type: "Other", name: "MessageDisplay" });
    expect(harness.interpretEvent({})).toEqual({ type: "Other", name: "" });
  });

  test("a known event without what it is about → bad-hook-payload", () => {
    const bad: unknown[] = [
      null,
      "text",
      [],
      { hook_event_name: "PreToolUse", session_id: "s" },
      { hook_event_name: "PreToolUse", tool_use_id: "t" },
      { hook_event_name: "PostToolUse", session_id: "s", tool_use_id: 7 },
      { hook_event_name: "PostToolBatch", session_id: "s" },
      { hook_event_name: "PostToolBatch", session_id: "s", tool_calls: [{}] },
      { hook_event_name: "Stop" },
    ];
    for (const raw of bad) {
      let code = "";
      try {
        harness.interpretEvent(raw);
      } catch (error) {
        code = (error as KikiError).code;
      }
      expect([raw, code]).toEqual([raw, "bad-hook-payload"]);
    }
  });

  test("deny → the verdict, and what the model gets for it", () => {
    const reason = '[kiki] a\n  b "c" 🚀';
    expect(harness.denyOutput(reason)).toBe(denyVerdict(reason));
    expect(JSON.parse(harness.denyOutput(reason))).toEqual({
      hookSpecificOutput: {
        hookEventName: "PreToolUse",
        permissionDecision: "deny",
        permissionDecisionReason: reason,
      },
    });
    expect(harness.expectedResult(reason, { toolName: "Bash" })).toBe(
      `PreToolUse:Bash hook error: ${reason}`,
    );
  });
});

describe("start-up dialogs", () => {
  test("a dialog in the pane, wrapped and framed → named; an ordinary screen → none", () => {
    const trust =
      "╭────────────╮\n│ Quick      │\n│ safety check: Is this │\n╰────╯\n ❯ 1. No, exit";
    expect(harness.startupDialog(trust)).toContain("trust");
    expect(harness.startupDialog("Detected a custom API key in your\nenvironment")).toContain(
      "API key",
    );
    expect(harness.startupDialog("Select login method:")).toContain("log in");
    expect(harness.startupDialog("Choose the text style that looks best")).toContain("first-run");
    expect(
      harness.startupDialog(
        "WARNING: Claude Code running in Bypass Permissions mode\n 1. No, exit",
      ),
    ).not.toBeNull();
    expect(
      harness.startupDialog("> do it\n\n● Reading files…\n  bypass permissions on"),
    ).toBeNull();
    expect(harness.startupDialog("")).toBeNull();
  });
});
