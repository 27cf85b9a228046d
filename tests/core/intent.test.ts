import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../support/seed.ts";
import {
  canMoveIntent,
  cascadeStatus,
  INTENT_STATES,
  isPrepared,
  isResolved,
  moveIntent,
  needsMarker,
} from "../../src/core/intent.ts";

const MOVES = [
  "Detected Reconciling",
  "Detected TopologyDiverged",
  "Detected Superseded",
  "Detected Acknowledged",
  "Reconciling Materialized",
  "Reconciling RecoveryRequired",
  "Reconciling TopologyDiverged",
  "RecoveryRequired Reconciling",
  "Materialized Delivered",
  "Materialized Acknowledged",
  "Materialized RecoveryRequired",
  "Delivered Acknowledged",
  "Delivered RecoveryRequired",
  "TopologyDiverged Acknowledged",
];

describe("intent states", () => {
  test("intent: every pair of states → exactly the documented moves", () => {
    const found = INTENT_STATES.flatMap((from) =>
      INTENT_STATES.filter((to) => canMoveIntent(from, to)).map((to) => `${from} ${to}`),
    );
    expect(found.sort()).toEqual([...MOVES].sort());
  });

  test("intent: illegal move → throws by name", () => {
    expect(() => moveIntent("Acknowledged", "Detected" as never)).toThrow(
      "Acknowledged → Detected",
    );
  });

  test("intent: terminal states → no move out", () => {
    for (const from of ["Acknowledged", "Superseded"] as const) {
      expect(INTENT_STATES.filter((to) => canMoveIntent(from, to))).toEqual([]);
    }
  });

  test("intent: a prepared one → never merely detected or being reconciled again", () => {
    for (const from of INTENT_STATES.filter(isPrepared)) {
      expect(canMoveIntent(from, "Detected") || canMoveIntent(from, "Reconciling")).toBe(false);
    }
  });
});

describe("cascade status", () => {
  const intents = fc.array(
    fc.record({ state: fc.constantFrom(...INTENT_STATES), exhausted: fc.boolean() }),
    { maxLength: 6 },
  );

  test("status: any intents, any order → conflicted over pending over in sync", () => {
    fc.assert(
      fc.property(intents, (list) => {
        const bad = list.some(
          (i) => i.exhausted || i.state === "RecoveryRequired" || i.state === "TopologyDiverged",
        );
        const open = list.some((i) => !isResolved(i.state));
        const expected = bad ? "conflicted" : open ? "pending" : "in sync";
        expect(cascadeStatus(list)).toBe(expected);
        expect(cascadeStatus([...list].reverse())).toBe(expected);
      }),
      seeded(200),
    );
  });

  test("status: no intents → in sync", () => {
    expect(cascadeStatus([])).toBe("in sync");
  });
});

describe("barrier marker", () => {
  test("marker: bound, or files may have changed → needed; merely detected or over → not", () => {
    const needed = INTENT_STATES.filter((s) => needsMarker(s, true));
    expect(needed).toEqual([
      "Detected",
      "Reconciling",
      "Materialized",
      "Delivered",
      "RecoveryRequired",
    ]);
    expect(needsMarker("Detected", false)).toBe(false);
  });
});
