/** The registry of repositories. */
import type { Caller } from "../../authority/authenticate.ts";
import { KikiError } from "../../core/errors.ts";
import { SerialQueues } from "../../core/serial-queue.ts";
import type { Output } from "../../rpc/contract/methods.ts";
import type { Handlers } from "../../rpc/server.ts";
import { write } from "../../store/db.ts";
import { insertRepo, listRepos, repoByPath } from "../../store/repos.ts";
import { openRepo, startRepo } from "../repos.ts";
import type { Daemon } from "../runtime.ts";
import { repoSummary } from "../views.ts";
import { notJj, resolveContext } from "./resolve.ts";

type RegistryMethod = "RegisterRepo" | "ListRepos" | "ResolveContext";

export function registryHandlers(daemon: Daemon): Pick<Handlers<Caller>, RegistryMethod> {
  const queue = new SerialQueues();
  return {
    // One after another: two commands in one new repository register it once.
    RegisterRepo: ({ folder }) => queue.run("register", () => register(daemon, folder)),
    ListRepos: () => ({ repos: listRepos(daemon.userDb).map((row) => repoSummary(daemon, row)) }),
    async ResolveContext(seen) {
      const { thread, repoId, by, passed } = await resolveContext(daemon, seen);
      const row = listRepos(daemon.userDb).find((repo) => repo.repoId === repoId) ?? null;
      return {
        repo: row === null ? null : repoSummary(daemon, row),
        thread:
          thread === null
            ? null
            : { threadId: thread.threadId, name: thread.name, lifecycle: thread.lifecycle },
        by,
        passed,
      };
    },
  };
}

/** Registered already: changes nothing, except that a repository that could not be opened is tried again. */
async function register(daemon: Daemon, folder: string): Promise<Output<"RegisterRepo">> {
  const location = await daemon.world.jj.locate(folder);
  if (location === null) throw notJj(folder);
  const known = repoByPath(daemon.userDb, location.repoDir);
  if (known !== null) {
    const broken = daemon.broken.has(known.repoId);
    if (broken && (await openRepo(daemon, known)) !== null) startRepo(daemon, known.repoId);
    return { repo: repoSummary(daemon, known), created: false };
  }
  const { clock, ids } = daemon.world;
  const row = {
    repoId: ids.uuid(),
    canonicalPath: location.repoDir,
    repoRoot: location.repoRoot,
    colocated: location.colocated,
    registeredAt: clock.now(),
  };
  const opened = await openRepo(daemon, row);
  if (opened === null) {
    const error = daemon.broken.get(row.repoId)?.error;
    daemon.broken.delete(row.repoId);
    throw error ?? new KikiError({ kind: "failed", code: "repo-unavailable", message: folder });
  }
  write(daemon.userDb, () => insertRepo(daemon.userDb, row));
  startRepo(daemon, row.repoId);
  daemon.log.info(`registered ${row.repoRoot} as ${row.repoId}`);
  return { repo: repoSummary(daemon, row), created: true };
}
