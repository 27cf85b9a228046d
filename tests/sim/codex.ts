/** Agents whose harness runs one call at a time: what their models answer, and what becomes of their session records. */
import { unresolvedIntents } from "../../src/store/intents.ts";
import { codexRecord, mcpTool, patch } from "../fakes/agent-codex.ts";
import type { AgentLoop } from "../fakes/agent-loop.ts";
import type { Step } from "../fakes/agent-scheduler.ts";
import { bash, unknownTool, type ToolSpec } from "../fakes/agent-tools.ts";
import type { Random } from "../support/random.ts";
import { leaveRunning } from "./children.ts";
import type { SimAgent } from "./panes.ts";
import { edited, personActs } from "./people.ts";
import type { Rates } from "./rates.ts";
import { RECORD_TROUBLES } from "./records.ts";
import type { World } from "./world.ts";

/** A record that cannot be read is read again after so many steps of its agent, about. */
const MENDS = 0.06;
/** Without its earlier lines a record says that time runs backward, which costs the agent: now and then is enough. */
const GONE = 0.1;

/** Above it, edits without a hook are what a schedule is about. */
const OFTEN = 0.1;
/** More than file times and the daemon's clock may differ by. */
const APART_MS = 60;

export function isCodex(sim: SimAgent): boolean {
  return !sim.agent.manner.closes;
}

export function recordOf(sim: SimAgent): string {
  return codexRecord(sim.root, sim.agent.sessionId);
}

/** The model writes a response. One call; seldom several, which it was configured not to do. */
export function codexAnswers(
  w: World,
  r: Random,
  sim: SimAgent,
  loop: AgentLoop,
  rates: Rates,
): void {
  if (rates.unhooked > 0 && r.chance(rates.unhooked) && mayEditUnseen(w, sim))
    return editsUnseen(w, r, sim);
  if (r.chance(rates.brief)) return loop.finish("done");
  if (rates.children > 0 && r.chance(rates.children))
    return void loop.respond([background(w, r, sim)]);
  // The only calls that a harness here may run although it was told to refuse them.
  if (rates.runsDenied >= 0.5 && r.chance(0.7)) return void loop.respond([bash("ls")]);
  // Two calls whose lines nobody can read are told apart by nobody; that a harness shows both is not simulated.
  const several = rates.siblings > 0 && r.chance(likely(w, sim, rates)) && isReadable(w, sim);
  const calls = Array.from({ length: several ? 2 + r.below(2) : 1 }, () => tool(w, r, sim, rates));
  loop.respond(calls, { streamed: several && r.chance(0.5) });
}

/** Siblings where there is something to be told are what the rules for them are for. */
function likely(w: World, sim: SimAgent, { siblings }: Rates): number {
  const work = unresolvedIntents(w.outside, sim.threadId).some((i) => i.state === "Detected");
  return work ? Math.min(2 * siblings, 0.7) : siblings / 2;
}

/** What becomes of the session record next; null: nothing. */
export function recordStep(w: World, r: Random, sim: SimAgent, rates: Rates): Step | null {
  const path = recordOf(sim);
  const { records } = w;
  const step = (name: string, take: () => void): Step => ({ name, fault: true, take });
  if (records.trouble(path) !== null)
    return r.chance(MENDS) ? step("record is mended", () => records.end(path)) : null;
  if (!r.chance(rates.records) || besideSibling(sim)) return null;
  const kinds = RECORD_TROUBLES.filter((kind) => kind !== "gone" || r.chance(GONE));
  const kind = r.pick(kinds);
  return step(`record is ${kind}`, () => {
    w.count(`record ${kind}`);
    records.begin(path, kind);
  });
}

function isReadable(w: World, sim: SimAgent): boolean {
  return w.records.trouble(recordOf(sim)) === null;
}

function besideSibling(sim: SimAgent): boolean {
  return (sim.agent.main.batch?.calls.length ?? 0) > 1;
}

function tool(w: World, r: Random, sim: SimAgent, rates: Rates): ToolSpec {
  const { root, workspace } = sim;
  const jj = (name: string, deed: string): ToolSpec =>
    bash(name, () => personActs(w, r, workspace, deed));
  // What a call leaves running explains every edit that comes after it.
  switch (r.below(rates.unhooked > OFTEN ? 9 : 11)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const { path } = edited(w, r, root, "agent");
      // The content is made when the tool runs: it edits what is there then.
      const effect = (): string => {
        const { text } = edited(w, r, root, "agent");
        w.files.as("edit", () => w.files.put(`${root}/${path}`, text));
        return "Done!";
      };
      const spec = r.chance(0.7) ? patch(path, effect) : bash(`edit ${path}`, effect);
      return r.chance(0.2) ? { ...spec, early: true } : spec;
    }
    case 4:
    case 5:
    case 6:
      return bash("ls");
    case 7:
      return r.chance(0.5) ? mcpTool() : jj("jj st", "st");
    case 8:
      return r.chance(0.5) ? jj("jj commit", "commit") : jj("jj new", "new");
    case 9:
      // A patch that does not apply has no process, and its end is reported by nobody.
      if (r.chance(0.5)) return background(w, r, sim);
      return patch("nowhere.txt", () => {
        throw new Error("apply_patch verification failed");
      });
    default:
      return r.chance(0.3) ? unknownTool("update_plan") : jj("git commit", "git commit");
  }
}

/** A command that returns while its process runs on. */
function background(w: World, r: Random, sim: SimAgent): ToolSpec {
  let pid: number | null = null;
  return {
    ...bash("npm run watch", () => {
      const said = leaveRunning(w, r, sim);
      pid = said.startsWith("started ") ? Number(said.slice("started ".length)) : null;
      return said;
    }),
    background(ended) {
      const child = w.children.find((c) => c.pid === pid);
      if (child === undefined) return;
      child.ended = () => {
        if (sim.agent.alive) ended();
      };
    },
  };
}

/** Nothing kiki does can keep a tool without a hook from the files: here it keeps away from them by itself. */
function mayEditUnseen(w: World, sim: SimAgent): boolean {
  return unresolvedIntents(w.outside, sim.threadId).every(
    (i) => i.barrier === null && (i.state === "Detected" || i.state === "TopologyDiverged"),
  );
}

/** A call that fires no hook, within a response of its own. */
function editsUnseen(w: World, r: Random, sim: SimAgent): void {
  const { record } = sim.agent.manner;
  const { sessionId } = sim.agent;
  const id = w.callId();
  const { path, text } = edited(w, r, sim.root, "unseen");
  record!.called(sessionId, { id, spec: { name: "write_stdin", input: {}, concurrent: true } });
  record!.completed(sessionId);
  // Long after the call before, and before the next one.
  w.clock.advance(APART_MS);
  w.files.as("edit", () => w.files.put(`${sim.root}/${path}`, text));
  w.clock.advance(APART_MS);
  record!.answered(sessionId, id, "");
  w.count("an agent edits without a hook");
}
