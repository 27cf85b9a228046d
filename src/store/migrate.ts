/**
 * Numbered, forward-only migrations, each in one transaction together with its number (`PRAGMA user_version`). A
 * database newer than this binary is refused and not touched.
 */
import { errorLine, fail, KikiError } from "../core/errors.ts";
import { write, type Db } from "./db.ts";
import { nameStorageError } from "./errors.ts";
import { SQL as REPO_0001 } from "./migrations/repo/0001_initial.ts";
import { SQL as REPO_0002 } from "./migrations/repo/0002_whole_schema.ts";
import { SQL as REPO_0003 } from "./migrations/repo/0003_serial_batches.ts";
import { SQL as REPO_0004 } from "./migrations/repo/0004_heads_by_commit.ts";
import { SQL as USER_0001 } from "./migrations/user/0001_initial.ts";
import { SQL as USER_0002 } from "./migrations/user/0002_whole_schema.ts";

export interface Migration {
  /** 1, 2, 3 … without gaps: also the `user_version` after it. */
  version: number;
  sql: string;
}

// Listed, not globbed: the bundler must see every file.
export const USER_MIGRATIONS: readonly Migration[] = [
  { version: 1, sql: USER_0001 },
  { version: 2, sql: USER_0002 },
];
export const REPO_MIGRATIONS: readonly Migration[] = [
  { version: 1, sql: REPO_0001 },
  { version: 2, sql: REPO_0002 },
  { version: 3, sql: REPO_0003 },
  { version: 4, sql: REPO_0004 },
];

export function schemaVersion(db: Db): number {
  return db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
}

/** Throws KikiError `database-newer` when the file was written by a later kiki. */
export function refuseNewer(db: Db, migrations: readonly Migration[], file: string): void {
  const found = schemaVersion(db);
  const known = migrations.length;
  if (found <= known) return;
  throw fail(
    "failed",
    "database-newer",
    `${file} was written by a newer kiki (schema ${found}, this one knows ${known})`,
    "install the newer kiki again",
  );
}

/**
 * Brings `db` to the newest schema; does nothing when it is there already. Each migration is one transaction with its
 * number: it happens whole or not at all. Throws KikiError `migration-failed` (the database is as it was before that
 * migration), and what `write` throws.
 */
export function migrate(db: Db, migrations: readonly Migration[], file: string): void {
  refuseNewer(db, migrations, file);
  const pending = migrations.filter((m) => m.version > schemaVersion(db));
  if (pending.length === 0) return;
  // A table is rebuilt by making it anew and dropping the old one, which enforced keys would not let go. The switch
  // does nothing inside a transaction, so it is here; every migration proves the keys before it commits.
  db.run("PRAGMA foreign_keys = OFF");
  try {
    for (const migration of pending) write(db, () => step(db, migration, file));
  } finally {
    db.run("PRAGMA foreign_keys = ON");
  }
}

function step(db: Db, migration: Migration, file: string): void {
  // Read inside the transaction: another process may have migrated while this one waited for the lock.
  if (schemaVersion(db) >= migration.version) return;
  try {
    db.run(migration.sql);
    const dangling = db.query<{ table: string }, []>("PRAGMA foreign_key_check").get();
    if (dangling !== null)
      throw new Error(`a row of ${dangling.table} names a row that is not there`);
    db.run(`PRAGMA user_version = ${migration.version}`);
  } catch (error) {
    const named = nameStorageError(error, file);
    if (named instanceof KikiError) throw named;
    throw new KikiError(
      {
        kind: "failed",
        code: "migration-failed",
        message: `${file} could not be brought to schema ${migration.version}: ${errorLine(error)}`,
        hint: "nothing in it was changed; keep a copy of the file, and use the kiki that wrote it meanwhile",
      },
      error,
    );
  }
}
