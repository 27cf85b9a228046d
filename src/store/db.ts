/** The door to SQLite: the connection type, the pragmas, and the one way to write. */
import { Database } from "bun:sqlite";
import { nameStorageError } from "./errors.ts";

export type Db = Database;

/** Milliseconds SQLite waits for a lock before SQLITE_BUSY; the daemon is the only writer, so this is generous. */
export const BUSY_TIMEOUT_MS = 5000;
const WAL_RETRY_MS = 10;

/** Opens (creating) a database file with kiki's pragmas. The caller migrates before use. */
export function connect(file: string): Db {
  const db = new Database(file, { create: true, readwrite: true, strict: true });
  // busy_timeout first: switching to WAL takes a lock itself.
  db.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  switchToWal(db);
  db.run("PRAGMA synchronous = FULL");
  db.run("PRAGMA foreign_keys = ON");
  // INSERT OR REPLACE deletes rows; only with this do the triggers that keep rows see it.
  db.run("PRAGMA recursive_triggers = ON");
  return db;
}

/**
 * Two processes that switch a new file at once would wait for each other, so SQLite answers the second one SQLITE_BUSY
 * at once, whatever its busy_timeout (3.54): the same bound, kept here.
 */
function switchToWal(db: Db): void {
  const deadline = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      db.run("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      const busy = String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");
      if (!busy || performance.now() >= deadline) throw error;
      Bun.sleepSync(WAL_RETRY_MS);
    }
  }
}

/**
 * Runs `body` in one BEGIN IMMEDIATE transaction and returns its result; rolls back on a throw. `body` is
 * synchronous by type: a transaction never awaits. A full disk and its like come as KikiError `database-…`.
 */
export function write<T>(db: Db, body: () => T extends Promise<unknown> ? never : T): T {
  try {
    return db.transaction(body as () => T).immediate();
  } catch (error) {
    throw nameStorageError(error, db.filename);
  }
}

const FULL = 2;

/**
 * As `write`, for what nobody is told before another commit of this database has returned, the request's audit row: that
 * one brings both to the disk, and one wait for it is saved on the path of every tool call. The death of a process loses
 * nothing either way; that of the machine in between loses something nobody has been answered.
 */
export function writeBeforeAnswer<T>(
  db: Db,
  body: () => T extends Promise<unknown> ? never : T,
): T {
  const { synchronous } = db.query<{ synchronous: number }, []>("PRAGMA synchronous").get()!;
  if (synchronous !== FULL) return write(db, body);
  // In WAL mode (SQLite 3.54): the commit is in the file, and the next FULL one syncs all of it.
  db.run("PRAGMA synchronous = NORMAL");
  try {
    return write(db, body);
  } finally {
    db.run("PRAGMA synchronous = FULL");
  }
}
