/**
 * Edits of a serial harness's workspace that no hooked call explains. A tool that fires no hook cannot be held, so one
 * such edit is enough: from there on the incarnation is told by a restart only.
 */
import { editedOutsideCalls } from "../core/serial.ts";
import { cascadeThread } from "../store/edges.ts";
import { callTimes } from "../store/serial.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

/** Letters of a probe that stand for content the agent's side wrote. */
const WRITTEN = /^[MAT] /;

/**
 * What shows it, in words; null: nothing does. Looks at what differs from the recorded checkout, when work is about to
 * be bound and nothing is in flight: files that kiki or jj wrote do not differ, and deletions leave no time behind.
 */
export async function unhookedEdit(deps: CascadeDeps, caller: HookCaller): Promise<string | null> {
  const thread = cascadeThread(deps.db, caller.threadId);
  const times = callTimes(deps.db, caller.incarnation);
  const [op, ...others] = await deps.jj.heads();
  if (thread === null || times === null || op === undefined || others.length > 0) return null;
  const { changed } = await deps.jj.probe(thread.workspacePath, thread.workspaceName, op);
  for (const entry of changed.filter((line) => WRITTEN.test(line))) {
    const path = entry.slice(2);
    const at = deps.files.changedAt(`${thread.workspacePath}/${path}`);
    if (at !== null && editedOutsideCalls(at, times))
      return `${path} was changed while no call was in flight`;
  }
  return null;
}
