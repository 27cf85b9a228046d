/** `kk status`: one thread in full, then what jj says about its workspace. */
import { defineCommand } from "citty";
import { errorLine } from "../core/errors.ts";
import { renderStatus } from "../core/render/status.ts";
import type { Client } from "../rpc/client.ts";
import type { Input } from "../rpc/contract/methods.ts";
import type { ThreadState } from "../rpc/contract/types.ts";
import { connect } from "./connect.ts";
import { targetThread } from "./context.ts";
import { colour, print, printJson } from "./out.ts";

export const statusCommand = defineCommand({
  meta: {
    name: "status",
    description: "Show a thread: head, checkpoint, cascade, agent, jj status",
  },
  args: {
    thread: {
      type: "positional",
      required: false,
      description: "Name, unique prefix of a name, or id; default: the thread of this place",
    },
    jj: {
      type: "boolean",
      default: true,
      description: "Literal jj status of the workspace",
      negativeDescription: "Leave out the jj status",
    },
    json: { type: "boolean", description: "Print the thread's state as JSON" },
  },
  async run({ args }) {
    const { client } = await connect();
    const target = await targetThread(client, args.thread);
    const state = await client.call("GetThreadState", target);
    if (args.json) return printJson(state);
    const { repoId, threadId } = state.summary;
    const body =
      args.jj && hasWorkspace(state)
        ? await statusBody(client, { repo: { repoId }, thread: threadId })
        : null;
    print(renderStatus(state, { colour: colour(), body }));
  },
});

/** Where the folder is known to be gone, the header says so, and jj has nothing to add. */
function hasWorkspace(state: ThreadState): boolean {
  const undone = state.summary.lifecycle === "CreateFailed" && state.head === null;
  return !undone && !state.issues.some((item) => item.issue === "WorkspaceDirectoryMissing");
}

/** The header must show even when jj cannot answer: then the body says so in one line. */
async function statusBody(client: Client, thread: Input<"GetStatusBody">): Promise<string> {
  try {
    return (await client.call("GetStatusBody", thread)).text;
  } catch (error) {
    return `jj status is not available: ${errorLine(error)}`;
  }
}
