/**
 * Commands of jj (0.46) whose very subject is a workspace's files. In a colocated one jj moves git HEAD first, then
 * writes git's index, then the files, then its operation. Where the index is held by somebody (`git status` of an editor
 * is enough) it stops in between, with HEAD moved and nothing else: its next command there takes HEAD for a person's
 * `git switch`, makes another `@`, and leaves the workspace's revision behind.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail } from "../../core/errors.ts";
import type { CommitId } from "../../core/ids.ts";
import { readBytes, readText } from "../files.ts";
import { git, mutate } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { heldHint } from "./errors.ts";
import { colocatedGitDir } from "./git-head.ts";
import { gitStore } from "./locate.ts";
import { OpStore } from "./op-store.ts";
import { parseCheckout } from "./protobuf.ts";
import { heads } from "./reads.ts";
import { GitTrees } from "./trees.ts";

/** Records the files of a fresh workspace in its `@`. In a colocated workspace git's commits come in too. */
export function snapshot(ctx: JjContext, workspaceRoot: string, token: string): Promise<void> {
  const args = ["util", "snapshot"];
  return inWorkspace(ctx, workspaceRoot, token, "record the files of a workspace", args);
}

/**
 * Brings the files of a stale workspace to what jj records. Exit code 0 in every case, also when it moved
 * unsnapshotted edits into a divergent commit: the caller probes before and after.
 */
export function updateStale(ctx: JjContext, workspaceRoot: string, token: string): Promise<void> {
  const args = ["workspace", "update-stale"];
  return inWorkspace(ctx, workspaceRoot, token, "update a stale workspace", args);
}

/** Snapshots the workspace first, as every jj command there does: the caller has found it clean. */
export function edit(
  ctx: JjContext,
  workspaceRoot: string,
  commit: CommitId,
  token: string,
): Promise<void> {
  const args = ["edit", commit];
  const what = "move a workspace to another revision";
  return inWorkspace(ctx, workspaceRoot, token, what, args, commit);
}

/** A workspace as git has it: its own git directory, and the store of all commits. */
interface Place {
  ctx: JjContext;
  root: string;
  store: string;
  gitDir: string;
}

/** `to`: the revision its `@` is to be; null: what jj records. */
async function inWorkspace(
  ctx: JjContext,
  root: string,
  token: string,
  what: string,
  args: readonly string[],
  to: CommitId | null = null,
): Promise<void> {
  const store = gitStore(ctx.location.repoDir);
  const gitDir = store === null ? null : colocatedGitDir(root, store);
  if (store === null || gitDir === null) {
    await mutate(ctx, token, what, args, { folder: root });
    return;
  }
  await waitForHead(ctx, gitDir, what);
  const before = readText(join(gitDir, "HEAD"));
  await mutate(ctx, token, what, args, {
    folder: root,
    // Somebody who commits or switches while the lock is waited for: jj would take that in on stale files.
    mayRepeat: async () => readText(join(gitDir, "HEAD")) === before,
    // What cannot be read says nothing about HEAD.
    mayRepeatAfter: () => putHeadBack({ ctx, root, store, gitDir }, before, to).catch(() => false),
  });
}

/** Where HEAD cannot be moved jj says so in a warning, and goes on without it: the workspace is left with the old one. */
async function waitForHead(ctx: JjContext, gitDir: string, what: string): Promise<void> {
  const lock = join(gitDir, "HEAD.lock");
  for (const pause of ctx.limits.lockBackoffMs) {
    if (!existsSync(lock)) return;
    await ctx.clock.sleep(pause);
  }
  if (existsSync(lock))
    throw fail("failed", "jj-locked", `jj could not ${what}: ${lock} is there`, heldHint(lock));
}

/**
 * HEAD as it was, where the failed command has moved it and recorded nothing. False: it is neither where it was nor where
 * the command would have put it, or could not be put back; another attempt would begin from there.
 */
async function putHeadBack(
  place: Place,
  before: string | null,
  to: CommitId | null,
): Promise<boolean> {
  const { ctx, gitDir } = place;
  const now = readText(join(gitDir, "HEAD"));
  if (now === before) return true;
  if (now === null || before === null) return false;
  const moved = await moveOfHead(place, now.trim(), to);
  if (moved === "recorded") return true;
  if (moved === "not the command's") return false;
  const symbolic = /^ref: (.+)$/.exec(before.trim())?.[1];
  const back =
    symbolic === undefined
      ? ["update-ref", "--no-deref", "HEAD", before.trim(), now.trim()]
      : ["symbolic-ref", "HEAD", symbolic];
  return (await git(ctx, gitDir, back)).code === 0;
}

async function moveOfHead(
  { ctx, root, store }: Place,
  now: string,
  to: CommitId | null,
): Promise<"recorded" | "the command's" | "not the command's"> {
  const checkout = readBytes(join(root, ".jj/working_copy/checkout"));
  if (checkout === null) return "not the command's";
  const { workspace } = parseCheckout(checkout);
  const ops = new OpStore(ctx.location.repoDir);
  const wanted = to === null ? [] : [to];
  for (const op of await heads(ctx)) {
    const view = ops.view(op);
    if (view?.gitHeads.get(workspace) === now) return "recorded";
    const at = view?.workspaces.get(workspace);
    if (to === null && at !== undefined) wanted.push(at);
  }
  const commits = await new GitTrees(ctx, store).commits(wanted);
  return commits.some((commit) => commit.parents[0] === now)
    ? "the command's"
    : "not the command's";
}
