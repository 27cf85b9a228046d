/** What differs between harnesses as an agent in memory plays them: payloads, refusals, which events there are, records. */
import type { HookEnd } from "./agent-hook.ts";
import type { HookPayload } from "./agent-protocol.ts";
import type { ToolSpec } from "./agent-tools.ts";

/** Where an event happens. */
export interface EventPlace {
  sessionId: string;
  /** Of the running turn; null before the first. */
  promptId: string | null;
  cwd: string;
  /** null for the main agent. */
  agent: { id: string; type: string } | null;
}

/** The session record of a harness whose record is its witness. Lines are there as soon as a method returns. */
export interface CallRecord {
  /** A call of the response that streams. */
  called(sessionId: string, call: { id: string; spec: ToolSpec }): void;
  /** The response is complete and counted. A person's Esc comes first: it never is. */
  completed(sessionId: string): void;
  /** What the model gets for a call. */
  answered(sessionId: string, id: string, text: string): void;
}

export interface Manner {
  /** The fields that every event of this name has. */
  common(event: string, at: EventPlace): HookPayload;
  /** The reason that a `PreToolUse` hook gave; null: the tool runs. */
  refusalIn(end: HookEnd): string | null;
  /** What the model gets of a refused call. */
  refused(spec: ToolSpec, reason: string): string;
  /** What it gets of a call that the person broke off. */
  readonly rejected: string;
  /** May run beside other such calls of its response; any other runs alone, hook included. */
  besideOthers(spec: ToolSpec): boolean;
  /** `PostToolBatch` says that all calls of a response are over. */
  readonly closes: boolean;
  /** The event of a tool that failed; null: it has none. */
  readonly failureEvent: string | null;
  /** The event of a turn that a person breaks off; null: it has none. */
  readonly interruptEvent: string | null;
  /**
   * Esc before anything has come of a prompt puts it into the composer again, and takes it out of the conversation. If not:
   * it stays in the conversation, unless its own hook had not ended.
   */
  readonly takesBack: boolean;
  /** `SessionStart` comes with the first prompt only. */
  readonly startsLate: boolean;
  readonly record: CallRecord | null;
}

/** What a model of Claude Code is told about a call that the person interrupted. */
export const REJECTED =
  "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a " +
  "file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the " +
  "user to tell you how to proceed.";

/** Which of the common fields an event has, besides session and folder (2.1.332; measured, they differ). */
const COMMON: Record<string, readonly ("prompt" | "mode" | "agent")[]> = {
  SessionStart: [],
  UserPromptSubmit: ["prompt", "mode"],
  Notification: ["prompt"],
  SessionEnd: ["prompt"],
};
const ALL_COMMON = ["prompt", "mode", "agent"] as const;

/** Claude Code 2.1.332. */
export const CLAUDE_CODE: Manner = {
  common(event, { sessionId, promptId, cwd, agent }) {
    const has: readonly string[] = COMMON[event] ?? ALL_COMMON;
    return {
      session_id: sessionId,
      transcript_path: `${cwd}/../records/${sessionId}.jsonl`,
      cwd,
      ...(has.includes("prompt") && promptId !== null ? { prompt_id: promptId } : {}),
      ...(has.includes("mode") ? { permission_mode: "default" } : {}),
      ...(has.includes("agent") && agent !== null
        ? { agent_id: agent.id, agent_type: agent.type }
        : {}),
    };
  },
  refusalIn(end) {
    return end.kind === "output"
      ? denialIn(end.stdout)
      : `[hook]: failed; blocking because onFailure is "block"`;
  },
  refused: (spec, reason) => `PreToolUse:${spec.name} hook error: ${reason}`,
  rejected: REJECTED,
  besideOthers: (spec) => spec.concurrent,
  closes: true,
  failureEvent: "PostToolUseFailure",
  interruptEvent: null,
  takesBack: true,
  startsLate: false,
  record: null,
};

/** What both harnesses read as a denial (2.1.332, 0.171.0): what is not whole JSON counts as text, and the tool runs. */
export function denialIn(stdout: string): string | null {
  let verdict: unknown;
  try {
    verdict = JSON.parse(stdout);
  } catch {
    return null;
  }
  const specific = (verdict as { hookSpecificOutput?: Record<string, unknown> } | null)
    ?.hookSpecificOutput;
  if (specific?.["hookEventName"] !== "PreToolUse") return null;
  if (specific["permissionDecision"] !== "deny") return null;
  const reason = specific["permissionDecisionReason"];
  return typeof reason === "string" ? reason : "Blocked by hook";
}
