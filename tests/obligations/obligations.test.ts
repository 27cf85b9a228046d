/** Every obligation has its tests, and the page that says so is up to date. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CHAPTERS, withProven } from "./render.ts";

const TESTS = join(import.meta.dir, "..");

describe("obligations", () => {
  for (const { title, obligations } of CHAPTERS) {
    for (const { what, by } of obligations) {
      test(`${title}: ${what} → each test that is named is there`, () => {
        const named = Object.entries(by).flatMap(([file, names]) =>
          names.map((name) => [file, name]),
        );
        expect(named.length).toBeGreaterThan(0);
        for (const [file, name] of named as [string, string][]) {
          const path = join(TESTS, file);
          expect([file, existsSync(path)]).toEqual([file, true]);
          expect([name, readFileSync(path, "utf8").includes(name)]).toEqual([name, true]);
        }
      });
    }
  }
});

test("docs/testing.md → as the tables say (bun scripts/gen-proven-docs.ts)", () => {
  const page = readFileSync(join(TESTS, "../docs/testing.md"), "utf8");
  expect(withProven(page)).toBe(page);
});
