/** Approvals and audit of one repository. */
import { approvalTables } from "../../shared/0002_approvals.ts";

const TABLES = approvalTables({
  prefix: "",
  challengeExtra: "",
  operationExtra: `
  -- the saga that carries it out, where there is one
  lifecycle_operation_id TEXT REFERENCES thread_lifecycle_ops(operation_id),`,
});

// A saga that failed is taken up again under another approval, when the first one's operation has ended.
export const APPROVALS = `${TABLES}
CREATE UNIQUE INDEX one_open_approved_operation_of_a_saga ON approved_operations(lifecycle_operation_id)
  WHERE ended_at IS NULL;
`;
