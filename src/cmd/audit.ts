/** `kk audit log`: every request there was, after a person's yes. */
import { defineCommand } from "citty";
import { fail } from "../core/errors.ts";
import type { Client } from "../rpc/client.ts";
import type { Input } from "../rpc/contract/methods.ts";
import { approvedCall } from "./approved-call.ts";
import { auditFilter, auditFlags, showAudit } from "./audit-flags.ts";
import { connect } from "./connect.ts";
import { discoverContext } from "./context.ts";

const USAGE = "kk help audit log";

const ASKED = {
  user: "the audit log of what concerns no repository",
  all: "the audit log of every repository",
  repo: "the audit log of this repository",
};

const logCommand = defineCommand({
  meta: { name: "log", description: "Every request of this repository, and how it ended" },
  args: {
    user: { type: "boolean", description: "Requests that concern no repository" },
    "all-repos": { type: "boolean", description: "Requests of every registered repository" },
    ...auditFlags,
  },
  async run({ args }) {
    const everywhere = args["all-repos"] === true;
    if (args.user && everywhere) {
      throw fail("usage", "usage", "--user and --all-repos exclude each other", USAGE);
    }
    const filter = await auditFilter(args, USAGE, Date.now());
    const connection = await connect();
    const { client } = connection;
    const scope = args.user ? "user" : everywhere ? "all" : "repo";
    const repo = scope === "repo" ? await repoHere(client) : null;
    const json = args.json === true;
    const asking = { asked: ASKED[scope], json };
    const log = await approvedCall(connection, "GetAuditLog", { scope, repo, ...filter }, asking);
    await showAudit(client, log, filter, { json, threads: true, repos: everywhere });
  },
});

/** An id, so that an approval is for this repository wherever the folder leads to later. */
async function repoHere(client: Client): Promise<Input<"GetAuditLog">["repo"]> {
  const { repo } = await discoverContext(client);
  if (repo !== null) return { repoId: repo.repoId };
  throw fail(
    "notFound",
    "not-registered",
    "this folder is in no registered repository",
    "kk audit log --all-repos, or --user for what concerns none",
  );
}

export const auditCommand = defineCommand({
  meta: { name: "audit", description: "What was asked of kiki, by whom, and how it ended" },
  subCommands: { log: logCommand },
});
