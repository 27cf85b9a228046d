/** What a bug cannot do to a row that is there: every trigger of the schema refuses what it is for, in its own words. */
import { afterAll, describe, expect, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { frozenMachines } from "./world/machines.ts";
import { refusal } from "./world/refused.ts";
import { triggersOf } from "./world/schema.ts";
import { triggerCases } from "./world/trigger-cases.ts";
import { KINDS, makeWorld } from "./world/world.ts";

afterAll(removeTempDirs);

/** Triggers that refuse nothing; what they do instead is tried in its own test below. */
const SILENT = ["thread_messages_search_add", "thread_messages_search_remove"];

for (const kind of KINDS) {
  const { whole } = makeWorld(kind);
  const triggers = triggersOf(whole);
  const tried = new Set<string>(SILENT);

  describe(`constraints of the ${kind} database`, () => {
    for (const { trigger, what, sql } of triggerCases(kind)) {
      tried.add(trigger);
      const { table, refusal: words } = triggers.find((t) => t.name === trigger) ?? {
        table: "?",
        refusal: `no trigger ${trigger}`,
      };
      test(`constraints: ${table}, ${what} (${trigger}) → refused`, () => {
        expect(refusal(whole, ...sql)).toEqual({ code: "SQLITE_CONSTRAINT_TRIGGER", what: words! });
      });
    }

    for (const { name, table, sql, refusal: words } of triggers) {
      if (!/ BEFORE DELETE ON \w+\s+BEGIN/.test(sql)) continue;
      tried.add(name);
      test(`constraints: ${table}, a row deleted or replaced (${name}) → refused`, () => {
        const said = { code: "SQLITE_CONSTRAINT_TRIGGER", what: words! };
        expect(refusal(whole, `DELETE FROM ${table}`)).toEqual(said);
      });
    }

    test("constraints: triggers of the schema → every one is tried", () => {
      for (const m of frozenMachines(kind)) tried.add(`${m.table}_begin`).add(m.trigger);
      expect(triggers.map((t) => t.name).filter((t) => !tried.has(t))).toEqual([]);
    });
  });
}
