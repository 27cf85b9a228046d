/**
 * `[agent.claude-code] pretrust`: the person has asked kiki to answer the trust dialog of a thread's workspace. One key
 * of Claude Code's own state file is set, under the lock Claude Code takes for it, every other byte kept.
 */
import { mkdirSync, realpathSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { withMember } from "../../../core/json-text.ts";
import { readText, writeDurable } from "../../files.ts";
import { isObject } from "./settings.ts";

/** proper-lockfile's defaults, which Claude Code uses (2.1.332): a folder beside the file, stale after ten seconds. */
const STALE_MS = 10_000;
const WAIT_MS = 5_000;
const POLL_MS = 50;
const NEW_FILE_MODE = 0o600;

/** Claude Code's state file, for the environment the agent gets. */
export function claudeStateFile(env: Readonly<Record<string, string>>): string {
  const configDir = env["CLAUDE_CONFIG_DIR"];
  return configDir === undefined
    ? join(env["HOME"] ?? "/", ".claude.json")
    : join(configDir, ".claude.json");
}

/**
 * Sets `projects[workspace].hasTrustDialogAccepted`. Nothing is written when it is set already. Throws `pretrust-failed`
 * when the file is no JSON object, or its lock is not to be had; the file is as it was then.
 */
export async function pretrust(stateFile: string, workspace: string): Promise<void> {
  const file = realOf(stateFile);
  if (isTrusted(readText(file), workspace)) return;
  const lock = `${file}.lock`;
  await takeLock(file, lock);
  try {
    // Read again: what was written before the lock was free is what is changed.
    const text = readText(file);
    if (isTrusted(text, workspace)) return;
    const path = ["projects", workspace, "hasTrustDialogAccepted"];
    const changed = withMember(text === null || text.trim() === "" ? "{}" : text, path, true);
    if (changed === null || !isTrusted(changed, workspace))
      throw failed(file, "it is not a JSON object of projects");
    writeDurable(file, changed, modeOf(file));
  } finally {
    rmdirSync(lock);
  }
}

function isTrusted(text: string | null, workspace: string): boolean {
  try {
    const state: unknown = JSON.parse(text ?? "{}");
    const projects = isObject(state) ? state["projects"] : undefined;
    const project = isObject(projects) ? projects[workspace] : undefined;
    return isObject(project) && project["hasTrustDialogAccepted"] === true;
  } catch {
    return false;
  }
}

async function takeLock(file: string, lock: string): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    try {
      mkdirSync(lock);
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== "EEXIST") throw failed(file, errorLine(error));
    }
    const taken = statSync(lock, { throwIfNoEntry: false });
    if (taken !== undefined && Date.now() - taken.mtimeMs > STALE_MS) {
      // Whoever held it has died; of two that see this one makes it anew.
      try {
        rmdirSync(lock);
      } catch {
        // taken away meanwhile
      }
    } else if (performance.now() > deadline) throw failed(file, `${lock} is held`);
    else await Bun.sleep(POLL_MS);
  }
}

/** A link stays a link: what it leads to is changed. */
function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function modeOf(file: string): number {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? NEW_FILE_MODE : found.mode & 0o777;
}

function failed(file: string, what: string): Error {
  return fail(
    "failed",
    "pretrust-failed",
    `the workspace could not be marked as trusted in ${file}: ${what}`,
    "set agent.claude-code.pretrust to false, and accept the dialog in the agent pane",
  );
}
