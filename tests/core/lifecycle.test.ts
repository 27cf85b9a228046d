import { describe, expect, test } from "bun:test";
import {
  agentDisplay,
  AGENT_STATUSES,
  isOperational,
  LIFECYCLE,
  LIFECYCLES,
  lifecycleMoveProblem,
  moveLifecycle,
  type Lifecycle,
  type LifecycleFacts,
} from "../../src/core/lifecycle.ts";

/** The moves as docs say them, written out a second time. */
const MOVES = [
  "Creating Active",
  "Creating CreateFailed",
  "CreateFailed Creating",
  "CreateFailed Destroyed",
  "Active ClosePreflight",
  "Active ProjectionDiverged",
  "Active DestroyCommit",
  "ClosePreflight Active",
  "ClosePreflight CloseCommit",
  "CloseCommit Closed",
  "CloseCommit Active",
  "CloseCommit CloseFailed",
  "CloseFailed Active",
  "CloseFailed CloseCommit",
  "Closed Active",
  "Closed ProjectionDiverged",
  "Closed DestroyCommit",
  "ProjectionDiverged Active",
  "ProjectionDiverged Closed",
  "ProjectionDiverged CloseCommit",
  "ProjectionDiverged DestroyCommit",
  "DestroyCommit Destroyed",
  "DestroyCommit DestroyFailed",
  "DestroyCommit Active",
  "DestroyCommit Closed",
  "DestroyCommit ProjectionDiverged",
  "DestroyFailed DestroyCommit",
];

describe("lifecycle", () => {
  test("lifecycle: every pair of states → exactly the documented moves", () => {
    const found = LIFECYCLES.flatMap((from) =>
      LIFECYCLES.filter((to) => LIFECYCLE.can(from, to)).map((to) => `${from} ${to}`),
    );
    expect(found.sort()).toEqual([...MOVES].sort());
  });

  test("lifecycle: illegal move computed at run time → throws by name", () => {
    const from: Lifecycle = "Destroyed";
    expect(() => moveLifecycle(from, "Active" as never)).toThrow("Destroyed → Active");
    expect(moveLifecycle("Creating", "Active")).toBe("Active");
  });

  test("lifecycle: operational → all but Closed and Destroyed", () => {
    expect(LIFECYCLES.filter((l) => !isOperational(l))).toEqual(["Closed", "Destroyed"]);
  });
});

describe("lifecycle moves that need more than two states", () => {
  const facts: LifecycleFacts = {
    projectionResume: null,
    destroyFrom: null,
    irreversible: false,
    issues: 0,
    unfinished: null,
  };
  const table: [string, Lifecycle, Lifecycle, Partial<LifecycleFacts>, string | null][] = [
    ["reopen is ready", "Closed", "Active", {}, null],
    ["an issue is open", "Closed", "Active", { issues: 1 }, "unresolved projection issue"],
    ["a saga is unfinished", "ClosePreflight", "Active", { unfinished: "Close" }, "Close is"],
    [
      "back to the recorded one",
      "ProjectionDiverged",
      "Closed",
      { projectionResume: "Closed" },
      null,
    ],
    [
      "back to another",
      "ProjectionDiverged",
      "Active",
      { projectionResume: "Closed" },
      "to Closed",
    ],
    [
      "close without session",
      "ProjectionDiverged",
      "CloseCommit",
      { projectionResume: "Active" },
      null,
    ],
    [
      "close without session of a closed thread",
      "ProjectionDiverged",
      "CloseCommit",
      { projectionResume: "Closed" },
      "only a thread that was Active",
    ],
    ["diverged, nothing found", "Active", "ProjectionDiverged", {}, "no projection issue"],
    ["diverged, one found", "Active", "ProjectionDiverged", { issues: 1 }, null],
    ["destroy undone", "DestroyCommit", "Closed", { destroyFrom: "Closed" }, null],
    [
      "destroy undone after its bookmark was deleted",
      "DestroyCommit",
      "Closed",
      { destroyFrom: "Closed", irreversible: true },
      "only be finished",
    ],
    [
      "destroy undone into another state",
      "DestroyCommit",
      "Active",
      { destroyFrom: "Closed" },
      "began from Closed",
    ],
    ["close undone before the kill", "CloseCommit", "Active", {}, null],
    ["close undone after the kill", "CloseCommit", "Active", { irreversible: true }, "be finished"],
    [
      "failed close undone after it",
      "CloseFailed",
      "Active",
      { irreversible: true },
      "be finished",
    ],
    ["failed close finished after it", "CloseFailed", "CloseCommit", { irreversible: true }, null],
  ];
  for (const [name, from, to, more, expected] of table) {
    test(`lifecycle: ${name} → ${expected ?? "may"}`, () => {
      const problem = lifecycleMoveProblem(from, to as never, { ...facts, ...more });
      if (expected === null) expect(problem).toBeNull();
      else expect(problem).toContain(expected);
    });
  }

  test("lifecycle: a step that cannot be undone was started → no destroy and no close goes back", () => {
    const back = LIFECYCLE.all.filter(
      ([from, to]) =>
        ["DestroyCommit", "DestroyFailed", "CloseCommit", "CloseFailed"].includes(from) &&
        ["Active", "ProjectionDiverged"].includes(to),
    );
    expect(back.length).toBeGreaterThan(3);
    for (const [from, to] of back) {
      const all = {
        ...facts,
        irreversible: true,
        destroyFrom: to,
        issues: to === "Active" ? 0 : 1,
      };
      expect(lifecycleMoveProblem(from, to as never, all)).not.toBeNull();
    }
  });
});

describe("agent display", () => {
  test("agent: unacknowledged attention → blocked, whatever the status", () => {
    for (const status of AGENT_STATUSES) {
      const facts = { lastTurnCompleted: true, unacknowledgedAttention: true };
      expect(agentDisplay(status, facts)).toBe("blocked");
    }
  });

  test("agent: status without attention → working, finished or idle, blocked", () => {
    const calm = (lastTurnCompleted: boolean) => ({
      lastTurnCompleted,
      unacknowledgedAttention: false,
    });
    expect(agentDisplay("Running", calm(true))).toBe("working");
    expect(agentDisplay("Quiescent", calm(true))).toBe("finished");
    expect(agentDisplay("Quiescent", calm(false))).toBe("idle");
    expect(agentDisplay("Stuck", calm(false))).toBe("blocked");
    expect(agentDisplay("Crashed", calm(true))).toBe("blocked");
  });
});
