/** Harness: the fake and both adapters, on the payloads recorded from the real programs. */
import { afterAll, expect } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ClaudeCodeHarness } from "../../src/backends/harness/claude-code/adapter.ts";
import { CodexHarness } from "../../src/backends/harness/codex/adapter.ts";
import type { KikiError } from "../../src/core/errors.ts";
import { capabilitiesOf, lacking } from "../../src/core/proofs.ts";
import type { Harness, HarnessEvent, LaunchRequest } from "../../src/ports/harness.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { codexProgram } from "../support/codex-program.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { CLAUDE, CODEX, recordedPayload, type Dialect, type Scope } from "./harness-dialects.ts";

afterAll(removeTempDirs);

interface Subject {
  harness: Harness;
  dialect: Dialect;
  root: string;
  /** Absolute path of the harness program of `request`. */
  executable: string;
  /** Settings as a person, a repository, a plugin or an administrator leaves them; returns the file's path. */
  settings(scope: Scope, text: string): string;
  /** Text of a generated file. */
  generated(path: string): string | null;
  /** A harness program that prints this for its version. */
  program(says: string): string;
}

/** A folder of the test's own with the harness's places in it. */
function onDisk(
  dialect: Dialect,
  make: (managedFolder: string) => Harness,
  program: (path: string, says: string) => string,
): Subject {
  const root = tempDir("contract-harness");
  for (const folder of ["ws", "home"]) mkdirSync(join(root, folder));
  return {
    harness: make(join(root, "managed")),
    dialect,
    root,
    executable: program(join(root, "program"), dialect.says),
    settings(scope, text) {
      const path = join(root, dialect.places[scope]);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      return path;
    },
    generated: (path) => (existsSync(path) ? readFileSync(path, "utf8") : null),
    program: (says) => program(join(root, "other"), says),
  };
}

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const files = new FakeFiles();
      files.makeFolders("/m/harness");
      const harness = new FakeHarness(files);
      return {
        harness,
        dialect: CLAUDE,
        root: "/m",
        executable: "/opt/claude",
        settings(scope, text) {
          const path = `/m/${CLAUDE.places[scope]}`;
          harness.sources.push({ scope, path, text });
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
    make: () =>
      onDisk(
        CLAUDE,
        (managedFolder) => new ClaudeCodeHarness({ managedFolder }),
        (path, says) => {
          writeFileSync(path, `#!/bin/sh\necho '${says}'\n`, { mode: 0o755 });
          return path;
        },
      ),
  },
  {
    name: "codex adapter",
    make: () => onDisk(CODEX, (managedFolder) => new CodexHarness({ managedFolder }), codexProgram),
  },
];

const SECRET = "ab".repeat(32);
const SESSION = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
function request(s: Subject, over: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    repoId: "repo-1",
    threadId: "thread-1",
    threadName: "tests",
    incarnation: "11111111-2222-4333-8444-555555555555",
    incarnationSecret: SECRET,
    sessionId: s.dialect.chosen ? SESSION : null,
    resume: false,
    workspaceRoot: join(s.root, "ws"),
    folder: join(s.root, "harness"),
    executable: s.executable,
    prompt: "-do it",
    extraArgs: [],
    env: { HOME: join(s.root, "home"), PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
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

contract("harness", implementations, [
  {
    name: "every recorded payload → the event it is",
    run({ harness, dialect }) {
      const names = readdirSync(dialect.recorded)
        .filter((file) => /^[A-Z].*\.json$/.test(file))
        .map((file) => file.replace(/\.json$/, ""));
      expect(names.toSorted()).toEqual(Object.keys(dialect.meanings).toSorted());
      for (const name of names) {
        const event = harness.interpretEvent(recordedPayload(dialect, name));
        expect(event).toMatchObject(dialect.meanings[name]!);
      }
    },
  },
  {
    name: "closing event → every member with exactly what the model gets, an agent's parts included",
    only: ["fake", "claude-code adapter"],
    run({ harness }) {
      const denied = harness.interpretEvent(
        recordedPayload(CLAUDE, "PostToolBatch.denied"),
      ) as Extract<HarnessEvent, { type: "BatchClosed" }>;
      const reason = `[kiki] Not now.\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end of message from kiki)`;
      expect(denied.calls).toEqual(
        [
          { toolUseId: "toolu_0009_0", toolName: "Bash" },
          { toolUseId: "toolu_0009_1", toolName: "Write" },
        ].map((call) => ({ ...call, response: harness.expectedResult(reason, call) })),
      );
      const agent = harness.interpretEvent(
        recordedPayload(CLAUDE, "PostToolBatch.background-agent"),
      );
      expect(agent).toMatchObject({ calls: [{ toolName: "Agent" }] });
      expect(JSON.stringify(agent)).toContain("Async agent launched successfully.");
    },
  },
  {
    name: "payload that does not say whom or what it is about → bad-hook-payload, never guessed",
    run({ harness, dialect }) {
      const without = dialect.needed.map(([name, field]) => ({
        ...recordedPayload(dialect, name),
        [field]: undefined,
      }));
      for (const raw of [null, "text", [], ...without])
        expect(codeOf(() => harness.interpretEvent(raw))).toBe("bad-hook-payload");
    },
  },
  {
    name: "closing event with a member that has no id → bad-hook-payload",
    only: ["fake", "claude-code adapter"],
    run({ harness }) {
      const batch = recordedPayload(CLAUDE, "PostToolBatch");
      const raw = { ...batch, tool_calls: [{ tool_name: "Bash" }] };
      expect(codeOf(() => harness.interpretEvent(raw))).toBe("bad-hook-payload");
    },
  },
  {
    name: "deny → one line of JSON that carries the reason byte for byte; the wrapper names the tool",
    run({ harness, dialect }) {
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
      for (const call of [{ toolName: "mcp__x__y" }, { toolName: "Bash", command: "echo 'é'\n" }]) {
        const result = harness.expectedResult(reason, call);
        expect(result).toBe(dialect.wrapped(reason, call));
        const begins = harness.refusalPrefixes(call).filter((prefix) => result.startsWith(prefix));
        expect(begins.length).toBe(1);
        expect(harness.refusalPrefixes(call).some((p) => "Exit code: 0".startsWith(p))).toBe(false);
      }
    },
  },
  {
    name: "version: run by the gate → everything; a neighbour that nobody ran → no proofs; no version → harness-version",
    async run(s) {
      const version = await s.harness.version(s.program(s.dialect.says), {});
      expect(version).toBe(s.dialect.proved);
      expect(lacking(capabilitiesOf(s.harness.gateProofs(version)!))).toEqual([]);
      const next = await s.harness.version(s.program(s.dialect.unproved), {});
      expect(s.harness.gateProofs(next)).toBeNull();
      const error = await errorOf(s.harness.version(s.program("hello"), {}));
      expect(error.code).toBe("harness-version");
    },
  },
  {
    name: "arguments that touch settings, hooks, plugins, session or place → harness-arg naming them",
    run({ harness, dialect }) {
      for (const argument of dialect.badArguments) {
        const code = codeOf(() => harness.checkArguments([argument]));
        expect([argument, code]).toEqual([argument, "harness-arg"]);
      }
      harness.checkArguments(dialect.goodArguments);
    },
  },
  {
    name: "hooks in user, project, local and plugin settings → kept out, the launch goes on",
    async run(s) {
      for (const scope of ["user", "project", "local", "plugin"] as const)
        s.settings(scope, s.dialect.hook(scope, "foreign-hook"));
      const spec = await s.harness.prepare(request(s));
      for (const file of spec.files) expect(s.generated(file)).not.toContain("foreign-hook");
      expect(spec.files.length).toBeGreaterThanOrEqual(2);
      expect(spec.files.every((f) => f.startsWith(join(s.root, "harness")))).toBe(true);
    },
  },
  {
    name: "a project that switches all hooks off → has no say",
    async run(s) {
      const { text, never } = s.dialect.hooksOff;
      s.settings("project", text);
      const spec = await s.harness.prepare(request(s));
      for (const file of spec.files) expect(s.generated(file)).not.toContain(never);
    },
  },
  {
    name: "managed pre-tool hook, hooks switched off, or a policy nobody can read → refused, naming the file",
    async run(s) {
      for (const policy of s.dialect.policies) {
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
      s.settings("managed", s.dialect.harmlessPolicy);
      const after = await s.harness.prepare(request(s));
      expect(after.settingsFingerprint).not.toBe(before.settingsFingerprint);
    },
  },
  {
    name: "settings that are no JSON → bad-settings naming the file",
    only: ["fake", "claude-code adapter"],
    async run(s) {
      const path = s.settings("user", "{ not json");
      const error = await errorOf(s.harness.prepare(request(s)));
      expect([error.code, error.message.includes(path)]).toEqual(["bad-settings", true]);
    },
  },
  {
    name: "launch → in the workspace, secret in the environment alone, prompt behind the options, session by its rule",
    async run(s) {
      const spec = await s.harness.prepare(request(s));
      expect(spec.cwd).toBe(join(s.root, "ws"));
      expect(spec.argv[0]).toBe(s.executable);
      expect(spec.argv.slice(-2)).toEqual(["--", "-do it"]);
      expect(spec.argv.join(" ").includes(SESSION)).toBe(s.dialect.chosen);
      expect(s.harness.naming).toBe(s.dialect.chosen ? "kiki" : "harness");
      expect(JSON.stringify(spec.argv)).not.toContain(SECRET);
      expect(spec.env["KIKI_INCARNATION_SECRET"]).toBe(SECRET);
      for (const file of spec.files) expect(s.generated(file)).not.toContain(SECRET);
      const again = { resume: true, sessionId: SESSION, prompt: null };
      const resumed = await s.harness.prepare(request(s, again));
      expect(resumed.argv.join(" ")).toContain(s.dialect.resumes(SESSION));
      expect(resumed.argv).not.toContain("-do it");
    },
  },
  {
    name: "variables that change hooks or the hook's own program → harness-env naming them",
    async run(s) {
      for (const name of s.dialect.badVariables) {
        const env = { HOME: join(s.root, "home"), [name]: "x" };
        const error = await errorOf(s.harness.prepare(request(s, { env })));
        expect([error.code, error.message.includes(name)]).toEqual(["harness-env", true]);
      }
    },
  },
  {
    name: "pane that waits for trust → a dialog; an ordinary screen → none",
    run({ harness, dialect }) {
      expect(harness.startupDialog(dialect.dialog)).not.toBeNull();
      expect(harness.startupDialog(dialect.ordinary)).toBeNull();
      // Asked only where a start without a prompt reports no session.
      expect(harness.composer(dialect.ordinary)).toBe(harness.naming === "harness");
      expect(harness.composer(dialect.dialog)).toBe(false);
    },
  },
  {
    name: "events the pinned version does not have, fields it always sends, reasons that would not arrive → thrown",
    only: ["fake"],
    run({ harness }) {
      expect(
        codeOf(() =>
          harness.interpretEvent({ ...recordedPayload(CLAUDE, "Stop"), hook_event_name: "X" }),
        ),
      ).toBe("bad-hook-payload");
      for (const [name, field] of [
        ["Stop", "prompt_id"],
        ["PreToolUse", "tool_name"],
        ["Stop", "cwd"],
      ] as const) {
        const raw = { ...recordedPayload(CLAUDE, name), [field]: undefined };
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
