/**
 * The creation saga under crashes: at every journal moment, in the middle of effects, and while unwinding, the
 * daemon dies and another starts on the same database and the same world.
 */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { tokenArguments } from "../../src/core/attribution.ts";
import { CREATE_PLAN } from "../../src/core/plans/agent.ts";
import { crashPoints, undoCrashPoints } from "../../src/core/saga.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import { liveSession, sessionById } from "../../src/store/sessions.ts";
import { CrashReport } from "../support/crash-report.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, pathsFor, Rig } from "../lifecycle/rig.ts";
import {
  createThroughCrashes,
  expectMadeOnce,
  expectUndone,
  withParent,
} from "./creation-world.ts";

const folder = tempDir("creation-crash");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

async function withParentOf(): Promise<{ rig: Rig; parent: string }> {
  rig = new Rig(folder);
  return { rig, parent: await withParent(rig) };
}

const report = new CrashReport("creation.test.ts");
report.enumerate([...crashPoints(CREATE_PLAN), ...undoCrashPoints(CREATE_PLAN)]);

describe("creation: daemon dies at a journal moment", () => {
  for (const point of crashPoints(CREATE_PLAN)) {
    test(`creation: daemon dies at ${point} → Active after restart, nothing made twice`, async () => {
      const { rig } = await withParentOf();
      rig.crashAt = point;
      const found: string[] = [];
      const threadId = await createThroughCrashes(rig, found);
      expect(rig.crashAt).toBeNull();
      // Only the handshake's own transaction makes it Active, and it has one moment behind it.
      expect(found).toEqual([/ready\.(effected|completed)$/.test(point) ? "Active" : "Creating"]);
      expectMadeOnce(rig, threadId);
      report.survived(point);
    });
  }

  test("creation: daemon dies at every moment in turn → Active, nothing made twice", async () => {
    const { rig } = await withParentOf();
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
      const { rig } = await withParentOf();
      dieDuring(rig, moment);
      expectMadeOnce(rig, await createThroughCrashes(rig));
    });
  }

  test("creation: jj died with its files in the folder and no record → CreateFailed, folder kept", async () => {
    const { rig } = await withParentOf();
    dieDuring(rig, "tool-files");
    const threadId = await createThroughCrashes(rig);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.error(threadId)).toContain("jj records no workspace kk-tests");
    expect(rig.files.kindNow("/src/calc-kiki-tests")).toBe("folder");
    expect(rig.jj.made).toEqual([]);
  });

  test("creation: jj died between its two operations → CreateFailed, record and folder gone", async () => {
    const { rig, parent } = await withParentOf();
    dieDuring(rig, "first-operation");
    const threadId = await createThroughCrashes(rig);
    expect(rig.error(threadId)).toContain("jj was stopped while it made workspace");
    expectUndone(rig, threadId, parent);
  });

  test("creation: jj of the dead daemon still runs → its outcome is awaited, nothing made twice", async () => {
    const { rig } = await withParentOf();
    rig.crashAt = "Create.workspace.effected";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    const { token } = rig.steps(threadId)[1]!.identity as { token: string };
    rig.kill();
    const jj = rig.processes.spawn({ argv: ["jj", ...tokenArguments(token), "workspace", "add"] });
    rig.boot();
    await rig.until(() => rig.clock.waiting, "waits for the surviving jj");
    expect(rig.steps(threadId)[1]!.state).toBe("Started");
    rig.processes.end(jj.pid);
    rig.clock.advance(1_000);
    await rig.ended(threadId);
    expectMadeOnce(rig, threadId);
  });

  test("creation: daemon dies between tmux session and shell pane → session adopted, pane added", async () => {
    const { rig } = await withParentOf();
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
    const { rig } = await withParentOf();
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
    const { rig } = await withParentOf();
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
    const { rig } = await withParentOf();
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
    const { rig } = await withParentOf();
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
    const { rig } = await withParentOf();
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
      const { rig, parent } = await withParentOf();
      rig.agent = "exit-1";
      rig.crashAt = point;
      const found: string[] = [];
      const threadId = await createThroughCrashes(rig, found);
      expect(rig.crashAt).toBeNull();
      expect(found).toEqual(["Creating"]);
      expect(rig.error(threadId)).toContain("claude-code ended before it was ready (exit code 1)");
      expectUndone(rig, threadId, parent);
      report.survived(point);
    });
  }

  for (const moment of ["forget", "abandon", "delete-bookmark"]) {
    test(`creation: fails, daemon dies in jj after "${moment}" → CreateFailed, nothing left`, async () => {
      const { rig, parent } = await withParentOf();
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
