/** Opening registered repositories. One that cannot be opened is reported and left alone; the others go on. */
import { errorLine, fail, KikiError } from "../core/errors.ts";
import type { RepoId } from "../core/ids.ts";
import type { RepoRow } from "../store/repos.ts";
import type { Daemon, RepoRuntime } from "./runtime.ts";

/** Opens and remembers it; null when it cannot be opened, which `daemon.broken` then explains. */
export async function openRepo(daemon: Daemon, row: RepoRow): Promise<RepoRuntime | null> {
  try {
    const repo = await daemon.world.openRepo(row, daemon.socket);
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
  void repo.cascade
    .start()
    .then(() => {
      const resumed = repo.creation.resumeAll();
      if (resumed > 0) daemon.log.info(`${repoId}: ${resumed} unfinished creations go on`);
    })
    .catch((error: unknown) => daemon.log.error(`recovery of ${repoId} failed`, error));
}

/** Stops a repository's work and closes its database. Never throws. */
export async function closeRepo(daemon: Daemon, repo: RepoRuntime): Promise<void> {
  for (const stop of [() => repo.creation.stop(), () => repo.cascade.stop()]) {
    try {
      await stop();
    } catch (error) {
      daemon.log.error(`stopping ${repo.repoId}`, error);
    }
  }
}

function named(error: unknown): KikiError {
  if (error instanceof KikiError) return error;
  return fail("failed", "repo-unavailable", errorLine(error), "kk daemon logs");
}
