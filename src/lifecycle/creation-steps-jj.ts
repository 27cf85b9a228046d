/** Creation steps 1 and 2: what the thread starts from, and its workspace on exactly that. */
import { fail } from "../core/errors.ts";
import { wouldCycle } from "../core/follows.ts";
import { short, type ChangeId, type CommitId, type OpId } from "../core/ids.ts";
import { ROOT_COMMIT } from "../core/revset.ts";
import type { JjRepo } from "../ports/jj.ts";
import { write, type Db } from "../store/db.ts";
import { setHead } from "../store/edges.ts";
import { parentOf, setBase, setLink, threadById } from "../store/threads.ts";
import { parentHead } from "./creation-base.ts";
import { harnessFolder, threadOf, type CreateContext } from "./creation-deps.ts";
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
  const { name, path, token } = id;
  const base = await addOnBase(ctx, { name, path, token, description: threadOf(ctx).name });
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
 * Returns the base it was made on. The operation is looked at once more at the command's turn: made beside what others of
 * kiki's have done while it waited, each of many creations at once would leave the next one two heads.
 */
async function addOnBase(
  ctx: CreateContext,
  input: { name: string; path: string; description: string; token: string },
): Promise<CommitId> {
  for (let tries = 1; tries <= MAX_LOOKS; tries += 1) {
    const { base, at } = await visibleBase(ctx);
    const isMade = await ctx.deps.exclusive(async (jj) => {
      const [head, ...others] = await jj.heads();
      // Heads that nobody has merged yet: beside them, at what was read, is as good as anywhere.
      const op = head === undefined || others.length > 0 ? at : head;
      if (op !== at && !(await isVisible(jj, op, base))) return false;
      await jj.addWorkspace({ ...input, base, at: op });
      return true;
    });
    if (isMade) return base;
  }
  throw fail(
    "failed",
    "base-moved",
    `what ${input.name} is to start from is rewritten faster than a workspace can be made on it`,
    "run kk new again when there is less going on",
  );
}

async function isVisible(jj: JjRepo, op: OpId, commit: CommitId): Promise<boolean> {
  const view = (await jj.existing(op, [commit]))[0];
  return view !== undefined && !view.hidden;
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
  if (await isVisible(deps.jj, op, base)) return { base, at: op };
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
