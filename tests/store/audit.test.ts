/** Audit rows: what is written comes back, by filter, and nothing takes it away. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { auditRows, insertAudit, type AuditEntry } from "../../src/store/audit.ts";
import type { Db } from "../../src/store/db.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const ENTRY: AuditEntry = {
  requestId: "r0",
  at: 100,
  method: "GetThreadState",
  threadId: "parser",
  target: "parser",
  callerKind: "ThreadScoped",
  credentialId: "cred-1",
  fingerprint: null,
  approvalId: null,
  outcome: "accepted",
  errorCode: null,
  detail: {},
};

let repo: Db;
let user: Db;

beforeEach(() => {
  const dir = tempDir("audit-store");
  repo = openRepoDb(join(dir, "repo.db"));
  user = openUserDb(join(dir, "user.db"));
  return () => [repo, user].forEach((db) => db.close());
});
afterAll(removeTempDirs);

function add(id: string, more: Partial<AuditEntry> = {}): void {
  insertAudit(repo, "repo", { ...ENTRY, requestId: id, ...more });
}

const ids = (found: { rows: AuditEntry[] }): string[] => found.rows.map((r) => r.requestId);

describe("audit rows: reading", () => {
  test("round trip: every field, in either database → as it was written", () => {
    const stranger: AuditEntry = {
      ...ENTRY,
      requestId: "r1",
      callerKind: null,
      credentialId: null,
      fingerprint: "pid 7",
      threadId: null,
      target: null,
      approvalId: "a1",
      outcome: "rejected",
      errorCode: "credential-missing",
      detail: { folder: "/r", n: [1, null, true] },
    };
    insertAudit(user, "user", stranger);
    insertAudit(repo, "repo", ENTRY);
    expect(auditRows(user, "user", { limit: 9 })).toEqual({ rows: [stranger], more: false });
    expect(auditRows(repo, "repo", { limit: 9 })).toEqual({ rows: [ENTRY], more: false });
  });

  test("filters: each alone and all together → only the rows they match", () => {
    add("a", { at: 1 });
    add("b", { at: 5, threadId: "tests" });
    add("c", { at: 5, method: "NewThread", outcome: "rejected", errorCode: "approval-needed" });
    add("d", { at: 9, threadId: null });
    const found = (filter: object): string[] =>
      ids(auditRows(repo, "repo", { limit: 9, ...filter }));
    expect(found({})).toEqual(["a", "b", "c", "d"]);
    expect(found({ since: 5 })).toEqual(["b", "c", "d"]);
    expect(found({ threadId: "parser" })).toEqual(["a", "c"]);
    expect(found({ method: "NewThread" })).toEqual(["c"]);
    expect(found({ outcome: "accepted" })).toEqual(["a", "b", "d"]);
    expect(found({ since: 2, threadId: "parser", outcome: "accepted" })).toEqual([]);
  });

  test("limit: more rows than it → the newest, oldest first, and that there are older ones", () => {
    // The clock goes back in between: order is that of writing.
    for (const [id, at] of [
      ["a", 1],
      ["b", 9],
      ["c", 3],
    ] as const)
      add(id, { at });
    expect(auditRows(repo, "repo", { limit: 2 })).toMatchObject({
      rows: [{ requestId: "b" }, { requestId: "c" }],
      more: true,
    });
    expect(auditRows(repo, "repo", { limit: 3 }).more).toBe(false);
  });
});

describe("audit rows: writing", () => {
  test("second row of one request → refused, the first stays", () => {
    add("a");
    expect(() => add("a", { outcome: "rejected", errorCode: "x" })).toThrow("one row");
    expect(auditRows(repo, "repo", { limit: 9 }).rows).toEqual([{ ...ENTRY, requestId: "a" }]);
  });

  test("nonsense: no identity at all, kind without credential, refusal without code → refused", () => {
    const nobody = { callerKind: null, credentialId: null, fingerprint: null };
    expect(() => add("a", nobody)).toThrow("CHECK");
    expect(() => add("b", { credentialId: null, fingerprint: "f" })).toThrow("CHECK");
    expect(() => add("c", { outcome: "rejected" })).toThrow("CHECK");
    expect(ids(auditRows(repo, "repo", { limit: 9 }))).toEqual([]);
  });

  test("append-only: update, delete, replace by SQL → refused in both databases", () => {
    insertAudit(user, "user", ENTRY);
    insertAudit(repo, "repo", ENTRY);
    for (const [db, table] of [
      [repo, "audit_log"],
      [user, "user_audit_log"],
    ] as const) {
      expect(() => db.run(`UPDATE ${table} SET method = 'x'`)).toThrow("append-only");
      expect(() => db.run(`DELETE FROM ${table}`)).toThrow("append-only");
      expect(() => db.run(`INSERT OR REPLACE INTO ${table} SELECT * FROM ${table}`)).toThrow(
        "one row",
      );
      expect(() => db.run(`UPDATE OR REPLACE ${table} SET at = 1 WHERE request_id = 'r0'`)).toThrow(
        "append-only",
      );
    }
    expect(auditRows(repo, "repo", { limit: 9 }).rows).toEqual([ENTRY]);
  });
});
