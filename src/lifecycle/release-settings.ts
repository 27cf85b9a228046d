/** What a launch changed outside kiki's own folders is given back once no agent of the thread runs any more. */
import { errorLine } from "../core/errors.ts";
import type { ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { raiseAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { liveSession } from "../store/sessions.ts";
import { allThreads, threadById, type ThreadRow } from "../store/threads.ts";
import type { CreationDeps } from "./creation-deps.ts";

type ReleaseDeps = Pick<CreationDeps, "db" | "clock" | "harness" | "log" | "repoId" | "stateDir">;

/** Never throws: what could not be given back is said, and tried again at the next start of the daemon. */
export function releaseSettings(deps: ReleaseDeps, threadId: ThreadId): void {
  const thread = threadById(deps.db, threadId);
  if (thread === null || liveSession(deps.db, threadId) !== null) return;
  releaseNow(deps, thread);
}

/** At boot: those whose agents ended while no daemon was there. */
export function releaseAllSettings(deps: ReleaseDeps): void {
  for (const { threadId, lifecycle } of allThreads(deps.db))
    // A creation that is under way may have prepared the launch it is about to make.
    if (lifecycle !== "Creating") releaseSettings(deps, threadId);
}

/** Whatever runs: the caller knows that nothing does. */
export function releaseNow(deps: ReleaseDeps, thread: ThreadRow): void {
  const { db, clock, log, repoId, stateDir } = deps;
  const { threadId } = thread;
  let line: string | null;
  try {
    const folder = threadPaths(stateDir, repoId, threadId).harness;
    line = deps.harness(thread.harness).release?.(folder) ?? null;
  } catch (error) {
    line = `settings of "${thread.name}" could not be given back: ${errorLine(error)}`;
  }
  if (line === null) return;
  log.warn(line);
  const attention = {
    threadId,
    kind: "settings-edited",
    dedupKey: line,
    message: line,
    loud: true,
  };
  write(db, () => raiseAttention(db, { ...attention, now: clock.now() }));
}
