/** Says for every kind of saga what its crash matrix runs on, and turns a share of the kinds into tests. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { LifecycleOpKind } from "../../src/core/lifecycle.ts";
import { SAGA_PLANS } from "../../src/core/saga-plans.ts";
import { crashPoints, failCrashPoints, undoCrashPoints } from "../../src/core/saga.ts";
import { CrashReport } from "../support/crash-report.ts";
import { removeTempDirs } from "../support/temp.ts";
import { Bench } from "./bench.ts";
import { planTitle, pointsOfStep, problemsOf } from "./matrix.ts";

/**
 * The file that runs a kind's plans over the modelled world. A new kind does not compile without one. `Create`, whose
 * effects exist, runs over the rig of fakes as well: creation.test.ts.
 */
const MODELLED_IN = {
  Create: "plans-beginning.test.ts",
  Reopen: "plans-beginning.test.ts",
  Restart: "plans-beginning.test.ts",
  Interrupt: "plans-beginning.test.ts",
  Detach: "plans-beginning.test.ts",
  Checkpoint: "plans-beginning.test.ts",
  Repair: "plans-beginning.test.ts",
  Close: "plans-ending.test.ts",
  Destroy: "plans-ending.test.ts",
} as const satisfies Record<LifecycleOpKind, string>;

/** Defines the tests of `file`: one per step, which names the points that did not hold. */
export function testPlansOf(file: string): void {
  const plans = SAGA_PLANS.filter((p) => MODELLED_IN[p.kind] === file);
  if (plans.length === 0) throw new Error(`${file} is not in the table of files`);
  const report = new CrashReport(file);
  const bench = new Bench();
  afterAll(() => {
    bench.close();
    removeTempDirs();
  });
  test("crash matrix: every kind of saga → the file that runs its plans is there", () => {
    const missing = Object.values(MODELLED_IN).filter((f) => !existsSync(join(import.meta.dir, f)));
    expect(missing).toEqual([]);
  });
  for (const plan of plans) {
    describe(`${planTitle(plan)} under crashes`, () => {
      for (const [index, step] of plan.steps.entries()) {
        const points = pointsOfStep(plan, index);
        report.enumerate(points.map((p) => p.name));
        test(`${planTitle(plan)}: daemon dies or ${step.name} fails, ${points.length} ways → ends as it must`, async () => {
          const broken: string[] = [];
          const held: string[] = [];
          const ended = await bench.survive(points.map((p) => p.scenario));
          for (const [i, point] of points.entries()) {
            const problems = problemsOf(point, ended[i]!);
            if (problems.length === 0) held.push(point.name);
            else broken.push(`${point.name}: ${problems.join("; ")}`);
          }
          report.survived(...held);
          expect(broken).toEqual([]);
        });
      }

      test(`${planTitle(plan)}: every point of the table → a daemon died there`, () => {
        const all = [...crashPoints(plan), ...failCrashPoints(plan), ...undoCrashPoints(plan)];
        expect(all.filter((name) => !bench.diedAt.has(name))).toEqual([]);
      });
    });
  }
}
