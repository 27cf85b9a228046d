/** The audit writer: durable when it says so, few commits under load, and one bad row harms no other. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Database } from "bun:sqlite";
import { makeAuditWriter, type AuditWriter } from "../../src/authority/audit.ts";
import { auditRows, type AuditEntry } from "../../src/store/audit.ts";
import type { Db } from "../../src/store/db.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

let file: string;
let repo: Db;
let user: Db;
let writer: AuditWriter;
let logged: string[];

beforeEach(() => {
  const dir = tempDir("audit-writer");
  file = join(dir, "repo.db");
  repo = openRepoDb(file);
  user = openUserDb(join(dir, "user.db"));
  logged = [];
  const quiet = (): void => undefined;
  writer = makeAuditWriter({
    log: { info: quiet, warn: quiet, error: (message) => void logged.push(message) },
  });
  return () => [repo, user].forEach((db) => db.close());
});
afterAll(removeTempDirs);

function entry(requestId: string, more: Partial<AuditEntry> = {}): AuditEntry {
  return {
    requestId,
    at: 1,
    method: "ReportEvent",
    threadId: "parser",
    target: null,
    callerKind: null,
    credentialId: null,
    fingerprint: "pid 7",
    approvalId: null,
    outcome: "accepted",
    errorCode: null,
    detail: {},
    ...more,
  };
}

/** Ids as another connection sees them, which sees only what is committed. */
function committed(path: string, table: string): string[] {
  const other = new Database(path, { readonly: true });
  try {
    return other
      .query<{ id: string }, []>(`SELECT request_id AS id FROM ${table} ORDER BY audit_id`)
      .all()
      .map((r) => r.id);
  } finally {
    other.close();
  }
}

/** Commits in the write-ahead log: the frame that ends one carries the size of the database. */
function commits(path: string): number {
  const wal = existsSync(`${path}-wal`) ? readFileSync(`${path}-wal`) : Buffer.alloc(0);
  if (wal.length < 32) return 0;
  const frame = 24 + wal.readUInt32BE(8);
  let count = 0;
  for (let at = 32; at + frame <= wal.length; at += frame) {
    if (wal.readUInt32BE(at + 4) !== 0) count += 1;
  }
  return count;
}

test("append: resolved → committed, in the sink's own database", async () => {
  await Promise.all([
    writer.append(repo, "repo", entry("a")),
    writer.append(user, "user", entry("b")),
  ]);
  expect(committed(file, "audit_log")).toEqual(["a"]);
  expect(committed(user.filename, "user_audit_log")).toEqual(["b"]);
});

test("append: not resolved yet → nothing is written, the caller's turn is not held up", async () => {
  const row = writer.append(repo, "repo", entry("a"));
  expect(committed(file, "audit_log")).toEqual([]);
  await row;
  expect(committed(file, "audit_log")).toEqual(["a"]);
});

test("append: 500 at once → all durable, in order, in a few commits", async () => {
  repo.run("PRAGMA wal_checkpoint(TRUNCATE)");
  expect(commits(file)).toBe(0);
  const ids = Array.from({ length: 500 }, (_, i) => `r${i}`);
  await Promise.all(ids.map((id) => writer.append(repo, "repo", entry(id))));
  expect(committed(file, "audit_log")).toEqual(ids);
  expect(commits(file)).toBeLessThanOrEqual(3);
  // One after the other, each waits for its own: what the figure above saves.
  for (const id of ["x", "y", "z"]) await writer.append(repo, "repo", entry(id));
  expect(commits(file)).toBeGreaterThanOrEqual(4);
});

test("append: a row that may not stand → fails alone, and is logged", async () => {
  const outcomes = await Promise.allSettled([
    writer.append(repo, "repo", entry("a")),
    writer.append(repo, "repo", entry("a")),
    writer.append(repo, "repo", entry("b", { fingerprint: null })),
    writer.append(repo, "repo", entry("c", { detail: { big: 1n } })),
    writer.append(repo, "repo", entry("d")),
  ]);
  expect(outcomes.map((o) => o.status)).toEqual([
    "fulfilled",
    "rejected",
    "rejected",
    "rejected",
    "fulfilled",
  ]);
  expect(committed(file, "audit_log")).toEqual(["a", "d"]);
  expect(logged).toHaveLength(3);
});

test("append: the database is full → every row is rejected by name, and none is half there", async () => {
  const pages = repo.query<{ page_count: number }, []>("PRAGMA page_count").get()!.page_count;
  repo.run(`PRAGMA max_page_count = ${pages}`);
  const large = { detail: { text: "x".repeat(20_000) } };
  const outcomes = await Promise.allSettled([
    writer.append(repo, "repo", entry("a")),
    writer.append(repo, "repo", entry("b", large)),
    writer.append(repo, "repo", entry("c")),
    writer.append(user, "user", entry("d")),
  ]);
  expect(outcomes.map((o) => (o.status === "rejected" ? o.reason.code : o.status))).toEqual([
    "database-disk-full",
    "database-disk-full",
    "database-disk-full",
    "fulfilled",
  ]);
  expect(auditRows(repo, "repo", { limit: 9 }).rows).toEqual([]);
  // And it goes on as soon as there is room.
  repo.run(`PRAGMA max_page_count = ${pages + 100}`);
  await writer.append(repo, "repo", entry("e", large));
  expect(committed(file, "audit_log")).toEqual(["e"]);
});

test("append: another process holds the write lock for good → rejected by name", async () => {
  const other = new Database(file);
  other.run("BEGIN IMMEDIATE");
  repo.run("PRAGMA busy_timeout = 1");
  const error = await writer.append(repo, "repo", entry("a")).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "database-busy" });
  other.close();
});

test("crash: the database is closed under waiting rows → all rejected, earlier ones stay", async () => {
  await writer.append(repo, "repo", entry("a"));
  const waiting = ["b", "c"].map((id) => writer.append(repo, "repo", entry(id)));
  repo.close();
  const outcomes = await Promise.allSettled(waiting);
  expect(outcomes.map((o) => o.status)).toEqual(["rejected", "rejected"]);
  expect(committed(file, "audit_log")).toEqual(["a"]);
});

test("flush: before a database is closed → what waited is durable", async () => {
  const rows = [writer.append(repo, "repo", entry("a")), writer.append(user, "user", entry("b"))];
  writer.flush(repo);
  expect(committed(file, "audit_log")).toEqual(["a"]);
  expect(committed(user.filename, "user_audit_log")).toEqual([]);
  writer.flush();
  repo.close();
  await Promise.all(rows);
  expect(committed(user.filename, "user_audit_log")).toEqual(["b"]);
});

test("secrets: a credential where a name belongs → never in the database", async () => {
  const secret = "5ec2e7".repeat(11).slice(0, 64);
  const digest = "d".repeat(64);
  await writer.append(
    repo,
    "repo",
    entry("a", {
      threadId: secret,
      target: `thread ${secret.toUpperCase()}`,
      approvalId: secret,
      detail: { name: `x${secret}y`, list: [{ [secret]: secret }], n: 1, none: null, digest },
    }),
  );
  const [row] = auditRows(repo, "repo", { limit: 1 }).rows;
  expect(row?.detail).toEqual({
    name: "x[64 hex digits]y",
    list: [{ "[64 hex digits]": "[64 hex digits]" }],
    n: 1,
    none: null,
    digest,
  });
  for (const path of [file, `${file}-wal`]) {
    expect(readFileSync(path).toString("latin1").toLowerCase()).not.toContain(secret);
  }
});
