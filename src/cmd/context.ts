/**
 * Which repository and thread a command is about: explicit target → KIKI_THREAD_ID → tmux session → folder
 * (commands chapter, "Context").
 */
import { fail, type KikiError } from "../core/errors.ts";
import type { Client } from "../rpc/client.ts";
import type { Input } from "../rpc/contract/methods.ts";
import { tmuxThread } from "./tmux-client.ts";

type ThreadRef = Input<"GetThreadState">;
type Env = Readonly<Record<string, string | undefined>>;

/** The thread this command runs in. */
export interface ContextThread {
  repoId: string;
  threadId: string;
}

/** null when neither the environment nor tmux nor the folder belongs to a thread. */
export async function contextThread(
  client: Client,
  env: Env = process.env,
  folder: string = process.cwd(),
): Promise<ContextThread | null> {
  const { KIKI_THREAD_ID: threadId, KIKI_REPO_ID: repoId } = env;
  if (threadId && repoId) return { repoId, threadId };
  if (threadId) return { repoId: await repoOf(client, threadId), threadId };
  const shown = tmuxThread(env);
  if (shown !== null) {
    // A session of another state folder, or of a thread that is gone, says nothing about this command.
    const shownRepo = await repoOf(client, shown).catch(() => null);
    if (shownRepo !== null) return { repoId: shownRepo, threadId: shown };
  }
  const { repo, thread } = await client.call("ResolveFolder", { folder });
  if (repo === null || thread === null) return null;
  return { repoId: repo.repoId, threadId: thread.threadId };
}

/** A thread id is unique, so it is looked up in all repositories. */
async function repoOf(client: Client, threadId: string): Promise<string> {
  const state = await client.call("GetThreadState", { repo: {}, thread: threadId });
  return state.summary.repoId;
}

/**
 * The thread a command is about. A name is looked up in the repository of the context, else in that of the folder,
 * else, outside any repository, in all. Throws KikiError `no-thread` when nothing names one.
 */
export async function targetThread(client: Client, target: string | undefined): Promise<ThreadRef> {
  const context = await contextThread(client);
  if (target === undefined) {
    if (context === null) throw noThread();
    return { repo: { repoId: context.repoId }, thread: context.threadId };
  }
  if (context !== null) return { repo: { repoId: context.repoId }, thread: target };
  const { repo } = await client.call("ResolveFolder", { folder: process.cwd() });
  return { repo: repo === null ? {} : { repoId: repo.repoId }, thread: target };
}

function noThread(): KikiError {
  return fail(
    "notFound",
    "no-thread",
    "no thread here: this is neither a thread's workspace nor its tmux session",
    "name one: kk ls lists them",
  );
}
