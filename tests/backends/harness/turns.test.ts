/** What Claude Code's session record and pane say about a turn that nobody's hook has ended (lines of 2.1.332). */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import { CLAUDE_TURNS } from "../../../src/backends/harness/claude-code/turns.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

const main = { isSidechain: false, sessionId: "s", version: "2.1.332" };
const prompt = { ...main, type: "user", promptId: "p1", message: { role: "user", content: "go" } };
const says = {
  ...main,
  type: "assistant",
  message: { id: "msg_1", content: [{ type: "text", text: "[Request interrupted by user]" }] },
};
const result = {
  ...main,
  type: "user",
  message: { content: [{ type: "tool_result", content: "x", tool_use_id: "toolu_1" }] },
};
const broken = (text: string) => ({
  ...main,
  type: "user",
  promptId: "p1",
  rowSource: "harness",
  interruptedMessageId: "msg_1",
  message: { role: "user", content: [{ type: "text", text }] },
});
const after = [{ type: "last-prompt" }, { type: "mode", mode: "normal" }];
const subagent = { ...prompt, isSidechain: true };

function record(...lines: unknown[]): string {
  const file = join(tempDir("record"), "s.jsonl");
  writeFileSync(file, lines.map((l) => (typeof l === "string" ? l : JSON.stringify(l))).join("\n"));
  return file;
}

describe("session record", () => {
  for (const text of [
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
  ])
    test(`${text} is its newest line → ended`, () => {
      expect(CLAUDE_TURNS.inRecord(record(prompt, result, broken(text), ...after))).toBe("ended");
    });

  test("another prompt after it, or an answer that says the same words → working", () => {
    const line = broken("[Request interrupted by user]");
    expect(CLAUDE_TURNS.inRecord(record(line, prompt, ...after))).toBe("working");
    expect(CLAUDE_TURNS.inRecord(record(prompt, says))).toBe("working");
    expect(CLAUDE_TURNS.inRecord(record(line, prompt, result))).toBe("working");
  });

  test("lines of sub-agents, of unknown kinds, torn ones → passed over", () => {
    const line = broken("[Request interrupted by user]");
    const torn = '{"type":"user","isSidechain":false,"mess';
    expect(CLAUDE_TURNS.inRecord(record(prompt, line, subagent, "nonsense", "[1]", torn))).toBe(
      "ended",
    );
  });

  test("no record, an empty one, a folder in its place → nothing", () => {
    expect(CLAUDE_TURNS.inRecord("/nonexistent/s.jsonl")).toBeNull();
    expect(CLAUDE_TURNS.inRecord(record())).toBeNull();
    expect(CLAUDE_TURNS.inRecord(tempDir("folder"))).toBeNull();
  });

  test("path → in the configuration folder, the workspace's path with dashes", () => {
    const at = { workspaceRoot: "/home/me/my_proj.2", sessionId: "abc" };
    expect(CLAUDE_TURNS.recordPath({ ...at, env: { HOME: "/home/me" } })).toBe(
      "/home/me/.claude/projects/-home-me-my-proj-2/abc.jsonl",
    );
    expect(CLAUDE_TURNS.recordPath({ ...at, env: { CLAUDE_CONFIG_DIR: "/c" } })).toStartWith(
      "/c/projects/-home-me",
    );
  });
});

describe("pane", () => {
  const rule = "─".repeat(40);
  const composer = (below: string, typed = ""): string =>
    ["❯ SCRIPT:esc", "  ⎿  $ tail -f /dev/null", rule, `❯ ${typed}`, rule, below, "", ""].join(
      "\n",
    );

  test("offers to interrupt → working", () => {
    const below = "  ⏵⏵ accept edits on (shift+tab to cycle) · esc to interrupt · ← for agents";
    expect(CLAUDE_TURNS.inPane(composer(below))).toBe("working");
  });

  test("a composer, also with something typed, that offers nothing to interrupt → ended", () => {
    const below = "  ⏵⏵ accept edits on (shift+tab to cycle) · ← for agents";
    expect(CLAUDE_TURNS.inPane(composer(below))).toBe("ended");
    expect(CLAUDE_TURNS.inPane(composer(below, "next thing"))).toBe("ended");
  });

  test("a dialog, an empty pane, a shell → nothing", () => {
    const dialog = [
      " Do you want to create asked.txt?",
      " ❯ 1. Yes",
      "   2. No",
      "",
      " Esc to cancel",
    ];
    for (const text of [dialog.join("\n"), "", "$ ls\nfile\n"])
      expect(CLAUDE_TURNS.inPane(text)).toBeNull();
  });
});
