/** Databases of every released schema: brought to the newest with every row kept, or left exactly as they were. */
import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { KikiError } from "../../src/core/errors.ts";
import {
  migrate,
  REPO_MIGRATIONS,
  schemaVersion,
  USER_MIGRATIONS,
} from "../../src/store/migrate.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { recordedSql, rowsOf, schemaOf, writeRecorded } from "./world/recorded.ts";
import type { Kind } from "./world/world.ts";

afterAll(removeTempDirs);

const SIDES = [
  { kind: "user", open: openUserDb, migrations: USER_MIGRATIONS },
  { kind: "repo", open: openRepoDb, migrations: REPO_MIGRATIONS },
] as const;

/** Schemas that were released: each has its recorded database, and its migration never changes again. */
const RELEASED = [1];

function recorded(kind: Kind, version: number): string {
  const file = join(tempDir("store"), "state.db");
  writeRecorded(kind, version, file);
  return file;
}

function errorOf(work: () => unknown): KikiError {
  try {
    work();
  } catch (error) {
    if (error instanceof KikiError) return error;
    throw error;
  }
  throw new Error("no error");
}

for (const { kind, open, migrations } of SIDES) {
  const table = kind === "user" ? "repos" : "threads";
  const newest = migrations.length;

  for (const version of RELEASED) {
    describe(`migrations: ${kind} database of schema ${version}`, () => {
      test("migrations: released schema → its migrations make exactly it, to this day", () => {
        const [made, was] = [new Database(":memory:"), new Database(":memory:")];
        migrate(made, migrations.slice(0, version), "made");
        was.run(recordedSql(kind, version));
        expect(schemaOf(made)).toEqual(schemaOf(was));
        made.close();
        was.close();
      });

      test("migrations: opened → newest schema, every row kept with every value and its place", () => {
        const file = recorded(kind, version);
        const old = new Database(file, { readonly: true });
        const before = rowsOf(old);
        old.close();
        const db = open(file);
        const after = rowsOf(db);
        for (const [name, rows] of Object.entries(before)) {
          expect(rows.length, `${name} has rows`).toBeGreaterThan(0);
          const kept = after[name]!.map((row) =>
            Object.fromEntries(Object.keys(rows[0]!).map((column) => [column, row[column]])),
          );
          expect(kept, name).toEqual(rows);
        }
        expect(schemaVersion(db)).toBe(newest);
        expect(db.query("PRAGMA foreign_key_check").all()).toEqual([]);
        expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
        expect(db.query("PRAGMA foreign_keys").get()).toEqual({ foreign_keys: 1 });
        db.close();
      });

      test("migrations: opened → the same schema as a database made new", () => {
        const [old, fresh] = [
          open(recorded(kind, version)),
          open(join(tempDir("store"), "state.db")),
        ];
        expect(schemaOf(old)).toEqual(schemaOf(fresh));
        old.close();
        fresh.close();
      });

      test("migrations: opened again → nothing is done a second time", () => {
        const file = recorded(kind, version);
        const first = open(file);
        const [rows, at] = [rowsOf(first), first.query("PRAGMA schema_version").get()];
        first.close();
        const again = open(file);
        migrate(again, migrations, file);
        expect(rowsOf(again)).toEqual(rows);
        expect(again.query("PRAGMA schema_version").get()).toEqual(at);
        again.close();
      });

      test("migrations: a statement fails in the middle → the old schema and every row, and the reason said", () => {
        const file = recorded(kind, version);
        const db = new Database(file);
        const before = [schemaOf(db), rowsOf(db)];
        const next = migrations[version]!;
        const half = next.sql.indexOf(";\nCREATE TRIGGER", next.sql.length / 2) + 1;
        expect(half).toBeGreaterThan(0);
        const broken = `${next.sql.slice(0, half)}\nINSERT INTO nowhere VALUES (1);${next.sql.slice(half)}`;
        const chain = [...migrations.slice(0, version), { version: version + 1, sql: broken }];
        const error = errorOf(() => migrate(db, chain, file));
        expect(error.code).toBe("migration-failed");
        expect(error.message).toBe(
          `${file} could not be brought to schema ${version + 1}: no such table: nowhere`,
        );
        expect([schemaOf(db), rowsOf(db)]).toEqual(before);
        expect(schemaVersion(db)).toBe(version);
        expect(db.query("PRAGMA foreign_keys").get()).toEqual({ foreign_keys: 1 });
        db.close();
        const repaired = open(file);
        expect(schemaVersion(repaired)).toBe(newest);
        repaired.close();
      });
    });
  }

  describe(`migrations: ${kind} database`, () => {
    test("migrations: one that leaves a row without what it names → refused, nothing changed", () => {
      const file = recorded(kind, RELEASED.at(-1)!);
      const db = new Database(file);
      const [at, version] = [rowsOf(db), schemaVersion(db)];
      const sql = `CREATE TABLE extra (x TEXT REFERENCES ${table}) STRICT; INSERT INTO extra VALUES ('nobody');`;
      const chain = [...migrations.slice(0, version), { version: version + 1, sql }];
      expect(errorOf(() => migrate(db, chain, file)).message).toContain(
        "a row of extra names a row that is not there",
      );
      expect(rowsOf(db)).toEqual(at);
      db.close();
    });

    test("migrations: database of a newer kiki, some of it still in its log → refused, no byte of either changed", () => {
      const live = join(tempDir("store"), "state.db");
      const writer = open(live);
      writer.run(`PRAGMA user_version = ${newest + 1}`);
      // A copy while it is open is what a killed daemon leaves.
      const dir = tempDir("store");
      for (const name of ["state.db", "state.db-wal"]) {
        copyFileSync(`${live}${name.slice("state.db".length)}`, join(dir, name));
      }
      writer.close();
      const bytes = (): string[] =>
        ["state.db", "state.db-wal"].map((name) =>
          readFileSync(join(dir, name)).toString("base64"),
        );
      const before = bytes();
      const error = errorOf(() => open(join(dir, "state.db")));
      expect(error.code).toBe("database-newer");
      expect(error.message).toContain(`schema ${newest + 1}, this one knows ${newest}`);
      expect(bytes()).toEqual(before);
      // The shared index of readers holds nothing of the database; SQLite makes it for whoever looks.
      expect(
        readdirSync(dir)
          .filter((name) => name !== "state.db-shm")
          .sort(),
      ).toEqual(["state.db", "state.db-wal"]);
    });
  });
}

test("migrations: journal of schema 1 → what had started counts as started once", () => {
  const db = openRepoDb(recorded("repo", 1));
  const counts = db
    .query<{ state: string; attempts: number; undo: number }, []>(
      "SELECT DISTINCT state, attempts, undo_attempts AS undo FROM thread_lifecycle_steps ORDER BY state",
    )
    .all()
    .map((r) => `${r.state} ${r.attempts} ${r.undo}`);
  expect(counts).toEqual([
    "Compensated 1 1",
    "Compensating 1 1",
    "Completed 1 0",
    "Failed 1 0",
    "Pending 0 0",
    "Started 1 0",
  ]);
  db.close();
});

test("migrations: nonsense that schema 1 let through → refused by name, left as it was", () => {
  const file = recorded("repo", 1);
  const old = new Database(file);
  old.run("UPDATE agent_sessions SET pid = 0 WHERE pid IS NOT NULL");
  old.close();
  const error = errorOf(() => openRepoDb(file));
  expect([error.code, error.message]).toEqual([
    "migration-failed",
    `${file} could not be brought to schema 2: CHECK constraint failed: pid > 0`,
  ]);
  const kept = new Database(file, { readonly: true });
  expect(schemaVersion(kept)).toBe(1);
  kept.close();
});
