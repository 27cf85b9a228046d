/**
 * The environment of a thread is written before its row: a daemon killed in between leaves a folder no row speaks of.
 * It holds a person's keys, so the next start takes it away.
 */
import { repoPaths } from "../core/paths.ts";
import { latestOperation } from "../store/lifecycle-ops.ts";
import { threadById } from "../store/threads.ts";
import type { CreationDeps } from "./creation-deps.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** `beginning`: threads whose row this very process is about to write. */
export async function sweepForgotten(
  deps: CreationDeps,
  beginning: ReadonlySet<string>,
): Promise<void> {
  const root = `${repoPaths(deps.stateDir, deps.repoId).root}/harness`;
  if ((await deps.files.kind(root)) !== "folder") return;
  const names = new Set((await deps.files.listFiles(root, [])).map((path) => path.split("/")[0]!));
  for (const name of names) {
    const threadId = UUID.exec(name)?.[0];
    if (threadId === undefined || beginning.has(threadId)) continue;
    const thread = threadById(deps.db, threadId);
    // Besides the folder itself there is only what a repair keeps aside while it runs.
    const wanted =
      name === threadId
        ? thread !== null && thread.lifecycle !== "Destroyed"
        : latestOperation(deps.db, threadId)?.state === "Running";
    if (wanted) continue;
    deps.log.warn(`removed what a creation that never began had left: ${name}`);
    if (name === threadId) await deps.files.removeTree(`${root}/${name}`);
    else await deps.files.removeDurable(`${root}/${name}`);
  }
}
