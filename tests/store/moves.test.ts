/**
 * The states a row may begin in and the moves it may make are frozen in the migrations as text. Here they are tried,
 * every pair of states, against core's machines: a machine that changes needs a migration.
 */
import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import { AGENT_STATUSES, LIFECYCLE_OP_KINDS, PROJECTION_ISSUES } from "../../src/core/lifecycle.ts";
import { DELIVERY_MODES, INTENT_KINDS } from "../../src/core/intent.ts";
import { removeTempDirs } from "../support/temp.ts";
import { frozenMachines } from "./world/machines.ts";
import { checksOf, triggersOf } from "./world/schema.ts";
import { KINDS, makeWorld } from "./world/world.ts";

afterAll(removeTempDirs);

/** Columns that are an enumeration of core, besides those of the machines. */
const ENUMERATIONS: readonly [table: string, column: string, values: readonly string[]][] = [
  ["thread_lifecycle_ops", "kind", LIFECYCLE_OP_KINDS],
  ["thread_projection_issues", "issue", PROJECTION_ISSUES],
  ["agent_sessions", "status", AGENT_STATUSES],
  ["sync_intents", "kind", INTENT_KINDS],
  ["sync_intents", "delivery_mode", DELIVERY_MODES],
];

for (const kind of KINDS) {
  const { whole } = makeWorld(kind);
  const triggers = triggersOf(whole);
  const checks = checksOf(whole);

  /** Values of the column's `IN (…)`. */
  const listed = (table: string, column: string): string[] => {
    const text = checks.find((c) => c.table === table && c.text.startsWith(`${column} IN (`))?.text;
    return [...(text ?? "").matchAll(/'([^']*)'/g)].map((m) => m[1]!).sort();
  };

  describe(`moves of the ${kind} database`, () => {
    for (const { table, column, trigger, states, initial, all } of frozenMachines(kind)) {
      test(`moves: ${table}, every pair of states → allowed where core's machine has the move, refused elsewhere`, () => {
        // A table of its own: only these two triggers, so nothing else refuses a move first.
        const db = new Database(":memory:");
        db.run(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, ${column} TEXT)`);
        db.run(triggers.find((t) => t.name === `${table}_begin`)!.sql);
        const begins = states.filter((state) =>
          allowed(db, `INSERT INTO ${table} (${column}) VALUES ('${state}')`),
        );
        db.run(`DROP TRIGGER ${table}_begin; DELETE FROM ${table}`);
        db.run(triggers.find((t) => t.name === trigger)!.sql);
        const moves = states.flatMap((from) => {
          db.run(`DELETE FROM ${table}; INSERT INTO ${table} (${column}) VALUES ('${from}')`);
          return states
            .filter((to) => to !== from && allowed(db, `UPDATE ${table} SET ${column} = '${to}'`))
            .map((to) => `${from} → ${to}`);
        });
        db.close();
        expect(begins.sort()).toEqual([...initial].sort());
        expect(moves.sort()).toEqual(all.map(([from, to]) => `${from} → ${to}`).sort());
        expect(listed(table, column)).toEqual([...states].sort());
      });
    }

    if (kind === "repo") {
      for (const [table, column, values] of ENUMERATIONS) {
        test(`moves: ${table}.${column} → the values core has, no other`, () => {
          expect(listed(table, column)).toEqual([...values].sort());
        });
      }
    }
  });
}

/** Tried and undone. */
function allowed(db: Database, sql: string): boolean {
  db.run("SAVEPOINT attempt");
  try {
    db.run(sql);
    return true;
  } catch (error) {
    expect((error as { code?: string }).code).toBe("SQLITE_CONSTRAINT_TRIGGER");
    return false;
  } finally {
    db.run("ROLLBACK TO attempt; RELEASE attempt");
  }
}
