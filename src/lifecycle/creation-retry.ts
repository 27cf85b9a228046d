/** Planning a failed creation once more: the same request, from the thread's row and the failed journal. */
import { fail } from "../core/errors.ts";
import type { ThreadId } from "../core/ids.ts";
import { latestOperationOf, type OperationRow } from "../store/lifecycle-ops.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import { chooseBase, parentHead, type BaseChoice } from "./creation-base.ts";
import type { CreateArgs, CreateInput, CreationDeps } from "./creation-deps.ts";
import { planCreation, type CreationPlan } from "./creation-plan.ts";

/** What only the person's terminal knows; the rest is as it was approved the first time. */
export interface RetryCaller {
  harnessExecutable: string | null;
  env: Record<string, string>;
}

/** Throws `unknown-thread`, `not-create-failed`. */
export function failedCreation(
  deps: Pick<CreationDeps, "db">,
  threadId: ThreadId,
): { thread: ThreadRow; op: OperationRow } {
  const thread = threadById(deps.db, threadId);
  if (thread === null) throw fail("notFound", "unknown-thread", `no thread ${threadId}`, "kk ls");
  const op = latestOperationOf(deps.db, threadId, "Create");
  if (thread.lifecycle === "CreateFailed" && op?.state === "Failed") return { thread, op };
  throw fail(
    "failed",
    "not-create-failed",
    `"${thread.name}" is ${thread.lifecycle}, not CreateFailed`,
    "kk repair shows what there is to repair",
  );
}

/** Where the thread would start from now, which may be elsewhere than the first time. Errors as `chooseBase`. */
export async function retryBase(deps: CreationDeps, threadId: ThreadId): Promise<BaseChoice> {
  const { op } = failedCreation(deps, threadId);
  const args = op.args as CreateArgs;
  const at = await deps.refreshToFrontier(deps.repoId);
  if (args.follows === null) return chooseBase(deps.jj, at, baseAsked(deps, args));
  const parent = threadById(deps.db, args.follows);
  if (parent?.lifecycle !== "Active") {
    throw fail(
      "failed",
      "parent-not-active",
      `it followed "${parent?.name ?? args.follows}", which is ${parent?.lifecycle ?? "gone"} now`,
      "clean it up, and start a new thread",
    );
  }
  const head = await parentHead(deps.jj, at, parent);
  const why = `the working copy (@) of "${parent.name}"`;
  return { commit: head.commitId, description: head.description, why };
}

/**
 * The plan of the same thread made once more. `leftovers`: something of the failed creation is still there, under the
 * very names, and is taken away first. Errors as `planCreation`.
 */
export async function planRetry(
  deps: CreationDeps,
  threadId: ThreadId,
  caller: RetryCaller,
  leftovers: boolean,
): Promise<CreationPlan> {
  const { thread, op } = failedCreation(deps, threadId);
  const args = op.args as CreateArgs;
  const { revset, folder } = baseAsked(deps, args);
  const input: CreateInput = {
    name: thread.name,
    prompt: thread.firstPrompt,
    follows: args.follows,
    noFollow: args.follows === null,
    base: args.follows === null ? revset : null,
    harness: thread.harness,
    harnessArgs: thread.harnessArgs,
    harnessExecutable: caller.harnessExecutable ?? thread.harnessExecutable,
    contextThread: null,
    folder,
    tmuxSocket: thread.tmuxSocket,
    columns: args.columns,
    rows: args.rows,
    shell: args.shell,
    env: caller.env,
  };
  const { name, slug, workspaceName, workspacePath, bookmark, tmuxSession } = thread;
  const names = { name, slug, workspaceName, workspacePath, bookmark, tmuxSession };
  return planCreation(deps, input, { names, taken: null }, { again: true, leftovers });
}

/** Older journals do not say how the base was asked for; then it is chosen as without `--base`. */
function baseAsked(
  deps: Pick<CreationDeps, "jj">,
  args: CreateArgs,
): { revset: string | null; folder: string } {
  return args.baseAsked ?? { revset: null, folder: deps.jj.location.repoRoot };
}
