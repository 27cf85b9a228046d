/**
 * The tool calls of one response: dispatched while it still streams, those that may run beside others together, every
 * other one alone and in order. A denied call does not stop its siblings. What differs is the harness's manner.
 */
import type { FakeHook, HookEnd } from "./agent-hook.ts";
import type { Manner } from "./agent-manner.ts";
import type { AgentFiles, HookPayload } from "./agent-protocol.ts";
import type { Step } from "./agent-scheduler.ts";
import type { ToolSpec } from "./agent-tools.ts";

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
  readonly manner: Manner;
  /** The present one: of a record, and of the response that is written into it. */
  sessionId(): string;
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
  /** Its response is complete, as far as a record says so. */
  #counted = false;
  readonly #recorded = new Set<Call>();
  readonly #session: string;

  /** `streamed`: the calls arrive one by one, by steps, and early ones run before later ones are known. */
  constructor(host: BatchHost, specs: readonly (ToolSpec & { id: string })[], streamed: boolean) {
    this.#host = host;
    this.#session = host.sessionId();
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
    if (next === undefined && !this.#counted && this.#host.manner.record !== null)
      steps.push({
        name: `${this.calls[0]!.id}: response completes`,
        fault: false,
        take: () => this.#complete(),
      });
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
    const { record, rejected } = this.#host.manner;
    for (const call of this.calls.filter((c) => c.state !== "done")) {
      const arrived = call.state !== "unstreamed";
      this.#done(call, rejected);
      if (record !== null && arrived) this.#answer(call);
    }
    for (const call of this.finished) if (record !== null && call.ran) this.#answer(call);
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
    this.#host.manner.record?.called(this.#session, call);
    // Refused at once, without waiting for its place.
    if (call.spec.refusal !== undefined) this.#done(call, call.spec.refusal);
    else this.#pump();
  }

  #pump(): void {
    for (;;) {
      const head = this.calls.find((c) => c.state === "queued");
      if (head === undefined || !this.#open) return;
      const busy = this.calls.filter((c) => !["unstreamed", "queued", "done"].includes(c.state));
      if (busy.length > 0 && ![head, ...busy].every((c) => this.#host.manner.besideOthers(c.spec)))
        return;
      head.state = "hook";
      this.#host.fire("PreToolUse", callFields(head), head.id, (end) => this.#judge(head, end));
    }
  }

  #judge(call: Call, end: HookEnd): void {
    if (!this.#open || end.kind === "aborted") return;
    const { manner } = this.#host;
    const reason = manner.refusalIn(end);
    call.denied = reason;
    const runsAnyway = reason !== null && this.#host.misbehaviour().runsDenied?.(call) === true;
    if (reason === null || runsAnyway) {
      call.state = call.spec.asks === true ? "dialog" : "allowed";
      if (call.state === "dialog") this.#askPerson(call);
      return;
    }
    const text = manner.refused(call.spec, reason);
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
    const event = failed ? this.#host.manner.failureEvent : "PostToolUse";
    // Its process runs on, and the event comes when that ends.
    if (event === null || call.spec.background !== undefined) {
      call.spec.background?.(() => {
        // What an earlier conversation left running is reported by nobody.
        if (this.#host.sessionId() === this.#session)
          this.#host.fireLoose("PostToolUse", this.#outcome(call, text), call.id);
      });
      return this.#done(call, text);
    }
    const fields = failed
      ? {
          ...callFields(call, false),
          tool_use_id: call.id,
          error: text,
          is_interrupt: false,
          duration_ms: 1,
        }
      : this.#outcome(call, text);
    this.#host.fire(event, fields, call.id, () => {
      if (this.#open) this.#done(call, text);
    });
  }

  #outcome(call: Call, text: string): HookPayload {
    return {
      ...callFields(call, false),
      tool_response: { stdout: text },
      tool_use_id: call.id,
      duration_ms: 1,
    };
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
    this.#flush();
    this.#pump();
  }

  /** Results are written once the response is complete, each before the model's next request. */
  #flush(): void {
    if (!this.#open || this.#host.manner.record === null) return;
    if (this.calls.some((c) => c.state === "unstreamed")) return;
    this.#complete();
    for (const call of this.finished) this.#answer(call);
  }

  #complete(): void {
    if (this.#counted) return;
    this.#counted = true;
    this.#host.manner.record?.completed(this.#session);
  }

  #answer(call: Call): void {
    if (this.#recorded.has(call)) return;
    this.#recorded.add(call);
    this.#host.manner.record!.answered(this.#session, call.id, call.result!);
  }
}

function callFields(call: Call, withId = true): HookPayload {
  const fields = { tool_name: call.spec.name, tool_input: call.spec.input };
  return withId ? { ...fields, tool_use_id: call.id } : fields;
}
