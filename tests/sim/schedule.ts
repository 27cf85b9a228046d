/** One schedule: a world, a seed, so many steps, the oracle after each, and at the end a world that is left in peace. */
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openRepoDb } from "../../src/store/open.ts";
import { randomOf, type Random } from "../support/random.ts";
import { choose, createThread, type Rates } from "./actions.ts";
import { heal } from "./heal.ts";
import { REPO_ROOT } from "./disk.ts";
import { World } from "./world.ts";

export interface Config extends Rates {
  steps: number;
  colocated: boolean;
  /** `[setup]` has something to copy and to run. */
  setup: boolean;
  /** Threads that are there, with their agents at work, before anything goes wrong. */
  prelude: number;
  /** How many steps pass before calls are parked and fail. */
  calm: number;
}

export interface Outcome {
  seed: number;
  config: Config;
  breaches: string[];
  trace: string[];
  hash: string;
  steps: number;
}

/** What the seed alone makes of a schedule. */
export function configOf(seed: number, steps = 80): Config {
  const r: Random = randomOf(seed ^ 0x5eed);
  return {
    steps,
    colocated: r.chance(0.6),
    setup: r.chance(0.2),
    prelude: r.pick([0, 1, 2, 2, 3]),
    calm: r.below(10),
    threads: 1 + r.below(4),
    park: r.pick([0, 0, 0.02, 0.08, 0.2, 0.4]),
    fail: r.pick([0, 0, 0, 0.01, 0.03, 0.08]),
    kill: r.pick([0, 0, 1, 2, 4]),
    people: r.pick([2, 5, 9, 14, 20]),
    heads: r.pick([0, 0, 0.5, 2, 5]),
    faults: r.pick([0, 0, 0.03, 0.1, 0.2]),
    rude: r.pick([0, 0, 0.3, 1, 2]),
    slow: r.chance(0.3),
  };
}

/** A database with the newest schema and nothing in it, to be copied: migrating takes longer than a whole schedule. */
export function template(folder: string): string {
  const file = join(folder, "template.db");
  if (!existsSync(file)) openRepoDb(file).close();
  return file;
}

/** `counted` is added to. */
export async function runSchedule(
  folder: string,
  seed: number,
  config: Config,
  counted: Map<string, number>,
): Promise<Outcome> {
  const file = join(folder, `s${seed}-${config.steps}.db`);
  copyFileSync(template(folder), file);
  const w = new World(file, randomOf(seed), counted, config);
  const outcome: Outcome = {
    seed,
    config,
    breaches: w.breaches,
    trace: w.trace,
    hash: "",
    steps: 0,
  };
  try {
    await play(w, config, outcome);
  } catch (error) {
    w.breach(
      `the simulation threw ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    );
  } finally {
    outcome.hash = hashOf(w);
    w.close();
    for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
  }
  return outcome;
}

async function play(w: World, config: Config, outcome: Outcome): Promise<void> {
  await w.begin();
  if (config.setup) {
    w.files.as("edit", () => w.files.put(`${REPO_ROOT}/.env.ignored`, "KEY=1\n"));
    w.setup = { copy: [".env.ignored"], run: "make deps", timeoutS: 60, source: "user" };
  }
  await prelude(w, config);
  w.ports.rates = config;
  for (let n = 1; n <= config.steps && w.breaches.length === 0; n += 1) {
    if (n > config.calm) w.ports.turbulent = true;
    outcome.steps = n;
    const action = choose(w, config);
    w.count(`action ${action.name}`);
    w.note(`${n}. ${action.name}`);
    const what = await action.does();
    w.note(`     ${what}`);
    await w.settle();
    w.oracle.check();
  }
  if (w.breaches.length > 0) return;
  w.note("left in peace");
  await heal(w);
}

/** A stack of threads, each following the one before. */
async function prelude(w: World, config: Config): Promise<void> {
  let follows: string | null = null;
  for (let n = 1; n <= config.prelude; n += 1) {
    const name: string = `t${n}`;
    createThread(w, name, follows, n % 2 === 0 ? "go" : null);
    follows = name;
    for (let i = 0; i < 200 && !isActive(w, name); i += 1) {
      await w.settle();
      const step = w.panes.flatMap((p) => p.steps()).find((s) => !s.fault);
      if (step === undefined) await w.pass(w.clock.nextWake ?? 0);
      else step.take();
    }
    if (!isActive(w, name)) w.breach(`prelude: ${name} did not become Active`);
  }
}

function isActive(w: World, name: string): boolean {
  return w.threads().some((t) => t.name === name && t.lifecycle === "Active");
}

function hashOf(w: World): string {
  const hash = createHash("sha256");
  hash.update(w.trace.join("\n"));
  for (const table of [
    "threads",
    "sync_intents",
    "thread_lifecycle_steps",
    "tool_admissions",
    "op_history",
  ])
    hash.update(JSON.stringify(w.outside.query(`SELECT * FROM ${table} ORDER BY rowid`).values()));
  return hash.digest("hex");
}

/** Runs exactly this schedule again, with its trace. */
export function replayCommand(seed: number, config: Config): string {
  const derived = configOf(seed, config.steps);
  const same = JSON.stringify(derived) === JSON.stringify(config);
  const command = `npm run test:sim -- --schedules 1 --seed ${seed} --steps ${config.steps}`;
  return same ? command : `${command} --config '${JSON.stringify(config)}'`;
}
