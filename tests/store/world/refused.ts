/** Tries a statement and undoes it: what the database says when it refuses. */
import type { Database } from "bun:sqlite";

export interface Refusal {
  /** SQLite's code, such as SQLITE_CONSTRAINT_CHECK. */
  code: string;
  /** After `… constraint failed: `, white space collapsed; a trigger's words as they are. */
  what: string;
}

/** All but the last of `statements` must be accepted; null when the last one is, too. Nothing of them stays. */
export function refusal(db: Database, ...statements: readonly string[]): Refusal | null {
  db.run("SAVEPOINT attempt");
  try {
    for (const statement of statements.slice(0, -1)) db.run(statement);
    try {
      db.run(statements.at(-1)!);
      return null;
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      const what = message.replace(/^[A-Z]+(?: [A-Z]+)? constraint failed: ?/, "");
      return { code: code ?? "", what: what.replace(/\s+/g, " ").trim() };
    }
  } finally {
    db.run("ROLLBACK TO attempt; RELEASE attempt");
  }
}
