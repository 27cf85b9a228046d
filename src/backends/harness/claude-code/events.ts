/** Claude Code's hook payloads (observed on 2.1.332) as events of the harness port. Unknown fields are ignored. */
import { fail } from "../../../core/errors.ts";
import type { HarnessEvent } from "../../../ports/harness.ts";

type Raw = Record<string, unknown>;

/**
 * Throws KikiError `bad-hook-payload` where the field is missing that says whom or what a known event is about.
 * Events kiki has no use for, and ones it does not know, are `Other`.
 */
export function interpretClaudeEvent(raw: unknown): HarnessEvent {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    throw fail("usage", "bad-hook-payload", "a hook payload is a JSON object");
  }
  const p = raw as Raw;
  const name = text(p, "hook_event_name") ?? "";
  switch (name) {
    case "SessionStart":
      return {
        type: "SessionStarted",
        sessionId: need(p, name, "session_id"),
        source: text(p, "source") ?? "",
        transcriptPath: text(p, "transcript_path"),
      };
    case "UserPromptSubmit":
      return {
        type: "UserPrompt",
        sessionId: need(p, name, "session_id"),
        promptId: text(p, "prompt_id"),
        prompt: text(p, "prompt") ?? "",
      };
    case "PreToolUse":
      return { type: "PreTool", ...call(p, name), recordPath: text(p, "transcript_path") };
    case "PostToolUse":
      return { type: "PostTool", ...call(p, name), failed: false };
    case "PostToolUseFailure":
      return { type: "PostTool", ...call(p, name), failed: true };
    case "PostToolBatch":
      return { type: "BatchClosed", ...place(p, name), calls: batchCalls(p, name) };
    case "Stop":
      return { type: "TurnStopped", ...place(p, name) };
    case "SubagentStop":
      // Without its agent it would read as the end of the main agent's turn.
      return text(p, "agent_id") === null
        ? { type: "Other", name }
        : { type: "TurnStopped", ...place(p, name) };
    case "Notification":
      return {
        type: "Attention",
        sessionId: need(p, name, "session_id"),
        kind: text(p, "notification_type") ?? "notification",
        message: text(p, "message") ?? "",
      };
    case "SessionEnd":
      return {
        type: "SessionEnded",
        sessionId: need(p, name, "session_id"),
        reason: text(p, "reason") ?? "",
      };
    default:
      return { type: "Other", name };
  }
}

/** Whose turn: session, agent (null for the main one), prompt. */
function place(p: Raw, event: string) {
  return {
    sessionId: need(p, event, "session_id"),
    agentId: text(p, "agent_id"),
    promptId: text(p, "prompt_id"),
  };
}

function call(p: Raw, event: string) {
  return {
    ...place(p, event),
    toolUseId: need(p, event, "tool_use_id"),
    toolName: text(p, "tool_name") ?? "",
  };
}

function batchCalls(p: Raw, event: string) {
  const calls: unknown = p["tool_calls"];
  if (!Array.isArray(calls)) throw missing(event, "tool_calls");
  return (calls as unknown[]).map((entry) => {
    const one = (typeof entry === "object" && entry !== null ? entry : {}) as Raw;
    const response: unknown = one["tool_response"];
    return {
      toolUseId: need(one, event, "tool_use_id"),
      toolName: text(one, "tool_name") ?? "",
      // A string for everything seen so far; another shape cannot be a deny and is kept readable.
      response: typeof response === "string" ? response : JSON.stringify(response ?? null),
    };
  });
}

function text(p: Raw, field: string): string | null {
  const value = p[field];
  return typeof value === "string" && value !== "" ? value : null;
}

function need(p: Raw, event: string, field: string): string {
  const value = text(p, field);
  if (value === null) throw missing(event, field);
  return value;
}

function missing(event: string, field: string): Error {
  return fail("usage", "bad-hook-payload", `a ${event} hook payload has no ${field}`);
}
