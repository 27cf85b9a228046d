/** The fake agent by itself: what its hooks ask, in which order, and what it does with each answer. */
import { describe, expect, test } from "bun:test";
import { fail } from "../../src/core/errors.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { asked, delivered, deny, harness, world } from "./agent-desk.ts";
import { bash, read, unknownTool, write } from "./agent-tools.ts";

describe("turns and batches", () => {
  test("start with a prompt, one call, end → the hooks of Claude Code in its order", async () => {
    const { agent, desk, files } = world();
    agent.start("startup", "go");
    await agent.run();
    agent.main.respond([write("/ws/a", "1")]);
    await agent.run();
    agent.main.finish();
    await agent.run();
    expect(desk.heard).toEqual([
      "SessionStart",
      "UserPromptSubmit",
      "PreToolUse toolu_1",
      "PostToolUse toolu_1",
      "PostToolBatch",
      "Stop",
    ]);
    expect(files.get("/ws/a")).toBe("1");
    const prompts = new Set(agent.sent.slice(1).map((p) => p["prompt_id"]));
    expect(prompts.size).toBe(1);
    expect(agent.sent[0]).not.toHaveProperty("prompt_id");
  });

  test("reads and writes in one response → reads ask together, each write waits for its turn", async () => {
    const { agent } = await asked();
    agent.main.respond([read("/ws/a"), read("/ws/b"), write("/ws/c", ""), write("/ws/d", "")]);
    const asking = () => agent.hooks.map((h) => h.payload["tool_use_id"]);
    expect(asking()).toEqual(["toolu_1", "toolu_2"]);
    await agent.run({ hold: /^toolu_[34]/ });
    expect(asking()).toEqual(["toolu_3"]);
  });

  test("concurrent hooks → a test lets them arrive in any order; the closing event keeps the response's", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([read("/ws/a"), read("/ws/b"), read("/ws/c")]);
    agent.step(/^toolu_3 .*asks/);
    agent.step(/^toolu_1 .*asks/);
    await agent.run();
    expect(desk.heard.slice(0, 3)).toEqual([
      "PreToolUse toolu_3",
      "PreToolUse toolu_1",
      "PreToolUse toolu_2",
    ]);
    const closing = agent.sent.at(-1)!["tool_calls"] as { tool_use_id: string }[];
    expect(closing.map((c) => c.tool_use_id)).toEqual(["toolu_1", "toolu_2", "toolu_3"]);
  });

  test("streamed response → the first tool has run before the sibling's hook exists", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([read("/ws/a"), read("/ws/b")], { streamed: true });
    agent.step(/toolu_1: arrives/);
    await agent.run({ hold: /toolu_2/ });
    expect(agent.ran.map((c) => c.id)).toEqual(["toolu_1"]);
    expect(desk.heard).toEqual(["PreToolUse toolu_1", "PostToolUseFailure toolu_1"]);
    expect(() => agent.step(/batch closes$/)).toThrow();
    await agent.run();
    expect(desk.heard.at(-1)).toBe("PostToolBatch");
  });

  test("call of an unknown tool → only in the closing event, with its refusal", async () => {
    const { agent, desk } = await asked();
    agent.main.respond([unknownTool("Fly"), bash("ls")]);
    await agent.run();
    expect(desk.heard).toEqual(["PreToolUse toolu_2", "PostToolUse toolu_2", "PostToolBatch"]);
    expect(JSON.stringify(agent.sent.at(-1))).toContain("No such tool available: Fly");
  });

  test("closing event: missing, twice, late, replayed → the model goes on as in life", async () => {
    const { agent, desk } = await asked();
    for (const how of ["missing", "twice", "detached"] as const) {
      desk.heard.length = 0;
      agent.main.respond([bash("ls")]);
      await agent.run({ hold: /batch closes/ });
      agent.main.close(how);
      expect(agent.main.thinking).toBe(how !== "twice");
      await agent.run();
      expect(agent.main.thinking).toBe(true);
      const closings = desk.heard.filter((h) => h === "PostToolBatch").length;
      expect(closings).toBe({ missing: 0, twice: 2, detached: 1 }[how]);
    }
    agent.main.replay(agent.main.batches[0]!);
    await agent.run();
    const ids = (agent.sent.at(-1)!["tool_calls"] as { tool_use_id: string }[])[0]!.tool_use_id;
    expect(ids).toBe("toolu_1");
  });

  test("model asked too early → an error of the test, not a silent answer", async () => {
    const { agent } = await asked();
    agent.main.respond([bash("ls")]);
    expect(() => agent.main.respond([bash("ls")])).toThrow("the model is not asked");
    expect(() => agent.main.finish()).toThrow("the model is not asked");
  });
});

describe("answers", () => {
  test("deny → the tool never runs, the model gets the reason in the wrapper, siblings run", async () => {
    const { agent, desk, files } = await asked();
    desk.answers = { toolu_1: deny("[kiki] no\n  ünïcödé ✓") };
    agent.main.respond([write("/ws/a", "1"), write("/ws/b", "2")]);
    await agent.run();
    expect(agent.denied.map((d) => d.reason)).toEqual(["[kiki] no\n  ünïcödé ✓"]);
    expect(agent.ran.map((c) => c.id)).toEqual(["toolu_2"]);
    expect(files.get("/ws/a")).toBeNull();
    expect(agent.context).toContainEqual({
      kind: "result",
      toolUseId: "toolu_1",
      text: harness.expectedResult("[kiki] no\n  ünïcödé ✓", { toolName: "Write" }),
    });
    expect(agent.violations).toEqual([]);
  });

  test("hold → confirmed, waits; released → runs; denied → delivery marked after printing", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: { decision: "hold", token: "t", holdMs: 1 } };
    agent.main.respond([bash("ls")]);
    await agent.run({ patient: false });
    expect(desk.heard).toEqual(["PreToolUse toolu_1", "hold t"]);
    expect(agent.ran).toEqual([]);
    desk.held.resolve({ ...deny("[kiki] moved"), delivered } as HookDecision);
    await agent.run({ until: () => desk.heard.includes("delivered i") });
    expect(agent.denied).toEqual([]); // printed, and not heard yet
    await agent.run();
    expect(agent.denied.map((d) => d.reason)).toEqual(["[kiki] moved"]);
  });

  test("daemon refuses the caller → denied with its words; fails → outage path", async () => {
    const { agent, desk } = await asked();
    desk.answers = {
      toolu_1: fail("approval", "incarnation-retired", "replaced"),
      toolu_2: fail("failed", "internal", "broken"),
    };
    agent.main.respond([bash("ls"), bash("pwd")]);
    await agent.run();
    expect(agent.denied[0]!.reason).toContain("replaced");
    expect(agent.ran.map((c) => c.id)).toEqual(["toolu_2"]);
    expect(desk.passed.size).toBe(1);
  });

  test("output that is not whole JSON → the tool runs, as with the real harness", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: { decision: "deny", output: '{"hookSp' } };
    agent.main.respond([bash("ls")]);
    await agent.run();
    expect(agent.ran).toHaveLength(1);
  });

  test("harness that runs what was refused, or alters the text → recorded as a violation", async () => {
    const { agent, desk } = await asked();
    desk.answers = { toolu_1: deny("no"), toolu_2: deny("no") };
    agent.misbehaviour = { runsDenied: (c) => c.id === "toolu_1", alters: () => "no." };
    agent.main.respond([bash("ls"), bash("pwd")]);
    await agent.run();
    expect(agent.violations[0]).toBe("toolu_1 started although its hook refused it");
    expect(agent.context).toContainEqual({ kind: "result", toolUseId: "toolu_2", text: "no." });
  });

  test("tool at work while the world forbids it → recorded with the reason", async () => {
    let why: string | null = null;
    const { agent } = await asked({ forbidden: () => why });
    agent.main.respond([write("/ws/a", "1")]);
    await agent.run({ hold: /finishes/ });
    why = "files are changing";
    await agent.run();
    expect(agent.violations).toEqual(["toolu_1 finished: files are changing"]);
  });
});
