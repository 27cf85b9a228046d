/** Which commit a new thread starts from, and why (threads chapter, creation step 1). Pure reads of one operation. */
import { fail, KikiError } from "../core/errors.ts";
import { short, type CommitId, type OpId } from "../core/ids.ts";
import { atOfWorkspace, ROOT_COMMIT } from "../core/revset.ts";
import type { CommitView, JjRepo, WorkspaceView } from "../ports/jj.ts";
import type { ThreadRow } from "../store/threads.ts";

export interface BaseChoice {
  commit: CommitId;
  /** First line; "" when the commit has none. */
  description: string;
  /** Why this one, as the end of a sentence that begins with the commit. */
  why: string;
}

/** Lines of a revset's commits that an error shows. */
const MAX_LISTED = 3;

/** The followed parent's `@`, exactly. Throws `parent-workspace-missing`. */
export async function parentHead(jj: JjRepo, op: OpId, parent: ThreadRow): Promise<WorkspaceView> {
  const view = (await jj.workspaces(op)).find((w) => w.workspace === parent.workspaceName);
  if (view !== undefined) return view;
  throw fail(
    "needsRepair",
    "parent-workspace-missing",
    `jj records no workspace for thread "${parent.name}"`,
    `kk status ${parent.slug}`,
  );
}

/**
 * The base of a thread that follows nobody: `--base`, else `trunk()`, else the invoking workspace's `@-`, or its `@`
 * when there is nothing below. Throws `base-not-one-commit`, `no-workspace`, `jj-revset`.
 */
export async function chooseBase(
  jj: JjRepo,
  op: OpId,
  ask: { revset: string | null; folder: string },
): Promise<BaseChoice> {
  const workspaces = await jj.workspaces(op);
  const here = workspaceOf(workspaces, ask.folder);
  if (ask.revset !== null) return baseOfRevset(jj, op, ask.revset, here);
  const trunk = await trunkOf(jj, op);
  if (trunk !== null) {
    return { commit: trunk.commitId, description: trunk.description, why: "trunk()" };
  }
  if (here === null) {
    throw fail(
      "usage",
      "no-workspace",
      `there is no trunk, and ${ask.folder} is in no workspace of the repository to start from`,
      "pass --base <revset>",
    );
  }
  return baseBelow(jj, op, here);
}

async function baseOfRevset(
  jj: JjRepo,
  op: OpId,
  revset: string,
  here: WorkspaceView | null,
): Promise<BaseChoice> {
  const found = await jj.commits(
    op,
    here === null ? revset : atOfWorkspace(revset, here.workspace),
  );
  const only = found[0];
  if (only !== undefined && found.length === 1) {
    return { commit: only.commitId, description: only.description, why: `--base ${revset}` };
  }
  const listed = found.slice(0, MAX_LISTED).map((c) => short(c.commitId));
  const names = found.length > MAX_LISTED ? `${listed.join(", ")}, …` : listed.join(", ");
  throw fail(
    "usage",
    "base-not-one-commit",
    found.length === 0
      ? `--base ${revset} names no commit`
      : `--base ${revset} names ${found.length} commits (${names})`,
    "name exactly one, for example by its change id",
  );
}

/**
 * jj's default `trunk()` falls back to the root commit where there is no trunk (jj 0.46). An alias of the person's
 * that names nothing, several commits, or a bookmark that is missing is no trunk either.
 */
async function trunkOf(jj: JjRepo, op: OpId): Promise<CommitView | null> {
  try {
    const found = await jj.commits(op, "trunk()");
    const only = found[0];
    return found.length === 1 && only !== undefined && only.commitId !== ROOT_COMMIT ? only : null;
  } catch (error) {
    if (error instanceof KikiError && error.code === "jj-revset") return null;
    throw error;
  }
}

async function baseBelow(jj: JjRepo, op: OpId, here: WorkspaceView): Promise<BaseChoice> {
  const [parent, ...others] = here.parents;
  if (others.length > 0) {
    throw fail(
      "usage",
      "base-not-one-commit",
      `there is no trunk, and ${here.workspace}@ is a merge of ${here.parents.length} commits`,
      "pass --base <revset>",
    );
  }
  if (parent === undefined || parent === ROOT_COMMIT) {
    return {
      commit: here.commitId,
      description: here.description,
      why: `${here.workspace}@, the working copy: no trunk, nothing below it`,
    };
  }
  const view = (await jj.existing(op, [parent]))[0];
  return {
    commit: parent,
    description: view?.description ?? "",
    why: `${here.workspace}@-, below the working copy: there is no trunk`,
  };
}

/** The workspace `folder` lies in: the innermost, where one lies within another. */
export function workspaceOf(
  workspaces: readonly WorkspaceView[],
  folder: string,
): WorkspaceView | null {
  let found: WorkspaceView | null = null;
  for (const view of workspaces) {
    const { root } = view;
    if (root === null || (folder !== root && !folder.startsWith(`${root}/`))) continue;
    if (found === null || root.length > (found.root ?? "").length) found = view;
  }
  return found;
}
