/**
 * What recovering edits needs of jj's and git's files beyond jj's commands: what a commit holds byte for byte, where
 * git HEAD stands, and every file of a workspace that the probe could make nothing of.
 */
import { lstatSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import { fail } from "../../core/errors.ts";
import type { CommitId, OpId } from "../../core/ids.ts";
import type { LooseFile } from "../../ports/jj.ts";
import { readBytes } from "../files.ts";
import { gitOutput } from "./cli.ts";
import { contentHash } from "./content.ts";
import type { JjContext } from "./context.ts";
import { colocatedGitDir, headCommit } from "./git-head.ts";
import { gitStore } from "./locate.ts";
import { OpStore } from "./op-store.ts";
import { parseCheckout, parseTreeState } from "./protobuf.ts";
import { GitTrees, resolveEntry } from "./trees.ts";
import { listOthers, realFolders, splitAtZero } from "./working-copy.ts";

export async function touchedPaths(
  ctx: JjContext,
  treesOf: (gitDir: string) => GitTrees,
  from: CommitId,
  to: CommitId,
): Promise<string[]> {
  const trees = treesOf(gitStoreOf(ctx));
  const commits = await trees.commits([from, to]);
  return [...(await trees.touched(commits.flatMap((commit) => commit.trees)))].sort();
}

export async function differing(
  ctx: JjContext,
  commit: CommitId,
  folder: string,
  paths: readonly string[],
): Promise<string[]> {
  if (paths.length === 0) return [];
  const trees = new GitTrees(ctx, gitStoreOf(ctx));
  const [stored] = await trees.commits([commit]);
  const terms = await Promise.all(stored!.trees.map((tree) => trees.listing(tree)));
  const isRealFolder = realFolders(folder);
  return paths.filter((path) => {
    const entry = resolveEntry(terms, path);
    if (entry === "conflict") return true;
    const found = isRealFolder(dirname(path)) ? onDisk(join(folder, path)) : null;
    return found?.mode !== entry?.mode || found?.blob !== entry?.id;
  });
}

/** As git would record it; null for what is gone, or is no file. */
function onDisk(path: string): { mode: string; blob: string } | null {
  const stat = statOf(path);
  if (stat === null || !(stat.isFile() || stat.isSymbolicLink())) return null;
  const executable = (stat.mode & 0o111) !== 0;
  const mode = stat.isSymbolicLink() ? "120000" : executable ? "100755" : "100644";
  return { mode, blob: contentHash(path, stat).blob };
}

function statOf(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch (error) {
    const { code } = error as { code?: string };
    // A file where a folder was: nothing of that folder is there.
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

/** jj expects what its view records, and where it records none the first parent at the checkout (see probe.ts). */
export async function gitHead(
  ctx: JjContext,
  workspaceRoot: string,
  workspace: string,
  op: OpId,
): Promise<{ actual: CommitId | null; expected: CommitId | null } | null> {
  const store = gitStoreOf(ctx);
  const gitDir = colocatedGitDir(workspaceRoot, store);
  if (gitDir === null) return null;
  const actual = await headCommit(ctx, gitDir);
  const ops = new OpStore(ctx.location.repoDir);
  const recorded = ops.view(op)?.gitHeads.get(workspace);
  if (recorded !== undefined) return { actual, expected: recorded };
  const checkout = readBytes(join(workspaceRoot, ".jj/working_copy/checkout"));
  const base =
    checkout === null ? undefined : ops.view(parseCheckout(checkout).op)?.workspaces.get(workspace);
  if (base === undefined) return { actual, expected: null };
  const [commit] = await new GitTrees(ctx, store).commits([base]);
  return { actual, expected: commit?.parents[0] ?? null };
}

export async function looseFiles(ctx: JjContext, workspaceRoot: string): Promise<LooseFile[]> {
  const result = await listOthers(ctx, gitStoreOf(ctx), workspaceRoot);
  const found = new Map<string, LooseFile>();
  for (const path of splitAtZero(result.stdout))
    found.set(path.toString("latin1"), { path, tracked: false });
  // Tracked files may be ignored by now.
  for (const text of trackedPaths(workspaceRoot)) {
    const path = Buffer.from(text, "utf8");
    found.set(path.toString("latin1"), { path, tracked: true });
  }
  return [...found.values()];
}

function trackedPaths(workspaceRoot: string): string[] {
  const bytes = readBytes(join(workspaceRoot, ".jj/working_copy/tree_state"));
  try {
    return bytes === null ? [] : parseTreeState(bytes).files.map((file) => file.path);
  } catch {
    return [];
  }
}

/** In the repository's own store, so that a worktree's end does not take it along. */
export async function pinCommit(ctx: JjContext, ref: string, commit: CommitId): Promise<void> {
  await gitOutput(ctx, gitStoreOf(ctx), ["update-ref", ref, commit]);
}

export async function setGitHead(
  ctx: JjContext,
  workspaceRoot: string,
  commit: CommitId,
): Promise<void> {
  const gitDir = colocatedGitDir(workspaceRoot, gitStoreOf(ctx));
  if (gitDir === null)
    throw fail("failed", "git-failed", `${workspaceRoot} shares nothing with git`);
  await gitOutput(ctx, gitDir, ["update-ref", "--no-deref", "HEAD", commit]);
}

export function gitStoreOf(ctx: JjContext): string {
  const store = gitStore(ctx.location.repoDir);
  if (store === null) throw fail("failed", "git-failed", "the repository's git store is missing");
  return store;
}
