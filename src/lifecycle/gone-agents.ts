/**
 * Agents whose end nobody can report any more: the pane's wrapper, which would have, has ended too (tmux was killed,
 * the machine was restarted). Without this they would count as running for ever, and their edges would wait for them.
 */
import type { Processes } from "../ports/processes.ts";
import type { Db } from "../store/db.ts";
import { liveIncarnations } from "../store/edges.ts";
import { latestOperation, stepsOf } from "../store/lifecycle-ops.ts";
import { sessionById } from "../store/sessions.ts";
import { threadById } from "../store/threads.ts";
import type { LaunchEvidence } from "./creation-steps-session.ts";

/** Incarnations in the books as running, of which both the agent and the wrapper are provably gone. */
export function goneAgents(deps: { db: Db; processes: Processes }): string[] {
  const { db, processes } = deps;
  // Where this very process is not to be seen, "not seen" proves nothing.
  if (processes.identify(process.pid) === null) return [];
  const gone = (pid: number, startTime: string | null): boolean =>
    processes.identify(pid)?.startTime !== startTime;
  return liveIncarnations(db)
    .filter(({ threadId, incarnation }) => {
      // A creation in progress watches its pane itself, and says more about it.
      if (threadById(db, threadId)?.lifecycle === "Creating") return false;
      const session = sessionById(db, incarnation);
      const wrapper = wrapperOf(db, threadId);
      if (session === null || session.pid === null || wrapper === null) return false;
      return gone(session.pid, session.startTime) && gone(wrapper.wrapperPid, wrapper.wrapperStart);
    })
    .map(({ incarnation }) => incarnation);
}

function wrapperOf(db: Db, threadId: string): LaunchEvidence | null {
  const operation = latestOperation(db, threadId);
  if (operation === null) return null;
  const launch = stepsOf(db, operation.operationId).find((step) => step.name === "launch");
  return (launch?.result ?? null) as LaunchEvidence | null;
}
