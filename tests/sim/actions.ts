/** What may happen next in a simulated world, and how likely it is. */
import { AGREED, inputFor } from "../lifecycle/rig.ts";
import type { AgentLoop } from "../fakes/agent-loop.ts";
import type { Step } from "../fakes/agent-scheduler.ts";
import {
  bash,
  edit,
  read,
  subAgent,
  unknownTool,
  write,
  type ToolSpec,
} from "../fakes/agent-tools.ts";
import type { Random } from "../support/random.ts";
import { KikiError } from "../../src/core/errors.ts";
import type { SimAgent, SimPane } from "./panes.ts";
import { attempt, edited, personActs, personConcurrently, weighted } from "./people.ts";
import type { World } from "./world.ts";

export interface Rates {
  threads: number;
  park: number;
  fail: number;
  /** Weight of daemons that die. */
  kill: number;
  /** Weight of people. */
  people: number;
  /** Weight of several operation heads. */
  heads: number;
  /** Probability of a fault instead of an agent's step. */
  faults: number;
  /** Weight of what a person does to an agent: Esc, /clear, exit, crash. */
  rude: number;
  /** Commands may outlast every patience: time passes while they are parked, or without their daemon. */
  slow: boolean;
}

interface Action {
  name: string;
  weight: number;
  /** Returns what to put into the trace. */
  does: () => Promise<string> | string;
}

const MUTATION =
  /^jj\.(addWorkspace|createBookmark|snapshot|updateStale|stageRebase|integrate|forget|abandon|delete)/;
const DAY_MS = 24 * 3600 * 1000;
/** Steps of one pane that are taken without a look elsewhere. */
const MAX_BURST = 12;

export function actions(w: World, rates: Rates): Action[] {
  const r = w.random;
  const list: Action[] = [];
  const add = (name: string, weight: number, does: Action["does"]): void => {
    if (weight > 0) list.push({ name, weight, does });
  };
  const threads = w.threads();
  if (w.life !== null) {
    if (threads.length < rates.threads) add("new thread", 3, () => newThread(w, r));
    add("daemon dies", rates.kill / 2, () => (w.kill("between two steps"), "daemon dies"));
    add("daemon will die", rates.kill, () => {
      w.ports.doom = doom(r);
      return `at ${w.ports.doom.at.source}, call ${w.ports.doom.left}`;
    });
    add("daemon looks for ended agents", 1, () => (w.life?.creation.retireGone(), "looks"));
    if (threads.some((t) => t.lifecycle === "CreateFailed"))
      add("kk repair", 2, () => repair(w, r));
  } else {
    add("daemon boots", 12, () => (w.boot(), "boots"));
  }
  if (w.ports.parked.length > 0) {
    add("a call goes on", 14, () => {
      const at = r.below(w.ports.parked.length);
      const { name } = w.ports.parked[at]!;
      w.ports.release(at);
      return name;
    });
  }
  if (w.ports.survivors.length > 0) {
    add("a jj without daemon ends", 6, async () => {
      const at = r.below(w.ports.survivors.length);
      const { name } = w.ports.survivors[at]!;
      await w.ports.finishSurvivor(at);
      return name;
    });
  }
  for (const pane of w.panes)
    if (busy(pane)) add("pane goes on", 12, () => burst(w, r, pane, rates));
  for (const sim of w.running()) {
    if (sim.agent.main.idle)
      add("person prompts", 5, () => (sim.agent.prompt(w.fresh("do")), sim.workspace));
    else
      add(
        "person prompts meanwhile",
        rates.rude,
        () => (sim.agent.prompt(w.fresh("also")), sim.workspace),
      );
    add("rude", rates.rude, () => rude(sim, r));
  }
  addPeople(w, r, rates, add);
  addTime(w, r, rates, add);
  addTmux(w, r, rates, add);
  return list;
}

/** Where daemons die: anywhere, or at something that changes the world. */
function doom(r: Random): { left: number; at: RegExp } {
  const at = r.pick([/./, /./, MUTATION, /^crash intent/, /^crash/, /^commit/, /^(files|tmux)/]);
  const far = at.source === "." ? 60 : 12;
  return { left: 1 + r.below(r.chance(0.5) ? 3 : far), at };
}

export function choose(w: World, rates: Rates): Action {
  return weighted(w.random, actions(w, rates), (a) => a.weight);
}

function addPeople(
  w: World,
  r: Random,
  rates: Rates,
  add: (name: string, weight: number, does: Action["does"]) => void,
): void {
  const workspaces = [...w.jj.engine.newestHead().view.workspaces.keys()].sort();
  if (workspaces.length === 0) return;
  // Where others stand on what is changed there is more to see.
  const followed = w.followed().filter((name) => workspaces.includes(name));
  const places = [...workspaces, ...followed, ...followed];
  add("person", rates.people, () => personActs(w, r, r.pick(places)));
  add("person concurrently", rates.heads, () => personConcurrently(w, r, r.pick(places)));
  add("head lingers", rates.heads / 2, () => (w.jj.lingerHead(1 + r.below(3)), "lingers"));
  add("storm", rates.people / 8, () =>
    attempt(w, "storm", () => w.jj.storm(3 + r.below(12), r.pick(workspaces))),
  );
}

/** A person at tmux, and a tmux that does not answer. Sessions of finished threads are left alone for now. */
function addTmux(
  w: World,
  r: Random,
  rates: Rates,
  add: (name: string, weight: number, does: Action["does"]) => void,
): void {
  const making = w.threads().filter((t) => t.lifecycle === "Creating");
  const sessions = w.tmux.sessions.filter((s) =>
    making.some((t) => t.threadId === s.tags["@kiki_thread"]),
  );
  if (sessions.length > 0)
    add("person kills a session", rates.rude / 2, () => {
      w.tmux.personKills(r.pick(sessions).id);
      return "killed";
    });
  if (making.length > 0 && rates.fail > 0)
    add("tmux gives no answer", 1, () => ((w.tmux.unsure += 1 + r.below(2)), "unsure"));
}

function addTime(
  w: World,
  r: Random,
  rates: Rates,
  add: (name: string, weight: number, does: Action["does"]) => void,
): void {
  const pass = async (ms: number): Promise<string> => {
    await w.pass(ms);
    return `${ms} ms`;
  };
  if (w.clock.nextWake !== null)
    add("time: next wake", 8, () => pass(Math.max(0, w.clock.nextWake ?? 0)));
  // kiki gives a jj that outlives its daemon as long as its own commands may take.
  const patient = rates.slow || (w.ports.survivors.length === 0 && w.ports.parked.length === 0);
  add("time", 6, () => pass(r.pick(patient ? [60, 300, 1_600, 5_200, 31_000] : [60, 300])));
  add("wall clock jumps", 0.4, () => {
    w.clock.jump(r.chance(0.5) ? DAY_MS : -DAY_MS);
    return "jumps";
  });
  add("fs event", 5, () => (w.fsEvents.deliver(), "delivered"));
  add("fs event lost", 1, () => ((w.fsEvents.losing += 1 + r.below(3)), "lost"));
  add("fs overflow", 0.5, () => (w.fsEvents.overflow(), "overflow"));
}

// ---- agents ------------------------------------------------------------------------------------------------------

function busy(pane: SimPane): boolean {
  return pane.steps().some((s) => !s.fault) || thinking(pane.current).length > 0;
}

function thinking(sim: SimAgent | null): AgentLoop[] {
  if (sim === null) return [];
  return [sim.agent.main, ...sim.agent.subs.values()].filter((loop) => loop.thinking);
}

async function burst(w: World, r: Random, pane: SimPane, rates: Rates): Promise<string> {
  const taken: string[] = [];
  for (let left = 1 + r.below(MAX_BURST); left > 0; left -= 1) {
    const step = paneStep(w, r, pane, rates.faults);
    if (step === null) break;
    taken.push(step.name);
    // What kiki does in return is kiki's; what the step itself does says who it is.
    step.take();
    await w.settle();
    w.oracle.check();
  }
  return taken.join(", ");
}

function paneStep(w: World, r: Random, pane: SimPane, faults: number): Step | null {
  const steps = pane.steps();
  const bad = steps.filter((s) => s.fault);
  if (bad.length > 0 && r.chance(faults)) {
    const step = r.pick(bad);
    w.count(`agent fault ${step.name.split(": ")[1]}`);
    return step;
  }
  const good = steps.filter((s) => !s.fault);
  const minds = thinking(pane.current).map((loop) => ({
    name: `${loop.label} answers`,
    fault: false,
    take: () => answer(w, r, pane.current!, loop),
  }));
  const all = [...good, ...minds];
  return all.length === 0 ? null : r.pick(all);
}

/** The model writes a response: tool calls, or the end of its turn. */
function answer(w: World, r: Random, sim: SimAgent, loop: AgentLoop): void {
  if (r.chance(0.25)) return loop.finish("done");
  const calls = Array.from({ length: 1 + r.below(3) }, () => tool(w, r, sim, loop));
  loop.respond(calls, { streamed: r.chance(0.4) });
}

function tool(w: World, r: Random, sim: SimAgent, loop: AgentLoop): ToolSpec {
  const { root, workspace } = sim;
  const jj = (name: string, deed: string): ToolSpec =>
    bash(name, () => personActs(w, r, workspace, deed));
  switch (r.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const { path } = edited(w, r, root, "agent");
      // The content is made when the tool runs: it edits what is there then.
      return {
        ...write(`${root}/${path}`, ""),
        effect: () => {
          const { text } = edited(w, r, root, "agent");
          w.files.as("edit", () => w.files.put(`${root}/${path}`, text));
          return "written";
        },
        ...(r.chance(0.2) ? { early: true } : {}),
        ...(r.chance(0.15) ? { asks: true } : {}),
      };
    }
    case 4:
    case 5:
      return read(`${root}/shared.txt`);
    case 6:
      return inPlace(w, `${root}/shared.txt`);
    case 7:
      return bash("ls");
    case 8:
      return jj("jj st", "st");
    case 9:
      return r.chance(0.5) ? jj("jj commit", "commit") : jj("jj new", "new");
    case 10:
      if (loop.identity !== null) return bash("pwd");
      return subAgent("helper", r.chance(0.3) ? "foreground" : "background");
    default:
      return r.chance(0.3) ? unknownTool("Fly") : jj("git commit", "git commit");
  }
}

/** An edit of one line; of a file that has a conflict it fails, as the fake jj knows no conflict half resolved. */
function inPlace(w: World, path: string): ToolSpec {
  const spec = edit(path, "one", w.fresh("one"));
  const { effect } = spec;
  return {
    ...spec,
    effect(files) {
      if (files.get(path)?.includes("<<<<<<<") === true) throw new Error("there is a conflict");
      return effect!(files);
    },
  };
}

function rude({ agent, workspace }: SimAgent, r: Random): string {
  const what = r.pick(["escape", "clear", "compact", "exit", "crash"] as const);
  agent[what]();
  return `${what} in ${workspace}`;
}

// ---- kk ----------------------------------------------------------------------------------------------------------

/** A person's `kk new`: looks at the plan and agrees. */
function newThread(w: World, r: Random): string {
  const active = w.threads().filter((t) => t.lifecycle === "Active");
  const follows = active.length > 0 && r.chance(0.85) ? r.pick(active).slug : null;
  const name = `t${w.threads().length + 1}`;
  const prompt = r.chance(0.7) ? w.fresh("write") : null;
  createThread(w, name, follows, prompt);
  return `${name} follows ${follows}`;
}

export function createThread(
  w: World,
  name: string,
  follows: string | null,
  prompt: string | null,
): void {
  const { creation } = w.life!;
  const input = inputFor(name, { follows, noFollow: follows === null, prompt });
  void creation
    .plan(input)
    .then(({ digest }) => creation.create({ ...input, digest }, AGREED))
    .then(
      () => w.count("kk new agreed"),
      (error: unknown) => refused(w, "kk new", error),
    );
}

function repair(w: World, r: Random): string {
  const { repairs } = w.life!;
  const thread = r.pick(w.threads().filter((t) => t.lifecycle === "CreateFailed"));
  const caller = { harnessExecutable: "/usr/bin/claude", env: { PATH: "/usr/bin" } };
  const work = async (): Promise<void> => {
    const { plans } = await repairs.diagnose(thread.threadId);
    if (plans.length === 0) return;
    const chosen = r.pick(plans);
    const plan = await repairs.plan(thread.threadId, chosen.id, caller);
    await plan.begin(AGREED);
    w.count(`kk repair ${chosen.kind}`);
  };
  void work().catch((error: unknown) => refused(w, "kk repair", error));
  return thread.slug;
}

/** A command may be refused; it never fails without a reason for people. */
function refused(w: World, what: string, error: unknown): void {
  if (error instanceof KikiError) w.count(`${what} refused: ${error.code}`);
  else if (w.life !== null && (error as Error).name !== "Killed")
    w.unexpected(`${what}: ${(error as Error).stack ?? String(error)}`);
}
