/** `kk init`: registers the jj repository of the current folder. */
import { defineCommand } from "citty";
import { KikiError } from "../core/errors.ts";
import type { RepoSummary } from "../rpc/contract/types.ts";
import { readOrAsk } from "./approved-call.ts";
import { connect } from "./connect.ts";
import { print, printJson } from "./out.ts";

export const initCommand = defineCommand({
  meta: { name: "init", description: "Register the jj repository of this folder, after asking" },
  args: { json: { type: "boolean", description: "Print the registration as JSON" } },
  async run({ args }) {
    const connection = await connect();
    const folder = process.cwd();
    const json = args.json === true;
    // What is registered already is only shown: that needs nobody's yes.
    const asking = { asked: `register the repository at ${folder}`, json };
    const result = await readOrAsk(connection, "RegisterRepo", { folder }, asking).catch(
      (error: unknown) => {
        // Another terminal's kk init was faster.
        const registered = error instanceof KikiError && error.code === "already-registered";
        if (!registered) throw error;
        return connection.client.call("RegisterRepo", { folder });
      },
    );
    if (json) return printJson(result);
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
