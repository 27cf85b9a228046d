/** Reading the audit logs: a thread's own redacted slice, and everything after a person's yes. */
import type { DaemonCaller } from "../attempts.ts";
import { isOwn } from "../../core/access.ts";
import { redactForThread, type AuditRecord } from "../../core/audit.ts";
import { fail } from "../../core/errors.ts";
import type { Input, Output } from "../../rpc/contract/methods.ts";
import type { Handlers } from "../../rpc/server.ts";
import { auditRows, type AuditEntry, type AuditFilter, type AuditSink } from "../../store/audit.ts";
import { threadCredentialIds } from "../../store/credentials.ts";
import type { Db } from "../../store/db.ts";
import type { Daemon } from "../runtime.ts";
import { isoTime } from "../views.ts";
import { openRepos, resolveRepo, resolveThreadRef } from "./resolve.ts";

type AuditMethod = "GetThreadAudit" | "GetAuditLog";
type Wanted = Pick<Input<"GetAuditLog">, "since" | "method" | "outcome" | "limit">;

export function auditHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, AuditMethod> {
  return {
    async GetThreadAudit(input, { caller }) {
      const { repo, thread } = await resolveThreadRef(daemon, input);
      const { repoId, db } = repo;
      const { threadId } = thread;
      const found = read(db, "repo", repoId, { ...filterOf(input), threadId });
      // By who asks, never by whether an approval came along: the thread itself needs none, so nobody has checked it.
      const identity = caller.kind === "anonymous" ? null : caller;
      if (!isOwn(identity, { repoId, threadId, began: false })) return found;
      const credentials = threadCredentialIds(db, threadId);
      const made = (row: AuditRecord): boolean =>
        row.credentialId !== null && credentials.has(row.credentialId);
      return { ...found, rows: found.rows.map((row) => redactForThread(row, made(row))) };
    },
    async GetAuditLog(input) {
      const filter = filterOf(input);
      if (input.scope === "user") {
        return { ...read(daemon.userDb, "user", null, filter), unread: [] };
      }
      if (input.scope === "all") return readAll(daemon, filter);
      if (input.repo === null) {
        throw fail("usage", "no-repo", "the log of a repository needs one: give `repo`");
      }
      const repo = await resolveRepo(daemon, input.repo);
      return { ...read(repo.db, "repo", repo.repoId, filter), unread: [] };
    },
  };
}

/** Every repository's, by time: no sequence goes across databases. */
function readAll(daemon: Daemon, filter: AuditFilter): Output<"GetAuditLog"> {
  const logs = openRepos(daemon).map((repo) => read(repo.db, "repo", repo.repoId, filter));
  const rows = logs
    .flatMap((log) => log.rows)
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const unread = [...daemon.broken.values()].map(({ row, error }) => ({
    repoId: row.repoId,
    path: row.repoRoot,
    reason: error.message,
  }));
  return {
    rows: rows.slice(-filter.limit),
    more: rows.length > filter.limit || logs.some((log) => log.more),
    unread,
  };
}

function read(
  db: Db,
  sink: AuditSink,
  repoId: string | null,
  filter: AuditFilter,
): { rows: AuditRecord[]; more: boolean } {
  const { rows, more } = auditRows(db, sink, filter);
  return { rows: rows.map((entry) => shown(entry, repoId)), more };
}

function shown(entry: AuditEntry, repoId: string | null): AuditRecord {
  const { requestId: _, approvalId, at, ...rest } = entry;
  return { ...rest, at: isoTime(at), repoId, approval: approvalId };
}

function filterOf({ since, method, outcome, limit }: Wanted): AuditFilter {
  return {
    since: since === null ? undefined : Date.parse(since),
    method: method ?? undefined,
    outcome: outcome ?? undefined,
    limit,
  };
}
