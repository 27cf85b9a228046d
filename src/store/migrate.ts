/**
 * Numbered, forward-only migrations, each in one transaction together with its number (`PRAGMA user_version`). A
 * database newer than this binary is refused and not touched.
 */
import { fail } from "../core/errors.ts";
import { write, type Db } from "./db.ts";
import { SQL as REPO_0001 } from "./migrations/repo/0001_initial.ts";
import { SQL as USER_0001 } from "./migrations/user/0001_initial.ts";

export interface Migration {
  /** 1, 2, 3 … without gaps: also the `user_version` after it. */
  version: number;
  sql: string;
}

// Listed, not globbed: the bundler must see every file.
export const USER_MIGRATIONS: readonly Migration[] = [{ version: 1, sql: USER_0001 }];
export const REPO_MIGRATIONS: readonly Migration[] = [{ version: 1, sql: REPO_0001 }];

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

/** Brings `db` to the newest schema; does nothing when it is there already. */
export function migrate(db: Db, migrations: readonly Migration[], file: string): void {
  refuseNewer(db, migrations, file);
  for (const migration of migrations) {
    write(db, () => {
      // Read inside the transaction: another process may have migrated while this one waited for the lock.
      if (schemaVersion(db) >= migration.version) return;
      db.run(migration.sql);
      db.run(`PRAGMA user_version = ${migration.version}`);
    });
  }
}
