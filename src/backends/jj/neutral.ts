/**
 * The neutral folder: a jj workspace of kiki's own, forgotten as soon as it is made. jj 0.46 still accepts it as
 * `-R`, there is nothing in it to snapshot, and no trace of it in the person's `jj log` or `jj workspace list`.
 * From it a mutation neither snapshots nor exports into anybody's files, and cannot move a git HEAD.
 */
import { existsSync, realpathSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail } from "../../core/errors.ts";
import { ensureDir, listDir } from "../files.ts";
import { mutate } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { repoDirOf } from "./locate.ts";
import { heads, workspaces } from "./reads.ts";

/**
 * Idempotent, and repairs what a crash between its two commands leaves. Making it snapshots the person's main
 * workspace once, as any jj command there does; a stale main workspace is `jj-stale`.
 */
export async function ensureNeutral(ctx: JjContext, token: string): Promise<void> {
  if (!isUsable(ctx)) {
    clear(ctx);
    ensureDir(dirname(ctx.neutral), 0o700);
    const name = `kiki-neutral-${token.replace(/[^0-9A-Za-z]/g, "").slice(0, 8)}`;
    await mutate(
      ctx,
      token,
      "make its own folder",
      [
        "workspace",
        "add",
        "--no-colocate",
        "--sparse-patterns=full",
        "--name",
        name,
        "--revision",
        "root()",
        ctx.neutral,
      ],
      { folder: ctx.location.repoRoot },
    );
  }
  for (const name of await recordedNames(ctx)) {
    await mutate(ctx, token, `forget workspace ${name}`, [
      "--ignore-working-copy",
      "workspace",
      "forget",
      name,
    ]);
  }
}

function isUsable(ctx: JjContext): boolean {
  return (
    repoDirOf(ctx.neutral) === ctx.location.repoDir &&
    existsSync(join(ctx.neutral, ".jj/working_copy/checkout"))
  );
}

/** Names under which some current view still records the folder: none, except after a crash. */
async function recordedNames(ctx: JjContext): Promise<string[]> {
  const names = new Set<string>();
  // jj records resolved paths; kiki's state folder may be reached through a symlink.
  const folder = realpathSync(ctx.neutral);
  for (const head of await heads(ctx)) {
    for (const { workspace, root } of await workspaces(ctx, head)) {
      if (root === folder) names.add(workspace);
    }
  }
  return [...names];
}

/** Removes a half-made folder, or one of a repository that has moved. Never anything but jj's own folder in it. */
function clear(ctx: JjContext): void {
  const foreign = listDir(ctx.neutral).filter((name) => name !== ".jj");
  if (foreign.length > 0) {
    throw fail(
      "failed",
      "jj-neutral",
      `${ctx.neutral} holds files that are not kiki's: ${foreign.join(", ")}`,
      "move them away, then try again",
    );
  }
  rmSync(ctx.neutral, { recursive: true, force: true });
}
