/**
 * What an agent leaves running beside its tools: a server, a watcher, a jj of its own. Each is a process that writes into
 * the workspace whenever it may run, and opens a file a moment before it does.
 */
import type { Random } from "../support/random.ts";
import type { FakeProcess } from "../fakes/processes.ts";
import type { Step } from "../fakes/agent-scheduler.ts";
import type { SimAgent } from "./panes.ts";
import { edited } from "./people.ts";
import type { World } from "./world.ts";

/** One agent leaves no more than this running. */
const MAX_CHILDREN = 2;

export interface Child {
  readonly pid: number;
  readonly threadId: string;
  readonly root: string;
  /** One of jj's or git's: it is waited for, never stopped, and writes nothing by itself. */
  readonly versionControl: boolean;
  /** Tells its harness, where that reports such an end. */
  ended?: () => void;
}

/** The agent's tool starts something that goes on when the tool has ended. */
export function leaveRunning(w: World, r: Random, sim: SimAgent): string {
  const mine = w.children.filter((c) => c.threadId === sim.threadId && alive(w, c) !== null);
  if (mine.length >= MAX_CHILDREN || !w.processes.pids.includes(sim.pid)) return "busy";
  const versionControl = r.chance(0.2);
  const argv = versionControl ? ["jj", "log"] : ["node", "watch.js"];
  const { pid } = w.processes.spawn({ argv, name: argv[0]!, parent: sim.pid, cwd: sim.root });
  w.children.push({ pid, threadId: sim.threadId, root: sim.root, versionControl });
  w.count("an agent leaves something running");
  return `started ${pid}`;
}

export function alive(w: World, child: Child): FakeProcess | null {
  return w.processes.pids.includes(child.pid) ? w.processes.get(child.pid) : null;
}

/** Those that nobody has stopped. */
export function writers(w: World, threadId: string): Child[] {
  return w.children.filter(
    (c) => c.threadId === threadId && !c.versionControl && alive(w, c)?.state === "running",
  );
}

export function childSteps(w: World): Step[] {
  return w.children.flatMap((child) => {
    const process = alive(w, child);
    if (process?.state !== "running") return [];
    const steps: Step[] = [];
    const add = (name: string, take: () => void): void => {
      steps.push({ name: `process ${child.pid} ${name}`, fault: false, take });
    };
    const [open] = process.open;
    if (open !== undefined) add("writes", () => write(w, child, process, open));
    else {
      if (!child.versionControl && w.ports.turbulent)
        add("opens a file", () => openOne(w, child, process));
      add("ends", () => {
        w.processes.end(child.pid);
        child.ended?.();
      });
    }
    return steps;
  });
}

function openOne(w: World, child: Child, process: FakeProcess): void {
  const { path } = edited(w, w.random, child.root, "process");
  if (w.files.get(`${child.root}/${path}`) !== null) process.open = [`${child.root}/${path}`];
}

function write(w: World, child: Child, process: FakeProcess, path: string): void {
  process.open = [];
  const { text } = edited(w, w.random, child.root, "process", path.slice(child.root.length + 1));
  if (w.files.get(path) !== null) w.files.as("edit", () => w.files.put(path, text));
}
