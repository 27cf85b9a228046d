/** Approvals and audit, the same in both databases but for the prefix of the names. */
import { insert, sha } from "./sql.ts";

/** Challenges `ch-1` … with their approvals and operations, in every state. */
export function approvalRows(p: "" | "user_"): string[] {
  const subject = { method: "Close", target: "act", args_json: "{}" };
  const challenge = (n: number, state: string): string =>
    insert(`${p}approval_challenges`, {
      challenge_id: `ch-${n}`,
      nonce_sha256: sha(`${n}`),
      ...subject,
      plan_text: "close act",
      plan_sha256: sha("p"),
      caller_kind: "RegistrationScoped",
      caller_credential_id: "reg",
      state,
      created_at: 1,
      expires_at: 100,
      presenter_id: state === "Confirmed" ? "pr-1" : null,
      terminal: state === "Confirmed" ? "/dev/pts/1" : null,
      closed_at: state === "Pending" ? null : 2,
    });
  const approval = (n: number, operation: string | null, consumed: number | null): string =>
    insert(`${p}human_approvals`, {
      approval_id: `ap-${n}`,
      challenge_id: `ch-${n}`,
      plan_sha256: sha("p"),
      issued_at: 2,
      expires_at: 100,
      operation_id: operation,
      claimed_at: operation === null ? null : 3,
      consumed_at: consumed,
    });
  const operation = (n: number, state: string): string =>
    insert(`${p}approved_operations`, {
      operation_id: `ao-${n}`,
      approval_id: `ap-${n}`,
      plan_sha256: sha("p"),
      ...subject,
      state,
      outcome_json: state === "Completed" ? "{}" : null,
      error: state === "Failed" || state === "OutcomeUnknown" ? "why" : null,
      claimed_at: 3,
      ended_at: state === "Completed" || state === "Failed" ? 4 : null,
      // Only a repository has sagas.
      ...(p === "" && n === 1 ? { lifecycle_operation_id: "op-shut" } : {}),
    });
  const step = (ordinal: number, name: string, state: string): string =>
    insert(`${p}approved_operation_steps`, {
      operation_id: "ao-1",
      ordinal,
      name,
      state,
      identity_json: state === "Pending" ? null : "{}",
      result_json: state === "Completed" ? "{}" : null,
      attempts: state === "Pending" ? 0 : 1,
    });
  return [
    challenge(1, "Confirmed"),
    challenge(2, "Confirmed"),
    challenge(3, "Pending"),
    challenge(4, "Confirmed"),
    challenge(5, "Confirmed"),
    challenge(6, "Cancelled"),
    challenge(7, "Expired"),
    challenge(8, "Confirmed"),
    challenge(9, "Confirmed"),
    approval(1, "ao-1", null),
    operation(1, "Running"),
    approval(2, null, null),
    approval(4, "ao-4", 5),
    operation(4, "Completed"),
    approval(5, "ao-5", null),
    operation(5, "OutcomeUnknown"),
    approval(8, "ao-8", null),
    operation(8, "Claimed"),
    step(1, "push", "Completed"),
    step(2, "pr", "Started"),
    step(3, "link", "Pending"),
    insert(`${p}audit_log`, {
      request_id: "r1",
      at: 1,
      method: "Close",
      thread_id: "act",
      caller_kind: "RegistrationScoped",
      credential_id: "reg",
      outcome: "accepted",
    }),
    insert(`${p}audit_log`, {
      request_id: "r2",
      at: 1,
      method: "ListRepos",
      caller_fingerprint: "pid 7",
      outcome: "rejected",
      error_code: "unauthenticated",
    }),
  ];
}
