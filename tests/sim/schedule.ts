/** One schedule: a world, a seed, so many steps, the oracle after each, and at the end a world that is left in peace. */
import { createHash } from "node:crypto";
import { randomOf } from "../support/random.ts";
import { choose, createThread } from "./actions.ts";
import { configOf, type Config } from "./config.ts";
import { inMemory, onDisk } from "./database.ts";
import { heal } from "./heal.ts";
import { REPO_ROOT } from "./disk.ts";
import { World } from "./world.ts";

export interface Outcome {
  seed: number;
  config: Config;
  breaches: string[];
  trace: string[];
  hash: string;
  steps: number;
}

/** `counted` is added to. */
export async function runSchedule(
  folder: string,
  seed: number,
  config: Config,
  counted: Map<string, number>,
): Promise<Outcome> {
  const database = config.disk ? onDisk(folder, `s${seed}-${config.steps}`) : inMemory(folder);
  const w = new World(database, randomOf(seed), counted, config);
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
  await heal(w, config.repairs > 0);
}

/** A stack of threads, each following the one before. */
async function prelude(w: World, config: Config): Promise<void> {
  let follows: string | null = null;
  for (let n = 1; n <= config.prelude; n += 1) {
    const name: string = `t${n}`;
    createThread(w, name, follows, n % 2 === 0 || config.theme !== "anything" ? "go" : null);
    follows = name;
    for (let i = 0; i < 200 && !isActive(w, name); i += 1) {
      await w.settle();
      const step = w.steps().find((s) => !s.fault);
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
  const command = `npm run test:sim -- --schedules 1 --seed ${seed}`;
  if (same(configOf(seed), config)) return command;
  if (same(configOf(seed, config.steps), config)) return `${command} --steps ${config.steps}`;
  return `${command} --config '${JSON.stringify(config)}'`;
}

function same(one: Config, other: Config): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
