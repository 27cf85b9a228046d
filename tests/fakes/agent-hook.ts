/**
 * One hook process: the launcher and kk-hook inside it, from the payload on standard input to the verdict on standard
 * output. Every request, file and line of output is a step, so that anything may happen in between; every place where
 * a process can die or lose patience is a fault. The rules are the hook's own (harness chapter, "Hook path").
 */
import { KikiError } from "../../src/core/errors.ts";
import { denyVerdict, genericDenyOutput, refusalReason } from "../../src/core/generic-deny.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { STATUS_BY_KIND } from "../../src/rpc/contract/wire.ts";
import { fieldOf, type HookDaemon, type HookDisk, type HookPayload } from "./agent-protocol.ts";
import type { Step } from "./agent-scheduler.ts";

/**
 * What the harness hears. `failed`: the launcher itself did not end well, which Claude Code answers by its
 * `onFailure`. `aborted`: the harness killed the hook, and hears nothing.
 */
export type HookEnd = { kind: "output"; stdout: string } | { kind: "failed" } | { kind: "aborted" };

type State =
  | { at: "next"; name: string; does: () => void }
  | { at: "asking"; what: "decision" | "hold" | "delivery" | "report" }
  | { at: "ended" };

export interface HookWorld {
  daemon: HookDaemon;
  disk: HookDisk;
}

export class FakeHook {
  readonly event: string;
  readonly payload: HookPayload;
  /** The subject for people: a tool call's id, or nothing. */
  readonly #label: string;
  readonly #world: HookWorld;
  readonly #ended: (end: HookEnd) => void;
  #state: State;
  #request: { settled: Promise<void>; connection: AbortController } | null = null;
  #stdout = "";
  #sidecarAlive = true;

  /** `ended` is called once, when the harness may go on. */
  constructor(
    world: HookWorld,
    payload: HookPayload,
    label: string,
    ended: (end: HookEnd) => void,
  ) {
    this.#world = world;
    this.payload = payload;
    this.event = fieldOf(payload, "hook_event_name");
    this.#label = label === "" ? this.event : `${label} ${this.event}`;
    this.#ended = ended;
    this.#state =
      this.event === "PreToolUse"
        ? { at: "next", name: "asks", does: () => this.#ask() }
        : { at: "next", name: "reports", does: () => this.#report() };
  }

  get over(): boolean {
    return this.#state.at === "ended";
  }

  steps(): Step[] {
    const state = this.#state;
    if (state.at === "ended") return [];
    const steps: Step[] = [];
    const add = (name: string, fault: boolean, does: () => void): void => {
      steps.push({ name: `${this.#label}: ${name}`, fault, take: does });
    };
    if (state.at === "next") add(state.name, false, state.does);
    if (state.at === "asking") add("gives up", true, () => this.giveUp());
    if (this.#sidecarAlive) add("sidecar dies", true, () => this.killSidecar());
    add("launcher dies", true, () => this.killLauncher());
    return steps;
  }

  waiting(): Promise<void>[] {
    return this.#request === null ? [] : [this.#request.settled];
  }

  // ---- faults ------------------------------------------------------------------------------------------------

  /** kk-hook is killed, or cannot start: what it printed is not handed on, and the launcher answers for it. */
  killSidecar(): void {
    if (this.over || !this.#sidecarAlive) throw new Error(`${this.#label}: no sidecar to kill`);
    this.#sidecarAlive = false;
    this.#hangUp();
    this.#stdout = "";
    if (this.event === "PreToolUse") this.#outage(null, "kk-hook died");
    else this.#then("logs the lost event", () => this.#lose("event lost: kk-hook died"));
  }

  /** The whole chain dies: nothing is recorded anywhere. */
  killLauncher(): void {
    this.#hangUp();
    this.#end({ kind: "failed" });
  }

  /** Its own deadline passes while it waits for the daemon; the request may have been heard all the same. */
  giveUp(): void {
    const state = this.#state;
    if (state.at !== "asking") throw new Error(`${this.#label}: waits for nothing`);
    this.#hangUp();
    this.#unanswered(state.what, "no answer");
  }

  /** The harness kills it, for example after Esc. */
  abort(): void {
    if (this.over) return;
    this.#hangUp();
    this.#end({ kind: "aborted" });
  }

  // ---- PreToolUse --------------------------------------------------------------------------------------------

  #ask(): void {
    this.#send(
      "decision",
      (daemon) => daemon.preToolUse(this.payload),
      (d) => this.#decided(d),
    );
  }

  #decided(decision: HookDecision): void {
    if (decision.decision === "pass") return this.#then("exits", () => this.#exit());
    if (decision.decision === "deny") return this.#deny(decision.output, decision.delivered);
    const { token } = decision;
    this.#then("confirms", () =>
      this.#send(
        "hold",
        (d, signal) => d.hold(token, signal),
        (d) => this.#released(d),
      ),
    );
  }

  #released(decision: HookDecision): void {
    // Held again is not an explicit release, and nothing else allows.
    if (decision.decision === "hold") this.#deny(genericDenyOutput());
    else this.#decided(decision);
  }

  #deny(output: string, delivered?: { intentId: string; turn: number; batch: number }): void {
    this.#then("prints", () => {
      this.#stdout = output;
      if (delivered === undefined) return this.#then("exits", () => this.#exit());
      const { intentId, turn, batch } = delivered;
      this.#then("marks delivered", () =>
        this.#send(
          "delivery",
          (d) => d.markDelivered(intentId, turn, batch),
          () => this.#then("exits", () => this.#exit()),
        ),
      );
    });
  }

  /** First the record, then the look: the daemon writes its marker first and lists the records after it. */
  #outage(payload: HookPayload | null, why: string): void {
    const { disk } = this.#world;
    this.#then("records its pass", () => {
      const unrecord = disk.recordPass(payload);
      this.#then("looks at the marker", () => {
        if (disk.barred()) {
          unrecord();
          this.#stdout = genericDenyOutput();
        } else disk.log(`${this.#label} passed without asking: ${why}`);
        this.#then("exits", () => this.#exit());
      });
    });
  }

  // ---- other events ------------------------------------------------------------------------------------------

  #report(): void {
    this.#send(
      "report",
      (d) => d.event(this.payload),
      () => this.#then("exits", () => this.#exit()),
    );
  }

  #lose(line: string): void {
    this.#world.disk.log(`${this.#label} ${line}`);
    this.#exit();
  }

  // ---- requests ----------------------------------------------------------------------------------------------

  #send<T>(
    what: Extract<State, { at: "asking" }>["what"],
    ask: (daemon: HookDaemon, signal: AbortSignal) => Promise<T>,
    answered: (value: T) => void,
  ): void {
    const connection = new AbortController();
    this.#state = { at: "asking", what };
    const settled = ask(this.#world.daemon, connection.signal).then(
      (value) => {
        if (connection.signal.aborted) return;
        this.#request = null;
        answered(value);
      },
      (error: unknown) => {
        if (connection.signal.aborted) return;
        this.#request = null;
        if (isRefusal(error)) this.#refused(what, error);
        else this.#unanswered(what, error instanceof Error ? error.message : String(error));
      },
    );
    this.#request = { settled, connection };
  }

  #refused(what: string, error: KikiError): void {
    if (what === "report") {
      return this.#then("logs the refusal", () => this.#lose(`refused: ${error.message}`));
    }
    if (what === "delivery") return this.#then("exits", () => this.#exit());
    const text = [error.message, error.hint].filter(Boolean).join("; ");
    this.#deny(denyVerdict(refusalReason(text)));
  }

  #unanswered(what: string, why: string): void {
    switch (what) {
      case "decision":
        return this.#outage(this.payload, why);
      case "hold":
        return this.#deny(genericDenyOutput());
      case "report":
        return this.#then("spools", () => {
          this.#world.disk.spool(this.payload);
          this.#exit();
        });
      default:
        // A delivery that could not be marked is printed all the same.
        return this.#then("exits", () => this.#exit());
    }
  }

  #hangUp(): void {
    this.#request?.connection.abort();
    this.#request = null;
  }

  #then(name: string, does: () => void): void {
    this.#state = { at: "next", name, does };
  }

  #exit(): void {
    this.#end({ kind: "output", stdout: this.#stdout });
  }

  #end(end: HookEnd): void {
    if (this.over) throw new Error(`${this.#label} ended twice`);
    this.#state = { at: "ended" };
    this.#ended(end);
  }
}

/** The daemon is there and will not have this call; anything else is no answer that counts. */
function isRefusal(error: unknown): error is KikiError {
  if (!(error instanceof KikiError)) return false;
  const status = STATUS_BY_KIND[error.kind];
  return status >= 400 && status < 500;
}
