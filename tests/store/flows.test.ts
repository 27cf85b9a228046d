/** The constraints let the stories of the chapters happen: each is told in SQL, statement by statement, and accepted. */
import { afterAll, describe, expect, test } from "bun:test";
import type { Database } from "bun:sqlite";
import { removeTempDirs } from "../support/temp.ts";
import { makeWorld } from "./world/world.ts";

afterAll(removeTempDirs);

const { whole: repo } = makeWorld("repo");
const { whole: user } = makeWorld("user");

/** Runs the story and shows a row at its end; nothing stays. */
function tell(db: Database, story: readonly string[], show: string): unknown {
  db.run("BEGIN");
  try {
    for (const statement of story) db.run(statement);
    expect(db.query("PRAGMA foreign_key_check").all()).toEqual([]);
    return db.query(show).get();
  } finally {
    db.run("ROLLBACK");
  }
}

const intent = (id: string, set: string): string =>
  `UPDATE sync_intents SET ${set} WHERE intent_id = '${id}'`;
const acknowledged = "state = 'Acknowledged', acknowledged_at = 9, acknowledged_by = 'x'";
const attempt = (id: string, thread: string, of: string, epoch: number, delivery: string): string =>
  `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id, secret_sha256,
     settings_fingerprint, capabilities_json, status, created_at, startup_intent_id, startup_intent_epoch,
     startup_delivery_id, startup_payload_sha256)
   SELECT '${id}', '${thread}', harness, '2', 'c', printf('%064s', '${id}'), settings_fingerprint, '{}', 'Running', 1,
     '${of}', ${epoch}, '${delivery}', startup_payload_sha256 FROM agent_sessions WHERE agent_session_id = 's-grand'`;
const pair = (session: string, delivery: string): string =>
  `restart_agent_session_id = '${session}', restart_delivery_id = '${delivery}'`;
const noTuple =
  "barrier_agent_session_id = NULL, barrier_model_turn = NULL, barrier_tool_batch = NULL, barrier_bound_at = NULL, batch_completed_at = NULL, receipt = NULL, receipt_json = NULL";

describe("flows: delivery", () => {
  test("flows: contrary receipt, redelivered, contrary again → restart with the same payload, echoed, acknowledged", () => {
    const story = [
      intent(
        "i-deliv",
        "barrier_tool_batch = 2, batch_completed_at = NULL, receipt = NULL, receipt_json = NULL, soft_redelivery_count = 1",
      ),
      intent("i-deliv", "batch_completed_at = 9, receipt = 'contrary'"),
      "UPDATE agent_sessions SET retired_at = 9, status = 'Crashed' WHERE agent_session_id = 's-kid'",
      attempt("s-x", "kid", "i-deliv", 1, "d9"),
      intent("i-deliv", `delivery_mode = 'RestartStartup', ${noTuple}, ${pair("s-x", "d9")}`),
      "UPDATE agent_sessions SET pid = 8, start_time = '80', session_started_at = 9, ready_at = 9, prompts = 1 WHERE agent_session_id = 's-x'",
      "UPDATE agent_sessions SET startup_echo_prompt = 1, startup_echo_at = 9 WHERE agent_session_id = 's-x'",
      intent("i-deliv", acknowledged),
    ];
    const show =
      "SELECT state, soft_redelivery_count AS n FROM sync_intents WHERE intent_id = 'i-deliv'";
    expect(tell(repo, story, show)).toEqual({ state: "Acknowledged", n: 1 });
  });

  test("flows: attempt that failed, then exhausted → kept; retried by a person in the next epoch", () => {
    const story = [
      "UPDATE agent_sessions SET retired_at = 9, status = 'Crashed' WHERE agent_session_id = 's-grand'",
      intent(
        "i-re",
        "delivery_mode = NULL, restart_agent_session_id = NULL, restart_delivery_id = NULL, delivery_exhausted_at = 9",
      ),
      intent("i-re", "delivery_exhausted_at = NULL, delivery_epoch = 2, soft_redelivery_count = 0"),
      attempt("s-x", "grand", "i-re", 2, "d9"),
      intent("i-re", `delivery_mode = 'RestartStartup', ${pair("s-x", "d9")}`),
    ];
    const show = "SELECT delivery_epoch AS epoch FROM sync_intents WHERE intent_id = 'i-re'";
    expect(tell(repo, story, show)).toEqual({ epoch: 2 });
  });

  test("flows: exhausted, discarded by a person → acknowledged without proof, with the resolution", () => {
    const story = [
      intent("i-exh", `${acknowledged}, discard = 'delivery', discard_approval_id = 'ap-1'`),
    ];
    const show = "SELECT discard FROM sync_intents WHERE intent_id = 'i-exh'";
    expect(tell(repo, story, show)).toEqual({ discard: "delivery" });
  });

  test("flows: detected, discarded by a person → acknowledged with no payload", () => {
    const story = [
      intent("i-det", `${acknowledged}, discard = 'transition', discard_approval_id = 'ap-1'`),
    ];
    const show = "SELECT payload FROM sync_intents WHERE intent_id = 'i-det'";
    expect(tell(repo, story, show)).toEqual({ payload: null });
  });

  test("flows: receipt that could not be read, read later → matching", () => {
    const story = [
      intent("i-recon", "batch_completed_at = 9, receipt = 'unreadable'"),
      intent("i-recon", "receipt = 'matching', receipt_json = '{}'"),
    ];
    const show = "SELECT receipt FROM sync_intents WHERE intent_id = 'i-recon'";
    expect(tell(repo, story, show)).toEqual({ receipt: "matching" });
  });

  test("flows: recovery, adopted → the choice is recorded, the bundle kept", () => {
    const story = [intent("i-rec", "state = 'Reconciling'")];
    const show = "SELECT recovery_bundle_path AS path FROM sync_intents WHERE intent_id = 'i-rec'";
    expect(tell(repo, story, show)).toEqual({ path: "/recovery/i-rec" });
  });

  test("flows: idle agent, stopped → reconciled without a batch", () => {
    const story = [intent("i-det", "state = 'Reconciling', quiesced_at = 9")];
    const show = "SELECT delivery_mode AS mode FROM sync_intents WHERE intent_id = 'i-det'";
    expect(tell(repo, story, show)).toEqual({ mode: null });
  });
});

describe("flows: discarding, and harnesses that say less", () => {
  test("flows: one plan that discards the transitions of two children → both, under its one approval", () => {
    const story = [
      `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
         to_base_commit_id, detected_op_id, created_at)
         VALUES ('i-two', 'grand', 'kid', 2, 'ParentAdvance', 'Detected', 'a', 'b', 'o', 1)`,
      ...["i-det", "i-two"].map((id) =>
        intent(id, `${acknowledged}, discard = 'transition', discard_approval_id = 'ap-1'`),
      ),
    ];
    const show = "SELECT count(*) AS n FROM sync_intents WHERE discard_approval_id = 'ap-1'";
    expect(tell(repo, story, show)).toEqual({ n: 2 });
  });

  test("flows: transition that cannot be followed, discarded by a person → resolved, with the resolution", () => {
    const story = [
      intent("i-div", `${acknowledged}, discard = 'transition', discard_approval_id = 'ap-1'`),
    ];
    const show = "SELECT state, reason FROM sync_intents WHERE intent_id = 'i-div'";
    expect(tell(repo, story, show)).toEqual({ state: "Acknowledged", reason: "backward" });
  });

  test("flows: codex started without a prompt → ready before the harness names its conversation", () => {
    const story = [
      "UPDATE agent_sessions SET retired_at = 9, status = 'Quiescent' WHERE agent_session_id = 's-act'",
      `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id, secret_sha256,
         settings_fingerprint, capabilities_json, status, created_at)
         VALUES ('s-x', 'act', 'codex', '0.171', NULL, '${"a".repeat(64)}', '${"b".repeat(64)}', '{}', 'Quiescent', 1)`,
      "UPDATE agent_sessions SET pid = 8, start_time = '80', ready_at = 9 WHERE agent_session_id = 's-x'",
      "UPDATE agent_sessions SET harness_session_id = 'c9', session_started_at = 10 WHERE agent_session_id = 's-x'",
    ];
    const show =
      "SELECT ready_at, harness_session_id AS id FROM agent_sessions WHERE agent_session_id = 's-x'";
    expect(tell(repo, story, show)).toEqual({ ready_at: 9, id: "c9" });
  });
});

describe("flows: threads", () => {
  test("flows: issue found, resolved → diverged and back to where it was", () => {
    const story = [
      "UPDATE threads SET lifecycle = 'ProjectionDiverged', projection_resume_lifecycle = 'Active' WHERE thread_id = 'act'",
      `INSERT INTO thread_projection_issues (issue_id, thread_id, issue, expected_json, observed_json, observed_sha256,
         detected_at, observed_at) VALUES ('x', 'act', 'BookmarkMissing', '{}', '{}', '${"o".repeat(64)}', 1, 1)`,
      `UPDATE thread_projection_issues SET observed_json = '[]', observed_sha256 = '${"p".repeat(64)}', observed_at = 2
         WHERE issue_id = 'x'`,
      "UPDATE thread_projection_issues SET resolved_at = 9, resolution = 'recreated' WHERE issue_id = 'x'",
      "UPDATE threads SET lifecycle = 'Active', projection_resume_lifecycle = NULL WHERE thread_id = 'act'",
    ];
    const show = "SELECT lifecycle FROM threads WHERE thread_id = 'act'";
    expect(tell(repo, story, show)).toEqual({ lifecycle: "Active" });
  });

  test("flows: close that fails after the kill → taken up, and only finished", () => {
    const end = (set: string): string =>
      `UPDATE thread_lifecycle_ops SET ${set} WHERE operation_id = 'op-shut'`;
    const step = (ordinal: number, set: string): string =>
      `UPDATE thread_lifecycle_steps SET ${set} WHERE operation_id = 'op-shut' AND ordinal = ${ordinal}`;
    const story = [
      end("state = 'Failed', error = 'why', failing = 1, ended_at = 9"),
      "UPDATE threads SET lifecycle = 'CloseFailed' WHERE thread_id = 'shut'",
      "UPDATE threads SET lifecycle = 'CloseCommit' WHERE thread_id = 'shut'",
      end("state = 'Running', failing = 0, ended_at = NULL, attempts = 2"),
      step(2, "attempts = 2"),
      step(2, "state = 'Completed', result_json = '{}'"),
      step(3, "state = 'Started', identity_json = '{}', attempts = 1"),
      step(3, "state = 'Completed', result_json = '{}'"),
      end("state = 'Completed', ended_at = 10"),
      "UPDATE threads SET lifecycle = 'Closed', checkpoint_commit_id = thread_head_commit_id WHERE thread_id = 'shut'",
    ];
    const show = "SELECT lifecycle FROM threads WHERE thread_id = 'shut'";
    expect(tell(repo, story, show)).toEqual({ lifecycle: "Closed" });
  });

  test("flows: text kiki wrote, then a person's, then asked for again → kiki's", () => {
    const write = (set: string): string =>
      `UPDATE metadata_writes SET ${set} WHERE change_id = 'z1'`;
    const story = [
      write("owner = 'human'"),
      write(`owner = 'kiki', content_sha256 = '${"d".repeat(64)}', refreshed_at = 9`),
    ];
    expect(tell(repo, story, "SELECT owner FROM metadata_writes WHERE change_id = 'z1'")).toEqual({
      owner: "kiki",
    });
  });

  test("flows: transcript of a destroyed thread deleted → not found by search, what was sent stays matched", () => {
    const find =
      "SELECT count(*) AS n FROM thread_messages_fts WHERE thread_messages_fts MATCH 'message'";
    expect(tell(repo, [], find)).toEqual({ n: 3 });
    expect(tell(repo, ["DELETE FROM thread_messages WHERE thread_id = 'act'"], find)).toEqual({
      n: 0,
    });
    const prepend = "SELECT matched_at FROM pending_kkd_prepends WHERE purpose = 'catch_up'";
    expect(tell(repo, ["DELETE FROM thread_messages"], prepend)).toEqual({ matched_at: 2 });
  });
});

describe("flows: approvals", () => {
  test("flows: saga that failed, approved again → taken up under the second approval", () => {
    const story = [
      "UPDATE approved_operations SET state = 'Failed', error = 'why', ended_at = 5 WHERE operation_id = 'ao-1'",
      "UPDATE human_approvals SET consumed_at = 5 WHERE approval_id = 'ap-1'",
      "UPDATE human_approvals SET operation_id = 'ao-2', claimed_at = 6 WHERE approval_id = 'ap-2'",
      `INSERT INTO approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json, state,
         claimed_at, lifecycle_operation_id) SELECT 'ao-2', 'ap-2', plan_sha256, method, target, args_json, 'Claimed', 6,
         'op-shut' FROM approval_challenges WHERE challenge_id = 'ch-2'`,
    ];
    const show =
      "SELECT count(*) AS n FROM approved_operations WHERE lifecycle_operation_id = 'op-shut'";
    expect(tell(repo, story, show)).toEqual({ n: 2 });
  });

  for (const [kind, db, p] of [
    ["user", user, "user_"],
    ["repo", repo, ""],
  ] as const) {
    test(`flows: ${kind}, plan confirmed, claimed, carried out → consumed once`, () => {
      const story = [
        `UPDATE ${p}approval_challenges SET state = 'Confirmed', closed_at = 3, presenter_id = 'pr-1', terminal = '/dev/pts/1'
           WHERE challenge_id = 'ch-3'`,
        `INSERT INTO ${p}human_approvals (approval_id, challenge_id, plan_sha256, issued_at, expires_at)
           SELECT 'ap-3', challenge_id, plan_sha256, 3, 50 FROM ${p}approval_challenges WHERE challenge_id = 'ch-3'`,
        `UPDATE ${p}human_approvals SET operation_id = 'ao-3', claimed_at = 4 WHERE approval_id = 'ap-3'`,
        `INSERT INTO ${p}approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json, state, claimed_at)
           SELECT 'ao-3', 'ap-3', plan_sha256, method, target, args_json, 'Claimed', 4 FROM ${p}approval_challenges
           WHERE challenge_id = 'ch-3'`,
        `UPDATE ${p}approved_operations SET state = 'Running' WHERE operation_id = 'ao-3'`,
        `UPDATE ${p}approved_operations SET state = 'OutcomeUnknown', error = 'lost' WHERE operation_id = 'ao-3'`,
        `UPDATE ${p}approved_operations SET state = 'Completed', ended_at = 6 WHERE operation_id = 'ao-3'`,
        `UPDATE ${p}human_approvals SET consumed_at = 6 WHERE approval_id = 'ap-3'`,
      ];
      const show = `SELECT consumed_at FROM ${p}human_approvals WHERE approval_id = 'ap-3'`;
      expect(tell(db, story, show)).toEqual({ consumed_at: 6 });
    });

    test(`flows: ${kind}, an operation whose approval was not claimed → refused when the transaction ends`, () => {
      const begin = `INSERT INTO ${p}approved_operations (operation_id, approval_id, plan_sha256, method, target, args_json, state, claimed_at)
        SELECT 'ao-2', 'ap-2', plan_sha256, method, target, args_json, 'Claimed', 4 FROM ${p}approval_challenges
        WHERE challenge_id = 'ch-2'`;
      expect(() => db.run(begin)).toThrow("FOREIGN KEY constraint failed");
    });

    test(`flows: ${kind}, a claim that names no operation → refused when the transaction ends`, () => {
      const claim = `UPDATE ${p}human_approvals SET operation_id = 'nowhere', claimed_at = 4 WHERE approval_id = 'ap-2'`;
      expect(() => db.run(claim)).toThrow("FOREIGN KEY constraint failed");
    });
  }
});
