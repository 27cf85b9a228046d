/** Intents in every state, the tool calls around them, and the operations they came from. */
import { insert, opId, sha, type Value } from "./sql.ts";

const PREPARED = {
  result_commit_id: "r1",
  payload: "text",
  payload_sha256: sha("p"),
  payload_json: "{}",
  anchor_change_id: "z",
  anchor_commit_id: "r1",
  anchor_op_id: "o",
  prepared_at: 2,
};

function bound(by: string): Record<string, Value> {
  return {
    delivery_mode: "SoftBatch",
    barrier_agent_session_id: by,
    barrier_model_turn: 1,
    barrier_tool_batch: 1,
    barrier_bound_at: 2,
  };
}

const RECEIVED = { batch_completed_at: 3, receipt: "matching", receipt_json: "{}" };

function intent(
  id: string,
  of: string,
  seq: number,
  state: string,
  extra: Record<string, Value> = {},
): string {
  return insert("sync_intents", {
    intent_id: id,
    thread_id: of,
    parent_thread_id: of === "grand" ? "kid" : "act",
    seq,
    kind: "NativeRewrite",
    state,
    from_base_commit_id: "b1",
    to_base_commit_id: "b2",
    detected_op_id: opId("b"),
    created_at: 1,
    ...extra,
  });
}

function call(by: string, id: string, batch: number, extra: Record<string, Value>): string {
  return insert("tool_admissions", {
    agent_session_id: by,
    agent_id: "",
    batch_ordinal: batch,
    tool_use_id: id,
    tool_name: "Bash",
    admission: "PassThrough",
    admitted_at: 1,
    ...extra,
  });
}

const DENIED = { admission: "Block", answer: "payload", resolved_at: 1, resolution: "denied" };

export function intentRows(): string[] {
  const acknowledged = { acknowledged_at: 5, acknowledged_by: "toolu_9" };
  return [
    intent("i-ack", "kid", 1, "Acknowledged", {
      ...PREPARED,
      ...bound("s-kid"),
      ...RECEIVED,
      ...acknowledged,
      delivered_at: 3,
    }),
    intent("i-sup", "kid", 2, "Superseded", { superseded_by: "i-ack", reason: "covered" }),
    intent("i-disc", "kid", 3, "Acknowledged", {
      ...acknowledged,
      discard: "transition",
      discard_approval_id: "ap-4",
    }),
    intent("i-div", "kid", 4, "TopologyDiverged", { reason: "backward", evidence_json: "{}" }),
    intent("i-deliv", "kid", 5, "Delivered", {
      ...PREPARED,
      ...bound("s-kid"),
      ...RECEIVED,
      delivered_at: 3,
    }),
    intent("i-det", "kid", 6, "Detected"),
    intent("i-re", "grand", 1, "Materialized", {
      ...PREPARED,
      delivery_mode: "RestartStartup",
      restart_agent_session_id: "s-grand",
      restart_delivery_id: "d1",
    }),
    intent("i-recon", "pre", 1, "Reconciling", { ...bound("s-pre"), plan_json: "{}" }),
    intent("i-rec", "div", 1, "RecoveryRequired", {
      ...bound("s-div"),
      reason: "StaleDirty",
      probe_fingerprint: "f",
      recovery_bundle_path: "/recovery/i-rec",
      recovery_choice_json: "{}",
      recovery_chosen_at: 4,
    }),
    intent("i-exh", "divc", 1, "Materialized", { ...PREPARED, delivery_exhausted_at: 6 }),
    intent("i-mat", "shut", 1, "Materialized", { ...PREPARED }),
    insert("sync_intent_triggers", {
      intent_id: "i-det",
      op_id: opId("b"),
      from_commit_id: "b1",
      to_commit_id: "b2",
    }),
    call("s-kid", "toolu_1", 1, {
      ...DENIED,
      intent_id: "i-ack",
      batch_closed_at: 3,
      batch_end: "closed",
    }),
    call("s-kid", "toolu_2", 2, {
      ...DENIED,
      intent_id: "i-deliv",
      record_path: "/r",
      model_turn: 3,
    }),
    call("s-act", "toolu_3", 1, {}),
    call("s-act", "toolu_4", 1, { agent_id: "sub" }),
  ];
}

export function operationRows(): string[] {
  const op = (letter: string, parent: string | null, processed: number | null): string[] => [
    insert("op_history", {
      op_id: opId(letter),
      description: "snapshot working copy",
      is_snapshot: 1,
      workspace_name: "kk-act",
      attribution_token: letter === "b" ? "tok-done" : null,
      discovered_at: 1,
      processed_at: processed,
    }),
    ...(parent === null
      ? []
      : [insert("op_history_parents", { op_id: opId(letter), parent_op_id: opId(parent) })]),
  ];
  const token = (name: string, live: number): string =>
    insert("op_attribution", {
      token: name,
      handler: "reconcile",
      owner_id: "i-recon",
      created_at: 1,
      live,
    });
  return [
    token("tok-live", 1),
    token("tok-done", 0),
    ...op("a", null, 1),
    ...op("b", "a", 2),
    ...op("c", "b", null),
    ...op("d", "c", null),
    insert("op_watch_frontier", { op_id: opId("b") }),
    insert("op_workspace_heads", {
      op_id: opId("b"),
      workspace_name: "kk-act",
      change_id: "z1",
      commit_id: "h1",
    }),
  ];
}
