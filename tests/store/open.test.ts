/** Opening databases: made private, migrated once, and refused by name without a byte changed. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Database } from "bun:sqlite";
import { KikiError } from "../../src/core/errors.ts";
import { write, writeBeforeAnswer } from "../../src/store/db.ts";
import { nameStorageError } from "../../src/store/errors.ts";
import {
  migrate,
  REPO_MIGRATIONS,
  schemaVersion,
  USER_MIGRATIONS,
} from "../../src/store/migrate.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const ROOT = dirname(dirname(import.meta.dir));

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (!(error instanceof KikiError)) return `unnamed: ${String(error)}`;
    expect(error.message).not.toContain("\n");
    return error.code;
  }
  return "no error";
}

describe("open", () => {
  for (const [kind, open, migrations] of [
    ["user", openUserDb, USER_MIGRATIONS],
    ["repo", openRepoDb, REPO_MIGRATIONS],
  ] as const) {
    test(`open: new ${kind} database → 0600 with WAL beside it, newest schema, foreign keys on`, () => {
      const file = join(tempDir("store"), "state.db");
      const db = open(file);
      write(db, () => db.run("CREATE TABLE scratch (x)"));
      for (const name of readdirSync(dirname(file))) {
        expect([name, statSync(join(dirname(file), name)).mode & 0o777]).toEqual([name, 0o600]);
      }
      expect(schemaVersion(db)).toBe(migrations.length);
      const pragma = (name: string): unknown =>
        Object.values(db.query(`PRAGMA ${name}`).get() as Record<string, unknown>)[0];
      expect([pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")]).toEqual([
        "wal",
        2,
        1,
      ]);
      db.close();
    });

    test(`open: ${kind} database opened again → nothing migrated twice, rows kept`, () => {
      const file = join(tempDir("store"), "state.db");
      const first = open(file);
      first.run("CREATE TABLE mine (x); INSERT INTO mine VALUES (7)");
      migrate(first, migrations, file);
      first.close();
      const again = open(file);
      expect(again.query("SELECT x FROM mine").get()).toEqual({ x: 7 });
      again.close();
    });

    test(`open: every table of the ${kind} database → STRICT`, () => {
      const db = open(join(tempDir("store"), "state.db"));
      const loose = db
        .query<{ name: string }, []>(
          "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'",
        )
        .all();
      expect(loose).toEqual([]);
      db.close();
    });

    test(`migrations: files of ${kind} → all listed, numbered without a gap`, () => {
      const files = readdirSync(join(ROOT, "src/store/migrations", kind))
        .filter((f) => f.endsWith(".ts"))
        .sort();
      expect(files.map((f) => Number(f.slice(0, 4)))).toEqual(migrations.map((m) => m.version));
      expect(migrations.map((m) => m.version)).toEqual(files.map((_, i) => i + 1));
    });
  }

  test("open: file readable by others → made private", () => {
    const file = join(tempDir("store"), "state.db");
    openUserDb(file).close();
    chmodSync(file, 0o644);
    openUserDb(file).close();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("open: database of a newer kiki → database-newer, not a byte changed, nothing added", () => {
    const file = join(tempDir("store"), "state.db");
    const db = new Database(file, { create: true });
    db.run("CREATE TABLE future (x); PRAGMA user_version = 99");
    db.close();
    const before = readFileSync(file);
    expect(codeOf(() => openUserDb(file))).toBe("database-newer");
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readdirSync(dirname(file))).toEqual(["state.db"]);
  });

  test("open: not a database → database-corrupt, not a byte changed", () => {
    const file = join(tempDir("store"), "state.db");
    const text =
      "this is a letter, not a database, and long enough to be read as a header. ".repeat(20);
    writeFileSync(file, text);
    expect(codeOf(() => openRepoDb(file))).toBe("database-corrupt");
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  test("open: a folder in the file's place, a missing folder → database-unreadable, nothing made", () => {
    const dir = tempDir("store");
    mkdirSync(join(dir, "state.db"));
    expect(codeOf(() => openUserDb(join(dir, "state.db")))).toBe("database-unreadable");
    expect(codeOf(() => openUserDb(join(dir, "missing/state.db")))).toBe("database-unreadable");
    expect(existsSync(join(dir, "missing"))).toBe(false);
  });
});

describe("storage errors", () => {
  test("write: disk full → database-disk-full with the file named, nothing half-written", () => {
    const file = join(tempDir("store"), "state.db");
    const db = openUserDb(file);
    db.run("CREATE TABLE big (x BLOB) STRICT");
    db.run(
      `PRAGMA max_page_count = ${(db.query("PRAGMA page_count").get() as { page_count: number }).page_count + 2}`,
    );
    const fill = (): void =>
      write(db, () => {
        db.run("INSERT INTO big VALUES (x'00')");
        db.run("INSERT INTO big VALUES (zeroblob(1000000))");
      });
    expect(codeOf(fill)).toBe("database-disk-full");
    expect(db.query("SELECT count(*) AS n FROM big").get()).toEqual({ n: 0 });
    db.close();
  });

  test("write: database that may only be read → database-read-only", () => {
    const file = join(tempDir("store"), "state.db");
    openUserDb(file).close();
    const db = new Database(file, { readonly: true });
    expect(codeOf(() => write(db, () => db.run("CREATE TABLE x (y)")))).toBe("database-read-only");
    db.close();
  });

  test("write: locked by another connection → database-busy", () => {
    const file = join(tempDir("store"), "state.db");
    const holder = openUserDb(file);
    const db = openUserDb(file);
    db.run("PRAGMA busy_timeout = 1");
    holder.run("BEGIN IMMEDIATE");
    expect(codeOf(() => write(db, () => db.run("DELETE FROM repos")))).toBe("database-busy");
    holder.run("ROLLBACK");
    holder.close();
    db.close();
  });

  test("names: every code of SQLite's that a person can act on → its name; a violated constraint stays a bug", () => {
    const named = (code: string): unknown => {
      const error = nameStorageError(Object.assign(new Error("x"), { code }), "/f");
      return error instanceof KikiError ? error.code : "as it was";
    };
    expect(named("SQLITE_CORRUPT_VTAB")).toBe("database-corrupt");
    expect(named("SQLITE_READONLY_DBMOVED")).toBe("database-read-only");
    expect(named("SQLITE_IOERR_FSYNC")).toBe("database-io");
    expect(named("SQLITE_CANTOPEN_ISDIR")).toBe("database-unreadable");
    expect(named("SQLITE_LOCKED")).toBe("database-busy");
    expect(named("SQLITE_CONSTRAINT_CHECK")).toBe("as it was");
  });
});

test("writeBeforeAnswer: committed at once, for other processes too; the next commit waits for the disk again", () => {
  const file = join(tempDir("before-answer"), "state.db");
  const db = openUserDb(file);
  const other = openUserDb(file);
  const mode = () => db.query<{ synchronous: number }, []>("PRAGMA synchronous").get()!.synchronous;
  writeBeforeAnswer(db, () => db.run("INSERT INTO daemon_meta VALUES ('a', '1')"));
  expect(other.query("SELECT value FROM daemon_meta WHERE key = 'a'").get()).toEqual({
    value: "1",
  });
  expect(mode()).toBe(2);
  const failing = (): void =>
    writeBeforeAnswer(db, () => {
      db.run("INSERT INTO daemon_meta VALUES ('b', '1')");
      throw new Error("no");
    });
  expect(failing).toThrow("no");
  expect(mode()).toBe(2);
  expect(other.query("SELECT 1 FROM daemon_meta WHERE key = 'b'").get()).toBeNull();
  db.close();
  other.close();
});
