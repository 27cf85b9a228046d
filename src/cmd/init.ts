/** `kk init`: registers the jj repository of the current folder. */
import { defineCommand } from "citty";
import type { RepoSummary } from "../rpc/contract/types.ts";
import { connect } from "./connect.ts";
import { print, printJson } from "./out.ts";

export const initCommand = defineCommand({
  meta: { name: "init", description: "Register the jj repository of this folder" },
  args: { json: { type: "boolean", description: "Print the registration as JSON" } },
  async run({ args }) {
    const { client } = await connect();
    const result = await client.call("RegisterRepo", { folder: process.cwd() });
    if (args.json) return printJson(result);
    print(result.created ? created(result.repo) : existing(result.repo));
  },
});

function created(repo: RepoSummary): string {
  return [
    `registered ${repo.path}`,
    ...details(repo),
    'next: kk new <name> -m "<what the agent should do>"',
  ].join("\n");
}

function existing(repo: RepoSummary): string {
  return [
    `already registered: ${repo.path} (since ${repo.registeredAt})`,
    ...details(repo),
    `  threads   ${repo.activeThreads} active, ${repo.closedThreads} closed`,
  ].join("\n");
}

function details(repo: RepoSummary): string[] {
  return [`  repo id   ${repo.repoId}`, `  state.db  ${repo.stateDb}`];
}
