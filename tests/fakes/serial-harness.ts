/**
 * A harness whose calls are to run one at a time and whose session record is the witness: payloads, refusals and the
 * order of the record's lines are those of Codex 0.171.0. The record can be late, torn or unreadable on demand.
 */
import type { Harness, HarnessEvent, SessionRecord } from "../../src/ports/harness.ts";

type Payload = Record<string, unknown>;

const BLOCKED = "Command blocked by PreToolUse hook: ";
const BLOCKED_TOOL = "Tool call blocked by PreToolUse hook: ";
/** Tools whose refusal repeats the whole command or patch. */
const REPEATS = new Set(["Bash", "apply_patch"]);

export type RecordLine =
  | { is: "call"; id: string; command: string | null }
  /** What the model spent on a response; after all of its calls, before any of their results. */
  | { is: "usage" }
  | { is: "output"; id: string; text: string };

/** Session records, by their paths. */
export class FakeRecords {
  readonly #lines = new Map<string, RecordLine[]>();
  /** Nothing can be read. */
  unreadable = false;
  /** The writer died, or is, in the middle of the last line. */
  torn = false;
  /** Responses are broken off, so that nothing says what they cost. */
  uncounted = false;
  /** Lines of these calls have not come to the disk yet. */
  readonly late = new Set<string>();

  append(path: string, line: RecordLine): void {
    if (line.is === "usage" && this.uncounted) return;
    this.#lines.set(path, [...this.lines(path), line]);
  }

  lines(path: string): readonly RecordLine[] {
    return this.#lines.get(path) ?? [];
  }

  read(path: string): SessionRecord | null {
    if (this.unreadable || !this.#lines.has(path)) return null;
    return this.parse(this.torn ? this.lines(path).slice(0, -1) : this.lines(path));
  }

  protected parse(lines: readonly RecordLine[]): SessionRecord {
    const responses = new Map<string, number>();
    const outputs = new Map<string, string>();
    const commands = new Map<string, string>();
    let complete = 0;
    for (const line of lines) {
      if (line.is === "usage") complete += 1;
      else if (this.late.has(line.id)) continue;
      else if (line.is === "output") outputs.set(line.id, line.text);
      else {
        responses.set(line.id, complete);
        outputs.delete(line.id);
        if (line.command !== null) commands.set(line.id, line.command);
      }
    }
    return { responses, outputs, commands, refusal: null };
  }
}

const text = (p: Payload, field: string): string => {
  const value = p[field];
  if (typeof value !== "string" || value === "")
    throw new Error(`a ${String(p["hook_event_name"])} payload has no ${field}`);
  return value;
};
const place = (p: Payload) => ({ sessionId: text(p, "session_id"), promptId: text(p, "turn_id") });
const call = (p: Payload) => ({
  ...place(p),
  agentId: p["agent_id"] === undefined ? null : text(p, "agent_id"),
  toolUseId: text(p, "tool_use_id"),
  toolName: text(p, "tool_name"),
});

const READERS: Record<string, (p: Payload) => HarnessEvent> = {
  SessionStart: (p) => ({
    type: "SessionStarted",
    sessionId: text(p, "session_id"),
    source: text(p, "source"),
    transcriptPath: text(p, "transcript_path"),
  }),
  UserPromptSubmit: (p) => ({ type: "UserPrompt", ...place(p), prompt: text(p, "prompt") }),
  PreToolUse: (p) => ({ type: "PreTool", ...call(p), recordPath: text(p, "transcript_path") }),
  PostToolUse: (p) => ({ type: "PostTool", ...call(p), failed: false }),
  SessionEnd: (p) => ({
    type: "SessionEnded",
    sessionId: text(p, "session_id"),
    reason: text(p, "reason"),
  }),
  Stop: (p) => ({ type: "TurnStopped", ...place(p), agentId: null }),
  Interrupt: (p) => ({ type: "TurnInterrupted", ...place(p) }),
};

export class FakeSerialHarness {
  readonly name = "codex";
  readonly batching = "serial";
  readonly records: FakeRecords;

  constructor(records: FakeRecords) {
    this.records = records;
  }

  get port(): Harness {
    return this as unknown as Harness;
  }

  interpretEvent(raw: unknown): HarnessEvent {
    const p = raw as Payload;
    const reader = READERS[text(p, "hook_event_name")];
    if (reader === undefined) throw new Error(`no hook is called ${String(p["hook_event_name"])}`);
    return reader(p);
  }

  record(path: string): SessionRecord | null {
    return this.records.read(path);
  }

  denyOutput(reason: string): string {
    if (reason === "" || reason !== reason.trim()) throw new Error("trimmed on the way");
    return reason;
  }

  expectedResult(reason: string, of: { toolName: string; command?: string | undefined }): string {
    return REPEATS.has(of.toolName)
      ? `${BLOCKED}${reason}. Command: ${of.command ?? "\0"}`
      : `${BLOCKED_TOOL}${reason}. Tool: ${of.toolName}`;
  }

  refusalPrefixes(of: { toolName: string }): string[] {
    return [REPEATS.has(of.toolName) ? BLOCKED : BLOCKED_TOOL];
  }
}
