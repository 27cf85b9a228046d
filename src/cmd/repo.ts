/** `kk repo ls`: registered repositories. */
import { defineCommand } from "citty";
import { padEnd, printable } from "../core/render/width.ts";
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

export const repoCommand = defineCommand({
  meta: { name: "repo", description: "Registered repositories" },
  subCommands: { ls: repoLs },
});
