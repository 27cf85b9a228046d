/**
 * The agent panes of the simulated tmux: kiki's inert wrapper (src/cmd/pane.ts), which asks for launches, starts the
 * harness and reports, and the agent it started. Like the agent's, everything it does is a step.
 */
import { KikiError } from "../../src/core/errors.ts";
import { threadPaths } from "../../src/core/paths.ts";
import type { HookDecision } from "../../src/core/hook-decision.ts";
import type { Launch } from "../../src/lifecycle/launch.ts";
import { FakeAgent } from "../fakes/agent.ts";
import { codexManner } from "../fakes/agent-codex.ts";
import type { Call } from "../fakes/agent-batch.ts";
import { daemonOn, diskOn, type DaemonLife } from "../fakes/agent-protocol.ts";
import type { Actor, Step } from "../fakes/agent-scheduler.ts";
import type { FakePane } from "../fakes/tmux.ts";
import { isCodex } from "./codex.ts";
import { REPO_ID, STATE, type Life } from "./daemon.ts";
import { cascadeFilesOn } from "./disk.ts";
import type { World } from "./world.ts";

const GATE_WAIT_MS = 25_000;
/** Failures by which the daemon says what it has decided about this incarnation (src/cmd/pane.ts). */
const DECIDED: ReadonlySet<string> = new Set(["incarnation-retired", "gate-not-claimed"]);

export interface SimAgent {
  agent: FakeAgent;
  threadId: string;
  incarnation: string;
  workspace: string;
  root: string;
  pid: number;
  /** Results and prompts the model has been given, by session. */
  saw: Map<string, Set<string>>;
}

type Report = (life: Life) => void;

export class SimPane implements Actor {
  readonly threadId: string;
  readonly pane: FakePane;
  /** Every agent it ever started; the last one may be alive. */
  readonly agents: SimAgent[] = [];
  readonly #world: World;
  readonly #gone = new AbortController();
  readonly #reports: { name: string; make: Report }[] = [];
  #state: "asks" | "waits" | "launches" | "runs" = "asks";
  #launch: Launch | null = null;
  #refused = 0;
  #killed = false;

  constructor(world: World, pane: FakePane, threadId: string) {
    this.#world = world;
    this.pane = pane;
    this.threadId = threadId;
  }

  get open(): boolean {
    return !this.#gone.signal.aborted;
  }

  get current(): SimAgent | null {
    const last = this.agents.at(-1);
    return last !== undefined && last.agent.alive ? last : null;
  }

  /** The pane is gone: wrapper and harness end with it. */
  close(): void {
    this.#gone.abort();
    this.current?.agent.crash();
    this.#world.processes.end(this.agents.at(-1)?.pid ?? 0);
  }

  /** Its process stands still, or is gone already: it takes no step of its own. */
  get stopped(): boolean {
    const { processes } = this.#world;
    const pid = this.current?.pid;
    if (pid === undefined) return false;
    return !processes.pids.includes(pid) || processes.get(pid).state === "stopped";
  }

  steps(): Step[] {
    // Ended by whoever looks at processes, not at agents.
    if (this.current !== null && !this.#world.processes.pids.includes(this.current.pid)) {
      this.#killed = true;
      this.current.agent.crash();
    }
    const { stopped, current } = this;
    const hooks = this.agents.flatMap((a) =>
      stopped && a === current ? a.agent.hooks.flatMap((h) => h.steps()) : a.agent.steps(),
    );
    if (!this.open) return hooks;
    const steps = [...hooks];
    const add = (name: string, take: () => void): void => {
      steps.push({ name: `${this.pane.id} ${name}`, fault: false, take });
    };
    const life = this.#world.life;
    const [report] = this.#reports;
    if (report !== undefined && life !== null) add(report.name, () => this.#report(life));
    if (this.#state === "asks" && life !== null && this.#reports.length === 0)
      add("wrapper asks for a launch", () => this.#ask(life));
    if (this.#state === "launches") add("harness starts", () => this.#start());
    if (this.#state === "runs" && !this.agents.at(-1)!.agent.alive)
      add("wrapper sees the harness end", () => this.#ended());
    return steps;
  }

  waiting(): Promise<void>[] {
    return this.agents.flatMap((a) => a.agent.waiting());
  }

  #ask(life: Life): void {
    this.#state = "waits";
    const over = AbortSignal.any([life.end.signal, this.#gone.signal]);
    const answered = (launch: Launch | null): void => {
      if (this.#state !== "waits" || life.dead) return;
      this.#launch = launch;
      this.#state = launch === null ? "asks" : "launches";
    };
    // A daemon that dies is asked again when there is one.
    life.end.signal.addEventListener("abort", () => {
      if (this.#state === "waits") this.#state = "asks";
    });
    life.creation.awaitGate(this.threadId, this.pane.id, GATE_WAIT_MS, over).then(answered, () => {
      // Refused; a wrapper tries again later, and this one in the world's own time.
      this.#refused += 1;
      answered(null);
    });
  }

  #start(): void {
    const launch = this.#launch!;
    const w = this.#world;
    const { pid, startTime } = w.processes.spawn({
      argv: launch.argv,
      parent: this.pane.pid,
      env: Object.entries(launch.env).map(([name, value]) => `${name}=${value}`),
    });
    const resumed = launch.argv.includes("--resume");
    const codex = w.threads().some((t) => t.threadId === this.threadId && t.harness === "codex");
    const names = launch.argv.indexOf(resumed ? "--resume" : "--session-id");
    // Codex names its conversations itself.
    const sessionId = names < 0 ? w.agentIds.uuid() : launch.argv[names + 1]!;
    const before = this.agents.findLast((a) => a.agent.sessionId === sessionId);
    const of = w.agentOf(this.threadId);
    const sim = { threadId: this.threadId, incarnation: launch.incarnation, pid, ...of };
    const agent = new FakeAgent({
      hooks: this.#hooks(launch),
      files: {
        get: (path) => w.files.get(path),
        put: (path, text) => w.files.as("edit", () => w.files.put(path, text)),
        remove: (path) => w.files.as("edit", () => w.files.remove(path)),
      },
      ids: w.agentIds,
      cwd: launch.cwd,
      sessionId,
      context: resumed ? (before?.agent.context ?? []) : [],
      clock: w.clock,
      forbidden: (call) => w.oracle.forbidden(this.agents.at(-1)!, call),
      ...(codex ? { manner: codexManner(w.records, launch.cwd), callId: () => w.callId() } : {}),
    });
    this.agents.push({ agent, saw: new Map(), ...sim });
    w.misbehave(agent);
    w.count("harness started");
    const dashes = launch.argv.indexOf("--");
    this.#killed = false;
    this.pane.text = codex && dashes < 0 ? "COMPOSER" : "";
    agent.start(resumed ? "resume" : "startup", dashes < 0 ? null : launch.argv[dashes + 1]!);
    this.#state = "runs";
    if (w.fails(this.agents.length > 1)) agent.crash();
    this.#reports.push({
      name: "wrapper reports the start",
      make: (life) => life.creation.harnessStarted(launch.incarnation, pid, startTime),
    });
  }

  #ended(): void {
    const { pid, incarnation } = this.agents.at(-1)!;
    this.#world.processes.end(pid);
    this.#state = "asks";
    const killed = this.#killed;
    const code = killed ? null : this.#world.random.chance(0.5) ? 0 : 1;
    this.#reports.push({
      name: "wrapper reports the end",
      make: (life) => life.creation.harnessExited(incarnation, code, killed ? 9 : null),
    });
  }

  /** Made again until somebody answers; a refusal that decides is final. */
  #report(life: Life): void {
    const [report] = this.#reports;
    try {
      report?.make(life);
      this.#reports.shift();
    } catch (error) {
      if (life.dead) return;
      const decided = error instanceof KikiError && DECIDED.has(error.code);
      if (decided && report?.name === "wrapper reports the start")
        this.#world.processes.end(this.agents.at(-1)!.pid);
      if (!decided) this.#refused += 1;
      if (decided || this.#refused > 20) this.#reports.shift();
    }
  }

  #hooks(launch: Launch) {
    const w = this.#world;
    const { incarnation } = launch;
    const caller = { threadId: this.threadId, incarnation };
    const secret = launch.env["KIKI_INCARNATION_SECRET"]!;
    const life = (): DaemonLife | null => {
      const now = w.life;
      return now === null
        ? null
        : { cascade: hookMethods(w, now, caller, secret), dead: now.end.signal };
    };
    const paths = threadPaths(STATE, REPO_ID, this.threadId);
    const disk = diskOn(cascadeFilesOn(w.files), paths, incarnation, () => w.clock.now());
    const barred = (): boolean => {
      const is = disk.barred();
      w.observer.lookedAtMarker(is);
      return is;
    };
    return { daemon: daemonOn(life, caller), disk: { ...disk, barred } };
  }
}

/** What the daemon's own handlers answer, with the caller's credential proved. */
function hookMethods(
  w: World,
  life: Life,
  caller: { threadId: string; incarnation: string },
  secret: string,
): DaemonLife["cascade"] {
  const { incarnation, threadId } = caller;
  const context = (signal: AbortSignal) => ({
    caller: {
      kind: "ThreadScoped" as const,
      credentialId: threadId,
      repoId: REPO_ID,
      threadId,
      grant: null,
      subject: { repoId: REPO_ID, threadId, began: false, target: null, failed: null },
    },
    notes: { detail: {} },
    signal,
    stopping: life.end.signal,
    clientVersion: null,
  });
  const never = new AbortController().signal;
  const { holders } = w;
  /** A method may refuse, and its daemon may die over it; anything else is a mistake, whatever the hook makes of it. */
  const foreseen = async <T>(answer: T | Promise<T>): Promise<T> => {
    try {
      return await answer;
    } catch (error) {
      if (!life.dead && !(error instanceof KikiError))
        w.unexpected(`a hook's method: ${(error as Error).stack ?? String(error)}`);
      throw error;
    }
  };
  const { PreToolUseDecision, Hold, MarkDelivered, ReportEvent } = life.hooks;
  return {
    async preToolUse(_, event) {
      const was = w.observer.before(threadId);
      const agentId = agentOf(event);
      const asked = w.serial.asks(simOf(w, incarnation), event as Record<string, unknown>);
      const decision = (await foreseen(
        PreToolUseDecision({ incarnation, secret, event }, context(never)),
      )) as HookDecision;
      if (life.dead) return decision;
      w.observer.answered(threadId, agentId, decision, was);
      w.serial.answered(asked, null, decision);
      if (decision.decision === "hold") holders.set(decision.token, agentId);
      return decision;
    },
    async hold(_, token, signal) {
      const decision = (await foreseen(
        Hold({ incarnation, secret, token }, context(signal)),
      )) as HookDecision;
      if (life.dead) return decision;
      w.observer.released(threadId, holders.get(token) ?? null, decision);
      w.serial.released(token, decision);
      return decision;
    },
    markDelivered(_, intentId, turn, batch) {
      void MarkDelivered({ incarnation, secret, intentId, turn, batch }, context(never));
      return true;
    },
    event: async (_, event) => {
      const ends = (event as { hook_event_name: string }).hook_event_name === "Stop";
      const before = ends ? w.observer.before(threadId) : null;
      await foreseen(ReportEvent({ incarnation, secret, event }, context(never)));
      const sim = simOf(w, incarnation);
      if (!life.dead && sim !== undefined && isCodex(sim)) w.serial.turnEnded(before);
    },
  };
}

function simOf(w: World, incarnation: string): SimAgent | undefined {
  return w.panes.flatMap((p) => p.agents).find((a) => a.incarnation === incarnation);
}

/** null: the main agent's. */
function agentOf(event: unknown): string | null {
  return ((event as { agent_id?: string }).agent_id ?? "") || null;
}

/** Calls of any of its agents that may be at the files now or may begin any moment. */
export function loose(sim: SimAgent): Call[] {
  const loops = [sim.agent.main, ...sim.agent.subs.values()];
  return loops.flatMap((loop) =>
    (loop.batch?.calls ?? []).filter((c) => ["allowed", "dialog", "running"].includes(c.state)),
  );
}
