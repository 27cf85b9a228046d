/** Folders that only their owner may look into. */
import { chmodSync, lstatSync, mkdirSync, statSync } from "node:fs";
import { fail } from "../core/errors.ts";

const PRIVATE = 0o700;

/**
 * Makes `path` (with parents) or verifies it: a folder of this user, made 0700 when it was wider. Throws
 * `folder-unsafe`. With `noLink` the folder itself must not be a symlink: in /tmp anybody may have put one there.
 */
export function ensurePrivateFolder(path: string, options: { noLink?: boolean } = {}): void {
  try {
    mkdirSync(path, { recursive: true, mode: PRIVATE });
  } catch (error) {
    const code = (error as { code?: string }).code ?? "error";
    throw unsafe(path, code === "EEXIST" ? "is not a folder" : `cannot be made (${code})`);
  }
  const info = options.noLink ? lstatSync(path) : statSync(path);
  if (!info.isDirectory()) throw unsafe(path, "is not a folder");
  const uid = process.getuid?.() ?? 0;
  if (info.uid !== uid) throw unsafe(path, `belongs to user ${info.uid}, not to you (${uid})`);
  if ((info.mode & 0o077) !== 0) chmodSync(path, PRIVATE);
}

function unsafe(path: string, why: string) {
  return fail("failed", "folder-unsafe", `${path} ${why}`, "move it away and try again");
}
