/** The agent in memory in the manner of Codex 0.171.0: what its hooks are told, and what its session record says when. */
import { describe, expect, test } from "bun:test";
import { codexManner, codexRecord, HOOK_FAILED, mcpTool, patch } from "./agent-codex.ts";
import { deny, world } from "./agent-desk.ts";
import { bash, unknownTool } from "./agent-tools.ts";
import { FakeRecords, FakeSerialHarness } from "./serial-harness.ts";

async function asked() {
  const records = new FakeRecords();
  const w = world({ manner: codexManner(records, "/ws") });
  const reader = new FakeSerialHarness(records);
  w.desk.reads = (raw) => reader.interpretEvent(raw);
  w.agent.start("startup", "go");
  await w.agent.run();
  const lines = (): string[] =>
    records
      .lines(codexRecord("/ws", w.agent.sessionId))
      .map((line) => (line.is === "usage" ? "usage" : `${line.is} ${line.id}`));
  return { ...w, records, lines };
}

describe("an agent in the manner of Codex", () => {
  test("start with a prompt → its session is reported with it, and not before", async () => {
    const { desk, agent } = await asked();
    expect(desk.heard).toEqual(["SessionStart", "UserPromptSubmit"]);
    const idle = world({ manner: codexManner(new FakeRecords(), "/ws") });
    idle.agent.start("startup");
    await idle.agent.run();
    expect(idle.agent.sent).toEqual([]);
    expect(agent.main.thinking).toBe(true);
  });

  test("one call → line, hook, count, tool, event, result, and no closing event", async () => {
    const { desk, agent, lines } = await asked();
    agent.main.respond([bash("ls")]);
    expect(lines()).toEqual(["call toolu_1"]);
    await agent.run();
    expect(desk.heard.slice(2)).toEqual(["PreToolUse toolu_1", "PostToolUse toolu_1"]);
    expect(lines()).toEqual(["call toolu_1", "usage", "output toolu_1"]);
    expect(agent.main.thinking).toBe(true);
    agent.main.finish();
    await agent.run();
    expect(desk.heard.at(-1)).toBe("Stop");
  });

  test("refused → the whole command, or the tool's name, in its wrapper, and no event", async () => {
    const { desk, agent, records } = await asked();
    desk.answers = { toolu_1: deny("[kiki] moved"), toolu_2: deny("[kiki] moved") };
    agent.main.respond([bash("ls -la")]);
    await agent.run();
    agent.main.respond([mcpTool()]);
    await agent.run();
    const { outputs } = records.read(codexRecord("/ws", agent.sessionId))!;
    expect([...outputs.values()]).toEqual([
      "Command blocked by PreToolUse hook: [kiki] moved. Command: ls -la",
      "Tool call blocked by PreToolUse hook: [kiki] moved. Tool: mcp__mk__peek",
    ]);
    expect(desk.heard.filter((one) => one.startsWith("PostToolUse"))).toEqual([]);
    expect(agent.ran).toEqual([]);
  });

  test("launcher dies → refused by the command's last line", async () => {
    const { agent } = await asked();
    agent.main.respond([bash("ls")]);
    agent.hook("toolu_1").killLauncher();
    expect(agent.denied[0]!.reason).toBe(HOOK_FAILED);
  });

  test("two commands in one response → both hooks at once; results after the count, before the next response", async () => {
    const { agent, lines, records } = await asked();
    agent.main.respond([bash("ls"), bash("pwd", () => "/ws")]);
    expect(agent.hooks).toHaveLength(2);
    await agent.run();
    expect(lines().slice(0, 3)).toEqual(["call toolu_1", "call toolu_2", "usage"]);
    agent.main.respond([bash("ls")]);
    const { responses } = records.read(codexRecord("/ws", agent.sessionId))!;
    expect([...responses.values()]).toEqual([0, 0, 1]);
    expect(lines().slice(3, 5).sort()).toEqual(["output toolu_1", "output toolu_2"]);
  });

  test("a patch beside a command → alone, hook included", async () => {
    const { agent } = await asked();
    agent.main.respond([patch("a.txt", () => "Done!"), bash("ls")]);
    expect(agent.hooks).toHaveLength(1);
    await agent.run();
    expect(agent.ran.map((call) => call.id)).toEqual(["toolu_1", "toolu_2"]);
  });

  test("a tool that does not exist, a patch that does not apply → a result, and no event of an end", async () => {
    const { desk, agent, lines } = await asked();
    agent.main.respond([unknownTool("update_plan")]);
    await agent.run();
    agent.main.respond([
      patch("a.txt", () => {
        throw new Error("does not apply");
      }),
    ]);
    await agent.run();
    expect(desk.heard.slice(2)).toEqual(["PreToolUse toolu_2"]);
    expect(lines()).toContain("output toolu_2");
  });

  test("command that returns while its process runs → a result now, its event when that ends", async () => {
    const { desk, agent, lines } = await asked();
    let ends: () => void = () => undefined;
    agent.main.respond([{ ...bash("watch", () => "session 1"), background: (e) => (ends = e) }]);
    await agent.run();
    expect(lines()).toContain("output toolu_1");
    expect(desk.heard.at(-1)).toBe("PreToolUse toolu_1");
    ends();
    await agent.run();
    expect(desk.heard.at(-1)).toBe("PostToolUse toolu_1");
  });

  test("Esc → an event of its own, the call is aborted, a response that was not complete is never counted", async () => {
    const { desk, agent, lines } = await asked();
    agent.main.respond([bash("ls")]);
    await agent.run({ hold: /finishes|response completes/ });
    agent.escape();
    await agent.run();
    expect(desk.heard.at(-1)).toBe("Interrupt");
    expect(lines()).toEqual(["call toolu_1", "output toolu_1"]);
    agent.prompt("go on");
    await agent.run();
    expect(agent.main.thinking).toBe(true);
  });
});
