/** What a person's confirmed approval leaves behind in a repository's database, tied to the next operation begun. */
import { createHash } from "node:crypto";
import type { Claim } from "../../src/core/approval.ts";
import type { Db } from "../../src/store/db.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** The claim of an approval is part of the transaction that writes an operation's journal: a trigger stands in for it. */
export function approveNextOperation(db: Db): void {
  const plan = sha256("plan");
  db.run(
    `INSERT INTO approval_challenges (challenge_id, nonce_sha256, method, target, args_json, plan_text, plan_sha256,
       caller_kind, caller_credential_id, state, created_at, expires_at)
     VALUES ('c', '${sha256("nonce")}', 'ApplyRepair', 't', '{}', 'plan', '${plan}', 'RegistrationScoped', 'r', 'Pending',
       1, 9e15)`,
  );
  db.run(
    `UPDATE approval_challenges SET state = 'Confirmed', presenter_id = 'p', terminal = '/dev/pts/1', closed_at = 2`,
  );
  db.run(
    `INSERT INTO human_approvals (approval_id, challenge_id, plan_sha256, issued_at, expires_at)
     VALUES ('a', 'c', '${plan}', 2, 9e15)`,
  );
  db.run(
    `CREATE TEMP TRIGGER claim AFTER INSERT ON main.thread_lifecycle_ops BEGIN
       INSERT INTO approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json, state,
         claimed_at, lifecycle_operation_id)
       VALUES ('o', 'a', '${plan}', 'ApplyRepair', 't', '{}', 'Claimed', 3, new.operation_id);
       UPDATE human_approvals SET operation_id = 'o', claimed_at = 3 WHERE approval_id = 'a';
       UPDATE approved_operations SET state = 'Running' WHERE operation_id = 'o';
     END`,
  );
}

/**
 * What the broker does in the transaction that spends an approval: `name` has been shown, confirmed and is claimed by the
 * operation. Names are never used twice.
 */
export function approvalFor(db: Db, name: string, now: number): Claim {
  const plan = sha256(name);
  return (operationId) => {
    db.query(
      `INSERT INTO approval_challenges (challenge_id, nonce_sha256, method, target, args_json, plan_text, plan_sha256,
         caller_kind, caller_credential_id, state, created_at, expires_at)
       VALUES ($name, $plan, 'ApplyRepair', 't', '{}', 'plan', $plan, 'RegistrationScoped', 'r', 'Pending', $now,
         $now + 1000)`,
    ).run({ name, plan, now });
    db.query(
      `UPDATE approval_challenges SET state = 'Confirmed', presenter_id = 'p', terminal = '/dev/pts/1', closed_at = $now
       WHERE challenge_id = $name`,
    ).run({ name, now });
    db.query(
      `INSERT INTO human_approvals (approval_id, challenge_id, plan_sha256, issued_at, expires_at)
       VALUES ($name, $name, $plan, $now, $now + 1000)`,
    ).run({ name, plan, now });
    db.query(
      `INSERT INTO approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json, state,
         claimed_at, lifecycle_operation_id)
       VALUES ($operationId, $name, $plan, 'ApplyRepair', 't', '{}', 'Claimed', $now, $operationId)`,
    ).run({ name, plan, now, operationId });
    db.query(
      "UPDATE human_approvals SET operation_id = $operationId, claimed_at = $now WHERE approval_id = $name",
    ).run({ name, now, operationId });
    db.query(
      "UPDATE approved_operations SET state = 'Running' WHERE operation_id = $operationId",
    ).run({ operationId });
  };
}
