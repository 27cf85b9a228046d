/** Harness: the fake and the Claude Code adapter, on the payloads recorded from the real program. */
import { afterAll, expect } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { ClaudeCodeHarness } from "../../src/backends/harness/claude-code/adapter.ts";
import type { KikiError } from "../../src/core/errors.ts";
import type { Harness, HarnessEvent, LaunchRequest } from "../../src/ports/harness.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeHarness, PROVEN_VERSION, type SettingsSource } from "../fakes/harness.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

interface Subject {
  harness: Harness;
  root: string;
  /** Settings as a person, a repository, a plugin or an administrator leaves them; returns the file's path. */
  settings(scope: SettingsSource["scope"], content: unknown): string;
  /** Text of a generated file. */
  generated(path: string): string | null;
  /** A harness program that prints this for its version. */
  program(says: string): string;
}

const PLACES: Record<SettingsSource["scope"], string> = {
  user: "home/.claude/settings.json",
  project: "ws/.claude/settings.json",
  local: "ws/.claude/settings.local.json",
  plugin: "home/.claude/plugins/p/hooks/hooks.json",
  managed: "managed/managed-settings.json",
};
const textOf = (content: unknown): string =>
  typeof content === "string" ? content : JSON.stringify(content);

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const files = new FakeFiles();
      files.makeFolders("/m/harness");
      const harness = new FakeHarness(files);
      return {
        harness,
        root: "/m",
        settings(scope, content) {
          const path = `/m/${PLACES[scope]}`;
          harness.sources.push({ scope, path, text: textOf(content) });
          return path;
        },
        generated: (path) => files.get(path),
        program(says) {
          harness.says = says;
          return "/opt/claude";
        },
      };
    },
  },
  {
    name: "claude-code adapter",
    make() {
      const root = tempDir("contract-harness");
      for (const folder of ["ws", "home"]) mkdirSync(join(root, folder));
      const write = (place: string, text: string): string => {
        const path = join(root, place);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
        return path;
      };
      return {
        harness: new ClaudeCodeHarness({ managedFolder: join(root, "managed") }),
        root,
        settings: (scope, content) => write(PLACES[scope], textOf(content)),
        generated: (path) => (existsSync(path) ? readFileSync(path, "utf8") : null),
        program(says) {
          const path = write("claude", `#!/bin/sh\necho '${says}'\n`);
          chmodSync(path, 0o755);
          return path;
        },
      };
    },
  },
];

const SECRET = "ab".repeat(32);
function request(s: Subject, over: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    repoId: "repo-1",
    threadId: "thread-1",
    threadName: "tests",
    incarnation: "11111111-2222-4333-8444-555555555555",
    incarnationSecret: SECRET,
    sessionId: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    resume: false,
    workspaceRoot: join(s.root, "ws"),
    folder: join(s.root, "harness"),
    executable: "/opt/claude",
    prompt: "-do it",
    extraArgs: [],
    env: { HOME: join(s.root, "home"), PATH: "/usr/bin:/bin" },
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
      stateDir: "/s",
    },
    ...over,
  };
}

async function errorOf(promise: Promise<unknown>): Promise<KikiError> {
  return (await failureOf(promise)) as KikiError;
}
function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return (error as KikiError).code;
  }
  return "nothing";
}

// Payloads recorded from 2.1.332 ---------------------------------------------------------------------------------

const RECORDED = join(import.meta.dir, "../../fixtures/hooks/claude-code/2.1.332");
const recorded = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(RECORDED, `${name}.json`), "utf8")) as Record<string, unknown>;

const sessionId = "00000000-0000-4000-8000-000000000001";
const promptId = "00000000-0000-4000-8000-000000000002";
const helper = "a0000000000000003";
const main = { sessionId, promptId, agentId: null };
/** What each recorded payload says; texts that are long are checked by their kind. */
const MEANINGS: Record<string, Record<string, unknown>> = {
  Notification: { type: "Attention", sessionId, kind: "permission_prompt" },
  "PostToolBatch.background-agent": { type: "BatchClosed", ...main },
  "PostToolBatch.denied": { type: "BatchClosed", ...main },
  "PostToolBatch.subagent": { type: "BatchClosed", ...main, agentId: helper },
  PostToolBatch: { type: "BatchClosed", ...main },
  "PostToolUse.background-agent": { type: "PostTool", ...main, toolName: "Agent", failed: false },
  PostToolUse: {
    type: "PostTool",
    ...main,
    toolUseId: "toolu_0003_1",
    toolName: "Bash",
    failed: false,
  },
  PostToolUseFailure: { type: "PostTool", ...main, toolUseId: "toolu_0003_3", failed: true },
  PreToolUse: { type: "PreTool", ...main, toolUseId: "toolu_0003_1", toolName: "Bash" },
  "PreToolUse.subagent": { type: "PreTool", ...main, agentId: helper, toolUseId: "toolu_0006_0" },
  SessionEnd: { type: "SessionEnded", sessionId, reason: "prompt_input_exit" },
  SessionStart: { type: "SessionStarted", sessionId, source: "startup" },
  "SessionStart.resume": { type: "SessionStarted", sessionId, source: "resume" },
  "SessionStart.compact": { type: "SessionStarted", sessionId, source: "compact" },
  "SessionStart.clear": {
    type: "SessionStarted",
    sessionId: "00000000-0000-4000-8000-000000000006",
    source: "clear",
  },
  "SessionEnd.clear": { type: "SessionEnded", sessionId, reason: "clear" },
  "Notification.idle": { type: "Attention", sessionId, kind: "idle_prompt" },
  Stop: { type: "TurnStopped", ...main },
  SubagentStop: { type: "TurnStopped", ...main, agentId: helper },
  UserPromptSubmit: { type: "UserPrompt", sessionId, promptId },
  "UserPromptSubmit.task-notification": { type: "UserPrompt", sessionId, promptId },
};

contract("harness", implementations, [
  {
    name: "every recorded payload → the event it is",
    run({ harness }) {
      const names = readdirSync(RECORDED).map((file) => file.replace(/\.json$/, ""));
      expect(names.toSorted()).toEqual(Object.keys(MEANINGS).toSorted());
      for (const name of names) {
        expect(harness.interpretEvent(recorded(name))).toMatchObject(MEANINGS[name]!);
      }
    },
  },
  {
    name: "closing event → every member with exactly what the model gets, an agent's parts included",
    run({ harness }) {
      const denied = harness.interpretEvent(recorded("PostToolBatch.denied")) as Extract<
        HarnessEvent,
        { type: "BatchClosed" }
      >;
      const reason = `[kiki] Not now.\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end of message from kiki)`;
      expect(denied.calls).toEqual(
        [
          { toolUseId: "toolu_0009_0", toolName: "Bash" },
          { toolUseId: "toolu_0009_1", toolName: "Write" },
        ].map((call) => ({ ...call, response: harness.expectedResult(reason, call) })),
      );
      const agent = harness.interpretEvent(recorded("PostToolBatch.background-agent"));
      expect(agent).toMatchObject({ calls: [{ toolName: "Agent" }] });
      expect(JSON.stringify(agent)).toContain("Async agent launched successfully.");
    },
  },
  {
    name: "payload that does not say whom or what it is about → bad-hook-payload, never guessed",
    run({ harness }) {
      const without = (name: string, field: string) => ({ ...recorded(name), [field]: undefined });
      const bad: unknown[] = [
        null,
        "text",
        [],
        without("PreToolUse", "session_id"),
        without("PreToolUse", "tool_use_id"),
        without("PostToolBatch", "tool_calls"),
        without("Stop", "session_id"),
        { ...recorded("PostToolBatch"), tool_calls: [{ tool_name: "Bash" }] },
      ];
      for (const raw of bad)
        expect(codeOf(() => harness.interpretEvent(raw))).toBe("bad-hook-payload");
    },
  },
  {
    name: "deny → one line of JSON that carries the reason byte for byte; the wrapper names the tool",
    run({ harness }) {
      const reason = `[kiki] "quoted"\n\\ back\u2028slash ünï ✓ 🙂`;
      const output = harness.denyOutput(reason);
      expect(output).not.toContain("\n");
      const verdict = JSON.parse(output) as { hookSpecificOutput: Record<string, unknown> };
      expect(verdict).toEqual({
        hookSpecificOutput: {
          hookEventName: "PreToolUse",
          permissionDecision: "deny",
          permissionDecisionReason: reason,
        },
      });
      expect(harness.expectedResult(reason, { toolName: "mcp__x__y" })).toBe(
        `PreToolUse:mcp__x__y hook error: ${reason}`,
      );
      expect(harness.expectedResult("", { toolName: "Bash" })).toBe("PreToolUse:Bash hook error: ");
    },
  },
  {
    name: "version: proved → everything; a neighbour that nobody ran → nothing; no version → harness-version",
    async run(s) {
      const version = await s.harness.version(s.program("2.1.332 (Claude Code)"), {});
      expect(version).toBe(PROVEN_VERSION);
      expect(new Set(Object.values(s.harness.capabilities(version)))).toEqual(new Set([true]));
      const next = await s.harness.version(s.program("2.1.333 (Claude Code)"), {});
      expect(new Set(Object.values(s.harness.capabilities(next)))).toEqual(new Set([false]));
      const error = await errorOf(s.harness.version(s.program("hello"), {}));
      expect(error.code).toBe("harness-version");
    },
  },
  {
    name: "arguments that touch settings, hooks, plugins, session or place → harness-arg naming them",
    run({ harness }) {
      const bad = [
        "--settings=x",
        "--setting-sources",
        "--plugin-dir",
        "--agents",
        "--resume",
        "--session-id=1",
        "--print",
        "-p",
        "-r",
        "--worktree",
        "--",
        "a prompt",
      ];
      for (const argument of bad) {
        expect(codeOf(() => harness.checkArguments([argument]))).toBe("harness-arg");
      }
      harness.checkArguments(["--model", "opus", "--verbose"]);
    },
  },
  {
    name: "hooks in user, project, local and plugin settings → kept out, the launch goes on",
    async run(s) {
      const hooks = { PreToolUse: [{ hooks: [{ type: "command", command: "foreign-hook" }] }] };
      for (const scope of ["user", "project", "local", "plugin"] as const)
        s.settings(scope, { hooks });
      const spec = await s.harness.prepare(request(s));
      for (const file of spec.files) expect(s.generated(file)).not.toContain("foreign-hook");
      expect(spec.files.length).toBeGreaterThanOrEqual(2);
      expect(spec.files.every((f) => f.startsWith(join(s.root, "harness")))).toBe(true);
    },
  },
  {
    name: "a project that switches all hooks off → has no say",
    async run(s) {
      s.settings("project", { disableAllHooks: true });
      const spec = await s.harness.prepare(request(s));
      for (const file of spec.files) expect(s.generated(file)).not.toContain("disableAllHooks");
    },
  },
  {
    name: "managed pre-tool hook, hooks switched off, or a policy nobody can read → refused, naming the file",
    async run(s) {
      const policies: unknown[] = [
        { hooks: { PreToolUse: [{ hooks: [{ type: "command", command: "audit" }] }] } },
        { disableAllHooks: true },
        { allowManagedHooksOnly: true },
        { enabledPlugins: { "p@m": true } },
        "{ not json",
      ];
      for (const policy of policies) {
        if (s.harness instanceof FakeHarness) s.harness.sources = [];
        const path = s.settings("managed", policy);
        const error = await errorOf(s.harness.prepare(request(s)));
        expect([error.code, error.message.includes(path)]).toEqual(["hooks-not-exclusive", true]);
      }
    },
  },
  {
    name: "managed settings without a say about hooks → launched; they are part of the fingerprint",
    async run(s) {
      const before = await s.harness.prepare(request(s));
      expect((await s.harness.prepare(request(s))).settingsFingerprint).toBe(
        before.settingsFingerprint,
      );
      s.settings("managed", { permissions: { deny: ["WebFetch"] } });
      const after = await s.harness.prepare(request(s));
      expect(after.settingsFingerprint).not.toBe(before.settingsFingerprint);
    },
  },
  {
    name: "settings that are no JSON → bad-settings naming the file",
    async run(s) {
      const path = s.settings("user", "{ not json");
      const error = await errorOf(s.harness.prepare(request(s)));
      expect([error.code, error.message.includes(path)]).toEqual(["bad-settings", true]);
    },
  },
  {
    name: "launch → in the workspace, secret in the environment alone, prompt behind the options, session chosen",
    async run(s) {
      const spec = await s.harness.prepare(request(s));
      expect(spec.cwd).toBe(join(s.root, "ws"));
      expect(spec.argv[0]).toBe("/opt/claude");
      expect(spec.argv.slice(-2)).toEqual(["--", "-do it"]);
      expect(spec.argv.join(" ")).toContain("--session-id 7c9e6679-7425-40de-944b-e07fc1f90ae7");
      expect(JSON.stringify(spec.argv)).not.toContain(SECRET);
      expect(spec.env["KIKI_INCARNATION_SECRET"]).toBe(SECRET);
      for (const file of spec.files) expect(s.generated(file)).not.toContain(SECRET);
      const resumed = await s.harness.prepare(request(s, { resume: true, prompt: null }));
      expect(resumed.argv.join(" ")).toContain("--resume 7c9e6679-7425-40de-944b-e07fc1f90ae7");
      expect(resumed.argv).not.toContain("--");
    },
  },
  {
    name: "variables that change hooks or the hook's own program → harness-env naming them",
    async run(s) {
      for (const name of ["BUN_OPTIONS", "NODE_OPTIONS", "KIKI_INCARNATION_SECRET"]) {
        const env = { HOME: join(s.root, "home"), [name]: "x" };
        const error = await errorOf(s.harness.prepare(request(s, { env })));
        expect([error.code, error.message.includes(name)]).toEqual(["harness-env", true]);
      }
    },
  },
  {
    name: "pane that waits for trust → a dialog; an ordinary screen → none",
    run({ harness }) {
      expect(harness.startupDialog("│ Do you trust this folder?\n│ 1. Yes\n")).not.toBeNull();
      expect(harness.startupDialog("> write the lexer\n● Done.\n")).toBeNull();
    },
  },
  {
    name: "events the pinned version does not have, fields it always sends, reasons that would not arrive → thrown",
    only: ["fake"],
    run({ harness }) {
      expect(
        codeOf(() => harness.interpretEvent({ ...recorded("Stop"), hook_event_name: "X" })),
      ).toBe("bad-hook-payload");
      for (const [name, field] of [
        ["Stop", "prompt_id"],
        ["PreToolUse", "tool_name"],
        ["Stop", "cwd"],
      ] as const) {
        const raw = { ...recorded(name), [field]: undefined };
        expect(codeOf(() => harness.interpretEvent(raw))).toBe("bad-hook-payload");
      }
      for (const reason of ["", " x", "x\n", "x".repeat(50_001)]) {
        expect(() => harness.denyOutput(reason)).toThrow("not a reason that arrives");
      }
    },
  },
  {
    name: "settings inside the workspace, a program by its name alone → thrown",
    only: ["fake"],
    async run(s) {
      const inside = request(s, { folder: "/m/ws/.kiki" });
      expect((await errorOf(s.harness.prepare(inside))).message).toContain("inside the workspace");
      const relative = request(s, { executable: "claude" });
      expect((await errorOf(s.harness.prepare(relative))).message).toContain("absolute");
    },
  },
]);
