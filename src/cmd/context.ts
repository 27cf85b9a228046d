/**
 * What a command's place says, gathered for the daemon to decide on (core/context.ts): the thread the environment
 * names, the thread of the tmux session on this terminal, the folder.
 */
import { passedOverText } from "../core/context.ts";
import { fail, type KikiError } from "../core/errors.ts";
import type { Client } from "../rpc/client.ts";
import type { Output } from "../rpc/contract/methods.ts";
import { note } from "./out.ts";
import { tmuxThread } from "./tmux-client.ts";

type Context = Output<"ResolveContext">;
type Env = Readonly<Record<string, string | undefined>>;

/** The thread this command runs in. */
export interface ContextThread {
  repoId: string;
  threadId: string;
}

/** Throws KikiError `unknown-thread` or `ambiguous-thread` for a named target. */
export async function discoverContext(
  client: Client,
  target: string | null = null,
  env: Env = process.env,
): Promise<Context> {
  const environment = env["KIKI_THREAD_ID"] || null;
  const ask = (tmux: string | null): Promise<Context> =>
    client.call("ResolveContext", { target, environment, tmux, folder: currentFolder() });
  // tmux is another program: asked only where its answer can count.
  if (environment === null) return ask(tmuxThread(env));
  const context = await ask(null);
  const decided = !context.passed.some((pointer) => pointer.source === "environment");
  const tmux = decided ? null : tmuxThread(env);
  return tmux === null ? context : ask(tmux);
}

/** null when neither the environment nor tmux nor the folder belongs to a thread that is open. */
export async function contextThread(client: Client): Promise<ContextThread | null> {
  const context = await discoverContext(client);
  noteStale(context);
  const { repo, thread } = context;
  return repo === null || thread === null
    ? null
    : { repoId: repo.repoId, threadId: thread.threadId };
}

/** The thread a command is about. Throws KikiError `no-thread` when nothing names one. */
export async function targetThread(
  client: Client,
  target: string | undefined,
): Promise<{ repo: { repoId: string }; thread: string }> {
  const context = await discoverContext(client, target ?? null);
  const { repo, thread } = context;
  if (repo === null || thread === null) throw noThread(context);
  if (target === undefined) noteStale(context);
  return { repo: { repoId: repo.repoId }, thread: thread.threadId };
}

/** A variable that names nobody has been ignored; the person who set it wants to know. */
function noteStale({ passed, thread, by }: Context): void {
  const stale = passed.filter(({ source }) => source === "environment");
  const text = passedOverText(stale);
  if (text === null) return;
  const instead =
    thread === null ? "no thread is assumed" : `going by the ${by}: ${JSON.stringify(thread.name)}`;
  note(`${text}; ${instead}`);
}

/** null in a folder that has been removed. (Bun 1.4.5 itself does not start in one; it may go later.) */
function currentFolder(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}

function noThread({ passed }: Context): KikiError {
  const why = passedOverText(passed);
  return fail(
    "notFound",
    "no-thread",
    why === null
      ? "no thread here: this is neither a thread's workspace nor its tmux session"
      : `no thread here: ${why}`,
    "name one: kk ls lists them",
  );
}
