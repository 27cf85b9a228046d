/** Which approval a saga carries out. */
import type { LifecycleOpId } from "../core/ids.ts";
import type { Db } from "./db.ts";

/** null: nobody approved it. */
export function approvalOf(db: Db, operationId: LifecycleOpId): string | null {
  const row = db
    .query<{ id: string }, { operationId: string }>(
      `SELECT approval_id AS id FROM approved_operations WHERE lifecycle_operation_id = $operationId
       ORDER BY claimed_at DESC LIMIT 1`,
    )
    .get({ operationId });
  return row?.id ?? null;
}
