/** Databases of released schemas, recorded as SQL under fixtures/schemas, and what is in them. */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { collapse, tablesOf } from "./schema.ts";
import type { Kind } from "./world.ts";

const FIXTURES = join(dirname(dirname(dirname(import.meta.dir))), "fixtures/schemas");

export function recordedSql(kind: Kind, version: number): string {
  return readFileSync(join(FIXTURES, `${kind}-${String(version).padStart(4, "0")}.sql`), "utf8");
}

/** Writes a database of that version, in WAL mode as the daemon leaves it, and closes it. */
export function writeRecorded(kind: Kind, version: number, file: string): void {
  const db = new Database(file, { create: true });
  db.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  db.run(recordedSql(kind, version));
  db.close();
}

export type Rows = Record<string, Record<string, unknown>[]>;

/** Every row of every table with its rowid, which some readers order by. */
export function rowsOf(db: Database): Rows {
  return Object.fromEntries(
    tablesOf(db).map((table) => [
      table,
      db
        .query<Record<string, unknown>, []>(`SELECT rowid AS "#", * FROM ${table} ORDER BY rowid`)
        .all(),
    ]),
  );
}

/** Name → definition, without comments, white space, and the quotes that a rename leaves. */
export function schemaOf(db: Database): Record<string, string> {
  const rows = db
    .query<{ name: string; sql: string | null }, []>(
      "SELECT name, sql FROM sqlite_schema ORDER BY name",
    )
    .all();
  return Object.fromEntries(
    rows.map((r) => [
      r.name,
      collapse(
        (r.sql ?? "").replace(/--.*$/gm, "").replace(/CREATE TABLE "(\w+)"/, "CREATE TABLE $1"),
      ),
    ]),
  );
}
