/** What a reference in a request means: which repository, which of its threads. */
import { realpathSync } from "node:fs";
import { fail, type KikiError } from "../../core/errors.ts";
import { listCandidates, resolveThread } from "../../core/resolve.ts";
import type { Input } from "../../rpc/contract/methods.ts";
import { listRepos, repoByPath, type RepoRow } from "../../store/repos.ts";
import { allThreads, type ThreadRow } from "../../store/threads.ts";
import { repoById, type Daemon, type RepoRuntime } from "../runtime.ts";

type ThreadRef = Input<"GetThreadState">;
type RepoRef = ThreadRef["repo"];

/** The registered repository `folder` lies in; null when it lies in none. */
export async function repoRowOfFolder(daemon: Daemon, folder: string): Promise<RepoRow | null> {
  const location = await daemon.world.jj.locate(folder);
  return location === null ? null : repoByPath(daemon.userDb, location.repoDir);
}

/** Throws KikiError `no-repo`, `not-a-jj-repo`, `not-registered`, `repo-unavailable`. */
export async function resolveRepo(daemon: Daemon, ref: RepoRef): Promise<RepoRuntime> {
  if (ref.repoId !== undefined) return repoById(daemon, ref.repoId);
  if (ref.folder === undefined) {
    throw fail("usage", "no-repo", "the request names no repository: give repoId or folder");
  }
  const row = await repoRowOfFolder(daemon, ref.folder);
  if (row !== null) return repoById(daemon, row.repoId);
  if ((await daemon.world.jj.locate(ref.folder)) === null) throw notJj(ref.folder);
  throw fail(
    "notFound",
    "not-registered",
    `${ref.folder} is in no registered repository`,
    "kk init",
  );
}

export function notJj(folder: string): KikiError {
  return fail(
    "notFound",
    "not-a-jj-repo",
    `${folder} is not in a jj repository`,
    "jj git init --colocate makes one here",
  );
}

export interface ResolvedThread {
  repo: RepoRuntime;
  thread: ThreadRow;
}

/**
 * A thread by name, unique prefix of a name, or id. Without a repository in the reference, all of them are searched.
 * Throws KikiError `unknown-thread`, `ambiguous-thread`, and as `resolveRepo`.
 */
export async function resolveThreadRef(daemon: Daemon, ref: ThreadRef): Promise<ResolvedThread> {
  const everywhere = ref.repo.repoId === undefined && ref.repo.folder === undefined;
  const repos = everywhere ? [...daemon.repos.values()] : [await resolveRepo(daemon, ref.repo)];
  const candidates = repos.flatMap((repo) =>
    allThreads(repo.db)
      .filter((thread) => thread.lifecycle !== "Destroyed")
      .map((thread) => ({
        threadId: thread.threadId,
        name: thread.name,
        place: everywhere ? repo.row.repoRoot : undefined,
        repo,
        thread,
      })),
  );
  const found = resolveThread(candidates, ref.thread);
  if (found.ok) return found.value;
  const target = JSON.stringify(ref.thread);
  if (found.error.problem === "ambiguous") {
    const { candidates } = found.error;
    const named = new Set(candidates.map((c) => c.name)).size === candidates.length;
    throw fail(
      "usage",
      "ambiguous-thread",
      `${target} could be ${listCandidates(candidates)}`,
      named
        ? "give the whole name, or the id"
        : everywhere
          ? "give the id, or go to its repository"
          : "give the id",
    );
  }
  const where = everywhere ? "in any repository" : "in this repository";
  throw fail("notFound", "unknown-thread", `no thread ${target} ${where}`, "kk ls --all");
}

/** Whose workspace `folder` lies in: the innermost, where one lies within another. */
export function threadOfFolder(repo: RepoRuntime, folder: string): ThreadRow | null {
  const at = realPath(folder);
  let found: ThreadRow | null = null;
  for (const thread of allThreads(repo.db)) {
    if (thread.lifecycle === "Closed" || thread.lifecycle === "Destroyed") continue;
    const root = realPath(thread.workspacePath);
    if (at !== root && !at.startsWith(`${root}/`)) continue;
    if (found === null || root.length > realPath(found.workspacePath).length) found = thread;
  }
  return found;
}

/** Registered repositories in order; those that cannot be opened are left out, with what they cannot say. */
export function openRepos(daemon: Daemon): RepoRuntime[] {
  return listRepos(daemon.userDb).flatMap((row) => daemon.repos.get(row.repoId) ?? []);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
