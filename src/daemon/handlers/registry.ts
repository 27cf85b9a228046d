/** The registry of repositories. */
import type { DaemonCaller } from "../attempts.ts";
import type { Grant } from "../../authority/broker.ts";
import { requireGrant } from "../../authority/enforcer.ts";
import { SerialQueues } from "../../core/serial-queue.ts";
import type { Input, Output } from "../../rpc/contract/methods.ts";
import type { Handlers } from "../../rpc/server.ts";
import { listRepos, repoByPath } from "../../store/repos.ts";
import { carryOut, goOn } from "../approved.ts";
import { locate, planRegister, registered } from "../register.ts";
import { openRepo, startRepo } from "../repos.ts";
import type { Daemon } from "../runtime.ts";
import { planUnregister, type UnregisterArgs } from "../unregister.ts";
import { repoSummary } from "../views.ts";
import { resolveContext } from "./resolve.ts";

type RegistryMethod = "RegisterRepo" | "UnregisterRepo" | "ListRepos" | "ResolveContext";

export function registryHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, RegistryMethod> {
  const queue = new SerialQueues();
  return {
    // One after another: two commands in one new repository register it once.
    RegisterRepo: (input, { caller }) =>
      queue.run("registry", () => register(daemon, input, caller)),
    UnregisterRepo: (input, { caller }) =>
      queue.run("registry", () => unregister(daemon, input, caller)),
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
async function register(
  daemon: Daemon,
  { folder }: Input<"RegisterRepo">,
  caller: DaemonCaller,
): Promise<Output<"RegisterRepo">> {
  const location = await locate(daemon, folder);
  const known = repoByPath(daemon.userDb, location.repoDir);
  if (known !== null) {
    const broken = daemon.broken.has(known.repoId);
    if (broken && (await openRepo(daemon, known)) !== null) startRepo(daemon, known.repoId);
    return { repo: repoSummary(daemon, known), created: false };
  }
  const grant = requireGrant(caller, "RegisterRepo");
  const { row } =
    grant.begun === null
      ? await carryOut(
          daemon,
          "RegisterRepo",
          { grant, ...(await planRegister(daemon, folder)) },
          { folder },
        )
      : await goOn(daemon, "RegisterRepo", grant.begun);
  await registered(daemon, row);
  startRepo(daemon, row.repoId);
  return { repo: repoSummary(daemon, row), created: true };
}

async function unregister(
  daemon: Daemon,
  { repo, keepState }: Input<"UnregisterRepo">,
  caller: DaemonCaller,
): Promise<Output<"UnregisterRepo">> {
  const grant = requireGrant(caller, "UnregisterRepo");
  const { row, outcome } =
    grant.begun === null
      ? await forget(daemon, grant, { repo, keepState })
      : await goOn(daemon, "UnregisterRepo", grant.begun);
  daemon.log.info(`unregistered ${row.repoRoot} (${row.repoId})`);
  return outcome as Output<"UnregisterRepo">;
}

async function forget(
  daemon: Daemon,
  grant: Grant,
  args: UnregisterArgs,
): ReturnType<typeof carryOut> {
  const { digest, row, check } = await planUnregister(daemon, args);
  return carryOut(daemon, "UnregisterRepo", { grant, digest, check, rowFor: () => row }, args);
}
