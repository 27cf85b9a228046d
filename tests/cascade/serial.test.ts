/**
 * A harness that runs its calls one at a time (Codex): every call a batch of its own, completion by what comes next, the
 * session record as the only witness of what the model got. Real jj, real database.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { threadPaths } from "../../src/core/paths.ts";
import { REPO_ID } from "./rig.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough, thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { GENERIC, refused, serialFamily, type SerialFamily } from "./serial-rig.ts";

setDefaultTimeout(120_000);
const families: SerialFamily[] = [];
afterAll(async () => {
  for (const f of families) await f.rig.close();
  removeTempDirs();
});

async function family(options: Parameters<typeof serialFamily>[0] = {}): Promise<SerialFamily> {
  const f = await serialFamily(options);
  families.push(f);
  return f;
}

/** The agent is given the payload at a boundary. */
async function told(f: SerialFamily): Promise<{ id: string; output: string }> {
  await f.amend("two\n");
  const result = await f.agent.call();
  expect(result.ran).toBe(false);
  return result;
}

describe("serial: a batch of one", () => {
  test("work ready → that call blocked, files current, tuple is its response and its own number; the tool never ran; same bytes", async () => {
    const f = await family();
    await f.agent.call();
    await f.agent.call();
    const { id, output } = await told(f);
    const { barrier, payload, state } = f.intent();
    expect(output).toBe(refused(payload!));
    expect(barrier).toEqual({ incarnation: f.child.incarnation, turn: 2, batch: 3 });
    expect(state).toBe("Delivered");
    expect(f.file("parser.txt")).toBe("two\n");
    expect(f.agent.ran).not.toContain(id);
    const row = f.rig.db
      .query(
        "SELECT batch_ordinal AS b, model_turn AS t FROM tool_admissions WHERE tool_use_id = ?",
      )
      .get(id);
    expect(row).toEqual({ b: 3, t: 2 });
  });

  test("blocked call: nothing its own hook reports completes it → batch open until the next call's admission, which records completion and receipt", async () => {
    const f = await family();
    await told(f);
    expect(f.intent()).toMatchObject({ state: "Delivered", batchCompletedAt: null, receipt: null });
    await f.rig.reboot(); // the report survives a crash: nothing of it was in memory
    expect(f.intent().batchCompletedAt).toBeNull();
    const next = await f.agent.call();
    expect(next.ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Acknowledged", receipt: "matching" });
    expect(f.intent().batchCompletedAt).not.toBeNull();
    expect(f.rig.barrier(f.child)).toBe(false);
  });

  test("Stop → completes the batch and stores the receipt, acknowledges nothing; the next turn's first call acknowledges", async () => {
    const f = await family();
    await told(f);
    await f.agent.stop();
    expect(f.intent()).toMatchObject({ state: "Delivered", receipt: "matching" });
    expect(f.rig.barrier(f.child)).toBe(true);
    await f.agent.prompt("go on");
    expect(f.intent().state).toBe("Delivered");
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("the same call asked about again, in the same and in a later turn → same bytes, never an acknowledgement", async () => {
    const f = await family();
    const { id } = await told(f);
    const again = await f.daemon.preToolUse(f.agent.preTool(id));
    expect(again).toMatchObject({ decision: "deny", output: f.intent().payload! });
    const later = await f.daemon.preToolUse(f.agent.preTool(id, { turn_id: "turn-0002" }));
    expect(later).toMatchObject({ decision: "deny" });
    expect(f.intent().state).toBe("Delivered");
  });

  test("a same or later turn id without a later response → acknowledges nothing", async () => {
    const f = await family();
    const { id } = await told(f);
    // The record has no line of this call: a later turn is all there is.
    await f.daemon.event({
      ...f.agent.preTool(id),
      hook_event_name: "UserPromptSubmit",
      turn_id: "turn-0009",
      prompt: "x",
    });
    const answer = await f.daemon.preToolUse(
      f.agent.preTool("call_unseen", { turn_id: "turn-0009" }),
    );
    expect(answer.decision).toBe("pass");
    expect(f.intent()).toMatchObject({ state: "Delivered", batchCompletedAt: null });
    expect(f.rig.barrier(f.child)).toBe(true);
  });

  test("MarkDelivered alone → acknowledges nothing; MarkDelivered lost, receipt matching → repaired and acknowledged at once", async () => {
    const f = await family();
    await f.amend("two\n");
    const id = f.agent.nextId;
    const mark = f.daemon.markDelivered;
    f.daemon.markDelivered = () => undefined;
    await f.agent.call();
    f.daemon.markDelivered = mark;
    expect(f.intent().state).toBe("Materialized");
    f.records.late.add(id); // no output to be seen of it: reported delivered or not, nothing is proved
    const { intentId, barrier } = f.intent();
    mark(intentId, barrier!.turn, barrier!.batch);
    expect(f.intent().state).toBe("Delivered");
    await f.agent.call();
    expect(f.intent().state).toBe("Delivered");
    const g = await family();
    await g.amend("two\n");
    g.daemon.markDelivered = () => undefined;
    await g.agent.call();
    expect(g.intent().state).toBe("Materialized");
    await g.agent.call();
    expect(g.intent().state).toBe("Acknowledged");
  });

  thorough(
    "acknowledged, another intent waits → the next intent decides about this very call",
    async () => {
      const f = await family();
      await told(f);
      await f.amend("three\n");
      const second = await f.agent.call();
      expect(f.intent().state).toBe("Acknowledged");
      expect(second.output).toBe(refused(f.intent(1).payload!));
      expect(f.file("parser.txt")).toBe("three\n");
      expect((await f.agent.call()).ran).toBe(true);
      expect(f.intent(1).state).toBe("Acknowledged");
    },
  );

  test("a refused patch → judged on the payload within the wrapper that repeats the whole patch", async () => {
    const f = await family();
    await f.amend("two\n");
    const patch = `*** Begin Patch\n${"+long line\n".repeat(5000)}*** End Patch`;
    const { output } = await f.agent.call({ tool: "apply_patch", command: patch });
    expect(output).toBe(refused(f.intent().payload!, patch));
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
    const kept = f.rig.db.query("SELECT * FROM tool_admissions").all();
    expect(JSON.stringify(kept).length).toBeLessThan(4_000);
  });

  thorough("a refused tool that is only named → matching as well", async () => {
    const f = await family();
    await f.amend("two\n");
    const { output } = await f.agent.call({ tool: "mcp__x__y" });
    expect(output).toBe(
      `Tool call blocked by PreToolUse hook: ${f.intent().payload!}. Tool: mcp__x__y`,
    );
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });
});

describe("serial: the receipt", () => {
  test("hook dies before stdout → launcher's generic refusal, contrary receipt, redelivered on the arriving call, counted", async () => {
    const f = await family();
    await f.amend("two\n");
    const first = await f.agent.call({ hook: "dies" });
    expect(first.output).toBe(GENERIC);
    expect(f.intent().state).toBe("Materialized");
    const second = await f.agent.call();
    expect(second.output).toBe(refused(f.intent().payload!));
    expect(f.intent()).toMatchObject({ softRedeliveryCount: 1, batchCompletedAt: null });
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("stdout written, MarkDelivered recorded, the harness rejected it → contrary: redelivered, never acknowledged by that", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call({ hook: "rejected" });
    expect(f.intent().state).toBe("Delivered");
    const second = await f.agent.call();
    expect(f.intent()).toMatchObject({ state: "Delivered", softRedeliveryCount: 1 });
    expect(second.output).toBe(refused(f.intent().payload!));
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("second contrary receipt → restart instead of another redelivery; daemon restarts between them change nothing", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call({ hook: "rejected" });
    await f.rig.reboot();
    await f.agent.call({ hook: "rejected" });
    expect(f.intent().softRedeliveryCount).toBe(1);
    await f.rig.reboot();
    const third = await f.agent.call();
    expect(third.output).toContain("restarted by kiki");
    const started = await f.takesUp();
    expect(started.prompt!.startsWith(f.intent().payload!)).toBe(true);
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Acknowledged", softRedeliveryCount: 1 });
  });

  test("every output is rejected, and every replacement ends → attempts bounded, paused, loud; a daemon restart surfaces it again and mints nothing", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call({ hook: "rejected" });
    await f.agent.call({ hook: "rejected" });
    await f.agent.call();
    for (const nth of [1, 2, 3]) f.rig.agents.ended(await f.rig.replaced(f.child, nth), "Crashed");
    expect(f.intent()).toMatchObject({ exhausted: true, softRedeliveryCount: 1 });
    expect(f.rig.attention(f.child).join()).toContain("after 3 restarts");
    await f.rig.reboot();
    expect(f.rig.agents.started).toHaveLength(3);
    expect(f.intent()).toMatchObject({ exhausted: true, epoch: 1 });
  });

  test("receipt unreadable at the completing arrival, nothing else pending → the call passes, nothing acknowledged, tuple and marker kept; read again at the next", async () => {
    const f = await family();
    const { id } = await told(f);
    f.records.late.add(id);
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Delivered", softRedeliveryCount: 0 });
    expect(f.intent().barrier).not.toBeNull();
    expect(f.rig.barrier(f.child)).toBe(true);
    await f.rig.reboot();
    f.records.late.clear();
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Acknowledged", receipt: "matching" });
    expect(f.rig.barrier(f.child)).toBe(false);
  });

  thorough(
    "the record itself cannot be read at the next call, nothing else pending → passes, acknowledges nothing; read again later",
    async () => {
      const f = await family();
      await told(f);
      f.records.unreadable = true;
      expect((await f.agent.call()).ran).toBe(true);
      expect(f.intent().state).toBe("Delivered");
      expect(f.rig.barrier(f.child)).toBe(true);
      f.records.unreadable = false;
      expect((await f.agent.call()).ran).toBe(true);
      expect(f.intent()).toMatchObject({ state: "Acknowledged", receipt: "matching" });
    },
  );

  test("receipt unreadable, another delivery pending → restart", async () => {
    const f = await family();
    const { id } = await told(f);
    await f.amend("three\n");
    f.records.late.add(id);
    expect((await f.agent.call()).output).toContain("restarted by kiki");
    await f.takesUp();
    const next = await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
    expect(next.output).toBe(refused(f.intent(1).payload!));
  });

  test("Stop with an unreadable record → completed unreadable; read again, contrary → redelivered", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call({ hook: "dies" });
    f.records.unreadable = true;
    await f.agent.stop();
    expect(f.intent()).toMatchObject({ receipt: "unreadable" });
    f.records.unreadable = false;
    await f.agent.prompt("go on");
    const second = await f.agent.call();
    expect(second.output).toBe(refused(f.intent().payload!));
    expect(f.intent().softRedeliveryCount).toBe(1);
  });

  thorough(
    "Stop with an unreadable record, then another conversation → that one was never told: redelivered, counted, acknowledged by its own receipt",
    async () => {
      const f = await family();
      await told(f);
      f.records.unreadable = true;
      await f.agent.stop();
      f.records.unreadable = false;
      expect(f.intent()).toMatchObject({ state: "Delivered", receipt: "unreadable" });
      f.agent.session = "conversation-2";
      await f.agent.prompt("something else");
      const again = await f.agent.call();
      expect(again.output).toBe(refused(f.intent().payload!));
      expect(f.intent()).toMatchObject({ state: "Delivered", softRedeliveryCount: 1 });
      expect((await f.agent.call()).ran).toBe(true);
      expect(f.intent()).toMatchObject({ state: "Acknowledged", receipt: "matching" });
    },
  );

  test("the last line is torn, which is the arriving call's own → nothing is known of it: passes, acknowledges nothing; the next call completes and acknowledges", async () => {
    const f = await family();
    await told(f);
    f.records.torn = true;
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Delivered", batchCompletedAt: null });
    f.records.torn = false;
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent()).toMatchObject({ state: "Acknowledged", receipt: "matching" });
  });

  test("the harness ran a blocked tool → RecoveryRequired, loud, the boundary is lost", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call({ hook: "ignored" });
    await f.agent.call();
    expect(f.intent()).toMatchObject({
      state: "RecoveryRequired",
      reason: "a blocked tool ran anyway",
    });
    expect(f.rig.attention(f.child)[0]).toContain("ran a tool that kiki had blocked");
    expect(f.soft()).toBe(false);
  });
});

describe("serial: a provider that uses one call id for every call", () => {
  test("work ready → told all the same; told nothing more by the same words for ever, but by a restart", async () => {
    const f = await family();
    f.agent.nextIdUsed = () => "call_0";
    expect((await f.agent.call()).ran).toBe(true);
    await f.amend("two\n");
    const second = await f.agent.call({ run: () => "edited" });
    expect(second.output).toBe(refused(f.intent().payload!));
    await f.agent.call();
    expect(f.intent().state).toBe("Delivered");
    await f.takesUp();
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });
});

describe("serial: a blocked tool ran", () => {
  const moments = ["the next call comes", "the turn ends"];
  test.each(isThorough ? moments : moments.slice(0, 1))(
    "and %s → the agent is paused",
    async (what) => {
      const paused: string[] = [];
      const f = await family({
        standStill: () => ({
          hold: () => Promise.resolve({ still: true, open: [] }),
          pause: ({ intentId }) => Promise.resolve((paused.push(intentId), null)),
          release: () => Promise.resolve(),
        }),
      });
      await f.amend("two\n");
      await f.agent.call({ hook: "ignored" });
      if (what === "the turn ends") await f.agent.stop();
      else expect((await f.agent.call()).ran).toBe(false);
      expect(f.intent().state).toBe("RecoveryRequired");
      await waitFor(() => paused.includes(f.intent().intentId), 5_000, "the agent is paused");
    },
  );
});

describe("serial: two calls in one response", () => {
  test("first blocked → its sibling is refused with it, same bytes, and acknowledges nothing; durable violation", async () => {
    const f = await family();
    await f.amend("two\n");
    const both = await f.agent.respond({}, {});
    expect(both.map((r) => [r.ran, r.output])).toEqual([
      [false, refused(f.intent().payload!)],
      [false, refused(f.intent().payload!)],
    ]);
    expect(f.intent().state).toBe("Delivered");
    expect(f.events("serial_violation")).toMatchObject([{ response: 0, violations: 1 }]);
    expect(f.rig.attention(f.child).join()).toContain("two calls at once");
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("first runs → the sibling is held until it is over, then released", async () => {
    const f = await family();
    const first = Promise.withResolvers<string>();
    const order: string[] = [];
    const both = f.agent.respond(
      {
        run: async () => {
          order.push("first begins");
          await first.promise;
          order.push("first ends");
          return "1";
        },
      },
      {
        run: () => {
          order.push("second");
          return "2";
        },
      },
    );
    await waitFor(() => f.events("serial_violation").length === 1, 10_000, "the sibling is there");
    expect(order).toEqual(["first begins"]);
    first.resolve("");
    expect((await both).map((r) => r.ran)).toEqual([true, true]);
    expect(order).toEqual(["first begins", "first ends", "second"]);
    expect(f.soft()).toBe(true);
  });

  test("first runs, another one passed by its launcher's own word → a third joins no batch, and is refused until nothing runs", async () => {
    const f = await family();
    const ids = [f.agent.nextIdUsed(), f.agent.nextIdUsed(), f.agent.nextIdUsed()] as const;
    for (const id of ids) f.records.append(f.agent.record, { is: "call", id, command: "make" });
    const ask = (id: string) => f.daemon.preToolUse(f.agent.preTool(id));
    expect((await ask(ids[0])).decision).toBe("pass");
    const { passed } = threadPaths(f.rig.stateDir, REPO_ID, f.child.id);
    writeFileSync(`${passed}/${f.child.incarnation}.77`, ""); // of the second, without its payload
    expect(await ask(ids[2])).toMatchObject({ decision: "deny" });
    f.records.append(f.agent.record, { is: "output", id: ids[0], text: "made" });
    f.records.append(f.agent.record, { is: "output", id: ids[1], text: "made" });
    f.records.append(f.agent.record, { is: "output", id: ids[2], text: "refused" });
    f.records.append(f.agent.record, { is: "usage" });
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.events("serial_violation")).toHaveLength(1);
  });

  test("first returns with its process running → over by its output in the record, and the sibling goes", async () => {
    const f = await family();
    const both = await f.agent.respond({ background: true }, {});
    expect(both.map((r) => r.ran)).toEqual([true, true]);
  });

  test("two violations → the boundary is lost: from then on work is told by a restart, at a moment when nothing is in flight", async () => {
    const f = await family();
    await f.agent.respond({}, {}, {});
    expect(f.events("serial_violation")).toHaveLength(2);
    expect(f.soft()).toBe(false);
    expect(f.events("boundary_lost")).toHaveLength(1);
    await f.amend("two\n");
    const next = await f.agent.call();
    expect(next).toMatchObject({ ran: false });
    expect(next.output).toContain("restarted by kiki");
    const started = await f.takesUp();
    expect(f.file("parser.txt")).toBe("two\n");
    expect(started.prompt!.startsWith(f.intent().payload!)).toBe(true);
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
    expect(f.soft()).toBe(true); // the replacement's proof is its own
  });

  test("the second violation comes while calls are held for work → nothing is bound; all refused, the agent told by a restart", async () => {
    const f = await family();
    await f.amend("two\n");
    const all = await f.agent.respond({}, {}, {});
    expect(f.events("serial_violation")).toHaveLength(2);
    expect(all.map((r) => r.ran)).toEqual([false, false, false]);
    for (const { output } of all) expect(output).toContain("restarted by kiki");
    const started = await f.takesUp();
    expect(started.prompt!.startsWith(f.intent().payload!)).toBe(true);
    expect(f.intent().barrier).toBeNull();
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
    expect(f.file("parser.txt")).toBe("two\n");
  });

  test("calls of another agent, which there is not to be → counted, and the second one costs the boundary", async () => {
    const f = await family();
    for (const id of ["call_sub_1", "call_sub_2"])
      await f.daemon.preToolUse(f.agent.preTool(id, { agent_id: "sub-1" }));
    expect(f.events("serial_violation")).toHaveLength(2);
    expect(f.soft()).toBe(false);
  });

  test("a response that was broken off is not counted: the same number in the next turn → no sibling", async () => {
    const f = await family();
    await f.agent.call();
    await f.daemon.event({ ...f.agent.preTool("x"), hook_event_name: "Interrupt" });
    await f.agent.prompt("another turn");
    f.harness.records.uncounted = true;
    await f.agent.call();
    await f.agent.prompt("and another");
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.events("serial_violation")).toEqual([]);
  });

  test("a call of an earlier response, or of a turn that was left → counted; with work ready nothing is bound, the agent is replaced", async () => {
    const f = await family();
    await f.agent.call();
    await f.agent.prompt("another turn");
    await f.agent.call();
    await f.amend("two\n");
    const answer = await f.daemon.preToolUse(
      f.agent.preTool("call_of_before", { turn_id: "turn-0001" }),
    );
    expect(answer.decision).toBe("deny");
    expect(f.events("serial_violation")).toHaveLength(1);
    expect(f.file("parser.txt")).toBe("one\n");
    await f.takesUp();
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });
});

describe("serial: what is not known", () => {
  test("record unreadable at admission, work ready → nothing bound, no file changed, the call passes; told at the next", async () => {
    const f = await family();
    await f.amend("two\n");
    f.records.unreadable = true;
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.file("parser.txt")).toBe("one\n");
    expect(f.intent().state).toBe("Detected");
    f.records.unreadable = false;
    expect((await f.agent.call()).output).toBe(refused(f.intent().payload!));
  });

  thorough(
    "record unreadable at three boundaries in a row with work ready → a person hears of it",
    async () => {
      const f = await family();
      await f.amend("two\n");
      f.records.unreadable = true;
      for (let n = 0; n < 3; n += 1) expect((await f.agent.call()).ran).toBe(true);
      expect(f.rig.attention(f.child).join()).toContain(
        "the session record does not show the call",
      );
      expect(f.intent().state).toBe("Detected");
    },
  );

  test("record unreadable after a violation, at an active barrier → not let through: restart", async () => {
    const f = await family();
    await f.agent.respond({}, {});
    await told(f);
    f.records.unreadable = true;
    expect((await f.agent.call()).output).toContain("restarted by kiki");
    await f.rig.replaced(f.child);
    expect(f.intent().state).toBe("Delivered");
  });

  test("a person breaks the turn off at a blocked call → never completed: restart", async () => {
    const f = await family();
    await told(f);
    await f.agent.interrupt();
    await f.agent.prompt("do this instead");
    expect((await f.agent.call()).output).toContain("restarted by kiki");
    await f.takesUp();
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });
});

describe("serial: in flight", () => {
  test("a call that has no event yet and whose output is in the record → over: the next call is bound at once", async () => {
    const f = await family();
    await f.agent.call({ background: true });
    await f.amend("two\n");
    expect((await f.agent.call()).output).toBe(refused(f.intent().payload!));
    await f.agent.ends("call_conversation-1_1");
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });

  for (const [how, over] of [
    ["turn stopped", { hook_event_name: "Stop" }],
    ["turn broken off", { hook_event_name: "Interrupt" }],
    ["another conversation", { hook_event_name: "SessionStart", session_id: "c-9", source: "new" }],
  ] as const) {
    test(`${how} → the batch has ended, nothing is in flight any more`, async () => {
      const f = await family();
      const hang = Promise.withResolvers<string>();
      const running = f.agent.respond({ run: () => hang.promise });
      await waitFor(() => f.open().length === 1, 10_000, "running");
      await f.daemon.event({ ...f.agent.preTool("x"), ...over });
      expect(f.open()).toEqual([]);
      hang.resolve("");
      await running;
    });
  }

  test("a tool that nobody admitted has run, two calls of two responses are not over → a batch of its own, nothing joined", async () => {
    const f = await family();
    for (const text of ["1", "2"]) {
      f.records.late.add(f.agent.nextId);
      // Its end is never reported, as where its patch did not apply.
      await f.agent.call({ background: true, run: () => text });
    }
    expect(f.open().map((c) => c.resolved)).toEqual([false, false]);
    await f.daemon.event({ ...f.agent.preTool("call_unseen"), hook_event_name: "PostToolUse" });
    const batches = f.rig.db
      .query<{ id: string; n: number }, []>(
        "SELECT tool_use_id AS id, batch_ordinal AS n FROM tool_admissions ORDER BY admission_id",
      )
      .all();
    expect(batches.find((row) => row.id === "call_unseen")?.n).toBe(3);
  });

  test("a call that is neither over by its event nor in the record → nothing is bound beside it, files as they are", async () => {
    const f = await family({ settings: { drainMs: 200 } });
    const hang = Promise.withResolvers<string>();
    const running = f.agent.respond({ run: () => hang.promise });
    await waitFor(() => f.open().length === 1, 10_000, "running");
    await f.amend("two\n");
    f.records.append(f.agent.record, { is: "call", id: "call_next", command: "ls" });
    const asked = await f.daemon.preToolUse(f.agent.preTool("call_next"));
    expect(asked.decision).toBe("hold");
    const end = await f.daemon.hold((asked as { token: string }).token);
    expect(end).toEqual({ decision: "pass" });
    expect(f.file("parser.txt")).toBe("one\n");
    expect(f.intent().state).toBe("Detected");
    hang.resolve("");
    await running;
  });
});

describe("serial: told by a restart only", () => {
  const withoutBoundary = (f: SerialFamily): void => {
    f.rig.db.run(
      "UPDATE agent_sessions SET capabilities_json = '{\"parallel_batch_boundary\":false}' WHERE agent_session_id = ?",
      [f.child.incarnation],
    );
  };

  test("no batch boundary proved → nothing is bound; the call is refused, the agent replaced, told by its first input", async () => {
    const f = await family();
    withoutBoundary(f);
    expect((await f.agent.call()).ran).toBe(true);
    await f.amend("two\n");
    expect((await f.agent.call()).output).toContain("restarted by kiki");
    const started = await f.takesUp();
    expect(f.intent()).toMatchObject({
      barrier: null,
      restart: { incarnation: started.incarnation },
    });
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("daemon dies before the agent is replaced → the next one replaces it", async () => {
    const f = await family();
    withoutBoundary(f);
    await f.amend("two\n");
    f.rig.agents.moving = "vim (77) does not end";
    await f.agent.call();
    await waitFor(() => f.rig.attention(f.child).length > 0, 10_000, "said");
    f.rig.agents.moving = null;
    await f.rig.reboot();
    await f.takesUp();
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("an edit with no hooked call in flight → unproven: no soft delivery for that incarnation; the replacement has it again", async () => {
    const f = await family();
    await f.agent.call({
      run: () => {
        writeFileSync(`${f.child.path}/own.txt`, "by a hooked call\n");
        return "";
      },
    });
    await Bun.sleep(60); // beyond the coarseness of file times: what comes now is after the call
    f.agent.unhooked(() => writeFileSync(`${f.child.path}/other.txt`, "by nobody\n"));
    await f.amend("two\n");
    const next = await f.agent.call();
    expect(next.output).toContain("restarted by kiki");
    expect(f.events("boundary_lost")).toMatchObject([
      { why: "other.txt was changed while no call was in flight" },
    ]);
    await f.takesUp();
    await f.agent.call();
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("edits by a call that passed while no daemon was there → still proved", async () => {
    const f = await family();
    await f.agent.call();
    await f.rig.cascade.stop();
    const passed = threadPaths(f.rig.stateDir, REPO_ID, f.child.id).passed;
    const id = f.agent.nextIdUsed();
    f.records.append(f.agent.record, { is: "call", id, command: "make" });
    f.records.append(f.agent.record, { is: "usage" });
    const payload = JSON.stringify(f.agent.preTool(id));
    writeFileSync(`${passed}/${f.child.incarnation}.77`, payload);
    await Bun.sleep(60);
    writeFileSync(`${f.child.path}/own.txt`, "during the outage\n");
    await Bun.sleep(60);
    f.records.append(f.agent.record, { is: "output", id, text: "made" });
    await f.rig.reboot();
    await f.amend("two\n");
    expect((await f.agent.call()).output).toBe(refused(f.intent().payload!));
    expect(f.soft()).toBe(true);
  });

  thorough(
    "edits by hooked calls, and by a process one of them left running → still proved",
    async () => {
      const f = await family();
      await f.agent.call({
        background: true,
        run: () => {
          writeFileSync(`${f.child.path}/own.txt`, "by a hooked call\n");
          return "running";
        },
      });
      await Bun.sleep(60);
      writeFileSync(`${f.child.path}/log.txt`, "by what it left running\n");
      await f.amend("two\n");
      expect((await f.agent.call()).output).toBe(refused(f.intent().payload!));
      expect(f.soft()).toBe(true);
    },
  );
});

describe("serial: the startup echo", () => {
  test("words typed in the middle of the first turn have its turn id → the first call still acknowledges", async () => {
    const f = await family();
    await told(f);
    await f.agent.interrupt();
    await f.agent.prompt("instead");
    await f.agent.call();
    await f.takesUp();
    await f.agent.steer("and mind the tests");
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });

  test("the payload comes into a turn that a person began → its calls are refused, its end says nothing, and the agent is started anew", async () => {
    const f = await family();
    await told(f);
    await f.agent.interrupt();
    await f.agent.prompt("instead");
    await f.agent.call();
    const started = await f.rig.replaced(f.child);
    f.rig.agents.ready(started);
    f.agent.session = "conversation-2";
    await f.agent.prompt("typed before");
    expect((await f.agent.call()).ran).toBe(false);
    await f.agent.steer(started.prompt!);
    expect((await f.agent.call()).ran).toBe(false);
    expect(f.intent().state).toBe("Delivered");
    // Whether the model got it in that turn, or in one of its own after it, nothing tells.
    await f.agent.stop();
    await f.takesUp(2);
    expect((await f.agent.call()).ran).toBe(true);
    expect(f.intent().state).toBe("Acknowledged");
  });
});
