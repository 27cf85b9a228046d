/** `kk status`: one thread in full, then what jj says about its workspace. */
import { defineCommand } from "citty";
import { errorLine } from "../core/errors.ts";
import { renderStatus } from "../core/render/status.ts";
import type { Client } from "../rpc/client.ts";
import type { ThreadState } from "../rpc/contract/types.ts";
import { readOrAsk, type Request } from "./approved-call.ts";
import { connect, type Connection } from "./connect.ts";
import { targetThread } from "./context.ts";
import { clientOf } from "./credentials.ts";
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
    const connection = await connect();
    const { client, stateDir } = connection;
    const target = await targetThread(client, args.thread);
    const json = args.json === true;
    // The thread of this place is read as that thread; another one's state may need a person's yes.
    const own = (): Client => clientOf(stateDir, target.repo.repoId, target.thread);
    const at = { stateDir, client: args.thread === undefined ? own() : client };
    const name = JSON.stringify(args.thread ?? target.thread);
    const asked = `the state of thread ${name}`;
    const state = await readOrAsk(at, "GetThreadState", target, { asked, json });
    if (json) return printJson(state);
    const { repoId, threadId } = state.summary;
    const body = (): Promise<string> =>
      statusBody(at, { repo: { repoId }, thread: threadId }, name);
    const shown = args.jj && hasWorkspace(state) ? await body() : null;
    print(renderStatus(state, { colour: colour(), body: shown }));
  },
});

/** Where the folder is known to be gone, the header says so, and jj has nothing to add. */
function hasWorkspace(state: ThreadState): boolean {
  const undone = state.summary.lifecycle === "CreateFailed" && state.head === null;
  return !undone && !state.issues.some((item) => item.issue === "WorkspaceDirectoryMissing");
}

/** The header must show even when jj cannot answer, or nobody agrees: then the body says so in one line. */
async function statusBody(
  at: Pick<Connection, "client" | "stateDir">,
  thread: Request<"GetStatusBody">,
  name: string,
): Promise<string> {
  try {
    const asking = { asked: `the jj status of thread ${name}`, json: false };
    return (await readOrAsk(at, "GetStatusBody", thread, asking)).text;
  } catch (error) {
    return `jj status is not available: ${errorLine(error)}`;
  }
}
