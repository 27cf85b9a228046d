/**
 * Reading hook payloads. Codex (observed on 0.171.0) took the events of Claude Code (2.1.332) over, down to the names of
 * their fields; only what names a prompt differs, and each has events of its own.
 */
import { fail } from "../../core/errors.ts";
import type { HarnessEvent } from "../../ports/harness.ts";

export type Raw = Readonly<Record<string, unknown>>;

export class HookPayload {
  readonly event: string;
  readonly #raw: Raw;
  /** The field with the id of the prompt, or of the turn where an id is given to turns. */
  readonly #prompt: string;

  /** Throws KikiError `bad-hook-payload` for what is not a JSON object. */
  constructor(raw: unknown, promptField: "prompt_id" | "turn_id") {
    if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
      throw fail("usage", "bad-hook-payload", "a hook payload is a JSON object");
    }
    this.#raw = raw as Raw;
    this.#prompt = promptField;
    this.event = this.text("hook_event_name") ?? "";
  }

  field(name: string): unknown {
    return this.#raw[name];
  }

  /** null where it is missing, empty or no string. */
  text(name: string, of: Raw = this.#raw): string | null {
    const value = of[name];
    return typeof value === "string" && value !== "" ? value : null;
  }

  /** Throws KikiError `bad-hook-payload` where it is missing. */
  need(name: string, of: Raw = this.#raw): string {
    const value = this.text(name, of);
    if (value === null) throw this.missing(name);
    return value;
  }

  missing(name: string): Error {
    const message = `a ${this.event} hook payload has no ${name}`;
    return fail("usage", "bad-hook-payload", message);
  }

  /** Whose turn: session (of the main agent, also for a helper's events), agent (null for the main one), prompt. */
  place() {
    return {
      sessionId: this.need("session_id"),
      agentId: this.text("agent_id"),
      promptId: this.text(this.#prompt),
    };
  }

  call() {
    return {
      ...this.place(),
      toolUseId: this.need("tool_use_id"),
      toolName: this.text("tool_name") ?? "",
    };
  }

  /** The events that are the same for both; `Other` for every other one. Throws as `need` does. */
  common(): HarnessEvent {
    switch (this.event) {
      case "SessionStart":
        return {
          type: "SessionStarted",
          sessionId: this.need("session_id"),
          source: this.text("source") ?? "",
          transcriptPath: this.text("transcript_path"),
        };
      case "UserPromptSubmit":
        return {
          type: "UserPrompt",
          sessionId: this.need("session_id"),
          promptId: this.text(this.#prompt),
          prompt: this.text("prompt") ?? "",
        };
      case "PreToolUse":
        return { type: "PreTool", ...this.call(), recordPath: this.text("transcript_path") };
      case "PostToolUse":
        // A failing command of Codex has one, too: what it printed says so, no field does.
        return { type: "PostTool", ...this.call(), failed: false };
      case "Stop":
        return { type: "TurnStopped", ...this.place() };
      case "SubagentStop":
        // Without its agent it would read as the end of the main agent's turn.
        if (this.text("agent_id") !== null) return { type: "TurnStopped", ...this.place() };
        break;
      case "SessionEnd":
        return {
          type: "SessionEnded",
          sessionId: this.need("session_id"),
          reason: this.text("reason") ?? "",
        };
    }
    return { type: "Other", name: this.event };
  }
}
