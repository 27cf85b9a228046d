/** `kk switch`: moves this terminal to a thread's tmux session. Changes nothing in the daemon. */
import { defineCommand } from "citty";
import { fail } from "../core/errors.ts";
import { shellLine, threadWord } from "../core/shell-line.ts";
import type { Output } from "../rpc/contract/methods.ts";
import type { ThreadSummary } from "../rpc/contract/types.ts";
import { connect } from "./connect.ts";
import { targetThread } from "./context.ts";
import { note, print, printJson, stdoutIsTerminal } from "./out.ts";
import { runOnTerminal } from "./spawn-tty.ts";
import { moveTo } from "./tmux-client.ts";

export const switchCommand = defineCommand({
  meta: { name: "switch", description: "Go to a thread's tmux session" },
  args: {
    thread: {
      type: "positional",
      required: true,
      description: "Name, unique prefix of a name, or id",
    },
    json: { type: "boolean", description: "Print how to get there as JSON, without going" },
  },
  async run({ args }) {
    const { client } = await connect();
    const panes = await client.call("EnsurePanes", await targetThread(client, args.thread));
    if (args.json) return printJson(panes);
    goTo(panes);
  },
});

/** Moves the terminal; where that is impossible, prints the command that does it. */
export function goTo(panes: Output<"EnsurePanes">): void {
  const { summary, sessionAlive } = panes;
  if (!sessionAlive || summary.tmuxSessionId === null) throw noSession(summary);
  const move = moveTo(
    { socket: summary.tmuxSocket, sessionId: summary.tmuxSessionId },
    process.env,
    stdoutIsTerminal(),
  );
  if (move.how === "tell") {
    note(`${move.why}; this goes there:`);
    return print(shellLine(move.argv));
  }
  const code = runOnTerminal(move.argv);
  if (code === 0) return;
  throw fail(
    "failed",
    "tmux-switch",
    `tmux could not go to ${JSON.stringify(summary.name)} (exit ${code})`,
    `try: ${shellLine(move.argv)}`,
  );
}

function noSession(summary: ThreadSummary): Error {
  if (summary.lifecycle !== "Active") {
    return fail(
      "failed",
      "no-session",
      `${JSON.stringify(summary.name)} has no tmux session: it is ${summary.lifecycle}`,
      `kk status ${threadWord(summary.name)}`,
    );
  }
  return fail(
    "needsRepair",
    "session-missing",
    `the tmux session of ${JSON.stringify(summary.name)} is gone`,
    `kk status ${threadWord(summary.name)}`,
  );
}
