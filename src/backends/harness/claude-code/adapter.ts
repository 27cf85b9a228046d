/** Claude Code behind the harness port (observed on 2.1.332; facts are named where they are relied on). */
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { denyVerdict } from "../../../core/generic-deny.ts";
import type {
  Capabilities,
  Harness,
  HarnessEvent,
  LaunchRequest,
  LaunchSpec,
} from "../../../ports/harness.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";
import { ensureDir, readBytes, writeDurable } from "../../files.ts";
import { launcherText } from "../launcher.ts";
import { checkClaudeArguments } from "./arguments.ts";
import { claudeStartupDialog } from "./dialogs.ts";
import { interpretClaudeEvent } from "./events.ts";
import {
  checkPolicy,
  managedFolder,
  policyForbidsPlugins,
  readPolicy,
  type PolicyFile,
} from "./managed.ts";
import { projectServers } from "./mcp.ts";
import { personalInstructions } from "./memory.ts";
import { mirrorAsPlugin } from "./mirror.ts";
import { provenCapabilities } from "./proven.ts";
import { isForbiddenVariable, mergedSettings, scopeFiles, type Settings } from "./settings.ts";

/** `claude --version` of a cold 400 MB executable on a busy machine. */
const VERSION_TIMEOUT_MS = 20_000;
/** Harness-side limit of a hook, far above kiki's own (30 s at most): kiki's deadlines fire first. */
const HOOK_TIMEOUT_S = 600;

/** Events kiki is told about. Tool events take a matcher; the others must not have one. */
const TOOL_EVENTS = ["PreToolUse", "PostToolUse", "PostToolUseFailure"] as const;
const OTHER_EVENTS = [
  "SessionStart",
  "UserPromptSubmit",
  "PostToolBatch",
  "PreSkillShellCommand",
  "Stop",
  "SubagentStop",
  "Notification",
  "SessionEnd",
] as const;
/** A hook that fails must refuse, not allow; Claude Code fails open otherwise. */
const FAIL_CLOSED = new Set<string>(["PreToolUse", "PreSkillShellCommand"]);

export class ClaudeCodeHarness implements Harness {
  readonly name = "claude-code";
  readonly batching = "reported";
  readonly naming = "kiki";
  readonly #managedFolder: string;

  /** `managedFolder`: where managed policy is looked for, instead of the platform's place. */
  constructor(options: { managedFolder?: string } = {}) {
    this.#managedFolder = options.managedFolder ?? managedFolder();
  }

  async version(executable: string, env: Record<string, string>): Promise<string> {
    const result = await run({
      argv: [executable, "--version"],
      cwd: "/",
      env: baseEnv(env),
      timeoutMs: VERSION_TIMEOUT_MS,
    }).catch((error: unknown) => {
      throw badVersion(executable, errorLine(error));
    });
    if (result.timedOut) throw badVersion(executable, "it does not answer");
    const found = /^(\d+\.\d+\.\d+\S*)/.exec(firstLine(result.stdout.toString("utf8")));
    if (result.code !== 0 || found?.[1] === undefined) {
      throw badVersion(executable, firstLine(result.stderr) || "it prints no version");
    }
    return found[1];
  }

  capabilities(version: string): Capabilities {
    return provenCapabilities(version);
  }

  checkArguments(extraArgs: readonly string[]): void {
    checkClaudeArguments(extraArgs);
  }

  prepare(request: LaunchRequest): Promise<LaunchSpec> {
    // Synchronous within: files are small, and a launch either has all of them or fails.
    return Promise.resolve().then(() => prepareLaunch(request, this.#managedFolder));
  }

  interpretEvent(raw: unknown): HarnessEvent {
    return interpretClaudeEvent(raw);
  }

  /** Never the witness here: `PostToolBatch` carries what the model got, the record lags behind it. */
  record(): null {
    return null;
  }

  denyOutput(reason: string): string {
    return denyVerdict(reason);
  }

  /** Byte-exact for reasons below 50,000 UTF-16 units (2.1.332); a payload has at most 16 KiB. */
  expectedResult(reason: string, call: { toolName: string }): string {
    return `PreToolUse:${call.toolName} hook error: ${reason}`;
  }

  refusalPrefixes(call: { toolName: string }): string[] {
    return [this.expectedResult("", call)];
  }

  startupDialog(paneText: string): string | null {
    return claudeStartupDialog(paneText);
  }

  /** Never needed: a start without a prompt reports its session. */
  composer(): boolean {
    return false;
  }
}

function prepareLaunch(request: LaunchRequest, managed: string): LaunchSpec {
  checkClaudeArguments(request.extraArgs);
  checkEnvironment(request.env);
  const configDir = request.env["CLAUDE_CONFIG_DIR"] ?? join(request.env["HOME"] ?? "/", ".claude");
  const policy = readPolicy(managed, configDir);
  checkPolicy(policy);

  const { folder, workspaceRoot } = request;
  ensureDir(folder);
  const files: string[] = [];
  const generateAt = (path: string, text: string, mode: number): string => {
    writeDurable(path, text, mode);
    files.push(path);
    return path;
  };
  const generate = (name: string, text: string, mode = 0o600): string =>
    generateAt(join(folder, name), text, mode);

  const hook = generate("hook", launcherText(request), 0o700);
  const settings = mergedSettings(scopeFiles(configDir, workspaceRoot));
  const settingsFile = generate("settings.json", settingsText(settings, hook));
  const systemPrompt = appendedPrompt(request, configDir);
  const promptFile = systemPrompt === "" ? null : generate("briefing.md", systemPrompt);
  const plugins = policyForbidsPlugins(policy)
    ? []
    : mirroredPlugins(request, configDir, (path, text) => generateAt(path, text, 0o600));
  const servers = projectServers(workspaceRoot, settings);
  const serverFile =
    servers.generated === null ? servers.original : generate("mcp.json", servers.generated);

  const argv = [
    request.executable,
    "--settings",
    settingsFile,
    "--setting-sources",
    "",
    "--add-dir",
    workspaceRoot,
    ...(promptFile === null ? [] : ["--append-system-prompt-file", promptFile]),
    request.resume ? "--resume" : "--session-id",
    named(request.sessionId),
    ...plugins.flatMap((plugin) => ["--plugin-dir", plugin]),
    ...(serverFile === null ? [] : ["--mcp-config", serverFile]),
    ...request.extraArgs,
    // Ends options that take several values, and lets a prompt begin with a dash.
    ...(request.prompt === null ? [] : ["--", request.prompt]),
  ];
  return {
    argv,
    env: environment(request),
    cwd: workspaceRoot,
    settingsFingerprint: fingerprint(files, argv, policy, serverFile),
    files,
  };
}

/** kiki's hooks on top of the person's settings. */
function settingsText(settings: Settings, hook: string): string {
  const entry = (event: string) => ({
    type: "command",
    command: hook,
    // With `args` the command is started directly, without a shell, so its path needs no quoting.
    args: [event],
    timeout: HOOK_TIMEOUT_S,
    ...(FAIL_CLOSED.has(event) ? { onFailure: "block" } : {}),
  });
  const hooks: Record<string, unknown> = {};
  for (const event of TOOL_EVENTS) hooks[event] = [{ matcher: "*", hooks: [entry(event)] }];
  for (const event of OTHER_EVENTS) hooks[event] = [{ hooks: [entry(event)] }];
  return `${JSON.stringify({ ...settings, hooks }, null, 2)}\n`;
}

/** Briefing, then what `--setting-sources ""` keeps Claude Code from reading by itself. */
function appendedPrompt(request: LaunchRequest, configDir: string): string {
  const home = request.env["HOME"] ?? "/";
  const personal = personalInstructions(configDir, request.workspaceRoot, home);
  return [request.briefing ?? "", personal].filter((text) => text !== "").join("\n");
}

/** Folders for `--plugin-dir`: the project's skills, agents and commands, and the person's own. */
function mirroredPlugins(
  request: LaunchRequest,
  configDir: string,
  write: (path: string, text: string) => void,
): string[] {
  const sources = [
    { name: "project", from: join(request.workspaceRoot, ".claude") },
    { name: "user", from: configDir },
  ];
  return sources
    .map(({ name, from }) => ({ name, from, to: join(request.folder, "plugins", name) }))
    .filter(({ name, from, to }) => mirrorAsPlugin(from, to, name, write))
    .map(({ to }) => to);
}

function named(sessionId: string | null): string {
  if (sessionId !== null) return sessionId;
  throw new Error("a conversation of Claude Code is named before it starts");
}

function environment(request: LaunchRequest): Record<string, string> {
  return {
    ...request.env,
    // Makes CLAUDE.md and .claude/rules of an added directory load.
    CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: "1",
    KIKI_THREAD_ID: request.threadId,
    KIKI_REPO_ID: request.repoId,
    KIKI_STATE_DIR: request.hook.stateDir,
    KIKI_INCARNATION: request.incarnation,
    KIKI_INCARNATION_SECRET: request.incarnationSecret,
  };
}

function checkEnvironment(env: Record<string, string>): void {
  const bad = Object.keys(env).find(
    (name) => name !== "CLAUDE_CONFIG_DIR" && isForbiddenVariable(name),
  );
  if (bad !== undefined) {
    throw fail(
      "usage",
      "harness-env",
      `the variable ${bad} cannot be passed to Claude Code in a thread: it changes settings or hooks`,
      `unset ${bad}`,
    );
  }
}

/** Covers every generated file, the command line and the evidence that nobody else can hook. */
function fingerprint(
  files: readonly string[],
  argv: readonly string[],
  policy: readonly PolicyFile[],
  serverFile: string | null,
): string {
  const hash = new Bun.CryptoHasher("sha256");
  const add = (label: string, bytes: Uint8Array | string | null): void => {
    // The length keeps two different splits of the same bytes apart.
    const length = bytes === null ? -1 : Buffer.byteLength(bytes);
    hash.update(`${label}\0${length}\0`).update(bytes ?? "");
  };
  for (const path of files) add(path, readBytes(path));
  if (serverFile !== null && !files.includes(serverFile)) add(serverFile, readBytes(serverFile));
  for (const { path, text } of policy) add(path, text);
  add("argv", JSON.stringify(argv));
  return hash.digest("hex");
}

function badVersion(executable: string, what: string): Error {
  return fail(
    "failed",
    "harness-version",
    `${executable} does not say its version: ${what}`,
    "install Claude Code, or name its executable in the configuration",
  );
}
