/** Creation steps 3 and 4: the change the workspace was made with becomes the thread's head, and gets its bookmark. */
import { fail, KikiError } from "../core/errors.ts";
import type { ChangeId, CommitId, OpId } from "../core/ids.ts";
import type { Db } from "../store/db.ts";
import { setCheckpoint, setHead } from "../store/edges.ts";
import { clearHead } from "../store/threads.ts";
import { threadOf, type CreateContext } from "./creation-deps.ts";
import {
  attributeToken,
  awaitSurvivors,
  findWorkspace,
  isBehind,
  MAX_LOOKS,
  newTokens,
  operationsWithToken,
  unknown,
  type FoundWorkspace,
  type Tokens,
} from "./creation-jj.ts";
import type { StepDef } from "./saga.ts";

// ---- head ---------------------------------------------------------------------------------------------------

export interface HeadEvidence {
  op: OpId;
  commit: CommitId;
  change: ChangeId;
}

/** `workspace add` made the described change with the workspace; this step makes its exact `@` the thread's head. */
export const headStep: StepDef<CreateContext, { name: string; undoToken: string }, HeadEvidence> = {
  name: "head",
  identity: (ctx) => ({ name: threadOf(ctx).workspaceName, undoToken: newTokens(ctx).undoToken }),
  observe: () => ({ is: "not-done" }),
  async run(ctx, id) {
    return headOf(await ownWorkspace(ctx, id.name));
  },
  onCompleted: (db, ctx, evidence) => setHead(db, ctx.threadId, evidence),
  onCompensating: (db, ctx, id) => attributeToken(db, ctx, id.undoToken),
  async compensate(ctx, id, evidence) {
    const { jj } = ctx.deps;
    await awaitSurvivors(ctx.deps, id.undoToken);
    const record = await findWorkspace(jj, id.name);
    if (record === null || evidence === null) return;
    // A change that has content, or that work was stacked on, is somebody's: it stays.
    const { view } = record;
    if (view.changeId !== evidence.change || !view.empty || view.divergent) return;
    await jj.abandon([view.commitId], id.undoToken);
  },
  onCompensated: (db, ctx) => clearHead(db, ctx.threadId),
};

/**
 * In one view: what landed while jj made the workspace may have moved its base, and with it this change. What lands between
 * the merge of heads and the look is merged in its turn.
 */
async function ownWorkspace(ctx: CreateContext, name: string): Promise<FoundWorkspace> {
  for (let tries = 1; ; tries += 1) {
    await ctx.deps.refreshToFrontier(ctx.deps.repoId);
    try {
      const record = await findWorkspace(ctx.deps.jj, name);
      if (record !== null) return record;
    } catch (error) {
      const isMoment = error instanceof KikiError && error.code === "jj-heads-disagree";
      if (!isMoment || tries >= MAX_LOOKS) throw error;
      continue;
    }
    throw fail("failed", "workspace-gone", `jj no longer records workspace ${name}`);
  }
}

function headOf({ op, view }: FoundWorkspace): HeadEvidence {
  if (view.divergent) {
    throw fail(
      "failed",
      "head-divergent",
      `the change of ${view.workspace}@ has become divergent`,
      "jj log shows both versions; abandon one, then run kk new again",
    );
  }
  return { op, commit: view.commitId, change: view.changeId };
}

// ---- bookmark -----------------------------------------------------------------------------------------------

interface BookmarkIdentity extends Tokens {
  bookmark: string;
  workspace: string;
}

export const bookmarkStep: StepDef<CreateContext, BookmarkIdentity, HeadEvidence> = {
  name: "bookmark",
  identity(ctx) {
    const { bookmark, workspaceName: workspace } = threadOf(ctx);
    return { bookmark, workspace, ...newTokens(ctx) };
  },
  onStarted: (db, ctx, id) => attributeToken(db, ctx, id.token),
  async observe(ctx, id) {
    await awaitSurvivors(ctx.deps, id.token);
    const record = await ownWorkspace(ctx, id.workspace);
    const target = await bookmarkTarget(ctx, record.op, id.bookmark);
    if (target === null) return { is: "not-done" };
    if (target === record.view.commitId) return { is: "done", evidence: headOf(record) };
    return unknown(`bookmark ${id.bookmark} exists and is not on ${id.workspace}@`);
  },
  async run(ctx, id) {
    const { jj } = ctx.deps;
    await putOnHead(ctx, id);
    // Newest first; an older one is jj's merge of heads that the command met.
    for (const op of (await operationsWithToken(jj, id.token)).reverse()) {
      const view = (await jj.workspaces(op)).find((w) => w.workspace === id.workspace);
      const target = await bookmarkTarget(ctx, op, id.bookmark);
      if (view !== undefined && view.commitId === target) return headOf({ op, view });
    }
    throw fail(
      "failed",
      "bookmark-not-on-head",
      `bookmark ${id.bookmark} did not end up on ${id.workspace}@: the workspace moved meanwhile`,
      "run kk new again",
    );
  },
  onCompleted(db, ctx, evidence) {
    if (!isReadAlready(db, ctx, evidence.op)) setHead(db, ctx.threadId, evidence);
    setCheckpoint(db, ctx.threadId, evidence.commit);
  },
  onCompensating: (db, ctx, id) => attributeToken(db, ctx, id.undoToken),
  async compensate(ctx, id) {
    const { jj } = ctx.deps;
    await awaitSurvivors(ctx.deps, id.token);
    await awaitSurvivors(ctx.deps, id.undoToken);
    const change = threadOf(ctx).headChange;
    for (const op of await jj.heads()) {
      const target = await bookmarkTarget(ctx, op, id.bookmark);
      const on = target === null ? undefined : (await jj.existing(op, [target]))[0];
      // jj moves a bookmark with the rewrites of its commit; on any other change somebody put it there.
      if (on === undefined || change === null || on.changeId !== change) continue;
      return jj.deleteBookmark(id.bookmark, id.undoToken);
    }
  },
};

/**
 * Read again each time: a parent that is being worked in is rewritten any moment, and moves this `@` along; its old commit
 * is hidden then, and must not come back.
 */
async function putOnHead(ctx: CreateContext, id: BookmarkIdentity): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const { commit } = headOf(await ownWorkspace(ctx, id.workspace));
    try {
      return await ctx.deps.jj.createBookmark(id.bookmark, commit, id.token, id.workspace);
    } catch (error) {
      if (!(error instanceof KikiError) || error.code !== "jj-moved") throw error;
      if (tries >= MAX_LOOKS)
        throw fail(
          "failed",
          "head-moves",
          `${id.workspace}@ is rewritten faster than bookmark ${id.bookmark} can be put on it`,
          "run kk new again when there is less going on",
        );
    }
  }
}

/** The watcher follows the thread since its head was recorded, and may have read past `op`: a head never goes back. */
function isReadAlready(db: Db, ctx: CreateContext, op: OpId): boolean {
  return isBehind(db, op, threadOf(ctx).headOp);
}

/** null when there is no such bookmark. Throws when it is conflicted: then it is on no commit in particular. */
async function bookmarkTarget(
  ctx: CreateContext,
  op: OpId,
  name: string,
): Promise<CommitId | null> {
  const found = (await ctx.deps.jj.bookmarks(op)).find((b) => b.name === name);
  const [target, ...others] = found?.targets ?? [];
  if (target === undefined || others.length === 0) return target ?? null;
  throw new KikiError({
    kind: "failed",
    code: "bookmark-conflicted",
    message: `bookmark ${name} is conflicted`,
    hint: `jj bookmark list ${name}`,
  });
}
