/**
 * Taking back a workspace folder that kiki made. It goes only when every file in it is provably jj's: the probe says
 * FreshClean, and what lies on disk is exactly what the checked-out commit holds, besides jj's and git's own. Even
 * then only those very files are unlinked, so one that appears meanwhile survives together with its folder.
 */
import { ROOT_COMMIT } from "../core/revset.ts";
import { write } from "../store/db.ts";
import { raiseAttention } from "../store/attention.ts";
import type { CreateContext } from "./creation-deps.ts";
import type { FoundWorkspace } from "./creation-jj.ts";

/** Top-level entries that jj and git put into a workspace. */
const TOOL_ENTRIES = [".jj", ".git"];
/** Names in the message about a folder that stays. */
const MAX_NAMED = 3;

/** `record`: the workspace as jj records it, when that record is this thread's. */
export async function removeWorkspaceFolder(
  ctx: CreateContext,
  at: { path: string; inode: string | null; record: FoundWorkspace | null },
): Promise<void> {
  const { files } = ctx.deps;
  const kind = await files.kind(at.path);
  if (kind === "absent") return;
  if (kind === "empty-folder") {
    await files.removeListed(at.path, [], []);
    return;
  }
  if (kind === "other") return keep(ctx, at.path, "it is not the folder kiki made");
  if (at.record === null) return keep(ctx, at.path, "jj does not say what its files are");
  if (at.inode !== null && at.inode !== (await files.inode(at.path))) {
    return keep(ctx, at.path, "it is not the folder kiki made");
  }
  const { op, view } = at.record;
  const probe = await ctx.deps.jj.probe(at.path, view.workspace, op);
  if (probe.state !== "FreshClean") {
    return keep(
      ctx,
      at.path,
      named(
        "it has changes",
        probe.changed.map((c) => c.slice(2)),
      ),
    );
  }
  const tracked = await ctx.deps.jj.changedPaths(op, ROOT_COMMIT, view.commitId);
  const expected = new Set(tracked.map((t) => t.path));
  const present = await files.listFiles(at.path, TOOL_ENTRIES);
  const others = present.filter((path) => !expected.has(path));
  if (others.length > 0) return keep(ctx, at.path, named("it has files of its own", others));
  if (!(await files.removeListed(at.path, present, TOOL_ENTRIES))) {
    keep(ctx, at.path, "something appeared in it just now");
  }
}

function named(what: string, paths: readonly string[]): string {
  if (paths.length === 0) return what;
  const more = paths.length > MAX_NAMED ? ", …" : "";
  return `${what} (${paths.slice(0, MAX_NAMED).join(", ")}${more})`;
}

function keep(ctx: CreateContext, path: string, why: string): void {
  const { db, clock, log } = ctx.deps;
  const message = `kept ${path}: ${why}`;
  log.warn(message);
  write(db, () => {
    raiseAttention(db, {
      threadId: ctx.threadId,
      kind: "folder-kept",
      dedupKey: ctx.operationId,
      message,
      loud: false,
      now: clock.now(),
    });
  });
}
