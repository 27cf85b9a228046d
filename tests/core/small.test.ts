/** The small pure helpers: canonical JSON, cycles, revsets. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { canonicalJson } from "../../src/core/canonical.ts";
import { wouldCycle } from "../../src/core/follows.ts";
import { atOfWorkspace } from "../../src/core/revset.ts";

describe("canonical JSON", () => {
  test("canonical JSON: any value → valid JSON of the same value, whatever the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(JSON.parse(text))).toBe(text);
      }),
    );
    expect(canonicalJson({ b: [1, { d: 1, c: 2 }], a: null })).toBe(
      '{"a":null,"b":[1,{"c":2,"d":1}]}',
    );
  });
});

describe("follows", () => {
  const parents: Record<string, string> = { b: "a", c: "b" };
  const parentOf = (id: string): string | null => parents[id] ?? null;
  test("cycle: itself, its child, its grandchild → a circle; a stranger, an ancestor → none", () => {
    expect(["a", "b", "c"].map((parent) => wouldCycle("a", parent, parentOf))).toEqual([
      true,
      true,
      true,
    ]);
    expect(wouldCycle("c", "a", parentOf)).toBe(false);
    expect(wouldCycle("new", "c", parentOf)).toBe(false);
  });

  test("cycle: edges that already form a circle elsewhere → ends", () => {
    const broken: Record<string, string> = { x: "y", y: "x" };
    expect(wouldCycle("new", "x", (id) => broken[id] ?? null)).toBe(false);
  });
});

describe("revset", () => {
  const table: [string, string][] = [
    ["@", '"w"@'],
    ["@--", '"w"@--'],
    ["trunk()..@", 'trunk().."w"@'],
    ["~@ & (@-|x)", '~"w"@ & ("w"@-|x)'],
    ["main@origin", "main@origin"],
    ["other@", "other@"],
    ['"a b"@-', '"a b"@-'],
    ['description("mail @ home") | @', 'description("mail @ home") | "w"@'],
    ["'@'|@", "'@'|\"w\"@"],
  ];
  for (const [given, expected] of table) {
    test(`revset: ${given} → ${expected}`, () => {
      expect(atOfWorkspace(given, "w")).toBe(expected);
    });
  }

  test("revset: workspace name with a quote → escaped", () => {
    expect(atOfWorkspace("@", 'a"b\\')).toBe('"a\\"b\\\\"@');
  });
});
