/** Agents that end together with whoever would have reported it. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { liveSession } from "../../src/store/sessions.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, Rig } from "./rig.ts";

const folder = tempDir("gone-agents");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
  rig.processes.add(process.pid);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

const agentPid = (threadId: string): number => liveSession(rig.db, threadId)!.pid!;
const wrapperPid = (): number => rig.tmux.panes.find((p) => p.command.includes("agent"))!.pid;

test("agent and wrapper gone → retired as crashed, said once", async () => {
  const { threadId } = await rig.made(inputFor("parser"));
  rig.processes.end(agentPid(threadId));
  rig.processes.end(wrapperPid());
  expect(rig.creation.retireGone()).toBe(1);
  expect(liveSession(rig.db, threadId)).toBeNull();
  expect(openAttention(rig.db, threadId).map((a) => a.kind)).toEqual(["agent-crashed"]);
  expect(rig.creation.retireGone()).toBe(0);
});

test("only the agent gone → left to its wrapper, which knows the exit code", async () => {
  const { threadId } = await rig.made(inputFor("parser"));
  rig.processes.end(agentPid(threadId));
  expect(rig.creation.retireGone()).toBe(0);
});

test("only the wrapper gone → the agent runs, so it stays", async () => {
  const { threadId } = await rig.made(inputFor("parser"));
  rig.processes.end(wrapperPid());
  expect(rig.creation.retireGone()).toBe(0);
  expect(liveSession(rig.db, threadId)).not.toBeNull();
});

test("processes cannot be looked at → nothing is concluded", async () => {
  const { threadId } = await rig.made(inputFor("parser"));
  for (const pid of [agentPid(threadId), wrapperPid(), process.pid]) rig.processes.end(pid);
  expect(rig.creation.retireGone()).toBe(0);
});

test("thread being made → left to its creation", async () => {
  rig.agent = "silent";
  const { threadId } = await rig.create(inputFor("parser"));
  await rig.until(() => liveSession(rig.db, threadId)?.pid != null, "the agent started");
  rig.processes.end(agentPid(threadId));
  rig.processes.end(wrapperPid());
  expect(rig.creation.retireGone()).toBe(0);
});
