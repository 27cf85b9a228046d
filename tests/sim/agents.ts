/** What agents of a simulated world do: bursts of their steps, whole rounds, and what their models answer. */
import { edges } from "../../src/store/edges.ts";
import { threadPaths } from "../../src/core/paths.ts";
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
import { leaveRunning } from "./children.ts";
import { codexAnswers, isCodex, recordStep } from "./codex.ts";
import { REPO_ID, STATE } from "./daemon.ts";
import type { SimAgent, SimPane } from "./panes.ts";
import { edited, personActs } from "./people.ts";
import type { Rates } from "./rates.ts";
import type { World } from "./world.ts";

/** Steps of one pane that are taken without a look elsewhere. */
const MAX_BURST = 12;
/** From a prompt to the end of a batch, about. */
const MAX_ROUND = 40;
/** Sleeps of kiki's that a round waits for. */
const MAX_WAITS = 8;

export function busy(pane: SimPane): boolean {
  return pane.steps().some((s) => !s.fault) || thinking(pane.current).length > 0;
}

function thinking(sim: SimAgent | null): AgentLoop[] {
  if (sim === null) return [];
  return [sim.agent.main, ...sim.agent.subs.values()].filter((loop) => loop.thinking);
}

/** What a cascade is for, in one go, so that short schedules have many of it; whatever can go wrong does so here as well. */
export async function round(
  w: World,
  r: Random,
  rates: Rates,
  followers: readonly SimPane[],
): Promise<string> {
  const pane = r.pick(followers);
  const { parent: parentId } = edges(w.outside).find((e) => e.child === pane.threadId)!;
  const parent = w.threads().find((t) => t.threadId === parentId)!;
  const moved = personActs(w, r, parent.workspaceName, r.pick(["amend", "amend", "commit"]));
  if (w.life === null && r.chance(0.8)) w.boot();
  w.fsEvents.deliver();
  await w.pass(300);
  if (rates.doom !== null && w.life !== null && r.chance(0.5))
    w.ports.doom ??= { left: 1, at: new RegExp(rates.doom) };
  const { agent } = pane.current ?? {};
  if (agent?.alive === true && agent.main.idle) {
    if (rates.clears > 0 && r.chance(0.6)) agent.clear();
    agent.prompt(w.fresh("do"));
  }
  return `${moved}; ${await burst(w, r, pane, rates, MAX_ROUND, MAX_WAITS)}`;
}

export async function burst(
  w: World,
  r: Random,
  pane: SimPane,
  rates: Rates,
  most = 1 + r.below(MAX_BURST),
  waits = 0,
): Promise<string> {
  let waited = 0;
  const taken: string[] = [];
  for (let left = most; left > 0; left -= 1) {
    const step = paneStep(w, r, pane, rates);
    if (step === null) {
      // What it waits for is kiki's, and kiki waits for a clock.
      const wake = w.clock.nextWake;
      if (waited === waits || wake === null) break;
      waited += 1;
      await w.pass(Math.max(0, wake));
      continue;
    }
    taken.push(step.name);
    // What kiki does in return is kiki's; what the step itself does says who it is.
    step.take();
    await w.settle();
    w.oracle.check();
  }
  return taken.join(", ");
}

function paneStep(w: World, r: Random, pane: SimPane, rates: Rates): Step | null {
  const steps = pane.steps();
  const bad = steps.filter((s) => s.fault);
  if (rates.losses > 0 && pane.current !== null) {
    const lost = lostPasses(w, pane.current);
    if (lost.length > 0 && r.chance(0.5))
      return {
        name: "passed/ lost",
        fault: true,
        take: () => lost.forEach((f) => w.files.remove(f)),
      };
  }
  if (rates.records > 0 && pane.current !== null && isCodex(pane.current)) {
    const step = recordStep(w, r, pane.current, rates);
    if (step !== null) return step;
  }
  const agent = pane.current?.agent;
  if (rates.takesBack > 0 && agent?.alive === true && agent.unanswered?.includes("[[kiki:"))
    if (r.chance(rates.takesBack)) return takenBack(w, r, pane.current!, rates);
  for (const [pattern, probability] of rates.prefer) {
    const wanted = bad.filter((s) => new RegExp(pattern).test(s.name));
    if (wanted.length > 0 && r.chance(probability)) return r.pick(wanted);
  }
  if (bad.length > 0 && r.chance(rates.faults)) {
    // Each kind as likely as any other, however many hooks could die just now.
    const kinds = [...Map.groupBy(bad, (step) => step.name.split(": ")[1]).values()];
    const step = r.pick(r.pick(kinds));
    w.count(`agent fault ${step.name.split(": ")[1]}`);
    return step;
  }
  const good = steps.filter((s) => !s.fault);
  const minds = thinking(pane.current).map((loop) => ({
    name: `${loop.label} answers`,
    fault: false,
    take: () => answer(w, r, pane.current!, loop, rates),
  }));
  const all = [...good, ...minds];
  return all.length === 0 ? null : r.pick(all);
}

/** The model writes a response: tool calls, or the end of its turn. */
function answer(w: World, r: Random, sim: SimAgent, loop: AgentLoop, rates: Rates): void {
  if (isCodex(sim)) return codexAnswers(w, r, sim, loop, rates);
  if (rates.children > 0 && r.chance(rates.children) && loop.identity === null) {
    loop.respond([bash("npm run watch", () => leaveRunning(w, r, sim))]);
    return;
  }
  if (rates.subs > 0 && loop.identity === null && r.chance(rates.subs)) {
    loop.respond([subAgent("helper", r.chance(0.5) ? "foreground" : "background"), bash("ls")]);
    return;
  }
  // The only calls that a harness here may run although it was told to refuse them.
  if (rates.runsDenied >= 0.5 && r.chance(0.7)) {
    loop.respond([read(`${sim.root}/shared.txt`), bash("ls")]);
    return;
  }
  if (r.chance(rates.brief)) return loop.finish("done");
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

export function rude({ agent, workspace }: SimAgent, r: Random): string {
  const what = r.pick(["escape", "clear", "compact", "exit", "crash"] as const);
  agent[what]();
  return `${what} in ${workspace}`;
}

/**
 * Files that stand for calls which are over and not reported yet, where nothing else of the agent is at work: what kiki
 * does without them is wrong about what ran, and cannot hurt a file.
 */
export function lostPasses(w: World, sim: SimAgent): string[] {
  const { passed } = threadPaths(STATE, REPO_ID, sim.threadId);
  const files = w.files.below(passed).filter((f) => f.startsWith(`${passed}/${sim.incarnation}.`));
  if (files.length === 0) return [];
  const calls = [sim.agent.main, ...sim.agent.subs.values()].flatMap((l) => l.batch?.calls ?? []);
  const quiet = calls.every((c) => ["unstreamed", "queued", "reporting", "done"].includes(c.state));
  return quiet && calls.some((c) => c.state === "reporting") ? files : [];
}

/** Esc before anything has come of what it was started with, and what the person types then. */
function takenBack(w: World, r: Random, sim: SimAgent, rates: Rates): Step {
  const take = (): void => {
    sim.agent.escape();
    if (r.chance(0.8)) sim.agent.prompt(typed(w, r, sim, rates));
  };
  return { name: "main: prompt taken back", fault: false, take };
}

/** A person types something new or, where what they took back stands in the composer, sends that with another word. */
export function typed(w: World, r: Random, { agent }: SimAgent, rates: Rates): string {
  const again = rates.takesBack > 0 && agent.composer !== "" && r.chance(0.5);
  return again ? `${agent.composer} ${w.fresh("now")}` : w.fresh("do");
}
