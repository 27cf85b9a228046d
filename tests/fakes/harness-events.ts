/**
 * Hook payloads, read strictly: the vocabulary of Claude Code 2.1.332 and nothing else. The adapter tolerates what a
 * later version may add; a fake world never sends it, so here it is a mistake in a test.
 */
import { fail } from "../../src/core/errors.ts";
import type { HarnessEvent } from "../../src/ports/harness.ts";

type Payload = Record<string, unknown>;
type Reader = (p: Payload) => HarnessEvent;

const text = (p: Payload, field: string): string => {
  const value = p[field];
  if (typeof value === "string" && value !== "") return value;
  const event = JSON.stringify(p["hook_event_name"]);
  throw fail("usage", "bad-hook-payload", `a ${event} hook payload has no ${field}`);
};
const optional = (p: Payload, field: string): string | null =>
  p[field] === undefined ? null : text(p, field);

const place = (p: Payload) => ({
  sessionId: text(p, "session_id"),
  agentId: optional(p, "agent_id"),
  promptId: text(p, "prompt_id"),
});
const call = (p: Payload) => ({
  ...place(p),
  toolUseId: text(p, "tool_use_id"),
  toolName: text(p, "tool_name"),
});

function closed(p: Payload): HarnessEvent {
  const entries = p["tool_calls"];
  if (!Array.isArray(entries) || entries.length === 0) {
    throw fail("usage", "bad-hook-payload", "a PostToolBatch lists its calls");
  }
  const calls = (entries as Payload[]).map((entry) => ({
    toolUseId: text({ ...entry, hook_event_name: "PostToolBatch" }, "tool_use_id"),
    toolName: text({ ...entry, hook_event_name: "PostToolBatch" }, "tool_name"),
    response: response(entry["tool_response"]),
  }));
  return { type: "BatchClosed", ...place(p), calls };
}

/** A string, or an agent's list of parts; nothing else was ever seen. */
function response(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return JSON.stringify(value);
  throw fail("usage", "bad-hook-payload", "a tool_response is a string or a list of parts");
}

const READERS: Record<string, Reader> = {
  SessionStart: (p) => ({
    type: "SessionStarted",
    sessionId: text(p, "session_id"),
    source: text(p, "source"),
    transcriptPath: text(p, "transcript_path"),
  }),
  UserPromptSubmit: (p) => ({
    type: "UserPrompt",
    sessionId: text(p, "session_id"),
    promptId: text(p, "prompt_id"),
    prompt: text(p, "prompt"),
  }),
  PreToolUse: (p) => ({ type: "PreTool", ...call(p), recordPath: optional(p, "transcript_path") }),
  PostToolUse: (p) => ({ type: "PostTool", ...call(p), failed: false }),
  PostToolUseFailure: (p) => ({ type: "PostTool", ...call(p), failed: true }),
  PostToolBatch: closed,
  Stop: (p) => ({ type: "TurnStopped", ...place(p), agentId: null }),
  SubagentStop: (p) => ({ type: "TurnStopped", ...place(p), agentId: text(p, "agent_id") }),
  Notification: (p) => ({
    type: "Attention",
    sessionId: text(p, "session_id"),
    kind: text(p, "notification_type"),
    message: text(p, "message"),
  }),
  SessionEnd: (p) => ({
    type: "SessionEnded",
    sessionId: text(p, "session_id"),
    reason: text(p, "reason"),
  }),
  PreSkillShellCommand: () => ({ type: "Other", name: "PreSkillShellCommand" }),
};

/** Throws KikiError `bad-hook-payload` on everything that the pinned version does not send. */
export function readStrictly(raw: unknown): HarnessEvent {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    throw fail("usage", "bad-hook-payload", "a hook payload is a JSON object");
  }
  const p = raw as Payload;
  const name = text(p, "hook_event_name");
  const reader = Object.hasOwn(READERS, name) ? READERS[name] : undefined;
  if (reader === undefined) throw fail("usage", "bad-hook-payload", `no hook is called ${name}`);
  text(p, "session_id");
  text(p, "cwd");
  return reader(p);
}
