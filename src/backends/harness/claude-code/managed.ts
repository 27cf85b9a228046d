/**
 * Managed policy cannot be excluded by any launch argument (observed on 2.1.332), so what it says about hooks decides
 * whether kiki's can be the only ones. What cannot be read or understood proves nothing and is refused as well.
 */
import { join } from "node:path";
import { fail } from "../../../core/errors.ts";
import { listDir, readText } from "../../files.ts";

/** Folder of managed settings, by platform. */
export function managedFolder(platform: NodeJS.Platform = process.platform): string {
  return platform === "darwin" ? "/Library/Application Support/ClaudeCode" : "/etc/claude-code";
}

export interface PolicyFile {
  path: string;
  /** null when there is no such file. */
  text: string | null;
}

/** Every file that can carry managed settings: the machine's, its drop-ins, and the organisation's cached ones. */
export function readPolicy(folder: string, configDir: string): PolicyFile[] {
  const dropIns = join(folder, "managed-settings.d");
  const paths = [
    join(folder, "managed-settings.json"),
    ...listDir(dropIns)
      .filter((name) => name.endsWith(".json") && !name.startsWith("."))
      .map((name) => join(dropIns, name)),
    join(configDir, "remote-settings.json"),
  ];
  return paths.map((path) => {
    try {
      return { path, text: readText(path) };
    } catch {
      throw notExclusive(path, "it cannot be read");
    }
  });
}

/** Throws KikiError `hooks-not-exclusive` naming the file that can add a pre-tool hook or take kiki's away. */
export function checkPolicy(files: readonly PolicyFile[]): void {
  for (const { path, text } of files) {
    if (text === null || text.trim() === "") continue;
    let policy: unknown;
    try {
      policy = JSON.parse(text);
    } catch {
      throw notExclusive(path, "it is not JSON");
    }
    // The organisation's cache wraps its settings; both levels are looked at.
    for (const level of [policy, (policy as Record<string, unknown> | null)?.["settings"]]) {
      const objection = objectionTo(level);
      if (objection !== null) throw notExclusive(path, objection);
    }
  }
}

/** Managed policy may forbid `--plugin-dir`; then skills, agents and commands stay unmirrored. After `checkPolicy`. */
export function policyForbidsPlugins(files: readonly PolicyFile[]): boolean {
  return files.some(({ text }) => text !== null && /"disableSideloadFlags"\s*:\s*true/.test(text));
}

function objectionTo(policy: unknown): string | null {
  if (typeof policy !== "object" || policy === null) return null;
  const p = policy as Record<string, unknown>;
  const hooks = p["hooks"];
  if (
    typeof hooks === "object" &&
    hooks !== null &&
    !isEmpty((hooks as Record<string, unknown>)["PreToolUse"])
  ) {
    return "it has a PreToolUse hook";
  }
  if (p["disableAllHooks"] === true) return "it sets disableAllHooks";
  if (p["allowManagedHooksOnly"] === true) return "it sets allowManagedHooksOnly";
  const locked = p["strictPluginOnlyCustomization"];
  if (locked === true || (Array.isArray(locked) && locked.includes("hooks"))) {
    return "its strictPluginOnlyCustomization locks hooks";
  }
  const plugins = p["enabledPlugins"];
  if (
    typeof plugins === "object" &&
    plugins !== null &&
    Object.values(plugins).some((on) => on !== false)
  ) {
    return "it enables plugins, which can bring hooks";
  }
  if (p["policyHelper"] !== undefined || p["policyHelpers"] !== undefined) {
    return "its policy helper decides settings at run time";
  }
  return null;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

/** `path`: the file that stands against it. */
export function notExclusive(path: string, objection: string): Error {
  return fail(
    "failed",
    "hooks-not-exclusive",
    `kiki cannot be the only pre-tool hook of Claude Code: ${path}: ${objection}`,
    "ask whoever manages this machine, or run the agent without kiki",
  );
}
