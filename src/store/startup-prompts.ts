/**
 * Prompts of an incarnation that was started in order to be told: their numbers and ids, which of them showed the startup
 * id, and which of those had its turn come to an end (core/barrier.ts, `StartupEcho`). The first echo is in the session's
 * row, where the database asks for it; everything else is in `events`.
 */
import type { StartupEcho } from "../core/barrier.ts";
import type { IncarnationId, ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";
import { appendEvent } from "./events.ts";

/** One more prompt reached the incarnation. Returns its number; numbers begin at 1 and never restart. */
export function countPrompt(db: Db, incarnation: IncarnationId): number {
  const row = db
    .query<{ n: number }, { incarnation: string }>(
      "UPDATE agent_sessions SET prompts = prompts + 1 WHERE agent_session_id = $incarnation RETURNING prompts AS n",
    )
    .get({ incarnation });
  if (row === null) throw new Error(`no incarnation ${incarnation}`);
  return row.n;
}

/** `shows`: the exact startup id stands in it. */
export function recordStartupPrompt(
  db: Db,
  threadId: ThreadId,
  prompt: { incarnation: IncarnationId; number: number; promptId: string | null; shows: boolean },
  now: number,
): void {
  appendEvent(db, { threadId, kind: "startup-prompt", data: prompt, now });
}

/** The prompt of that number was the first that showed the incarnation's startup id. */
export function recordEcho(
  db: Db,
  incarnation: IncarnationId,
  echo: { prompt: number; now: number },
): void {
  db.query(
    `UPDATE agent_sessions SET startup_echo_prompt = $prompt, startup_echo_at = $now
     WHERE agent_session_id = $incarnation AND startup_echo_at IS NULL`,
  ).run({ incarnation, ...echo });
}

/**
 * A turn came to its end. Notes it, once, when it was begun by a prompt that showed the startup id: of one that was typed
 * into a running turn nobody knows whether that turn's model still got it.
 */
export function recordAnswered(
  db: Db,
  threadId: ThreadId,
  turn: { incarnation: IncarnationId; promptId: string },
  now: number,
): void {
  const { incarnation } = turn;
  const number = promptNumber(db, threadId, incarnation, turn.promptId);
  const { shown, answered } = startupEcho(db, threadId, incarnation);
  if (number === null || answered !== null || !shown.includes(number)) return;
  appendEvent(db, { threadId, kind: "startup-answered", data: { incarnation, number }, now });
}

/** First number a prompt of this id had in the incarnation; null when it was never recorded. */
export function promptNumber(
  db: Db,
  threadId: ThreadId,
  incarnation: IncarnationId,
  promptId: string,
): number | null {
  return (
    db
      .query<{ n: number | null }, { threadId: string; incarnation: string; promptId: string }>(
        `SELECT min(data_json ->> '$.number') AS n FROM events WHERE thread_id = $threadId
           AND kind = 'startup-prompt' AND data_json ->> '$.incarnation' = $incarnation
           AND data_json ->> '$.promptId' = $promptId`,
      )
      .get({ threadId, incarnation, promptId })?.n ?? null
  );
}

export function startupEcho(db: Db, threadId: ThreadId, incarnation: IncarnationId): StartupEcho {
  const rows = db
    .query<{ kind: string; number: number }, { threadId: string; incarnation: string }>(
      `SELECT kind, data_json ->> '$.number' AS number FROM events WHERE thread_id = $threadId
         AND data_json ->> '$.incarnation' = $incarnation
         AND (kind = 'startup-answered' OR (kind = 'startup-prompt' AND data_json ->> '$.shows' = 1))
       UNION SELECT 'startup-prompt', startup_echo_prompt FROM agent_sessions
         WHERE agent_session_id = $incarnation AND startup_echo_prompt IS NOT NULL
       ORDER BY number`,
    )
    .all({ threadId, incarnation });
  const of = (kind: string): number[] => rows.filter((r) => r.kind === kind).map((r) => r.number);
  return { shown: of("startup-prompt"), answered: of("startup-answered")[0] ?? null };
}
