/** `kk ls`: threads of this repository, or of all. */
import { defineCommand } from "citty";
import { renderLs } from "../core/render/ls.ts";
import type { Client } from "../rpc/client.ts";
import type { Output } from "../rpc/contract/methods.ts";
import { connect } from "./connect.ts";
import { discoverContext } from "./context.ts";
import { colour, columns, print, printJson } from "./out.ts";
import { NO_REPOS } from "./repo.ts";

const NO_THREADS_ANYWHERE = "no threads in any repository — kk new, in one, starts one";

export const lsCommand = defineCommand({
  meta: { name: "ls", description: "List threads" },
  args: {
    all: { type: "boolean", description: "Closed threads too" },
    "all-repos": { type: "boolean", description: "Threads of every registered repository" },
    json: { type: "boolean", description: "Print the summaries as JSON" },
  },
  async run({ args }) {
    const { client } = await connect();
    const here = await discoverContext(client);
    // The two flags are independent: one widens the lifecycle, the other the repositories.
    const everyRepo = args["all-repos"] === true || here.repo === null;
    const repo = everyRepo || here.repo === null ? null : { repoId: here.repo.repoId };
    const result = await client.call("RepoThreadSummaries", { repo, closed: args.all === true });
    if (args.json) return printJson(result);
    if (everyRepo && result.threads.length === 0 && (await hasNoRepos(client)))
      return print(NO_REPOS);
    printThreads(result, { here, repoColumn: everyRepo });
  },
});

/** `kk new` works in a registered repository only: what is missing first is said first. */
async function hasNoRepos(client: Client): Promise<boolean> {
  return (await client.call("ListRepos", {})).repos.length === 0;
}

/** The table, as `kk ls` and bare `kk` show it. */
export function printThreads(
  summaries: Output<"RepoThreadSummaries">,
  view: { here: Output<"ResolveContext">; repoColumn: boolean },
): void {
  if (view.repoColumn && summaries.threads.length === 0) return print(NO_THREADS_ANYWHERE);
  const text = renderLs(summaries.threads, {
    columns: columns(),
    colour: colour(),
    repoColumn: view.repoColumn,
    current: view.here.thread?.threadId ?? null,
  });
  print(text);
}

/**
 * Bare `kk`: what this folder's repository is, then its threads; outside one, those of all. False while no
 * repository is registered: then there is nothing to show.
 */
export async function printOverview(client: Client): Promise<boolean> {
  const here = await discoverContext(client);
  if (here.repo === null) return printEverywhere(client, here);
  const { repoId, path, activeThreads, closedThreads } = here.repo;
  print(`${path} — ${activeThreads} active, ${closedThreads} closed`);
  const summaries = await client.call("RepoThreadSummaries", { repo: { repoId }, closed: false });
  printThreads(summaries, { here, repoColumn: false });
  return true;
}

async function printEverywhere(client: Client, here: Output<"ResolveContext">): Promise<boolean> {
  if (await hasNoRepos(client)) return false;
  print("this folder is in no registered repository (kk init registers it) — the others:");
  const summaries = await client.call("RepoThreadSummaries", { repo: null, closed: false });
  printThreads(summaries, { here, repoColumn: true });
  return true;
}
