/**
 * Several deaths, some of them during recovery, and several failures: drawn at random from the moments that come by.
 * What must hold after every journal entry and at the end is the same as for one death.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SAGA_PLANS } from "../../src/core/saga-plans.ts";
import type { CrashMoment, SagaPlan } from "../../src/core/saga.ts";
import { CrashReport } from "../support/crash-report.ts";
import { randomOf, testSeed, type Random } from "../support/random.ts";
import { removeTempDirs } from "../support/temp.ts";
import { Bench, type Ended, type Scenario } from "./bench.ts";
import { planTitle, settledProblems } from "./matrix.ts";
import { OUTCOMES, type Fault, type Outcome } from "./model.ts";

/** For each plan and seed. */
const SAMPLES = 12;
const MAX_DEATHS = 4;
const MAX_FAULT_STARTS = 4;
/** Out of so many moments that come by, one is deadly. */
const ONE_IN = 12;
const KEPT_SEEDS = join(import.meta.dir, "../../fixtures/seeds/crash-double.txt");

/** A new one each time, and those that once failed. */
function seeds(): number[] {
  const kept = existsSync(KEPT_SEEDS) ? readFileSync(KEPT_SEEDS, "utf8").match(/^\d+/gm) : null;
  return [...new Set([testSeed(), ...(kept ?? []).map(Number)])];
}

function randomFault(random: Random, plan: SagaPlan): Fault {
  const undo = random.chance(0.3);
  return {
    step: random.pick(plan.steps).name,
    of: undo ? "undo" : "effect",
    times: 1 + random.below(MAX_FAULT_STARTS),
    transient: random.chance(0.6),
    thereAfter: undo || random.chance(0.5),
  };
}

function randomScenario(random: Random, plan: SagaPlan): Scenario {
  const faults = Array.from({ length: random.below(4) }, () => randomFault(random, plan));
  let left = 1 + random.below(MAX_DEATHS);
  return {
    plan,
    faults,
    crashes: [],
    takenUp: random.chance(0.3),
    next: (_step, moment) => {
      if (left === 0 || random.below(ONE_IN) > 0) return null;
      left -= 1;
      return outcomeAt(random, moment);
    },
  };
}

/** Where something was under way, it turns out somehow. */
function outcomeAt(random: Random, moment: CrashMoment): Outcome | "no-effect" {
  const underWay: readonly CrashMoment[] = [
    "started",
    "effected",
    "attempt-failed",
    "retried",
    "undo-started",
    "undo-effected",
  ];
  return underWay.includes(moment) ? random.pick(OUTCOMES) : "no-effect";
}

function problems(plan: SagaPlan, ended: Ended): string[] {
  return [...ended.violations, ...settledProblems(plan, ended)];
}

const report = new CrashReport("double.test.ts");
const bench = new Bench();
afterAll(() => {
  bench.close();
  removeTempDirs();
});

for (const seed of seeds()) {
  console.log(`double crashes: KIKI_TEST_SEED=${seed}`);
  describe(`several deaths, seed ${seed}`, () => {
    for (const [index, plan] of SAGA_PLANS.entries()) {
      const name = (i: number): string => `${planTitle(plan)}, seed ${seed}, sample ${i + 1}`;
      report.enumerate(Array.from({ length: SAMPLES }, (_, i) => name(i)));
      test(`${planTitle(plan)}: daemon dies up to ${MAX_DEATHS} times, effects fail, seed ${seed} → nothing twice, ends as it must`, async () => {
        // One generator per plan: adding a plan changes no other one's samples.
        const random = randomOf(seed + index * 7919);
        const drawn = Array.from({ length: SAMPLES }, () => randomScenario(random, plan));
        const ended = await bench.survive(drawn);
        const broken = ended.flatMap((end, i) => {
          const found = problems(plan, end);
          if (found.length === 0) report.survived(name(i));
          return found.map((text) => `${name(i)}: ${text} [${JSON.stringify(drawn[i]!.faults)}]`);
        });
        expect(broken).toEqual([]);
      });
    }
  });
}
