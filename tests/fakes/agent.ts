/**
 * An agent in memory: one process of a harness with its session, its hooks and its tools, after Claude Code 2.1.332
 * in a terminal, or in another manner (agent-manner.ts). It knows nothing of kiki. Everything it does is a step (agent-scheduler.ts); a test or a simulation
 * plays its model (`main.respond`, `main.finish`, or `think`) and its person (`prompt`, `escape`, `clear`, `compact`).
 */
import type { Clock } from "../../src/ports/clock.ts";
import type { Ids } from "../../src/ports/ids.ts";
import type { Call, Misbehaviour } from "./agent-batch.ts";
import { CLAUDE_CODE, type Manner } from "./agent-manner.ts";
import { FakeHook, type HookEnd, type HookWorld } from "./agent-hook.ts";
import { AgentLoop, type AgentIdentity, type LoopHost } from "./agent-loop.ts";
import type { AgentFiles, HookPayload } from "./agent-protocol.ts";
import { drive, take, type Actor, type DriveOptions, type Step } from "./agent-scheduler.ts";

export interface FakeAgentOptions {
  hooks: HookWorld;
  files: AgentFiles;
  ids: Pick<Ids, "uuid">;
  /** Absolute path of the workspace. */
  cwd: string;
  sessionId?: string;
  /** What the model knows from an earlier process of the session. */
  context?: readonly Seen[];
  /** The model, where nobody says by hand what it does next. Called when an agent of the session is to answer. */
  think?: (agent: FakeAgent, loop: AgentLoop) => void;
  /** Why a tool must not run now, or null. Asked when a tool starts and when it ends. */
  forbidden?: (call: Call) => string | null;
  /** Takes the lines of the session record. */
  record?: (line: Record<string, unknown>) => void;
  clock?: Pick<Clock, "now">;
  /** Default: Claude Code's. */
  manner?: Manner;
  /** Ids of its calls; default: numbered from one. */
  callId?: () => string;
}

/** What reached the model. */
export type Seen =
  | { kind: "prompt"; text: string }
  | { kind: "result"; toolUseId: string; text: string };

type Waiting =
  | { kind: "prompt" | "task"; text: string }
  /** Typed during a turn that ended before it could be delivered: its event has fired already. */
  | { kind: "queued"; text: string }
  | { kind: "clear" }
  | { kind: "exit" };

export class FakeAgent implements Actor {
  readonly main: AgentLoop;
  /** Sub-agents by their id, ended ones included. */
  readonly subs = new Map<string, AgentLoop>();
  /** Every payload written to a hook, in order. */
  readonly sent: HookPayload[] = [];
  /** Calls whose tool was started, in order. */
  readonly ran: Call[] = [];
  /** Tools that ran although they must not have. */
  readonly violations: string[] = [];
  /** What the model has been given, in order; a resumed session keeps it. */
  readonly context: Seen[];
  misbehaviour: Misbehaviour = {};
  /** What stands in the composer: a prompt that was taken back. The next one is typed in its place, or contains it. */
  composer = "";
  readonly #o: FakeAgentOptions;
  readonly #hooks: { hook: FakeHook; loop: AgentLoop | null }[] = [];
  readonly #queue: Waiting[] = [];
  /** Sub-agents within a call that waits for them. */
  readonly #within = new Map<Call, AgentLoop>();
  #typed: string[] = [];
  /** What the running turn was begun with. */
  #asked: Waiting | null = null;
  #state: "new" | "starting" | "ready" | "leaving" | "gone" = "new";
  #sessionId: string;
  #promptId: string | null = null;
  #calls = 0;
  /** Source of a `SessionStart` that is still to come. */
  #begins: string | null = null;

  constructor(options: FakeAgentOptions) {
    this.#o = options;
    this.#sessionId = options.sessionId ?? options.ids.uuid();
    this.context = [...(options.context ?? [])];
    this.main = this.#loop(null, () => undefined);
  }

  get manner(): Manner {
    return this.#o.manner ?? CLAUDE_CODE;
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  /** The user turn every hook of it names; sub-agents name the session's present one. */
  get promptId(): string | null {
    return this.#promptId;
  }

  /** What the running turn was begun with, until anything has come of it. */
  get unanswered(): string | null {
    const asked = this.#asked;
    return this.main.unanswered && asked !== null && "text" in asked ? asked.text : null;
  }

  /** The process runs. */
  get alive(): boolean {
    return this.#state !== "gone" && this.#state !== "new";
  }

  /** Calls of any agent whose hook refused them, with the exact reason it gave. */
  get denied(): { call: Call; reason: string }[] {
    return this.#allCalls().flatMap((call) =>
      call.denied === null ? [] : [{ call, reason: call.denied }],
    );
  }

  /** Tools of any agent that are at work on the files now. */
  get running(): Call[] {
    return this.#loops().flatMap((loop) => loop.batch?.running ?? []);
  }

  /** Whether the model was ever given a result or a prompt with this text in it. */
  saw(text: string): boolean {
    return this.context.some((seen) => seen.text.includes(text));
  }

  /** Hooks that have not ended: those the agent waits for, and those nobody does. */
  get hooks(): FakeHook[] {
    return this.#hooks.map((h) => h.hook).filter((h) => !h.over);
  }

  // ---- steps -------------------------------------------------------------------------------------------------

  steps(): Step[] {
    const steps = this.hooks.flatMap((h) => h.steps());
    if (!this.alive) return steps;
    for (const loop of this.#loops()) steps.push(...loop.steps());
    const next = this.#queue[0];
    if (next !== undefined && this.#state === "ready" && this.main.idle) {
      steps.push({
        name: `main: takes up ${next.kind}`,
        fault: false,
        take: () => this.#takeUp(this.#queue.shift()!),
      });
    }
    return steps;
  }

  waiting(): Promise<void>[] {
    return this.hooks.flatMap((h) => h.waiting());
  }

  /** Takes the one step that matches. */
  step(name: RegExp): void {
    take(this, name);
  }

  /** Takes steps until nothing is left to do (see `drive`). */
  run(options: DriveOptions = {}): Promise<string[]> {
    return drive([this], options);
  }

  /** The hook of a call or event that has not ended, by the start of its steps' names. */
  hook(label: string): FakeHook {
    const found = this.hooks.filter((h) =>
      h.steps().some((s) => s.name.startsWith(`${label}:`) || s.name.startsWith(`${label} `)),
    );
    if (found.length !== 1) throw new Error(`${found.length} hooks are called ${label}`);
    return found[0]!;
  }

  // ---- the process -------------------------------------------------------------------------------------------

  /** The process starts; a prompt on its command line is the first thing it takes up. */
  start(source: "startup" | "resume", prompt: string | null = null): void {
    if (this.#state !== "new") throw new Error("started already");
    this.#state = "starting";
    if (prompt !== null) this.#queue.push({ kind: "prompt", text: prompt });
    this.#begin(source);
  }

  #begin(source: string): void {
    if (this.manner.startsLate) {
      this.#begins = source;
      this.#state = "ready";
      return;
    }
    this.#fire(this.main, "SessionStart", { source }, "", () => {
      if (this.#state === "starting") this.#state = "ready";
    });
  }

  /** The process dies. Hooks that run already are sessions of their own and go on; nobody hears them. */
  crash(): void {
    this.#state = "gone";
    for (const loop of this.#loops()) loop.drop();
  }

  /** Another process of the same session (`--resume`), or of a fresh one. It has not started yet. */
  successor(changes: Partial<FakeAgentOptions> & { resume: boolean }): FakeAgent {
    if (this.alive) throw new Error("one session has one process");
    const { resume, ...rest } = changes;
    const kept = resume ? { sessionId: this.#sessionId, context: this.context } : { context: [] };
    const { sessionId: _, ...options } = this.#o;
    return new FakeAgent({ ...options, ...kept, ...rest });
  }

  // ---- the person --------------------------------------------------------------------------------------------

  /** During a turn its event fires at once, with the running turn's id; it is delivered with the next results. */
  prompt(text: string): void {
    this.#mustLive();
    this.composer = "";
    if (this.#state === "starting" || this.main.idle) {
      this.#queue.push({ kind: "prompt", text });
      return;
    }
    this.#fire(this.main, "UserPromptSubmit", { prompt: text }, "", (end) => {
      if (end.kind === "aborted") return;
      if (this.main.idle) this.#queue.unshift({ kind: "queued", text });
      else this.#typed.push(text);
    });
  }

  /** Esc: hooks of the turn are killed, and no call is reported. Sub-agents in the background go on. */
  escape(): void {
    this.#mustLive();
    if (this.main.idle) return;
    const { unanswered } = this.main;
    for (const { hook, loop } of this.#hooks) if (loop === this.main) hook.abort();
    for (const call of this.main.batch?.running ?? []) this.#endForeground(call);
    this.main.interrupt();
    this.#typed = [];
    if (unanswered && this.manner.takesBack) this.#takeBack();
    const { interruptEvent } = this.manner;
    if (interruptEvent === null) return;
    this.#state = "starting";
    this.#fire(this.main, interruptEvent, {}, "", () => {
      if (this.#state === "starting") this.#state = "ready";
    });
  }

  #takeBack(): void {
    const asked = this.#asked;
    if (asked === null || !("text" in asked)) return;
    const last = this.context.at(-1);
    if (last?.kind === "prompt" && last.text === asked.text) this.context.pop();
    if (asked.kind !== "task") this.composer = asked.text;
  }

  /** `/clear`: the session ends and another begins, in the same process. Waits for the turn's end. */
  clear(): void {
    this.#mustLive();
    this.#queue.push({ kind: "clear" });
  }

  /** `/exit`, after the running turn. */
  exit(): void {
    this.#mustLive();
    this.#queue.push({ kind: "exit" });
  }

  /** Compaction keeps the session and what is in flight in it; the model loses the results it had. */
  compact(): void {
    this.#mustLive();
    this.context.splice(0, this.context.length, { kind: "prompt", text: "(summary)" });
    if (this.#begins === null) this.fireLoose("SessionStart", { source: "compact" });
  }

  /** Any payload, as a process nobody waits for: for events that come late, twice or from nowhere. */
  fireLoose(event: string, fields: HookPayload, label = ""): FakeHook {
    return this.#register(null, this.#payload(event, fields, null), label, () => undefined);
  }

  // ---- within ------------------------------------------------------------------------------------------------

  #takeUp(next: Waiting): void {
    if (next.kind === "clear") return this.#clear();
    this.#promptId = this.#o.ids.uuid();
    if (next.kind === "exit") {
      this.#state = "leaving";
      this.#fire(this.main, "SessionEnd", { reason: "prompt_input_exit" }, "", () => this.crash());
      return;
    }
    this.#asked = next;
    this.main.begin("greeting"); // from here it is a turn, and Esc ends it
    if (next.kind === "queued") return this.#turn(next.text);
    const source = this.#begins;
    if (source === null) return this.#submit(next);
    this.#begins = null;
    this.#fire(this.main, "SessionStart", { source }, "", (end) => {
      if (end.kind === "aborted") this.#begins = source;
      else this.#submit(next);
    });
  }

  #submit(next: { text: string }): void {
    this.#fire(this.main, "UserPromptSubmit", { prompt: next.text }, "", (end) => {
      if (end.kind !== "aborted") this.#turn(next.text);
    });
  }

  #turn(text: string): void {
    this.context.push({ kind: "prompt", text });
    this.#line({ type: "user", message: { role: "user", content: text }, promptSource: "typed" });
    this.main.greeted();
  }

  #clear(): void {
    this.#promptId = this.#o.ids.uuid();
    this.#state = "starting";
    this.#fire(this.main, "SessionEnd", { reason: "clear" }, "", () => {
      this.#sessionId = this.#o.ids.uuid();
      this.#promptId = null;
      this.context.length = 0;
      this.#begin("clear");
    });
  }

  #loop(identity: AgentIdentity | null, stopped: (text: string) => void): AgentLoop {
    const host: LoopHost = {
      files: this.#o.files,
      callId: this.#o.callId ?? (() => `toolu_${++this.#calls}`),
      manner: this.manner,
      sessionId: () => this.#sessionId,
      fire: (event, fields, label, ended) => this.#fire(loop, event, fields, label, ended),
      fireLoose: (event, fields, label) =>
        void this.#register(null, this.#payload(event, fields, identity), label, () => undefined),
      started: (call) => {
        this.ran.push(call);
        this.#check(call, "started");
      },
      finished: (call) => this.#check(call, "finished"),
      launch: (call, ended) => this.#launch(call, ended),
      misbehaviour: () => this.misbehaviour,
      deliver: (finished) => this.#deliver(identity, finished),
      stopped: (text) => {
        this.#line({ type: "assistant", message: { content: [{ type: "text", text }] } }, identity);
        if (identity === null) this.#afterTurn();
        stopped(text);
      },
      think: this.#o.think === undefined ? null : (l) => this.#o.think!(this, l),
    };
    const loop = new AgentLoop(identity, host);
    return loop;
  }

  #launch(call: Call, ended: (report: string) => void): string {
    const id = `a${String(this.subs.size + 1).padStart(16, "0")}`;
    const background = call.spec.starts === "background";
    const sub = this.#loop({ id, type: "general-purpose" }, (text) => {
      if (background) this.#queue.push({ kind: "task", text: taskNotification(id, call.id, text) });
      else ended(`[Subagent hand-back] The report follows:\n  ${text}\nagentId: ${id}`);
    });
    this.subs.set(id, sub);
    if (!background) this.#within.set(call, sub);
    sub.begin();
    return `Async agent launched successfully.\nagentId: ${id}\nThe agent is working in the background.`;
  }

  /** A sub-agent within a call ends with the call. */
  #endForeground(call: Call): void {
    if (call.spec.starts !== "foreground") return;
    const sub = this.#within.get(call);
    if (sub === undefined || sub.idle) return;
    for (const { hook, loop } of this.#hooks) if (loop === sub) hook.abort();
    sub.interrupt();
  }

  #deliver(identity: AgentIdentity | null, finished: readonly Call[]): void {
    for (const call of finished) {
      const text = call.result!;
      const content = [{ type: "tool_result", content: text, tool_use_id: call.id }];
      this.#line({ type: "user", message: { role: "user", content } }, identity);
      if (identity === null) this.context.push({ kind: "result", toolUseId: call.id, text });
    }
    if (identity !== null) return;
    for (const text of this.#typed.splice(0)) this.context.push({ kind: "prompt", text });
  }

  #afterTurn(): void {
    const left = this.#typed.splice(0);
    this.#queue.unshift(...left.map((text): Waiting => ({ kind: "queued", text })));
  }

  #check(call: Call, moment: string): void {
    if (call.denied !== null) {
      this.violations.push(`${call.id} ${moment} although its hook refused it`);
    }
    const why = this.#o.forbidden?.(call) ?? null;
    if (why !== null) this.violations.push(`${call.id} ${moment}: ${why}`);
  }

  #fire(
    loop: AgentLoop,
    event: string,
    fields: HookPayload,
    label: string,
    ended: (end: HookEnd) => void,
  ): FakeHook {
    const payload = this.#payload(event, fields, loop.identity);
    return this.#register(loop, payload, label, (end) => {
      if (this.alive) ended(end);
    });
  }

  #register(
    loop: AgentLoop | null,
    payload: HookPayload,
    label: string,
    ended: (end: HookEnd) => void,
  ): FakeHook {
    const hook = new FakeHook(this.#o.hooks, payload, label, ended);
    this.sent.push(payload);
    this.#hooks.push({ hook, loop });
    return hook;
  }

  #payload(event: string, fields: HookPayload, agent: AgentIdentity | null): HookPayload {
    const { sessionId, promptId } = this;
    const common = this.manner.common(event, { sessionId, promptId, cwd: this.#o.cwd, agent });
    return { ...common, hook_event_name: event, ...fields };
  }

  #line(line: Record<string, unknown>, agent: AgentIdentity | null = null): void {
    if (this.#o.record === undefined || agent !== null) return;
    const time = new Date(this.#o.clock?.now() ?? 0).toISOString();
    const { sessionId } = this;
    this.#o.record({
      ...line,
      uuid: this.#o.ids.uuid(),
      isSidechain: false,
      timestamp: time,
      sessionId,
    });
  }

  #loops(): AgentLoop[] {
    return [this.main, ...this.subs.values()];
  }

  #allCalls(): Call[] {
    return this.#loops().flatMap((loop) => loop.batches.flatMap((b) => [...b.calls]));
  }

  #mustLive(): void {
    if (!this.alive) throw new Error("the agent does not run");
  }
}

function taskNotification(agentId: string, toolUseId: string, report: string): string {
  return [
    "<task-notification>",
    `<task-id>${agentId}</task-id>`,
    `<tool-use-id>${toolUseId}</tool-use-id>`,
    "<status>completed</status>",
    `<result>${report}</result>`,
    "</task-notification>",
  ].join("\n");
}
