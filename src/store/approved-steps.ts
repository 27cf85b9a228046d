/** Journal of approved operations that no saga carries out: `approved_operation_steps`. */
import type { StepState } from "../core/lifecycle.ts";
import type { ApprovalStore } from "./approvals.ts";

export interface ApprovedStepRow {
  ordinal: number;
  name: string;
  state: StepState;
  attempts: number;
  /** What its effect is recognised by, since the operation was claimed. */
  identity: unknown;
}

type Raw = Omit<ApprovedStepRow, "identity"> & { identityJson: string | null };

/** All `Pending`, ordinals from 1. `identity`: plain JSON, no secrets. */
export function insertApprovedSteps(
  at: ApprovalStore,
  operationId: string,
  names: readonly string[],
  identity: unknown,
): void {
  const insert = at.db.query(
    `INSERT INTO ${at.prefix}approved_operation_steps (operation_id, ordinal, name, state, identity_json)
     VALUES ($operationId, $ordinal, $name, 'Pending', $identity)`,
  );
  for (const [index, name] of names.entries()) {
    insert.run({ operationId, ordinal: index + 1, name, identity: JSON.stringify(identity) });
  }
}

export function approvedSteps(at: ApprovalStore, operationId: string): ApprovedStepRow[] {
  return at.db
    .query<Raw, { operationId: string }>(
      `SELECT ordinal, name, state, attempts, identity_json AS identityJson
       FROM ${at.prefix}approved_operation_steps WHERE operation_id = $operationId ORDER BY ordinal`,
    )
    .all({ operationId })
    .map(({ identityJson, ...row }) => ({
      ...row,
      identity: identityJson === null ? null : (JSON.parse(identityJson) as unknown),
    }));
}

/** Pending → Started, or once more after a crash; counted before the effect. */
export function startApprovedStep(at: ApprovalStore, operationId: string, ordinal: number): void {
  at.db
    .query(
      `UPDATE ${at.prefix}approved_operation_steps SET state = 'Started', attempts = attempts + 1
       WHERE operation_id = $operationId AND ordinal = $ordinal`,
    )
    .run({ operationId, ordinal });
}

export function endApprovedStep(
  at: ApprovalStore,
  operationId: string,
  ordinal: number,
  end: { state: "Completed"; result: unknown } | { state: "Failed"; error: string },
): void {
  at.db
    .query(
      `UPDATE ${at.prefix}approved_operation_steps SET state = $state, result_json = $result, error = $error
       WHERE operation_id = $operationId AND ordinal = $ordinal`,
    )
    .run({
      operationId,
      ordinal,
      state: end.state,
      result: end.state === "Completed" ? JSON.stringify(end.result) : null,
      error: end.state === "Failed" ? end.error : null,
    });
}
