/**
 * Codex 0.171.0 as an agent in memory plays it: calls of one response begin side by side where they are commands, no event
 * says that calls are over, a refused call fires none at all, and the session record is the witness.
 */
import { denialIn, type CallRecord, type Manner } from "./agent-manner.ts";
import type { ToolSpec } from "./agent-tools.ts";
import type { FakeRecords } from "./serial-harness.ts";

/** What the generated hook command says where the launcher itself cannot end well. */
export const HOOK_FAILED = "kiki hook failed: tool call refused";
const ABORTED = "Wall time: 0.6 seconds\naborted by user";
/** Tools whose refusal repeats the whole command or patch. */
const REPEATS = new Set(["Bash", "apply_patch"]);

/** Absolute path of a conversation's record. */
export function codexRecord(cwd: string, sessionId: string): string {
  return `${cwd}-records/rollout-${sessionId}.jsonl`;
}

/** `cwd`: of the agent. */
export function codexManner(records: FakeRecords, cwd: string): Manner {
  const record: CallRecord = {
    called: (session, { id, spec }) =>
      records.append(codexRecord(cwd, session), { is: "call", id, command: commandOf(spec) }),
    completed: (session) => records.append(codexRecord(cwd, session), { is: "usage" }),
    answered: (session, id, text) =>
      records.append(codexRecord(cwd, session), { is: "output", id, text }),
  };
  return {
    common: (event, at) => ({
      session_id: at.sessionId,
      transcript_path: codexRecord(at.cwd, at.sessionId),
      cwd: at.cwd,
      ...(event === "SessionStart" || at.promptId === null ? {} : { turn_id: at.promptId }),
      model: "gpt-6.2-sol",
      permission_mode: "bypassPermissions",
    }),
    // Open on everything that is no well-formed denial with a reason; trimmed at both ends.
    refusalIn: (end) =>
      end.kind === "output" ? denialIn(end.stdout)?.trim() || null : HOOK_FAILED,
    refused: (spec, reason) =>
      REPEATS.has(spec.name)
        ? `Command blocked by PreToolUse hook: ${reason}. Command: ${commandOf(spec)}`
        : `Tool call blocked by PreToolUse hook: ${reason}. Tool: ${spec.name}`,
    rejected: ABORTED,
    besideOthers: (spec) => spec.name === "Bash",
    closes: false,
    // One that fails before it has a process reports no end.
    failureEvent: null,
    interruptEvent: "Interrupt",
    takesBack: false,
    startsLate: true,
    record,
  };
}

function commandOf(spec: ToolSpec): string | null {
  const { command } = spec.input;
  return REPEATS.has(spec.name) && typeof command === "string" ? command : null;
}

/** An edit as Codex's models make them: alone in its response's order, hook included. */
export function patch(path: string, effect: NonNullable<ToolSpec["effect"]>): ToolSpec {
  const command = `*** Begin Patch\n*** Update File: ${path}\n*** End Patch`;
  return { name: "apply_patch", input: { command }, concurrent: false, effect };
}

/** A tool that a refusal only names. */
export function mcpTool(name = "mcp__mk__peek"): ToolSpec {
  return { name, input: {}, concurrent: true, effect: () => "peeked" };
}
