/**
 * The tool calls of one response (Claude Code 2.1.332): dispatched while it still streams, concurrency-safe ones
 * together, every other one alone and in order. A denied call does not stop its siblings.
 */
import type { FakeHook, HookEnd } from "./agent-hook.ts";
import type { AgentFiles, HookPayload } from "./agent-protocol.ts";
import type { Step } from "./agent-scheduler.ts";
import type { ToolSpec } from "./agent-tools.ts";

/** What a model is told about a call that the person interrupted. */
export const REJECTED =
  "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a " +
  "file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the " +
  "user to tell you how to proceed.";

export interface Call {
  readonly id: string;
  readonly spec: ToolSpec;
  state: "unstreamed" | "queued" | "hook" | "allowed" | "dialog" | "running" | "reporting" | "done";
  /** What the model gets; null until then. */
  result: string | null;
  /** The tool was started. */
  ran: boolean;
  /** The reason a hook gave for refusing it. */
  denied: string | null;
}

/** What a batch needs from the agent around it. */
export interface BatchHost {
  readonly files: AgentFiles;
  fire(event: string, fields: HookPayload, label: string, ended: (end: HookEnd) => void): FakeHook;
  /** A hook that nobody waits for. */
  fireLoose(event: string, fields: HookPayload, label: string): void;
  started(call: Call): void;
  finished(call: Call): void;
  /**
   * Starts the agent an Agent call asks for. Returns what a call that does not wait has for a result; `ended` gets the
   * agent's report, for a call that waits for it.
   */
  launch(call: Call, ended: (report: string) => void): string;
  misbehaviour(): Misbehaviour;
}

/** What a harness should never do. Hostile tests set it; a run that does is recorded as a violation. */
export interface Misbehaviour {
  /** Runs a call although its hook refused it. */
  runsDenied?: (call: Call) => boolean;
  /** What becomes of the result text of a refused call. */
  alters?: (text: string) => string;
}

export class Batch {
  readonly calls: readonly Call[];
  /** In completion order, as the model gets them. */
  readonly finished: Call[] = [];
  readonly #host: BatchHost;
  readonly #outcomes = new Map<Call, { failed: boolean; text: string }>();
  #open = true;

  /** `streamed`: the calls arrive one by one, by steps, and early ones run before later ones are known. */
  constructor(host: BatchHost, specs: readonly (ToolSpec & { id: string })[], streamed: boolean) {
    this.#host = host;
    this.calls = specs.map((spec) => ({
      id: spec.id,
      spec,
      state: "unstreamed",
      result: null,
      ran: false,
      denied: null,
    }));
    if (!streamed) for (const call of this.calls) this.#arrive(call);
  }

  /** Every call has arrived and has its result. */
  get done(): boolean {
    return this.calls.every((c) => c.state === "done");
  }

  /** Tools that are at work on the files now. */
  get running(): Call[] {
    return this.calls.filter((c) => c.state === "running");
  }

  steps(): Step[] {
    if (!this.#open) return [];
    const next = this.calls.find((c) => c.state === "unstreamed");
    const steps: Step[] = [];
    const add = (call: Call, name: string, take: () => void): void => {
      steps.push({ name: `${call.id}: ${name}`, fault: false, take });
    };
    for (const call of this.calls) {
      if (call === next) add(call, "arrives", () => this.#arrive(call));
      if (call.state === "allowed") add(call, "runs", () => this.#run(call));
      if (call.state === "dialog") add(call, "person allows", () => this.#run(call));
      if (call.state === "running" && call.spec.starts !== "foreground")
        add(call, "finishes", () => this.#finish(call));
    }
    return steps;
  }

  /** After Esc: what has no result was rejected, and no hook learns of it. */
  reject(): void {
    this.#open = false;
    for (const call of this.calls.filter((c) => c.state !== "done")) this.#done(call, REJECTED);
  }

  /** The harness process is gone. */
  drop(): void {
    this.#open = false;
  }

  /** `tool_calls` of PostToolBatch: in the order of the response, with what the model gets. */
  entries(): Record<string, unknown>[] {
    return this.calls.map((c) => ({
      tool_name: c.spec.name,
      tool_input: c.spec.input,
      tool_use_id: c.id,
      tool_response:
        c.spec.starts !== undefined && c.ran ? [{ type: "text", text: c.result }] : c.result,
    }));
  }

  #arrive(call: Call): void {
    call.state = "queued";
    // Refused at once, without waiting for its place.
    if (call.spec.refusal !== undefined) this.#done(call, call.spec.refusal);
    else this.#pump();
  }

  #pump(): void {
    for (;;) {
      const head = this.calls.find((c) => c.state === "queued");
      if (head === undefined || !this.#open) return;
      const busy = this.calls.filter((c) => !["unstreamed", "queued", "done"].includes(c.state));
      if (busy.length > 0 && ![head, ...busy].every((c) => c.spec.concurrent)) return;
      head.state = "hook";
      this.#host.fire("PreToolUse", callFields(head), head.id, (end) => this.#judge(head, end));
    }
  }

  #judge(call: Call, end: HookEnd): void {
    if (!this.#open || end.kind === "aborted") return;
    const reason = refusalIn(end);
    call.denied = reason;
    const runsAnyway = reason !== null && this.#host.misbehaviour().runsDenied?.(call) === true;
    if (reason === null || runsAnyway) {
      call.state = call.spec.asks === true ? "dialog" : "allowed";
      if (call.state === "dialog") this.#askPerson(call);
      return;
    }
    const text = `PreToolUse:${call.spec.name} hook error: ${reason}`;
    this.#done(call, this.#host.misbehaviour().alters?.(text) ?? text);
  }

  #askPerson(call: Call): void {
    const message = "Claude needs your permission";
    const fields = { message, notification_type: "permission_prompt" };
    this.#host.fireLoose("Notification", fields, call.id);
  }

  #run(call: Call): void {
    call.state = "running";
    call.ran = true;
    this.#host.started(call);
    if (call.spec.early === true) this.#outcomes.set(call, this.#effect(call));
    if (call.spec.starts === undefined) return;
    const launched = this.#host.launch(call, (report) => {
      this.#outcomes.set(call, { failed: false, text: report });
      if (this.#open && call.state === "running") this.#finish(call);
    });
    this.#outcomes.set(call, { failed: false, text: launched });
  }

  #finish(call: Call): void {
    const { failed, text } = this.#outcomes.get(call) ?? this.#effect(call);
    this.#host.finished(call);
    call.state = "reporting";
    const event = failed ? "PostToolUseFailure" : "PostToolUse";
    const outcome = failed
      ? { tool_use_id: call.id, error: text, is_interrupt: false }
      : { tool_response: { stdout: text }, tool_use_id: call.id };
    const fields = { ...callFields(call, false), ...outcome, duration_ms: 1 };
    this.#host.fire(event, fields, call.id, () => {
      if (this.#open) this.#done(call, text);
    });
  }

  #effect(call: Call): { failed: boolean; text: string } {
    try {
      return { failed: false, text: call.spec.effect?.(this.#host.files) ?? "" };
    } catch (error) {
      return { failed: true, text: error instanceof Error ? error.message : String(error) };
    }
  }

  #done(call: Call, text: string): void {
    call.state = "done";
    call.result = text;
    this.finished.push(call);
    this.#pump();
  }
}

function callFields(call: Call, withId = true): HookPayload {
  const fields = { tool_name: call.spec.name, tool_input: call.spec.input };
  return withId ? { ...fields, tool_use_id: call.id } : fields;
}

/**
 * Claude Code's reading of a PreToolUse hook with `onFailure: "block"` (2.1.332): what is not whole JSON counts as
 * text, and the tool runs.
 */
function refusalIn(end: HookEnd): string | null {
  if (end.kind !== "output") return `[hook]: failed; blocking because onFailure is "block"`;
  let verdict: unknown;
  try {
    verdict = JSON.parse(end.stdout);
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
