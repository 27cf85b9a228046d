/** Claude Code's hook payloads (observed on 2.1.332) as events of the harness port. Unknown fields are ignored. */
import type { HarnessEvent } from "../../../ports/harness.ts";
import { HookPayload, type Raw } from "../payload.ts";

/**
 * Throws KikiError `bad-hook-payload` where the field is missing that says whom or what a known event is about.
 * Events kiki has no use for, and ones it does not know, are `Other`.
 */
export function interpretClaudeEvent(raw: unknown): HarnessEvent {
  const payload = new HookPayload(raw, "prompt_id");
  switch (payload.event) {
    case "PostToolUseFailure":
      return { type: "PostTool", ...payload.call(), failed: true };
    case "PostToolBatch":
      return { type: "BatchClosed", ...payload.place(), calls: batchCalls(payload) };
    case "Notification":
      return {
        type: "Attention",
        sessionId: payload.need("session_id"),
        kind: payload.text("notification_type") ?? "notification",
        message: payload.text("message") ?? "",
      };
    default:
      return payload.common();
  }
}

function batchCalls(payload: HookPayload) {
  const calls = payload.field("tool_calls");
  if (!Array.isArray(calls)) throw payload.missing("tool_calls");
  return (calls as unknown[]).map((entry) => {
    const one = (typeof entry === "object" && entry !== null ? entry : {}) as Raw;
    const response = one["tool_response"];
    return {
      toolUseId: payload.need("tool_use_id", one),
      toolName: payload.text("tool_name", one) ?? "",
      // A string for everything seen so far; another shape cannot be a deny and is kept readable.
      response: typeof response === "string" ? response : JSON.stringify(response ?? null),
    };
  });
}
