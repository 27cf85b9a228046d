/** Intents that a CHECK over several columns refuses. */
import { row, type CheckCase } from "./row.ts";

export function intentChecks(): CheckCase[] {
  const of = (id: string): ReturnType<typeof row> => row("sync_intents", `intent_id = '${id}'`);
  const [det, mat, deliv, disc, ack] = ["i-det", "i-mat", "i-deliv", "i-disc", "i-ack"].map(of) as [
    ReturnType<typeof row>,
    ReturnType<typeof row>,
    ReturnType<typeof row>,
    ReturnType<typeof row>,
    ReturnType<typeof row>,
  ];
  const blank =
    "result_commit_id = NULL, payload = NULL, payload_sha256 = NULL, payload_json = NULL, anchor_change_id = NULL, anchor_commit_id = NULL, anchor_op_id = NULL, prepared_at = NULL, delivered_at = NULL";
  const unbound =
    "barrier_agent_session_id = NULL, barrier_model_turn = NULL, barrier_tool_batch = NULL, barrier_bound_at = NULL, batch_completed_at = NULL, receipt = NULL, receipt_json = NULL";
  return [
    det("thread_id <> parent_thread_id", "following itself", "parent_thread_id = 'kid'"),
    det("from_base_commit_id <>", "a transition to where it began", "to_base_commit_id = 'b1'"),
    mat("discard IS NOT NULL OR state", "Materialized, nothing prepared", blank),
    deliv("discard IS NOT NULL OR state", "Delivered, nothing prepared", blank),
    ack("discard IS NOT NULL OR state", "Acknowledged, nothing prepared", blank),
    ...["result_commit_id", "anchor_change_id", "anchor_commit_id", "anchor_op_id"].map((column) =>
      disc(`(prepared_at IS NULL) = (${column}`, `${column} alone`, `${column} = 'x'`),
    ),
    disc("(prepared_at IS NULL) = (payload IS NULL)", "a payload alone", "payload = 'x'"),
    disc(
      "(prepared_at IS NULL) = (payload_sha256",
      "a hash alone",
      `payload_sha256 = '${"a".repeat(64)}'`,
    ),
    disc("payload_json IS NULL OR", "a twin of no payload", "payload_json = '{}'"),
    mat(
      "payload IS NULL OR",
      "a payload of 16 KiB and a byte",
      `payload = '${"x".repeat(16_385)}'`,
    ),
    mat(
      "payload IS NULL OR",
      "16 KiB in letters, more in bytes",
      `payload = '${"ä".repeat(8193)}'`,
    ),
    mat("payload IS NULL OR", "a payload that ends in a newline", "payload = 'x' || char(10)"),
    mat("payload IS NULL OR", "a payload that begins with a tab", "payload = char(9) || 'x'"),
    deliv("state <> 'Delivered'", "delivered at no time", "delivered_at = NULL"),
    det("delivered_at IS NULL OR", "delivered, nothing prepared", "delivered_at = 3"),
    mat(
      "(state = 'Acknowledged')",
      "acknowledged in another state",
      "acknowledged_at = 5, acknowledged_by = 'x'",
    ),
    deliv("(state = 'Acknowledged')", "acknowledged at no time", "state = 'Acknowledged'"),
    ack("(acknowledged_at IS NULL)", "acknowledged by nothing", "acknowledged_by = NULL"),
    ack(
      "state <> 'Acknowledged' OR discard IS NOT NULL OR delivery_mode",
      "acknowledged on a contrary receipt",
      "receipt = 'contrary'",
    ),
    ack(
      "state <> 'Acknowledged' OR discard IS NOT NULL OR delivery_mode",
      "acknowledged before its batch completed",
      "batch_completed_at = NULL, receipt = NULL, receipt_json = NULL",
    ),
    ack(
      "state <> 'Acknowledged' OR discard IS NOT NULL OR delivery_mode",
      "acknowledged, never bound",
      `delivery_mode = NULL, ${unbound}`,
    ),
    ack(
      "state <> 'Acknowledged' OR discard IS NOT NULL OR delivered_at",
      "acknowledged, never delivered",
      "delivered_at = NULL",
    ),
    mat("(delivery_mode IS 'SoftBatch')", "a barrier of no tuple", "delivery_mode = 'SoftBatch'"),
    mat(
      "(delivery_mode IS 'SoftBatch')",
      "a tuple of no barrier",
      "barrier_agent_session_id = 's-act', barrier_model_turn = 1, barrier_tool_batch = 1, barrier_bound_at = 2",
    ),
    ...["agent_session_id", "model_turn", "tool_batch"].map((column) =>
      deliv(
        `(barrier_bound_at IS NULL) = (barrier_${column}`,
        `a tuple without its ${column}`,
        `barrier_${column} = NULL`,
      ),
    ),
    mat(
      "(delivery_mode IS 'RestartStartup')",
      "a restart of no incarnation",
      "delivery_mode = 'RestartStartup'",
    ),
    deliv(
      "(delivery_mode IS 'RestartStartup')",
      "restart and soft barrier at once",
      "restart_agent_session_id = 's-kid', restart_delivery_id = 'd9'",
    ),
    mat(
      "(restart_delivery_id IS NULL)",
      "half a restart pair",
      "restart_agent_session_id = 's-kid'",
    ),
    of("i-rec")(
      "delivery_mode IS NOT 'RestartStartup'",
      "a restart that has nothing to say",
      `delivery_mode = 'RestartStartup', restart_agent_session_id = 's-div', restart_delivery_id = 'd9', ${unbound}`,
    ),
    of("i-re")(
      "batch_completed_at IS NULL OR",
      "a restart with a completed batch",
      "batch_completed_at = 3, receipt = 'matching'",
    ),
    deliv(
      "(batch_completed_at IS NULL)",
      "completed with no receipt",
      "receipt = NULL, receipt_json = NULL",
    ),
    deliv(
      "receipt_json IS NULL OR",
      "evidence of no receipt",
      "batch_completed_at = NULL, receipt = NULL",
    ),
    det(
      "state <> 'Detected'",
      "bound and merely detected",
      "delivery_mode = 'SoftBatch', barrier_agent_session_id = 's-kid', barrier_model_turn = 1, barrier_tool_batch = 1, barrier_bound_at = 2",
    ),
    of("i-recon")(
      "state <> 'Reconciling'",
      "files changed with no batch bound and nobody stopped",
      `delivery_mode = NULL, ${unbound}`,
    ),
    ...["reason", "probe_fingerprint"].map((column) =>
      of("i-rec")(
        "state <> 'RecoveryRequired'",
        `recovery without its ${column}`,
        `${column} = NULL`,
      ),
    ),
    of("i-rec")(
      "state <> 'RecoveryRequired'",
      "recovery without a bundle",
      "recovery_bundle_path = NULL",
    ),
    of("i-div")("state <> 'TopologyDiverged'", "diverged for no reason", "reason = NULL"),
    of("i-rec")(
      "(recovery_choice_json IS NULL)",
      "a choice of nothing",
      "recovery_choice_json = NULL",
    ),
    det(
      "recovery_chosen_at IS NULL OR",
      "a choice without a bundle",
      "recovery_choice_json = '{}', recovery_chosen_at = 4",
    ),
    det(
      "delivery_exhausted_at IS NULL OR",
      "exhausted, nothing to deliver",
      "delivery_exhausted_at = 6",
    ),
    disc("(discard IS NULL)", "discarded by nobody", "discard_approval_id = NULL"),
    mat(
      "discard IS NULL OR",
      "discarded and still there",
      "discard = 'delivery', discard_approval_id = 'ap-1'",
    ),
    disc(
      "discard IS NOT 'delivery'",
      "a delivery discarded that never was",
      "discard = 'delivery'",
    ),
    det("superseded_by IS NULL OR", "superseded in another state", "superseded_by = 'i-ack'"),
    of("i-sup")(
      "state <> 'Superseded'",
      "superseded for no reason",
      "superseded_by = NULL, reason = NULL",
    ),
  ];
}
