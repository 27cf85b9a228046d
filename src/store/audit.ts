/** `audit_log`, `user_audit_log`: one row for every request there was. Rows are only ever added. */
import type { Db } from "./db.ts";

/** `repo`: the log in a repository's database; `user`: the one in the user's, for what concerns no repository. */
export type AuditSink = "repo" | "user";

type CallerKind = "ThreadScoped" | "RegistrationScoped" | "ApprovalPresenter" | "Admin";

export interface AuditEntry {
  /** Made by the daemon for each request; a second row of it is refused. */
  requestId: string;
  at: number;
  method: string;
  /** As asked for: it need not exist. */
  threadId: string | null;
  target: string | null;
  /** Both null, or neither: nobody known asked. */
  callerKind: CallerKind | null;
  credentialId: string | null;
  /** Not null when the caller is not known; never anything of a credential. */
  fingerprint: string | null;
  approvalId: string | null;
  outcome: "accepted" | "rejected";
  /** Not null when rejected. */
  errorCode: string | null;
  /** Plain values that are never secret. */
  detail: Record<string, unknown>;
}

export interface AuditFilter {
  threadId?: string | undefined;
  /** Rows of that time and later. */
  since?: number | undefined;
  method?: string | undefined;
  outcome?: AuditEntry["outcome"] | undefined;
  /** The newest so many. */
  limit: number;
}

const TABLE: Record<AuditSink, string> = { repo: "audit_log", user: "user_audit_log" };

/** Throws SQLite's own error when a constraint forbids the row (a second row of one request, no identity at all, …). */
export function insertAudit(db: Db, sink: AuditSink, entry: AuditEntry): void {
  const { fingerprint, detail, ...columns } = entry;
  db.query(
    `INSERT INTO ${TABLE[sink]} (request_id, at, method, thread_id, target, caller_kind, credential_id,
       caller_fingerprint, approval_id, outcome, error_code, detail_json)
     VALUES ($requestId, $at, $method, $threadId, $target, $callerKind, $credentialId,
       $fingerprint, $approvalId, $outcome, $errorCode, $detail)`,
  ).run({ ...columns, fingerprint, detail: JSON.stringify(detail) });
}

/** Oldest first; `more` when the filter also matches older rows than the newest `limit`. */
export function auditRows(
  db: Db,
  sink: AuditSink,
  { limit, ...wanted }: AuditFilter,
): { rows: AuditEntry[]; more: boolean } {
  const conditions: string[] = [];
  const values: Record<string, string | number> = { limit: limit + 1 };
  for (const [name, condition] of CONDITIONS) {
    const value = wanted[name];
    if (value === undefined) continue;
    conditions.push(condition);
    values[name] = value;
  }
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
  // By sequence, not by time: a clock that was set back does not reorder what happened.
  const found = db
    .query<Row, Record<string, string | number>>(
      `SELECT * FROM ${TABLE[sink]} ${where} ORDER BY audit_id DESC LIMIT $limit`,
    )
    .all(values);
  return {
    rows: found.slice(0, limit).reverse().map(toEntry),
    more: found.length > limit,
  };
}

const CONDITIONS: readonly [keyof Omit<AuditFilter, "limit">, string][] = [
  ["threadId", "thread_id = $threadId"],
  ["since", "at >= $since"],
  ["method", "method = $method"],
  ["outcome", "outcome = $outcome"],
];

interface Row {
  request_id: string;
  at: number;
  method: string;
  thread_id: string | null;
  target: string | null;
  caller_kind: CallerKind | null;
  credential_id: string | null;
  caller_fingerprint: string | null;
  approval_id: string | null;
  outcome: AuditEntry["outcome"];
  error_code: string | null;
  detail_json: string;
}

function toEntry(r: Row): AuditEntry {
  return {
    requestId: r.request_id,
    at: r.at,
    method: r.method,
    threadId: r.thread_id,
    target: r.target,
    callerKind: r.caller_kind,
    credentialId: r.credential_id,
    fingerprint: r.caller_fingerprint,
    approvalId: r.approval_id,
    outcome: r.outcome,
    errorCode: r.error_code,
    detail: JSON.parse(r.detail_json) as Record<string, unknown>,
  };
}
