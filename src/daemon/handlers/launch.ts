/** The agent pane's inert wrapper: it waits for a launch and reports what became of it. */
import type { DaemonCaller } from "../attempts.ts";
import { fail } from "../../core/errors.ts";
import type { Handlers } from "../../rpc/server.ts";
import { sessionById } from "../../store/sessions.ts";
import { repoById, type Daemon, type RepoRuntime } from "../runtime.ts";

type LaunchMethod = "AwaitLaunchGate" | "ReportHarnessStarted" | "ReportHarnessExited";

/** A wrapper asks again at once, so a longer wait would only make a stopping daemon slower. */
const MAX_WAIT_MS = 60_000;

export function launchHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, LaunchMethod> {
  return {
    async AwaitLaunchGate(input, context) {
      const repo = repoById(daemon, input.repoId);
      const waitMs = Math.min(Math.max(0, input.waitMs), MAX_WAIT_MS);
      const over = AbortSignal.any([context.signal, context.stopping]);
      return { launch: await repo.creation.awaitGate(input.threadId, input.paneId, waitMs, over) };
    },
    ReportHarnessStarted(input) {
      const repo = repoById(daemon, input.repoId);
      checkOwner(repo, input);
      repo.creation.harnessStarted(input.incarnation, input.pid, input.startTime);
      return {};
    },
    ReportHarnessExited(input) {
      const repo = repoById(daemon, input.repoId);
      checkOwner(repo, input);
      repo.creation.harnessExited(input.incarnation, input.exitCode, input.signal);
      return {};
    },
  };
}

/** The credential proved the thread; the incarnation must be one of its own. */
function checkOwner(repo: RepoRuntime, input: { threadId: string; incarnation: string }): void {
  if (sessionById(repo.db, input.incarnation)?.threadId === input.threadId) return;
  throw fail(
    "approval",
    "incarnation-unknown",
    `incarnation ${input.incarnation} is not one of this thread's`,
  );
}
