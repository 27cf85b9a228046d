/** Threads: planning and creating them, and everything a person may read of them. */
import type { DaemonCaller } from "../attempts.ts";
import { isOwn } from "../../core/access.ts";
import { requireGrant } from "../../authority/enforcer.ts";
import { errorLine, fail, type KikiError } from "../../core/errors.ts";
import type { Input, Output } from "../../rpc/contract/methods.ts";
import type { ThreadSummary } from "../../rpc/contract/types.ts";
import type { Handlers, RpcContext } from "../../rpc/server.ts";
import { latestOperation, operationById } from "../../store/lifecycle-ops.ts";
import { threadById } from "../../store/threads.ts";
import { configured } from "../configured.ts";
import { Descriptions } from "../descriptions.ts";
import { repoById, type Daemon, type RepoRuntime } from "../runtime.ts";
import { attentionOf, operationFrom, stateOf, summariesOf, summaryOf } from "../views.ts";
import { issuesOf, sessionAlive } from "./issues.ts";
import { openRepos, resolveRepo, resolveThreadRef } from "./resolve.ts";

type ThreadMethod =
  | "NewThread"
  | "RepoThreadSummaries"
  | "GetThreadState"
  | "GetLifecycleOperation"
  | "GetStatusBody"
  | "EnsurePanes";

/** A read waits this long for jj's newest operations before it answers with what is known. */
const MAX_CATCH_UP_MS = 1_500;

export function threadHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, ThreadMethod> {
  const descriptions = new Descriptions();
  return {
    async NewThread(args, { caller }) {
      const { repo: ref, ...input } = args;
      const repo = await resolveRepo(daemon, ref);
      const grant = requireGrant(caller, "NewThread");
      const { begun, digest } = grant;
      if (begun !== null) return begunThread(repo, begun);
      const asked = { ...configured(daemon, repo, input), digest };
      return repo.creation.create(asked, (operationId) =>
        grant.claim(operationId, { digest, lifecycle: true }),
      );
    },
    async RepoThreadSummaries({ repo: ref, closed }) {
      const repos = ref === null ? openRepos(daemon) : [await resolveRepo(daemon, ref)];
      await Promise.all(repos.map((repo) => caughtUp(daemon, repo)));
      const threads = await Promise.all(repos.map((r) => summariesOf(r, descriptions, closed)));
      return { threads: threads.flat() };
    },
    async GetThreadState(ref) {
      const { repo, thread } = await resolveThreadRef(daemon, ref);
      await caughtUp(daemon, repo);
      const state = await stateOf(repo, descriptions, thread.threadId);
      if (state === null) throw goneThread(thread.threadId);
      return { ...state, issues: await issuesOf(daemon, state) };
    },
    GetLifecycleOperation: (input, context) => followOperation(daemon, input, context),
    async GetStatusBody(ref) {
      const { repo, thread } = await resolveThreadRef(daemon, ref);
      return { text: await repo.jj.statusText(thread.workspacePath) };
    },
    async EnsurePanes(ref) {
      const { repo, thread } = await resolveThreadRef(daemon, ref);
      const summary = await summaryOf(repo, descriptions, thread.threadId);
      if (summary === null) throw goneThread(thread.threadId);
      return ensurePanes(daemon, summary);
    },
  };
}

/** What an approval has begun already: its answer was lost with a daemon. */
function begunThread(repo: RepoRuntime, operationId: string): Output<"NewThread"> {
  const { threadId } = operationById(repo.db, operationId)!;
  const { name } = threadById(repo.db, threadId)!;
  return { repoId: repo.repoId, threadId, name, operationId };
}

/** Somebody follows an operation on a terminal: so long after its end at most they hear of it. */
const FOLLOW_POLL_MS = 250;

/** Answers when the operation is not as `seen` any more, has ended, or the wait is over. */
async function followOperation(
  daemon: Daemon,
  input: Input<"GetLifecycleOperation">,
  context: RpcContext<DaemonCaller>,
): Promise<Output<"GetLifecycleOperation">> {
  const repo = repoById(daemon, input.repoId);
  const { clock } = daemon.world;
  const deadline = clock.monotonic() + input.waitMs;
  const over = AbortSignal.any([context.signal, context.stopping]);
  for (;;) {
    const now = operationNow(repo, input.operationId);
    const left = deadline - clock.monotonic();
    if (now.done || now.seen !== input.seen || left <= 0 || over.aborted) {
      return forCaller(now, context.caller, repo);
    }
    // Creations tell of their steps; a repair of an edge is another neighbour's and tells nobody.
    await repo.creation.changed(now.threadId, Math.min(left, FOLLOW_POLL_MS), over);
  }
}

/** Another thread that had it approved follows the operation; what its thread is told afterwards is not part of it. */
function forCaller(
  now: ReturnType<typeof operationNow>,
  caller: DaemonCaller,
  { repoId }: RepoRuntime,
): ReturnType<typeof operationNow> {
  if (!now.done || caller.kind !== "ThreadScoped") return now;
  const own = isOwn(caller, { repoId, threadId: now.threadId, began: false });
  return own ? now : { ...now, attention: [] };
}

function operationNow(
  repo: RepoRuntime,
  operationId: string,
): Output<"GetLifecycleOperation"> & { threadId: string } {
  const operation = operationById(repo.db, operationId);
  if (operation === null) {
    throw fail("notFound", "unknown-operation", `no lifecycle operation ${operationId}`, "kk ls");
  }
  const { threadId } = operation;
  const { steps, error } = operationFrom(repo, operation);
  const lifecycle = threadById(repo.db, threadId)?.lifecycle ?? "Destroyed";
  const attention = attentionOf(repo, threadId);
  const seen = [lifecycle, ...steps.map((step) => step.state), `${attention.length}`].join(" ");
  const newest = latestOperation(repo.db, threadId);
  const next = newest === null || newest.operationId === operationId ? null : newest.operationId;
  return {
    threadId,
    kind: operation.kind,
    lifecycle,
    done: operation.state !== "Running",
    error,
    next,
    steps,
    seen,
    attention,
  };
}

async function ensurePanes(daemon: Daemon, summary: ThreadSummary): Promise<Output<"EnsurePanes">> {
  const { tmuxSessionId: id, tmuxSocket } = summary;
  if (id === null) return { attach: [], sessionAlive: false, summary };
  const alive = await sessionAlive(daemon, summary);
  if (!alive.known) {
    throw fail(
      "failed",
      "tmux-unknown",
      `tmux does not say which sessions exist: ${alive.reason}`,
      "kk doctor",
    );
  }
  const attach = alive.value ? daemon.world.tmux(tmuxSocket).attachCommand(id, false) : [];
  return { attach, sessionAlive: alive.value, summary };
}

/** What was just done in jj is shown, not what a debounce ago was true. A slow jj costs a bounded wait, no more. */
async function caughtUp(daemon: Daemon, repo: RepoRuntime): Promise<void> {
  const read = repo.cascade.refreshToFrontier().catch((error: unknown) => {
    daemon.log.warn(`reading operations of ${repo.repoId} failed: ${errorLine(error)}`);
  });
  await Promise.race([read, daemon.world.clock.sleep(MAX_CATCH_UP_MS)]);
}

function goneThread(threadId: string): KikiError {
  return fail("notFound", "unknown-thread", `no thread ${threadId}`, "kk ls --all");
}
