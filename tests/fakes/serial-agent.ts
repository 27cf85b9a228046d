/**
 * An agent on a serial harness, stricter than reality: calls of one response run side by side where the model asks for
 * several, the outputs of all of them are on disk before the next request, a refused call fires no event, and nothing is
 * asked for before the model has consumed what came before.
 */
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { GENERIC_DENY_REASON } from "../../src/core/generic-deny.ts";
import type { FakeSerialHarness } from "./serial-harness.ts";

/** The daemon's hook methods, the caller's identity proved. */
export interface SerialDaemon {
  preToolUse: (raw: unknown) => Promise<HookDecision>;
  hold: (token: string) => Promise<HookDecision>;
  markDelivered: (intentId: string, turn: number, batch: number) => void;
  event: (raw: unknown) => Promise<void>;
}

export interface SerialCall {
  /** Default: Bash. */
  tool?: string;
  command?: string;
  /** What the tool does; returns its output. */
  run?: () => Promise<string> | string;
  /**
   * `dies`: the hook dies before it prints, and the launcher refuses in its place. `rejected`: it prints and reports, and
   * the harness takes the last line of defence instead. `ignored`: the harness runs the tool all the same.
   */
  hook?: "dies" | "rejected" | "ignored";
  /** Returns while its process runs on: an output, and no event until `ends`. */
  background?: boolean;
}

export interface SerialResult {
  id: string;
  /** What the model got. */
  output: string;
  ran: boolean;
}

export class FakeSerialAgent {
  readonly #harness: FakeSerialHarness;
  readonly #daemon: SerialDaemon;
  readonly cwd: string;
  session = "conversation-1";
  /** Ids of calls whose tool ran, in order. */
  readonly ran: string[] = [];
  #turn = 0;
  #calls = 0;
  #busy = 0;
  #open = false;

  constructor(harness: FakeSerialHarness, daemon: SerialDaemon, cwd: string) {
    this.#harness = harness;
    this.#daemon = daemon;
    this.cwd = cwd;
  }

  get record(): string {
    return `/codex/sessions/rollout-${this.session}.jsonl`;
  }

  get turn(): string {
    return `turn-${String(this.#turn).padStart(4, "0")}`;
  }

  /** The next call's id. */
  get nextId(): string {
    return `call_${this.session}_${this.#calls + 1}`;
  }

  /** A person's words, which begin a turn. */
  prompt(prompt: string): Promise<void> {
    this.#turn += 1;
    return this.#fire("UserPromptSubmit", { prompt });
  }

  /** A person's words while a tool runs: the same turn. */
  steer(prompt: string): Promise<void> {
    return this.#fire("UserPromptSubmit", { prompt });
  }

  /** The model asks for calls, all of them at once. Resolves when each has its result. */
  async respond(...specs: SerialCall[]): Promise<SerialResult[]> {
    if (this.#busy > 0) throw new Error("the model has not got the results of its last calls");
    const calls = specs.map((spec) => ({ spec, id: this.nextIdUsed() }));
    this.#busy = calls.length;
    this.#open = true;
    const completed = Promise.withResolvers<void>();
    let asked = calls.length;
    // A tool begins while the response streams: the next line, and the response's end, come after its hook has begun.
    const results = calls.map(({ spec, id }) => {
      this.#append({ is: "call", id, command: isNamed(spec) ? null : commandOf(spec) });
      return this.#call(spec, id, completed.promise, () => {
        asked -= 1;
        if (asked === 0) this.#completes(completed.resolve);
      });
    });
    // One that waits for its sibling does not keep the response from its end.
    if (calls.length > 1) this.#completes(completed.resolve);
    return Promise.all(results);
  }

  /** One call, to its end. */
  async call(spec: SerialCall = {}): Promise<SerialResult> {
    return (await this.respond(spec))[0]!;
  }

  stop(): Promise<void> {
    return this.#fire("Stop", {});
  }

  interrupt(): Promise<void> {
    this.#busy = 0;
    return this.#fire("Interrupt", {});
  }

  /** The process of a call that returned before it ended has ended. */
  ends(id: string): Promise<void> {
    return this.#fire("PostToolUse", { tool_name: "Bash", tool_use_id: id });
  }

  /** A tool that fires no hook. */
  unhooked(act: () => void): void {
    act();
  }

  /** What a hook sends, by whoever the model asks: also out of order. */
  preTool(id: string, over: Record<string, unknown> = {}): Record<string, unknown> {
    return this.#payload("PreToolUse", { tool_name: "Bash", tool_use_id: id, ...over });
  }

  nextIdUsed(): string {
    const id = this.nextId;
    this.#calls += 1;
    return id;
  }

  /** Once for each response. */
  #completes(then: () => void): void {
    if (this.#open) this.#append({ is: "usage" });
    this.#open = false;
    then();
  }

  async #call(
    spec: SerialCall,
    id: string,
    completed: Promise<void>,
    answered: () => void,
  ): Promise<SerialResult> {
    const toolName = spec.tool ?? "Bash";
    const refused = await this.#ask(spec, id);
    answered();
    await completed;
    const command = commandOf(spec);
    let output: string;
    if (refused === null || spec.hook === "ignored") {
      this.ran.push(id);
      output = (await spec.run?.()) ?? `ran ${command}`;
      if (spec.background !== true && spec.hook !== "ignored")
        await this.#fire("PostToolUse", { tool_name: toolName, tool_use_id: id });
    } else {
      output = this.#harness.expectedResult(refused, { toolName, command });
    }
    this.#append({ is: "output", id, text: output });
    this.#busy -= 1;
    return { id, output, ran: this.ran.includes(id) };
  }

  /** The reason the model is given; null: the tool runs. */
  async #ask(spec: SerialCall, id: string): Promise<string | null> {
    const daemon = this.#daemon;
    let answer = await daemon.preToolUse(this.preTool(id, { tool_name: spec.tool ?? "Bash" }));
    if (answer.decision === "hold") answer = await daemon.hold(answer.token);
    if (answer.decision === "hold") throw new Error("held twice");
    if (answer.decision === "pass") return null;
    if (spec.hook === "dies") return GENERIC_DENY_REASON;
    if (answer.delivered !== undefined) {
      const { intentId, turn, batch } = answer.delivered;
      daemon.markDelivered(intentId, turn, batch);
    }
    return spec.hook === "rejected" ? "kiki: the hook did not answer in time" : answer.output;
  }

  #append(line: Parameters<FakeSerialHarness["records"]["append"]>[1]): void {
    this.#harness.records.append(this.record, line);
  }

  #fire(name: string, more: Record<string, unknown>): Promise<void> {
    return this.#daemon.event(this.#payload(name, more));
  }

  #payload(name: string, more: Record<string, unknown>): Record<string, unknown> {
    return {
      hook_event_name: name,
      session_id: this.session,
      turn_id: this.turn,
      transcript_path: this.record,
      cwd: this.cwd,
      ...more,
    };
  }
}

function commandOf(spec: SerialCall): string {
  return spec.command ?? "ls";
}

/** Its refusal only names the tool. */
function isNamed({ tool = "Bash" }: SerialCall): boolean {
  return tool !== "Bash" && tool !== "apply_patch";
}
