/** What is written and proved for one launch of Claude Code, and its command line (facts of 2.1.332). */
import { join } from "node:path";
import { fail } from "../../../core/errors.ts";
import type { Proof } from "../../../core/proofs.ts";
import type { LaunchRequest, LaunchSpec } from "../../../ports/harness.ts";
import { ensureDir, readBytes, writeDurable } from "../../files.ts";
import { launcherText } from "../launcher.ts";
import { checkClaudeArguments } from "./arguments.ts";
import { mergeLocalSettings } from "./local-settings.ts";
import {
  checkPolicy,
  notExclusive,
  policyForbidsPlugins,
  readPolicy,
  type PolicyFile,
} from "./managed.ts";
import { projectServers } from "./mcp.ts";
import { personalInstructions } from "./memory.ts";
import { definitionWithHooks, mirrorAsPlugin } from "./mirror.ts";
import type { ProofName } from "./proven.ts";
import {
  isForbiddenVariable,
  mergedSettings,
  readSettings,
  scopeFiles,
  type Settings,
} from "./settings.ts";

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

/**
 * `managed`: folder of managed policy. Synchronous: files are small, and a launch either has all of them or fails.
 * Throws `harness-arg`, `harness-env`, `bad-settings`, `hooks-not-exclusive`.
 */
export function prepareLaunch(
  request: LaunchRequest,
  managed: string,
  isolation: Isolation = isolationOf(request.proved ?? []),
): LaunchSpec {
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
  const own =
    isolation === "flags"
      ? isolatedArguments(request, configDir, policy, hook, generate, (path, text) =>
          generateAt(path, text, 0o600),
        )
      : mergedArguments(request, configDir, hook, generate);
  files.push(...own.files);
  const { serverFile } = own;

  const argv = [
    request.executable,
    ...own.argv,
    request.resume ? "--resume" : "--session-id",
    named(request.sessionId),
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
    proofs: [
      {
        name: "managed-policy",
        takes: ["exclusive_pre_tool_use"],
        outcome: "proved",
        reason: "no managed policy adds a pre-tool hook or takes kiki's away",
      },
    ],
  };
}

/** How foreign hooks are kept out: by launch flags, or, for a version without them, by what the program itself does. */
export type Isolation = "flags" | "local-file";

export function isolationOf(proved: readonly Proof[]): Isolation {
  const flags = proved.find((p) => p.name === ("settings-flags" satisfies ProofName));
  return flags === undefined || flags.outcome === "proved" ? "flags" : "local-file";
}

interface OwnArguments {
  argv: string[];
  /** Files that were not generated through `generate`, and count as proved all the same. */
  files: string[];
  serverFile: string | null;
}

function isolatedArguments(
  request: LaunchRequest,
  configDir: string,
  policy: readonly PolicyFile[],
  hook: string,
  generate: (name: string, text: string) => string,
  write: (path: string, text: string) => void,
): OwnArguments {
  const { workspaceRoot } = request;
  const settings = mergedSettings(scopeFiles(configDir, workspaceRoot));
  const settingsFile = generate("settings.json", settingsText(settings, hook));
  const systemPrompt = appendedPrompt(request, configDir);
  const promptFile = systemPrompt === "" ? null : generate("briefing.md", systemPrompt);
  const plugins = policyForbidsPlugins(policy) ? [] : mirroredPlugins(request, configDir, write);
  const servers = projectServers(workspaceRoot, settings);
  const serverFile =
    servers.generated === null ? servers.original : generate("mcp.json", servers.generated);
  const argv = [
    "--settings",
    settingsFile,
    "--setting-sources",
    "",
    "--add-dir",
    workspaceRoot,
    ...(promptFile === null ? [] : ["--append-system-prompt-file", promptFile]),
    ...plugins.flatMap((plugin) => ["--plugin-dir", plugin]),
    ...(serverFile === null ? [] : ["--mcp-config", serverFile]),
  ];
  return { argv, files: [], serverFile };
}

/** The program reads all of a person's and project's files by itself; the local ones have kiki's hooks meanwhile. */
function mergedArguments(
  request: LaunchRequest,
  configDir: string,
  hook: string,
  generate: (name: string, text: string) => string,
): OwnArguments {
  // Read by the program itself, and nothing keeps out what they bring.
  const { user, project } = scopeFiles(configDir, request.workspaceRoot);
  for (const path of [user, project]) {
    const settings = readSettings(path);
    for (const key of ["enabledPlugins", "disableAllHooks"])
      if (settings[key] !== undefined) throw notExclusive(path, `it sets ${key}`);
  }
  for (const folder of [configDir, join(request.workspaceRoot, ".claude")]) {
    const definition = definitionWithHooks(folder);
    if (definition !== null) throw notExclusive(definition, "it has hooks of its own");
  }
  const merged = mergeLocalSettings(request.workspaceRoot, request.folder, hooksFor(hook));
  const { briefing } = request;
  const prompt = briefing === null ? null : generate("briefing.md", briefing);
  const argv = prompt === null ? [] : ["--append-system-prompt-file", prompt];
  return { argv, files: [merged], serverFile: null };
}

/** kiki's hooks on top of the person's settings. */
function settingsText(settings: Settings, hook: string): string {
  return `${JSON.stringify({ ...settings, hooks: hooksFor(hook) }, null, 2)}\n`;
}

function hooksFor(hook: string): Settings {
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
  return hooks;
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
