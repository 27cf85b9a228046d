import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  bookmarkName,
  MAX_SLUG_BYTES,
  nameFromPrompt,
  sessionName,
  slugOf,
  uniqueSlug,
  workspaceName,
  workspacePath,
} from "../../src/core/names.ts";

const REPO = "1a2b3c4d-0000-4000-8000-000000000000";

describe("slug", () => {
  const table: [string, string | null][] = [
    ["parser", "parser"],
    ["Fix the Parser!", "fix-the-parser"],
    ["a.b:c%d@e", "a-b-c-d-e"],
    ["-leading and trailing-", "leading-and-trailing"],
    ["Über Straße", "uber-stra-e"],
    ["日本語 v2", "v2"],
    ["x".repeat(400), "x".repeat(60)],
    [`${"x".repeat(59)} y`, "x".repeat(59)],
    ["../../etc", "etc"],
    ["a\nb", "a-b"],
    ["?!", null],
    ["日本語", null],
    ["", null],
  ];
  for (const [name, slug] of table) {
    test(`slug: ${JSON.stringify(name.slice(0, 30))} → ${slug === null ? "refused" : JSON.stringify(slug.slice(0, 30))}`, () => {
      const found = slugOf(name);
      expect(found.ok ? found.value : null).toBe(slug);
    });
  }

  test("slug: any name at all → refused, or fit for path, bookmark, workspace and session, and its own slug", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (name) => {
        const found = slugOf(name);
        if (!found.ok) return;
        const slug = found.value;
        expect(slug).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
        expect(slug.length).toBeLessThanOrEqual(MAX_SLUG_BYTES);
        expect(slugOf(slug)).toEqual(found);
        expect(sessionName(REPO, slug)).toMatch(/^kk-1a2b3c4d-[a-z0-9-]+$/);
      }),
    );
  });

  test("unique slug: any set of taken ones → free, within the limit, the wish itself when it is free", () => {
    const slugs = fc.stringMatching(/^[a-z0-9]{1,60}$/);
    fc.assert(
      fc.property(slugs, fc.integer({ min: 0, max: 30 }), (wish, count) => {
        const taken = new Set<string>();
        for (let i = 0; i < count; i += 1) taken.add(uniqueSlug(wish, (s) => taken.has(s)));
        const next = uniqueSlug(wish, (s) => taken.has(s));
        expect(taken.has(next)).toBe(false);
        expect(taken.size).toBe(count);
        expect(next.length).toBeLessThanOrEqual(MAX_SLUG_BYTES);
        if (count === 0) expect(next).toBe(wish);
        else expect(next.endsWith(`-${count + 1}`)).toBe(true);
      }),
    );
  });

  test("unique slug: cut before a dash → no double dash", () => {
    const wish = `${"a".repeat(57)}-bb`;
    expect(uniqueSlug(wish, (s) => s === wish)).toBe(`${"a".repeat(57)}-2`);
  });
});

describe("names made of a slug", () => {
  test("names: slug → bookmark, workspace, path beside the repository or below the configured root", () => {
    expect(bookmarkName("a-b")).toBe("kk/a-b");
    expect(workspaceName("a-b")).toBe("kk-a-b");
    expect(workspacePath("/src/calc", "a-b")).toBe("/src/calc-kiki-a-b");
    expect(workspacePath("/calc", "a-b")).toBe("/calc-kiki-a-b");
    expect(workspacePath("/src/calc", "a-b", "/ws")).toBe("/ws/calc-kiki-a-b");
  });

  test("names: prompt → its first five words", () => {
    expect(nameFromPrompt("  one two\nthree\tfour five six")).toBe("one two three four five");
  });
});
