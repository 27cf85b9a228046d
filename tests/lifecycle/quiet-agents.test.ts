/** Turns that a person broke off: no hook says so, the session record or the pane does. For display only. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import type { TurnSeen } from "../../src/ports/harness.ts";
import { write } from "../../src/store/db.ts";
import { noteActivity } from "../../src/store/edges.ts";
import { openAttention, raiseAttention } from "../../src/store/attention.ts";
import { liveSession } from "../../src/store/sessions.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, Rig } from "./rig.ts";

const folder = tempDir("quiet-agents");
let rig: Rig;
let threadId: string;
let record: TurnSeen;
let pane: TurnSeen;
let paths: string[];

beforeEach(async () => {
  rig = new Rig(folder);
  [record, pane, paths] = ["working", "working", []];
  rig.harness.turns = {
    recordPath: ({ workspaceRoot, sessionId }) => `${workspaceRoot}/${sessionId}`,
    inRecord: (path) => {
      paths.push(path);
      return record;
    },
    inPane: () => pane,
  };
  ({ threadId } = await rig.made(inputFor("parser")));
  works();
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

/** A hook event of a tool call. */
function works(): void {
  const { incarnation } = liveSession(rig.db, threadId)!;
  const activity = { status: "Running", turnCompleted: false, event: "PreToolUse Bash" } as const;
  write(rig.db, () => noteActivity(rig.db, incarnation, { ...activity, now: rig.clock.now() }));
}

const state = (): unknown[] => {
  const { status, lastEvent } = liveSession(rig.db, threadId)!;
  return [status, lastEvent];
};

test("the record says that the turn was broken off → idle, as the record says", async () => {
  record = "ended";
  rig.clock.advance(3_000);
  expect(await rig.creation.lookAtQuiet()).toBe(1);
  expect(state()).toEqual(["Quiescent", "Interrupted (record)"]);
  const { harnessSessionId } = liveSession(rig.db, threadId)!;
  expect(paths).toEqual([`/src/calc-kiki-parser/${harnessSessionId}`]);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
});

test("a hook event just now → the record, which lags behind, is not asked", async () => {
  record = "ended";
  rig.clock.advance(2_000);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
  expect([state()[0], paths]).toEqual(["Running", []]);
});

test("the record says nothing, the pane twice that nothing runs → idle, as the pane says", async () => {
  [record, pane] = [null, "ended"];
  rig.clock.advance(9_000);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
  expect(await rig.creation.lookAtQuiet()).toBe(1);
  expect(state()).toEqual(["Quiescent", "Interrupted (pane)"]);
});

test("the pane once, then a hook event → counted anew", async () => {
  pane = "ended";
  rig.clock.advance(9_000);
  await rig.creation.lookAtQuiet();
  works();
  rig.clock.advance(9_000);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
  expect(state()[0]).toBe("Running");
});

test("the clock was set back a day, then the turn was broken off → idle now, not when the clock has caught up", async () => {
  rig.clock.jump(-86_400_000);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
  record = "ended";
  expect(await rig.creation.lookAtQuiet()).toBe(1);
  works();
  [record, pane] = [null, "ended"];
  rig.clock.jump(-86_400_000);
  await rig.creation.lookAtQuiet();
  expect(await rig.creation.lookAtQuiet()).toBe(1);
});

test("both say that it works, for an hour → working", async () => {
  for (let minute = 0; minute < 60; minute += 1) {
    rig.clock.advance(60_000);
    expect(await rig.creation.lookAtQuiet()).toBe(0);
  }
  expect(state()[0]).toBe("Running");
});

test("something that waits for a person → stays open: a weaker witness clears nothing", async () => {
  const { incarnation } = liveSession(rig.db, threadId)!;
  write(rig.db, () =>
    raiseAttention(rig.db, {
      threadId,
      kind: "permission_prompt",
      dedupKey: `${incarnation}:1`,
      message: "Claude needs your permission",
      loud: true,
      now: rig.clock.now(),
    }),
  );
  record = "ended";
  rig.clock.advance(3_000);
  await rig.creation.lookAtQuiet();
  expect(openAttention(rig.db, threadId).map((a) => a.kind)).toEqual(["permission_prompt"]);
});

test("a harness whose hooks tell of every end → not looked at", async () => {
  delete rig.harness.turns;
  record = "ended";
  rig.clock.advance(60_000);
  expect(await rig.creation.lookAtQuiet()).toBe(0);
  expect(paths).toEqual([]);
});
