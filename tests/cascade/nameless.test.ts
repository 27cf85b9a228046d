/**
 * A call whose hook died before it could say which call it was: its launcher wrote a `passed/` file without a name. It is
 * in flight until an event shows that it is over, whoever's batch closes meanwhile.
 */
import { afterAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { loseBoundary } from "../../src/store/serial.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const SUB = "agent-7";
let rig: Rig;
let child: TestThread;
let agent: Agent;
let parent: TestThread;

beforeEach(async () => {
  ({ rig, parent, child, agent } = await makePair({ settings: { drainMs: 200 }, before: {} }));
  rigs.push(rig);
});

async function amend(): Promise<void> {
  rig.repo.write("parser.txt", "two\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
}

const postTool = (toolUseId: string, agentId: string | null) =>
  agent.event({
    type: "PostTool",
    sessionId: agent.session,
    agentId,
    promptId: agent.prompt,
    toolUseId,
    toolName: "Tool",
    failed: false,
  });

const stops = (agentId: string) =>
  agent.event({ type: "TurnStopped", sessionId: agent.session, agentId, promptId: agent.prompt });

/** Work is ready; the main agent's next call is let through, because something is in flight. */
async function expectInFlight(): Promise<void> {
  const call = await agent.call();
  expect(call.text).toBeNull();
  expect(rig.intents(child)[0]!.state).toBe("Detected");
  await agent.close([call]);
}

async function expectDelivered(): Promise<void> {
  const { text } = await agent.call();
  expect(text).not.toBeNull();
  expect(text).toBe(rig.intents(child)[0]!.payload);
}

/** Some sub-agent has worked here before. */
async function withSubAgent(): Promise<void> {
  await agent.close([await agent.call(undefined, "agent-6")], "agent-6");
}

/** A call of the main agent passed, then one that nobody names; then the main agent's batch closes. */
async function closedBeside(listed: string[] = []): Promise<void> {
  const call = await agent.call();
  agent.passUnseen(null);
  await agent.close([call, ...listed.map((toolUseId) => ({ toolUseId, text: null }))]);
  await amend();
}

test("main batch closes and lists only what was asked about → the nameless call is a sub-agent's, nothing is bound beside it", async () => {
  await withSubAgent();
  await closedBeside();
  await expectInFlight();
  await postTool("of-sub", SUB);
  await agent.close([{ toolUseId: "of-sub", text: null }], SUB);
  await expectDelivered();
});

test("main batch closes and lists one nobody had heard of → that was the nameless call, and it is over", async () => {
  await withSubAgent();
  await closedBeside(["unheard"]);
  await expectDelivered();
});

test("the sub-agent's batch names it → over; the same event once more names no other", async () => {
  await withSubAgent();
  await closedBeside();
  const call = await agent.call();
  agent.passUnseen(null);
  await agent.close([call]);
  await agent.close([{ toolUseId: "of-sub", text: null }], SUB);
  await agent.close([{ toolUseId: "of-sub", text: null }], SUB);
  await expectInFlight();
  await agent.close([{ toolUseId: "of-sub-2", text: null }], SUB);
  await expectDelivered();
});

test("its events are lost → over when the last sub-agent has ended", async () => {
  await withSubAgent();
  await closedBeside();
  const other = await agent.call(undefined, "agent-8");
  await stops(SUB);
  await agent.close([other], "agent-8");
  await expectInFlight();
  await stops("agent-8");
  await expectDelivered();
});

const STARTED = { toolUseId: "toolu_agent", toolName: "Agent", text: null };

test("the call that started the sub-agent is nameless itself → its batch names it, and the other nameless one is in flight", async () => {
  agent.passUnseen(null);
  agent.passUnseen(null);
  await agent.close([STARTED]);
  await amend();
  await expectInFlight();
  await stops(SUB);
  await expectDelivered();
});

test("that batch is over → a later nameless call is still taken for a sub-agent's", async () => {
  agent.passUnseen(null);
  await agent.close([STARTED]);
  await closedBeside();
  await expectInFlight();
  await stops(SUB);
  await expectDelivered();
});

test("no sub-agent has ever been there → it was a call of that batch, and over with it", async () => {
  await closedBeside();
  await expectDelivered();
});

test("restart-only, and the events of its call never come → the third batch beside it says so to a person", async () => {
  await withSubAgent();
  await closedBeside();
  loseBoundary(rig.db, child.incarnation);
  for (let n = 0; n < 3; n += 1) {
    expect(rig.attention(child)).toEqual([]);
    await expectInFlight();
  }
  expect(rig.attention(child)).toHaveLength(1);
  expect(rig.attention(child)[0]).toContain("a call was in flight");
});
