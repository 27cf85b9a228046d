/**
 * The settings a person's own Claude Code would use in the workspace, merged into the one generated file, because
 * `--setting-sources ""` (which keeps foreign hooks out) drops them all. Precedence as in Claude Code 2.1.332:
 * user < project < local; objects merge, arrays are joined without duplicates, anything else is replaced.
 */
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { readText } from "../../files.ts";

export type Settings = Record<string, unknown>;

/** Would add a hook or take kiki's away; marketplaces and plugins bring hooks. */
const NEVER = [
  "$schema",
  "hooks",
  "disableAllHooks",
  "allowManagedHooksOnly",
  "enabledPlugins",
  "extraKnownMarketplaces",
];

/**
 * Consent that Claude Code does not take from the repository's own file. In the generated file, which it trusts, a
 * repository would consent on the person's behalf.
 */
const NEVER_FROM_PROJECT = [
  "skipDangerousModePermissionPrompt",
  "skipAutoPermissionPrompt",
  "skipWorkflowUsageWarning",
];
const MODES_NEVER_FROM_PROJECT = new Set(["bypassPermissions"]);

/** Variables that change how the hook, or Claude Code's hooks and settings as a whole, behave. */
const NEVER_IN_ENV =
  /^(?:BUN_.*|KIKI_.*|NODE_OPTIONS|NODE_CHANNEL_FD|CLAUDE_CONFIG_DIR|CLAUDECODE|CLAUDE_CODE_(?:SIMPLE|SAFE_MODE|RESTRICTED|ADDITIONAL_DIRECTORIES_CLAUDE_MD|.*(?:SETTINGS|HOOKS?|PLUGIN|TRUST|MANAGED|SESSION_ID).*))$/;

export interface ScopeFiles {
  user: string;
  project: string;
  local: string;
}

export function scopeFiles(configDir: string, workspace: string): ScopeFiles {
  return {
    user: join(configDir, "settings.json"),
    project: join(workspace, ".claude", "settings.json"),
    local: join(workspace, ".claude", "settings.local.json"),
  };
}

/** Whether a variable may reach a managed Claude Code, from settings or from the person's shell. */
export function isForbiddenVariable(name: string): boolean {
  return NEVER_IN_ENV.test(name);
}

/** Throws KikiError `bad-settings` naming the file that is not a JSON object. */
export function mergedSettings(files: ScopeFiles): Settings {
  const project = readSettings(files.project);
  for (const key of NEVER_FROM_PROJECT) delete project[key];
  const permissions = project["permissions"];
  if (isObject(permissions) && MODES_NEVER_FROM_PROJECT.has(String(permissions["defaultMode"]))) {
    delete permissions["defaultMode"];
  }
  const merged = [readSettings(files.user), project, readSettings(files.local)].reduce(merge);
  return withoutForeign(merged);
}

/** Less what could add a hook or take kiki's away. */
export function withoutForeign(settings: Settings): Settings {
  const kept: Settings = { ...settings };
  for (const key of NEVER) delete kept[key];
  if (isObject(kept["env"])) {
    const env = Object.entries(kept["env"]).filter(([name]) => !isForbiddenVariable(name));
    kept["env"] = Object.fromEntries(env);
  }
  return kept;
}

/** `over` on top of `under`; neither is changed. */
export function merge(under: Settings, over: Settings): Settings {
  const result: Settings = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const old = Object.hasOwn(result, key) ? result[key] : undefined;
    if (isObject(old) && isObject(value)) result[key] = merge(old, value);
    else if (Array.isArray(old) && Array.isArray(value)) result[key] = joined(old, value);
    else result[key] = value;
  }
  return result;
}

/** The file's object; `{}` when there is no such file or it is empty. Throws KikiError `bad-settings`. */
export function readSettings(path: string): Settings {
  let text: string | null;
  try {
    text = readText(path);
  } catch (error) {
    throw bad(path, `it cannot be read (${errorLine(error)})`);
  }
  if (text === null || text.trim() === "") return {};
  let value: unknown;
  try {
    // A byte-order mark is what some editors leave in front.
    value = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    throw bad(path, `it is not JSON (${errorLine(error)})`);
  }
  if (!isObject(value)) throw bad(path, "it is not a JSON object");
  return value;
}

export function isObject(value: unknown): value is Settings {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function joined(under: unknown[], over: unknown[]): unknown[] {
  const seen = new Set<string>();
  return [...under, ...over].filter((entry) => {
    const key = JSON.stringify(entry);
    return seen.has(key) ? false : seen.add(key) !== undefined;
  });
}

function bad(path: string, what: string): Error {
  return fail(
    "failed",
    "bad-settings",
    `Claude Code's settings ${path} cannot be used: ${what}`,
    `mend ${path}`,
  );
}
