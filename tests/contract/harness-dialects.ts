/**
 * What a contract scenario of the harness port has to know about one harness: the words of its payloads, arguments,
 * settings and screens. The scenarios themselves know none of them.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SettingsSource } from "../fakes/harness.ts";

export type Scope = SettingsSource["scope"];
type Payload = Record<string, unknown>;

export interface Dialect {
  /** Folder of payloads recorded from the real program, and what each of them means. */
  recorded: string;
  meanings: Record<string, Record<string, unknown>>;
  /** What a payload must not lack: name of a recorded one, and the field. */
  needed: readonly (readonly [payload: string, field: string])[];
  /** `--version` of the proved version, as it is printed, and of one that nobody ran. */
  says: string;
  proved: string;
  unproved: string;
  /** What the model gets for a refused call. */
  wrapped(reason: string, call: { toolName: string; command?: string }): string;
  badArguments: readonly string[];
  goodArguments: readonly string[];
  badVariables: readonly string[];
  /** Below the root of a scenario; the managed one is below what the adapter takes for the managed folder. */
  places: Record<Scope, string>;
  /** A pre-tool hook that runs this command, as it stands in that scope's file. */
  hook(scope: Scope, command: string): string;
  /** Settings with which a project would switch all hooks off, and what must not be in a generated file. */
  hooksOff: { text: string; never: string };
  /** Managed settings that take kiki's proof away, and one that does not. */
  policies: readonly string[];
  harmlessPolicy: string;
  /** Whether a conversation is named by kiki. */
  chosen: boolean;
  /** Words of the command line that take a conversation up again. */
  resumes(sessionId: string): string;
  dialog: string;
  ordinary: string;
}

const FIXTURES = join(import.meta.dir, "../../fixtures/hooks");

export function recordedPayload(dialect: Dialect, name: string): Payload {
  return JSON.parse(readFileSync(join(dialect.recorded, `${name}.json`), "utf8")) as Payload;
}

// Claude Code 2.1.332 --------------------------------------------------------------------------------------------

const claudeSession = "00000000-0000-4000-8000-000000000001";
const claudePrompt = "00000000-0000-4000-8000-000000000002";
const claudeHelper = "a0000000000000003";
const claudeMain = { sessionId: claudeSession, promptId: claudePrompt, agentId: null };
const claudeHook = (command: string): object => ({
  hooks: { PreToolUse: [{ hooks: [{ type: "command", command }] }] },
});

export const CLAUDE: Dialect = {
  recorded: join(FIXTURES, "claude-code/2.1.332"),
  // Texts that are long are checked by their kind.
  meanings: {
    Notification: { type: "Attention", sessionId: claudeSession, kind: "permission_prompt" },
    "PostToolBatch.background-agent": { type: "BatchClosed", ...claudeMain },
    "PostToolBatch.denied": { type: "BatchClosed", ...claudeMain },
    "PostToolBatch.subagent": { type: "BatchClosed", ...claudeMain, agentId: claudeHelper },
    PostToolBatch: { type: "BatchClosed", ...claudeMain },
    "PostToolUse.background-agent": {
      type: "PostTool",
      ...claudeMain,
      toolName: "Agent",
      failed: false,
    },
    PostToolUse: {
      type: "PostTool",
      ...claudeMain,
      toolUseId: "toolu_0003_1",
      toolName: "Bash",
      failed: false,
    },
    PostToolUseFailure: {
      type: "PostTool",
      ...claudeMain,
      toolUseId: "toolu_0003_3",
      failed: true,
    },
    PreToolUse: { type: "PreTool", ...claudeMain, toolUseId: "toolu_0003_1", toolName: "Bash" },
    "PreToolUse.subagent": {
      type: "PreTool",
      ...claudeMain,
      agentId: claudeHelper,
      toolUseId: "toolu_0006_0",
    },
    SessionEnd: { type: "SessionEnded", sessionId: claudeSession, reason: "prompt_input_exit" },
    SessionStart: { type: "SessionStarted", sessionId: claudeSession, source: "startup" },
    "SessionStart.resume": { type: "SessionStarted", sessionId: claudeSession, source: "resume" },
    "SessionStart.compact": { type: "SessionStarted", sessionId: claudeSession, source: "compact" },
    "SessionStart.clear": {
      type: "SessionStarted",
      sessionId: "00000000-0000-4000-8000-000000000006",
      source: "clear",
    },
    "SessionEnd.clear": { type: "SessionEnded", sessionId: claudeSession, reason: "clear" },
    "Notification.idle": { type: "Attention", sessionId: claudeSession, kind: "idle_prompt" },
    Stop: { type: "TurnStopped", ...claudeMain },
    SubagentStop: { type: "TurnStopped", ...claudeMain, agentId: claudeHelper },
    UserPromptSubmit: { type: "UserPrompt", sessionId: claudeSession, promptId: claudePrompt },
    "UserPromptSubmit.task-notification": {
      type: "UserPrompt",
      sessionId: claudeSession,
      promptId: claudePrompt,
    },
  },
  needed: [
    ["PreToolUse", "session_id"],
    ["PreToolUse", "tool_use_id"],
    ["PostToolBatch", "tool_calls"],
    ["Stop", "session_id"],
  ],
  says: "2.1.332 (Claude Code)",
  proved: "2.1.332",
  unproved: "2.1.333 (Claude Code)",
  wrapped: (reason, { toolName }) => `PreToolUse:${toolName} hook error: ${reason}`,
  badArguments: [
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
  ],
  goodArguments: ["--model", "opus", "--verbose"],
  badVariables: ["BUN_OPTIONS", "NODE_OPTIONS", "KIKI_INCARNATION_SECRET"],
  places: {
    user: "home/.claude/settings.json",
    project: "ws/.claude/settings.json",
    local: "ws/.claude/settings.local.json",
    plugin: "home/.claude/plugins/p/hooks/hooks.json",
    managed: "managed/managed-settings.json",
  },
  hook: (_scope, command) => JSON.stringify(claudeHook(command)),
  hooksOff: { text: JSON.stringify({ disableAllHooks: true }), never: "disableAllHooks" },
  policies: [
    JSON.stringify(claudeHook("audit")),
    JSON.stringify({ disableAllHooks: true }),
    JSON.stringify({ allowManagedHooksOnly: true }),
    JSON.stringify({ enabledPlugins: { "p@m": true } }),
    "{ not json",
  ],
  harmlessPolicy: JSON.stringify({ permissions: { deny: ["WebFetch"] } }),
  chosen: true,
  resumes: (sessionId) => `--resume ${sessionId}`,
  dialog: "│ Do you trust this folder?\n│ 1. Yes\n",
  ordinary: "> write the lexer\n● Done.\n",
};

// Codex 0.171.0 --------------------------------------------------------------------------------------------------

const codexSession = "00000000-0000-7000-8000-000000000001";
const codexTurn = "00000000-0000-7000-8000-000000000002";
const codexMain = { sessionId: codexSession, promptId: codexTurn, agentId: null };
const codexRollout = `/home/me/codex-home/sessions/2026/12/01/rollout-2026-12-01T12-00-00-${codexSession}.jsonl`;
const codexHook = (command: string): string =>
  `[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "${command}"\n`;

export const CODEX: Dialect = {
  recorded: join(FIXTURES, "codex/0.171.0"),
  meanings: {
    Interrupt: { type: "TurnInterrupted", sessionId: codexSession },
    PostCompact: { type: "Other", name: "PostCompact" },
    "PostToolUse.apply_patch": { type: "PostTool", ...codexMain, toolName: "apply_patch" },
    PostToolUse: { type: "PostTool", ...codexMain, toolUseId: "c_echo", toolName: "Bash" },
    PreCompact: { type: "Other", name: "PreCompact" },
    "PreToolUse.apply_patch": {
      type: "PreTool",
      ...codexMain,
      toolUseId: "c_patch",
      toolName: "apply_patch",
      recordPath: codexRollout,
    },
    PreToolUse: {
      type: "PreTool",
      ...codexMain,
      toolUseId: "c_echo",
      toolName: "Bash",
      recordPath: codexRollout,
    },
    SessionEnd: { type: "SessionEnded", sessionId: codexSession, reason: "other" },
    "SessionStart.compact": { type: "SessionStarted", sessionId: codexSession, source: "compact" },
    SessionStart: {
      type: "SessionStarted",
      sessionId: codexSession,
      source: "startup",
      transcriptPath: codexRollout,
    },
    "SessionStart.resume": { type: "SessionStarted", sessionId: codexSession, source: "resume" },
    Stop: { type: "TurnStopped", ...codexMain },
    UserPromptSubmit: { type: "UserPrompt", sessionId: codexSession, promptId: codexTurn },
    "UserPromptSubmit.steer": {
      type: "UserPrompt",
      sessionId: codexSession,
      promptId: codexTurn,
      prompt: "steer text",
    },
  },
  needed: [
    ["PreToolUse", "session_id"],
    ["PreToolUse", "tool_use_id"],
    ["Interrupt", "session_id"],
    ["Stop", "session_id"],
  ],
  says: "codex-cli 0.171.0",
  proved: "0.171.0",
  unproved: "codex-cli 0.172.0",
  wrapped: (reason, { toolName, command }) =>
    command === undefined
      ? `Tool call blocked by PreToolUse hook: ${reason}. Tool: ${toolName}`
      : `Command blocked by PreToolUse hook: ${reason}. Command: ${command}`,
  badArguments: [
    "--enable=hooks",
    "--disable",
    "--profile=x",
    "--dangerously-bypass-hook-trust",
    "--config=hooks={}",
    "-cfeatures.hooks=false",
    "resume",
    "--last",
    "--remote=ws://x",
    "-p",
    "-C",
    "--worktree",
    "--",
    "a prompt",
  ],
  goodArguments: ["--model", "gpt-6-sol", "-c", "model_reasoning_effort=high"],
  badVariables: ["BUN_OPTIONS", "NODE_OPTIONS", "KIKI_INCARNATION_SECRET", "CODEX_SQLITE_HOME"],
  places: {
    user: "home/.codex/config.toml",
    project: "ws/.codex/config.toml",
    local: "ws/.codex/hooks.json",
    plugin: "home/.codex/plugins/cache/p/hooks/hooks.json",
    managed: "managed/requirements.toml",
  },
  hook: (scope, command) =>
    scope === "local" || scope === "plugin"
      ? JSON.stringify(claudeHook(command))
      : codexHook(command),
  hooksOff: { text: "[features]\nhooks = false\n", never: "hooks = false" },
  policies: [
    codexHook("audit"),
    "allow_managed_hooks_only = true\n",
    "[features]\nhooks = false\n",
    "not = = toml",
  ],
  harmlessPolicy: 'allowed_sandbox_modes = ["read-only"]\n',
  chosen: false,
  resumes: (sessionId) => `-- ${sessionId}`,
  dialog: "  Folder access\n\n  Trust this folder? Codex can read\n› 1. Trust and continue\n",
  ordinary: "› write the lexer\n\n• Done.\n\n› Ask Codex to do anything\n\n  GPT · /ws\n",
};
