/**
 * How kiki calls jj (0.46). Every read names a full operation: `--ignore-working-copy` alone is no pure read, it
 * merges divergent operation heads. Every mutation carries the caller's token in its recorded arguments.
 */
import { tokenArguments } from "../../core/attribution.ts";
import { fail } from "../../core/errors.ts";
import { isOpId, type OpId } from "../../core/ids.ts";
import { run, type RunResult } from "../exec.ts";
import type { JjContext } from "./context.ts";
import { isLockFailure, jjError } from "./errors.ts";
import { isHeld, opHeadsLock, workingCopyLock } from "./locks.ts";

/** Settings that would change what kiki parses or let jj do more than it was asked to. */
export const FIXED: readonly string[] = [
  "--no-pager",
  "--color=never",
  ...[
    "snapshot.auto-update-stale=false",
    "ui.paginate=never",
    "ui.quiet=false", // staged operation ids are read from stderr
    "ui.log-word-wrap=false",
    "operation.username=kiki",
  ].flatMap((setting) => ["--config", setting]),
];

export interface ReadOptions {
  /** Workspace whose `@` and settings apply; default: the workspace that holds the repository. */
  workspaceRoot?: string;
  /** Cap on the output; longer output is cut and not an error. */
  cutAtBytes?: number;
}

/** `readBytes` as text. */
export async function read(...args: Parameters<typeof readBytes>): Promise<string> {
  return (await readBytes(...args)).toString("utf8");
}

/** Runs a read-only jj command against exactly `op` and returns its stdout. Writes nothing, takes no lock. */
export async function readBytes(
  ctx: JjContext,
  op: OpId,
  what: string,
  args: readonly string[],
  options: ReadOptions = {},
): Promise<Buffer> {
  if (!isOpId(op)) throw fail("failed", "jj-op-missing", `not a full operation id: ${op}`);
  const folder = options.workspaceRoot ?? ctx.location.repoRoot;
  const result = await run({
    argv: ["jj", ...FIXED, "--at-op", op, "-R", folder, ...args],
    cwd: folder,
    env: ctx.env,
    timeoutMs: ctx.limits.readTimeoutMs,
    ...(options.cutAtBytes === undefined
      ? {}
      : { maxOutputBytes: options.cutAtBytes, cutOutput: true }),
  });
  if (result.code !== 0 && !result.cut) throw jjError(what, result);
  return result.stdout;
}

export interface MutateOptions {
  /** Folder given to `-R`; default: the neutral folder, from which nobody's files are snapshotted. */
  folder?: string;
  /** Asked before an attempt is repeated; default: repeat. */
  mayRepeat?: () => Promise<boolean>;
  /** Happens after every failed attempt, the last one included. False: another one must not follow. */
  mayRepeatAfter?: () => Promise<boolean>;
}

/**
 * Runs a mutating jj command whose operations carry `token`. A lock of git's held by somebody else is waited for
 * with bounded pauses (jj itself waits for its own locks), then it is `jj-locked`. kiki never removes a lock.
 */
export async function mutate(
  ctx: JjContext,
  token: string,
  what: string,
  args: readonly string[],
  options: MutateOptions = {},
): Promise<RunResult> {
  const folder = options.folder ?? ctx.neutral;
  for (let attempt = 0; ; attempt += 1) {
    const result = await run({
      argv: ["jj", ...FIXED, ...tokenArguments(token), "-R", folder, ...args],
      cwd: folder,
      env: ctx.env,
      timeoutMs: ctx.limits.mutateTimeoutMs,
    });
    if (result.code === 0) return result;
    const clean = (await options.mayRepeatAfter?.()) ?? true;
    if (result.timedOut) throw lockedOrSlow(ctx, folder, what, result);
    const pause = ctx.limits.lockBackoffMs[attempt];
    if (!isLockFailure(result) || pause === undefined || !clean) throw jjError(what, result);
    await ctx.clock.sleep(pause);
    if (options.mayRepeat !== undefined && !(await options.mayRepeat()))
      throw jjError(what, result);
  }
}

/** Runs a git command that only reads, in the repository's git store, with the given working folder. */
export async function git(
  ctx: JjContext,
  gitDir: string,
  args: readonly string[],
  options: {
    cwd?: string;
    input?: string;
    env?: Record<string, string>;
    /** Longer output is cut, which is no error. */
    cutAtBytes?: number;
  } = {},
): Promise<RunResult> {
  return run({
    argv: ["git", `--git-dir=${gitDir}`, ...args],
    cwd: options.cwd ?? ctx.location.repoRoot,
    env: { ...ctx.env, GIT_OPTIONAL_LOCKS: "0", ...options.env },
    timeoutMs: ctx.limits.readTimeoutMs,
    ...(options.input === undefined ? {} : { input: options.input }),
    ...(options.cutAtBytes === undefined
      ? {}
      : { maxOutputBytes: options.cutAtBytes, cutOutput: true }),
  });
}

/** The output of `git`, which must have succeeded. */
export async function gitOutput(...args: Parameters<typeof git>): Promise<Buffer> {
  const result = await git(...args);
  if (result.timedOut)
    throw fail("failed", "git-timeout", `git ${args[2][0]} did not finish in time`, "try again");
  if (result.code !== 0) {
    throw fail("failed", "git-failed", `git ${args[2][0]} failed: ${result.stderr.split("\n")[0]}`);
  }
  return result.stdout;
}

/** jj waits for its own locks without a word, so a time-out may mean that somebody holds one. */
function lockedOrSlow(ctx: JjContext, folder: string, what: string, result: RunResult): Error {
  const held = [opHeadsLock(ctx.location.repoDir), workingCopyLock(folder)].find(isHeld);
  if (held === undefined) return jjError(what, result);
  return fail(
    "failed",
    "jj-locked",
    `jj could not ${what}: another process holds ${held}`,
    "let that jj command finish, or end it, then try again",
  );
}
