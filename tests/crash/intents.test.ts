/**
 * The crash points of intents: every move of the machine and everything else that is durable or done for an intent,
 * taken from the table in core/intent.ts. `npm run test:crash` dies at every one of them in every story; the default
 * suite at each of them once and more, with the agent alone for a shorter or a longer time, and a thorough one oftener.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { INTENT, INTENT_CRASH_POINTS, type IntentCrashPoint } from "../../src/core/intent.ts";
import { CrashReport } from "../support/crash-report.ts";
import { randomOf, testSeed } from "../support/random.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough } from "../support/thorough.ts";
import { caseName, casesOf, runCase, tell, type Case } from "./intent-runs.ts";
import { STORIES } from "./intent-scenarios.ts";
import { ABSENCES, COMMANDS, outcomesOf, type Command } from "./intent-troubles.ts";

setDefaultTimeout(600_000);
afterAll(removeTempDirs);

/** Points that nothing in the product passes yet, and why. One that is passed must not be here. */
const NOT_YET: Partial<Record<IntentCrashPoint, string>> = {};
for (const [what, why] of [
  ["Detected-Acknowledged", "only detach and close give up what is merely detected"],
  ["bound-prepared", "only work prepared at an idle agent has no tuple while that agent lives"],
] as const) {
  NOT_YET[`intent.${what}.before`] = why;
  NOT_YET[`intent.${what}.completed`] = why;
}

const everything = process.env["KIKI_TEST_CRASH_REPORT"] !== undefined;
const POINTS = INTENT_CRASH_POINTS.filter((name) => NOT_YET[name] === undefined);
const COMMAND_NAMES = (Object.keys(COMMANDS) as Command[]).flatMap((command) =>
  outcomesOf(command).map((how) => `${command}: ${how}`),
);
const NAMES = [...POINTS, ...COMMAND_NAMES].flatMap((name) =>
  ABSENCES.map((absence) => caseName({ name, absence })),
);
/** Samples of two troubles in a row, for each seed. */
const DOUBLES = everything ? 200 : isThorough ? 25 : 12;
/** At a point that a story passes often, so many times count as different. */
const MAX_TURNS = isThorough ? 2 : 1;
/** Of the rest of each story's cases, so many are drawn. */
const DRAWN = isThorough ? 4 : 1;
/** Cases that once failed, by story and name. */
const KEPT: Readonly<Record<string, readonly string[]>> = {
  "the agent dies with the payload": ["intent.marker-written.effected, absence long"],
  "a refused tool runs during a parent advance": [
    "integrate: answer lost, absence short",
    "intent.integrate.effected, absence long",
  ],
};
const KEPT_SEEDS = join(import.meta.dir, "../../fixtures/seeds/crash-intents.txt");
const SOURCES = join(import.meta.dir, "../../src");
const SEED = testSeed();
console.log(`cases and double troubles of intents: KIKI_TEST_SEED=${SEED}`);
const report = new CrashReport("intents");
report.enumerate(NAMES);

/** Each story as it goes when nothing goes wrong. */
const plain = new Map(
  await Promise.all(
    STORIES.map(async (story) => [story, await tell(story, [], "short", true)] as const),
  ),
);
const cases = STORIES.flatMap((story) => casesOf(story, plain.get(story)!, ABSENCES));
const chosen = everything ? cases : sample(cases);
const held = new Map<string, boolean>();

/**
 * Every name with every absence once, and with the short one at each of the first times a story is there; some more of
 * each story, and those that once failed.
 */
function sample(all: readonly Case[]): Case[] {
  const random = randomOf(SEED);
  const drawn = new Set(
    STORIES.flatMap((story) => {
      const own = all.filter((c) => c.story === story);
      return Array.from({ length: DRAWN }, () => random.pick(own));
    }),
  );
  const known = new Set<string>();
  return all.filter((c) => {
    if (drawn.has(c) || KEPT[c.story.name]?.includes(caseName(c)) === true) return true;
    const turn = c.absence === "short" ? Math.min(c.turn, MAX_TURNS - 1) : 0;
    const key = `${turn} ${caseName(c)}`;
    return known.size < known.add(key).size;
  });
}

describe("intents: a daemon dies, or its jj fails", () => {
  for (const story of STORIES) {
    test(`${story.name} → nothing lost, hidden or twice; told in the end, or loud`, async () => {
      expect(plain.get(story)!.wrong).toEqual([]);
      if (story.passes !== undefined) expect(plain.get(story)!.points).toContain(story.passes);
      const wrong: string[] = [];
      for (const c of chosen.filter((one) => one.story === story)) {
        const found = await runCase(c);
        wrong.push(...found);
        held.set(caseName(c), (held.get(caseName(c)) ?? true) && found.length === 0);
      }
      expect({ seed: SEED, wrong }).toEqual({ seed: SEED, wrong: [] });
    });
  }

  test.each(seeds())(`two in a row, seed %d → the same, ${DOUBLES} times`, async (seed) => {
    const random = randomOf(seed);
    const wrong: string[] = [];
    for (let n = 0; n < DOUBLES; n += 1) {
      const { story, trouble, absence } = random.pick(cases);
      const next = { at: "point", nth: 1 + random.below(14) } as const;
      const told = await tell(story, [trouble, next], absence, false);
      wrong.push(...told.wrong);
    }
    expect({ seed, wrong }).toEqual({ seed, wrong: [] });
  });
});

/** A new one each time, and those that once failed. */
function seeds(): number[] {
  const kept = existsSync(KEPT_SEEDS) ? readFileSync(KEPT_SEEDS, "utf8").match(/^\d+/gm) : null;
  return [...new Set([SEED, ...(kept ?? []).map(Number)])];
}

describe("intents: the list of crash points", () => {
  test("every point → passed by a story, or listed as not there yet", () => {
    const passed = new Set([...plain.values()].flatMap((told) => told.points));
    expect(INTENT_CRASH_POINTS.filter((name) => !passed.has(name))).toEqual(
      INTENT_CRASH_POINTS.filter((name) => NOT_YET[name] !== undefined),
    );
    expect([...passed].filter((name) => !INTENT_CRASH_POINTS.includes(name as never))).toEqual([]);
  });

  test("a move listed as not there yet → no source makes it", () => {
    const moves = INTENT.all.filter(
      ([from, to]) => NOT_YET[`intent.${from}-${to}.before` as IntentCrashPoint] !== undefined,
    );
    expect(moves.length).toBeGreaterThan(0);
    const made = moves.map(([from, to]) => new RegExp(`"${from}",\\s*"${to}"`));
    const found = [
      ...new Bun.Glob("{cascade,daemon,lifecycle,repair}/**/*.ts").scanSync(SOURCES),
    ].filter((file) =>
      made.some((pattern) => pattern.test(readFileSync(join(SOURCES, file), "utf8"))),
    );
    expect(found).toEqual([]);
  });

  test("every point with every absence → survived", () => {
    report.survived(...NAMES.filter((name) => held.get(name) === true));
    expect(NAMES.filter((name) => held.get(name) !== true)).toEqual([]);
  });
});
