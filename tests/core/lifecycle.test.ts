import { describe, expect, test } from "bun:test";
import {
  agentDisplay,
  AGENT_STATUSES,
  canMove,
  isOperational,
  LIFECYCLES,
  moveLifecycle,
  type Lifecycle,
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
      LIFECYCLES.filter((to) => canMove(from, to)).map((to) => `${from} ${to}`),
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
