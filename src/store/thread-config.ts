/** Configuration of single threads. */
import type { Db } from "./db.ts";

/** Values by key. */
export function threadConfig(db: Db, threadId: string): Record<string, unknown> {
  const rows = db
    .query<{ key: string; value_json: string }, [string]>(
      "SELECT key, value_json FROM thread_config WHERE thread_id = ? ORDER BY key",
    )
    .all(threadId);
  return Object.fromEntries(rows.map((row) => [row.key, JSON.parse(row.value_json) as unknown]));
}
