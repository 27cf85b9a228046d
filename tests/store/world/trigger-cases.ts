/**
 * What triggers refuse, tried on the whole world. `trigger`: whose words the refusal must be. Every statement but the
 * last is accepted. Moves and beginnings of state machines are in moves.test.ts, deletions are made from the schema.
 */
import { fixed, refused, type TriggerCase } from "./trigger-case.ts";
import { intentTriggers, operationTriggers } from "./trigger-cases-intents.ts";
import { restTriggers } from "./trigger-cases-rest.ts";
import { journalTriggers, sessionTriggers, threadTriggers } from "./trigger-cases-threads.ts";
import type { Kind } from "./world.ts";

function approvalTriggers(p: "" | "user_"): TriggerCase[] {
  const challenges = `${p}approval_challenges`;
  const approvals = `${p}human_approvals`;
  const operations = `${p}approved_operations`;
  const steps = `${p}approved_operation_steps`;
  const hash = `'${"9".repeat(64)}'`;
  const issue = (challenge: string, claimed = "NULL"): string =>
    `INSERT INTO ${approvals} (approval_id, challenge_id, plan_sha256, issued_at, expires_at, operation_id, claimed_at)
     SELECT 'ap-9', challenge_id, plan_sha256, 2, 9, ${claimed}, ${claimed} FROM ${challenges} WHERE challenge_id = '${challenge}'`;
  const claim = (column: string): string =>
    `INSERT INTO ${operations} (operation_id, approval_id, plan_sha256, method, target, args_json, state, claimed_at)
     SELECT 'ao-9', 'ap-2', plan_sha256, ${["method", "target", "args_json"].map((c) => (c === column ? `'{"x":1}'` : c)).join(", ")}, 'Claimed', 3
     FROM ${challenges} WHERE challenge_id = 'ch-2'`;
  const audit = `INSERT OR REPLACE INTO ${p}audit_log (audit_id, request_id, at, method, caller_fingerprint, outcome)`;
  return [
    ...fixed(
      `${challenges}_fixed`,
      challenges,
      "challenge_id = 'ch-3'",
      `challenge_id='x' nonce_sha256=${hash} method='x' target='x' args_json='[]' plan_text='x' plan_sha256=${hash} caller_kind='ThreadScoped' caller_credential_id='x' created_at=0 expires_at=999`,
    ),
    refused(
      `${challenges}_fixed`,
      "a confirmation confirmed by another",
      `UPDATE ${challenges} SET terminal = '/dev/pts/9' WHERE challenge_id = 'ch-1'`,
    ),
    refused(`${approvals}_issued`, "issued before it is confirmed", issue("ch-3")),
    refused(`${approvals}_issued`, "issued for a cancelled challenge", issue("ch-6")),
    refused(`${approvals}_issued`, "issued claimed", issue("ch-9", "4")),
    ...fixed(
      `${approvals}_fixed`,
      approvals,
      "approval_id = 'ap-1'",
      `approval_id='x' challenge_id='ch-9' plan_sha256=${hash} issued_at=1 expires_at=999 claimed_at=4 operation_id='ao-4'`,
    ),
    refused(
      `${approvals}_fixed`,
      "a claim taken back",
      `UPDATE ${approvals} SET operation_id = NULL, claimed_at = NULL WHERE approval_id = 'ap-1'`,
    ),
    refused(
      `${approvals}_fixed`,
      "consumed twice",
      `UPDATE ${approvals} SET consumed_at = 9 WHERE approval_id = 'ap-4'`,
    ),
    ...["ap-1", "ap-5", "ap-8"].map((id) =>
      refused(
        `${approvals}_consumed`,
        `consumed while its operation has not ended (${id})`,
        `UPDATE ${approvals} SET consumed_at = 9 WHERE approval_id = '${id}'`,
      ),
    ),
    ...fixed(
      `${operations}_fixed`,
      operations,
      "operation_id = 'ao-1'",
      `operation_id='x' approval_id='ap-2' plan_sha256=${hash} method='x' target='x' args_json='[]' claimed_at=9`,
    ),
    refused(
      `${operations}_fixed`,
      "another outcome after the end",
      `UPDATE ${operations} SET outcome_json = '[]' WHERE operation_id = 'ao-4'`,
    ),
    ...["method", "target", "args_json"].map((column) =>
      refused(`${operations}_claim`, `claimed for another ${column}`, claim(column)),
    ),
    ...fixed(
      `${steps}_kept_facts`,
      steps,
      "ordinal = 1",
      `identity_json='[]' result_json='[]' attempts=0`,
    ),
    refused(`${p}audit_log_no_update`, "a row changed", `UPDATE ${p}audit_log SET method = 'x'`),
    refused(`${p}audit_log_no_delete`, "a row deleted", `DELETE FROM ${p}audit_log`),
    refused(
      `${p}audit_log_no_replace`,
      "a row replaced by its number",
      `${audit} VALUES (1, 'r9', 1, 'x', 'f', 'accepted')`,
    ),
    refused(
      `${p}audit_log_no_replace`,
      "a request that makes two rows",
      `${audit} VALUES (NULL, 'r1', 1, 'x', 'f', 'accepted')`,
    ),
  ];
}

function userTriggers(): TriggerCase[] {
  const enrol = (credential: string): string =>
    `INSERT INTO approval_presenters VALUES ('pr-9', '${credential}', 'cli', 1, NULL)`;
  return [
    ...fixed(
      "harness_proof_runs_fixed",
      "harness_proof_runs",
      "run_id = 1",
      "harness='codex' harness_version='9' proved_at=9 proved_by='x'",
    ),
    ...fixed("harness_proofs_fixed", "harness_proofs", "run_id = 1", "outcome='failed' reason='x'"),
    refused("approval_presenters_credential", "enrolled with another kind", enrol("reg")),
    refused(
      "approval_presenters_credential",
      "enrolled with a revoked credential",
      enrol("pre-old"),
    ),
    ...fixed(
      "approval_presenters_fixed",
      "approval_presenters",
      "presenter_id = 'pr-1'",
      "presenter_id='x' credential_id='pre-2' front_end='tui' enrolled_at=9",
    ),
    refused(
      "approval_presenters_fixed",
      "a revocation taken back",
      "UPDATE approval_presenters SET revoked_at = NULL WHERE presenter_id = 'pr-0'",
    ),
    ...fixed(
      "credentials_fixed",
      "credentials",
      "credential_id = 'pre-2'",
      `credential_id='x' kind='Admin' secret_sha256='${"8".repeat(64)}' created_at=9`,
    ),
    refused(
      "credentials_fixed",
      "a revocation taken back",
      "UPDATE credentials SET revoked_at = NULL WHERE credential_id = 'pre-old'",
    ),
    ...fixed("repos_identity", "repos", "repo_id = 'r1'", "repo_id='x' registered_at=9"),
  ];
}

export function triggerCases(kind: Kind): TriggerCase[] {
  if (kind === "user") return [...userTriggers(), ...approvalTriggers("user_")];
  return [
    ...approvalTriggers(""),
    ...threadTriggers(),
    ...journalTriggers(),
    ...sessionTriggers(),
    ...intentTriggers(),
    ...operationTriggers(),
    ...restTriggers(),
  ];
}
