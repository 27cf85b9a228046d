/**
 * The login of a thread's Codex: `auth.json` in the generated CODEX_HOME (0.171.0 reads no other one). `copy`: the
 * person's as it is at the start; `link`: the person's own file, for logins whose tokens rotate; `env:NAME`: the API key
 * in that variable. Without a login of the person's there is none, and Codex shows its login screen where it needs one.
 */
import { lstatSync } from "node:fs";
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { readText, removeDurable, replaceLink, writeDurable } from "../../files.ts";

const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;

/** `home`: the generated one. `personal`: the person's CODEX_HOME. Throws KikiError `codex-auth`. */
export function provideAuth(
  setting: string,
  place: { home: string; personal: string; env: Record<string, string> },
): void {
  const to = join(place.home, "auth.json");
  const from = join(place.personal, "auth.json");
  const variable = VARIABLE.exec(setting)?.[1];
  if (variable !== undefined) {
    const key = place.env[variable] ?? "";
    if (key === "") {
      throw authError(
        `the variable ${variable} is empty or does not reach the agent`,
        `[agent.env] ${variable}, or set it where kk new is run`,
      );
    }
    writeDurable(to, `${JSON.stringify({ OPENAI_API_KEY: key })}\n`, 0o600);
  } else if (setting === "link") {
    if (personalLogin(from) === null) throw authError(`there is no ${from}`, "codex login");
    replaceLink(to, from);
  } else if (setting === "copy") {
    copyLogin(from, to);
  } else {
    throw authError(`agent.codex.auth cannot be ${setting}`, "copy, link or env:NAME");
  }
}

function copyLogin(from: string, to: string): void {
  const login = personalLogin(from);
  // Left by `link`: what it shows is the person's, not the thread's own.
  if (lstatSync(to, { throwIfNoEntry: false })?.isSymbolicLink() === true) removeDurable(to);
  if (login === null) return; // somebody may have logged in inside the thread
  const own = readText(to);
  // Tokens rotate: the copy's may have been renewed since.
  if (own !== null && renewedAt(own) > renewedAt(login)) return;
  writeDurable(to, login, 0o600);
}

function personalLogin(from: string): string | null {
  try {
    return readText(from);
  } catch (error) {
    throw authError(`${from} cannot be read: ${errorLine(error)}`, "codex login");
  }
}

/** Milliseconds; 0 for an API key, which is never renewed. */
function renewedAt(login: string): number {
  try {
    const { last_refresh: at } = JSON.parse(login) as { last_refresh?: unknown };
    return typeof at === "string" ? Date.parse(at) || 0 : 0;
  } catch {
    return 0;
  }
}

function authError(what: string, hint: string): Error {
  return fail("failed", "codex-auth", `the login for Codex cannot be provided: ${what}`, hint);
}
