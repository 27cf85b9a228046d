/** Rows that a CHECK over several columns refuses, by the CHECK's own text (its beginning is enough). */
import { intentChecks } from "./check-cases-intents.ts";
import { row, type CheckCase } from "./row.ts";
import type { Kind } from "./world.ts";

function approvalChecks(p: "" | "user_"): CheckCase[] {
  const challenge = row(`${p}approval_challenges`, "challenge_id = 'ch-3'");
  const confirmed = row(`${p}approval_challenges`, "challenge_id = 'ch-1'");
  const unclaimed = row(`${p}human_approvals`, "approval_id = 'ap-2'");
  const operation = row(`${p}approved_operations`, "operation_id = 'ao-1'");
  const step = row(`${p}approved_operation_steps`, "ordinal = 2");
  const audit = row(`${p}audit_log`, "request_id = 'r1'");
  return [
    challenge("expires_at > created_at", "expired when made", "expires_at = 1"),
    challenge("(state = 'Pending')", "closed and pending", "closed_at = 3"),
    confirmed("state <> 'Confirmed' OR (presenter", "confirmed by nobody", "presenter_id = NULL"),
    confirmed("state <> 'Confirmed' OR (presenter", "confirmed nowhere", "terminal = NULL"),
    confirmed("state <> 'Confirmed' OR closed_at", "confirmed after expiry", "closed_at = 100"),
    unclaimed("expires_at > issued_at", "expired when issued", "expires_at = 2"),
    unclaimed("(operation_id IS NULL)", "claimed by no operation", "claimed_at = 3"),
    unclaimed("consumed_at IS NULL OR", "consumed and never claimed", "consumed_at = 3"),
    row(`${p}human_approvals`, "approval_id = 'ap-1'")(
      "claimed_at IS NULL OR",
      "claimed after expiry",
      "claimed_at = 100",
    ),
    operation("(state IN ('Completed','Failed'))", "running and ended", "ended_at = 4"),
    operation("(state IN ('Completed','Failed'))", "completed, not ended", "state = 'Completed'"),
    operation("state <> 'Failed'", "failed for no reason", "state = 'Failed', ended_at = 4"),
    operation("state <> 'OutcomeUnknown'", "unknown, nothing said", "state = 'OutcomeUnknown'"),
    operation("outcome_json IS NULL OR", "an outcome while running", "outcome_json = '{}'"),
    step("state = 'Pending' OR identity_json", "started, no identity", "identity_json = NULL"),
    step("state <> 'Completed' OR", "completed, no evidence", "state = 'Completed'"),
    audit("(credential_id IS NULL)", "a caller of no kind", "caller_kind = NULL"),
    audit("(credential_id IS NULL)", "a kind of no caller", "credential_id = NULL"),
    audit(
      "credential_id IS NOT NULL OR",
      "an unidentified caller without a trace",
      "credential_id = NULL, caller_kind = NULL",
    ),
    audit("outcome <> 'rejected'", "rejected for no reason", "outcome = 'rejected'"),
  ];
}

function proofChecks(): CheckCase[] {
  const quick = row("harness_proof_runs", "run_id = 1");
  const gate = row("harness_proof_runs", "run_id = 2");
  const proof = row("harness_proofs", "run_id = 1");
  return [
    quick("(source = 'quick') = (executable IS", "quick, of no program", "executable = NULL"),
    quick("(source = 'quick') = (executable_stamp", "quick, no stamp", "executable_stamp = NULL"),
    gate("(source = 'quick') = (executable IS", "the gate's, of one program", "executable = '/x'"),
    gate("(source = 'quick') = (executable_stamp", "the gate's, a stamp", "executable_stamp = '1'"),
    proof("json_valid(takes_json)", "takes that are no list", "takes_json = '{}'"),
    proof("json_valid(takes_json)", "takes that are no JSON", "takes_json = 'x'"),
  ];
}

function threadChecks(): CheckCase[] {
  const act = row("threads", "thread_id = 'act'");
  const op = row("thread_lifecycle_ops", "operation_id = 'op-new'");
  const step = row("thread_lifecycle_steps", "operation_id = 'op-new' AND ordinal = 2");
  const session = row("agent_sessions", "agent_session_id = 's-act'");
  const startup = row("agent_sessions", "agent_session_id = 's-grand'");
  const call = row("tool_admissions", "tool_use_id = 'toolu_3'");
  const lifecycle = "lifecycle NOT IN";
  return [
    act(
      "(lifecycle = 'ProjectionDiverged')",
      "a way back from nowhere",
      "projection_resume_lifecycle = 'Active'",
    ),
    act("(lifecycle = 'ProjectionDiverged')", "no way back", "lifecycle = 'ProjectionDiverged'"),
    act(
      "(thread_head_commit_id IS NULL) = (thread_head_op",
      "a head of no operation",
      "thread_head_op_id = NULL",
    ),
    act(
      "(thread_head_commit_id IS NULL) = (thread_head_change",
      "a head of no change",
      "thread_head_change_id = NULL",
    ),
    act(
      lifecycle,
      "Active without a head",
      "thread_head_commit_id = NULL, thread_head_op_id = NULL, thread_head_change_id = NULL",
    ),
    ...["Active", "ClosePreflight", "CloseCommit", "CloseFailed"].map((state) =>
      act(
        lifecycle,
        `${state} without a base`,
        `lifecycle = '${state}', owned_stack_base_commit_id = NULL`,
      ),
    ),
    row("threads", "thread_id = 'div'")(
      lifecycle,
      "diverged, no checkpoint",
      "checkpoint_commit_id = NULL",
    ),
    row("threads", "thread_id = 'closed'")(
      lifecycle,
      "closed, no checkpoint",
      "checkpoint_commit_id = NULL",
    ),
    row("threads", "thread_id = 'closed'")(
      "lifecycle <> 'Closed'",
      "closed beside its checkpoint",
      "checkpoint_commit_id = 'other'",
    ),
    row("thread_links", "child_thread_id = 'kid'")(
      "child_thread_id <>",
      "following itself",
      "parent_thread_id = 'kid'",
    ),
    row("thread_projection_issues", "issue_id = 'iss-1'")(
      "(resolved_at IS NULL)",
      "resolved in no way",
      "resolved_at = 4",
    ),

    op("(state = 'Running')", "running and ended", "ended_at = 4"),
    op("(state = 'Running')", "completed, not ended", "state = 'Completed'"),
    op("state <> 'Failed'", "failed for no reason", "state = 'Failed', ended_at = 4"),
    op("failing = 0", "failing for no reason", "failing = 1"),
    step("state = 'Pending' OR identity_json", "started, no identity", "identity_json = NULL"),
    step("state <> 'Completed'", "completed, no evidence", "state = 'Completed'"),
    step("state = 'Pending' OR attempts", "started, never counted", "attempts = 0"),
    step("state <> 'Compensating'", "being undone, never counted", "state = 'Compensating'"),
    row("thread_lifecycle_steps", "operation_id = 'op-shut' AND ordinal = 2")(
      "irreversible = 0",
      "the irreversible undone",
      "state = 'Compensated'",
    ),

    session("(pid IS NULL)", "a pid that may be anybody's", "start_time = NULL"),
    session("ready_at IS NULL OR", "ready without a process", "pid = NULL, start_time = NULL"),
    session("ready_at IS NULL OR", "ready without a handshake", "session_started_at = NULL"),
    session(
      "harness_session_id IS NOT NULL",
      "a conversation without a name",
      "harness_session_id = NULL",
    ),
    session("retired_at IS NULL OR", "retired and running", "retired_at = 9"),
    startup("(startup_intent_id IS NULL)", "a startup of no intent", "startup_intent_id = NULL"),
    startup(
      "(startup_intent_epoch IS NULL)",
      "a startup of no epoch",
      "startup_intent_epoch = NULL",
    ),
    startup(
      "(startup_payload_sha256 IS NULL)",
      "a startup of no payload",
      "startup_payload_sha256 = NULL",
    ),
    startup("(startup_echo_prompt IS NULL)", "an echo in no prompt", "startup_echo_prompt = NULL"),
    session(
      "startup_echo_at IS NULL OR",
      "an echo of nothing",
      "startup_echo_at = 1, startup_echo_prompt = 1, prompts = 1",
    ),
    startup(
      "startup_echo_prompt <= prompts",
      "an echo in a prompt to come",
      "startup_echo_prompt = 3",
    ),

    call("(admission = 'Block')", "blocked for no intent", "admission = 'Block'"),
    call("(admission = 'Block')", "passed, with an intent", "intent_id = 'i-det'"),
    call("(resolved_at IS NULL)", "resolved in no way", "resolved_at = 2"),
    call("(batch_closed_at IS NULL)", "a batch closed in no way", "batch_closed_at = 2"),
    call("model_turn IS NULL OR", "a response of no record", "model_turn = 1"),
    call("answer IS NULL OR", "a passed call with an answer", "answer = 'generic'"),
    row("op_workspace_heads", "1")(
      "(change_id IS NULL)",
      "a commit of no change",
      "change_id = NULL",
    ),
    row("stopped_processes", "pid = 10")(
      "(state IN ('Resumed','Gone'))",
      "resumed, not settled",
      "state = 'Resumed'",
    ),
    row("stopped_processes", "pid = 10")(
      "(state IN ('Resumed','Gone'))",
      "settled, not resumed",
      "settled_at = 2",
    ),
  ];
}

function restChecks(): CheckCase[] {
  const message = row("thread_messages", "seq = 1");
  const prepend = row("pending_kkd_prepends", "purpose = 'catch_up'");
  return [
    row("metadata_writes", "subject = 'bookmark'")(
      "(subject = 'bookmark')",
      "a bookmark of a revision",
      "change_id = 'z9'",
    ),
    row("metadata_writes", "change_id = 'z1'")(
      "(subject = 'bookmark')",
      "a description of nothing",
      "change_id = ''",
    ),
    row("pr_links", "number = 1")(
      "repository LIKE",
      "a repository of nobody",
      "repository = 'name'",
    ),
    row("pr_links", "number = 1")("(state = 'merged')", "merged as nothing", "state = 'merged'"),
    row("pr_links", "number = 2")(
      "(state = 'merged')",
      "a merged commit, not merged",
      "state = 'open'",
    ),
    row("pr_links", "number = 1")(
      "head_branch <> base",
      "a request into itself",
      "head_branch = 'main'",
    ),
    row("remote_plans", "plan_id = 'rp-1'")(
      "(state IN ('Claimed','Done'))",
      "claimed by nothing",
      "state = 'Claimed'",
    ),
    row("remote_plans", "plan_id = 'rp-1'")(
      "(state IN ('Claimed','Done'))",
      "an operation, not claimed",
      "operation_id = 'ao-5'",
    ),
    row("remote_plans", "plan_id = 'rp-1'")(
      "(state IN ('Done','Withdrawn'))",
      "withdrawn, not settled",
      "state = 'Withdrawn'",
    ),
    message("(change_id IS NULL) = (commit_id", "half an anchor: no commit", "commit_id = NULL"),
    message("(change_id IS NULL) = (op_id", "half an anchor: no operation", "op_id = NULL"),
    message("(anchor_unknown = 1)", "anchored and unknown", "anchor_unknown = 1"),
    message(
      "(anchor_unknown = 1)",
      "no anchor and known",
      "change_id = NULL, commit_id = NULL, op_id = NULL",
    ),
    message("(author = 'kk')", "a person's words, synthesized", "synthesized = 1"),
    message(
      "session_id IS NOT NULL OR",
      "a person's words of no conversation",
      "session_id = NULL",
    ),
    message(
      "(author = 'agent')",
      "a person speaking from the agent",
      "direction = 'outbound_from_agent'",
    ),
    row("thread_messages", "seq = 2")(
      "(author = 'agent')",
      "an agent speaking to itself",
      "direction = 'inbound_to_agent'",
    ),
    row("thread_changes", "change_id = 'z2'")(
      "redirected_to <>",
      "squashed into itself",
      "redirected_to = 'z2'",
    ),
    row("thread_changes", "change_id = 'z2'")(
      "redirected_to IS NULL OR",
      "squashed and abandoned",
      "tombstoned_at = 3",
    ),
    prepend("expires_at > sent_at", "expired when sent", "expires_at = 1"),
    prepend("matched_message_id IS NULL OR", "matched at no time", "matched_at = NULL"),
    prepend(
      "intent_id IS NULL OR",
      "a catch-up for an intent",
      "intent_id = 'i-deliv', thread_id = 'kid'",
    ),
  ];
}

export function checkCases(kind: Kind): CheckCase[] {
  if (kind === "user") return [...proofChecks(), ...approvalChecks("user_")];
  return [...approvalChecks(""), ...threadChecks(), ...intentChecks(), ...restChecks()];
}
