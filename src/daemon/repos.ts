/** Opening registered repositories. One that cannot be opened is reported and left alone; the others go on. */
import { errorLine, fail, KikiError } from "../core/errors.ts";
import type { RepoId } from "../core/ids.ts";
import { repoPaths } from "../core/paths.ts";
import type { RepoRow } from "../store/repos.ts";
import { noticeOutages } from "./outages.ts";
import { repoUnavailable, type Daemon, type RepoRuntime } from "./runtime.ts";

/** Opens and remembers it; null when it cannot be opened, which `daemon.broken` then explains. */
export async function openRepo(daemon: Daemon, row: RepoRow): Promise<RepoRuntime | null> {
  try {
    const repo = await daemon.world.openRepo(row, daemon.socket, daemon.proving);
    daemon.repos.set(row.repoId, repo);
    daemon.broken.delete(row.repoId);
    return repo;
  } catch (error) {
    daemon.log.error(`repository ${row.repoRoot} (${row.repoId}) cannot be opened`, error);
    daemon.broken.set(row.repoId, { row, error: named(error) });
    return null;
  }
}

/**
 * Boot recovery in the background: first the cascade, because a barrier that was bound must hold before anything else
 * moves, then unfinished creations.
 */
export function startRepo(daemon: Daemon, repoId: RepoId): void {
  const repo = daemon.repos.get(repoId);
  if (repo === undefined) return;
  // First of all what a daemon that died has left standing; a wait for it would be for ever.
  void repo.standStill
    .resumeAtBoot()
    .catch((error: unknown) => daemon.log.error(`stopped processes of ${repoId}`, error))
    .then(() => repo.cascade.start())
    .then(() => {
      const resumed = repo.creation.resumeAll();
      if (resumed > 0) daemon.log.info(`${repoId}: ${resumed} unfinished creations go on`);
      repo.edgeRepairs.resumeAll();
      repo.creation.retireGone();
      noticeOutages(daemon, repo);
    })
    .catch((error: unknown) => daemon.log.error(`recovery of ${repoId} failed`, error));
}

/** Agents that nobody is left to report as ended. One repository's failure is not the others'. */
export function retireGone(daemon: Daemon): void {
  for (const repo of daemon.repos.values()) {
    try {
      repo.creation.retireGone();
    } catch (error) {
      daemon.log.error(`looking for ended agents of ${repo.repoId} failed`, error);
    }
  }
}

/** Agents whose turn somebody broke off: shown as what they are. Never throws. */
export function lookAtQuiet(daemon: Daemon): void {
  for (const repo of daemon.repos.values()) void repo.creation.lookAtQuiet();
}

/** The trouble of the repository whose thread has this credential's file, when that repository cannot be opened. */
export function ownerUnavailable(daemon: Daemon, secret: string): KikiError | null {
  const { files } = daemon.world;
  for (const broken of daemon.broken.values()) {
    const { credentials } = repoPaths(daemon.stateDir, broken.row.repoId);
    try {
      const found = files
        .listDir(credentials)
        .some((name) => files.readText(`${credentials}/${name}`)?.trim() === secret);
      if (found) return repoUnavailable(broken);
    } catch {
      // A folder that cannot be read tells nothing; the next one may.
    }
  }
  return null;
}

/** Stops a repository's work and closes its database. Never throws. */
export async function closeRepo(daemon: Daemon, repo: RepoRuntime): Promise<void> {
  for (const part of [repo.creation, repo.edgeRepairs, repo.cascade]) {
    try {
      await part.stop();
    } catch (error) {
      daemon.log.error(`stopping ${repo.repoId}`, error);
    }
  }
}

function named(error: unknown): KikiError {
  if (error instanceof KikiError) return error;
  return fail("failed", "repo-unavailable", errorLine(error), "kk daemon logs");
}
