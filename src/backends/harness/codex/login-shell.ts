/**
 * The account's login shell, by which Codex runs every hook (0.171.0: `<shell> -c`, whatever SHELL says). Bun 1.4.5 gives
 * SHELL for it, so the account's line is read itself.
 */
import { basename } from "node:path";
import { fail } from "../../../core/errors.ts";
import { readText } from "../../files.ts";

export const PASSWD_FILE = "/etc/passwd";

/** Throws KikiError `hooks-not-exclusive` where it runs nothing: then no hook runs, and Codex runs every tool. */
export function checkLoginShell(file: string, uid: number | undefined = process.getuid?.()): void {
  const shell = shellOf(readText(file) ?? "", uid);
  if (shell === null || !/^(?:nologin|false|true)$/.test(basename(shell))) return;
  throw fail(
    "failed",
    "hooks-not-exclusive",
    `Codex runs hooks by the login shell, and that of this account is ${shell}, which runs nothing`,
    "chsh -s /bin/sh",
  );
}

/** null: the account is not listed there; it may be a directory service's. */
function shellOf(passwd: string, uid: number | undefined): string | null {
  for (const line of passwd.split("\n")) {
    const [, , id, , , , shell] = line.split(":");
    if (id === String(uid) && shell !== undefined) return shell.trim();
  }
  return null;
}
