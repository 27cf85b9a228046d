/** What triggers refuse of intents and of the operations they come from. */
import { fixed, refused, type TriggerCase } from "./trigger-case.ts";
import { opId } from "./sql.ts";

const of = (id: string, set: string): string =>
  `UPDATE sync_intents SET ${set} WHERE intent_id = '${id}'`;

export function intentTriggers(): TriggerCase[] {
  const insert = (seq: number): string =>
    `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
     to_base_commit_id, detected_op_id, created_at) VALUES ('i-x', 'kid', 'act', ${seq}, 'NativeRewrite', 'Detected', 'a', 'b', 'o', 1)`;
  const rebound =
    "barrier_tool_batch = 2, batch_completed_at = NULL, receipt = NULL, receipt_json = NULL";
  const acknowledged = "state = 'Acknowledged', acknowledged_at = 9, acknowledged_by = 'x'";
  return [
    ...["i-ack", "i-sup", "i-disc"].map((id) =>
      refused("sync_intents_terminal", `something new about ${id}`, of(id, "reason = 'x'")),
    ),
    refused(
      "sync_intents_diverged",
      "another reason of a diverged one",
      of("i-div", "reason = 'x'"),
    ),
    refused(
      "sync_intents_discard",
      "a diverged one acknowledged by proof",
      of("i-div", `${acknowledged}, discard = 'delivery', discard_approval_id = 'ap-1'`),
    ),
    ...fixed(
      "sync_intents_payload",
      "sync_intents",
      "intent_id = 'i-mat'",
      `payload='x' payload_sha256='${"8".repeat(64)}' payload_json='[]' result_commit_id='x' anchor_change_id='x' anchor_commit_id='x' anchor_op_id='x' prepared_at=9`,
    ),
    refused("sync_intents_seq", "a number used before", insert(6)),
    refused("sync_intents_seq", "a number that goes back", insert(5)),
    ...fixed(
      "sync_intents_identity",
      "sync_intents",
      "intent_id = 'i-det'",
      "intent_id='x' thread_id='pre' parent_thread_id='pre' seq=9 from_base_commit_id='x' detected_op_id='x' created_at=9",
    ),
    ...fixed(
      "sync_intents_pinned",
      "sync_intents",
      "intent_id = 'i-recon'",
      "kind='ParentAdvance' to_base_commit_id='x'",
    ),
    refused(
      "sync_intents_delivered",
      "delivered first at another time",
      of("i-deliv", "delivered_at = 9"),
    ),
    refused("sync_intents_completed", "completed twice", of("i-deliv", "batch_completed_at = 9")),
    refused("sync_intents_completed", "another receipt", of("i-deliv", "receipt = 'contrary'")),
    refused(
      "sync_intents_completed",
      "a completion taken back",
      of("i-deliv", "batch_completed_at = NULL, receipt = NULL, receipt_json = NULL"),
    ),
    refused("sync_intents_rebind", "another batch, not counted", of("i-deliv", rebound)),
    refused(
      "sync_intents_rebind",
      "another batch, counted twice",
      of("i-deliv", `${rebound}, soft_redelivery_count = 2`),
    ),
    refused(
      "sync_intents_rebind",
      "a batch left before it completed",
      of("i-recon", "barrier_tool_batch = 2, soft_redelivery_count = 1"),
    ),
    refused(
      "sync_intents_rebind",
      "another turn of the same batch",
      of("i-deliv", "barrier_model_turn = 2"),
    ),
    refused(
      "sync_intents_unbind",
      "a block released",
      of(
        "i-deliv",
        "delivery_mode = NULL, barrier_agent_session_id = NULL, barrier_model_turn = NULL, barrier_tool_batch = NULL, barrier_bound_at = NULL, batch_completed_at = NULL, receipt = NULL, receipt_json = NULL",
      ),
    ),
    refused(
      "sync_intents_redelivery",
      "a redelivery forgotten",
      of("i-mat", "soft_redelivery_count = 1"),
      of("i-mat", "soft_redelivery_count = 0"),
    ),
    refused(
      "sync_intents_epoch",
      "a new epoch without exhaustion",
      of("i-mat", "delivery_epoch = 2"),
    ),
    refused(
      "sync_intents_epoch",
      "an exhaustion merely forgotten",
      of("i-exh", "delivery_exhausted_at = NULL"),
    ),
    refused(
      "sync_intents_epoch",
      "an epoch skipped",
      of("i-exh", "delivery_exhausted_at = NULL, delivery_epoch = 3"),
    ),
    refused(
      "sync_intents_epoch",
      "a fresh cycle that counts on",
      of("i-exh", "delivery_exhausted_at = NULL, delivery_epoch = 2, soft_redelivery_count = 1"),
    ),
    refused(
      "sync_intents_exhausted",
      "delivered while exhausted",
      of("i-exh", "state = 'Delivered', delivered_at = 9"),
    ),
    refused("sync_intents_exhausted", "bound while exhausted", of("i-exh", "reason = 'x'")),
    refused(
      "sync_intents_discard",
      "a detected one acknowledged by proof",
      of("i-det", `${acknowledged}, discard = 'delivery', discard_approval_id = 'ap-1'`),
    ),
    refused(
      "sync_intents_discard",
      "a prepared one discarded as a transition",
      of("i-mat", `${acknowledged}, discard = 'transition', discard_approval_id = 'ap-1'`),
    ),
    refused(
      "sync_intents_echoed",
      "a restart acknowledged without its echo",
      "INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id, secret_sha256, settings_fingerprint, capabilities_json, status, created_at, retired_at, startup_intent_id, startup_intent_epoch, startup_delivery_id, startup_payload_sha256) " +
        `SELECT 's-x', 'shut', harness, harness_version, 'c', '${"7".repeat(64)}', settings_fingerprint, '{}', 'Crashed', 1, 2, 'i-mat', 1, 'd7', startup_payload_sha256 FROM agent_sessions WHERE agent_session_id = 's-grand'`,
      of(
        "i-mat",
        "delivery_mode = 'RestartStartup', restart_agent_session_id = 's-x', restart_delivery_id = 'd7'",
      ),
      of("i-mat", `${acknowledged}, delivered_at = 9`),
    ),
    refused(
      "sync_intents_superseded",
      "superseded by a later one",
      `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
     to_base_commit_id, detected_op_id, created_at, reason) VALUES ('i-x', 'kid', 'act', 7, 'NativeRewrite', 'TopologyDiverged', 'a', 'b', 'o', 1, 'x')`,
      of("i-det", "state = 'Superseded', superseded_by = 'i-x'"),
    ),
    refused(
      "sync_intents_superseded",
      "superseded by itself",
      of("i-det", "state = 'Superseded', superseded_by = 'i-det'"),
    ),
    refused(
      "sync_intents_bundle",
      "a bundle forgotten",
      of("i-rec", "recovery_bundle_path = '/elsewhere'"),
    ),
    refused(
      "sync_intent_triggers_open",
      "a trigger of a reconciled one",
      "INSERT INTO sync_intent_triggers VALUES ('i-recon', 'o', 'a', 'b')",
    ),
    refused(
      "sync_intent_triggers_fixed",
      "a trigger changed",
      "UPDATE sync_intent_triggers SET to_commit_id = 'x'",
    ),
  ];
}

export function operationTriggers(): TriggerCase[] {
  const [b, c, d] = [opId("b"), opId("c"), opId("d")];
  const fresh = opId("e");
  const discover = (processed: string): string =>
    `INSERT INTO op_history VALUES ('${fresh}', 'x', 0, NULL, NULL, 1, ${processed})`;
  return [
    refused(
      "op_attribution_begin",
      "made after its command",
      "INSERT INTO op_attribution VALUES ('t', 'lifecycle', 'x', 1, 0)",
    ),
    refused(
      "op_attribution_closed",
      "opened again",
      "UPDATE op_attribution SET live = 1 WHERE token = 'tok-done'",
    ),
    ...fixed(
      "op_attribution_closed",
      "op_attribution",
      "token = 'tok-live'",
      "token='x' handler='snapshot' owner_id='x' created_at=9",
    ),
    ...fixed(
      "op_history_fixed",
      "op_history",
      `op_id = '${c}'`,
      `op_id='${fresh}' description='x' is_snapshot=0 workspace_name='x' attribution_token='tok-live' discovered_at=9`,
    ),
    refused(
      "op_history_fixed",
      "interpreted twice",
      `UPDATE op_history SET processed_at = 9 WHERE op_id = '${b}'`,
    ),
    refused(
      "op_history_in_order",
      "a child before its parent",
      `UPDATE op_history SET processed_at = 9 WHERE op_id = '${d}'`,
    ),
    refused("op_history_begin", "interpreted before it was discovered", discover("1")),
    refused(
      "op_history_parents_loop",
      "its own parent",
      `INSERT INTO op_history_parents VALUES ('${c}', '${c}')`,
    ),
    refused(
      "op_history_parents_open",
      "a parent found after the interpretation",
      `INSERT INTO op_history_parents VALUES ('${b}', '${fresh}')`,
    ),
    refused(
      "op_history_parents_fixed",
      "another parent",
      `UPDATE op_history_parents SET parent_op_id = '${fresh}'`,
    ),
    refused(
      "op_workspace_heads_fixed",
      "another head",
      "UPDATE op_workspace_heads SET commit_id = 'x'",
    ),
    refused(
      "op_watch_frontier_interpreted",
      "a frontier ahead of the interpretation",
      "DELETE FROM op_watch_frontier",
      `INSERT INTO op_watch_frontier VALUES ('${c}')`,
    ),
    refused(
      "op_watch_frontier_antichain",
      "an operation beside its parent",
      `INSERT INTO op_watch_frontier VALUES ('${opId("a")}')`,
    ),
  ];
}
