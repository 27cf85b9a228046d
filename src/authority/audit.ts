/**
 * Writes audit rows, and says when one is on disk. A row costs a commit, and a commit waits for the disk: rows that
 * come in one turn of the event loop therefore share one, so that sixteen hooks at once wait once and not in a queue.
 */
import { errorLine, KikiError } from "../core/errors.ts";
import type { Log } from "../ports/log.ts";
import { insertAudit, type AuditEntry, type AuditSink } from "../store/audit.ts";
import { write, type Db } from "../store/db.ts";
import { nameStorageError } from "../store/errors.ts";

export interface AuditWriter {
  /**
   * Resolves once the row is durable. Rejects with the database's error when this row may not stand (alone, its
   * neighbours are written), and with KikiError `database-…` when the database cannot be written at all.
   */
  append(db: Db, sink: AuditSink, entry: AuditEntry): Promise<void>;
  /** Writes now what is waiting, of one database or of all: before a database is closed. Never throws. */
  flush(db?: Db): void;
}

interface Waiting {
  sink: AuditSink;
  entry: AuditEntry;
  resolve(): void;
  reject(error: unknown): void;
}

export function makeAuditWriter({ log }: { log: Log }): AuditWriter {
  const waiting = new Map<Db, Waiting[]>();

  const commit = (db: Db): void => {
    const rows = waiting.get(db);
    if (rows === undefined) return;
    waiting.delete(db);
    try {
      const refused = writeRows(db, rows);
      for (const row of rows) {
        const error = refused.get(row);
        if (error === undefined) row.resolve();
        else {
          log.error(`audit row of ${row.entry.method} refused: ${errorLine(error)}`, error);
          row.reject(error);
        }
      }
    } catch (error) {
      log.error(`${rows.length} audit rows not written: ${errorLine(error)}`, error);
      for (const row of rows) row.reject(error);
    }
  };

  return {
    append(db, sink, entry) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const row = { sink, entry: masked(entry), resolve, reject };
      const rows = waiting.get(db);
      if (rows !== undefined) rows.push(row);
      else {
        waiting.set(db, [row]);
        setImmediate(() => commit(db));
      }
      return promise;
    },
    flush(db) {
      for (const each of db === undefined ? [...waiting.keys()] : [db]) commit(each);
    },
  };
}

/** In `detail`: of a plan, computed by the daemon; looks like a credential and is none. */
const DIGEST = "digest";

/**
 * Credentials and nonces are 64 hex digits. The fields of a row are chosen so that there are none; this is for a caller
 * who puts one where a name or a folder belongs.
 */
function masked(entry: AuditEntry): AuditEntry {
  const { threadId, target, approvalId, detail } = entry;
  const clean = maskValue(detail) as Record<string, unknown>;
  return {
    ...entry,
    threadId: threadId === null ? null : mask(threadId),
    target: target === null ? null : mask(target),
    approvalId: approvalId === null ? null : mask(approvalId),
    detail: DIGEST in detail ? { ...clean, [DIGEST]: detail[DIGEST] } : clean,
  };
}

/** Before a text is cut: what is left of a credential then is no match any more, and still most of it. */
export function mask(text: string): string {
  return text.replace(/[0-9a-f]{64,}/gi, "[64 hex digits]");
}

function maskValue(value: unknown): unknown {
  if (typeof value === "string") return mask(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(maskValue);
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [mask(key), maskValue(inner)]),
  );
}

/** One transaction; the rows that could not stand, with their errors. Throws when nothing could be written. */
function writeRows(db: Db, rows: readonly Waiting[]): Map<Waiting, unknown> {
  return write(db, () => {
    const refused = new Map<Waiting, unknown>();
    for (const row of rows) {
      try {
        insertAudit(db, row.sink, row.entry);
      } catch (error) {
        // A constraint undoes its own statement and no more. After a failure of the disk nothing else may be kept.
        if (nameStorageError(error, db.filename) instanceof KikiError || !db.inTransaction) {
          throw error;
        }
        refused.set(row, error);
      }
    }
    return refused;
  });
}
