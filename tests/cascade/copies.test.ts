/** Refused calls beside the one that is delivered to: a sub-agent's copies, and calls that are refused for another reason. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
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
const GARBLED = "PreToolUse:Tool hook error: something else";

/** A child whose main agent has the payload; its batch is closed, unless the person has broken it off. */
async function copied(
  closed = true,
  settings: { drainMs?: number } = {},
): Promise<{ rig: Rig; child: TestThread; agent: Agent; payload: string }> {
  const { rig, child, agent, amend } = await makePair({ settings, before: {} });
  rigs.push(rig);
  await amend("two\n");
  const main = await agent.call();
  if (closed) await agent.close([main]);
  return { rig, child, agent, payload: main.text! };
}

test("sub-agent's copy did not reach its model → its next call gets it again, before one passes", async () => {
  const { agent, payload } = await copied();
  const first = await agent.call(undefined, SUB);
  expect(first.text).toBe(payload);
  await agent.close([{ ...first, got: GARBLED }], SUB);
  const second = await agent.call(undefined, SUB);
  expect(second.text).toBe(payload);
  await agent.close([second], SUB);
  expect((await agent.call(undefined, SUB)).text).toBeNull();
});

test("sub-agent's copies never reach its model → three, then its calls pass: nobody waits for ever", async () => {
  const { agent, payload } = await copied();
  for (let n = 0; n < 3; n += 1) {
    const copy = await agent.call(undefined, SUB);
    expect(copy.text).toBe(payload);
    await agent.close([{ ...copy, got: GARBLED }], SUB);
  }
  expect((await agent.call(undefined, SUB)).text).toBeNull();
});

test("sub-agent's refused call ran → RecoveryRequired, loud, nobody's calls pass", async () => {
  const { rig, child, agent } = await copied();
  const copy = await agent.call(undefined, SUB);
  await agent.close([{ ...copy, got: "total 0\n" }], SUB);
  expect(rig.intents(child)[0]).toMatchObject({
    state: "RecoveryRequired",
    reason: "a blocked tool ran anyway",
  });
  expect(rig.attention(child)).toHaveLength(1);
  expect((await agent.call()).text).toContain("waits for a person");
});

test("call that was refused because its agent is to be started anew, and ran → RecoveryRequired as well", async () => {
  const { rig, child, agent } = await copied(false);
  rig.agents.moving = "not now";
  agent.prompt = "prompt-2";
  const refused = await agent.call();
  expect(refused.text).toContain("restarted");
  await agent.close([{ ...refused, got: "total 0\n" }]);
  expect(rig.intents(child)[0]!.state).toBe("RecoveryRequired");
});

test("sub-agent's refused call ran beside another's that passed, a person settles it → the files wait for that one", async () => {
  const { rig, child, agent } = await copied(true, { drainMs: 200 });
  await agent.close([await agent.call(undefined, "agent-8")], "agent-8");
  const passed = await agent.call(undefined, "agent-8");
  expect(passed.text).toBeNull();
  const copy = await agent.call(undefined, SUB);
  await agent.close([{ ...copy, got: "total 0\n" }], SUB);
  const intent = () => rig.intents(child)[0]!;
  await rig.cascade.troubles.settle(intent().intentId, { do: "retry" }, "operation");
  expect(intent().state).toBe("Reconciling");
  expect((await agent.call(undefined, SUB)).text).toContain("did not run");
  await rig.reboot();
  expect((await agent.call(undefined, SUB)).text).toContain("did not run");
  expect(intent().state).toBe("Reconciling");
  await agent.close([passed], "agent-8");
  const told = await agent.call(undefined, "agent-8");
  expect(intent().state).not.toBe("Reconciling");
  expect(told.text).toBe(intent().payload);
});
