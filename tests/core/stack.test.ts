import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../support/seed.ts";
import { validateStack, type StackCommit } from "../../src/core/stack.ts";

const commit = (id: string, parent: string, more: Partial<StackCommit> = {}): StackCommit => ({
  commitId: id,
  changeId: `change-${id}`,
  parents: [parent],
  conflict: false,
  divergent: false,
  immutable: false,
  ...more,
});

/** base ← c1 ← … ← cn */
const chain = (n: number): StackCommit[] =>
  Array.from({ length: n }, (_, i) => commit(`c${i + 1}`, i === 0 ? "base" : `c${i}`));

function validate(
  members: StackCommit[],
  head: string,
  more: { outside?: string[]; follows?: string[] } = {},
): string | string[] {
  const found = validateStack({
    base: "base",
    head,
    members,
    outsideChildren: more.outside ?? [],
    followsChildren: new Set(more.follows ?? []),
  });
  return found.ok ? found.value.map((c) => c.commitId) : found.error.reason;
}

describe("owned stack", () => {
  test("stack: any chain, members in any order → the chain, root first", () => {
    const shuffled = fc
      .integer({ min: 1, max: 12 })
      .chain((n) => fc.shuffledSubarray(chain(n), { minLength: n, maxLength: n }));
    fc.assert(
      fc.property(shuffled, (members) => {
        const ids = chain(members.length).map((c) => c.commitId);
        expect(validate(members, `c${members.length}`)).toEqual(ids);
      }),
      seeded(200),
    );
  });

  const [c1, c2, c3] = chain(3) as [StackCommit, StackCommit, StackCommit];
  const table: [string, StackCommit[], string, string][] = [
    ["head outside", [c1, c2], "elsewhere", "HeadNotInStack"],
    ["empty", [], "base", "HeadNotInStack"],
    ["merge", [c1, { ...c2, parents: ["c1", "x"] }], "c2", "MergeCommit"],
    ["two roots", [c1, commit("d1", "base"), c2], "c2", "MultipleRoots"],
    ["root on another commit", [commit("c1", "other"), c2], "c2", "RootParentIsNotBase"],
    ["fork", [c1, c2, c3, commit("d3", "c2")], "c3", "ForkedChain"],
    ["head in the middle", [c1, c2, c3], "c2", "ForkedChain"],
    ["conflict", [c1, { ...c2, conflict: true }], "c2", "ConflictedCommit"],
    ["divergent", [c1, { ...c2, divergent: true }], "c2", "DivergentChange"],
    ["immutable", [{ ...c1, immutable: true }, c2], "c2", "ImmutableCommit"],
  ];
  for (const [name, members, head, reason] of table) {
    test(`stack: ${name} → ${reason}`, () => {
      expect(validate(members, head)).toBe(reason);
    });
  }

  test("stack: descendants outside → foreign, unless each belongs to a registered follows child", () => {
    expect(validate([c1, c2], "c2", { outside: ["x"] })).toBe("ForeignDescendant");
    expect(validate([c1, c2], "c2", { outside: ["x"], follows: ["x"] })).toEqual(["c1", "c2"]);
    expect(validate([c1, c2], "c2", { outside: ["x", "y"], follows: ["x"] })).toBe(
      "ForeignDescendant",
    );
  });
});
