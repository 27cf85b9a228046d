/** The fake agent in trouble: hooks that die, sessions that end, any order with faults. */
import { describe, expect, test } from "bun:test";
import { GENERIC_DENY_REASON } from "../../src/core/generic-deny.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { randomOf } from "../support/random.ts";
import type { FakeAgent } from "./agent.ts";
import { asked, delivered, deny, world, type Desk } from "./agent-desk.ts";
import { bash, edit, read, subAgent, write } from "./agent-tools.ts";

describe("hooks that die", () => {
  test("daemon away: no marker → passes, recorded with payload; marker → generic deny, record gone", async () => {
    const { agent, desk } = await asked();
    desk.away = true;
    agent.main.respond([bash("ls")]);
    await agent.run();
    expect([...desk.passed.values()][0]).toMatchObject({ tool_use_id: "toolu_1" });
    expect(desk.spooled.map((p) => p["hook_event_name"])).toEqual(["PostToolUse", "PostToolBatch"]);
    desk.barred = true;
    agent.main.respond([bash("ls")]);
    agent.step(/asks/);
    await agent.run({ hold: /looks/ });
    expect(desk.passed.size).toBe(2); // it exists before the marker is looked at
    await agent.run();
    expect(desk.passed.size).toBe(1);
    expect(agent.denied.map((d) => d.reason)).toEqual([GENERIC_DENY_REASON]);
  });

  for (const [moment, hold, heard] of [
    ["before stdout", /prints/, []],
    ["between stdout and MarkDelivered", /marks delivered/, []],
    ["after MarkDelivered", /exits/, ["delivered i"]],
  ] as const) {
    test(`sidecar dies ${moment} → what it printed is not handed on, the marker decides`, async () => {
      const { agent, desk } = await asked();
      desk.answers = { toolu_1: { ...deny("[kiki] moved"), delivered } as HookDecision };
      desk.barred = true;
      agent.main.respond([bash("ls")]);
      await agent.run({ hold });
      agent.hook("toolu_1").killSidecar();
      await agent.run();
      expect(agent.denied.map((d) => d.reason)).toEqual([GENERIC_DENY_REASON]);
      expect(desk.heard.filter((h) => h.startsWith("delivered"))).toEqual([...heard]);
    });
  }

  test("delivery cannot be marked → the payload is handed on all the same", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: { ...deny("[kiki] moved"), delivered } as HookDecision };
    agent.main.respond([bash("ls")]);
    await agent.run({ hold: /marks/ });
    desk.away = true;
    await agent.run({ until: () => agent.denied.length > 0 });
    expect(agent.denied[0]!.reason).toBe("[kiki] moved");
  });

  test("launcher dies → the harness blocks by onFailure; the closing event's launcher dies → it goes on", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([bash("ls")]);
    agent.hook("toolu_1").killLauncher();
    expect(agent.denied[0]!.reason).toContain('blocking because onFailure is "block"');
    await agent.run({ hold: /PostToolBatch/ });
    agent.hook("PostToolBatch").killLauncher();
    expect(agent.main.thinking).toBe(true);
    expect(desk.heard).toEqual([]);
  });

  test("held hook loses patience → generic deny, and a later release is not heard", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: { decision: "hold", token: "t", holdMs: 1 } };
    agent.main.respond([bash("ls")]);
    await agent.run({ patient: false });
    agent.hook("toolu_1").giveUp();
    desk.held.resolve({ decision: "pass" });
    await agent.run();
    expect(agent.denied.map((d) => d.reason)).toEqual([GENERIC_DENY_REASON]);
    expect(agent.ran).toEqual([]);
  });

  test("sidecar of an event dies → the event is lost, and said to be lost", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([bash("ls")]);
    await agent.run({ hold: /PostToolBatch/ });
    agent.hook("PostToolBatch").killSidecar();
    await agent.run();
    expect(desk.heard).not.toContain("PostToolBatch");
    expect(desk.log).toEqual(["PostToolBatch event lost: kk-hook died"]);
  });
});

describe("sessions", () => {
  test("Esc with a held call and a running tool → hooks killed, nothing reported, late effect does not happen", async () => {
    const { agent, desk, files } = await asked();
    desk.answers = { toolu_2: { decision: "hold", token: "t", holdMs: 1 } };
    const late = { ...bash("make", (f) => (f.put("/ws/out", "x"), "")), concurrent: true };
    agent.main.respond([late, read("/ws/a")]);
    await agent.run({ hold: /finishes/, patient: false });
    agent.escape();
    await agent.run();
    expect(desk.heard).toEqual(["PreToolUse toolu_1", "PreToolUse toolu_2", "hold t"]);
    expect(files.get("/ws/out")).toBeNull();
    expect(agent.context.filter((s) => s.kind === "result")).toHaveLength(2);
    const before = agent.promptId;
    agent.prompt("again");
    await agent.run();
    expect(agent.promptId).not.toBe(before);
    expect(agent.main.thinking).toBe(true);
  });

  test("Esc while a prompt's hook runs, or before anything has come of it → in the composer again, and never given to the model", async () => {
    const { agent } = await asked();
    agent.main.finish();
    await agent.run();
    const before = agent.context.length;
    agent.prompt("first");
    await agent.run({ hold: /UserPromptSubmit/ });
    agent.escape();
    expect([agent.composer, agent.context.length]).toEqual(["first", before]);
    agent.prompt("second");
    expect(agent.composer).toBe("");
    await agent.run();
    expect([agent.main.thinking, agent.context.at(-1)]).toEqual([
      true,
      { kind: "prompt", text: "second" },
    ]);
    agent.escape();
    expect([agent.composer, agent.context.length, agent.main.idle]).toEqual([
      "second",
      before,
      true,
    ]);
    agent.prompt("third");
    await agent.run();
    agent.main.respond([bash("ls")]);
    agent.escape();
    expect([agent.composer, agent.saw("third"), agent.saw("second")]).toEqual(["", true, false]);
  });

  test("prompt typed in a turn → its event at once with the turn's id, delivered with the next results", async () => {
    const { agent } = await asked();
    agent.main.respond([bash("ls")]);
    agent.prompt("also this");
    await agent.run();
    expect(new Set(agent.sent.map((p) => p["prompt_id"]).filter(Boolean)).size).toBe(1);
    expect(agent.context.at(-1)).toEqual({ kind: "prompt", text: "also this" });
  });

  test("/clear → SessionEnd, then another session id; compaction → the same id", async () => {
    const { agent, desk } = await asked();
    const first = agent.sessionId;
    agent.compact();
    await agent.run();
    expect(agent.sent.at(-1)).toMatchObject({ source: "compact", session_id: first });
    agent.main.finish();
    agent.clear();
    await agent.run();
    expect(desk.heard.slice(-3)).toEqual(["Stop", "SessionEnd", "SessionStart"]);
    expect(agent.sent.at(-2)!["session_id"]).toBe(first);
    expect(agent.sent.at(-1)).toMatchObject({ source: "clear", session_id: agent.sessionId });
    expect(agent.sessionId).not.toBe(first);
    expect(agent.context).toEqual([]);
  });

  test("process dies with a held call → its hook is an orphan; resumed: same session, same memory, new prompt", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: { decision: "hold", token: "t", holdMs: 1 } };
    agent.main.respond([bash("ls")]);
    await agent.run({ patient: false });
    agent.crash();
    desk.held.resolve({ decision: "pass" });
    await agent.run();
    expect(agent.ran).toEqual([]);
    expect(agent.hooks).toEqual([]);
    const next = agent.successor({ resume: true });
    next.start("resume", "[[kiki:1]] payload");
    await next.run();
    expect(next.sessionId).toBe(agent.sessionId);
    expect(next.sent[0]).toMatchObject({ source: "resume", session_id: agent.sessionId });
    expect(next.context).toEqual([
      { kind: "prompt", text: "go" },
      { kind: "prompt", text: "[[kiki:1]] payload" },
    ]);
    expect(agent.successor({ resume: false }).sessionId).not.toBe(agent.sessionId);
  });

  test("sub-agent in the background → own ids, the turn's prompt id, its end is a prompt of its own", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([subAgent("look around")]);
    await agent.run();
    const [[id, sub]] = [...agent.subs] as [[string, (typeof agent)["main"]]];
    sub.respond([bash("ls"), bash("pwd")]);
    await agent.run();
    const inside = agent.sent.filter((p) => p["agent_id"] === id);
    expect(inside.map((p) => p["hook_event_name"])).toContain("PostToolBatch");
    expect(new Set(inside.map((p) => p["prompt_id"]))).toEqual(new Set([agent.promptId]));
    sub.finish("found it");
    agent.main.finish();
    desk.heard.length = 0;
    await agent.run();
    expect(desk.heard.toSorted()).toEqual(["Stop", "SubagentStop", "UserPromptSubmit"]);
    expect(agent.saw("<result>found it</result>")).toBe(true);
  });

  test("sub-agent within a call → the call lasts as long; Esc ends both", async () => {
    const { agent } = await asked();
    const [call] = agent.main.respond([subAgent("look", "foreground")]);
    await agent.run();
    const sub = [...agent.subs.values()][0]!;
    expect(call!.state).toBe("running");
    sub.finish("seen");
    await agent.run();
    expect(call!.result).toContain("seen");
    agent.main.respond([subAgent("again", "foreground")]);
    await agent.run();
    const second = [...agent.subs.values()][1]!;
    second.respond([bash("sleep")]);
    agent.escape();
    expect(second.idle).toBe(true);
    expect(agent.hooks).toEqual([]);
  });

  test("call that asks the person → a notification, and it runs when allowed", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([{ ...write("/ws/a", "1"), asks: true }]);
    await agent.run({ hold: /person/ });
    expect(desk.heard.at(-1)).toBe("Notification");
    await agent.run();
    expect(agent.ran).toHaveLength(1);
  });

  test("/exit → SessionEnd, and no step is left", async () => {
    const { agent, desk } = await asked();
    agent.main.finish();
    agent.exit();
    await agent.run();
    expect(desk.heard).toEqual(["Stop", "SessionEnd"]);
    expect(agent.alive).toBe(false);
    expect(agent.steps()).toEqual([]);
  });
});

describe("seeded", () => {
  /** Three turns of a small model under any order and a tenth of faults. */
  async function play(seed: number): Promise<{ trace: string[]; agent: FakeAgent; desk: Desk }> {
    const random = randomOf(seed);
    let turns = 0;
    const w = world({
      think: (agent, loop) => {
        if (random.chance(0.4)) return loop.finish();
        const specs = [read("/ws/a"), write("/ws/a", "x"), edit("/ws/a", "x", "y")];
        if (loop === agent.main) specs.push(subAgent("s"));
        loop.respond(
          Array.from({ length: 1 + random.below(3) }, () => random.pick(specs)),
          { streamed: random.chance(0.5) },
        );
        if (random.chance(0.1)) agent.prompt("more");
      },
    });
    w.agent.start("startup", "go");
    const trace: string[] = [];
    while (turns < 3) {
      trace.push(...(await w.agent.run({ random, faults: 0.1, limit: 20_000 })));
      turns += 1;
      w.agent.prompt(`turn ${turns}`);
    }
    return { trace, ...w };
  }

  test("any order with faults → the same seed is the same run, and every run rests", async () => {
    for (let seed = 1; seed <= 15; seed += 1) {
      const first = await play(seed);
      const second = await play(seed);
      expect(second.trace).toEqual(first.trace);
      expect(first.agent.violations).toEqual([]);
      expect(first.agent.hooks).toEqual([]);
      expect(first.trace.length).toBeGreaterThan(10);
    }
  });
});
