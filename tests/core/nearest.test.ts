import { describe, expect, test } from "bun:test";
import { editDistance, nearest } from "../../src/core/nearest.ts";

describe("nearest", () => {
  const known = ["init", "new", "status", "switch", "daemon"];
  test("slips → what was meant", () => {
    expect(["stauts", "swich", "nwe", "intit", "daem"].map((word) => nearest(word, known))).toEqual(
      ["status", "switch", "new", "init", "daemon"],
    );
  });
  test("something else → nothing is suggested", () => {
    expect(["frobnicate", "x", ""].map((word) => nearest(word, known))).toEqual([null, null, null]);
  });
  test("distance: insert, delete, replace, swap → one each", () => {
    const pairs = [
      ["ab", "abc"],
      ["abc", "ab"],
      ["abc", "axc"],
      ["abc", "acb"],
      ["", "abc"],
    ] as const;
    expect(pairs.map(([a, b]) => editDistance(a, b))).toEqual([1, 1, 1, 1, 3]);
  });
});
