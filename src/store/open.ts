/** Opening a database: private to the person, migrated, or refused with a reason and left as it is. */
import { Database } from "bun:sqlite";
import { chmodSync, closeSync, existsSync, openSync, statSync } from "node:fs";
import { BUSY_TIMEOUT_MS, connect, type Db } from "./db.ts";
import { nameStorageError } from "./errors.ts";
import {
  migrate,
  refuseNewer,
  REPO_MIGRATIONS,
  USER_MIGRATIONS,
  type Migration,
} from "./migrate.ts";

/** SQLite gives `-wal` and `-shm` the mode of the database file. */
const FILE_MODE = 0o600;

/**
 * `<state>/state.db`. Throws KikiError: `database-newer`, `database-corrupt`, `database-read-only`,
 * `database-disk-full`, `database-unreadable`, `database-io`, `database-busy`.
 */
export function openUserDb(file: string): Db {
  return open(file, USER_MIGRATIONS);
}

/** `<state>/repos/<repo_id>/state.db`; errors as `openUserDb`. */
export function openRepoDb(file: string): Db {
  return open(file, REPO_MIGRATIONS);
}

function open(file: string, migrations: readonly Migration[]): Db {
  let db: Db | null = null;
  try {
    if (existsSync(file)) peek(file, migrations);
    // Made with its mode before SQLite opens it: there is no moment in which others may read it.
    else closeSync(openSync(file, "a", FILE_MODE));
    db = connect(file);
    chmodSync(file, FILE_MODE);
    migrate(db, migrations, file);
    return db;
  } catch (error) {
    db?.close();
    throw nameStorageError(nameFileError(error), file);
  }
}

/**
 * Looks at an existing file through a read-only connection first: switching to WAL, or closing a writing connection,
 * changes bytes, and a newer or corrupt database must stay exactly as it is.
 */
function peek(file: string, migrations: readonly Migration[]): void {
  if (!statSync(file).isFile()) throw Object.assign(new Error("not a file"), { code: "EISDIR" });
  const db = new Database(file, { readonly: true, strict: true });
  try {
    // Another daemon may be making the file this moment.
    db.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    refuseNewer(db, migrations, file);
    db.query("SELECT count(*) FROM sqlite_schema").get();
  } finally {
    db.close();
  }
}

/** The file system's own names, from making the file, as SQLite would have said them. */
function nameFileError(error: unknown): unknown {
  const code = (error as { code?: unknown }).code;
  const same = {
    ENOSPC: "SQLITE_FULL",
    EROFS: "SQLITE_READONLY",
    EACCES: "SQLITE_CANTOPEN",
  } as const;
  if (typeof code !== "string" || !(error instanceof Error)) return error;
  const sqlite =
    same[code as keyof typeof same] ??
    (/^E(PERM|NOENT|NOTDIR|ISDIR|LOOP)$/.test(code) ? "SQLITE_CANTOPEN" : null);
  return sqlite === null ? error : Object.assign(error, { code: sqlite });
}
