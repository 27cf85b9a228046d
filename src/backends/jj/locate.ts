/** From a folder to the jj workspace and repository it lies in; reads a few small files, never runs jj. */
import { realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { RepoLocation } from "../../ports/jj.ts";
import { readText } from "../files.ts";

/** Walks up from `folder` to the nearest workspace; null when there is none up to the root. */
export function locate(folder: string): RepoLocation | null {
  const start = real(folder);
  if (start === null) return null;
  for (let at = start; ; at = dirname(at)) {
    const repoDir = repoDirOf(at);
    if (repoDir !== null) {
      const repoRoot = dirname(dirname(repoDir));
      return { workspaceRoot: at, repoRoot, repoDir, colocated: isColocated(repoRoot, repoDir) };
    }
    if (dirname(at) === at) return null;
  }
}

/**
 * `.jj/repo` of a workspace, resolved: a directory in the workspace that holds the repository, a file with a path
 * relative to `.jj` in every other one. null when `workspaceRoot` is no jj workspace or its repository is gone.
 */
export function repoDirOf(workspaceRoot: string): string | null {
  const link = join(workspaceRoot, ".jj/repo");
  if (isFolder(link)) return real(link);
  let text: string | null;
  try {
    text = readText(link);
  } catch {
    return null;
  }
  if (text === null) return null;
  const target = resolve(join(workspaceRoot, ".jj"), text.trim());
  return isFolder(target) ? real(target) : null;
}

/** The git directory jj stores its commits in, resolved; null when it cannot be found. */
export function gitStore(repoDir: string): string | null {
  const store = join(repoDir, "store");
  const target = readText(join(store, "git_target"));
  return target === null ? null : real(resolve(store, target.trim()));
}

function isColocated(repoRoot: string, repoDir: string): boolean {
  const store = gitStore(repoDir);
  return store !== null && store === real(join(repoRoot, ".git"));
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function real(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}
