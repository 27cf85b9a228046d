/** What a bug cannot store: rows whose columns contradict each other. Every CHECK has its nonsense. */
import { afterAll, describe, expect, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { checkCases } from "./world/check-cases.ts";
import { refusal } from "./world/refused.ts";
import { checksOf } from "./world/schema.ts";
import { simpleChecks } from "./world/simple-checks.ts";
import { KINDS, makeWorld } from "./world/world.ts";

afterAll(removeTempDirs);

for (const kind of KINDS) {
  const { bare } = makeWorld(kind);
  const checks = checksOf(bare);
  const tried = new Set<string>();

  describe(`constraints of the ${kind} database`, () => {
    for (const { table, text, what, sql } of checkCases(kind)) {
      const check = checks.find((c) => c.table === table && c.text.startsWith(text));
      tried.add(`${table}: ${check?.text}`);
      test(`constraints: ${table}, ${what} → refused`, () => {
        expect(refusal(bare, sql)).toEqual({
          code: "SQLITE_CONSTRAINT_CHECK",
          what: check?.text ?? `no CHECK of ${table} begins with ${text}`,
        });
      });
    }

    test("constraints: CHECKs of the schema → every one is tried", () => {
      for (const c of simpleChecks(bare)) tried.add(`${c.table}: ${c.text}`);
      expect(checks.map((c) => `${c.table}: ${c.text}`).filter((c) => !tried.has(c))).toEqual([]);
    });
  });
}
