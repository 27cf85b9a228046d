import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { STEP_STATES, type StepState } from "../../src/core/lifecycle.ts";
import { SAGA_PLANS } from "../../src/core/saga-plans.ts";
import {
  CRASH_MOMENTS,
  crashPoints,
  nextMove,
  undoCrashPoints,
  type JournalStep,
} from "../../src/core/saga.ts";

const journal = (...states: StepState[]): JournalStep[] =>
  states.map((state, i) => ({ ordinal: i + 1, name: `s${i + 1}`, state }));

describe("next move", () => {
  const table: [string, JournalStep[], boolean, string][] = [
    ["nothing done", journal("Pending", "Pending"), false, "run s1"],
    ["one done", journal("Completed", "Pending"), false, "run s2"],
    ["one started before a crash", journal("Completed", "Started", "Pending"), false, "observe s2"],
    ["all done", journal("Completed", "Completed"), false, "finished"],
    [
      "failing, last one started",
      journal("Completed", "Started", "Pending"),
      true,
      "compensate s2",
    ],
    [
      "failing, undoing was interrupted",
      journal("Completed", "Compensating"),
      true,
      "compensate s2",
    ],
    ["failing, one undone", journal("Completed", "Compensated"), true, "compensate s1"],
    ["failing, all undone", journal("Compensated", "Failed", "Pending"), true, "failed"],
    ["failing before anything started", journal("Pending", "Pending"), true, "failed"],
    ["unwound but not marked as failing", journal("Compensated", "Pending"), false, "failed"],
  ];
  for (const [name, steps, failing, expected] of table) {
    test(`next move: ${name} → ${expected}`, () => {
      const next = nextMove(steps, failing);
      expect("name" in next ? `${next.move} ${next.name}` : next.move).toBe(expected);
    });
  }

  test("next move: journal rows in any order → the same", () => {
    const states = fc.array(fc.constantFrom(...STEP_STATES), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(states, fc.boolean(), (found, failing) => {
        const steps = journal(...found);
        expect(nextMove([...steps].reverse(), failing)).toEqual(nextMove(steps, failing));
      }),
    );
  });

  test("next move: obeyed with failures anywhere → ends, and undoes exactly what was started, in reverse", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 0, max: 9 }), (n, failAt) => {
        const steps = journal(...Array<StepState>(n).fill("Pending"));
        let failing = false;
        const undone: number[] = [];
        for (let moves = 0; ; moves += 1) {
          expect(moves).toBeLessThan(3 * n + 2);
          const next = nextMove(steps, failing);
          if (next.move === "finished" || next.move === "failed") break;
          const step = steps[next.ordinal - 1]!;
          if (next.move === "compensate") {
            undone.push(next.ordinal);
            step.state = "Compensated";
          } else if (next.ordinal === failAt) {
            step.state = "Started";
            failing = true;
          } else {
            step.state = next.move === "run" ? "Started" : "Completed";
          }
        }
        const reached = failAt >= 1 && failAt <= n ? failAt : 0;
        expect(undone).toEqual(Array.from({ length: reached }, (_, i) => reached - i));
      }),
    );
  });
});

describe("saga plans", () => {
  test("plans: every plan → step names unique, each says how it is recognised", () => {
    for (const plan of SAGA_PLANS) {
      const names = plan.steps.map((s) => s.name);
      expect(new Set(names).size).toBe(names.length);
      expect(plan.steps.every((s) => s.observation.length > 10)).toBe(true);
    }
  });

  test("crash points: made from the table → one per step and moment, all different", () => {
    for (const plan of SAGA_PLANS) {
      const points = [...crashPoints(plan), ...undoCrashPoints(plan)];
      expect(new Set(points).size).toBe(points.length);
      expect(crashPoints(plan)).toHaveLength(plan.steps.length * CRASH_MOMENTS.length);
      expect(points[0]).toBe(`${plan.kind}.${plan.steps[0]!.name}.before`);
    }
  });
});
