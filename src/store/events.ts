/** `events`: what happened, in order, for streams and histories. Summary fields only, never secrets or prompts. */
import type { ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export interface EventRow {
  /** Grows without reuse; a gap a reader sees is a lost row, not a renumbering. */
  seq: number;
  threadId: ThreadId | null;
  kind: string;
  data: unknown;
  at: number;
}

export function appendEvent(
  db: Db,
  row: { threadId: ThreadId | null; kind: string; data: Record<string, unknown>; now: number },
): void {
  db.query(
    "INSERT INTO events (thread_id, kind, data_json, at) VALUES ($threadId, $kind, $data, $now)",
  ).run({ threadId: row.threadId, kind: row.kind, data: JSON.stringify(row.data), now: row.now });
}

/** Events after `seq`, oldest first, at most `limit`. */
export function eventsSince(db: Db, seq: number, limit: number): EventRow[] {
  return db
    .query<
      { seq: number; thread_id: string | null; kind: string; data_json: string; at: number },
      { seq: number; limit: number }
    >("SELECT * FROM events WHERE seq > $seq ORDER BY seq LIMIT $limit")
    .all({ seq, limit })
    .map((r) => ({
      seq: r.seq,
      threadId: r.thread_id,
      kind: r.kind,
      data: JSON.parse(r.data_json) as unknown,
      at: r.at,
    }));
}
