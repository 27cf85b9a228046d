/** One agent of a session, the main one or a sub-agent: responses of its model, and the batches they make. */
import { Batch, type BatchHost, type Call } from "./agent-batch.ts";
import type { HookEnd } from "./agent-hook.ts";
import type { HookPayload } from "./agent-protocol.ts";
import type { Step } from "./agent-scheduler.ts";
import type { ToolSpec } from "./agent-tools.ts";

export interface AgentIdentity {
  id: string;
  type: string;
}

export interface LoopHost extends BatchHost {
  callId(): string;
  /** The results of a closed batch reach the model. */
  deliver(finished: readonly Call[]): void;
  /** The last response of the turn has been said and its stop event is over. */
  stopped(text: string): void;
  /** What the model does next, where nobody says it by hand. */
  think: ((loop: AgentLoop) => void) | null;
}

/** What becomes of a batch's closing event. */
export type Closing = "sent" | "missing" | "twice" | "detached";

export class AgentLoop {
  /** null for the main agent. */
  readonly identity: AgentIdentity | null;
  readonly batches: Batch[] = [];
  readonly #host: LoopHost;
  /** `thinking`: the model has everything it waits for and answers next. */
  #state: "idle" | "greeting" | "thinking" | "acting" | "closing" | "stopping" = "idle";

  /** The model has said something in the turn that runs, or ran last. */
  #answered = false;

  constructor(identity: AgentIdentity | null, host: LoopHost) {
    this.identity = identity;
    this.#host = host;
  }

  get label(): string {
    return this.identity?.id ?? "main";
  }

  get thinking(): boolean {
    return this.#state === "thinking";
  }

  get idle(): boolean {
    return this.#state === "idle";
  }

  /** A turn has begun, and nothing has come of it. */
  get unanswered(): boolean {
    return !this.idle && !this.#answered;
  }

  /** The batch whose calls are at work, or that waits for its closing event. */
  get batch(): Batch | null {
    return this.#state === "acting" || this.#state === "closing" ? this.batches.at(-1)! : null;
  }

  steps(): Step[] {
    const steps: Step[] = [];
    const add = (name: string, take: () => void, fault = false): void => {
      steps.push({ name: `${this.label}: ${name}`, fault, take });
    };
    if (this.#state === "acting") {
      steps.push(...this.batches.at(-1)!.steps());
      const { done } = this.batches.at(-1)!;
      if (done && !this.#host.manner.closes)
        add("takes the results up", () => this.close("missing"));
      else if (done) {
        add("batch closes", () => this.close("sent"));
        add("batch closes without its event", () => this.close("missing"), true);
        add("batch closes twice", () => this.close("twice"), true);
        add("batch closes while its event is on the way", () => this.close("detached"), true);
      }
    }
    const { think } = this.#host;
    if (this.thinking && think !== null) add("thinks", () => think(this));
    return steps;
  }

  /** A prompt, or what a sub-agent was started for. `greeting`: not before the prompt's own hook has ended. */
  begin(how: "now" | "greeting" = "now"): void {
    if (!this.idle) throw new Error(`${this.label} is at work already`);
    this.#answered = false;
    this.#state = how === "now" ? "thinking" : "greeting";
  }

  /** The prompt's hook has ended. */
  greeted(): void {
    if (this.#state === "greeting") this.#state = "thinking";
  }

  /** The model answers with tool calls. It cannot before it has the results of the last ones. */
  respond(specs: readonly ToolSpec[], options: { streamed?: boolean } = {}): Call[] {
    this.#mustThink();
    const calls = specs.map((spec) => ({ ...spec, id: spec.id ?? this.#host.callId() }));
    const batch = new Batch(this.#host, calls, options.streamed === true);
    this.batches.push(batch);
    this.#answered = true;
    this.#state = "acting";
    return [...batch.calls];
  }

  /** The model answers with text alone: its turn ends. */
  finish(text = "Done."): void {
    this.#mustThink();
    this.#answered = true;
    this.#state = "stopping";
    const event = this.identity === null ? "Stop" : "SubagentStop";
    const fields = {
      stop_hook_active: false,
      last_assistant_message: text,
      background_tasks: [],
      session_crons: [],
    };
    this.#host.fire(event, fields, this.identity?.id ?? "", (end) => {
      if (end.kind === "aborted" || this.#state !== "stopping") return;
      this.#state = "idle";
      this.#host.stopped(text);
    });
  }

  /** Every call has its result: the closing event, and then the model. */
  close(how: Closing): void {
    const batch = this.batches.at(-1);
    if (this.#state !== "acting" || batch?.done !== true) {
      throw new Error(`${this.label} has no finished batch`);
    }
    this.#state = "closing";
    const fields = { tool_calls: batch.entries() };
    const over = (): void => {
      if (this.#state !== "closing") return;
      this.#state = "thinking";
      this.#host.deliver(batch.finished);
    };
    if (how === "sent" || how === "twice") {
      this.#host.fire("PostToolBatch", fields, this.#eventLabel(), (end) =>
        this.#unless(end, over),
      );
    }
    if (how === "twice" || how === "detached") {
      this.#host.fireLoose("PostToolBatch", fields, this.#eventLabel());
    }
    if (how === "missing" || how === "detached") over();
  }

  /** Sends the closing event of an earlier batch again, as a process nobody waits for. */
  replay(batch: Batch): void {
    const fields: HookPayload = { tool_calls: batch.entries() };
    this.#host.fireLoose("PostToolBatch", fields, this.#eventLabel());
  }

  /** Esc: the turn is over without PostToolUse, PostToolBatch or Stop. What was finished stays known to the model. */
  interrupt(): void {
    const batch = this.batch;
    if (batch !== null) {
      batch.reject();
      this.#host.deliver(batch.finished);
    }
    this.#state = "idle";
  }

  /** The harness process is gone. */
  drop(): void {
    this.batch?.drop();
    this.#state = "idle";
  }

  #unless(end: HookEnd, over: () => void): void {
    if (end.kind !== "aborted") over();
  }

  #eventLabel(): string {
    return this.identity?.id ?? "";
  }

  #mustThink(): void {
    if (!this.thinking) throw new Error(`${this.label}: the model is not asked (${this.#state})`);
  }
}
