/**
 * A process of its own that runs schedules: `bun tests/sim/worker.ts <first seed> <how many> <every> <steps, 0: as
 * drawn> <config or "">`. Writes one line of JSON per schedule, and what was counted now and then.
 */
import { tempDir } from "../support/temp.ts";
import { configOf, type Config } from "./config.ts";
import { runSchedule } from "./schedule.ts";

/** What a worker says. */
export type WorkerLine =
  | { kind: "ran"; seed: number; breaches: string[]; trace: string[]; config: Config; hash: string }
  | { kind: "counted"; counted: Record<string, number> };

/** Schedules; what a worker that is stopped has counted since is lost. */
const COUNTED_EVERY = 20;

const say = (line: WorkerLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

if (import.meta.main) {
  const [first = 0, count = 0, every = 1, asked = 0] = process.argv.slice(2, 6).map(Number);
  const steps = asked === 0 ? null : asked;
  const given = process.argv[6] ?? "";
  const folder = tempDir("sim");
  const counted = new Map<string, number>();
  for (let n = 0; n < count; n += 1) {
    const seed = first + n * every;
    const config = given === "" ? configOf(seed, steps) : (JSON.parse(given) as Config);
    const { breaches, trace, hash } = await runSchedule(folder, seed, config, counted);
    const failed = breaches.length > 0 || count === 1;
    say({ kind: "ran", seed, breaches, trace: failed ? trace : [], config, hash });
    if (n % COUNTED_EVERY === COUNTED_EVERY - 1 || n === count - 1) {
      say({ kind: "counted", counted: Object.fromEntries(counted) });
      counted.clear();
    }
  }
}
