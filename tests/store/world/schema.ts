/** Reads a migrated database's own words: its tables, CHECKs, indexes, triggers and foreign keys. */
import type { Database } from "bun:sqlite";

export interface Check {
  table: string;
  /** Between the parentheses, white space collapsed: what SQLite names in its message. */
  text: string;
}

export function tablesOf(db: Database): string[] {
  return db
    .query<{ name: string }, []>(
      `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
         AND name NOT LIKE 'sqlite_%' ORDER BY name`,
    )
    .all()
    .map((r) => r.name);
}

export function collapse(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

export function checksOf(db: Database): Check[] {
  return tablesOf(db).flatMap((table) => {
    const { sql } = db
      .query<{ sql: string }, [string]>(
        "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?",
      )
      .get(table)!;
    const code = sql.replace(/--.*$/gm, "");
    return [...code.matchAll(/\bCHECK \(/g)].map((m) => ({
      table,
      text: collapse(inParentheses(code, m.index + m[0].length)),
    }));
  });
}

/** The text from `start` to the parenthesis that closes the one before it. */
function inParentheses(sql: string, start: number): string {
  let depth = 1;
  let quoted = false;
  for (let at = start; at < sql.length; at += 1) {
    const c = sql[at];
    if (c === "'") quoted = !quoted;
    if (quoted) continue;
    if (c === "(") depth += 1;
    if (c === ")") depth -= 1;
    if (depth === 0) return sql.slice(start, at);
  }
  throw new Error(`no closing parenthesis after ${sql.slice(start, start + 40)}`);
}

export interface Trigger {
  name: string;
  table: string;
  /** What it says when it refuses; null for one that refuses nothing. */
  refusal: string | null;
  sql: string;
}

export function triggersOf(db: Database): Trigger[] {
  return db
    .query<{ name: string; tbl_name: string; sql: string }, []>(
      "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    )
    .all()
    .map((t) => ({
      name: t.name,
      table: t.tbl_name,
      refusal: /RAISE\(ABORT, '((?:[^']|'')*)'\)/.exec(t.sql)?.[1]?.replaceAll("''", "'") ?? null,
      sql: t.sql,
    }));
}

export interface Index {
  name: string;
  table: string;
  unique: boolean;
  columns: string[];
  /** Condition of a partial index, or null. */
  where: string | null;
}

export function indexesOf(db: Database): Index[] {
  return tablesOf(db).flatMap((table) =>
    db
      .query<{ name: string; unique: number }, []>(`PRAGMA index_list(${table})`)
      .all()
      .map(({ name, unique }) => {
        const sql = db
          .query<{ sql: string | null }, [string]>("SELECT sql FROM sqlite_schema WHERE name = ?")
          .get(name)?.sql;
        return {
          name,
          table,
          unique: unique === 1,
          columns: db
            .query<{ name: string }, []>(`PRAGMA index_info(${name})`)
            .all()
            .map((c) => c.name),
          where: sql == null ? null : (/\bWHERE ([\s\S]*)$/.exec(sql)?.[1] ?? null),
        };
      }),
  );
}

export interface ForeignKey {
  table: string;
  columns: string[];
  to: string;
}

export function foreignKeysOf(db: Database): ForeignKey[] {
  return tablesOf(db).flatMap((table) => {
    const rows = db
      .query<{ id: number; table: string; from: string }, []>(`PRAGMA foreign_key_list(${table})`)
      .all();
    return [...new Set(rows.map((r) => r.id))].map((id) => {
      const of = rows.filter((r) => r.id === id);
      return { table, columns: of.map((r) => r.from), to: of[0]!.table };
    });
  });
}

export interface Column {
  name: string;
  type: string;
  notNull: boolean;
  /** A key of type INTEGER numbers itself: NULL means the next number. */
  rowid: boolean;
}

export function columnsOf(db: Database, table: string): Column[] {
  const rows = db
    .query<{ name: string; type: string; notnull: number; pk: number }, []>(
      `PRAGMA table_info(${table})`,
    )
    .all();
  const single = rows.filter((r) => r.pk > 0).length === 1;
  return rows.map((r) => ({
    name: r.name,
    type: r.type,
    notNull: r.notnull === 1,
    rowid: r.pk === 1 && single && r.type === "INTEGER",
  }));
}
