/** What triggers refuse of processes, publishing, transcript, events and attention. */
import { fixed, refused, type TriggerCase } from "./trigger-case.ts";

export function restTriggers(): TriggerCase[] {
  const hash = `'${"8".repeat(64)}'`;
  const write = (set: string, where: string): string =>
    `UPDATE metadata_writes SET ${set} WHERE ${where}`;
  return [
    ...fixed(
      "stopped_processes_fixed",
      "stopped_processes",
      "pid = 11",
      "owner_kind='intent' owner_id='x' thread_id='act' pid=99 start_time='9' was_stopped=1",
    ),
    refused(
      "metadata_writes_human",
      "a person's text written by kiki",
      write(`content_sha256 = ${hash}, written_at = 9`, "change_id = 'z2'"),
    ),
    refused(
      "metadata_writes_human",
      "a person's text taken back unasked",
      write("owner = 'kiki'", "change_id = 'z2'"),
    ),
    refused(
      "metadata_writes_human",
      "a person's bookmark taken back, even asked",
      write("owner = 'kiki', refreshed_at = 9", "subject = 'bookmark'"),
    ),
    ...fixed(
      "metadata_writes_subject",
      "metadata_writes",
      "change_id = 'z1'",
      "thread_id='dead' subject='bookmark' change_id='z8'",
    ),
    ...fixed(
      "pr_links_identity",
      "pr_links",
      "number = 1",
      "thread_id='dead' repository='a/b' number=9",
    ),
    refused(
      "pr_links_merged",
      "open again after the merge",
      "UPDATE pr_links SET state = 'open', merged_commit_id = NULL WHERE number = 2",
    ),
    refused(
      "pr_links_merged",
      "merged as another commit",
      "UPDATE pr_links SET merged_commit_id = 'x' WHERE number = 2",
    ),
    ...fixed(
      "remote_plans_fixed",
      "remote_plans",
      "plan_id = 'rp-1'",
      `plan_id='x' thread_id='dead' kind='pr-base' args_json='[]' plan_sha256=${hash}`,
    ),
    refused(
      "remote_plans_fixed",
      "settled twice",
      "UPDATE remote_plans SET settled_at = 9 WHERE plan_id = 'rp-3'",
    ),
    refused(
      "thread_messages_seq",
      "a message before another",
      "INSERT INTO thread_messages (thread_id, seq, session_id, captured_at, author, direction, text, dedup_key, synthesized, anchor_unknown) VALUES ('act', 2, 's', 1, 'human', 'inbound_to_agent', 't', 'row-9', 0, 1)",
    ),
    ...fixed(
      "thread_messages_fixed",
      "thread_messages",
      "seq = 1",
      "message_id=99 thread_id='dead' seq=9 session_id='x' captured_at=9 text='x'",
    ),
    ...fixed(
      "pending_kkd_prepends_fixed",
      "pending_kkd_prepends",
      "purpose = 'restart'",
      `thread_id='dead' purpose='interrupt' text_sha256=${hash} intent_id='i-det'`,
    ),
    refused(
      "pending_kkd_prepends_fixed",
      "matched twice",
      "UPDATE pending_kkd_prepends SET matched_message_id = 1 WHERE purpose = 'catch_up'",
    ),
    ...fixed(
      "provider_egress_consents_fixed",
      "provider_egress_consents",
      "consent_id = 'con-1'",
      "consent_id='x' thread_id='dead' harness='codex' service='x' endpoint_origin='x' account_fingerprint='x' purpose='transcript_mcp' disclosure_version=2 granted_by_presenter='x' granted_at=9",
    ),
    refused(
      "provider_egress_consents_fixed",
      "a revocation taken back",
      "UPDATE provider_egress_consents SET revoked_at = NULL WHERE consent_id = 'con-0'",
    ),
    refused("events_fixed", "an event changed", "UPDATE events SET kind = 'x'"),
    ...fixed(
      "attention_fixed",
      "attention",
      "dedup_key = 'd2'",
      "thread_id='dead' kind='x' dedup_key='x' raised_at=9 acknowledged_at=NULL notified_at=9",
    ),
  ];
}
