import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../support/seed.ts";
import { classify, type TransitionFacts } from "../../src/core/classify.ts";

/** The parent's head moved and nothing is known in the child's favour. */
const facts: TransitionFacts = {
  fromBase: "old",
  toBase: "new",
  childHead: "child",
  toBaseInChild: false,
  toBaseBehindFrom: false,
  anchorInChild: true,
  divergent: false,
  shownTwice: false,
};

function name(more: Partial<TransitionFacts>): string {
  const found = classify({ ...facts, ...more });
  return found.kind === "TopologyDiverged" ? found.reason : found.kind;
}

describe("classification", () => {
  const table: [string, Partial<TransitionFacts>, string][] = [
    ["parent added a revision", {}, "ParentAdvance"],
    ["jj carried the child along", { toBaseInChild: true }, "NativeRewrite"],
    [
      "carried along, and the old anchor is gone",
      { toBaseInChild: true, anchorInChild: false },
      "NativeRewrite",
    ],
    ["parent did not move", { toBase: "old", toBaseInChild: true }, "AlreadyAligned"],
    ["parent went back", { toBaseBehindFrom: true }, "ParentMovedBackward"],
    [
      "parent went back to an ancestor of the child",
      { toBaseBehindFrom: true, toBaseInChild: true },
      "ParentMovedBackward",
    ],
    ["child stands elsewhere", { anchorInChild: false }, "AnchorNotInChild"],
    ["the child shown twice, one copy with all", { shownTwice: true }, "ParentAdvance"],
    ["a divergent change in play", { divergent: true, toBaseInChild: true }, "DivergentChange"],
    ["parent's workspace gone", { toBase: null }, "ParentAbandoned"],
    ["child's workspace gone", { childHead: null }, "ChildAbandoned"],
  ];
  for (const [situation, more, expected] of table) {
    test(`classify: ${situation} → ${expected}`, () => {
      expect(name(more)).toBe(expected);
    });
  }

  const any = fc.record<TransitionFacts>({
    fromBase: fc.constantFrom("a", "b"),
    toBase: fc.constantFrom("a", "b", null),
    childHead: fc.constantFrom("c", null),
    toBaseInChild: fc.boolean(),
    toBaseBehindFrom: fc.boolean(),
    anchorInChild: fc.boolean(),
    divergent: fc.boolean(),
    shownTwice: fc.boolean(),
  });

  test("classify: any facts → work only for a real move, pinning exactly the two commits that were given", () => {
    fc.assert(
      fc.property(any, (f) => {
        const found = classify(f);
        if (found.kind === "NativeRewrite" || found.kind === "ParentAdvance") {
          expect([found.fromBase, found.toBase]).toEqual([f.fromBase, f.toBase!]);
          expect(f.fromBase).not.toBe(f.toBase);
          expect(found.kind === "NativeRewrite").toBe(f.toBaseInChild);
          expect(f.divergent || f.toBaseBehindFrom).toBe(false);
        }
        if (found.kind === "AlreadyAligned") expect(f.toBase).toBe(f.fromBase);
      }),
      seeded(200),
    );
  });
});
