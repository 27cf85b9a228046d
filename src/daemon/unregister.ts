/** Forgetting a repository: its plan, and the operation its approval is spent on. */
import type { ApprovedWork } from "../authority/approved-run.ts";
import { hashSecret } from "../authority/identify.ts";
import { canonicalJson } from "../core/canonical.ts";
import { fail } from "../core/errors.ts";
import { repoPaths } from "../core/paths.ts";
import { FULL_COLUMNS, PlanLayout } from "../core/render/plan.ts";
import { shellWord } from "../core/shell-line.ts";
import { write } from "../store/db.ts";
import { deleteRepo, listRepos, repoById, type RepoRow } from "../store/repos.ts";
import { allThreads } from "../store/threads.ts";
import type { Input } from "../rpc/contract/methods.ts";
import type { Planned } from "./approvable.ts";
import { notJj, repoRowOfFolder } from "./handlers/resolve.ts";
import { isKept, markKept } from "./kept-state.ts";
import { closeRepo } from "./repos.ts";
import type { Daemon } from "./runtime.ts";

export type UnregisterArgs = Pick<Input<"UnregisterRepo">, "repo" | "keepState">;

/** Of these nothing is left that only kiki's record knows of. */
const OVER = new Set(["Closed", "Destroyed"]);
const MAX_NAMED = 5;

/** Throws `not-registered`, `threads-open`, `repo-unavailable`. `check` says again whether every thread is over. */
export async function planUnregister(
  daemon: Daemon,
  args: UnregisterArgs,
): Promise<Planned & { row: RepoRow; check: () => void }> {
  const row = await rowOf(daemon, args.repo);
  const closed = checkThreads(daemon, row, args.keepState);
  const { root, recovery } = repoPaths(daemon.stateDir, row.repoId);
  const bundles = daemon.world.files.listDir(recovery).length;
  const facts = { row, root, closed, bundles, keepState: args.keepState };
  const textFor = (columns: number): string => planText(facts, columns);
  const text = textFor(FULL_COLUMNS);
  return {
    textFor,
    digest: hashSecret(canonicalJson(["UnregisterRepo", facts, text])),
    row,
    check: () => void checkThreads(daemon, row, args.keepState),
  };
}

interface PlanFacts {
  row: RepoRow;
  root: string;
  /** null: its record cannot be read. */
  closed: number | null;
  bundles: number;
  keepState: boolean;
}

function planText({ row, root, closed, bundles, keepState }: PlanFacts, columns: number): string {
  const plan = new PlanLayout(columns);
  plan.text("Unregister repository");
  plan.gap();
  plan.row("repo", row.repoRoot);
  plan.row(
    "threads",
    closed === null ? "its record cannot be read" : `none open, ${closed} closed`,
  );
  plan.section("What changes");
  plan.item("kiki stops watching the repository and lists it no more");
  if (keepState) {
    plan.item(`kiki's record stays in ${root} and is taken up by the next kk init there`);
  } else {
    plan.item(`kiki's record is deleted for good: ${root}`);
    plan.item("with it the history of its threads, their settings, and its audit log");
    if (bundles > 0) {
      plan.item(`and ${bundles} ${bundles === 1 ? "bundle" : "bundles"} of recovered edits`);
    }
  }
  plan.section("What is kept");
  plan.item("the repository as it is: every revision, bookmark, workspace and file");
  return plan.toString();
}

/** Number of closed threads; null when nobody can tell. */
function checkThreads(daemon: Daemon, row: RepoRow, keepState: boolean): number | null {
  const repo = daemon.repos.get(row.repoId);
  if (repo === undefined) {
    if (keepState) return null;
    const why = daemon.broken.get(row.repoId)?.error.message ?? "it is not open";
    throw fail(
      "failed",
      "repo-unavailable",
      `the threads of ${row.repoRoot} cannot be looked at: ${why}`,
      `kk repo unregister ${shellWord(row.repoRoot)} --keep-state deletes nothing`,
    );
  }
  const threads = allThreads(repo.db);
  const open = threads.filter((thread) => !OVER.has(thread.lifecycle));
  if (open.length > 0) {
    const named = open.slice(0, MAX_NAMED).map(({ name }) => `"${name}"`);
    const more = open.length > MAX_NAMED ? ` and ${open.length - MAX_NAMED} more` : "";
    throw fail(
      "failed",
      "threads-open",
      `${row.repoRoot} has threads that are not closed: ${named.join(", ")}${more}`,
      "kk ls shows them",
    );
  }
  return threads.filter(({ lifecycle }) => lifecycle === "Closed").length;
}

/** One that cannot be opened, or whose folder is gone, can be unregistered like any other. */
async function rowOf(daemon: Daemon, ref: UnregisterArgs["repo"]): Promise<RepoRow> {
  const rows = listRepos(daemon.userDb);
  const found =
    ref.repoId === undefined
      ? (rows.find((row) => row.repoRoot === ref.folder) ??
        (ref.folder === undefined ? null : await repoRowOfFolder(daemon, ref.folder)))
      : rows.find((row) => row.repoId === ref.repoId);
  if (found != null) return found;
  if (ref.folder !== undefined && (await daemon.world.jj.locate(ref.folder)) === null) {
    throw notJj(ref.folder);
  }
  throw fail(
    "notFound",
    "not-registered",
    `${ref.folder ?? ref.repoId ?? "this"} is in no registered repository`,
    "kk repo ls",
  );
}

/** `row`: as it was agreed to; an earlier process may have begun to unregister it. */
export function unregisterWork(
  daemon: Daemon,
  operationId: string,
  { keepState, row }: { keepState: boolean; row: RepoRow },
): ApprovedWork & { row: RepoRow } {
  const { repoId } = row;
  const { files } = daemon.world;
  const { root } = repoPaths(daemon.stateDir, repoId);
  const removed = `${daemon.stateDir}/repos/.removed-${operationId}`;
  const isThere = (path: string): boolean => files.listDir(path).length > 0;
  return {
    row,
    identity: row,
    /** A daemon that has just started has opened it again. */
    async prepare() {
      const repo = daemon.repos.get(repoId);
      daemon.broken.delete(repoId);
      if (repo === undefined) return;
      daemon.repos.delete(repoId);
      await closeRepo(daemon, repo);
      daemon.audit.flush(repo.db);
      repo.db.close();
    },
    steps: [
      {
        name: "mark",
        observe: () => (!keepState || isKept(daemon, repoId) ? "done" : "not-done"),
        run: () => (keepState ? markKept(daemon, repoId, row.canonicalPath) : undefined),
      },
      {
        name: "forget",
        observe: () => (repoById(daemon.userDb, repoId) === null ? "done" : "not-done"),
        run: () => write(daemon.userDb, () => deleteRepo(daemon.userDb, repoId)),
      },
      {
        name: "remove",
        observe: () => (keepState || (!isThere(root) && !isThere(removed)) ? "done" : "not-done"),
        async run() {
          if (keepState) return;
          // Moved first: half a record is never in the place of a whole one.
          files.moveAway(root, removed);
          await files.removeTree(removed);
        },
      },
    ],
    outcome: () => ({
      repoId,
      path: row.repoRoot,
      keptState: keepState ? root : null,
    }),
  };
}
