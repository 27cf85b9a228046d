/** `attention`: what needs a person. One row per event for ever, so one notification per event for ever. */
import type { ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export interface AttentionRow {
  attentionId: number;
  threadId: ThreadId;
  kind: string;
  dedupKey: string;
  message: string;
  /** Marks the thread blocked until acknowledged. */
  loud: boolean;
  raisedAt: number;
}

/**
 * True when the event is new: then, and only then, somebody is to be notified. `recurs`: the key names a condition; once
 * it was over (acknowledged) and is there again, that is another event.
 */
export function raiseAttention(
  db: Db,
  row: {
    threadId: ThreadId;
    kind: string;
    dedupKey: string;
    message: string;
    loud: boolean;
    recurs?: boolean;
    now: number;
  },
): boolean {
  const { recurs = false, ...fields } = row;
  const dedupKey = recurs ? keyOfThisTime(db, row) : row.dedupKey;
  const done = db
    .query(
      `INSERT INTO attention (thread_id, kind, dedup_key, message, loud, raised_at)
       VALUES ($threadId, $kind, $dedupKey, $message, $loud, $now) ON CONFLICT DO NOTHING`,
    )
    .run({ ...fields, dedupKey, loud: row.loud ? 1 : 0 });
  return done.changes > 0;
}

/** The key of the row that is open, or of the one after those that are over. */
function keyOfThisTime(
  db: Db,
  { threadId, kind, dedupKey }: { threadId: ThreadId; kind: string; dedupKey: string },
): string {
  const { over } = db
    .query<{ over: number }, { threadId: string; kind: string; key: string }>(
      `SELECT count(*) AS over FROM attention
       WHERE thread_id = $threadId AND kind = $kind AND acknowledged_at IS NOT NULL
         AND (dedup_key = $key OR substr(dedup_key, 1, length($key) + 7) = $key || ':again:')`,
    )
    .get({ threadId, kind, key: dedupKey })!;
  return over === 0 ? dedupKey : `${dedupKey}:again:${over}`;
}

/**
 * Acknowledges every open row of one kind of a thread: the condition it names is over, or a person dealt with it.
 * `about`: only those whose key is this, or this with something behind a colon.
 */
export function acknowledgeAttention(
  db: Db,
  threadId: ThreadId,
  kind: string,
  now: number,
  about: string | null = null,
): void {
  db.query(
    `UPDATE attention SET acknowledged_at = $now
     WHERE thread_id = $threadId AND kind = $kind AND acknowledged_at IS NULL
       AND ($about IS NULL OR dedup_key = $about OR substr(dedup_key, 1, length($about) + 1) = $about || ':')`,
  ).run({ threadId, kind, now, about });
}

/** Key of the newest row of a kind, acknowledged or not; null when there never was one. */
export function lastAttentionKey(db: Db, threadId: ThreadId, kind: string): string | null {
  const row = db
    .query<{ dedup_key: string }, { threadId: string; kind: string }>(
      `SELECT dedup_key FROM attention WHERE thread_id = $threadId AND kind = $kind
       ORDER BY attention_id DESC LIMIT 1`,
    )
    .get({ threadId, kind });
  return row?.dedup_key ?? null;
}

/** Unacknowledged, oldest first. */
export function openAttention(db: Db, threadId: ThreadId): AttentionRow[] {
  return db
    .query<
      {
        attention_id: number;
        thread_id: string;
        kind: string;
        dedup_key: string;
        message: string;
        loud: number;
        raised_at: number;
      },
      { threadId: string }
    >(
      `SELECT * FROM attention WHERE thread_id = $threadId AND acknowledged_at IS NULL
       ORDER BY attention_id`,
    )
    .all({ threadId })
    .map((r) => ({
      attentionId: r.attention_id,
      threadId: r.thread_id,
      kind: r.kind,
      dedupKey: r.dedup_key,
      message: r.message,
      loud: r.loud === 1,
      raisedAt: r.raised_at,
    }));
}
