/**
 * Two databases full of rows, once as they are (`whole`) and once without triggers (`bare`). What a CHECK or an index
 * refuses is tried on the bare one, where no trigger refuses it first.
 */
import type { Database } from "bun:sqlite";
import { join } from "node:path";
import { openRepoDb, openUserDb } from "../../../src/store/open.ts";
import { tempDir } from "../../support/temp.ts";
import { approvalRows } from "./approvals.ts";
import { intentRows, operationRows } from "./intents.ts";
import { restRows } from "./rest.ts";
import { threadRows } from "./threads.ts";
import { userRows } from "./user.ts";

export type Kind = "user" | "repo";
export const KINDS: readonly Kind[] = ["user", "repo"];

function rows(kind: Kind): string[] {
  if (kind === "user") return userRows();
  return [...approvalRows(""), ...threadRows(), ...operationRows(), ...intentRows(), ...restRows()];
}

export interface World {
  whole: Database;
  bare: Database;
}

/** Both databases obey every CHECK, index and foreign key. */
export function makeWorld(kind: Kind): World {
  const make = (triggers: boolean): Database => {
    const db = (kind === "user" ? openUserDb : openRepoDb)(join(tempDir("world"), "state.db"));
    db.run("PRAGMA synchronous = OFF");
    const all = db
      .query<{ name: string; sql: string }, []>(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
      )
      .all();
    // The rows of a world begin in the middle of their stories, which triggers would not let them.
    for (const t of all) if (!t.name.includes("_search_")) db.run(`DROP TRIGGER ${t.name}`);
    db.run("BEGIN; PRAGMA defer_foreign_keys = ON");
    for (const row of rows(kind)) db.run(row);
    db.run("COMMIT");
    if (triggers) for (const t of all) if (!t.name.includes("_search_")) db.run(t.sql);
    return db;
  };
  return { whole: make(true), bare: make(false) };
}
