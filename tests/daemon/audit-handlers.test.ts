/** GetThreadAudit and GetAuditLog: who sees what of which log. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { fail } from "../../src/core/errors.ts";
import { auditHandlers } from "../../src/daemon/handlers/audit.ts";
import type { Daemon } from "../../src/daemon/runtime.ts";
import { METHODS, type Input } from "../../src/rpc/contract/methods.ts";
import { insertAudit, type AuditEntry, type AuditSink } from "../../src/store/audit.ts";
import { insertThreadCredential, revokeThreadCredential } from "../../src/store/credentials.ts";
import type { Db } from "../../src/store/db.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { insertRepo } from "../../src/store/repos.ts";
import { addThread } from "../store/fixture.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

let userDb: Db;
let dbs: Record<"one" | "two", Db>;
let daemon: Daemon;
let serial: number;

beforeEach(() => {
  const dir = tempDir("audit-handlers");
  userDb = openUserDb(join(dir, "user.db"));
  dbs = { one: openRepoDb(join(dir, "one.db")), two: openRepoDb(join(dir, "two.db")) };
  serial = 0;
  const repos = new Map<string, unknown>();
  for (const [i, repoId] of (["one", "two", "lost"] as const).entries()) {
    const row = {
      repoId,
      canonicalPath: `/r/${repoId}/.jj/repo`,
      repoRoot: `/r/${repoId}`,
      colocated: true,
      registeredAt: i,
    };
    insertRepo(userDb, row);
    if (repoId !== "lost") repos.set(repoId, { repoId, row, db: dbs[repoId] });
  }
  const lost = {
    row: { repoId: "lost", repoRoot: "/r/lost" },
    error: fail("failed", "repo-missing", "no jj repository there"),
  };
  // What these handlers use of a daemon.
  daemon = { userDb, repos, broken: new Map([["lost", lost]]) } as unknown as Daemon;
  for (const [name, credential] of [
    ["parser", "cred-parser-1"],
    ["tests", "cred-tests"],
  ] as const) {
    addThread(dbs.one, name);
    addCredential(name, credential);
  }
  return () => [userDb, dbs.one, dbs.two].forEach((db) => db.close());
});

function addCredential(threadId: string, credentialId: string): void {
  const secretSha256 = Bun.hash(credentialId).toString(16).padStart(64, "0");
  insertThreadCredential(dbs.one, { credentialId, threadId, secretSha256, now: 1 });
}

function add(db: Db, sink: AuditSink, more: Partial<AuditEntry>): void {
  serial += 1;
  insertAudit(db, sink, {
    requestId: `request-${serial}`,
    at: Date.UTC(2026, 11, 1) + serial * 1000,
    method: "GetThreadState",
    threadId: "parser",
    target: "thread parser",
    callerKind: "RegistrationScoped",
    credentialId: "cred-registration",
    fingerprint: null,
    approvalId: null,
    outcome: "accepted",
    errorCode: null,
    detail: { n: serial },
    ...more,
  });
}

const FILTER = { since: null, method: null, outcome: null, limit: 100 };
const REGISTRATION = { kind: "RegistrationScoped", credentialId: "c", grant: null } as const;

function threadCaller(threadId: string, repoId = "one") {
  return { kind: "ThreadScoped", credentialId: "c", repoId, threadId, grant: null } as const;
}

type Caller = typeof REGISTRATION | ReturnType<typeof threadCaller>;

async function threadAudit(
  caller: Caller,
  more: Partial<Input<"GetThreadAudit">> = {},
): Promise<ReturnType<(typeof METHODS)["GetThreadAudit"]["output"]["parse"]>> {
  const input = { repo: { repoId: "one" }, thread: "parser", ...FILTER, ...more };
  const answer = await auditHandlers(daemon).GetThreadAudit(input, { caller } as never);
  return METHODS.GetThreadAudit.output.parse(answer);
}

async function auditLog(
  more: Partial<Input<"GetAuditLog">>,
): Promise<ReturnType<(typeof METHODS)["GetAuditLog"]["output"]["parse"]>> {
  const input = { scope: "repo" as const, repo: null, ...FILTER, ...more };
  const answer = await auditHandlers(daemon).GetAuditLog(input, { caller: REGISTRATION } as never);
  return METHODS.GetAuditLog.output.parse(answer);
}

describe("GetThreadAudit", () => {
  beforeEach(() => {
    add(dbs.one, "repo", { callerKind: "ThreadScoped", credentialId: "cred-parser-1" });
    // A new incarnation has a new credential; the old one's requests are the thread's own all the same.
    revokeThreadCredential(dbs.one, "parser", 2);
    addCredential("parser", "cred-parser-2");
    add(dbs.one, "repo", { callerKind: "ThreadScoped", credentialId: "cred-parser-2" });
    add(dbs.one, "repo", {
      callerKind: "ThreadScoped",
      credentialId: "cred-tests",
      outcome: "rejected",
      errorCode: "approval-needed",
    });
    add(dbs.one, "repo", { approvalId: "an-approval" });
    add(dbs.one, "repo", { callerKind: null, credentialId: null, fingerprint: "hmac 1234" });
    add(dbs.one, "repo", { threadId: "tests" });
    add(dbs.one, "repo", { threadId: null });
  });

  test("the thread itself → its slice: who asked and by which approval left out, words of its own alone", async () => {
    const { rows } = await threadAudit(threadCaller("parser"));
    expect(rows.map((r) => [r.callerKind, r.outcome, r.errorCode, r.detail])).toEqual([
      ["ThreadScoped", "accepted", null, { n: 1 }],
      ["ThreadScoped", "accepted", null, { n: 2 }],
      ["ThreadScoped", "rejected", "approval-needed", {}],
      ["RegistrationScoped", "accepted", null, {}],
      [null, "accepted", null, {}],
    ]);
    expect(JSON.stringify(rows)).not.toMatch(/cred-|hmac|an-approval/);
    expect(rows.map((r) => r.at)).toEqual(rows.map((r) => r.at).toSorted());
  });

  test("an approval sent along by the thread itself, which nobody has checked → lifts nothing", async () => {
    const approval = crypto.randomUUID();
    const { rows } = await threadAudit(threadCaller("parser"), { approval });
    expect(JSON.stringify(rows)).not.toMatch(/cred-|hmac|an-approval/);
  });

  test("anybody else, once the enforcer let them through → everything recorded about the thread", async () => {
    for (const caller of [REGISTRATION, threadCaller("tests"), threadCaller("parser", "two")]) {
      const { rows } = await threadAudit(caller);
      expect(rows.map((r) => r.credentialId)).toEqual([
        "cred-parser-1",
        "cred-parser-2",
        "cred-tests",
        "cred-registration",
        null,
      ]);
      expect(rows[3]).toMatchObject({ approval: "an-approval", detail: { n: 4 }, repoId: "one" });
      expect(rows[4]).toMatchObject({ fingerprint: "hmac 1234" });
    }
  });

  test("filters and limit → the newest of what matches, and that there is more", async () => {
    const newest = await threadAudit(REGISTRATION, { limit: 2 });
    expect([newest.rows.map((r) => r.detail["n"]), newest.more]).toEqual([[4, 5], true]);
    const rejected = await threadAudit(REGISTRATION, { outcome: "rejected" });
    expect([rejected.rows.map((r) => r.detail["n"]), rejected.more]).toEqual([[3], false]);
    const since = new Date(Date.UTC(2026, 11, 1) + 4000).toISOString();
    const late = await threadAudit(REGISTRATION, { since });
    expect(late.rows.map((r) => r.detail["n"])).toEqual([4, 5]);
    expect((await threadAudit(REGISTRATION, { method: "Hold" })).rows).toEqual([]);
  });
});

describe("GetAuditLog", () => {
  beforeEach(() => {
    add(dbs.one, "repo", {});
    add(dbs.two, "repo", { threadId: null });
    add(dbs.one, "repo", {});
    add(userDb, "user", { threadId: null, method: "ListRepos" });
  });

  test("scopes → one repository's, every repository's by time, or the user's, each row saying whose", async () => {
    const of = async (more: Partial<Input<"GetAuditLog">>): Promise<unknown[]> =>
      (await auditLog(more)).rows.map((r) => [r.repoId, r.detail["n"]]);
    expect(await of({ repo: { repoId: "one" } })).toEqual([
      ["one", 1],
      ["one", 3],
    ]);
    expect(await of({ scope: "all" })).toEqual([
      ["one", 1],
      ["two", 2],
      ["one", 3],
    ]);
    expect(await of({ scope: "user" })).toEqual([[null, 4]]);
  });

  test("all: more rows than the limit → the newest of all together, and that there is more", async () => {
    const { rows, more } = await auditLog({ scope: "all", limit: 2 });
    expect([rows.map((r) => r.detail["n"]), more]).toEqual([[2, 3], true]);
    expect((await auditLog({ scope: "all", limit: 3 })).more).toBe(false);
  });

  test("all: a repository that cannot be opened → named as missing, the others shown", async () => {
    expect((await auditLog({ scope: "all" })).unread).toEqual([
      { repoId: "lost", path: "/r/lost", reason: "no jj repository there" },
    ]);
    expect((await auditLog({ repo: { repoId: "one" } })).unread).toEqual([]);
  });

  test("repo: none named, unknown, or not to be opened → refused by name", async () => {
    const code = (input: Partial<Input<"GetAuditLog">>): Promise<unknown> =>
      auditLog(input).catch((error: { code: string }) => error.code);
    expect(await code({})).toBe("no-repo");
    expect(await code({ repo: { repoId: "nowhere" } })).toBe("not-registered");
    expect(await code({ repo: { repoId: "lost" } })).toBe("repo-unavailable");
  });
});
