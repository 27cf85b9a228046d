/** The end of a schedule: nothing goes wrong any more, everybody finishes, and what is then not settled is explained. */
import { unresolvedIntents, type IntentRow } from "../../src/store/intents.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import type { ThreadRow } from "../../src/store/threads.ts";
import { bash, read } from "../fakes/agent-tools.ts";
import { isCodex } from "./codex.ts";
import { explained } from "./oracle-words.ts";
import { checkHistory } from "./oracle-watch.ts";
import type { SimAgent } from "./panes.ts";
import { repairNow, troubled } from "./repairs.ts";
import { personActs } from "./people.ts";
import type { World } from "./world.ts";

const ROUNDS = 12;
/** Nothing was pending so many times in a row: nothing comes any more. */
const QUIET_ROUNDS = 2;
/** Looks of people at what waits for them. */
const REPAIRS = 2;
const MAX_STEPS = 400;
/** The watcher lists heads at least so often. */
const POLL_MS = 6_000;
/** A creation waits at most so long for its agent. */
const LONG_MS = 61_000;

/** `repairs`: people look after what waits for them. */
export async function heal(w: World, repairs: boolean): Promise<void> {
  w.ports.turbulent = false;
  w.jj.unproved.clear();
  w.records.endAll();
  w.ports.doom = null;
  w.fsEvents.losing = 0;
  await calm(w);
  if (w.life === null) w.boot();
  await calm(w);
  // Several operation heads are merged by the next command anybody runs.
  personActs(w, w.random, "default", "update-stale");
  await calm(w);
  for (let passed = 0; passed < LONG_MS; passed += POLL_MS) {
    await w.pass(POLL_MS);
    await calm(w);
  }
  for (const sim of w.agents()) await endTurn(w, sim);
  if (repairs) await repairAll(w);
  for (let round = 0, quiet = 0; round < ROUNDS && quiet < QUIET_ROUNDS; round += 1) {
    quiet = w.agents().some((sim) => !sim.agent.main.idle || pending(w, sim).length > 0)
      ? 0
      : quiet + 1;
    // What the last tools did is read before anybody is asked whether something is pending.
    // An agent that is being replaced needs its time as well.
    await w.pass(POLL_MS);
    await calm(w);
    for (const sim of w.agents())
      if (!sim.agent.main.idle || pending(w, sim).length > 0) await oneCall(w, sim);
    // Whoever is told to stop here does so at some time, and a turn that ends is news to kiki.
    if (round % 3 === 2) for (const sim of w.agents()) await endTurn(w, sim);
  }
  for (const sim of w.agents()) await endTurn(w, sim);
  w.fsEvents.deliver();
  await w.pass(POLL_MS);
  await calm(w);
  w.oracle.check();
  await converged(w);
}

/** Some plan or other for everything that waits; what waits again, or still, is left to be explained. */
async function repairAll(w: World): Promise<void> {
  for (let n = 0; n < REPAIRS; n += 1) {
    for (const thread of troubled(w)) {
      repairNow(w, w.random, thread);
      await calm(w);
      await w.pass(POLL_MS);
      await calm(w);
    }
  }
}

/** Everything that can go on without anybody's decision goes on. */
async function calm(w: World): Promise<void> {
  for (let n = 0; n < MAX_STEPS && w.breaches.length === 0; n += 1) {
    await w.settle();
    if (w.ports.parked.length > 0) w.ports.release(0);
    else if (w.ports.survivors.length > 0) await w.ports.finishSurvivor(0);
    else {
      const step = w.steps().find((s) => !s.fault && !/arrives late/.test(s.name));
      if (step !== undefined) step.take();
      else if (w.panes.some((p) => p.waiting().length > 0) && w.clock.nextWake !== null)
        await w.pass(w.clock.nextWake);
      else return;
      w.oracle.check();
    }
  }
}

function pending(w: World, sim: SimAgent): IntentRow[] {
  return unresolvedIntents(w.outside, sim.threadId).filter((i) => i.state !== "TopologyDiverged");
}

/** The main agent makes one harmless call, to the end of its batch. */
async function oneCall(w: World, sim: SimAgent): Promise<void> {
  const { agent } = sim;
  if (!agent.alive) return;
  if (agent.main.idle) agent.prompt(w.fresh("go on"));
  await calm(w);
  for (const sub of agent.subs.values()) if (sub.thinking) sub.finish("done");
  await calm(w);
  if (agent.alive && agent.main.thinking)
    agent.main.respond([isCodex(sim) ? bash("ls") : read(`${sim.root}/shared.txt`)]);
  await calm(w);
}

async function endTurn(w: World, { agent }: SimAgent): Promise<void> {
  for (let n = 0; n < 10 && agent.alive; n += 1) {
    await calm(w);
    const loop = [agent.main, ...agent.subs.values()].find((l) => l.thinking);
    if (loop === undefined) return;
    loop.finish("done");
  }
}

async function converged(w: World): Promise<void> {
  for (const thread of w.threads()) {
    await checkCreation(w, thread);
    const open = unresolvedIntents(w.outside, thread.threadId);
    const live = w.agents().some((a) => a.threadId === thread.threadId);
    for (const intent of open) {
      const why = live ? explained(w, intent, open) : "no agent";
      w.count(`ends ${intent.state} (${why})`);
      // Without an agent there is no boundary; a start that delivers comes with a later part of the product.
      if (why === null && thread.lifecycle === "Active")
        w.breach(
          `${thread.name}: intent ${intent.seq} ends ${intent.state}, and nobody was told why`,
        );
    }
  }
  w.oracle.checkAtEnd();
  checkHistory(w);
}

async function checkCreation(w: World, thread: ThreadRow): Promise<void> {
  const { lifecycle, name, threadId } = thread;
  w.count(`ends ${lifecycle}`);
  const op = latestOperation(w.outside, threadId);
  if (op?.state === "Running") w.breach(`${name}: its ${op.kind} never ended`);
  if (!["Active", "CreateFailed", "Destroyed"].includes(lifecycle))
    w.breach(`${name} ends ${lifecycle}`);
  if (lifecycle === "Active") return;
  const left: string[] = [];
  const { view } = w.jj.engine.newestHead();
  if (view.workspaces.has(thread.workspaceName)) left.push("jj workspace");
  if (view.bookmarks.has(thread.bookmark)) left.push("bookmark");
  if (w.tmux.sessions.some((s) => s.tags["@kiki_thread"] === threadId)) left.push("tmux session");
  if (w.agents().some((a) => a.threadId === threadId)) left.push("processes");
  if (left.length === 0) return;
  // What could not be undone, or was somebody's by then, stays; whoever asks for repairs is told of it.
  // A clean-up's plan said what would stay.
  const { observed } = await w.life!.repairs.diagnose(threadId);
  const unsaid = left.filter((what) =>
    lifecycle === "Destroyed"
      ? what === "tmux session" || what === "processes"
      : observed.find((fact) => fact.name === what)?.ok !== false,
  );
  if (unsaid.length > 0)
    w.breach(`${name} ends ${lifecycle} with its ${unsaid.join(", ")}, unsaid`);
  else w.count("ends CreateFailed with things left");
}
