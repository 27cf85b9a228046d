/** State of a repository that was unregistered with `--keep-state`: it waits in its folder to be taken up again. */
import { repoPaths } from "../core/paths.ts";
import type { RepoId } from "../core/ids.ts";
import type { Daemon } from "./runtime.ts";

const FILE_MODE = 0o600;

function marker(daemon: Daemon, repoId: RepoId): string {
  return `${repoPaths(daemon.stateDir, repoId).root}/kept.json`;
}

export function markKept(daemon: Daemon, repoId: RepoId, canonicalPath: string): void {
  const text = `${JSON.stringify({ canonicalPath })}\n`;
  daemon.world.files.writeDurable(marker(daemon, repoId), text, FILE_MODE);
}

export function unmarkKept(daemon: Daemon, repoId: RepoId): void {
  daemon.world.files.removeDurable(marker(daemon, repoId));
}

export function isKept(daemon: Daemon, repoId: RepoId): boolean {
  return daemon.world.files.readText(marker(daemon, repoId)) !== null;
}

/** Id under which the repository at `canonicalPath` was known; null when nothing of it was kept. */
export function keptStateOf(daemon: Daemon, canonicalPath: string): RepoId | null {
  const { files } = daemon.world;
  for (const repoId of files.listDir(`${daemon.stateDir}/repos`)) {
    const text = files.readText(marker(daemon, repoId));
    if (text === null) continue;
    try {
      const kept = JSON.parse(text) as { canonicalPath?: unknown };
      if (kept.canonicalPath === canonicalPath) return repoId;
    } catch {
      // A marker nobody can read marks nothing.
    }
  }
  return null;
}
