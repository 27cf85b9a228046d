/**
 * Seeded schedules over the simulated world: every seed that ever failed, and some more. `bun run
 * test:sim` runs more of them and says what they came by.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { testSeed } from "../support/random.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { isThorough } from "../support/thorough.ts";
import { configOf, type Config } from "./config.ts";
import { COUNTED, ENOUGH, PATHS, pathCounts, pathTable } from "./paths.ts";
import { replayCommand, runSchedule, type Outcome } from "./schedule.ts";
import { keptSeeds } from "./seeds.ts";

/** Where the default suite begins: the same every time. New ground is `bun run test:sim`'s, which draws its seed. */
const USUAL_SEED = 20_261_201;
/** Schedules of one run, and how many of them one test takes. */
const SCHEDULES = isThorough ? 80 : 40;
const PER_TEST = 20;
/** Lines of a failed schedule that are shown. */
const SHOWN = 60;

// Schedules wait for nothing; a machine that is busy with other things makes them slow.
setDefaultTimeout(120_000);
const folder = tempDir("sim");
afterAll(removeTempDirs);

const run = (seed: number, config: Config): Promise<Outcome> =>
  runSchedule(folder, seed, config, new Map());

/** The breaches, with what led to them. */
function story({ seed, config, breaches, trace }: Outcome): string {
  return [...trace.slice(-SHOWN), ...breaches, `again: ${replayCommand(seed, config)}`].join("\n");
}

describe("simulation", () => {
  test("schedule: the same seed twice → the same trace and the same database", async () => {
    const seed = 4_711;
    const config = { ...configOf(seed), park: 0.1, kill: 1, people: 9, prelude: 2 };
    const [first, again] = [await run(seed, config), await run(seed, config)];
    expect(first.breaches).toEqual([]);
    expect(again.trace).toEqual(first.trace);
    expect(again.hash).toBe(first.hash);
    expect((await run(seed + 1, config)).hash).not.toBe(first.hash);
  });

  test("schedule: its database in memory, on a disk → the same trace and the same rows", async () => {
    const seed = 4_712;
    const config = { ...configOf(seed), park: 0.1, kill: 4, people: 9, prelude: 2 };
    const memory = await run(seed, { ...config, disk: false });
    const disk = await run(seed, { ...config, disk: true });
    expect(disk.trace).toEqual(memory.trace);
    expect(disk.hash).toBe(memory.hash);
  });

  test("paths: seldom gone through, often, no code yet → marked, plain, said with its reason", () => {
    const often = new Map(PATHS.map((path) => [COUNTED + path, ENOUGH]));
    expect(pathCounts(often).filter((path) => path.missing)).toEqual([]);
    const seldom = new Map([...often, [`${COUNTED}delivery await`, ENOUGH - 1]]);
    expect(
      pathCounts(seldom)
        .filter((path) => path.missing)
        .map((path) => path.path),
    ).toEqual(["delivery await"]);
    const table = pathTable(new Map([...seldom, [`${COUNTED}turn-end snapshot`, 7]])).join("\n");
    expect(table).toMatch(/99 {2}delivery await {2}</);
    expect(table).toMatch(/block delivery-exhausted {2}\(not there yet: /);
    expect(table).toMatch(/besides:\n +7 {2}turn-end snapshot$/);
  });

  for (const { name, seed, config, found } of keptSeeds()) {
    test(`kept seed ${name}: ${found} → no breach`, async () => {
      const outcome = await run(seed, config);
      expect(outcome.breaches.length === 0 ? "" : story(outcome)).toBe("");
    });
  }

  const base = process.env["KIKI_TEST_SEED"] === undefined ? USUAL_SEED : testSeed();
  console.info(`simulation base seed ${base} (KIKI_TEST_SEED=${base} runs the same again)`);
  for (let from = 0; from < SCHEDULES; from += PER_TEST) {
    test(`schedules: ${PER_TEST} from seed base + ${from} → no breach`, async () => {
      for (let seed = base + from; seed < base + from + PER_TEST; seed += 1) {
        const outcome = await run(seed, configOf(seed));
        expect(outcome.breaches.length === 0 ? "" : story(outcome)).toBe("");
      }
    });
  }
});
