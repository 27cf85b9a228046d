/** The flags that `kk audit log` and `kk thread audit` share, and how both show what they get. */
import { fail, KikiError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { renderAudit } from "../core/render/audit.ts";
import type { Client } from "../rpc/client.ts";
import type { Input, Output } from "../rpc/contract/methods.ts";
import type { KkArg } from "./args.ts";
import { colour, columns, note, print, printJson } from "./out.ts";
import { localTime, parseSince, SINCE_FORMS } from "./since.ts";

type Filter = Pick<Input<"GetAuditLog">, "since" | "method" | "outcome" | "limit">;

const DEFAULT_LIMIT = 100;
/** The contract's bound; the contract itself would cost this command its validator. */
const MAX_LIMIT = 1000;

export const auditFlags = {
  since: {
    type: "string",
    valueHint: "time",
    description: "Requests since then: 2h, 3d, or an ISO time",
  },
  method: { type: "string", valueHint: "name", description: "Requests of one method" },
  outcome: {
    type: "enum",
    options: ["accepted", "rejected"],
    description: "Requests that ended so",
  },
  limit: {
    type: "string",
    valueHint: "n",
    description: `The newest n requests, at most ${MAX_LIMIT}; default: ${DEFAULT_LIMIT}`,
  },
  json: { type: "boolean", description: "Print as JSON" },
} satisfies Record<string, KkArg>;

interface Given {
  since?: string | undefined;
  method?: string | undefined;
  outcome?: string | undefined;
  limit?: string | undefined;
}

/** Throws KikiError of kind usage. `now`: milliseconds, for durations. */
export async function auditFilter(given: Given, usage: string, now: number): Promise<Filter> {
  const wrong = (message: string): KikiError => fail("usage", "usage", message, usage);
  let since: string | null = null;
  if (given.since !== undefined) {
    const at = parseSince(given.since, now);
    if (at === null) {
      throw wrong(`--since does not accept ${JSON.stringify(given.since)}: use ${SINCE_FORMS}`);
    }
    since = new Date(at).toISOString();
  }
  const limit = given.limit ?? String(DEFAULT_LIMIT);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT) {
    throw wrong(
      `--limit does not accept ${JSON.stringify(limit)}: use a number from 1 to ${MAX_LIMIT}`,
    );
  }
  return {
    since,
    method: given.method === undefined ? null : await methodName(given.method, wrong),
    outcome: (given.outcome as Filter["outcome"] | undefined) ?? null,
    limit: Number(limit),
  };
}

/** A slip of the pen would find nothing, after a person has been asked for it. Case does not matter. */
async function methodName(typed: string, wrong: (message: string) => KikiError): Promise<string> {
  const { METHODS } = await import("../rpc/contract/methods.ts");
  const known = Object.keys(METHODS);
  const found = known.find((name) => name.toLowerCase() === typed.toLowerCase());
  if (found !== undefined) return found;
  const close = nearest(
    typed.toLowerCase(),
    known.map((name) => name.toLowerCase()),
  );
  const near = known.find((name) => name.toLowerCase() === close) ?? null;
  const meant = near === null ? "docs/rpc.md lists them" : `did you mean ${near}?`;
  throw wrong(`there is no method ${JSON.stringify(typed)} — ${meant}`);
}

/** Where a request was made from, as far as names go. */
export interface AuditView {
  json: boolean;
  threads: boolean;
  /** Several repositories' rows. */
  repos: boolean;
}

export async function showAudit(
  client: Client,
  log: Output<"GetThreadAudit"> & Partial<Output<"GetAuditLog">>,
  filter: Filter,
  view: AuditView,
): Promise<void> {
  if (view.json) return printJson(log);
  for (const { path, reason } of log.unread ?? [])
    note(`the log of ${path} is left out: ${reason}`);
  const needed = view.threads && log.rows.some((row) => row.threadId !== null);
  const { threads } = needed
    ? await client.call("RepoThreadSummaries", { repo: null, closed: true })
    : { threads: [] };
  const { repos } = view.repos ? await client.call("ListRepos", {}) : { repos: [] };
  print(
    renderAudit(log.rows, {
      local: localTime,
      columns: columns(),
      colour: colour(),
      names: new Map(threads.map((thread) => [thread.threadId, thread.name])),
      threads: view.threads,
      repos: view.repos ? new Map(repos.map((repo) => [repo.repoId, repo.path])) : null,
      more: log.more,
      filtered: filter.since !== null || filter.method !== null || filter.outcome !== null,
    }),
  );
}
