/** Questions about earlier heads, which every operation of a thread asks: how SQLite answers them, however many there are. */
import type { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { changeOfHead, wasHeadBefore } from "../../src/store/ops.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const COMMIT = "c".repeat(40);

test.each([
  ["wasHeadBefore", (db: Database) => wasHeadBefore(db, "o".repeat(128), "kk-a", COMMIT)],
  ["changeOfHead", (db: Database) => changeOfHead(db, "kk-a", COMMIT)],
] as const)("%s: asked → found by commit, not by going through every row", (_, ask) => {
  const db = openRepoDb(join(tempDir("heads"), "repo.db"));
  const asked: string[] = [];
  const spy = { query: (sql: string) => (asked.push(sql), db.query(sql)) } as unknown as Database;
  ask(spy);
  const names = ["$opId", "$workspace", "$commit"].filter((name) => asked[0]!.includes(name));
  const plan = db
    .query<{ detail: string }, Record<string, string>>(`EXPLAIN QUERY PLAN ${asked[0]!}`)
    .all(Object.fromEntries(names.map((name) => [name.slice(1), ""])));
  expect(plan.map((row) => row.detail).join()).toContain("op_workspace_heads_by_commit");
  db.close();
});
