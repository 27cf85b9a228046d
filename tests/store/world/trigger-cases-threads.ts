/** What triggers refuse of threads, journals, incarnations and calls. */
import { fixed, refused, type TriggerCase } from "./trigger-case.ts";

const to = (id: string, lifecycle: string, extra = ""): string =>
  `UPDATE threads SET lifecycle = '${lifecycle}'${extra} WHERE thread_id = '${id}'`;

export function threadTriggers(): TriggerCase[] {
  const link = (child: string, parent: string): string =>
    `INSERT INTO thread_links VALUES ('${child}', '${parent}', 'h1', 1)`;
  const issue = `INSERT INTO thread_projection_issues (issue_id, thread_id, issue, expected_json, observed_json,
    observed_sha256, detected_at, observed_at) VALUES ('iss-9', 'act', 'SessionMissing', '{}', '{}', '${"o".repeat(64)}', 1, 1)`;
  const end = (id: string): string =>
    `UPDATE thread_lifecycle_ops SET state = 'Failed', error = 'why', ended_at = 9 WHERE operation_id = '${id}'`;
  return [
    ...fixed("threads_identity", "threads", "thread_id = 'act'", "thread_id='x' created_at=9"),
    ...["Close", "Reopen", "Destroy", "Create"].map((kind) =>
      refused(
        "threads_active_when_done",
        `Active with an unfinished ${kind}`,
        `UPDATE thread_lifecycle_ops SET kind = '${kind}' WHERE operation_id = 'op-pre'`,
        to("pre", "Active"),
      ),
    ),
    refused("threads_active_when_ready", "reopened without an agent", to("closed", "Active")),
    refused(
      "threads_active_when_ready",
      "made without a ready agent",
      end("op-new"),
      to(
        "new",
        "Active",
        ", thread_head_commit_id = 'h', thread_head_change_id = 'z', thread_head_op_id = 'o', checkpoint_commit_id = 'h', owned_stack_base_commit_id = 'b'",
      ),
    ),
    refused(
      "threads_active_without_issue",
      "Active with an unresolved issue",
      to("div", "Active", ", projection_resume_lifecycle = NULL"),
    ),
    refused(
      "threads_diverge_from",
      "Active, and diverging from Closed",
      to("act", "ProjectionDiverged", ", projection_resume_lifecycle = 'Closed'"),
    ),
    refused(
      "threads_diverge_from",
      "Closed, and diverging from Active",
      to("closed", "ProjectionDiverged", ", projection_resume_lifecycle = 'Active'"),
    ),
    refused(
      "threads_diverge_back",
      "diverged from Closed, back as Active",
      to("divc", "Active", ", projection_resume_lifecycle = NULL"),
    ),
    refused(
      "threads_diverge_back",
      "diverged from Active, back as Closed",
      to("div", "Closed", ", projection_resume_lifecycle = NULL, checkpoint_commit_id = 'h1'"),
    ),
    refused(
      "threads_diverge_back",
      "diverged from Closed, and closed again",
      to("divc", "CloseCommit", ", projection_resume_lifecycle = NULL"),
    ),
    ...["Active", "Closed"].map((state) =>
      refused(
        "threads_destroy_goes_on",
        `${state} after its bookmark was destroyed`,
        end("op-dest"),
        to("dest", state, ", checkpoint_commit_id = 'h1'"),
      ),
    ),
    refused(
      "threads_destroy_goes_on",
      "diverged after its bookmark was destroyed",
      to("dest", "ProjectionDiverged", ", projection_resume_lifecycle = 'Active'"),
    ),
    refused(
      "threads_close_goes_on",
      "Active after its session was killed",
      end("op-shut"),
      to("shut", "Active"),
    ),
    refused(
      "threads_close_goes_on",
      "Active after its session was killed, later",
      end("op-shut"),
      to("shut", "CloseFailed"),
      to("shut", "Active"),
    ),
    refused(
      "threads_close_goes_on",
      "Active after its session was killed, by a repair that continues the agent",
      end("op-shut"),
      to("shut", "CloseFailed"),
      `INSERT INTO thread_lifecycle_ops (operation_id, thread_id, kind, state, args_json, started_at)
         VALUES ('op-x', 'shut', 'Repair', 'Running', '{}', 9)`,
      to("shut", "Active"),
    ),
    refused("thread_links_acyclic", "two threads following each other", link("act", "kid")),
    refused("thread_links_acyclic", "a cycle of three", link("act", "grand")),
    refused(
      "thread_links_stay_acyclic",
      "an edge moved into a cycle",
      "UPDATE thread_links SET parent_thread_id = 'grand' WHERE child_thread_id = 'kid'",
    ),
    refused("thread_projection_issues_begin", "an issue of a thread that stays Active", issue),
    refused(
      "thread_projection_issues_begin",
      "an issue in the middle of a close, which fails that close instead",
      issue.replace("'act'", "'shut'"),
    ),
    ...fixed(
      "thread_projection_issues_fixed",
      "thread_projection_issues",
      "issue_id = 'iss-1'",
      "issue_id='x' thread_id='act' issue='SessionMissing' detected_at=9",
    ),
    refused(
      "thread_projection_issues_fixed",
      "a resolution taken back",
      "UPDATE thread_projection_issues SET resolved_at = NULL, resolution = NULL WHERE issue_id = 'iss-2'",
    ),
    refused(
      "thread_projection_issues_notified",
      "notified twice",
      "UPDATE thread_projection_issues SET notified_at = 9 WHERE issue_id = 'iss-1'",
    ),
  ];
}

export function journalTriggers(): TriggerCase[] {
  const op = (set: string, id: string): string =>
    `UPDATE thread_lifecycle_ops SET ${set} WHERE operation_id = '${id}'`;
  const step = (set: string, id: string, ordinal: number): string =>
    `UPDATE thread_lifecycle_steps SET ${set} WHERE operation_id = '${id}' AND ordinal = ${ordinal}`;
  const started = "state = 'Started', identity_json = '{}', attempts = 1";
  return [
    ...["Create", "Close", "Reopen", "Destroy"].map((kind) =>
      refused(
        "thread_lifecycle_ops_not_active",
        `${kind} of a thread that stays Active`,
        `INSERT INTO thread_lifecycle_ops (operation_id, thread_id, kind, state, args_json, started_at)
           VALUES ('op-x', 'act', '${kind}', 'Running', '{}', 9)`,
      ),
    ),
    refused(
      "thread_lifecycle_ops_ended",
      "a new error after the end",
      op("error = 'x'", "op-failed"),
    ),
    refused("thread_lifecycle_ops_ended", "another end", op("ended_at = 9", "op-act")),
    ...fixed(
      "thread_lifecycle_ops_plan",
      "thread_lifecycle_ops",
      "operation_id = 'op-new'",
      "operation_id='x' thread_id='dead' args_json='[]'",
    ),
    refused(
      "thread_lifecycle_ops_attempts",
      "an attempt forgotten",
      op("attempts = 3", "op-new"),
      op("attempts = 2", "op-new"),
    ),
    refused(
      "thread_lifecycle_ops_completed",
      "completed with steps to go",
      op("state = 'Completed', ended_at = 9", "op-new"),
    ),
    refused(
      "thread_lifecycle_steps_in_order",
      "a step overtaking another",
      step("state = 'Completed', result_json = '{}'", "op-shut", 2),
      `INSERT INTO thread_lifecycle_steps (operation_id, ordinal, name, state) VALUES ('op-shut', 4, 'delete', 'Pending')`,
      step(started, "op-shut", 4),
    ),
    refused(
      "thread_lifecycle_steps_unwind",
      "undone before the later one",
      step("state = 'Compensated'", "op-new", 1),
    ),
    refused(
      "thread_lifecycle_steps_unwind",
      "undone while a later one is being undone",
      step("state = 'Compensated'", "op-pre", 1),
    ),
    refused(
      "thread_lifecycle_steps_unwind",
      "undone behind an irreversible one",
      step("state = 'Compensating', undo_attempts = 1", "op-dest", 1),
    ),
    refused(
      "thread_lifecycle_steps_unwind",
      "undone behind an irreversible one that failed",
      step("state = 'Failed'", "op-shut", 2),
      step("state = 'Compensated'", "op-shut", 1),
    ),
    refused(
      "thread_lifecycle_steps_identity",
      "another identity after the start",
      step("identity_json = '[]'", "op-new", 2),
    ),
    refused(
      "thread_lifecycle_steps_evidence",
      "other evidence",
      step("result_json = '[]'", "op-new", 1),
    ),
    refused(
      "thread_lifecycle_steps_attempts",
      "a start forgotten",
      step("attempts = 2", "op-new", 2),
      step("attempts = 1", "op-new", 2),
    ),
    refused(
      "thread_lifecycle_steps_attempts",
      "an undoing forgotten",
      step("undo_attempts = 2", "op-pre", 3),
      step("undo_attempts = 1", "op-pre", 3),
    ),
    refused(
      "thread_lifecycle_steps_irreversible",
      "the irreversible declared reversible",
      step("irreversible = 0", "op-dest", 2),
    ),
    refused(
      "thread_lifecycle_steps_done",
      "a step changed after completion",
      step("error = 'x'", "op-act", 1),
    ),
  ];
}

export function sessionTriggers(): TriggerCase[] {
  const session = (set: string, id: string): string =>
    `UPDATE agent_sessions SET ${set} WHERE agent_session_id = '${id}'`;
  const hash = `'${"8".repeat(64)}'`;
  const attempt = (changes: Record<string, string>): string => {
    const row = {
      id: "'s-x'",
      thread: "'grand'",
      intent: "'i-re'",
      epoch: "1",
      hash: `'${"p".repeat(64)}'`,
      ...changes,
    };
    return `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id,
      secret_sha256, settings_fingerprint, capabilities_json, status, created_at, startup_intent_id,
      startup_intent_epoch, startup_delivery_id, startup_payload_sha256)
      VALUES (${row.id}, ${row.thread}, 'claude-code', '2', 'c', ${hash}, ${hash}, '{}', 'Running', 1, ${row.intent},
      ${row.epoch}, 'd9', ${row.hash})`;
  };
  const fresh = (thread: string): string =>
    `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id,
      secret_sha256, settings_fingerprint, capabilities_json, status, created_at)
      VALUES ('s-x', '${thread}', 'claude-code', '2', 'c', ${hash}, ${hash}, '{}', 'Quiescent', 1)`;
  const retire = session("retired_at = 9, status = 'Crashed'", "s-grand");
  const gate = (thread: string, by: string): string =>
    `INSERT INTO launch_gates VALUES ('g-x', '${thread}', '${by}', 'Activated', '%1', '/l', 1)`;
  const call = (agent: string, batch: number, admission = "PassThrough", by = "s-kid"): string =>
    `INSERT INTO tool_admissions (agent_session_id, agent_id, batch_ordinal, tool_use_id, tool_name, admission,
      intent_id, admitted_at) VALUES ('${by}', '${agent}', ${batch}, 'toolu_x', 'Bash', '${admission}',
      ${admission === "Block" ? "'i-deliv'" : "NULL"}, 1)`;
  const admission = (set: string, id: string): string =>
    `UPDATE tool_admissions SET ${set} WHERE tool_use_id = '${id}'`;
  return [
    ...fixed(
      "agent_sessions_identity",
      "agent_sessions",
      "agent_session_id = 's-grand'",
      `agent_session_id='x' thread_id='dead' secret_sha256=${hash} settings_fingerprint=${hash} startup_intent_id='i-mat' startup_intent_epoch=2 startup_delivery_id='d8' startup_payload_sha256=${hash} created_at=9`,
    ),
    refused(
      "agent_sessions_process",
      "another process",
      session("pid = 8, start_time = '80'", "s-act"),
    ),
    refused("agent_sessions_ready", "ready twice", session("ready_at = 9", "s-act")),
    refused("agent_sessions_ready", "started twice", session("session_started_at = 9", "s-act")),
    refused("agent_sessions_retired", "alive again", session("retired_at = NULL", "s-old")),
    refused("agent_sessions_echo", "echoed twice", session("startup_echo_prompt = 2", "s-grand")),
    refused(
      "agent_sessions_counts",
      "a violation forgotten",
      session("serial_violations = 0", "s-grand"),
    ),
    refused("agent_sessions_counts", "a prompt forgotten", session("prompts = 1", "s-grand")),
    refused(
      "agent_sessions_startup",
      "an attempt of an older epoch",
      retire,
      attempt({ epoch: "2" }),
    ),
    refused("agent_sessions_startup", "an attempt with another payload", retire, attempt({ hash })),
    refused(
      "agent_sessions_startup",
      "an attempt for nothing prepared",
      retire,
      attempt({ intent: "'i-det'" }),
    ),
    ...["kid", "divc", "pre", "div"].map((thread) =>
      refused(
        "agent_sessions_owed",
        `an incarnation of ${thread} that would not be told`,
        `UPDATE agent_sessions SET retired_at = 9, status = 'Crashed' WHERE thread_id = '${thread}' AND retired_at IS NULL`,
        fresh(thread),
      ),
    ),
    refused(
      "agent_sessions_startup",
      "an attempt while exhausted",
      attempt({ thread: "'divc'", intent: "'i-exh'" }),
    ),
    ...fixed(
      "launch_gates_identity",
      "launch_gates",
      "gate_id = 'g-new'",
      "gate_id='x' thread_id='act' agent_session_id='s-old' pane_id='%9' launch_file='/x'",
    ),
    refused(
      "launch_gates_same_thread",
      "a gate of another thread's incarnation",
      gate("kid", "s-grand"),
    ),
    refused("launch_gates_same_thread", "a gate of a retired incarnation", gate("act", "s-old")),
    refused(
      "launch_gates_need_projections",
      "a gate without head and checkpoint",
      gate("new", "s-new"),
    ),
    refused("launch_gates_need_projections", "a gate without a credential", gate("pre", "s-pre")),
    refused(
      "launch_gates_need_projections",
      "a gate without a session",
      "UPDATE threads SET tmux_session_id = NULL WHERE thread_id = 'kid'",
      gate("kid", "s-kid"),
    ),
    ...fixed(
      "credentials_fixed",
      "credentials",
      "credential_id = 'c-act'",
      `credential_id='x' thread_id='dead' secret_sha256=${hash} created_at=9`,
    ),
    refused(
      "credentials_fixed",
      "a revocation taken back",
      "UPDATE credentials SET revoked_at = NULL WHERE credential_id = 'c-old'",
    ),
    refused("tool_admissions_main_batch", "a sibling of a blocked call passed", call("", 2)),
    refused("tool_admissions_ordinal", "a batch of an earlier number", call("", 1, "Block")),
    refused(
      "tool_admissions_ordinal",
      "a call of a closed batch",
      admission("batch_closed_at = 4, batch_end = 'closed'", "toolu_2"),
      call("", 2, "Block"),
    ),
    ...fixed(
      "tool_admissions_fixed",
      "tool_admissions",
      "tool_use_id = 'toolu_2'",
      "agent_session_id='s-act' agent_id='sub' batch_ordinal=9 admission='PassThrough' intent_id='i-det' admitted_at=9",
    ),
    refused(
      "tool_admissions_resolved",
      "resolved twice",
      admission("resolution = 'post-tool'", "toolu_1"),
    ),
    refused("tool_admissions_turn", "another record", admission("record_path = '/s'", "toolu_2")),
    refused("tool_admissions_turn", "another response", admission("model_turn = 4", "toolu_2")),
    refused("tool_admissions_closed", "closed twice", admission("batch_end = 'ended'", "toolu_1")),
  ];
}
