/** jj's failures as KikiErrors with stable `jj-…` codes; the message carries jj's own first line. */
import { resolve } from "node:path";
import { fail, type KikiError } from "../../core/errors.ts";
import { firstLine, type RunResult } from "../exec.ts";

interface Pattern {
  code: string;
  pattern: RegExp;
  hint?: string;
}

/** Texts of jj 0.46.0. The first match wins; what nothing matches is `jj-failed`. */
const PATTERNS: readonly Pattern[] = [
  {
    code: "jj-disk-full",
    pattern: /No space left on device|Disk quota exceeded/,
    hint: "the disk is full: make room, then try again",
  },
  {
    code: "jj-locked",
    pattern:
      /could not be obtained|Could not (?:acquire lock|lock )|Failed to lock|Unable to create '.*\.lock'/,
    hint: "another jj or git command holds the lock; try again when it has finished",
  },
  {
    code: "jj-stale",
    pattern: /working copy is stale/,
    hint: "run `jj workspace update-stale` in that workspace",
  },
  { code: "jj-workspace-exists", pattern: /Workspace named '.*' already exists/ },
  { code: "jj-workspace-missing", pattern: /No such workspace/ },
  {
    code: "git-too-old",
    pattern: /Git does not recognize required option/,
    hint: "install git 2.42 or newer",
  },
  { code: "jj-immutable", pattern: /is immutable/ },
  { code: "jj-moved", pattern: /didn't resolve to any revisions/ },
  { code: "jj-bookmark-exists", pattern: /Bookmark already exists/ },
  { code: "jj-op-missing", pattern: /No operation ID matching|Operation ID .* is ambiguous/i },
  {
    code: "jj-revset",
    pattern:
      /Failed to parse revset|Revision `.*` doesn't exist|is ambiguous|is divergent|Name `.*` is conflicted|doesn't have a working-copy commit/,
    hint: "`jj help -k revsets` explains revsets",
  },
];

/** A failed command as an error. `what` says in words what kiki wanted ("add workspace kk-x"). */
export function jjError(what: string, result: RunResult): KikiError {
  const line = errorLineOf(result.stderr);
  if (result.timedOut) {
    return fail(
      "failed",
      "jj-timeout",
      `jj could not ${what}: it did not finish in time`,
      "try again; `jj op log` shows what it was doing",
    );
  }
  const known = PATTERNS.find(({ pattern }) => pattern.test(result.stderr));
  const ending = result.signal === null ? line : `ended by ${result.signal}`;
  const lock = known?.code === "jj-locked" ? lockFileOf(result.stderr) : null;
  const hint = lock === null ? known?.hint : heldHint(lock);
  return fail("failed", known?.code ?? "jj-failed", `jj could not ${what}: ${ending}`, hint);
}

/** What to do about a lock file that git, or jj for git, has made. kiki never removes one. */
export function heldHint(lock: string): string {
  return `wait for the git command that holds ${lock}; if none runs any more, it is left over: delete it`;
}

/** gitoxide and git name the file. */
function lockFileOf(stderr: string): string | null {
  const found = /The lockfile at "(.+?)" might|Unable to create '(.+?\.lock)'/.exec(stderr);
  const path = found?.[1] ?? found?.[2];
  return path === undefined ? null : resolve(path);
}

/** True when the command failed only because somebody held one of git's lock files. */
export function isLockFailure(result: RunResult): boolean {
  const pattern = PATTERNS.find(({ code }) => code === "jj-locked")!.pattern;
  return result.code !== 0 && !result.timedOut && pattern.test(result.stderr);
}

/** The line that says what is wrong: jj prints progress and warnings before it. */
function errorLineOf(stderr: string): string {
  const lines = stderr.split("\n");
  const error = lines.find((line) => /^(?:Internal )?error: /i.test(line));
  const cause = lines.find((line) => line.startsWith("1: "));
  if (error === undefined) return firstLine(stderr) || "it said nothing";
  const text = error.replace(/^(?:Internal )?error: /i, "");
  if (cause !== undefined) return `${text}: ${cause.slice(3)}`;
  // Where git has failed, jj passes its lines on below its own, and git's last one says why.
  const fatal = text.endsWith(":")
    ? lines.findLast((line) => line.startsWith("fatal: "))
    : undefined;
  return fatal === undefined ? text : `${text} ${fatal.slice("fatal: ".length)}`;
}
