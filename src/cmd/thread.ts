/** `kk thread`: what is about one thread and not needed every day. */
import { defineCommand } from "citty";
import { readOrAsk } from "./approved-call.ts";
import { auditFilter, auditFlags, showAudit } from "./audit-flags.ts";
import { connect } from "./connect.ts";
import { targetThread } from "./context.ts";
import { clientOf } from "./credentials.ts";

const auditCommand = defineCommand({
  meta: { name: "audit", description: "Requests about a thread; its own are shown without asking" },
  args: {
    thread: {
      type: "positional",
      required: false,
      description: "Name, unique prefix of a name, or id; default: the thread of this place",
    },
    ...auditFlags,
  },
  async run({ args }) {
    const filter = await auditFilter(args, "kk help thread audit", Date.now());
    const { client, stateDir } = await connect();
    const target = await targetThread(client, args.thread);
    const json = args.json === true;
    // The thread of this place is asked about as that thread; about another one, a person is asked first.
    const { repo, thread } = target;
    const at = args.thread === undefined ? clientOf(stateDir, repo.repoId, thread) : client;
    const asking = {
      asked: `the requests about thread ${JSON.stringify(args.thread ?? thread)}`,
      json,
    };
    const request = { ...target, ...filter };
    const log = await readOrAsk({ client: at, stateDir }, "GetThreadAudit", request, asking);
    await showAudit(client, log, filter, { json, threads: false, repos: false });
  },
});

export const threadCommand = defineCommand({
  meta: { name: "thread", description: "More about one thread" },
  subCommands: { audit: auditCommand },
});
