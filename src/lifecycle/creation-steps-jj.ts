/** Creation steps 1 to 4: what is made in jj. */
import { fail, KikiError } from "../core/errors.ts";
import { wouldCycle } from "../core/follows.ts";
import { short, type ChangeId, type CommitId, type OpId } from "../core/ids.ts";
import { isAncestorOp } from "../core/op-graph.ts";
import { ROOT_COMMIT } from "../core/revset.ts";
import { write, type Db } from "../store/db.ts";
import { setCheckpoint, setHead } from "../store/edges.ts";
import { isProcessed, parentsOf } from "../store/ops.ts";
import { clearHead, parentOf, setBase, setLink, threadById } from "../store/threads.ts";
import { parentHead } from "./creation-base.ts";
import { harnessFolder, threadOf, type CreateContext } from "./creation-deps.ts";
import {
  attributeToken,
  awaitSurvivors,
  findWorkspace,
  newTokens,
  operationsWithToken,
  type FoundWorkspace,
  type Tokens,
} from "./creation-jj.ts";
import type { Observation, StepDef } from "./saga.ts";
import { removeWorkspaceFolder } from "./workspace-removal.ts";

// ---- allocate -----------------------------------------------------------------------------------------------

interface Allocation {
  /** The one operation everything was read from. */
  op: OpId;
  base: CommitId;
  /** Exact `@` of the followed parent, which is the base. */
  parent: { threadId: string; change: ChangeId } | null;
}

async function allocate(ctx: CreateContext): Promise<Allocation> {
  const { deps, args } = ctx;
  const op = await deps.refreshToFrontier(deps.repoId);
  if (args.follows === null) {
    const base = (await deps.jj.existing(op, [args.base]))[0];
    if (base === undefined || base.hidden) {
      throw fail(
        "failed",
        "base-moved",
        `the base ${short(args.base)} was rewritten or abandoned in the meantime`,
        "run kk new again: the new plan shows the new base",
      );
    }
    return { op, base: args.base, parent: null };
  }
  const parent = threadById(deps.db, args.follows);
  if (parent === null) throw new Error(`no thread ${args.follows}`);
  const head = await parentHead(deps.jj, op, parent);
  return { op, base: head.commitId, parent: { threadId: parent.threadId, change: head.changeId } };
}

/** Base, edge, anchor and the parent's cached head are one fact, so they are one transaction. */
function recordAllocation(db: Db, ctx: CreateContext, a: Allocation): void {
  setBase(db, ctx.threadId, a.base);
  if (a.parent === null) return;
  const parent = threadById(db, a.parent.threadId);
  if (parent?.lifecycle !== "Active") {
    throw fail(
      "failed",
      "parent-not-active",
      `thread "${parent?.name ?? a.parent.threadId}" is ${parent?.lifecycle ?? "gone"} by now`,
      "follow another one, or add --no-follow",
    );
  }
  if (wouldCycle(ctx.threadId, parent.threadId, (id) => parentOf(db, id))) {
    throw fail("failed", "follows-cycle", `following "${parent.name}" would close a circle`);
  }
  if (!isBehind(db, a.op, parent.headOp))
    setHead(db, parent.threadId, { commit: a.base, change: a.parent.change, op: a.op });
  const now = ctx.deps.clock.now();
  setLink(db, { child: ctx.threadId, parent: parent.threadId, anchor: a.base, now });
}

export const allocateStep: StepDef<CreateContext, { follows: string | null }, Allocation> = {
  name: "allocate",
  identity: (ctx) => ({ follows: ctx.args.follows }),
  // The effect is the completing transaction itself: a step that is only started has done nothing.
  observe: () => ({ is: "not-done" }),
  run: (ctx) => allocate(ctx),
  onCompleted: recordAllocation,
  // The environment file was there before the first step, so the last one to be undone takes it away.
  compensate: (ctx) => ctx.deps.files.removeTree(harnessFolder(ctx)),
};

// ---- workspace ----------------------------------------------------------------------------------------------

interface WorkspaceIdentity extends Tokens {
  name: string;
  path: string;
}

export interface WorkspaceEvidence {
  op: OpId;
  commit: CommitId;
  change: ChangeId;
  /** Device and inode of the folder. */
  inode: string | null;
}

export const workspaceStep: StepDef<CreateContext, WorkspaceIdentity, WorkspaceEvidence> = {
  name: "workspace",
  identity(ctx) {
    const { workspaceName: name, workspacePath: path } = threadOf(ctx);
    return { name, path, ...newTokens(ctx) };
  },
  onStarted: (db, ctx, id) => attributeToken(db, ctx, id.token),
  observe: observeWorkspace,
  run: makeWorkspace,
  onCompensating: (db, ctx, id) => attributeToken(db, ctx, id.undoToken),
  compensate: unmakeWorkspace,
};

/** Folder present or not × record present or not, and whether a record is kiki's own. */
async function observeWorkspace(
  ctx: CreateContext,
  id: WorkspaceIdentity,
): Promise<Observation<WorkspaceEvidence>> {
  const { deps } = ctx;
  await awaitSurvivors(deps, id.token);
  const record = await findWorkspace(deps.jj, id.name);
  const kind = await deps.files.kind(id.path);
  if (record === null) {
    if (kind === "absent" || kind === "empty-folder") return { is: "not-done" };
    return unknown(`${id.path} holds something, but jj records no workspace ${id.name}`);
  }
  if (!(await isOwn(ctx, id, record))) {
    return unknown(`jj has a workspace ${id.name} that is not this thread's`);
  }
  if (kind !== "folder") {
    return unknown(`jj records workspace ${id.name}, but its folder ${id.path} is gone`);
  }
  if (isHalfMade(ctx, record)) {
    return unknown(`jj was stopped while it made workspace ${id.name}`);
  }
  return { is: "done", evidence: await evidenceOfRecord(ctx, id, record) };
}

function unknown(reason: string): { is: "unknown"; reason: string } {
  return { is: "unknown", reason };
}

async function isOwn(
  ctx: CreateContext,
  id: WorkspaceIdentity,
  { view }: FoundWorkspace,
): Promise<boolean> {
  if (view.root === id.path) return true;
  return (await operationsWithToken(ctx.deps.jj, id.token)).length > 0;
}

/** `workspace add` is two operations; between them `@` is an empty commit on the root commit (jj 0.46). */
function isHalfMade(ctx: CreateContext, { view }: FoundWorkspace): boolean {
  return view.parents.join() === ROOT_COMMIT && threadOf(ctx).base !== ROOT_COMMIT;
}

async function evidenceOfRecord(
  ctx: CreateContext,
  id: WorkspaceIdentity,
  { op, view }: FoundWorkspace,
): Promise<WorkspaceEvidence> {
  const inode = await ctx.deps.files.inode(id.path);
  return { op, commit: view.commitId, change: view.changeId, inode };
}

async function makeWorkspace(
  ctx: CreateContext,
  id: WorkspaceIdentity,
): Promise<WorkspaceEvidence> {
  const { deps } = ctx;
  const kind = await deps.files.kind(id.path);
  if (kind === "empty-folder") await deps.files.removeListed(id.path, [], []);
  else if (kind !== "absent") {
    throw fail(
      "failed",
      "workspace-path-exists",
      `${id.path} exists already`,
      "move it away, then run kk new again",
    );
  }
  const { base, at } = await visibleBase(ctx);
  const { name, path, token } = id;
  await deps.jj.addWorkspace({ name, path, base, at, description: threadOf(ctx).name, token });
  for (const op of await operationsWithToken(deps.jj, token)) {
    const view = (await deps.jj.workspaces(op)).find((w) => w.workspace === name);
    // "At exactly that base" is judged in the operation that made it: a later one may have moved it already.
    if (view?.parents.join() === base) return evidenceOfRecord(ctx, id, { op, view });
  }
  throw fail(
    "failed",
    "workspace-not-on-base",
    `jj made workspace ${name}, but not on exactly ${short(base)}`,
    "run kk new again",
  );
}

/**
 * The allocated base, or a new allocation when the parent was rewritten since: a change on a hidden commit would
 * bring that commit back and make the parent's change divergent.
 */
async function visibleBase(ctx: CreateContext): Promise<{ base: CommitId; at: OpId }> {
  const { deps } = ctx;
  const base = threadOf(ctx).base;
  if (base === null) throw new Error(`thread ${ctx.threadId} has no base`);
  const op = await deps.refreshToFrontier(deps.repoId);
  const view = (await deps.jj.existing(op, [base]))[0];
  if (view !== undefined && !view.hidden) return { base, at: op };
  const again = await allocate(ctx);
  write(deps.db, () => recordAllocation(deps.db, ctx, again));
  return { base: again.base, at: again.op };
}

async function unmakeWorkspace(
  ctx: CreateContext,
  id: WorkspaceIdentity,
  evidence: WorkspaceEvidence | null,
): Promise<void> {
  const { deps } = ctx;
  await awaitSurvivors(deps, id.token);
  await awaitSurvivors(deps, id.undoToken);
  const record = await findWorkspace(deps.jj, id.name);
  const own = record !== null && (await isOwn(ctx, id, record)) ? record : null;
  // The folder first: once jj has forgotten the workspace nothing can prove what its files are.
  await removeWorkspaceFolder(ctx, { path: id.path, inode: evidence?.inode ?? null, record: own });
  if (own !== null) await deps.jj.forgetWorkspace(id.name, id.undoToken);
  if ((await deps.files.kind(id.path)) === "absent") await deps.jj.forgetWorktree(id.path);
}

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

/** In one view: what landed while jj made the workspace may have moved its base, and with it this change. */
async function ownWorkspace(ctx: CreateContext, name: string): Promise<FoundWorkspace> {
  await ctx.deps.refreshToFrontier(ctx.deps.repoId);
  const record = await findWorkspace(ctx.deps.jj, name);
  if (record !== null) return record;
  throw fail("failed", "workspace-gone", `jj no longer records workspace ${name}`);
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

/** A parent whose agent writes on and on is rewritten a few times a second at most. */
const MAX_LOOKS = 20;

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
      const moved = error instanceof KikiError && error.code === "jj-moved";
      if (!moved || tries >= MAX_LOOKS) throw error;
    }
  }
}

/** The watcher follows the thread since its head was recorded, and may have read past `op`: a head never goes back. */
function isReadAlready(db: Db, ctx: CreateContext, op: OpId): boolean {
  return isBehind(db, op, threadOf(ctx).headOp);
}

/** Whether a thread's head was recorded at an operation that `op` leads to, or at `op` itself. */
function isBehind(db: Db, op: OpId, headOp: OpId | null): boolean {
  if (headOp === null || !isProcessed(db, op)) return false;
  return isAncestorOp(op, headOp, (id) => parentsOf(db, id));
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
