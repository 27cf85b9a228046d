/** Calls that the harness itself takes back beside one that kiki has refused: their hooks are ended, and their results say so. */
import { afterAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** What Claude Code 2.1.332 writes in place of a call that it took back before or while it ran. */
const TAKEN_BACK = [
  "<tool_use_error>Cancelled: Claude ended the conversation</tool_use_error>",
  "<tool_use_error>Error: Streaming fallback - tool execution discarded</tool_use_error>",
];

let rig: Rig;
let child: TestThread;
let agent: Agent;

beforeEach(async () => {
  const pair = await makePair();
  ({ rig, child, agent } = pair);
  rigs.push(rig);
  await pair.amend("two\n");
});

const intent = () => rig.intents(child)[0]!;

const calls = () =>
  rig.db
    .query<{ id: string; admission: string; resolution: string | null }, [string]>(
      `SELECT tool_use_id AS id, admission, resolution FROM tool_admissions
       WHERE agent_session_id = ? ORDER BY rowid`,
    )
    .all(child.incarnation);

test.each(TAKEN_BACK)(
  "five calls at once, one denied, the hooks of the others ended while they are held, closing with %p for them → one payload, each accounted for, acknowledged by the next turn",
  async (takenBack) => {
    const ids = Array.from({ length: 5 }, () => agent.newId());
    const asked = await Promise.all(ids.map((id) => agent.ask(id)));
    const tokens = asked.map((answer) => {
      if (answer.decision !== "hold") throw new Error("not held");
      return answer.token;
    });
    const gone = new AbortController();
    const [first] = await Promise.all([
      agent.confirm(tokens[0]!),
      // Confirmed, and then nobody is there to hear the answer.
      ...tokens.slice(1).map(async (token) => {
        const answer = agent.confirm(token, gone.signal);
        gone.abort();
        return answer;
      }),
    ]);
    if (first!.decision !== "deny") throw new Error("not denied");
    expect(first!.output).toBe(intent().payload!);
    await agent.close([
      { toolUseId: ids[0]!, text: first!.output },
      ...ids.slice(1).map((toolUseId) => ({ toolUseId, text: null, got: takenBack })),
    ]);
    expect(calls()).toEqual(ids.map((id) => ({ id, admission: "Block", resolution: "denied" })));
    expect(intent()).toMatchObject({ receipt: "matching", softRedeliveryCount: 0 });
    expect(openAttention(rig.db, child.id)).toEqual([]);
    agent.prompt = "the next prompt";
    expect((await agent.call()).text).toBeNull();
    expect(intent().state).toBe("Acknowledged");
    expect(rig.intents(child)).toHaveLength(1);
  },
);

test("five calls at once, all of them taken back → told again, once, and no tool is said to have run", async () => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => agent.call()));
  expect(new Set(answers.map((a) => a.text))).toEqual(new Set([intent().payload!]));
  await agent.close(answers.map((answer) => ({ ...answer, got: TAKEN_BACK[1]! })));
  expect(intent()).toMatchObject({ state: "Delivered", receipt: "contrary" });
  expect(openAttention(rig.db, child.id)).toEqual([]);
  const again = await agent.call();
  expect(again.text).toBe(intent().payload!);
  await agent.close([again]);
  expect((await agent.call()).text).toBeNull();
  expect(intent()).toMatchObject({ state: "Acknowledged", softRedeliveryCount: 1 });
});

test("five calls in a response, four of them taken back before their hooks → the one that asked is the batch", async () => {
  const first = await agent.call();
  expect(first.text).toBe(intent().payload!);
  const never = Array.from({ length: 4 }, () => agent.newId());
  await agent.close([
    first,
    ...never.map((toolUseId) => ({ toolUseId, text: null, got: TAKEN_BACK[0]! })),
  ]);
  expect(intent().receipt).toBe("matching");
  expect(calls()).toHaveLength(1);
  expect((await agent.call()).text).toBeNull();
  expect(intent().state).toBe("Acknowledged");
});

test("five calls at once, four hooks ended before they confirm → perhaps allowed: the batch passes within its limit, nothing is changed, told at the next one", async () => {
  const ids = Array.from({ length: 5 }, () => agent.newId());
  const asked = await Promise.all(ids.map((id) => agent.ask(id)));
  const [first] = asked;
  if (first!.decision !== "hold") throw new Error("not held");
  const answer = await agent.confirm(first!.token);
  expect(answer.decision).toBe("pass");
  expect(intent().state).toBe("Detected");
  expect(rig.file(child, "parser.txt")).toBe("one\n");
  await agent.close(ids.map((toolUseId) => ({ toolUseId, text: null })));
  await waitFor(() => calls().every((call) => call.resolution !== null), 10_000, "all over");
  expect((await agent.call()).text).toBe(intent().payload!);
});
