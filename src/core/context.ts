/**
 * Which repository and thread a command is about. In this order, and the first that says something is believed:
 * a target a person names → KIKI_THREAD_ID → the tmux session → the folder. A thread that is gone or closed is never
 * implied, only named: what points to it is passed over, and said.
 */
import type { RepoId, ThreadId } from "./ids.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { err, ok, type Result } from "./result.ts";
import { resolveThread, type NamedThread, type ResolveProblem } from "./resolve.ts";

export const CONTEXT_SOURCES = ["target", "environment", "tmux", "folder"] as const;
export type ContextSource = (typeof CONTEXT_SOURCES)[number];

export interface KnownThread extends NamedThread {
  repoId: RepoId;
  lifecycle: Lifecycle;
}

/** What the command's place says, as it says it, and what there is. */
export interface ContextEvidence<T extends KnownThread = KnownThread> {
  /** Name, unique prefix of a name, or id; null when nothing was named. */
  target: string | null;
  environment: ThreadId | null;
  tmux: ThreadId | null;
  /** Repository and thread of the innermost workspace the folder lies in. */
  folder: { repoId: RepoId | null; threadId: ThreadId | null };
  /** All threads of this state folder; a destroyed one may be among them. */
  threads: readonly T[];
}

/** What pointed to a thread that is not implied. `gone`: no such thread in this state folder, or destroyed. */
export interface PassedOver {
  source: Exclude<ContextSource, "target">;
  threadId: ThreadId;
  name: string | null;
  why: "gone" | "closed";
}

export interface Context<T extends KnownThread = KnownThread> {
  /** null: the command is about no thread. */
  thread: T | null;
  /** The thread's, else the folder's; null outside any registered repository. */
  repoId: RepoId | null;
  /** What named the thread, or the repository. */
  by: ContextSource | null;
  passed: PassedOver[];
}

/**
 * A target's name is looked up in the repository of the implied thread, else in that of the folder, else in all; an id
 * in all. `ambiguous` lists the candidates.
 */
export function decideContext<T extends KnownThread>(
  seen: ContextEvidence<T>,
): Result<Context<T>, ResolveProblem<T> & { repoId: RepoId | null }> {
  const there = seen.threads.filter((thread) => thread.lifecycle !== "Destroyed");
  const implied = impliedContext(seen, there);
  if (seen.target === null) return ok(implied);
  const byId = there.find((thread) => thread.threadId === seen.target);
  const { repoId } = implied;
  const scope = repoId === null ? there : there.filter((thread) => thread.repoId === repoId);
  const found = byId === undefined ? resolveThread(scope, seen.target) : ok(byId);
  if (!found.ok) return err({ ...found.error, repoId });
  const thread = found.value;
  return ok({ thread, repoId: thread.repoId, by: "target", passed: implied.passed });
}

function impliedContext<T extends KnownThread>(
  seen: ContextEvidence<T>,
  there: readonly T[],
): Context<T> {
  const passed: PassedOver[] = [];
  const pointers = [
    ["environment", seen.environment],
    ["tmux", seen.tmux],
    ["folder", seen.folder.threadId],
  ] as const;
  for (const [source, threadId] of pointers) {
    if (threadId === null) continue;
    const thread = there.find((candidate) => candidate.threadId === threadId) ?? null;
    if (thread !== null && thread.lifecycle !== "Closed") {
      return { thread, repoId: thread.repoId, by: source, passed };
    }
    const why = thread === null ? "gone" : "closed";
    passed.push({ source, threadId, name: thread?.name ?? null, why });
  }
  const { repoId } = seen.folder;
  return { thread: null, repoId, by: repoId === null ? null : "folder", passed };
}

/** Why nothing is implied, in words; null when nothing pointed anywhere. */
export function passedOverText(passed: readonly PassedOver[]): string | null {
  const last = passed.at(-1);
  if (last === undefined) return null;
  const what = { environment: "KIKI_THREAD_ID", tmux: "this tmux session", folder: "this folder" };
  const pointer = what[last.source];
  return last.why === "closed"
    ? `${pointer} belongs to the closed thread ${JSON.stringify(last.name)}`
    : `${pointer} names a thread that is not there any more (${last.threadId})`;
}
