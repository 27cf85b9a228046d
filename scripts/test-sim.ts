/**
 * Runs seeded schedules of the simulated world (tests/sim), in several processes, and says what they came by; the last
 * line is `schedules: N run, N breaches (S s)`. Fails when there is a breach.
 *
 *   bun scripts/test-sim.ts [--schedules N] [--seed S] [--steps M] [--config JSON]
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { replayCommand } from "../tests/sim/schedule.ts";
import type { WorkerLine } from "../tests/sim/worker.ts";
import { testSeed } from "../tests/support/random.ts";
import { ROOT } from "./packages.ts";
import { exitWith } from "./suite.ts";

const MAX_WORKERS = 4;
/** Failed schedules whose whole trace is printed; of the others, the breach and the command. */
const TRACES_SHOWN = 3;
const BREACHES_SHOWN = 5;
const PROGRESS_EVERY_MS = 10_000;

interface Request {
  seed: number;
  schedules: number;
  steps: number;
  config: string;
}

function request(): Request {
  const { values } = parseArgs({
    options: {
      schedules: { type: "string", default: "500" },
      seed: { type: "string", default: String(testSeed()) },
      steps: { type: "string", default: "80" },
      config: { type: "string", default: "" },
    },
  });
  const number = (name: "schedules" | "seed" | "steps"): number => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 0)
      throw new Error(`--${name} ${values[name]}: a number`);
    return value;
  };
  return {
    seed: number("seed"),
    schedules: number("schedules"),
    steps: number("steps"),
    config: values.config,
  };
}

/** Every worker takes each n-th seed, so that all end at about the same time. */
async function work(
  { seed, schedules, steps, config }: Request,
  hear: (line: WorkerLine) => void,
): Promise<void> {
  const workers = Math.min(MAX_WORKERS, availableParallelism(), schedules);
  const runs = Array.from({ length: workers }, async (_, at) => {
    const count = Math.ceil((schedules - at) / workers);
    const args = [seed + at, count, workers, steps, config].map(String);
    const worker = join(ROOT, "tests/sim/worker.ts");
    const child = Bun.spawn([process.execPath, worker, ...args], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) hear(JSON.parse(line) as WorkerLine);
    }
    if ((await child.exited) !== 0) throw new Error(`a worker ended with ${child.exitCode}`);
  });
  await Promise.all(runs);
}

await exitWith(async () => {
  const asked = request();
  const began = performance.now();
  const seconds = (): string => ((performance.now() - began) / 1000).toFixed(1);
  console.log(`base seed ${asked.seed}: ${asked.schedules} schedules of ${asked.steps} steps`);
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
      breaches += line.breaches.length;
      if (failed <= TRACES_SHOWN && asked.schedules > 1) console.log(line.trace.join("\n"));
      for (const breach of line.breaches.slice(0, BREACHES_SHOWN)) console.log(`breach: ${breach}`);
      console.log(`again: ${replayCommand(line.seed, line.config)}`);
    });
  } finally {
    clearInterval(progress);
  }
  console.log("\ncame by:");
  for (const what of [...counted.keys()].sort())
    console.log(`${String(counted.get(what)).padStart(9)}  ${what}`);
  console.log(`schedules: ${run} run, ${breaches} breaches (${seconds()} s)`);
  return breaches === 0 && run === asked.schedules && run > 0 ? 0 : 1;
});
