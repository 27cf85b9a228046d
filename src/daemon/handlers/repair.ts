/** `kk repair`: diagnosing, the plan behind an id, and carrying it out. */
import type { DaemonCaller } from "../attempts.ts";
import { requireGrant } from "../../authority/enforcer.ts";
import { fail } from "../../core/errors.ts";
import type { Diagnosis } from "../../rpc/contract/types.ts";
import type { Handlers } from "../../rpc/server.ts";
import { allThreads, type ThreadRow } from "../../store/threads.ts";
import { Descriptions } from "../descriptions.ts";
import type { Daemon, RepoRuntime } from "../runtime.ts";
import { stateOf } from "../views.ts";
import { resolveRepo, resolveThreadRef } from "./resolve.ts";
import { issuesOf } from "./issues.ts";

type RepairMethod = "DiagnoseRepair" | "ApplyRepair";

/** States that only a person's decision leads out of. */
const FAILED = new Set(["CreateFailed", "CloseFailed", "DestroyFailed", "ProjectionDiverged"]);

export function repairHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, RepairMethod> {
  return {
    async DiagnoseRepair({ repo: ref, thread }) {
      if (thread !== null) {
        const found = await resolveThreadRef(daemon, { repo: ref, thread });
        return { diagnoses: [await diagnose(daemon, found.repo, found.thread)] };
      }
      const repo = await resolveRepo(daemon, ref);
      const threads = allThreads(repo.db).filter((t) => t.lifecycle !== "Destroyed");
      const diagnoses: Diagnosis[] = [];
      // One after another: each reads jj and tmux, and nobody waits for this in a hurry.
      for (const row of threads) diagnoses.push(await diagnose(daemon, repo, row));
      return { diagnoses };
    },
    async ApplyRepair(args, { caller }) {
      const { repo, thread } = await resolveThreadRef(daemon, args);
      const { threadId, name } = thread;
      const answer = { repoId: repo.repoId, threadId, name };
      const grant = requireGrant(caller, "ApplyRepair");
      const { begun, digest } = grant;
      if (begun !== null) return { ...answer, operationId: begun };
      const plan = await repo.repairs.plan(threadId, args.planId, args);
      if (plan.digest !== digest) {
        throw fail(
          "approval",
          "plan-changed",
          "what you confirmed is not what would happen now: something it is based on has changed",
          "run kk repair again and look at the new plan",
        );
      }
      const operationId = await plan.begin((id) => grant.claim(id, { digest, lifecycle: true }));
      return { ...answer, operationId };
    },
  };
}

async function diagnose(daemon: Daemon, repo: RepoRuntime, thread: ThreadRow): Promise<Diagnosis> {
  const found = await repo.repairs.diagnose(thread.threadId);
  const { repoId } = repo;
  const { threadId, name, lifecycle, harness } = thread;
  if (found.authority.length > 0) return { ...found, repoId, name, lifecycle, harness };
  // In nobody's charge yet: what is missing is said all the same.
  const state = await stateOf(repo, new Descriptions(), threadId);
  const issues = state === null ? [] : await issuesOf(daemon, state);
  const observed = issues.map(({ issue, message }) => ({ name: issue, value: message, ok: false }));
  const needsRepair = issues.length > 0 || FAILED.has(lifecycle);
  return {
    ...found,
    repoId,
    name,
    lifecycle,
    harness,
    authority: [{ name: "lifecycle", value: lifecycle, ok: !FAILED.has(lifecycle) }],
    observed,
    notes: needsRepair ? ["this version has no repair for it; kk status says how to go on"] : [],
    needsRepair,
  };
}
