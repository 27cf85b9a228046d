/**
 * Where jj writes when it is run in a workspace. Codex's own sandbox (`workspace-write`, 0.171.0) lets a command write the
 * workspace and temporary folders only, while the stores of a jj workspace lie with the main one: without these folders
 * every jj command that records anything fails with "Read-only file system".
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * Real paths, for `sandbox_workspace_write.writable_roots`: `.jj/repo` of the main workspace; the git store, where it lies
 * outside of that; and git's own folder of this worktree, named by itself because Codex keeps whatever the workspace's
 * `.git` points to read-only. jj makes lock files right in each of the three, so no part of one would do. Empty for a
 * folder that is no jj workspace; git is left out where jj keeps its commits elsewhere.
 */
export function jjStores(workspace: string): string[] {
  const repo = pointedTo(join(workspace, ".jj/repo"), /^(.+)$/, join(workspace, ".jj"));
  if (repo === null) return [];
  const store = join(repo, "store");
  const git = pointedTo(join(store, "git_target"), /^(.+)$/, store);
  const worktree = pointedTo(join(workspace, ".git"), /^gitdir: (.+)$/, workspace);
  const roots = [realpathSync(repo)];
  const add = (path: string | null): void => {
    if (path !== null) roots.push(realpathSync(path));
  };
  if (git !== null && !`${realpathSync(git)}/`.startsWith(`${roots[0]}/`)) add(git);
  // Inside the git store, and still named: only that lifts Codex's own protection of it.
  add(worktree);
  return [...new Set(roots)];
}

/** The folder a one-line file names, or the folder that stands in its place; null: neither is there. */
function pointedTo(path: string, line: RegExp, from: string): string | null {
  if (!existsSync(path)) return null;
  if (statSync(path).isDirectory()) return path;
  const named = line.exec(readFileSync(path, "utf8").trim())?.[1];
  const folder = named === undefined ? null : resolve(from, named);
  return folder !== null && existsSync(folder) ? folder : null;
}
