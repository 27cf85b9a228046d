/**
 * Runs seeded schedules of the simulated world (tests/sim), in several processes, and says what they came by: a table
 * of paths (tests/sim/paths.ts) and `schedules: N run, N breaches (S s)`. Fails when there is a breach, and a large run
 * where a path was gone through too seldom.
 *
 *   bun scripts/test-sim.ts [--schedules N] [--seed S] [--steps M] [--jobs J] [--seconds S] [--config JSON]
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { COUNTED, ENOUGH, LARGE_RUN, pathCounts, pathTable } from "../tests/sim/paths.ts";
import { replayCommand } from "../tests/sim/schedule.ts";
import type { WorkerLine } from "../tests/sim/worker.ts";
import { testSeed } from "../tests/support/random.ts";
import { ROOT } from "./packages.ts";
import { exitWith } from "./suite.ts";

const MAX_WORKERS = 4;
/** Failed schedules whose whole trace is printed; of the others, the breach and the command. */
const TRACES_SHOWN = 3;
const BREACHES_SHOWN = 5;
const PROGRESS_EVERY_MS = 60_000;

interface Request {
  seed: number;
  schedules: number;
  /** 0: as the seed draws it. */
  steps: number;
  jobs: number;
  /** Workers are stopped after so long, and what has run is reported, as a failure; 0: never. */
  seconds: number;
  config: string;
}

function request(): Request {
  const { values } = parseArgs({
    options: {
      schedules: { type: "string", default: "500" },
      seed: { type: "string", default: String(testSeed()) },
      steps: { type: "string", default: "0" },
      jobs: { type: "string", default: String(Math.min(MAX_WORKERS, availableParallelism())) },
      seconds: { type: "string", default: "0" },
      config: { type: "string", default: "" },
    },
  });
  const number = (name: "schedules" | "seed" | "steps" | "jobs" | "seconds"): number => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 0)
      throw new Error(`--${name} ${values[name]}: a number`);
    return value;
  };
  return {
    seed: number("seed"),
    schedules: number("schedules"),
    steps: number("steps"),
    jobs: Math.max(1, number("jobs")),
    seconds: number("seconds"),
    config: values.config,
  };
}

/** Every worker takes each n-th seed, so that all end at about the same time. */
async function work(
  { seed, schedules, steps, jobs, seconds, config }: Request,
  hear: (line: WorkerLine) => void,
): Promise<void> {
  const workers = Math.min(jobs, schedules);
  const runs = Array.from({ length: workers }, async (_, at) => {
    const count = Math.ceil((schedules - at) / workers);
    const args = [seed + at, count, workers, steps, config].map(String);
    const worker = join(ROOT, "tests/sim/worker.ts");
    const child = Bun.spawn([process.execPath, worker, ...args], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let stopped = false;
    const stop = setTimeout(() => {
      stopped = true;
      child.kill();
    }, seconds * 1000);
    if (seconds === 0) clearTimeout(stop);
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) hear(JSON.parse(line) as WorkerLine);
    }
    clearTimeout(stop);
    if ((await child.exited) !== 0 && !stopped)
      throw new Error(`a worker ended with ${child.exitCode}`);
  });
  await Promise.all(runs);
}

await exitWith(async () => {
  const asked = request();
  const began = performance.now();
  const seconds = (): string => ((performance.now() - began) / 1000).toFixed(1);
  console.log(`base seed ${asked.seed}: ${asked.schedules} schedules in ${asked.jobs} processes`);
  const counted = new Map<string, number>();
  let run = 0;
  let failed = 0;
  let breaches = 0;
  const progress = setInterval(
    () => console.log(`  ${run} run, ${failed} failed (${seconds()} s)`),
    PROGRESS_EVERY_MS,
  );
  try {
    await work(asked, (line) => {
      if (line.kind === "counted") {
        for (const [what, n] of Object.entries(line.counted))
          counted.set(what, (counted.get(what) ?? 0) + n);
        return;
      }
      run += 1;
      if (asked.schedules === 1) console.log(line.trace.join("\n"));
      if (line.breaches.length === 0) return;
      failed += 1;
      if (failed <= TRACES_SHOWN) console.log(`  failed: ${replayCommand(line.seed, line.config)}`);
      breaches += line.breaches.length;
      if (failed <= TRACES_SHOWN && asked.schedules > 1) console.log(line.trace.join("\n"));
      for (const breach of line.breaches.slice(0, BREACHES_SHOWN)) console.log(`breach: ${breach}`);
      console.log(`again: ${replayCommand(line.seed, line.config)}`);
    });
  } finally {
    clearInterval(progress);
  }
  console.log("\ncame by:");
  const others = [...counted.keys()].filter((what) => !what.startsWith(COUNTED)).sort();
  for (const what of others) console.log(`${String(counted.get(what)).padStart(9)}  ${what}`);
  console.log("\npaths:");
  for (const line of pathTable(counted)) console.log(line);
  const seldom = pathCounts(counted).filter((path) => path.missing);
  console.log(`paths: ${seldom.length} gone through less than ${ENOUGH} times`);
  console.log(`schedules: ${run} run, ${breaches} breaches (${seconds()} s)`);
  const enough = asked.schedules < LARGE_RUN || seldom.length === 0;
  return breaches === 0 && run === asked.schedules && run > 0 && enough ? 0 : 1;
});
