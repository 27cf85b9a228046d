/** The table modules: what goes in comes out, and moves that do not fit throw by name. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { acknowledgeAttention, openAttention, raiseAttention } from "../../src/store/attention.ts";
import {
  insertThreadCredential,
  insertUserCredential,
  liveUserCredentials,
  revokeThreadCredential,
  revokeUserCredential,
  threadCredential,
  threadOfCredential,
} from "../../src/store/credentials.ts";
import { getMeta, setMeta } from "../../src/store/daemon-meta.ts";
import { write, type Db } from "../../src/store/db.ts";
import { appendEvent, eventsSince } from "../../src/store/events.ts";
import {
  completeStep,
  endOperation,
  latestOperation,
  moveStep,
  operationById,
  restartStep,
  runningOperations,
  setFailing,
  setStepError,
  startStep,
  startUndo,
  stepsOf,
  takeUpOperation,
} from "../../src/store/lifecycle-ops.ts";
import { openUserDb } from "../../src/store/open.ts";
import { insertRepo, listRepos, repoById, repoByPath } from "../../src/store/repos.ts";
import {
  gateOf,
  liveSession,
  moveGate,
  noteSessionStarted,
  openGate,
  retireSession,
  revokeGate,
  sessionById,
  setProcess,
  setReady,
} from "../../src/store/sessions.ts";
import {
  allThreads,
  childrenOf,
  clearHead,
  deleteLink,
  parentOf,
  setLifecycle,
  setLink,
  slugTaken,
  threadById,
  threadSummaries,
  threadSummary,
} from "../../src/store/threads.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import {
  addGate,
  addOperation,
  addProjections,
  addSession,
  addThread,
  COMMIT,
  OP,
  repoDb,
} from "./fixture.ts";

let db: Db;
beforeEach(() => {
  db = repoDb();
  addThread(db, "a");
  addThread(db, "b");
});
afterAll(removeTempDirs);

/** Ready incarnation and Active lifecycle, as the handshake would leave them. */
function activate(id: string): void {
  addProjections(db, id);
  addSession(db, id, `i-${id}`);
  setProcess(db, `i-${id}`, { pid: 7, startTime: "70" });
  noteSessionStarted(db, `i-${id}`, { harnessSessionId: "s", now: 2 });
  setReady(db, `i-${id}`, 3);
  setLifecycle(db, id, "Creating", "Active");
}

describe("user database", () => {
  test("repos: registered → found by id and by path, listed in order, a second one of a path refused", () => {
    const user = openUserDb(join(tempDir("store"), "state.db"));
    const repo = {
      repoId: "r1",
      canonicalPath: "/s/.jj/repo",
      repoRoot: "/s",
      colocated: true,
      registeredAt: 5,
    };
    insertRepo(user, repo);
    insertRepo(user, { ...repo, repoId: "r0", canonicalPath: "/t/.jj/repo", colocated: false });
    expect(repoById(user, "r1")).toEqual(repo);
    expect(repoByPath(user, "/s/.jj/repo")).toEqual(repo);
    expect([repoById(user, "x"), repoByPath(user, "x")]).toEqual([null, null]);
    expect(listRepos(user).map((r) => r.repoId)).toEqual(["r0", "r1"]);
    expect(() => insertRepo(user, { ...repo, repoId: "r2" })).toThrow("UNIQUE");
    user.close();
  });

  test("meta and credentials: written → read; revoked → gone", () => {
    const user = openUserDb(join(tempDir("store"), "state.db"));
    setMeta(user, "socket", "/a");
    setMeta(user, "socket", "/b");
    expect([getMeta(user, "socket"), getMeta(user, "x")]).toEqual(["/b", null]);
    const credential = {
      credentialId: "c",
      kind: "RegistrationScoped",
      secretSha256: "a".repeat(64),
    } as const;
    insertUserCredential(user, { ...credential, now: 1 });
    expect(liveUserCredentials(user)).toEqual([credential]);
    revokeUserCredential(user, "c", 2);
    expect(liveUserCredentials(user)).toEqual([]);
    user.close();
  });
});

describe("threads", () => {
  test("thread: inserted → Creating, with names and nothing made", () => {
    expect(threadById(db, "a")).toMatchObject({
      lifecycle: "Creating",
      slug: "a",
      harnessArgs: ["-v"],
      head: null,
      base: null,
      tmuxSessionId: null,
    });
    expect([threadById(db, "x"), slugTaken(db, "a"), slugTaken(db, "x")]).toEqual([
      null,
      true,
      false,
    ]);
    expect(allThreads(db).map((t) => t.threadId)).toEqual(["a", "b"]);
  });

  test("lifecycle: from another state than expected → throws by name, nothing changed", () => {
    expect(() => setLifecycle(db, "a", "CreateFailed", "Creating")).toThrow(
      "is Creating, not CreateFailed",
    );
    expect(() => setLifecycle(db, "a", "Creating", "Closed" as never)).toThrow(
      "illegal lifecycle transition",
    );
    expect(() => setLifecycle(db, "x", "Creating", "CreateFailed")).toThrow("no such thread");
    expect(threadById(db, "a")!.lifecycle).toBe("Creating");
  });

  test("lifecycle: ProjectionDiverged → keeps where it goes back to, and forgets it on the way back", () => {
    activate("a");
    setLifecycle(db, "a", "Active", "ProjectionDiverged", { projectionResume: "Active" });
    const resume = (): unknown =>
      db.query("SELECT projection_resume_lifecycle AS r FROM threads WHERE thread_id = 'a'").get();
    expect(resume()).toEqual({ r: "Active" });
    setLifecycle(db, "a", "ProjectionDiverged", "Active");
    expect(resume()).toEqual({ r: null });
  });

  test("head: cleared → head, change, operation and checkpoint gone together", () => {
    addProjections(db, "a");
    expect(threadById(db, "a")).toMatchObject({ head: COMMIT, headOp: OP, checkpoint: COMMIT });
    clearHead(db, "a");
    expect(threadById(db, "a")).toMatchObject({
      head: null,
      headOp: null,
      checkpoint: null,
      base: COMMIT,
    });
  });

  test("links: set, set again, deleted → one parent, re-anchored, none", () => {
    setLink(db, { child: "b", parent: "a", anchor: COMMIT, now: 1 });
    setLink(db, { child: "b", parent: "a", anchor: "f".repeat(40), now: 2 });
    expect(parentOf(db, "b")).toBe("a");
    expect(childrenOf(db, "a")).toEqual([{ threadId: "b", name: "b" }]);
    deleteLink(db, "b");
    expect([parentOf(db, "b"), childrenOf(db, "a")]).toEqual([null, []]);
  });

  test("summaries: joins → parent, live agent, unresolved intents, attention; closed ones only when asked for", () => {
    activate("a");
    setLink(db, { child: "b", parent: "a", anchor: COMMIT, now: 1 });
    db.run(
      `INSERT INTO sync_intents (intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
         to_base_commit_id, detected_op_id, created_at) VALUES ('n1', 'b', 'a', 1, 'NativeRewrite', 'Detected', 'x', 'y', 'o', 1)`,
    );
    raiseAttention(db, {
      threadId: "b",
      kind: "k",
      dedupKey: "d",
      message: "m",
      loud: true,
      now: 1,
    });
    expect(threadSummary(db, "b")).toMatchObject({
      followsThreadId: "a",
      followsName: "a",
      agent: null,
      intents: [{ state: "Detected", exhausted: false }],
      attention: true,
    });
    expect(threadSummary(db, "a")).toMatchObject({
      agent: { status: "Running", ready: true, retired: false, lastTurnCompleted: false },
      attention: false,
      intents: [],
    });
    setLifecycle(db, "a", "Active", "ClosePreflight");
    setLifecycle(db, "a", "ClosePreflight", "CloseCommit");
    setLifecycle(db, "a", "CloseCommit", "Closed");
    expect(threadSummaries(db, { closed: false }).map((t) => t.threadId)).toEqual(["b"]);
    expect(threadSummaries(db, { closed: true }).map((t) => t.threadId)).toEqual(["a", "b"]);
  });

  test("summaries: several incarnations → the live one, else the newest", () => {
    activate("a");
    retireSession(db, "i-a", { status: "Crashed", event: "exit code 1", now: 4 });
    expect(threadSummary(db, "a")!.agent).toMatchObject({
      status: "Crashed",
      retired: true,
      lastEvent: "exit code 1",
    });
    addSession(db, "a", "i2");
    expect(threadSummary(db, "a")!.agent).toMatchObject({
      status: "Running",
      retired: false,
      ready: false,
    });
    expect(threadSummaries(db, { closed: true })).toHaveLength(2);
  });
});

describe("journal", () => {
  const at = { operationId: "op", ordinal: 1 };

  test("operation: inserted → running, steps pending in order; ended → no longer running, latest all the same", () => {
    addOperation(db, "a", "op");
    expect(stepsOf(db, "op").map((s) => `${s.ordinal} ${s.name} ${s.state}`)).toEqual([
      "1 one Pending",
      "2 two Pending",
    ]);
    expect(runningOperations(db, "Create").map((o) => o.operationId)).toEqual(["op"]);
    expect(runningOperations(db, "Close")).toEqual([]);
    endOperation(db, "op", { state: "Failed", error: "why", now: 2 });
    expect(operationById(db, "op")).toMatchObject({
      state: "Failed",
      error: "why",
      endedAt: 2,
      args: { a: 1 },
    });
    expect(latestOperation(db, "a")!.operationId).toBe("op");
    expect(() => endOperation(db, "op", { state: "Completed", now: 3 })).toThrow("is not running");
    addOperation(db, "a", "op2");
    expect(latestOperation(db, "a")!.operationId).toBe("op2");
  });

  test("step: started, completed → identity and evidence; any other order → throws by name", () => {
    addOperation(db, "a", "op");
    expect(() => completeStep(db, at, {})).toThrow("step 1 of op is not Started");
    startStep(db, at, { token: "t" });
    expect(() => startStep(db, at, {})).toThrow("is not Pending");
    completeStep(db, at, { made: true });
    expect(stepsOf(db, "op")[0]).toMatchObject({
      state: "Completed",
      identity: { token: "t" },
      result: { made: true },
    });
    const done = stepsOf(db, "op")[0]!;
    expect(() => startUndo(db, at, { ...done, state: "Started" })).toThrow("is not Started");
    startUndo(db, at, done);
    expect(() => startUndo(db, at, done)).toThrow("cannot become Compensating");
    startUndo(db, at, stepsOf(db, "op")[0]!);
    expect(() => moveStep(db, at, ["Started"], "Compensated")).toThrow("is not Started");
    moveStep(db, at, ["Compensating"], "Compensated");
    expect(stepsOf(db, "op")[0]).toMatchObject({ attempts: 1, undoAttempts: 2 });
  });

  test("step: started again → counted in the journal, by one who knows the count only", () => {
    addOperation(db, "a", "op");
    startStep(db, at, {});
    restartStep(db, at, 1);
    expect(() => restartStep(db, at, 1)).toThrow("step 1 of op is not Started 1 times");
    expect(stepsOf(db, "op")[0]).toMatchObject({ state: "Started", attempts: 2 });
  });

  test("operation: taken up again → Running, its error kept, counted; one that has not failed → throws", () => {
    addOperation(db, "a", "op");
    expect(() => takeUpOperation(db, "op", false)).toThrow("has not failed");
    endOperation(db, "op", { state: "Failed", error: "why", now: 2 });
    takeUpOperation(db, "op", true);
    expect(operationById(db, "op")).toMatchObject({
      state: "Running",
      failing: true,
      error: "why",
      attempts: 2,
      endedAt: null,
    });
  });

  test("failing: first error → kept against later ones", () => {
    addOperation(db, "a", "op");
    setFailing(db, "op", "first");
    setFailing(db, "op", "second");
    setStepError(db, at, "here");
    expect(operationById(db, "op")).toMatchObject({ failing: true, error: "first" });
    expect(stepsOf(db, "op")[0]!.error).toBe("here");
  });

  test("write: body throws → nothing of it is kept", () => {
    addOperation(db, "a", "op");
    expect(() =>
      write(db, () => {
        startStep(db, at, {});
        throw new Error("stop");
      }),
    ).toThrow("stop");
    expect(stepsOf(db, "op")[0]!.state).toBe("Pending");
  });
});

describe("incarnations and gates", () => {
  test("incarnation: from its start to its end → one live at a time, ended once", () => {
    activate("a");
    expect(liveSession(db, "a")).toMatchObject({
      incarnation: "i-a",
      pid: 7,
      startTime: "70",
      sessionStartedAt: 2,
      readyAt: 3,
      capabilities: { soft_pause: true },
    });
    noteSessionStarted(db, "i-a", { harnessSessionId: "s2", now: 9 });
    expect(sessionById(db, "i-a")).toMatchObject({ harnessSessionId: "s2", sessionStartedAt: 2 });
    expect(retireSession(db, "i-a", { status: "Quiescent", event: "exit code 0", now: 10 })).toBe(
      true,
    );
    expect(retireSession(db, "i-a", { status: "Crashed", event: "late", now: 11 })).toBe(false);
    expect([liveSession(db, "a"), sessionById(db, "i-a")!.status]).toEqual([null, "Quiescent"]);
  });

  test("gate: claimed and passed → open until then; a second claim fails", () => {
    addProjections(db, "a");
    addSession(db, "a", "i1");
    addGate(db, "a", "i1");
    expect(openGate(db, "a")).toMatchObject({
      state: "Activated",
      paneId: "%1",
      incarnation: "i1",
    });
    expect(moveGate(db, "gate-i1", "Activated", "Claimed")).toBe(true);
    expect(moveGate(db, "gate-i1", "Activated", "Claimed")).toBe(false);
    expect(openGate(db, "a")!.state).toBe("Claimed");
    expect(moveGate(db, "gate-i1", "Claimed", "Exec")).toBe(true);
    expect(openGate(db, "a")).toBeNull();
    revokeGate(db, "i1");
    expect(gateOf(db, "i1")!.state).toBe("Exec");
  });
});

describe("thread credentials, events, attention", () => {
  test("thread credential: issued, revoked, issued anew → found by hash only while live", () => {
    const [first, second] = ["1".repeat(64), "2".repeat(64)];
    insertThreadCredential(db, { credentialId: "c1", threadId: "a", secretSha256: first, now: 1 });
    expect(threadOfCredential(db, first)?.threadId).toBe("a");
    revokeThreadCredential(db, "a", 2);
    expect([threadOfCredential(db, first), threadCredential(db, "a")]).toEqual([null, null]);
    insertThreadCredential(db, { credentialId: "c2", threadId: "a", secretSha256: second, now: 3 });
    expect(threadCredential(db, "a")!.credentialId).toBe("c2");
  });

  test("events: appended → growing sequence, read from any point", () => {
    for (const kind of ["one", "two", "three"])
      appendEvent(db, { threadId: "a", kind, data: { kind }, now: 1 });
    expect(eventsSince(db, 1, 1).map((e) => [e.seq, e.kind, e.data])).toEqual([
      [2, "two", { kind: "two" }],
    ]);
    db.run("DELETE FROM events");
    appendEvent(db, { threadId: null, kind: "four", data: {}, now: 1 });
    expect(eventsSince(db, 0, 9).map((e) => e.seq)).toEqual([4]);
  });

  test("attention: raised twice → new once, ever, also after it was acknowledged", () => {
    const row = { threadId: "a", kind: "k", dedupKey: "d", message: "m", loud: true, now: 1 };
    expect([raiseAttention(db, row), raiseAttention(db, row)]).toEqual([true, false]);
    expect(openAttention(db, "a")).toHaveLength(1);
    acknowledgeAttention(db, "a", "k", 2);
    expect(openAttention(db, "a")).toEqual([]);
    expect(raiseAttention(db, row)).toBe(false);
    expect(raiseAttention(db, { ...row, dedupKey: "another" })).toBe(true);
  });
});
