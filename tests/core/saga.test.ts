/** What a saga does next, from plan and journal alone. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { STEP_STATES, type StepState } from "../../src/core/lifecycle.ts";
import { CREATE_PLAN } from "../../src/core/plans/agent.ts";
import {
  attemptErrors,
  mayStartAgain,
  nextMove,
  takesUp,
  turnsRoundAt,
  type JournalStep,
  type SagaPlan,
  type SagaStepPlan,
} from "../../src/core/saga.ts";

const journal = (...states: StepState[]): JournalStep[] =>
  states.map((state, i) => ({ ordinal: i + 1, name: `s${i + 1}`, state }));

/** `n` steps; of `marks`, those with a mark have it. */
function planWith(n: number, marks: Record<number, Partial<SagaStepPlan>> = {}): SagaPlan {
  const steps = Array.from({ length: n }, (_, i) => ({
    name: `s${i + 1}`,
    identity: "a token",
    observation: "it is there",
    compensation: "take it away",
    attempts: 1,
    ...marks[i + 1],
  }));
  return { kind: "Close", variant: "", lifecycle: CREATE_PLAN.lifecycle, steps };
}

const words = (next: ReturnType<typeof nextMove>): string =>
  "name" in next ? `${next.move} ${next.name}` : next.move;

describe("next move", () => {
  const table: [string, JournalStep[], boolean, string][] = [
    ["nothing done", journal("Pending", "Pending"), false, "run s1"],
    ["one done", journal("Completed", "Pending"), false, "run s2"],
    ["one started before", journal("Completed", "Started", "Pending"), false, "observe s2"],
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
    ["failing, all undone", journal("Compensated", "Failed", "Pending"), true, "unwound"],
    ["failing before anything started", journal("Pending", "Pending"), true, "unwound"],
    ["unwound but not marked as failing", journal("Compensated", "Pending"), false, "unwound"],
  ];
  for (const [name, steps, failing, expected] of table) {
    test(`next move: ${name} → ${expected}`, () => {
      expect(words(nextMove(planWith(steps.length), steps, failing))).toBe(expected);
    });
  }

  const marked = planWith(3, { 2: { irreversible: true }, 3: { irreversible: true } });
  for (const [name, steps, failing, expected] of [
    ["failing before it", journal("Started", "Pending", "Pending"), true, "compensate s1"],
    ["not started when failing", journal("Completed", "Pending", "Pending"), true, "compensate s1"],
    ["started", journal("Completed", "Started", "Pending"), true, "stuck s2"],
    ["passed", journal("Completed", "Completed", "Started"), true, "stuck s2"],
    ["not failing", journal("Completed", "Completed", "Started"), false, "observe s3"],
  ] as const) {
    test(`next move: irreversible step, ${name} → ${expected}`, () => {
      expect(words(nextMove(marked, steps, failing))).toBe(expected);
    });
  }

  test("next move: journal rows in any order → the same", () => {
    const states = fc.array(fc.constantFrom(...STEP_STATES), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(states, fc.boolean(), fc.nat(7), (found, failing, last) => {
        const steps = journal(...found);
        const plan = planWith(found.length, { [last]: { irreversible: true } });
        expect(nextMove(plan, [...steps].reverse(), failing)).toEqual(
          nextMove(plan, steps, failing),
        );
      }),
    );
  });

  test("next move: obeyed with a failure anywhere → ends; undoes exactly what was started, in reverse, or nothing past an irreversible step", () => {
    const sizes = fc.integer({ min: 1, max: 8 });
    fc.assert(
      fc.property(sizes, fc.nat(9), fc.nat(9), (n, failAt, last) => {
        const plan = planWith(n, { [last]: { irreversible: true } });
        const steps = journal(...Array<StepState>(n).fill("Pending"));
        let failing = false;
        let end = "";
        const undone: number[] = [];
        for (let moves = 0; end === ""; moves += 1) {
          expect(moves).toBeLessThan(3 * n + 2);
          const next = nextMove(plan, steps, failing);
          if (!("name" in next) || next.move === "stuck") {
            end = next.move;
            continue;
          }
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
        const passed = last >= 1 && last <= reached;
        expect(end).toBe(reached === 0 ? "finished" : passed ? "stuck" : "unwound");
        const expected = Array.from({ length: reached }, (_, i) => reached - i);
        expect(undone).toEqual(passed ? [] : expected);
      }),
    );
  });
});

describe("after a restart", () => {
  const frozen = planWith(3, { 1: { restart: "unwind" }, 2: { restart: "unwind" } });
  for (const [name, steps, expected] of [
    ["nothing begun", journal("Pending", "Pending", "Pending"), null],
    ["such a step started", journal("Started", "Pending", "Pending"), "s1"],
    ["such a step next", journal("Completed", "Pending", "Pending"), "s2"],
    ["all of them done", journal("Completed", "Completed", "Pending"), null],
    ["everything done", journal("Completed", "Completed", "Completed"), null],
  ] as const) {
    test(`restart: steps that do not survive one, ${name} → ${expected ?? "goes on"}`, () => {
      expect(turnsRoundAt(frozen, steps)?.name ?? null).toBe(expected);
    });
  }

  const marked = planWith(3, { 2: { irreversible: true } });
  for (const [name, steps, expected] of [
    ["stopped past the irreversible step", journal("Completed", "Started", "Pending"), "forward"],
    ["stopped while undoing", journal("Completed", "Compensating", "Pending"), "forward"],
    ["undoing the first failed", journal("Compensating", "Pending", "Pending"), "unwind"],
    ["all undone", journal("Compensated", "Pending", "Pending"), "nothing"],
    ["all done", journal("Completed", "Completed", "Completed"), "nothing"],
  ] as const) {
    test(`taking up a failed operation: ${name} → ${expected}`, () => {
      expect(takesUp(marked, steps)).toBe(expected);
    });
  }
});

describe("attempts", () => {
  test("attempts: bound 3 → three starts; each time a person takes the operation up, three more", () => {
    const allowed = (times: number): number[] =>
      [0, 1, 2, 3, 4, 5, 6, 7].filter((starts) => mayStartAgain(3, starts, times));
    expect(allowed(1)).toEqual([0, 1, 2]);
    expect(allowed(2)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("attempts: errors of all of them → one line, each later one with its number", () => {
    expect(attemptErrors(null, 1, "busy")).toBe("busy");
    expect(attemptErrors("busy", 2, "full")).toBe("busy; attempt 2: full");
    // the first one ended with the daemon
    expect(attemptErrors(null, 2, "full")).toBe("attempt 2: full");
  });
});
