/** `kk repo ls|unregister`: registered repositories. */
import { resolve } from "node:path";
import { defineCommand } from "citty";
import { padEnd, printable } from "../core/render/width.ts";
import { approvedCall } from "./approved-call.ts";
import { connect } from "./connect.ts";
import { print, printJson } from "./out.ts";

/** Where nothing is registered, a thread cannot be made either. */
export const NO_REPOS = "no repositories — kk init registers the jj repository it is run in";

const repoLs = defineCommand({
  meta: { name: "ls", description: "List registered repositories" },
  args: { json: { type: "boolean", description: "Print the repositories as JSON" } },
  async run({ args }) {
    const { client } = await connect();
    const result = await client.call("ListRepos", {});
    if (args.json) return printJson(result);
    if (result.repos.length === 0) return print(NO_REPOS);
    const counts = result.repos.map((r) => `${r.activeThreads} active, ${r.closedThreads} closed`);
    const width = Math.max(...counts.map((text) => text.length));
    const lines = result.repos.map(
      (repo, i) => `${padEnd(counts[i] ?? "", width)}  ${printable(repo.path)}`,
    );
    print(lines.join("\n"));
  },
});

const unregister = defineCommand({
  meta: { name: "unregister", description: "Forget a repository, after asking; it stays as it is" },
  args: {
    path: {
      type: "positional",
      required: true,
      description: "Its path as kk repo ls shows it, or a folder inside it",
    },
    "keep-state": {
      type: "boolean",
      description: "Keep kiki's state of it, to be taken up when it is registered again",
    },
    json: { type: "boolean", description: "Print the result as JSON" },
  },
  async run({ args }) {
    const connection = await connect();
    const folder = resolve(args.path);
    const { repos } = await connection.client.call("ListRepos", {});
    // A repository whose folder is gone is found by the path it was registered with.
    const known = repos.find((repo) => repo.path === folder);
    const repo = known === undefined ? { folder } : { repoId: known.repoId };
    const json = args.json === true;
    const request = { repo, keepState: args["keep-state"] === true };
    const asking = { asked: `unregister the repository at ${known?.path ?? folder}`, json };
    const done = await approvedCall(connection, "UnregisterRepo", request, asking);
    if (json) return printJson(done);
    print(`unregistered ${printable(done.path)}`);
    if (done.keptState !== null) print(`  kept      ${printable(done.keptState)}`);
  },
});

export const repoCommand = defineCommand({
  meta: { name: "repo", description: "Registered repositories" },
  subCommands: { ls: repoLs, unregister },
});
