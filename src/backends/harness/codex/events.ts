/** Codex's hook payloads (observed on 0.171.0) as events of the harness port. Unknown fields are ignored. */
import type { HarnessEvent } from "../../../ports/harness.ts";
import { HookPayload } from "../payload.ts";

/**
 * Throws KikiError `bad-hook-payload` where the field is missing that says whom or what a known event is about.
 * Events kiki has no use for, and ones it does not know, are `Other`. `turn_id` is per turn, not per prompt: what is
 * typed while a tool runs has that of the running turn.
 */
export function interpretCodexEvent(raw: unknown): HarnessEvent {
  const payload = new HookPayload(raw, "turn_id");
  switch (payload.event) {
    case "Interrupt":
      return {
        type: "TurnInterrupted",
        sessionId: payload.need("session_id"),
        promptId: payload.text("turn_id"),
      };
    case "PermissionRequest":
      return {
        type: "Attention",
        sessionId: payload.need("session_id"),
        kind: "permission_prompt",
        message: `Codex asks whether it may use ${payload.text("tool_name") ?? "a tool"}`,
      };
    default:
      return payload.common();
  }
}
