/** Creations that failed: what is still there under their names, and what can be done about it. */
import type { Claim } from "../core/approval.ts";
import type { LifecycleOpId, RepoId, ThreadId } from "../core/ids.ts";
import { errorLine, fail } from "../core/errors.ts";
import { threadPaths } from "../core/paths.ts";
import { examineFailedCreation, type FailedCreation } from "../core/repair.ts";
import type { JjRepo } from "../ports/jj.ts";
import type { Processes } from "../ports/processes.ts";
import type { Recipes } from "../ports/recipes.ts";
import type { TmuxBackend } from "../ports/tmux.ts";
import { threadCredential } from "../store/credentials.ts";
import type { Db } from "../store/db.ts";
import { latestOperationOf, stepsOf } from "../store/lifecycle-ops.ts";
import { sessionsOf } from "../store/sessions.ts";
import type { ThreadRow } from "../store/threads.ts";
import type { Repairer, RepairCaller } from "./repairs.ts";

interface RetryPlan {
  textFor(columns: number): string;
  digest: string;
}

export interface CreationRepairDeps<P extends RetryPlan> {
  repoId: RepoId;
  stateDir: string;
  db: Db;
  jj: JjRepo;
  tmux(socket: string | null): TmuxBackend;
  processes: Processes;
  recipes: Pick<Recipes, "carrying">;
  files: {
    kind(path: string): Promise<FailedCreation["folder"]>;
    readText(path: string): Promise<string | null>;
  };
  /** The neighbour that makes threads. */
  creation: {
    leftovers(threadId: ThreadId): string[];
    retryBase(threadId: ThreadId): Promise<{ commit: string; description: string; why: string }>;
    planRetry(threadId: ThreadId, caller: RepairCaller): Promise<P>;
    repair(
      threadId: ThreadId,
      choice: { repair: "retry" | "clean-up"; repairId: string },
      retry: { plan: P; caller: RepairCaller } | null,
      claim: Claim,
    ): Promise<LifecycleOpId>;
  };
}

export function creationRepairer<P extends RetryPlan>(deps: CreationRepairDeps<P>): Repairer {
  return {
    concerns: (thread) => thread.lifecycle === "CreateFailed",
    async examine(thread) {
      return examineFailedCreation(await look(deps, thread));
    },
    async prepare(thread, kind, caller) {
      const { creation } = deps;
      const { threadId } = thread;
      if (kind === "creation-cleanup") {
        return {
          textFor: () => "",
          digest: kind,
          begin: (repairId, claim) =>
            creation.repair(threadId, { repair: "clean-up", repairId }, null, claim),
        };
      }
      if (kind !== "creation-retry") {
        throw fail("failed", "repair-unknown", `no repair of kind ${kind}`, "kk repair");
      }
      const plan = await creation.planRetry(threadId, caller);
      return {
        textFor: (columns) => plan.textFor(columns),
        digest: plan.digest,
        begin: (repairId, claim) =>
          creation.repair(threadId, { repair: "retry", repairId }, { plan, caller }, claim),
      };
    },
  };
}

async function look<P extends RetryPlan>(
  deps: CreationRepairDeps<P>,
  thread: ThreadRow,
): Promise<FailedCreation> {
  const { threadId, workspaceName, workspacePath, bookmark, tmuxSession } = thread;
  const found = await inJj(deps.jj, thread);
  const { credential } = threadPaths(deps.stateDir, deps.repoId, threadId);
  return {
    lifecycle: thread.lifecycle,
    error: latestOperationOf(deps.db, threadId, "Create")?.error ?? "unknown",
    names: { workspaceName, workspacePath, bookmark, tmuxSession },
    leftovers: deps.creation.leftovers(threadId),
    ...found,
    folder: await deps.files.kind(workspacePath),
    session: await sessionNow(deps, thread),
    credential: {
      row: threadCredential(deps.db, threadId) !== null,
      file: (await deps.files.readText(credential)) !== null,
    },
    processes: runningNow(deps, threadId),
    base: await baseNow(deps, threadId),
  };
}

/** In every head there is: while there are several, none of them is the repository. */
async function inJj(
  jj: JjRepo,
  { workspaceName, bookmark }: ThreadRow,
): Promise<Pick<FailedCreation, "record" | "bookmark">> {
  let record: string | null = null;
  const targets = new Set<string>();
  for (const op of await jj.heads()) {
    const view = (await jj.workspaces(op)).find((w) => w.workspace === workspaceName);
    record ??= view?.commitId ?? null;
    const marked = (await jj.bookmarks(op)).find((b) => b.name === bookmark);
    for (const target of marked?.targets ?? []) targets.add(target);
  }
  return { record, bookmark: [...targets].sort() };
}

async function sessionNow<P extends RetryPlan>(
  deps: CreationRepairDeps<P>,
  { tmuxSocket, tmuxSession, threadId }: ThreadRow,
): Promise<FailedCreation["session"]> {
  const sessions = await deps.tmux(tmuxSocket).listSessions();
  if (!sessions.known) return { unknown: sessions.reason };
  if (sessions.value.some((s) => s.tags["@kiki_thread"] === threadId)) return "own";
  return sessions.value.some((s) => s.name === tmuxSession) ? "foreign" : "none";
}

/** By pid and start time for agents, by its token for a recipe. */
function runningNow<P extends RetryPlan>(
  deps: CreationRepairDeps<P>,
  threadId: ThreadId,
): number[] {
  const agents = sessionsOf(deps.db, threadId).filter(
    (s) => s.pid !== null && deps.processes.identify(s.pid)?.startTime === s.startTime,
  );
  const op = latestOperationOf(deps.db, threadId, "Create");
  const setup =
    op === null ? undefined : stepsOf(deps.db, op.operationId).find((s) => s.name === "setup");
  const token = (setup?.identity as { token?: string | null } | null)?.token ?? null;
  const recipe = token === null ? [] : deps.recipes.carrying(token);
  return [...agents.map((s) => s.pid!), ...recipe.map((p) => p.pid)].sort((a, b) => a - b);
}

async function baseNow<P extends RetryPlan>(
  deps: CreationRepairDeps<P>,
  threadId: ThreadId,
): Promise<FailedCreation["base"]> {
  try {
    return await deps.creation.retryBase(threadId);
  } catch (error) {
    return { problem: errorLine(error) };
  }
}
