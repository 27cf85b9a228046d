/** What may happen next in a simulated world, and how likely it is. */
import { AGREED, inputFor } from "../lifecycle/rig.ts";
import type { Random } from "../support/random.ts";
import { edges } from "../../src/store/edges.ts";
import { burst, busy, lostPasses, round, rude, typed } from "./agents.ts";
import { childSteps } from "./children.ts";
import { applyShown, lookAtRepairs, refused, repairNow, troubled } from "./repairs.ts";
import { attempt, personActs, personConcurrently, weighted } from "./people.ts";
import type { Rates } from "./rates.ts";
import type { World } from "./world.ts";

interface Action {
  name: string;
  weight: number;
  /** Returns what to put into the trace. */
  does: () => Promise<string> | string;
}

const MUTATION =
  /^jj\.(addWorkspace|createBookmark|snapshot|updateStale|stageRebase|integrate|forget|abandon|delete)/;
const DAY_MS = 24 * 3600 * 1000;
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
      w.ports.doom =
        rates.doom !== null && r.chance(0.8)
          ? { left: 1 + r.below(2), at: new RegExp(rates.doom) }
          : doom(r);
      return `at ${w.ports.doom.at.source}, call ${w.ports.doom.left}`;
    });
    add("daemon looks for ended agents", 1, () => (w.life?.creation.retireGone(), "looks"));
    const waiting = troubled(w);
    if (waiting.length > 0 && rates.repairs > 0) {
      add("kk repair", 3 * rates.repairs, () => repairNow(w, r, r.pick(waiting)));
      add("kk repair looks", 2 * rates.repairs, () => lookAtRepairs(w, r.pick(waiting)));
    }
    if (w.shown.length > 0) add("kk repair late", 2, () => applyShown(w, r));
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
    if (busy(pane)) add("pane goes on", rates.busy, () => burst(w, r, pane, rates));
  for (const sim of w.running()) {
    if (sim.agent.main.idle)
      add(
        "person prompts",
        rates.busy / 2.4,
        () => (sim.agent.prompt(typed(w, r, sim, rates)), sim.workspace),
      );
    else
      add(
        "person prompts meanwhile",
        rates.rude,
        () => (sim.agent.prompt(w.fresh("also")), sim.workspace),
      );
    add("rude", rates.rude, () => rude(sim, r));
    add("person clears", rates.clears, () => (sim.agent.clear(), sim.workspace));
  }
  const processes = childSteps(w);
  if (processes.length > 0)
    add("a process goes on", 8, () => {
      const step = r.pick(processes);
      step.take();
      return step.name;
    });
  if (rates.rounds > 0) {
    const follow = new Set(edges(w.outside).map((e) => e.child));
    const followers = w.panes.filter(
      (p) => follow.has(p.threadId) && p.current !== null && !p.stopped,
    );
    if (followers.length > 0) add("a round", rates.rounds, () => round(w, r, rates, followers));
  }
  addLosses(w, rates, add);
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

/** What nobody meant to lose, and what a person sets that a probe has no answer for. */
function addLosses(
  w: World,
  rates: Rates,
  add: (name: string, weight: number, does: Action["does"]) => void,
): void {
  if (rates.losses === 0) return;
  const lost = w.agents().flatMap((sim) => lostPasses(w, sim));
  if (lost.length > 0)
    add("a passed/ file is lost", 10 * rates.losses, () => {
      for (const file of lost) w.files.remove(file);
      return lost.join();
    });
  for (const { workspacePath } of w.threads()) {
    const is = w.jj.unproved.has(workspacePath);
    add(is ? "sparse patterns go" : "sparse patterns", is ? 2 : rates.losses / 4, () => {
      if (is) w.jj.unproved.delete(workspacePath);
      else w.jj.unproved.set(workspacePath, "sparse: the workspace has sparse patterns");
      return workspacePath;
    });
  }
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
  const harness = w.drawHarness();
  const input = inputFor(name, {
    follows,
    noFollow: follows === null,
    prompt,
    ...(harness === "codex" ? { harness, harnessExecutable: "/usr/bin/codex" } : {}),
  });
  void creation
    .plan(input)
    .then(({ digest }) => creation.create({ ...input, digest }, AGREED))
    .then(
      () => w.count("kk new agreed"),
      (error: unknown) => refused(w, "kk new", error),
    );
}
