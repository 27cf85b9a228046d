/**
 * The fallback for a version without launch flags for settings: kiki's hooks go into the workspace's
 * `.claude/settings.local.json`, the one file kiki may own in there. What was there before lies outside the workspace,
 * with both hashes; it is given back only from exactly the bytes kiki wrote, and a file somebody else has written
 * meanwhile is reported, never overwritten.
 */
import { existsSync, rmdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail } from "../../../core/errors.ts";
import { ensureDir, readBytes, readText, removeDurable, writeDurable } from "../../files.ts";
import { withoutForeign, readSettings, type Settings } from "./settings.ts";

/** In kiki's folder of the thread; there while the file is kiki's. */
const OWNER_FILE = "local-settings.json";
const FILE_MODE = 0o600;

interface Ownership {
  path: string;
  /** Base64 of the file as it was; null: there was none. */
  prior: string | null;
  priorSha256: string | null;
  /** Of the bytes kiki wrote. */
  ownSha256: string;
  /** kiki made the folder for it. */
  madeFolder: boolean;
}

export function localSettingsFile(workspace: string): string {
  return join(workspace, ".claude", "settings.local.json");
}

/**
 * `hooks` on top of what is there, less what could add a hook or take kiki's away. `folder`: kiki's, outside the
 * workspace. Throws `bad-settings`, and `local-settings-edited` when a merged file was written by somebody else since.
 */
export function mergeLocalSettings(workspace: string, folder: string, hooks: Settings): string {
  const path = localSettingsFile(workspace);
  const owned = ownership(folder);
  const now = readBytes(path);
  let prior = now;
  if (owned !== null && hash(now) === owned.ownSha256)
    prior = owned.prior === null ? null : Buffer.from(owned.prior, "base64");
  else if (owned !== null && hash(now) !== owned.priorSha256)
    throw fail("failed", "local-settings-edited", editedLine(path), remedy(path, folder));
  const settings = prior === null ? {} : withoutForeign(parsed(prior, path));
  const text = `${JSON.stringify({ ...settings, hooks }, null, 2)}\n`;
  const record: Ownership = {
    path,
    prior: prior === null ? null : Buffer.from(prior).toString("base64"),
    priorSha256: hash(prior),
    ownSha256: hash(Buffer.from(text))!,
    madeFolder: owned?.madeFolder ?? !existsSync(dirname(path)),
  };
  // First what gives it back: a death in between leaves a record of a file that is as it was.
  writeDurable(join(folder, OWNER_FILE), JSON.stringify(record), FILE_MODE);
  ensureDir(dirname(path), 0o755);
  writeDurable(path, text, FILE_MODE);
  return path;
}

/** Gives the file back. Idempotent. A line for a person when somebody else has written it; then nothing is changed. */
export function restoreLocalSettings(folder: string): string | null {
  const owned = ownership(folder);
  if (owned === null) return null;
  const now = hash(readBytes(owned.path));
  if (now === owned.ownSha256) {
    if (owned.prior === null) removeDurable(owned.path);
    else writeDurable(owned.path, Buffer.from(owned.prior, "base64"), FILE_MODE);
    if (owned.madeFolder) removeEmpty(dirname(owned.path));
  } else if (now !== owned.priorSha256) return editedLine(owned.path);
  removeDurable(join(folder, OWNER_FILE));
  return null;
}

function ownership(folder: string): Ownership | null {
  const text = readText(join(folder, OWNER_FILE));
  return text === null ? null : (JSON.parse(text) as Ownership);
}

function hash(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

/** What a person had there counts as at every other launch: it is refused when it is no object. */
function parsed(bytes: Uint8Array, path: string): Settings {
  const text = Buffer.from(bytes)
    .toString("utf8")
    .replace(/^\ufeff/, "");
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Settings;
  } catch {
    // said below, with the file named
  }
  return readSettings(path);
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // something else is in it by now
  }
}

function editedLine(path: string): string {
  return `${path} was edited while kiki's hooks were in it; kiki leaves it as it is`;
}

function remedy(path: string, folder: string): string {
  return `take kiki's hooks out of ${path}; what was there before is in ${join(folder, OWNER_FILE)}`;
}
