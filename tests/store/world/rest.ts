/** Projections, processes, publishing, transcript: one or two rows of every other table. */
import { insert, sha, type Value } from "./sql.ts";

function issue(id: string, of: string, kind: string, resolved: number | null): string {
  return insert("thread_projection_issues", {
    issue_id: id,
    thread_id: of,
    issue: kind,
    expected_json: "{}",
    observed_json: "{}",
    observed_sha256: sha("o"),
    detected_at: 1,
    observed_at: 1,
    notified_at: 2,
    resolved_at: resolved,
    resolution: resolved === null ? null : "restored",
  });
}

function message(
  seq: number,
  author: string,
  direction: string,
  extra: Record<string, Value>,
): string {
  return insert("thread_messages", {
    thread_id: "act",
    seq,
    change_id: "z1",
    commit_id: "h1",
    op_id: "o1",
    session_id: "conversation",
    captured_at: 1,
    author,
    direction,
    text: `message ${seq}`,
    dedup_key: `row-${seq}`,
    synthesized: 0,
    anchor_unknown: 0,
    ...extra,
  });
}

function transcriptRows(): string[] {
  const prepend = { thread_id: "kid", text_sha256: sha("t"), sent_at: 1, expires_at: 9 };
  const consent = {
    thread_id: "act",
    harness: "claude-code",
    service: "anthropic",
    endpoint_origin: "https://api.example",
    account_fingerprint: "acc",
    purpose: "catch_up",
    disclosure_version: 1,
    granted_by_presenter: "pr-1",
    granted_at: 1,
  };
  return [
    message(1, "human", "inbound_to_agent", {}),
    message(2, "agent", "outbound_from_agent", {
      change_id: null,
      commit_id: null,
      op_id: null,
      anchor_unknown: 1,
    }),
    message(3, "kk", "inbound_to_agent", { session_id: null, synthesized: 1 }),
    insert("thread_changes", { thread_id: "act", change_id: "z1", first_seen_op_id: "o1" }),
    insert("thread_changes", {
      thread_id: "act",
      change_id: "z2",
      first_seen_op_id: "o1",
      redirected_to: "z1",
    }),
    insert("transcript_offsets", {
      thread_id: "act",
      session_id: "conversation",
      file: "/p/x.jsonl",
      file_identity: "1:2",
      offset: 10,
      read_at: 1,
    }),
    insert("pending_kkd_prepends", { ...prepend, purpose: "restart", intent_id: "i-deliv" }),
    insert("pending_kkd_prepends", {
      ...prepend,
      purpose: "catch_up",
      matched_message_id: 3,
      matched_at: 2,
    }),
    insert("provider_egress_consents", { consent_id: "con-1", ...consent }),
    insert("provider_egress_consents", { consent_id: "con-0", ...consent, revoked_at: 2 }),
  ];
}

function publishingRows(): string[] {
  const write = (subject: string, change: string, owner: string): string =>
    insert("metadata_writes", {
      thread_id: "act",
      subject,
      change_id: change,
      content_sha256: sha("c"),
      owner,
      written_at: 1,
    });
  const pr = (of: string, number: number, state: string, merged: string | null): string =>
    insert("pr_links", {
      thread_id: of,
      repository: "owner/name",
      number,
      url: "https://x/1",
      remote: "origin",
      head_branch: `kk/${of}`,
      base_branch: "main",
      pushed_commit_id: "h1",
      title_sha256: sha("t"),
      body_sha256: sha("b"),
      state,
      draft: 1,
      checks: "none",
      merged_commit_id: merged,
      created_at: 1,
      observed_at: 1,
    });
  const plan = (id: string, kind: string, state: string, operation: string | null): string =>
    insert("remote_plans", {
      plan_id: id,
      thread_id: "kid",
      kind,
      args_json: "{}",
      plan_sha256: sha("p"),
      state,
      operation_id: operation,
      created_at: 1,
      settled_at: state === "Done" || state === "Withdrawn" ? 2 : null,
    });
  return [
    write("description", "z1", "kiki"),
    write("description", "z2", "human"),
    write("bookmark", "", "human"),
    pr("act", 1, "open", null),
    pr("kid", 2, "merged", "m1"),
    plan("rp-1", "force-push", "Pending", null),
    plan("rp-2", "pr-base", "Claimed", "ao-1"),
    plan("rp-3", "pr-base", "Withdrawn", null),
  ];
}

export function restRows(): string[] {
  const stopped = (pid: number, state: string, was: number): string =>
    insert("stopped_processes", {
      owner_kind: "lifecycle",
      owner_id: "op-pre",
      thread_id: "pre",
      pid,
      start_time: "70",
      pgid: pid,
      session: pid,
      was_stopped: was,
      state,
      recorded_at: 1,
      settled_at: state === "Resumed" || state === "Gone" ? 2 : null,
    });
  const attention = (key: string, acknowledged: number | null): string =>
    insert("attention", {
      thread_id: "act",
      kind: "k",
      dedup_key: key,
      message: "m",
      loud: 1,
      raised_at: 1,
      acknowledged_at: acknowledged,
      notified_at: acknowledged,
    });
  return [
    issue("iss-1", "div", "BookmarkMoved", null),
    issue("iss-2", "act", "BookmarkMissing", 3),
    insert("thread_config", { thread_id: "act", key: "ui.theme", value_json: '"x"', set_at: 1 }),
    stopped(10, "Recorded", 0),
    stopped(11, "Stopped", 0),
    stopped(12, "Resumed", 1),
    stopped(13, "Gone", 0),
    insert("events", { thread_id: "act", kind: "lifecycle", data_json: "{}", at: 1 }),
    attention("d1", null),
    attention("d2", 2),
    ...publishingRows(),
    ...transcriptRows(),
  ];
}
