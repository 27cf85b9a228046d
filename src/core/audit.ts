/** What of the audit log a thread may see of itself. */
import type { RepoId, ThreadId } from "./ids.ts";

/** One request as it is shown; the contract's row. */
export interface AuditRecord {
  /** ISO 8601. */
  at: string;
  /** null: the user's log. */
  repoId: RepoId | null;
  method: string;
  threadId: ThreadId | null;
  target: string | null;
  callerKind: "ThreadScoped" | "RegistrationScoped" | "ApprovalPresenter" | "Admin" | null;
  credentialId: string | null;
  fingerprint: string | null;
  approval: string | null;
  outcome: "accepted" | "rejected";
  errorCode: string | null;
  detail: Record<string, unknown>;
}

/**
 * A row as the thread it is about may see it without an approval: that there was a request, of which kind of caller, and
 * how it ended. Whose credential it was, what identified a stranger and which approval was used stay out; what a request
 * said is kept only where the thread's own credential made it (`own`), because others' words may be about other threads.
 */
export function redactForThread(row: AuditRecord, own: boolean): AuditRecord {
  return {
    at: row.at,
    repoId: row.repoId,
    method: row.method,
    threadId: row.threadId,
    target: own ? row.target : null,
    callerKind: row.callerKind,
    credentialId: null,
    fingerprint: null,
    approval: null,
    outcome: row.outcome,
    errorCode: row.errorCode,
    detail: own ? row.detail : {},
  };
}
