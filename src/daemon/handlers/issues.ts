/** What an Active thread should have outside the database and has not. */
import { statSync } from "node:fs";
import type { Observed } from "../../core/result.ts";
import type { ThreadState, ThreadSummary } from "../../rpc/contract/types.ts";
import type { Daemon } from "../runtime.ts";

/**
 * Whether the thread's session is there, as tmux has it now. Ids start again when a tmux server does, so the session
 * must also carry the thread's tag.
 */
export async function sessionAlive(
  daemon: Daemon,
  summary: ThreadSummary,
): Promise<Observed<boolean>> {
  const { tmuxSessionId: id, tmuxSocket, threadId } = summary;
  const sessions = await daemon.world.tmux(tmuxSocket).listSessions();
  if (!sessions.known) return sessions;
  const value = sessions.value.some((s) => s.id === id && s.tags["@kiki_thread"] === threadId);
  return { known: true, value };
}

/** What an active thread should have and has not. Others are half made or half gone, and their operation says it. */
export async function issuesOf(
  daemon: Daemon,
  state: Omit<ThreadState, "issues">,
): Promise<ThreadState["issues"]> {
  if (state.summary.lifecycle !== "Active") return [];
  const issues: ThreadState["issues"] = [];
  if (statSync(state.workspacePath, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const message = `there is no folder ${state.workspacePath}`;
    issues.push({ issue: "WorkspaceDirectoryMissing", message });
  }
  const alive = await sessionAlive(daemon, state.summary);
  if (alive.known && !alive.value) {
    const session = state.summary.tmuxSession ?? "of this thread";
    issues.push({ issue: "SessionMissing", message: `there is no tmux session ${session}` });
  }
  return issues;
}
