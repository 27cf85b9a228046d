/**
 * A set-up recipe: files to copy from the main workspace into a new one, and a command to run there. The pure part:
 * which patterns are acceptable, how the command is started so that it runs at most once, what its end means.
 */
import { err, ok, type Result } from "./result.ts";

/** What a person approved: exactly these files, exactly this command. Kept in the journal. */
export interface SetupRecipe {
  /** Relative to the main workspace's root; found when the plan was made. */
  files: string[];
  run: string;
  timeoutS: number;
  /** Layer of the configuration the recipe comes from. */
  source: string;
  /** Hex SHA-256 over patterns and command: what "the same recipe" means. */
  sha256: string;
}

export type SetupOutcome =
  | { is: "ok" }
  /** `code` as a shell reports it: 128 + n for signal n. */
  | { is: "failed"; code: number }
  | { is: "timed-out"; afterS: number }
  /** It had begun and nobody saw its end; it is not run again. */
  | { is: "unknown" }
  | { is: "not-started"; why: string };

/** Folders that are tools' own, wherever they lie in a workspace. */
const TOOL_FOLDERS: ReadonlySet<string> = new Set([".jj", ".git"]);

/** A pattern as it is matched, without `.` and empty parts; the error says why it is refused. */
export function checkPattern(pattern: string): Result<string, string> {
  if (pattern.startsWith("/") || pattern.startsWith("~")) return err("is not relative");
  const parts = pattern.split("/").filter((part) => part !== "" && part !== ".");
  const plain = parts.join("/");
  if (plain === "" || pattern.includes("\0")) return err("names no file");
  if (parts.includes("..")) return err("leads out of the repository");
  if (inToolFolder(plain)) return err("belongs to jj or git");
  return ok(plain);
}

/** Whether a relative path lies in jj's or git's own folder. */
export function inToolFolder(path: string): boolean {
  return path.split("/").some((part) => TOOL_FOLDERS.has(part));
}

/**
 * Runs `$1` and leaves its exit status in `$3`. `$2` is claimed first by a file that must not exist yet (`set -C`), so
 * however often this is started, after a crash for example, the command runs at most once. SIGTERM ends the command
 * (a trapped signal is reset for children), not the shell that reports its status.
 */
const WRAPPER = [
  "umask 077",
  "trap : TERM HUP INT",
  '(set -C; echo "$$" >"$2") 2>/dev/null || exit 112',
  "umask 022",
  'sh -c "$1"',
  "code=$?",
  "umask 077",
  'echo "$code" >"$3.new" && mv "$3.new" "$3"',
].join("\n");

/** Argument vector that runs `command` once. `token` makes the process recognisable. */
export function setupArgv(
  command: string,
  of: { token: string; claim: string; status: string },
): string[] {
  return ["/bin/sh", "-c", WRAPPER, `kiki-setup-${of.token}`, command, of.claim, of.status];
}

/** Name of the variable that every process of a recipe inherits; its value is the token. */
export const SETUP_MARKER = "KIKI_SETUP";

/** null when the text is no exit status (the disk was full, for example). */
export function exitStatus(text: string): SetupOutcome | null {
  const code = Number(text.trim());
  if (text.trim() === "" || !Number.isInteger(code)) return null;
  return code === 0 ? { is: "ok" } : { is: "failed", code };
}

const SIGNAL_BASE = 128;

/** The rest of a sentence that begins "the set-up recipe"; null when there is nothing to say. */
export function outcomeText(outcome: SetupOutcome | null): string | null {
  switch (outcome?.is) {
    case undefined:
    case "ok":
      return null;
    case "failed":
      return outcome.code > SIGNAL_BASE
        ? `was ended by signal ${outcome.code - SIGNAL_BASE}`
        : `failed (exit code ${outcome.code})`;
    case "timed-out":
      return `was ended after ${outcome.afterS} s`;
    case "unknown":
      return "ended without saying how (it was killed, or the disk is full), so its outcome is unknown; it was not run again";
    case "not-started":
      return `could not be run: ${outcome.why}`;
  }
}
