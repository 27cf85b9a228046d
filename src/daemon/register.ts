/** Registering a repository: its plan, and the operation its approval is spent on. */
import { type ApprovedWork } from "../authority/approved-run.ts";
import { hashSecret } from "../authority/identify.ts";
import { canonicalJson } from "../core/canonical.ts";
import { fail } from "../core/errors.ts";
import { repoPaths } from "../core/paths.ts";
import { FULL_COLUMNS, PlanLayout } from "../core/render/plan.ts";
import type { RepoLocation } from "../ports/jj.ts";
import { insertRepo, repoByPath, type RepoRow } from "../store/repos.ts";
import type { Planned } from "./approvable.ts";
import { notJj } from "./handlers/resolve.ts";
import { isKept, keptStateOf, unmarkKept } from "./kept-state.ts";
import { openRepo } from "./repos.ts";
import type { Daemon } from "./runtime.ts";

/** Throws `not-a-jj-repo`, `already-registered`. Versions of tools are checked when a thread is made, and by `kk doctor`. */
export async function planRegister(
  daemon: Daemon,
  folder: string,
): Promise<Planned & { rowFor: (operationId: string) => RepoRow }> {
  const location = await locate(daemon, folder);
  if (repoByPath(daemon.userDb, location.repoDir) !== null) {
    throw fail(
      "failed",
      "already-registered",
      `${location.repoRoot} is registered already`,
      "kk init shows it",
    );
  }
  const kept = keptStateOf(daemon, location.repoDir);
  const textFor = (columns: number): string => planText(daemon, { location, kept }, columns);
  const text = textFor(FULL_COLUMNS);
  return {
    textFor,
    digest: hashSecret(canonicalJson(["RegisterRepo", location, kept, text])),
    rowFor: (operationId) => ({
      // Known before anything is made: a restart recognises what it had begun.
      repoId: kept ?? operationId,
      canonicalPath: location.repoDir,
      repoRoot: location.repoRoot,
      colocated: location.colocated,
      registeredAt: daemon.world.clock.now(),
    }),
  };
}

function planText(
  daemon: Daemon,
  { location, kept }: { location: RepoLocation; kept: string | null },
  columns: number,
): string {
  const plan = new PlanLayout(columns);
  plan.text("Register repository");
  plan.gap();
  plan.row("repo", location.repoRoot);
  plan.row("", location.colocated ? "jj and git share it (colocated)" : "jj repository");
  plan.section("What changes");
  plan.item("kiki watches the repository's jj operations and makes threads in it when asked to");
  if (kept === null) {
    plan.item(`kiki keeps its own record in a new folder of ${daemon.stateDir}/repos`);
  } else {
    plan.item(`kiki takes up the record it kept in ${repoPaths(daemon.stateDir, kept).root}`);
  }
  plan.section("What is kept");
  plan.item("the repository as it is: nothing in it is written, no revision, bookmark or file");
  plan.item("your jj, git and tmux: you go on using them directly");
  return plan.toString();
}

export async function locate(daemon: Daemon, folder: string): Promise<RepoLocation> {
  const location = await daemon.world.jj.locate(folder);
  if (location === null) throw notJj(folder);
  return location;
}

/** `row`: as it was agreed to; an earlier process may have begun to register it. */
export function registerWork(daemon: Daemon, row: RepoRow): ApprovedWork & { row: RepoRow } {
  const { repoId } = row;
  return {
    row,
    identity: row,
    steps: [
      {
        name: "open",
        observe: () => (daemon.repos.has(repoId) ? "done" : "not-done"),
        async run() {
          if ((await openRepo(daemon, row)) !== null) return;
          const error = daemon.broken.get(repoId)?.error;
          daemon.broken.delete(repoId);
          // What was begun for it is of no use to anybody; what was kept is.
          if (!isKept(daemon, repoId)) {
            await daemon.world.files.removeTree(repoPaths(daemon.stateDir, repoId).root);
          }
          throw error ?? fail("failed", "repo-unavailable", row.repoRoot, "kk doctor");
        },
      },
    ],
    outcome: () => ({ repoId }),
    onCompleted() {
      if (repoByPath(daemon.userDb, row.canonicalPath) === null) insertRepo(daemon.userDb, row);
    },
  };
}

/** After its end. Watching it is begun by whoever serves: the handler, or the boot for all of them. */
export async function registered(daemon: Daemon, row: RepoRow): Promise<void> {
  unmarkKept(daemon, row.repoId);
  // After a death between opening and recording, this process has not opened it yet.
  if (!daemon.repos.has(row.repoId)) await openRepo(daemon, row);
  daemon.log.info(`registered ${row.repoRoot} as ${row.repoId}`);
}
