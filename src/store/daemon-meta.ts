/** Facts of the daemon that outlive it: `daemon_meta`, one text per key. */
import type { Db } from "./db.ts";

export function getMeta(db: Db, key: string): string | null {
  return (
    db
      .query<{ value: string }, { key: string }>("SELECT value FROM daemon_meta WHERE key = $key")
      .get({ key })?.value ?? null
  );
}

export function setMeta(db: Db, key: string, value: string): void {
  db.query(
    "INSERT INTO daemon_meta (key, value) VALUES ($key, $value) ON CONFLICT (key) DO UPDATE SET value = $value",
  ).run({ key, value });
}
