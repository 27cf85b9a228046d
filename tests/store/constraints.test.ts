/** What a bug cannot store: each CHECK, index and trigger of the lifecycle's tables against one row it must refuse. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import type { Db } from "../../src/store/db.ts";
import { removeTempDirs } from "../support/temp.ts";
import {
  addGate,
  addOperation,
  addProjections,
  addSession,
  addThread,
  COMMIT,
  repoDb,
} from "./fixture.ts";

let db: Db;
beforeEach(() => {
  db = repoDb();
  addThread(db, "a");
  addThread(db, "b");
});
afterAll(removeTempDirs);

/** [what, SQL run after the arrangement, part of the refusal] */
type Case = [what: string, sql: string, refusal: string];

function refuses(arrange: () => void, cases: Case[]): void {
  for (const [what, sql, refusal] of cases) {
    test(`refused: ${what}`, () => {
      arrange();
      expect(() => db.run(sql)).toThrow(refusal);
    });
  }
}

const CHECK = "CHECK constraint failed";
const UNIQUE = "UNIQUE constraint failed";
const FOREIGN = "FOREIGN KEY constraint failed";

describe("threads", () => {
  refuses(
    () => addProjections(db, "a"),
    [
      ["unknown lifecycle", "UPDATE threads SET lifecycle = 'Sleeping'", CHECK],
      ["empty name", "UPDATE threads SET name = ''", CHECK],
      [
        "slug of 61 letters",
        `UPDATE threads SET slug = '${"x".repeat(61)}' WHERE thread_id = 'a'`,
        CHECK,
      ],
      ["two threads of one slug", "UPDATE threads SET slug = 'a'", UNIQUE],
      ["two threads of one workspace path", "UPDATE threads SET workspace_path = '/x'", UNIQUE],
      ["two threads of one bookmark", "UPDATE threads SET bookmark = 'x'", UNIQUE],
      ["arguments that are not JSON", "UPDATE threads SET harness_args_json = 'x'", CHECK],
      ["unknown harness", "UPDATE threads SET harness = 'vim'", CHECK],
      [
        "head without its operation",
        "UPDATE threads SET thread_head_op_id = NULL WHERE thread_id = 'a'",
        CHECK,
      ],
      [
        "head without its change",
        "UPDATE threads SET thread_head_change_id = NULL WHERE thread_id = 'a'",
        CHECK,
      ],
      [
        "ClosePreflight without a head",
        "UPDATE threads SET lifecycle = 'ClosePreflight' WHERE thread_id = 'b'",
        CHECK,
      ],
      [
        "Closed with the checkpoint elsewhere",
        "UPDATE threads SET lifecycle = 'Closed', checkpoint_commit_id = 'other' WHERE thread_id = 'a'",
        CHECK,
      ],
      [
        "ProjectionDiverged that leads nowhere",
        "UPDATE threads SET lifecycle = 'ProjectionDiverged' WHERE thread_id = 'a'",
        CHECK,
      ],
      [
        "a way back without ProjectionDiverged",
        "UPDATE threads SET projection_resume_lifecycle = 'Active' WHERE thread_id = 'a'",
        CHECK,
      ],
      [
        "Creating → Active without a ready incarnation",
        "UPDATE threads SET lifecycle = 'Active' WHERE thread_id = 'a'",
        "only a ready incarnation",
      ],
    ],
  );

  for (const kind of ["Create", "Close", "Reopen", "Destroy"]) {
    test(`refused: Active with an unfinished ${kind}`, () => {
      addProjections(db, "a");
      db.run("UPDATE threads SET lifecycle = 'ClosePreflight' WHERE thread_id = 'a'");
      addOperation(db, "a", "op");
      db.run(`UPDATE thread_lifecycle_ops SET kind = '${kind}'`);
      const activate = "UPDATE threads SET lifecycle = 'Active' WHERE thread_id = 'a'";
      expect(() => db.run(activate)).toThrow("unfinished Create, Close, Reopen or Destroy");
      db.run("UPDATE thread_lifecycle_ops SET state = 'Completed', ended_at = 2");
      db.run(activate);
    });
  }
});

describe("thread_links", () => {
  const link = (child: string, parent: string): string =>
    `INSERT INTO thread_links VALUES ('${child}', '${parent}', '${COMMIT}', 1)`;
  refuses(
    () => void db.run(link("b", "a")),
    [
      ["following itself", link("a", "a"), CHECK],
      ["two parents", link("b", "a"), UNIQUE],
      ["a parent there is not", link("a", "nobody"), FOREIGN],
    ],
  );
});

describe("thread_lifecycle_ops and steps", () => {
  const startOne =
    "UPDATE thread_lifecycle_steps SET state = 'Started', identity_json = '{}' WHERE ordinal = 1";
  refuses(() => {
    addOperation(db, "a", "op");
    db.run(startOne);
  }, [
    [
      "two running operations of a thread",
      "INSERT INTO thread_lifecycle_ops SELECT 'op2', thread_id, kind, state, args_json, 0, NULL, 1, 1, NULL FROM thread_lifecycle_ops",
      UNIQUE,
    ],
    ["an operation of no thread", "UPDATE thread_lifecycle_ops SET thread_id = 'nobody'", FOREIGN],
    ["ended, and still running", "UPDATE thread_lifecycle_ops SET ended_at = 5", CHECK],
    ["completed, and not ended", "UPDATE thread_lifecycle_ops SET state = 'Completed'", CHECK],
    [
      "failed without an error",
      "UPDATE thread_lifecycle_ops SET state = 'Failed', ended_at = 5",
      CHECK,
    ],
    ["unknown kind", "UPDATE thread_lifecycle_ops SET kind = 'Dance'", CHECK],
    ["unknown step state", "UPDATE thread_lifecycle_steps SET state = 'Halfway'", CHECK],
    [
      "two started steps",
      "UPDATE thread_lifecycle_steps SET state = 'Started', identity_json = '{}' WHERE ordinal = 2",
      UNIQUE,
    ],
    [
      "started without an identity",
      "UPDATE thread_lifecycle_steps SET identity_json = NULL WHERE ordinal = 1",
      CHECK,
    ],
    [
      "completed without evidence",
      "UPDATE thread_lifecycle_steps SET state = 'Completed' WHERE ordinal = 1",
      CHECK,
    ],
    [
      "identity that is not JSON",
      "UPDATE thread_lifecycle_steps SET identity_json = '{' WHERE ordinal = 1",
      CHECK,
    ],
    ["ordinal 0", "UPDATE thread_lifecycle_steps SET ordinal = 0 WHERE ordinal = 1", CHECK],
    ["one name twice", "UPDATE thread_lifecycle_steps SET name = 'one'", UNIQUE],
  ]);
});

describe("agent_sessions", () => {
  refuses(
    () => addSession(db, "a", "i1"),
    [
      [
        "two live incarnations",
        "INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id, secret_sha256, settings_fingerprint, capabilities_json, status, created_at) SELECT 'i2', thread_id, harness, harness_version, 's2', replace(secret_sha256, '1', '2'), settings_fingerprint, '{}', status, 1 FROM agent_sessions",
        UNIQUE,
      ],
      ["a pid without its start time", "UPDATE agent_sessions SET pid = 7", CHECK],
      [
        "ready before its process",
        "UPDATE agent_sessions SET ready_at = 1, session_started_at = 1",
        CHECK,
      ],
      [
        "ready without a handshake",
        "UPDATE agent_sessions SET ready_at = 1, pid = 7, start_time = '7'",
        CHECK,
      ],
      ["unknown status", "UPDATE agent_sessions SET status = 'Asleep'", CHECK],
      ["a secret instead of its hash", "UPDATE agent_sessions SET secret_sha256 = 'short'", CHECK],
      ["a fingerprint that is none", "UPDATE agent_sessions SET settings_fingerprint = ''", CHECK],
    ],
  );
});

describe("launch_gates", () => {
  const state = (to: string): string => `UPDATE launch_gates SET state = '${to}'`;
  const arrange = (): void => {
    addProjections(db, "a");
    addSession(db, "a", "i1");
    addGate(db, "a", "i1");
  };
  refuses(arrange, [
    ["unknown state", state("Ajar"), "only moves forward"],
    ["activated → exec'd without a claim", state("Exec"), "only moves forward"],
    [
      "a second gate of one incarnation",
      "INSERT INTO launch_gates VALUES ('g2', 'a', 'i1', 'Revoked', '%1', '/l', 1)",
      UNIQUE,
    ],
  ]);

  for (const from of ["Exec", "Revoked"]) {
    test(`refused: a gate that is ${from} opened again`, () => {
      arrange();
      if (from === "Exec") db.run(state("Claimed"));
      db.run(state(from));
      for (const to of ["Activated", "Claimed"])
        expect(() => db.run(state(to))).toThrow("only moves forward");
    });
  }

  test("refused: a claimed gate made available again", () => {
    arrange();
    db.run(state("Claimed"));
    expect(() => db.run(state("Activated"))).toThrow("only moves forward");
  });

  for (const missing of [
    "UPDATE threads SET checkpoint_commit_id = NULL",
    "UPDATE threads SET thread_head_commit_id = NULL, thread_head_op_id = NULL, thread_head_change_id = NULL",
    "UPDATE threads SET tmux_session_id = NULL",
    "UPDATE credentials SET revoked_at = 2",
  ]) {
    test(`refused: a gate after ${missing.replace(/ = .*/, " gone").toLowerCase()}`, () => {
      addProjections(db, "a");
      addSession(db, "a", "i1");
      db.run(missing);
      expect(() => addGate(db, "a", "i1")).toThrow(
        "needs credential, head, checkpoint and tmux session",
      );
    });
  }
});

describe("credentials, events, attention", () => {
  refuses(
    () => addProjections(db, "a"),
    [
      [
        "two live credentials of a thread",
        `INSERT INTO credentials VALUES ('c2', 'a', 'ThreadScoped', '${"9".repeat(64)}', 1, NULL)`,
        UNIQUE,
      ],
      ["a secret instead of its hash", "UPDATE credentials SET secret_sha256 = 'short'", CHECK],
      ["a kind of the user database", "UPDATE credentials SET kind = 'Admin'", CHECK],
      [
        "event data that is not JSON",
        "INSERT INTO events (kind, data_json, at) VALUES ('x', '{', 1)",
        CHECK,
      ],
      [
        "attention of no thread",
        "INSERT INTO attention (thread_id, kind, dedup_key, message, loud, raised_at) VALUES ('nobody', 'k', 'd', 'm', 1, 1)",
        FOREIGN,
      ],
      [
        "attention half loud",
        "INSERT INTO attention (thread_id, kind, dedup_key, message, loud, raised_at) VALUES ('a', 'k', 'd', 'm', 2, 1)",
        CHECK,
      ],
    ],
  );
});
