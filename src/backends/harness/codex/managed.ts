/**
 * What an administrator has laid down for Codex (0.171.0). Its hooks run without trust and beside any other, and it can
 * take kiki's away; no argument changes either, so a launch is refused and the file named. What cannot be read or
 * understood proves nothing and is refused as well.
 */
import { join } from "node:path";
import { parse } from "smol-toml";
import { fail } from "../../../core/errors.ts";
import { readText } from "../../files.ts";

/** The same on Linux and macOS. */
export const MANAGED_FOLDER = "/etc/codex";

export interface ManagedFile {
  path: string;
  /** null when there is no such file. */
  text: string | null;
}

export function readManaged(folder: string): ManagedFile[] {
  return ["requirements.toml", "managed_config.toml", "config.toml", "hooks.json"].map((name) => {
    const path = join(folder, name);
    try {
      return { path, text: readText(path) };
    } catch {
      throw notExclusive(path, "it cannot be read");
    }
  });
}

/** Throws KikiError `hooks-not-exclusive` naming the file that adds a hook or takes kiki's away. */
export function checkManaged(files: readonly ManagedFile[]): void {
  for (const { path, text } of files) {
    if (text === null || text.trim() === "") continue;
    const objection = objectionTo(path, valueOf(path, text));
    if (objection !== null) throw notExclusive(path, objection);
  }
}

function valueOf(path: string, text: string): unknown {
  try {
    return path.endsWith(".json") ? (JSON.parse(text) as unknown) : parse(text);
  } catch {
    throw notExclusive(path, path.endsWith(".json") ? "it is not JSON" : "it is not TOML");
  }
}

function objectionTo(path: string, value: unknown): string | null {
  if (!isObject(value)) return null;
  const { hooks, features } = value;
  if (
    isObject(hooks) &&
    Object.entries(hooks).some(([key, entry]) => key !== "state" && !isEmpty(entry))
  )
    return "it has hooks of its own";
  if (value["allow_managed_hooks_only"] === true) return "it sets allow_managed_hooks_only";
  // In config.toml alone the command line has the last word.
  const last = path.endsWith("/config.toml");
  if (!last && isObject(features) && features["hooks"] === false) return "it switches hooks off";
  return null;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** KikiError `hooks-not-exclusive`. `where`: the file, or whatever else names the hook. */
export function notExclusive(where: string, objection: string): Error {
  return fail(
    "failed",
    "hooks-not-exclusive",
    `kiki cannot be the only pre-tool hook of Codex: ${where}: ${objection}`,
    "ask whoever manages this machine, or run the agent without kiki",
  );
}

/** Kiki's own hooks are not in force in it, because it trusts or lists them otherwise than the version kiki knows. */
export function notInItsHooks(where: string, objection: string): Error {
  return fail(
    "failed",
    "hooks-not-exclusive",
    `kiki's hooks would not run in this Codex: ${where}: ${objection}`,
    "use a Codex that kk doctor calls proved, or a newer kiki",
  );
}
