/** What a reference in a request means: which repository, which of its threads. */
import { realpathSync } from "node:fs";
import { fail, type KikiError } from "../../core/errors.ts";
import { decideContext, type Context, type KnownThread } from "../../core/context.ts";
import { listCandidates, resolveThread, type ResolveProblem } from "../../core/resolve.ts";
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
  throw notOneThread(ref.thread, found.error, everywhere);
}

function notOneThread(
  named: string,
  problem: ResolveProblem<Candidate>,
  everywhere: boolean,
): KikiError {
  const target = JSON.stringify(named);
  if (problem.problem === "ambiguous") {
    const { candidates } = problem;
    const byName = new Set(candidates.map((c) => c.name)).size === candidates.length;
    return fail(
      "usage",
      "ambiguous-thread",
      `${target} could be ${listCandidates(candidates)}`,
      byName
        ? "give the whole name, or the id"
        : everywhere
          ? "give the id, or go to its repository"
          : "give the id",
    );
  }
  const where = everywhere ? "in any repository" : "in this repository";
  return fail("notFound", "unknown-thread", `no thread ${target} ${where}`, "kk ls --all");
}

/** A thread as candidates are listed; `place` where several repositories are searched. */
interface Candidate {
  threadId: string;
  name: string;
  place?: string | undefined;
}

interface ContextThread extends KnownThread {
  place: string;
}

/** What a command is about. Throws KikiError `unknown-thread`, `ambiguous-thread` for its target. */
export async function resolveContext(
  daemon: Daemon,
  seen: Input<"ResolveContext">,
): Promise<Context<ContextThread>> {
  const threads = openRepos(daemon).flatMap((repo) =>
    allThreads(repo.db).map((thread): ContextThread => {
      const { threadId, name, lifecycle } = thread;
      return { threadId, name, lifecycle, repoId: repo.repoId, place: repo.row.repoRoot };
    }),
  );
  const folder = await contextFolder(daemon, seen.folder);
  const found = decideContext({ ...seen, folder, threads });
  if (found.ok) return found.value;
  throw notOneThread(seen.target ?? "", found.error, found.error.repoId === null);
}

/** A closed thread's workspace too: that it is one is worth saying. A folder that is gone is matched by its name. */
async function contextFolder(
  daemon: Daemon,
  folder: string | null,
): Promise<{ repoId: string | null; threadId: string | null }> {
  if (folder === null) return { repoId: null, threadId: null };
  const row = await repoRowOfFolder(daemon, folder);
  const open = row === null ? openRepos(daemon) : [daemon.repos.get(row.repoId) ?? []].flat();
  for (const repo of open) {
    const thread = threadOfFolder(repo, folder) ?? threadOfFolder(repo, folder, "Closed");
    if (thread !== null) return { repoId: repo.repoId, threadId: thread.threadId };
  }
  return { repoId: row?.repoId ?? null, threadId: null };
}

/** Whose workspace `folder` lies in: the innermost, where one lies within another. Closed threads only when asked. */
function threadOfFolder(
  repo: RepoRuntime,
  folder: string,
  which: "open" | "Closed" = "open",
): ThreadRow | null {
  const at = realPath(folder);
  let found: ThreadRow | null = null;
  for (const thread of allThreads(repo.db)) {
    if (thread.lifecycle === "Destroyed") continue;
    if ((thread.lifecycle === "Closed") !== (which === "Closed")) continue;
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
