/** The identity of a hook in Codex's trust store (0.171.0; equals `currentHash` of its `hooks/list`). */
import { canonicalJson } from "../../../core/canonical.ts";

/**
 * Codex goes by its own clock also while it is stopped, and once the limit has passed it runs the tool, whatever the hook
 * has said: so the limit outlasts the longest time that an agent stands still for a person. kiki's own limits come first.
 */
const YEAR_S = 365 * 86_400;

/** Every hook event of 0.171.0 that kiki uses, with the most seconds Codex lets it have. */
export const HOOK_EVENTS = {
  PreToolUse: { label: "pre_tool_use", timeoutS: YEAR_S },
  PermissionRequest: { label: "permission_request", timeoutS: 600 },
  PostToolUse: { label: "post_tool_use", timeoutS: 600 },
  SessionStart: { label: "session_start", timeoutS: 600 },
  UserPromptSubmit: { label: "user_prompt_submit", timeoutS: 600 },
  SubagentStop: { label: "subagent_stop", timeoutS: 600 },
  Stop: { label: "stop", timeoutS: 600 },
  // Codex cuts these two to 3 s, and the hash is over what it has cut.
  Interrupt: { label: "interrupt", timeoutS: 3 },
  SessionEnd: { label: "session_end", timeoutS: 3 },
} as const;
export type HookEventName = keyof typeof HOOK_EVENTS;

/** Key of the only hook of `event` in the file at this real path. */
export function trustKey(file: string, event: HookEventName): string {
  return `${file}:${HOOK_EVENTS[event].label}:0:0`;
}

/** `sha256:<hex>` over what decides how the hook runs, but not over the program it names. */
export function trustHash(event: HookEventName, command: string): string {
  const { label, timeoutS } = HOOK_EVENTS[event];
  const hook = { type: "command", command, timeout: timeoutS, async: false };
  const text = canonicalJson({ event_name: label, hooks: [hook] });
  return `sha256:${new Bun.CryptoHasher("sha256").update(text).digest("hex")}`;
}
