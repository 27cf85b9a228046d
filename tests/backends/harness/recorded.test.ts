/** Hook payloads of the real harness, as the gate recorded them, mean to the adapter what they should. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import type { HarnessEvent } from "../../../src/ports/harness.ts";

const FOLDER = join(import.meta.dir, "../../../fixtures/hooks/claude-code/2.1.332");
const SESSION = "00000000-0000-4000-8000-000000000001";
const PROMPT = "00000000-0000-4000-8000-000000000002";
const HELPER = "a0000000000000003";
/** Reason the gate denied two calls with; white space and letters beyond ASCII must survive. */
const REASON =
  '[kiki] Not now.\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end of message from kiki)';

const harness = new ClaudeCodeHarness();
const main = { sessionId: SESSION, agentId: null, promptId: PROMPT };
const helper = { ...main, agentId: HELPER };

const MEANINGS: Readonly<Record<string, Partial<HarnessEvent>>> = {
  SessionStart: { type: "SessionStarted", sessionId: SESSION, source: "startup" },
  "SessionStart.resume": { type: "SessionStarted", sessionId: SESSION, source: "resume" },
  "SessionStart.compact": { type: "SessionStarted", sessionId: SESSION, source: "compact" },
  "SessionStart.clear": {
    type: "SessionStarted",
    sessionId: "00000000-0000-4000-8000-000000000006",
    source: "clear",
  },
  "SessionEnd.clear": { type: "SessionEnded", sessionId: SESSION, reason: "clear" },
  "Notification.idle": { type: "Attention", sessionId: SESSION, kind: "idle_prompt" },
  UserPromptSubmit: {
    type: "UserPrompt",
    sessionId: SESSION,
    promptId: PROMPT,
    prompt: "-x --settings no option\nSCRIPT:launch [[kiki:startup-1]]",
  },
  "UserPromptSubmit.task-notification": { type: "UserPrompt", promptId: PROMPT },
  PreToolUse: { type: "PreTool", ...main, toolUseId: "toolu_0003_1", toolName: "Bash" },
  "PreToolUse.subagent": {
    type: "PreTool",
    ...helper,
    toolUseId: "toolu_0006_0",
    toolName: "Bash",
  },
  PostToolUse: { type: "PostTool", ...main, toolUseId: "toolu_0003_1", failed: false },
  "PostToolUse.background-agent": { type: "PostTool", ...main, toolName: "Agent", failed: false },
  PostToolUseFailure: { type: "PostTool", ...main, toolUseId: "toolu_0003_3", failed: true },
  PostToolBatch: {
    type: "BatchClosed",
    ...main,
    calls: [
      {
        toolUseId: "toolu_0003_1",
        toolName: "Bash",
        response: "from user settings\nfrom project settings",
      },
      { toolUseId: "toolu_0003_2", toolName: "Read", response: "1\tone\n2\t" },
      {
        toolUseId: "toolu_0003_3",
        toolName: "Bash",
        response: "Exit code 1\ncat: nowhere.txt: No such file or directory",
      },
    ],
  },
  "PostToolBatch.denied": {
    type: "BatchClosed",
    ...main,
    calls: ["Bash", "Write"].map((toolName, i) => ({
      toolUseId: `toolu_0009_${i}`,
      toolName,
      response: harness.expectedResult(REASON, { toolName }),
    })),
  },
  "PostToolBatch.background-agent": { type: "BatchClosed", ...main },
  "PostToolBatch.subagent": { type: "BatchClosed", ...helper },
  Notification: {
    type: "Attention",
    sessionId: SESSION,
    kind: "permission_prompt",
    message: "Claude needs your permission",
  },
  Stop: { type: "TurnStopped", ...main },
  SubagentStop: { type: "TurnStopped", ...helper },
  SessionEnd: { type: "SessionEnded", sessionId: SESSION, reason: "prompt_input_exit" },
};

const recorded = readdirSync(FOLDER).map((file) => file.replace(/\.json$/, ""));

describe("recorded hook payloads of Claude Code 2.1.332", () => {
  test("every recording has a meaning, every meaning a recording", () => {
    expect(recorded.toSorted()).toEqual(Object.keys(MEANINGS).toSorted());
  });

  for (const name of recorded) {
    test(`${name}: recorded payload → the event it is`, () => {
      const raw: unknown = JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8"));
      expect(harness.interpretEvent(raw)).toMatchObject(MEANINGS[name] ?? { type: "none" });
    });
  }

  test("a background agent's launch: its result is no string → kept readable, never a denial", () => {
    const raw: unknown = JSON.parse(
      readFileSync(join(FOLDER, "PostToolBatch.background-agent.json"), "utf8"),
    );
    const event = harness.interpretEvent(raw);
    expect(event.type === "BatchClosed" && event.calls[0]?.response).toContain(
      "Async agent launched",
    );
  });
});
