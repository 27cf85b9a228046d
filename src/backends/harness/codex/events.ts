/** Codex's hook payloads (observed on 0.171.0) as events of the harness port. Unknown fields are ignored. */
import { fail } from "../../../core/errors.ts";
import type { HarnessEvent } from "../../../ports/harness.ts";

type Raw = Record<string, unknown>;

/**
 * Throws KikiError `bad-hook-payload` where the field is missing that says whom or what a known event is about.
 * Events kiki has no use for, and ones it does not know, are `Other`. `turn_id` is per turn, not per prompt: what is
 * typed while a tool runs has that of the running turn.
 */
export function interpretCodexEvent(raw: unknown): HarnessEvent {
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
        promptId: text(p, "turn_id"),
        prompt: text(p, "prompt") ?? "",
      };
    case "PreToolUse":
      return { type: "PreTool", ...call(p, name), recordPath: text(p, "transcript_path") };
    case "PostToolUse":
      // A failing command has one, too: what it printed says so, no field does.
      return { type: "PostTool", ...call(p, name), failed: false };
    case "Stop":
      return { type: "TurnStopped", ...place(p, name) };
    case "SubagentStop":
      // Without its agent it would read as the end of the main agent's turn.
      return text(p, "agent_id") === null
        ? { type: "Other", name }
        : { type: "TurnStopped", ...place(p, name) };
    case "Interrupt":
      return {
        type: "TurnInterrupted",
        sessionId: need(p, name, "session_id"),
        promptId: text(p, "turn_id"),
      };
    case "PermissionRequest":
      return {
        type: "Attention",
        sessionId: need(p, name, "session_id"),
        kind: "permission_prompt",
        message: `Codex asks whether it may use ${text(p, "tool_name") ?? "a tool"}`,
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

/** Whose turn: session (of the main agent, also for a helper's events), agent (null for the main one), turn. */
function place(p: Raw, event: string) {
  return {
    sessionId: need(p, event, "session_id"),
    agentId: text(p, "agent_id"),
    promptId: text(p, "turn_id"),
  };
}

function call(p: Raw, event: string) {
  return {
    ...place(p, event),
    toolUseId: need(p, event, "tool_use_id"),
    toolName: text(p, "tool_name") ?? "",
  };
}

function text(p: Raw, field: string): string | null {
  const value = p[field];
  return typeof value === "string" && value !== "" ? value : null;
}

function need(p: Raw, event: string, field: string): string {
  const value = text(p, field);
  if (value !== null) return value;
  throw fail("usage", "bad-hook-payload", `a ${event} hook payload has no ${field}`);
}
