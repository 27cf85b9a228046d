/**
 * The mutations of `JjRepo`. None passes `--ignore-immutable`, none resolves `@`: commits are named by full id.
 * All run from the neutral folder, except the two whose very subject is a workspace's files.
 */
import { existsSync, lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fail, KikiError } from "../../core/errors.ts";
import type { CommitId, OpId } from "../../core/ids.ts";
import type { StagedOperation } from "../../ports/jj.ts";
import { listDir } from "../files.ts";
import { gitOutput, mutate } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { gitStore } from "./locate.ts";
import { heads, operations } from "./reads.ts";
import { checkVersions } from "./versions.ts";

/** How far back a landed operation is looked for after a lock failure. */
const LANDED_SEARCH_OPS = 100;

export interface NewWorkspace {
  name: string;
  path: string;
  base: CommitId;
  at?: OpId;
  description: string;
  token: string;
}

/**
 * Adds a workspace at exactly `base`, as a git worktree when the repository is colocated (agents use git). jj 0.46
 * writes two operations, of which the first carries no arguments and shows `@` on the root commit.
 */
export async function addWorkspace(ctx: JjContext, input: NewWorkspace): Promise<void> {
  checkPlace(input.path);
  // An old git makes jj fail half-way, with a folder left behind.
  if (ctx.location.colocated) await checkVersions(ctx.env);
  const args = [
    ...(input.at === undefined ? [] : ["--at-op", input.at]),
    "workspace",
    "add",
    ctx.location.colocated ? "--colocate" : "--no-colocate",
    // "copy", the default, would take the neutral folder's, which nobody chose.
    "--sparse-patterns=full",
    `--name=${input.name}`,
    `--revision=${input.base}`,
    `--message=${input.description}`,
    input.path,
  ];
  try {
    await mutate(ctx, input.token, `add workspace ${input.name}`, args, {
      mayRepeat: async () => !exists(input.path) && !(await hasLanded(ctx, input.token)),
    });
  } catch (error) {
    if (!ctx.location.colocated || !(error instanceof KikiError) || error.code !== "jj-failed")
      throw error;
    throw fail(
      "failed",
      "jj-colocate-refused",
      `${error.message} (as a git worktree, because the repository is colocated)`,
      "`git worktree list` and `git worktree prune` in the repository may help",
    );
  }
}

/** Files stay; a described or non-empty `@` stays visible. A workspace that is not recorded is success. */
export async function forgetWorkspace(ctx: JjContext, name: string, token: string): Promise<void> {
  const args = ["--ignore-working-copy", "workspace", "forget", name];
  await mutate(ctx, token, `forget workspace ${name}`, args);
}

/**
 * jj 0.46 makes a git worktree with a colocated workspace and leaves it in git's list when it forgets it. Not `git
 * worktree prune`: that would drop every worktree whose folder is away, a person's on an unmounted disk as well.
 */
export async function forgetWorktree(ctx: JjContext, path: string): Promise<void> {
  const gitDir = ctx.location.colocated ? gitStore(ctx.location.repoDir) : null;
  if (gitDir === null || exists(path)) return;
  const list = await gitOutput(ctx, gitDir, ["worktree", "list", "--porcelain", "-z"]);
  if (!list.toString("utf8").split("\0").includes(`worktree ${path}`)) return;
  await gitOutput(ctx, gitDir, ["worktree", "remove", "--force", path]);
}

/** Abandons exactly these commits; their descendants are rebased by jj. */
export async function abandon(
  ctx: JjContext,
  ids: readonly CommitId[],
  token: string,
): Promise<void> {
  if (ids.length === 0) return;
  const args = ["--ignore-working-copy", "abandon", ids.join("|")];
  await mutate(ctx, token, "abandon revisions", args);
}

/** `jj-bookmark-exists` when there is one of that name, wherever it points. */
export async function createBookmark(
  ctx: JjContext,
  name: string,
  commit: CommitId,
  token: string,
  of?: string,
): Promise<void> {
  const at = of === undefined ? commit : `${commit} & ${JSON.stringify(of)}@`;
  const args = ["--ignore-working-copy", "bookmark", "create", `--revision=${at}`, name];
  await mutate(ctx, token, `create bookmark ${name}`, args, {
    mayRepeat: async () => !(await hasLanded(ctx, token)),
  });
}

/** To wherever it was told: that it goes backward or sideways was the caller's decision. */
export async function setBookmark(
  ctx: JjContext,
  name: string,
  commit: CommitId,
  token: string,
): Promise<void> {
  const where = ["--allow-backwards", `--revision=${commit}`, name];
  await mutate(ctx, token, `move bookmark ${name}`, [
    "--ignore-working-copy",
    "bookmark",
    "set",
    ...where,
  ]);
}

/** A bookmark that does not exist is success. */
export async function deleteBookmark(ctx: JjContext, name: string, token: string): Promise<void> {
  const args = ["--ignore-working-copy", "bookmark", "delete", `exact:${JSON.stringify(name)}`];
  await mutate(ctx, token, `delete bookmark ${name}`, args);
}

/**
 * `--ignore-working-copy` alone merges divergent heads (jj 0.46), under the op-heads lock: whoever comes second finds
 * them merged.
 */
export async function mergeHeads(ctx: JjContext, token: string): Promise<void> {
  await mutate(ctx, token, "merge operation heads", [
    "--ignore-working-copy",
    "op",
    "log",
    "--no-graph",
    "--limit=1",
    '--template=""',
  ]);
}

export interface StageRebase {
  at: OpId;
  chain: readonly CommitId[];
  onto: CommitId;
  token: string;
}

/**
 * Rebases exactly the commits of `chain` onto `onto` in an operation that is not published. `-r` keeps their order
 * among themselves and leaves every commit that is not named where its nearest unnamed ancestor is: a follows
 * child that shall come along must have its commits in `chain` too. `jj-nothing-staged` when all are in place.
 */
export async function stageRebase(ctx: JjContext, input: StageRebase): Promise<StagedOperation> {
  const result = await mutate(ctx, input.token, "rebase a thread's revisions", [
    "--at-op",
    input.at,
    "--no-integrate-operation",
    // Without it jj abandons divergent commits that the destination already has.
    "rebase",
    "--keep-divergent",
    `--revision=${input.chain.join("|")}`,
    `--onto=${input.onto}`,
  ]);
  const prefix = /requested: ([0-9a-f]{12,})/.exec(result.stderr)?.[1];
  if (prefix === undefined) {
    throw fail(
      "failed",
      "jj-nothing-staged",
      "jj staged no operation: the revisions are already in place",
    );
  }
  return { id: fullOperationId(ctx, prefix), notes: result.stderr.trim() };
}

/** Publishes a staged operation. No compare-and-swap: jj merges it with whatever else has landed. */
export async function integrate(ctx: JjContext, op: OpId, token: string): Promise<void> {
  await mutate(ctx, token, "publish a staged operation", [
    "--ignore-working-copy",
    "op",
    "integrate",
    op,
  ]);
}

function fullOperationId(ctx: JjContext, prefix: string): OpId {
  const ids = listDir(join(ctx.location.repoDir, "op_store/operations")).filter((id) =>
    id.startsWith(prefix),
  );
  const [id] = ids;
  if (id === undefined || ids.length > 1) {
    throw fail(
      "failed",
      "jj-op-missing",
      `the staged operation ${prefix} names ${ids.length} operations`,
    );
  }
  return id;
}

/** Some operation with this token is already part of the history: running the command again would repeat it. */
async function hasLanded(ctx: JjContext, token: string): Promise<boolean> {
  for (const head of await heads(ctx)) {
    const newest = await operations(ctx, head, LANDED_SEARCH_OPS);
    if (newest.some((op) => op.args.includes(token))) return true;
  }
  return false;
}

function checkPlace(path: string): void {
  if (exists(path)) {
    throw fail(
      "failed",
      "workspace-path-exists",
      `${path} already exists`,
      "move it away, or choose another name",
    );
  }
  if (!existsSync(dirname(path))) {
    throw fail(
      "failed",
      "workspace-parent-missing",
      `${dirname(path)} does not exist, so ${basename(path)} cannot be made there`,
      `mkdir -p ${dirname(path)}`,
    );
  }
}

function exists(path: string): boolean {
  // lstat: a broken symlink is in the way as well.
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
