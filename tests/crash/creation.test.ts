/**
 * The creation saga under crashes: at every journal moment, in the middle of effects, and while unwinding, the
 * daemon dies and another starts on the same database and the same world.
 */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { CREATE_PLAN } from "../../src/core/saga-plans.ts";
import { crashPoints, undoCrashPoints } from "../../src/core/saga.ts";
import { threadCredential } from "../../src/store/credentials.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import { childrenOf } from "../../src/store/threads.ts";
import { gateOf, liveSession, sessionById } from "../../src/store/sessions.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, pathsFor, Rig } from "../lifecycle/rig.ts";

const folder = tempDir("creation-crash");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

/** A machine with an Active thread `parser`, which the thread under test follows. */
async function withParent(): Promise<{ rig: Rig; parent: string }> {
  rig = new Rig(folder);
  const parent = await rig.made(inputFor("parser"));
  expect(parent.lifecycle).toBe("Active");
  rig.jj.made.length = 0;
  rig.tmux.made.length = 0;
  rig.spawned.length = 0;
  rig.crashesSeen.length = 0;
  return { rig, parent: parent.threadId };
}

/**
 * Creates, survives as many deaths as there are, and returns the thread once its operation has ended. What each
 * restarted daemon finds is added to `found`.
 */
async function createThroughCrashes(rig: Rig, found: string[] = []): Promise<string> {
  const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
  const over = (): boolean => {
    if (!rig.alive) {
      rig.boot();
      found.push(rig.thread(threadId).lifecycle);
    }
    return latestOperation(rig.db, threadId)?.state !== "Running";
  };
  await rig.until(over, `operation of ${threadId} ended`);
  return threadId;
}

/** What is there exactly once for a thread that was made. */
function expectMadeOnce(rig: Rig, threadId: string): void {
  const thread = rig.thread(threadId);
  expect(thread.lifecycle).toBe("Active");
  expect(rig.jj.made).toEqual(["workspace kk-tests", "bookmark kk/tests"]);
  expect(rig.tmux.made).toEqual(["session kk-aaaaaaaa-tests", "pane of kk-aaaaaaaa-tests"]);
  expect(rig.spawned).toHaveLength(1);
  expect(rig.jj.at("kk-tests")).toBe(thread.head);
  expect(rig.jj.bookmark("kk/tests")).toBe(thread.checkpoint);
  expect(thread.checkpoint).toBe(thread.head);
  expect(thread.base).toBe(rig.jj.at("kk-parser"));
  const session = liveSession(rig.db, threadId)!;
  expect(session.readyAt).not.toBeNull();
  expect(gateOf(rig.db, session.incarnation)?.state).toBe("Exec");
  expect(rig.steps(threadId).every((s) => s.state === "Completed")).toBe(true);
  expect(rig.liveTokens()).toBe(0);
}

/** Nothing outside remains of a thread that could not be made; its row and journal do. */
function expectUndone(rig: Rig, threadId: string, parent: string): void {
  const thread = rig.thread(threadId);
  expect(thread.lifecycle).toBe("CreateFailed");
  expect(rig.jj.at("kk-tests")).toBeNull();
  expect(rig.jj.bookmark("kk/tests")).toBeNull();
  expect(rig.files.kindNow("/src/calc-kiki-tests")).toBe("absent");
  expect([...rig.jj.worktrees]).toEqual(["/src/calc-kiki-parser"]);
  expect(rig.tmux.sessions.map((s) => s.name)).toEqual(["kk-aaaaaaaa-parser"]);
  expect(threadCredential(rig.db, threadId)).toBeNull();
  expect(rig.files.get(pathsFor(threadId).credential)).toBeNull();
  expect(rig.files.kindNow(pathsFor(threadId).harness)).toBe("absent");
  expect(liveSession(rig.db, threadId)).toBeNull();
  expect(childrenOf(rig.db, parent)).toEqual([]);
  expect([thread.head, thread.checkpoint, thread.tmuxSessionId]).toEqual([null, null, null]);
  expect(rig.liveTokens()).toBe(0);
}

describe("creation: daemon dies at a journal moment", () => {
  for (const point of crashPoints(CREATE_PLAN)) {
    test(`creation: daemon dies at ${point} → Active after restart, nothing made twice`, async () => {
      const { rig } = await withParent();
      rig.crashAt = point;
      const found: string[] = [];
      const threadId = await createThroughCrashes(rig, found);
      expect(rig.crashAt).toBeNull();
      // Only the handshake's own transaction makes it Active, and it has one moment behind it.
      expect(found).toEqual([/ready\.(effected|completed)$/.test(point) ? "Active" : "Creating"]);
      expectMadeOnce(rig, threadId);
    });
  }

  test("creation: daemon dies at every moment in turn → Active, nothing made twice", async () => {
    const { rig } = await withParent();
    const points = crashPoints(CREATE_PLAN).filter((p) => !p.endsWith("ready.completed"));
    rig.crashAt = points.shift()!;
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => {
      if (!rig.alive) {
        rig.crashAt = points.shift() ?? null;
        rig.boot();
      }
      return latestOperation(rig.db, threadId)?.state !== "Running";
    }, "operation ended");
    expectMadeOnce(rig, threadId);
  });
});

describe("creation: daemon dies in the middle of an effect", () => {
  /** Dies at the `n`th call of one of the fake jj's moments. */
  function dieDuring(rig: Rig, moment: string): void {
    rig.jj.during = (now) => {
      if (now !== moment) return;
      rig.jj.during = () => undefined;
      rig.kill();
      throw new Error("killed");
    };
  }

  for (const moment of ["folder", "workspace", "bookmark"]) {
    test(`creation: daemon dies in jj after "${moment}" → Active, nothing made twice`, async () => {
      const { rig } = await withParent();
      dieDuring(rig, moment);
      expectMadeOnce(rig, await createThroughCrashes(rig));
    });
  }

  test("creation: jj died with its files in the folder and no record → CreateFailed, folder kept", async () => {
    const { rig } = await withParent();
    dieDuring(rig, "tool-files");
    const threadId = await createThroughCrashes(rig);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.error(threadId)).toContain("jj records no workspace kk-tests");
    expect(rig.files.kindNow("/src/calc-kiki-tests")).toBe("folder");
    expect(rig.jj.made).toEqual([]);
  });

  test("creation: jj died between its two operations → CreateFailed, record and folder gone", async () => {
    const { rig, parent } = await withParent();
    dieDuring(rig, "first-operation");
    const threadId = await createThroughCrashes(rig);
    expect(rig.error(threadId)).toContain("jj was stopped while it made workspace");
    expectUndone(rig, threadId, parent);
  });

  test("creation: jj of the dead daemon still runs → its outcome is awaited, nothing made twice", async () => {
    const { rig } = await withParent();
    rig.crashAt = "Create.workspace.effected";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    const { token } = rig.steps(threadId)[1]!.identity as { token: string };
    rig.kill();
    const jj = rig.processes.start(`jj --config kiki.token=${token} workspace add`);
    rig.boot();
    await rig.until(() => rig.clock.waiting, "waits for the surviving jj");
    expect(rig.steps(threadId)[1]!.state).toBe("Started");
    rig.processes.end(jj.pid);
    rig.clock.advance(1_000);
    await rig.ended(threadId);
    expectMadeOnce(rig, threadId);
  });

  test("creation: daemon dies between tmux session and shell pane → session adopted, pane added", async () => {
    const { rig } = await withParent();
    const onPane = rig.tmux.onPane;
    rig.tmux.onPane = (pane) => {
      onPane(pane);
      rig.tmux.onPane = onPane;
      rig.kill();
      throw new Error("killed");
    };
    expectMadeOnce(rig, await createThroughCrashes(rig));
  });

  test("creation: daemon dies after the credential file, before its row → the same secret is adopted", async () => {
    const { rig } = await withParent();
    rig.crashAt = "Create.credential.effected";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    const secret = rig.files.get(pathsFor(threadId).credential);
    rig.boot();
    await rig.ended(threadId);
    expect(rig.files.get(pathsFor(threadId).credential)).toBe(secret);
    expectMadeOnce(rig, threadId);
  });
});

describe("creation: restart tells the states of a launch apart", () => {
  test("creation: gate activated, not passed → still Creating; the wrapper passes after restart", async () => {
    const { rig } = await withParent();
    rig.crashAt = "Create.gate.completed";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    expect(rig.spawned).toEqual([]);
    rig.boot();
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    await rig.ended(threadId);
    expectMadeOnce(rig, threadId);
  });

  test("creation: gate passed, answer lost with the daemon → handed out again to the same pane only", async () => {
    const { rig } = await withParent();
    rig.agent = "silent";
    rig.crashAt = "Create.gate.completed";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    const pane = rig.tmux.panes.find((p) => p.command.includes(threadId))!;
    expect(await rig.creation.awaitGate(threadId, "%999", 0)).toBeNull();
    const first = await rig.creation.awaitGate(threadId, pane.id, 0);
    const again = await rig.creation.awaitGate(threadId, pane.id, 0);
    expect(again).toEqual(first);
    rig.creation.harnessStarted(first!.incarnation, 7, "70");
    expect(await rig.creation.awaitGate(threadId, pane.id, 0)).toBeNull();
  });

  test("creation: exec'd, not ready → Creating after restart, Active at the handshake, one process", async () => {
    const { rig } = await withParent();
    rig.agent = "silent";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => liveSession(rig.db, threadId)?.pid != null, "process reported");
    rig.kill();
    rig.boot();
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    const { incarnation } = liveSession(rig.db, threadId)!;
    expect(rig.creation.isReady(incarnation)).toBe(false);
    await rig.creation.sessionStarted(incarnation, "conversation");
    expect(rig.thread(threadId).lifecycle).toBe("Active");
    expect(rig.creation.isReady(incarnation)).toBe(true);
    expect(sessionById(rig.db, incarnation)!.harnessSessionId).toBe("conversation");
    expectMadeOnce(rig, threadId);
  });

  test("creation: handshake arrives before the restarted daemon resumes → Active all the same", async () => {
    const { rig } = await withParent();
    rig.agent = "silent";
    rig.crashAt = "Create.ready.before";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    await rig.until(() => liveSession(rig.db, threadId)?.pid != null, "process reported");
    await rig.creation.sessionStarted(liveSession(rig.db, threadId)!.incarnation, "conversation");
    await rig.ended(threadId);
    expectMadeOnce(rig, threadId);
  });
});

describe("creation: daemon dies while it unwinds", () => {
  for (const point of undoCrashPoints(CREATE_PLAN)) {
    test(`creation: fails, daemon dies at ${point} → CreateFailed after restart, nothing left`, async () => {
      const { rig, parent } = await withParent();
      rig.agent = "exit-1";
      rig.crashAt = point;
      const threadId = await createThroughCrashes(rig);
      expect(rig.crashAt).toBeNull();
      expect(rig.error(threadId)).toContain("claude-code ended before it was ready (exit code 1)");
      expectUndone(rig, threadId, parent);
    });
  }

  for (const moment of ["forget", "abandon", "delete-bookmark"]) {
    test(`creation: fails, daemon dies in jj after "${moment}" → CreateFailed, nothing left`, async () => {
      const { rig, parent } = await withParent();
      rig.agent = "exit-1";
      rig.jj.during = (now) => {
        if (now !== moment) return;
        rig.jj.during = () => undefined;
        rig.kill();
        throw new Error("killed");
      };
      expectUndone(rig, await createThroughCrashes(rig), parent);
    });
  }
});
