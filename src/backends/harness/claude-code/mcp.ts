/**
 * The project's MCP servers. `.mcp.json` is not loaded under `--setting-sources ""` (2.1.332), so it is named on the
 * command line, less what the person has not approved: named there, Claude Code asks no more.
 */
import { join } from "node:path";
import { isObject, readSettings, type Settings } from "./settings.ts";

export interface ProjectServers {
  /** The workspace's file, when it can be used as it is. */
  original: string | null;
  /** Text of the file to generate instead; null when there is nothing to load or nothing to leave out. */
  generated: string | null;
}

/** `settings` are the merged ones. Throws KikiError `bad-settings` when the file is not a JSON object. */
export function projectServers(workspace: string, settings: Settings): ProjectServers {
  const path = join(workspace, ".mcp.json");
  const file = readSettings(path);
  const servers = file["mcpServers"];
  if (!isObject(servers) || Object.keys(servers).length === 0)
    return { original: null, generated: null };
  const disabled = names(settings["disabledMcpjsonServers"]);
  const enabled = names(settings["enabledMcpjsonServers"]);
  // Nothing decided yet counts as approved: `kk new` in a repository is the person's own act.
  const all = settings["enableAllProjectMcpServers"] === true || enabled.size === 0;
  const kept = Object.entries(servers).filter(
    ([name]) => !disabled.has(name) && (all || enabled.has(name)),
  );
  if (kept.length === Object.keys(servers).length) return { original: path, generated: null };
  if (kept.length === 0) return { original: null, generated: null };
  return {
    original: null,
    generated: `${JSON.stringify({ ...file, mcpServers: Object.fromEntries(kept) }, null, 2)}\n`,
  };
}

function names(value: unknown): Set<string> {
  return new Set(Array.isArray(value) ? value.map(String) : []);
}
