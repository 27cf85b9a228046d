/**
 * A Claude Code configuration folder as a person has it after onboarding, with the repository trusted, and settings in
 * every scope that carry hooks of their own. Under kiki none of those may ever run.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Claude Code compares the key's last 20 characters with those a person has approved. */
const API_KEY = "kiki-gate-no-real-key";

/** Every event a settings file can hook that fires in an ordinary session (2.1.332). */
const HOOKED_EVENTS = [
  "PreToolUse",
  "PostToolUse",
  "PostToolUseFailure",
  "PostToolBatch",
  "UserPromptSubmit",
  "SessionStart",
  "SessionEnd",
  "Stop",
  "SubagentStart",
  "SubagentStop",
  "Notification",
  "PreSkillShellCommand",
];

export interface ClaudeHome {
  /** CLAUDE_CONFIG_DIR */
  readonly configDir: string;
  readonly userSettings: string;
  /** Variables for the person's shell; all of them are on kiki's allow-list. */
  readonly env: Record<string, string>;
  /** Settings with a marker hook for every event, for the scope named. */
  markedSettings(scope: string, settings?: object): string;
  /** A shell command that leaves the marker `name`. */
  markerCommand(name: string): string;
  /** Names of the marker hooks that have run, as `<scope>-<event>`. */
  markers(): string[];
}

/**
 * `globalState`: further keys of its state file. `trusted`: absolute path of the main repository. Its colocated workspaces are git worktrees of it, which Claude Code
 * trusts along with it.
 */
export function makeClaudeHome(
  dir: string,
  trusted: string,
  modelUrl: string,
  globalState: object = {},
): ClaudeHome {
  const configDir = join(dir, "claude");
  const markerDir = join(dir, "markers");
  const tmp = join(dir, "claude-tmp");
  for (const folder of [configDir, markerDir, tmp]) mkdirSync(folder, { recursive: true });
  const state = {
    ...globalState,
    hasCompletedOnboarding: true,
    customApiKeyResponses: { approved: [API_KEY.slice(-20)], rejected: [] },
    projects: { [trusted]: { hasTrustDialogAccepted: true } },
  };
  writeFileSync(join(configDir, ".claude.json"), JSON.stringify(state), { mode: 0o600 });
  const root = process.getuid?.() === 0;
  const markerCommand = (name: string): string => `: >'${join(markerDir, name)}'`;
  return {
    configDir,
    userSettings: join(configDir, "settings.json"),
    env: {
      CLAUDE_CONFIG_DIR: configDir,
      CLAUDE_CODE_TMPDIR: tmp,
      ANTHROPIC_BASE_URL: modelUrl,
      ANTHROPIC_API_KEY: API_KEY,
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_ERROR_REPORTING: "1",
      // Claude Code refuses to go without permission checks as root unless it is told that this is a sandbox.
      ...(root ? { IS_SANDBOX: "1" } : {}),
    },
    markedSettings(scope, settings = {}) {
      const hooks: Record<string, unknown> = {};
      for (const event of HOOKED_EVENTS) {
        hooks[event] = [
          { hooks: [{ type: "command", command: markerCommand(`${scope}-${event}`) }] },
        ];
      }
      return `${JSON.stringify({ ...settings, hooks }, null, 2)}\n`;
    },
    markerCommand,
    markers: () => (existsSync(markerDir) ? readdirSync(markerDir).sort() : []),
  };
}
