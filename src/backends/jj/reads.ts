/** The pure reads of `JjRepo`. Each takes a full operation id, except `heads` and `statusText`, which look at now. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail, KikiError } from "../../core/errors.ts";
import { isOpId, short, type CommitId, type OpId } from "../../core/ids.ts";
import type {
  BookmarkView,
  CommitRelations,
  CommitView,
  JjDiff,
  JjOperation,
  WorkspaceView,
} from "../../ports/jj.ts";
import { run } from "../exec.ts";
import { listDir } from "../files.ts";
import { FIXED, read } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { jjError } from "./errors.ts";
import {
  BOOKMARK_TEMPLATE,
  COMMIT_TEMPLATE,
  CONFLICTS_TEMPLATE,
  DIFF_TEMPLATE,
  OPERATION_TEMPLATE,
  parseBookmarks,
  parseChanges,
  parseCommits,
  parseDiff,
  parseOperations,
  parsePaths,
  parseRelations,
  parseWorkspaces,
  relationsTemplate,
  WORKSPACE_TEMPLATE,
} from "./templates.ts";

/** jj creates the new head ~0.1 ms before it deletes the old one. */
const HEADS_SETTLE_MS = 5;
const HEADS_LISTINGS = 3;
/** Ids in one revset; an argument may have 128 KiB on Linux. */
const MAX_IDS_PER_REVSET = 500;
/** Longer diffs are cut: nobody and no model reads them. */
const MAX_DIFF_BYTES = 1024 * 1024;

export function headsFolder(ctx: JjContext): string {
  return join(ctx.location.repoDir, "op_heads/heads");
}

/** Current heads, sorted. More than one (or none) is believed only when it is still so a moment later. */
export async function heads(ctx: JjContext): Promise<OpId[]> {
  const folder = headsFolder(ctx);
  for (let listing = 1; ; listing += 1) {
    // The folder also holds a file `lock` while an operation is published.
    const ids = listDir(folder).filter(isOpId);
    if (ids.length === 1) return ids;
    if (listing === HEADS_LISTINGS) {
      if (ids.length > 0) return ids;
      throw fail(
        "failed",
        "jj-no-heads",
        `no operation head in ${folder}: the repository is gone or damaged`,
      );
    }
    await ctx.clock.sleep(HEADS_SETTLE_MS);
  }
}

/** Newest first, every parent named. */
export async function operations(
  ctx: JjContext,
  head: OpId,
  limit: number,
): Promise<JjOperation[]> {
  const args = ["op", "log", "--no-graph", "-n", String(limit), "-T", OPERATION_TEMPLATE];
  return parseOperations(await read(ctx, head, "read the operation log", args));
}

export function operationExists(ctx: JjContext, id: OpId): boolean {
  return isOpId(id) && existsSync(join(ctx.location.repoDir, "op_store/operations", id));
}

export async function workspaces(ctx: JjContext, op: OpId): Promise<WorkspaceView[]> {
  const args = ["workspace", "list", "-T", WORKSPACE_TEMPLATE];
  return parseWorkspaces(await read(ctx, op, "list workspaces", args));
}

/** `trunk()` answers the root commit (40 zeros) in a repository without remote bookmarks. */
export async function commits(ctx: JjContext, op: OpId, revset: string): Promise<CommitView[]> {
  const args = ["log", "--no-graph", `--revision=${revset}`, "-T", COMMIT_TEMPLATE];
  return parseCommits(await read(ctx, op, `resolve ${quote(revset)}`, args));
}

export async function existing(
  ctx: JjContext,
  op: OpId,
  ids: readonly CommitId[],
): Promise<CommitView[]> {
  const found: CommitView[] = [];
  for (let at = 0; at < ids.length; at += MAX_IDS_PER_REVSET) {
    const part = ids.slice(at, at + MAX_IDS_PER_REVSET).map((id) => `present(${id})`);
    found.push(...(await commits(ctx, op, part.join("|"))));
  }
  return found;
}

/** Ids are few: each of `of` is a search of the graph per commit. */
export async function relations(
  ctx: JjContext,
  op: OpId,
  ids: readonly CommitId[],
  of: readonly CommitId[],
): Promise<CommitRelations[]> {
  const [wanted, against] = [[...new Set(ids)], [...new Set(of)]];
  const found: CommitRelations[] = [];
  for (let at = 0; at < wanted.length; at += MAX_IDS_PER_REVSET) {
    const part = wanted.slice(at, at + MAX_IDS_PER_REVSET).map((id) => `present(${id})`);
    const revset = `--revision=${part.join("|")}`;
    const args = ["log", "--no-graph", revset, "-T", relationsTemplate(against)];
    found.push(...parseRelations(await read(ctx, op, "compare commits", args), against));
  }
  return found;
}

export async function isAncestor(
  ctx: JjContext,
  op: OpId,
  ancestor: CommitId,
  of: CommitId,
): Promise<boolean> {
  if (ancestor === of) return true;
  return (await commits(ctx, op, `present(${ancestor}) & ::${of}`)).length > 0;
}

/** `jj evolog` follows every recorded predecessor: of a squash both the destination and the source (jj 0.46). */
export async function evolvedFrom(ctx: JjContext, op: OpId, commit: CommitId): Promise<CommitId[]> {
  const args = ["evolog", "--no-graph", "-r", commit, "-T", 'commit.commit_id() ++ "\n"'];
  const text = await read(ctx, op, `read how ${commit} evolved`, args);
  return text.split("\n").filter((line) => line !== "");
}

export async function bookmarks(ctx: JjContext, op: OpId): Promise<BookmarkView[]> {
  const args = ["bookmark", "list", "-T", BOOKMARK_TEMPLATE];
  return parseBookmarks(await read(ctx, op, "list bookmarks", args));
}

export async function changedPaths(
  ctx: JjContext,
  op: OpId,
  from: CommitId,
  to: CommitId,
): Promise<{ status: string; path: string }[]> {
  const args = ["diff", "--from", from, "--to", to, "-T", DIFF_TEMPLATE];
  return parseChanges(await read(ctx, op, "compare two commits", args));
}

export async function conflictedPaths(
  ctx: JjContext,
  op: OpId,
  commit: CommitId,
): Promise<string[]> {
  const args = ["log", "--no-graph", "-r", commit, "-T", CONFLICTS_TEMPLATE];
  return parsePaths(await read(ctx, op, "list conflicts", args));
}

/** `interdiff` (jj 0.46) rebases `from` onto the parents of `to` in memory, and compares descriptions as well. */
export async function sameChange(
  ctx: JjContext,
  op: OpId,
  from: CommitId,
  to: CommitId,
): Promise<boolean> {
  if (from === to) return true;
  const args = ["interdiff", "--git", "--from", from, "--to", to];
  const text = await read(ctx, op, "compare two changes", args, { cutAtBytes: MAX_DIFF_BYTES });
  return text === "";
}

/** One process for both forms: jj 0.46 prints a short one, then the other. */
export async function diff(
  ctx: JjContext,
  op: OpId,
  from: CommitId,
  to: CommitId,
): Promise<JjDiff> {
  const args = ["diff", "--stat", "--git", "--from", from, "--to", to];
  return parseDiff(await read(ctx, op, "show a diff", args, { cutAtBytes: MAX_DIFF_BYTES }));
}

/**
 * `jj st` of a workspace as of now. `--no-integrate-operation` snapshots into an operation nobody sees, so heads,
 * files and checkout stay as they are. Where jj would have to do more than that, one line says so instead: with
 * several operation heads that flag still merges them (jj 0.46), and a stale workspace cannot be snapshotted.
 */
export async function statusText(ctx: JjContext, workspaceRoot: string): Promise<string> {
  const now = await heads(ctx);
  if (now.length > 1) {
    return `${now.length} concurrent operations wait to be merged: the next jj command in this repository does it\n`;
  }
  const result = await run({
    argv: ["jj", ...FIXED, "--no-integrate-operation", "-R", workspaceRoot, "st"],
    cwd: workspaceRoot,
    env: ctx.env,
    timeoutMs: ctx.limits.readTimeoutMs,
  });
  if (result.code === 0) return result.stdout.toString("utf8");
  const error = jjError("show the status", result);
  if (!(error instanceof KikiError) || error.code !== "jj-stale") throw error;
  // jj imports a moved git HEAD first, into an operation that is not published, and then finds itself behind it.
  if (result.stderr.includes("to the new Git HEAD")) {
    return "git HEAD of this workspace has moved: the next jj command here brings its commits in\n";
  }
  return `workspace is stale: files are from before operation ${short(now[0]!)}\n`;
}

function quote(revset: string): string {
  return `\`${revset.length > 80 ? `${revset.slice(0, 80)}…` : revset}\``;
}
