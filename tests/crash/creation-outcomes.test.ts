/**
 * The second axis of the matrix on the real steps of a creation: the daemon dies while a step is started or its effect
 * has happened, and afterwards the part of the world that would tell is silent — until undoing begins, or for good.
 * (`done` and `not done` are the points `effected` and `started` of creation.test.ts.)
 */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { CREATE_PLAN, type CreateStep } from "../../src/core/plans/agent.ts";
import { crashPoint } from "../../src/core/saga.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import { CrashReport } from "../support/crash-report.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, Rig } from "../lifecycle/rig.ts";
import { expectUndone, unproved, withParent } from "./creation-world.ts";

const folder = tempDir("creation-outcomes");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

const SILENT = "gives no answer";

/** Makes a part of the world silent; what it returns makes it speak again. */
type Silence = (rig: Rig) => () => void;

const jj: Silence = (rig) => {
  const heads = rig.jj.heads.bind(rig.jj);
  const workspaces = rig.jj.workspaces.bind(rig.jj);
  rig.jj.heads = () => Promise.reject(new Error(`jj ${SILENT}`));
  rig.jj.workspaces = () => Promise.reject(new Error(`jj ${SILENT}`));
  return () => {
    rig.jj.heads = heads;
    rig.jj.workspaces = workspaces;
  };
};
const tmux: Silence = (rig) => {
  rig.tmux.mute = true;
  return () => {
    rig.tmux.mute = false;
  };
};
const files: Silence = (rig) => {
  const readText = rig.files.readText.bind(rig.files);
  rig.files.readText = () => Promise.reject(new Error(`the disk ${SILENT}`));
  return () => {
    rig.files.readText = readText;
  };
};

/** What tells whether a step has happened. A new step does not compile without an answer. */
const TOLD_BY = {
  allocate: jj,
  workspace: jj,
  head: jj,
  bookmark: jj,
  credential: files,
  "harness-config": files,
  setup: "whatever becomes of a recipe, the thread is made",
  session: tmux,
  launch: tmux,
  gate: files,
  ready: "its transaction is the effect: the database tells",
} as const satisfies Record<CreateStep, Silence | string>;

/** What a silent part of the world makes the step say. */
const SAYS = /gives no answer|tmux gave no usable answer/;

const report = new CrashReport("creation-outcomes.test.ts");

/** Dies at the point, boots into a silent world, and waits for the end of the creation. */
async function throughSilence(point: string, step: CreateStep, forGood: boolean): Promise<string> {
  const silence = TOLD_BY[step];
  if (typeof silence === "string") throw new Error(silence);
  rig.crashAt = point;
  const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
  await rig.until(() => !rig.alive, "daemon died");
  const speakAgain = silence(rig);
  const look = rig.onPoint;
  rig.onPoint = (name) => {
    look(name);
    if (!forGood && name.endsWith(".failing")) speakAgain();
  };
  rig.boot();
  await rig.until(() => latestOperation(rig.db, threadId)?.state !== "Running", "it ended");
  speakAgain();
  return threadId;
}

describe("creation: nobody can tell what became of a step", () => {
  for (const { name: step } of CREATE_PLAN.steps) {
    if (typeof TOLD_BY[step] === "string") continue;
    for (const moment of ["started", "effected"] as const) {
      const point = crashPoint(CREATE_PLAN, step, moment);
      report.enumerate([`${point}, unknown`, `${point}, unknown for good`]);

      test(`creation: daemon dies at ${point}, nobody can tell → CreateFailed that says so, everything undone`, async () => {
        rig = new Rig(folder);
        const parent = await withParent(rig);
        const threadId = await throughSilence(point, step, false);
        expect(rig.error(threadId)).toMatch(SAYS);
        expectUndone(rig, threadId, parent);
        report.survived(`${point}, unknown`);
      });

      test(`creation: daemon dies at ${point}, nobody will ever tell → CreateFailed that says so, nothing made twice`, async () => {
        rig = new Rig(folder);
        const parent = await withParent(rig);
        const threadId = await throughSilence(point, step, true);
        expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
        expect(rig.error(threadId)).toMatch(SAYS);
        const made = [...rig.jj.made, ...rig.tmux.made];
        expect(made.length).toBe(new Set(made).size);
        expect([rig.spawned, unproved]).toEqual([[], []]);
        // Either all of it was undone, or the row says what could not be.
        if (!rig.error(threadId).includes("could not be undone")) {
          expectUndone(rig, threadId, parent);
        }
        report.survived(`${point}, unknown for good`);
      });
    }
  }
});
