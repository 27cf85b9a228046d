import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { getEventListeners } from "node:events";
import { setIntentState } from "../../src/store/intents.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Answer, Rig, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Family extends Pair {
  opCount(): Promise<number>;
}

async function family(options: RigOptions = {}): Promise<Family> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  const { rig } = pair;
  return {
    ...pair,
    opCount: async () => (await rig.jj.operations((await rig.jj.heads())[0]!, 10_000)).length,
  };
}

const intent = (f: Family, n = 0) => f.rig.intents(f.child)[n]!;
const texts = (answers: readonly Answer[]) => answers.map((a) => a.text);

test("batch admitted before the work was detected → its later sibling passes, the next batch is blocked", async () => {
  const f = await family();
  const first = await f.agent.call();
  await f.amend("two\n");
  const sibling = await f.agent.call();
  expect(texts([first, sibling])).toEqual([null, null]);
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  await f.agent.close([first, sibling]);
  expect((await f.agent.call()).text).toContain("[kiki]");
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
});

test("held call that is answered → nothing of it stays with the daemon's own signal", async () => {
  const f = await family();
  await f.amend("two\n");
  const asked = await f.agent.ask(f.agent.newId());
  if (asked.decision !== "hold") throw new Error("not held");
  const daemon = new AbortController();
  const request = AbortSignal.any([new AbortController().signal, daemon.signal]);
  const answer = f.agent.confirm(asked.token, request);
  expect(getEventListeners(request, "abort")).toHaveLength(1);
  expect((await answer).decision).toBe("deny");
  expect(getEventListeners(request, "abort")).toEqual([]);
});

test("five concurrent first calls → one materialisation, all blocked with the same bytes", async () => {
  const f = await family();
  await f.amend("two\n");
  const before = await f.opCount();
  const answers = await Promise.all(Array.from({ length: 5 }, () => f.agent.call()));
  expect(new Set(texts(answers)).size).toBe(1);
  expect(answers[0]!.text).toBe(intent(f).payload);
  expect(await f.opCount()).toBe(before);
  const tokens = f.rig.db
    .query("SELECT count(*) AS n FROM op_attribution WHERE handler = 'reconcile'")
    .get();
  expect(tokens).toEqual({ n: 1 });
});

test("exclusive siblings that arrive one after another → each gets the saved payload, none acknowledges", async () => {
  const f = await family();
  await f.amend("two\n");
  const first = await f.agent.call(undefined, null, false); // stdout written, MarkDelivered lost
  const second = await f.agent.call();
  const third = await f.agent.call();
  expect(new Set(texts([first, second, third])).size).toBe(1);
  expect(intent(f).state).toBe("Delivered");
  expect(intent(f).receipt).toBeNull();
});

test("MarkDelivered lost for every call, matching receipt, later turn → delivery repaired and acknowledged at once", async () => {
  const f = await family();
  await f.amend("two\n");
  const answer = await f.agent.call(undefined, null, false);
  expect(intent(f).state).toBe("Materialized");
  await f.agent.close([answer]);
  expect((await f.agent.call()).text).toBeNull();
  expect(intent(f)).toMatchObject({ state: "Acknowledged" });
});

test("closing events: stale, duplicate and partial ones → only the exact batch completes", async () => {
  const f = await family();
  const old = await f.agent.batch();
  await f.amend("two\n");
  const answers = await Promise.all([f.agent.call(), f.agent.call()]);
  await f.agent.close(old); // stale
  expect(intent(f).receipt).toBeNull();
  await f.agent.close(answers);
  expect(intent(f).receipt).toBe("matching");
  const completedAt = intent(f).batchCompletedAt;
  await f.agent.close(answers); // duplicate
  expect(intent(f).batchCompletedAt).toBe(completedAt);
});

test("closing event omits a blocked call → the batch is over but not complete: blocked, restarted, nothing acknowledged", async () => {
  const f = await family();
  await f.amend("two\n");
  const [a] = await Promise.all([f.agent.call(), f.agent.call()]);
  await f.agent.close([a!]);
  expect(intent(f).receipt).toBeNull();
  expect((await f.agent.call()).text).toContain("restarted");
  expect(intent(f).state).toBe("Delivered");
  expect((await f.rig.replaced(f.child)).prompt).toContain(intent(f).payload!);
});

test("closing event overtaken by the next response's call → that call counts as running, no file changes until it is over", async () => {
  const f = await family();
  const first = await f.agent.call();
  const running = await f.agent.call();
  await f.agent.close([first]);
  await f.amend("two\n");
  const sibling = await f.agent.call();
  expect(sibling.text).toBeNull();
  expect(intent(f).state).toBe("Detected");
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  await f.agent.close([running, sibling]);
  expect((await f.agent.call()).text).toBe(intent(f).payload!);
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
});

test("contrary receipt → redelivered once on the arriving batch, byte-identical, counted; second contrary → blocked", async () => {
  const f = await family();
  await f.amend("two\n");
  const first = await f.agent.call();
  await f.agent.close([{ ...first, got: "PreToolUse:Tool hook error: something else" }]);
  expect(intent(f).receipt).toBe("contrary");
  const second = await f.agent.call();
  expect(second.text).toBe(first.text);
  expect(intent(f)).toMatchObject({ softRedeliveryCount: 1, receipt: null });
  await f.agent.close([{ ...second, got: "PreToolUse:Tool hook error: something else" }]);
  expect((await f.agent.call()).text).toContain("restarted");
  expect(intent(f).state).toBe("Delivered");
});

test("redelivered and then received → acknowledged", async () => {
  const f = await family();
  await f.amend("two\n");
  const first = await f.agent.call();
  await f.agent.close([{ ...first, got: "PreToolUse:Tool hook error: lost" }]);
  await f.agent.batch();
  expect((await f.agent.call()).text).toBeNull();
  expect(intent(f)).toMatchObject({ state: "Acknowledged", softRedeliveryCount: 1 });
});

test("receipt shows that a blocked tool ran → RecoveryRequired, loud, further calls blocked", async () => {
  const f = await family();
  await f.amend("two\n");
  const first = await f.agent.call();
  await f.agent.close([{ ...first, got: "total 0\n" }]);
  expect(intent(f)).toMatchObject({
    state: "RecoveryRequired",
    reason: "a blocked tool ran anyway",
  });
  expect((await f.agent.call()).text).toContain("waits for a person");
  expect(f.rig.attention(f.child)).toHaveLength(1);
});

test("a tool that nobody was asked about ran beside a blocked call → RecoveryRequired, loud, not acknowledged", async () => {
  const f = await family();
  await f.amend("two\n");
  const first = await f.agent.call();
  const ran = { toolUseId: "toolu_unasked", toolName: "Tool", failed: false, promptId: "prompt-1" };
  await f.agent.event({ type: "PostTool", sessionId: "s", agentId: null, ...ran });
  await f.agent.close([first, { toolUseId: "toolu_unasked", text: null }]);
  expect(intent(f)).toMatchObject({
    state: "RecoveryRequired",
    reason: "a blocked tool ran anyway",
  });
  expect(f.rig.attention(f.child)).toHaveLength(1);
});

test("another agent's batch still in flight → nothing bound, nothing changed, the batch passes", async () => {
  const f = await family({ settings: { drainMs: 300 } });
  expect((await f.agent.call("sub-1", "agent-7")).text).toBeNull();
  await f.amend("two\n");
  const answer = await f.agent.call();
  expect(answer.text).toBeNull();
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  expect(intent(f).state).toBe("Detected");
  expect(f.rig.barrier(f.child)).toBe(false);
  await f.agent.close([{ toolUseId: "sub-1", text: null }], "agent-7");
  await f.agent.close([answer]);
  expect((await f.agent.call()).text).toBe(intent(f).payload);
});

test("the work is superseded while the barrier is being set → the batch passes, nothing is loud", async () => {
  const f = await family();
  await f.amend("two\n");
  const { db } = f.rig;
  await f.rig.reboot({
    at: (name) => {
      if (name !== "intent.marker-written.effected") return;
      const reason = "the child already stands on it";
      setIntentState(db, intent(f).intentId, "Detected", "Superseded", { reason });
    },
  });
  expect((await f.agent.call()).text).toBeNull();
  expect(intent(f).state).toBe("Superseded");
  expect(f.rig.barrier(f.child)).toBe(false);
  expect(f.rig.attention(f.child)).toEqual([]);
});

test("in-flight batch closes while a call is held → bound then, not before", async () => {
  const f = await family();
  expect((await f.agent.call("sub-1", "agent-7")).text).toBeNull();
  await f.amend("two\n");
  const held = f.agent.call();
  await f.rig.cascade.refreshToFrontier();
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  await f.agent.close([{ toolUseId: "sub-1", text: null }], "agent-7");
  expect((await held).text).toBe(intent(f).payload);
});

test("hold told but never confirmed → it may have been allowed: batch let through, no file changed", async () => {
  const f = await family({ settings: { confirmMs: 200 } });
  await f.amend("two\n");
  const silent = await f.agent.ask(f.agent.newId());
  expect(silent.decision).toBe("hold");
  expect((await f.agent.call()).text).toBeNull(); // its sibling, held with it, is released
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  expect(intent(f).state).toBe("Detected");
});

test("a call passed while the daemon was away (known and unknown) → its batch is a passed one", async () => {
  const f = await family();
  for (const id of ["toolu_unseen", null]) {
    await f.amend(`moved for ${id}\n`);
    const before = f.rig.file(f.child, "parser.txt");
    f.agent.passUnseen(id);
    const sibling = await f.agent.call();
    expect(sibling.text).toBeNull();
    expect(f.rig.file(f.child, "parser.txt")).toBe(before);
    await f.agent.close([sibling, ...(id === null ? [] : [{ toolUseId: id, text: null }])]);
    const next = await f.agent.batch();
    expect(next[0]!.text).toBe(f.rig.intents(f.child).at(-1)!.payload);
  }
});

test("sub-agent calls under a bound barrier → a copy of the payload each time, completion stays the main agent's", async () => {
  const f = await family();
  await f.amend("two\n");
  const main = await f.agent.call();
  const copy = await f.agent.call(undefined, "agent-7");
  expect(copy.text).toBe(main.text);
  await f.agent.close([copy], "agent-7");
  expect(intent(f).receipt).toBeNull();
  await f.agent.close([main]);
  expect(intent(f).receipt).toBe("matching");
  // After completion: this agent has its copy and goes on; another one gets one first.
  expect((await f.agent.call(undefined, "agent-7")).text).toBeNull();
  expect((await f.agent.call(undefined, "agent-8")).text).toBe(main.text);
  expect((await f.agent.call(undefined, "agent-8")).text).toBeNull();
});

test("prompt typed after Esc under a bound barrier → never completed, never acknowledged, loud", async () => {
  const f = await family();
  await f.amend("two\n");
  await f.agent.call();
  f.agent.prompt = "prompt-2";
  expect((await f.agent.call()).text).toContain("restarted");
  expect(intent(f).state).toBe("Delivered");
});

test("busy parent, every boundary has new work → at most two blocked batches in a row", async () => {
  const f = await family();
  const passed: boolean[] = [];
  for (let n = 0; n < 6; n += 1) {
    await f.amend(`version ${n}\n`);
    passed.push((await f.agent.batch())[0]!.text === null);
  }
  expect(passed).toEqual([false, false, true, false, false, true]);
});

test.each([
  ["before the binding", "intent.Detected-Reconciling.before"],
  ["after the binding", "intent.Detected-Reconciling.completed"],
  ["before update-stale", "intent.update-stale.before"],
  ["after update-stale", "intent.update-stale.effected"],
  ["after materialisation", "intent.Reconciling-Materialized.completed"],
])("native rewrite, daemon dies %s → after restart the story ends the same", async (_, point) => {
  const f = await family();
  await f.amend("two\n");
  await f.rig.reboot(crashOnceAt(point));
  const blocked = await f.agent.call();
  expect(blocked.text).toContain("did not run");
  await f.rig.reboot();
  await endsWell(f, blocked);
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
});

test.each([
  ["before", "intent.integrate.before"],
  ["after", "intent.integrate.effected"],
  ["at the update after", "intent.update-stale.before"],
])(
  "parent advance, daemon dies %s the integration → after restart the story ends the same, one rebase visible",
  async (_, point) => {
    const f = await family();
    await f.advance("lexer.txt");
    await f.rig.reboot(crashOnceAt(point));
    const blocked = await f.agent.call();
    await f.rig.reboot();
    await endsWell(f, blocked);
    expect(f.rig.file(f.child, "lexer.txt")).toBe("lexer.txt\n");
    const divergent = await f.rig.repo.jj([
      "log",
      "--ignore-working-copy",
      "--no-graph",
      "-r",
      "divergent()",
      "-T",
      "commit_id",
    ]);
    expect(divergent).toBe("");
  },
);

function crashOnceAt(point: string): { at(name: string): void } {
  let armed = true;
  return {
    at(name) {
      if (armed && name === point) {
        armed = false;
        throw new Error(`crash at ${name}`);
      }
    },
  };
}

/** The blocked batch closes, the agent goes on, and what it is told in the end is the payload. */
async function endsWell(f: Family, blocked: Answer): Promise<void> {
  await f.agent.close([blocked]);
  let sawPayload = blocked.text !== null && blocked.text === intent(f).payload;
  for (let turn = 0; turn < 4; turn += 1) {
    const [answer] = await f.agent.batch();
    if (answer!.text !== null && answer!.text === intent(f).payload) sawPayload = true;
    if (intent(f).state === "Acknowledged") break;
  }
  expect(sawPayload).toBe(true);
  expect(intent(f).state).toBe("Acknowledged");
  expect(f.rig.barrier(f.child)).toBe(false);
  expect(f.rig.intents(f.child)).toHaveLength(1);
}

test("outage: calls passed unseen and their closing events spooled → each call is grouped with its own batch", async () => {
  const f = await family();
  const seen = await f.agent.call("b1");
  f.agent.passUnseen("b2");
  f.agent.spool({
    type: "BatchClosed",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    calls: ["b1", "b2"].map((toolUseId) => ({ toolUseId, toolName: "Tool", response: "ran" })),
  });
  f.agent.passUnseen("c1");
  await f.amend("two\n");
  // c1's batch is open and passed: its sibling passes with it.
  const sibling = await f.agent.call("c2");
  expect(texts([seen, sibling])).toEqual([null, null]);
  const rows = f.rig.db
    .query("SELECT tool_use_id, batch_ordinal, batch_end FROM tool_admissions ORDER BY tool_use_id")
    .all();
  expect(rows).toEqual([
    { tool_use_id: "b1", batch_ordinal: 1, batch_end: "closed" },
    { tool_use_id: "b2", batch_ordinal: 1, batch_end: "closed" },
    { tool_use_id: "c1", batch_ordinal: 2, batch_end: null },
    { tool_use_id: "c2", batch_ordinal: 2, batch_end: null },
  ]);
});

test("permission dialog → loud once for its batch; over when the batch closes, not when a sibling ends", async () => {
  const f = await family();
  const dialog = () =>
    f.agent.event({
      type: "Attention",
      sessionId: "s",
      kind: "permission_prompt",
      message: "Claude needs your permission",
    });
  const answers = [await f.agent.call(), await f.agent.call()];
  await dialog();
  await dialog();
  expect(f.rig.attention(f.child)).toEqual(["Claude needs your permission"]);
  await f.agent.event({
    type: "PostTool",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    toolUseId: answers[0]!.toolUseId,
    toolName: "Tool",
    failed: false,
  });
  expect(f.rig.attention(f.child)).toHaveLength(1);
  await f.agent.close(answers);
  expect(f.rig.attention(f.child)).toEqual([]);
  await f.agent.call();
  await dialog();
  expect(f.rig.attention(f.child)).toHaveLength(1);
});
