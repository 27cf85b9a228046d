import { describe, expect, test } from "bun:test";
import { displayWidth, padEnd, printable, truncate } from "../../../src/core/render/width.ts";

describe("width", () => {
  test("wide, combining, plain → terminal columns", () => {
    expect(["abc", "日本", "e\u0301", "●", "──", "…", ""].map(displayWidth)).toEqual([
      3, 4, 1, 1, 2, 1, 0,
    ]);
  });

  test("truncate: any width → never wider, never half a character, one …", () => {
    const text = "ab日本語e\u0301👩‍👩‍👧z";
    for (let columns = 0; columns <= displayWidth(text) + 1; columns += 1) {
      const cut = truncate(text, columns);
      expect(displayWidth(cut)).toBeLessThanOrEqual(columns);
      const whole = columns >= displayWidth(text);
      expect(cut === text).toBe(whole);
      if (!whole && columns > 0) expect(text.startsWith(cut.slice(0, -1))).toBe(true);
    }
  });

  test("padEnd: wide text → padded by columns, longer text kept", () => {
    expect(padEnd("日本", 6)).toBe("日本  ");
    expect(padEnd("abcdef", 3)).toBe("abcdef");
  });

  test("printable: controls, line breaks, bidirectional overrides → one space each run", () => {
    expect(printable("a\r\n\tb\u001b[2Jc\u202ed\u0085e")).toBe("a b [2Jc d e");
  });
});
