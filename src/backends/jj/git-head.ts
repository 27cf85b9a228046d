/**
 * git HEAD of a colocated workspace. Whenever jj (0.46) runs there and HEAD is not what the current view records
 * for that workspace (view field 13), it takes the difference for the person's `git commit` or `git switch` and
 * moves `@`; on a stale workspace that brings the old parent back.
 */
import { existsSync, lstatSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CommitId } from "../../core/ids.ts";
import { readText } from "../files.ts";
import { git } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { Unproved } from "./unproved.ts";

/**
 * The git directory of the workspace itself when it is colocated: `.git` there belongs to the repository's git store,
 * as the directory itself or as a worktree of it. null otherwise; jj then ignores a `.git`.
 */
export function colocatedGitDir(workspaceRoot: string, gitStore: string): string | null {
  const dotGit = join(workspaceRoot, ".git");
  const stat = lstatSync(dotGit, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  let dir = dotGit;
  if (stat.isFile()) {
    const link = /^gitdir: (.+)$/m.exec(readText(dotGit) ?? "")?.[1];
    if (link === undefined) return null;
    dir = resolve(workspaceRoot, link);
  }
  if (!existsSync(dir)) return null;
  const common = readText(join(dir, "commondir"));
  const store = common === null ? dir : resolve(dir, common.trim());
  return existsSync(store) && realpathSync(store) === gitStore ? dir : null;
}

/** The commit HEAD names; null while it is unborn. */
export async function headCommit(ctx: JjContext, gitDir: string): Promise<CommitId | null> {
  const text = readText(join(gitDir, "HEAD"))?.trim();
  if (text === undefined) throw new Unproved("unreadable", `${gitDir} has no HEAD`);
  if (/^[0-9a-f]{40}$/.test(text)) return text;
  const result = await git(ctx, gitDir, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
  return result.code === 0 ? result.stdout.toString("utf8").trim() : null;
}
