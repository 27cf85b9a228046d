/**
 * Challenges, approvals and what they were spent on. Both databases have the tables: a repository's for what concerns
 * it, the user's (`user_…`) for the rest. All times are the broker's, of a clock that does not jump.
 */
import type { ApprovedOperationState, ChallengeState } from "../core/approval.ts";
import type { Db } from "./db.ts";

/** A database, and which of the two sets of tables it has. */
export interface ApprovalStore {
  db: Db;
  prefix: "" | "user_";
}

export interface ChallengeRow {
  challengeId: string;
  nonceSha256: string;
  method: string;
  target: string;
  /** Canonical JSON without anything secret. */
  args: string;
  planText: string;
  planSha256: string;
  callerKind: "ThreadScoped" | "RegistrationScoped";
  callerCredentialId: string;
  state: ChallengeState;
  createdAt: number;
  expiresAt: number;
  /** Where it was asked for, and where alone it may be confirmed. */
  terminal: string | null;
}

const CHALLENGE = `challenge_id AS challengeId, nonce_sha256 AS nonceSha256, method, target, args_json AS args,
  plan_text AS planText, plan_sha256 AS planSha256, caller_kind AS callerKind,
  caller_credential_id AS callerCredentialId, state, created_at AS createdAt, expires_at AS expiresAt, terminal`;

export function insertChallenge(at: ApprovalStore, row: Omit<ChallengeRow, "state">): void {
  at.db
    .query(
      `INSERT INTO ${at.prefix}approval_challenges (challenge_id, nonce_sha256, method, target, args_json, plan_text,
         plan_sha256, caller_kind, caller_credential_id, state, created_at, expires_at, terminal)
       VALUES ($challengeId, $nonceSha256, $method, $target, $args, $planText, $planSha256, $callerKind,
         $callerCredentialId, 'Pending', $createdAt, $expiresAt, $terminal)`,
    )
    .run({ ...row });
}

export function challengeById(at: ApprovalStore, challengeId: string): ChallengeRow | null {
  return at.db
    .query<ChallengeRow, { challengeId: string }>(
      `SELECT ${CHALLENGE} FROM ${at.prefix}approval_challenges WHERE challenge_id = $challengeId`,
    )
    .get({ challengeId });
}

/** Pending → its end. Throws (trigger) on any other move. */
export function closeChallenge(
  at: ApprovalStore,
  challengeId: string,
  end: {
    state: Exclude<ChallengeState, "Pending">;
    presenterId: string | null;
    closedAt: number;
  },
): void {
  at.db
    .query(
      `UPDATE ${at.prefix}approval_challenges SET state = $state, presenter_id = $presenterId, closed_at = $closedAt
       WHERE challenge_id = $challengeId`,
    )
    .run({ challengeId, ...end });
}

/** Pending ones whose time is over. Returns how many were closed. */
export function expireChallenges(at: ApprovalStore, now: number): number {
  return at.db
    .query(
      `UPDATE ${at.prefix}approval_challenges SET state = 'Expired', closed_at = $now
       WHERE state = 'Pending' AND expires_at <= $now`,
    )
    .run({ now }).changes;
}

export interface ApprovalRow {
  approvalId: string;
  issuedAt: number;
  expiresAt: number;
  operationId: string | null;
  consumedAt: number | null;
  /** Of the challenge it was issued for. */
  method: string;
  target: string;
  args: string;
  planSha256: string;
  callerCredentialId: string;
}

export function insertApproval(
  at: ApprovalStore,
  row: {
    approvalId: string;
    challengeId: string;
    planSha256: string;
    issuedAt: number;
    expiresAt: number;
  },
): void {
  at.db
    .query(
      `INSERT INTO ${at.prefix}human_approvals (approval_id, challenge_id, plan_sha256, issued_at, expires_at)
       VALUES ($approvalId, $challengeId, $planSha256, $issuedAt, $expiresAt)`,
    )
    .run({ ...row });
}

export function approvalById(at: ApprovalStore, approvalId: string): ApprovalRow | null {
  return at.db
    .query<ApprovalRow, { approvalId: string }>(
      `SELECT a.approval_id AS approvalId, a.issued_at AS issuedAt, a.expires_at AS expiresAt,
         a.operation_id AS operationId, a.consumed_at AS consumedAt, c.method, c.target, c.args_json AS args,
         c.plan_sha256 AS planSha256, c.caller_credential_id AS callerCredentialId
       FROM ${at.prefix}human_approvals a JOIN ${at.prefix}approval_challenges c USING (challenge_id)
       WHERE a.approval_id = $approvalId`,
    )
    .get({ approvalId });
}

export interface ApprovedOperation {
  operationId: string;
  approvalId: string;
  method: string;
  target: string;
  args: string;
  state: ApprovedOperationState;
  /** JSON, once it is `Completed`. */
  outcome: string | null;
  error: string | null;
  claimedAt: number;
  endedAt: number | null;
}

const OPERATION = `operation_id AS operationId, approval_id AS approvalId, method, target, args_json AS args, state,
  outcome_json AS outcome, error, claimed_at AS claimedAt, ended_at AS endedAt`;

/** The one claim: approval and operation name each other from here on. Throws when the approval has been claimed. */
export function claimApproval(
  at: ApprovalStore,
  approval: ApprovalRow,
  claim: { operationId: string; lifecycleOperationId: string | null; now: number },
): void {
  const { approvalId } = approval;
  const { operationId, now } = claim;
  at.db
    .query(
      `INSERT INTO ${at.prefix}approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json,
         state, claimed_at${at.prefix === "" ? ", lifecycle_operation_id" : ""})
       VALUES ($operationId, $approvalId, $planSha256, $method, $target, $args, 'Claimed',
         $now${at.prefix === "" ? ", $lifecycleOperationId" : ""})`,
    )
    .run({
      operationId,
      approvalId,
      planSha256: approval.planSha256,
      method: approval.method,
      target: approval.target,
      args: approval.args,
      now,
      ...(at.prefix === "" ? { lifecycleOperationId: claim.lifecycleOperationId } : {}),
    });
  const done = at.db
    .query(
      `UPDATE ${at.prefix}human_approvals SET operation_id = $operationId, claimed_at = $now
       WHERE approval_id = $approvalId AND operation_id IS NULL`,
    )
    .run({ operationId, approvalId, now });
  if (done.changes !== 1) throw new Error(`approval ${approvalId} has been claimed`);
}

export function approvedOperation(
  at: ApprovalStore,
  operationId: string,
): ApprovedOperation | null {
  return at.db
    .query<ApprovedOperation, { operationId: string }>(
      `SELECT ${OPERATION} FROM ${at.prefix}approved_operations WHERE operation_id = $operationId`,
    )
    .get({ operationId });
}

/** Not at their end, oldest first. With a saga of their own they end with it and are left out. */
export function openApprovedOperations(at: ApprovalStore): ApprovedOperation[] {
  const own = at.prefix === "" ? "AND lifecycle_operation_id IS NULL" : "";
  return at.db
    .query<ApprovedOperation, []>(
      `SELECT ${OPERATION} FROM ${at.prefix}approved_operations WHERE ended_at IS NULL ${own}
       ORDER BY claimed_at, operation_id`,
    )
    .all();
}

/** Moves it; an end consumes the approval in the same statement pair. Throws (trigger) on an illegal move. */
export function moveApprovedOperation(
  at: ApprovalStore,
  operationId: string,
  to:
    | { state: "Running" }
    | { state: "OutcomeUnknown"; error: string }
    | { state: "Completed"; outcome: unknown; now: number }
    | { state: "Failed"; error: string; now: number },
): void {
  const end = "now" in to ? to.now : null;
  const done = at.db
    .query(
      `UPDATE ${at.prefix}approved_operations SET state = $state, error = coalesce($error, error),
         outcome_json = $outcome, ended_at = $end WHERE operation_id = $operationId`,
    )
    .run({
      operationId,
      state: to.state,
      error: "error" in to ? to.error : null,
      outcome: "outcome" in to ? JSON.stringify(to.outcome) : null,
      end,
    });
  if (done.changes !== 1) throw new Error(`no approved operation ${operationId}`);
  if (end === null) return;
  at.db
    .query(
      `UPDATE ${at.prefix}human_approvals SET consumed_at = $end WHERE operation_id = $operationId`,
    )
    .run({ operationId, end });
}

/** Repository database: the approval that was spent on an operation; null when it had none. */
export function approvalOf(db: Db, operationId: string): string | null {
  const sql = "SELECT approval_id AS id FROM human_approvals WHERE operation_id = $operationId";
  return db.query<{ id: string }, { operationId: string }>(sql).get({ operationId })?.id ?? null;
}

/**
 * Repository database: whether this credential's caller had this lifecycle operation approved, or the repair that took
 * it up again. It may then follow it.
 */
export function beganOperation(db: Db, operationId: string, credentialId: string): boolean {
  return (
    db
      .query(
        `SELECT 1 FROM approved_operations o JOIN thread_lifecycle_ops l ON l.operation_id = o.lifecycle_operation_id
         JOIN human_approvals a ON a.operation_id = o.operation_id JOIN approval_challenges c USING (challenge_id)
         WHERE c.caller_credential_id = $credentialId
           AND (l.operation_id = $operationId OR (l.kind = 'Repair' AND l.args_json ->> '$.failed' = $operationId))
         LIMIT 1`,
      )
      .get({ operationId, credentialId }) !== null
  );
}
