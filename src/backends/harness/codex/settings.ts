/**
 * Codex's configuration for one thread: `config.toml` in the generated CODEX_HOME, and the part of it that must hold
 * whatever the project's own `.codex/config.toml` says, which goes on the command line (0.171.0: `-c` beats a project,
 * a project beats the user's file).
 */
import { stringify } from "smol-toml";
import { shellQuote } from "../launcher.ts";
import { HOOK_EVENTS, trustHash, trustKey, type HookEventName } from "./hook-trust.ts";

/** 16 KiB of payload behind a patch of any usual size come through whole: 100,000 tokens × 1.2 × 4 bytes. */
const OUTPUT_TOKENS = 100_000;

/** Features that add tools no hook sees, helpers, programs or downloads. */
export const FEATURES_OFF = [
  "apps",
  "browser_use",
  "computer_use",
  "daemon_auto_start",
  "goals",
  "image_generation",
  "multi_agent",
  "multi_agent_v2",
  "plugins",
  "sleep_tool",
  "unified_exec_tty",
  "view_image",
] as const;

/** Shows whose a process is. */
export const MARK_VARIABLE = "KIKI_INCARNATION";

export type Toml = string | number | boolean | readonly Toml[] | { [key: string]: Toml };
export type TomlTable = { [key: string]: Toml };

export interface ThreadSettings {
  /** Real path of `config.toml`. */
  configFile: string;
  /** Real path. */
  workspace: string;
  /** Path of the launcher. */
  hook: string;
  /** null: the person's own catalog stays. */
  catalogFile: string | null;
  briefing: string | null;
  incarnation: string;
  seenUpgrades: Record<string, string>;
  /** Hooks of the project, by trust key, with their present hash: switched off, and not asked about. */
  foreign: Readonly<Record<string, string>>;
  /** Features the project switches on. */
  projectFeatures: readonly string[];
  /** Folders that Codex's sandbox lets commands write besides the workspace: jj's stores, and what the person named. */
  writableRoots: readonly string[];
  /** What keeps kiki's variable where somebody lets commands have some variables only; null: nobody does. */
  variables: TomlTable | null;
}

/** What no other layer may overrule. */
export function pinned(s: ThreadSettings): TomlTable {
  const features: TomlTable = { hooks: true };
  for (const name of [...FEATURES_OFF, ...s.projectFeatures]) features[name] = false;
  return {
    features,
    web_search: "disabled",
    agents: { enabled: false },
    // The TUI's own server, whose tools open threads that nobody watches.
    mcp_servers: { codex_tui: { enabled: false, command: "true" } },
    tool_output_token_limit: OUTPUT_TOKENS,
    check_for_update_on_startup: false,
    cli_auth_credentials_store: "file",
    // Without jj's stores no jj command works in a sandboxed agent's workspace.
    ...(s.writableRoots.length === 0
      ? {}
      : { sandbox_workspace_write: { writable_roots: s.writableRoots } }),
    // By it kiki knows the processes of an agent, whatever a policy keeps from them.
    shell_environment_policy: {
      set: { KIKI_INCARNATION: s.incarnation },
      ...s.variables,
    },
    ...(s.catalogFile === null ? {} : { model_catalog_json: s.catalogFile }),
    ...(s.briefing === null ? {} : { developer_instructions: s.briefing }),
  };
}

/** Text of the generated `config.toml`. */
export function configText(s: ThreadSettings): string {
  const hooks: Record<string, unknown> = {};
  const state: Record<string, unknown> = {};
  for (const event of Object.keys(HOOK_EVENTS) as HookEventName[]) {
    const command = hookCommand(s.hook, event);
    const { timeoutS: timeout } = HOOK_EVENTS[event];
    hooks[event] = [{ hooks: [{ type: "command", command, timeout }] }];
    state[trustKey(s.configFile, event)] = { trusted_hash: trustHash(event, command) };
  }
  for (const [key, hash] of Object.entries(s.foreign)) {
    // `enabled = false` alone would still be asked about.
    state[key] = { enabled: false, trusted_hash: hash };
  }
  const config = {
    ...pinned(s),
    analytics: { enabled: false },
    feedback: { enabled: false },
    notice: { model_migrations: s.seenUpgrades },
    // Codex writes these itself otherwise, into a file that kiki has proved.
    tui: { screen_reader_detection_done: true },
    // Trust is for this home only; hooks of the folder are listed above, off.
    projects: { [s.workspace]: { trust_level: "trusted" } },
    hooks: { ...hooks, state },
  };
  return `# Written by kiki for one start of one agent.\n${stringify(config)}`;
}

/**
 * Codex runs it by the person's login shell (`<shell> -c`), so it has to mean the same in sh, bash, zsh, fish and csh.
 * Whatever goes wrong before the launcher answers must end with 2, or Codex runs the tool.
 */
export function hookCommand(hook: string, event: HookEventName): string {
  const call = `${shellQuote(hook)} ${event}`;
  if (event !== "PreToolUse") return call;
  return `${call} || /bin/sh -c 'echo "[kiki] the hook of this call cannot be run: it is refused" >&2; exit 2'`;
}

/** `-c` arguments that say the same as the table. */
export function overrides(table: TomlTable, prefix = ""): string[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    return isTable(value) ? overrides(value, `${path}.`) : ["-c", `${path}=${inline(value)}`];
  });
}

function inline(value: Toml): string {
  // One line: `key = value` without the key.
  return stringify({ v: value }).trim().slice("v = ".length);
}

export function isTable(value: unknown): value is { [key: string]: Toml } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
