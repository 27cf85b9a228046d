/** Every parseable request of a served daemon leaves exactly one row, in the right log, and nothing secret in either. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { METHODS } from "../../src/rpc/contract/methods.ts";
import type { AuditEntry, AuditSink } from "../../src/store/audit.ts";
import { hookOf, serveThreads, type Asked, type Served } from "../support/served.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

setDefaultTimeout(60_000);

/** Well-formed, and nobody's. */
const UNKNOWN = "0123456789abcdef".repeat(4);
const NONCE = "fedcba9876543210".repeat(4);

let daemon: Served;
beforeAll(async () => {
  daemon = await serveThreads(2);
});
afterAll(async () => {
  await daemon.stop();
  removeTempDirs();
});

/** What one request adds to both logs. */
async function rowsOf(asked: Asked): Promise<{ code: string | null; rows: Logged[] }> {
  const before = counts();
  const { code } = await daemon.ask(asked);
  const added = (sink: AuditSink): Logged[] =>
    daemon
      .rows(sink)
      .slice(before[sink])
      .map((row) => ({ sink, ...row }));
  return { code, rows: [...added("repo"), ...added("user")] };
}
type Logged = AuditEntry & { sink: AuditSink };

const counts = (): Record<AuditSink, number> => ({
  repo: daemon.rows("repo").length,
  user: daemon.rows("user").length,
});

/** The one row of a request; `want` is what it has to say. */
async function expectRow(asked: Asked, want: Partial<Logged>): Promise<void> {
  const { code, rows } = await rowsOf(asked);
  const label = `${asked.method} → ${code}`;
  expect([label, rows.length]).toEqual([label, 1]);
  expect(rows[0]).toMatchObject({ method: asked.method, ...want });
  expect([label, rows[0]!.errorCode]).toEqual([label, code]);
}

const REGISTERED = {
  callerKind: "RegistrationScoped",
  fingerprint: null,
  approvalId: null,
} as const;
const ACCEPTED = { outcome: "accepted", errorCode: null } as const;
const STRANGER = { callerKind: null, credentialId: null, approvalId: null } as const;
const rejected = (errorCode: string) => ({ outcome: "rejected", errorCode }) as const;

describe("audit: one row each", () => {
  test("accepted → the repository's log, with the credential's id and what it was about", async () => {
    const { repoId, secrets, threads } = daemon;
    const [own] = threads;
    const credential = secrets.registration;
    const repo = { repoId };
    await expectRow(
      { method: "RepoThreadSummaries", credential, body: { repo, closed: false } },
      { sink: "repo", ...REGISTERED, ...ACCEPTED, threadId: null, target: `repo ${repoId}` },
    );
    expect(daemon.rows("repo").at(-1)!.credentialId).toBeString();
    await expectRow(
      { method: "GetThreadState", credential, body: { repo, thread: "bench 0" } },
      { sink: "repo", ...REGISTERED, ...ACCEPTED, threadId: own!.threadId },
    );
    await expectRow(
      {
        method: "GetThreadState",
        credential: own!.credential,
        body: { repo, thread: own!.threadId },
      },
      { sink: "repo", callerKind: "ThreadScoped", ...ACCEPTED, threadId: own!.threadId },
    );
  });

  test("a hook's calls → the repository's log, by its thread, with its incarnation and no more", async () => {
    const [own] = daemon.threads;
    const event = { hook_event_name: "PostToolUse", tool_input: { command: "a private command" } };
    await expectRow(
      { method: "ReportEvent", credential: own!.credential, body: { ...hookOf(own!), event } },
      { sink: "repo", callerKind: "ThreadScoped", threadId: own!.threadId },
    );
    expect(daemon.rows("repo").at(-1)!.detail).toEqual({ incarnation: own!.incarnation });
  });

  test("rejected: another thread's state, an operation, an approval of nobody → why, and by whom", async () => {
    const { repoId, secrets, threads } = daemon;
    const [own, other] = threads;
    const repo = { repoId };
    await expectRow(
      { method: "GetThreadState", credential: own!.credential, body: { repo, thread: "bench 1" } },
      {
        sink: "repo",
        callerKind: "ThreadScoped",
        threadId: other!.threadId,
        ...rejected("approval-needed"),
      },
    );
    await expectRow(
      {
        method: "ReportHarnessExited",
        credential: own!.credential,
        body: { repoId, threadId: other!.threadId, incarnation: "i", exitCode: 0, signal: null },
      },
      { sink: "repo", threadId: other!.threadId, ...rejected("credential-thread") },
    );
    const approval = crypto.randomUUID();
    const thread = own!.threadId;
    await expectRow(
      {
        method: "ApplyRepair",
        credential: secrets.registration,
        body: { repo, thread, planId: "p", harnessExecutable: null, env: {}, approval },
      },
      {
        sink: "repo",
        ...REGISTERED,
        approvalId: approval,
        detail: { planId: "p" },
        ...rejected("approval-unknown"),
      },
    );
  });

  test("unidentified: no credential, an unknown one → null identities and a fingerprint, in the log it was about", async () => {
    const body = { repo: { repoId: daemon.repoId }, closed: false };
    await expectRow(
      { method: "RepoThreadSummaries", body },
      { sink: "repo", ...STRANGER, fingerprint: "none", ...rejected("credential-missing") },
    );
    const known = { method: "RepoThreadSummaries", body, credential: UNKNOWN };
    await expectRow(known, { sink: "repo", ...STRANGER, ...rejected("credential-unknown") });
    await expectRow(known, { sink: "repo", ...STRANGER, ...rejected("credential-unknown") });
    const [first, second] = daemon.rows("repo").slice(-2);
    // The same stranger twice is the same stranger; what was sent cannot be seen in it.
    expect(first!.fingerprint).toBe(second!.fingerprint);
    expect(first!.fingerprint).not.toBe("none");
    expect(Bun.SHA256.hash(UNKNOWN, "hex")).not.toContain(first!.fingerprint!.split(" ").at(-1)!);
    await expectRow(
      { method: "DaemonStatus" },
      { sink: "user", ...STRANGER, fingerprint: "none", ...ACCEPTED },
    );
  });

  test("bootstrap: enrolling and recovering → the user's log; Admin for anything else → refused", async () => {
    const { registration, admin } = daemon.secrets;
    // Above every process id: nobody's, and so on no terminal.
    const body = { clientPid: 2 ** 22 + 1 };
    const nowhere = rejected("approval-no-terminal");
    for (const [method, credential, want] of [
      ["EnrollApprovalPresenter", registration, { ...REGISTERED, ...nowhere }],
      ["EnrollApprovalPresenter", admin, { callerKind: "Admin", ...nowhere }],
      ["RecoverApprovalPresenter", admin, { callerKind: "Admin", ...nowhere }],
      ["RecoverApprovalPresenter", registration, { ...REGISTERED, ...rejected("credential-kind") }],
    ] as const) {
      await expectRow({ method, credential, body }, { sink: "user", ...want });
    }
    await expectRow(
      { method: "ListRepos", credential: admin },
      { sink: "user", callerKind: "Admin", ...rejected("credential-kind") },
    );
  });

  test("registration of a repository → the user's log, with the folder, whatever becomes of it", async () => {
    const credential = daemon.secrets.registration;
    const register = (folder: string): Asked => ({
      method: "RegisterRepo",
      credential,
      body: { folder },
    });
    const folder = daemon.repoRoot;
    await expectRow(register(folder), { sink: "user", ...ACCEPTED, detail: { folder } });
    const empty = tempDir("no-repo");
    await expectRow(register(empty), {
      sink: "user",
      outcome: "rejected",
      detail: { folder: empty },
    });
    await expectRow(
      { method: "UnregisterRepo", credential, body: { repo: { folder }, keepState: true } },
      { sink: "user", detail: { keepState: true }, ...rejected("approval-needed") },
    );
  });

  test("ListRepos, an unknown repository, a thread of none → the user's log", async () => {
    const credential = daemon.secrets.registration;
    await expectRow(
      { method: "ListRepos", credential },
      { sink: "user", ...REGISTERED, ...ACCEPTED },
    );
    const nowhere = { repoId: "nowhere" };
    await expectRow(
      { method: "RepoThreadSummaries", credential, body: { repo: nowhere, closed: true } },
      { sink: "user", target: "repo nowhere", threadId: null, ...rejected("not-registered") },
    );
    await expectRow(
      { method: "GetThreadState", credential, body: { repo: nowhere, thread: "x" } },
      { sink: "user", target: "thread x in repo nowhere", ...rejected("not-registered") },
    );
    const call = { method: "BeginApproval", args: { folder: "/" } };
    await expectRow(
      { method: "BeginApproval", credential, body: { ...call, method: "RegisterRepo" } },
      { sink: "user", outcome: "rejected", detail: { method: "RegisterRepo" } },
    );
  });

  test("asking for an approval where nobody can give it → answered with the plan, recorded as refused", async () => {
    const { repoId, secrets, threads } = daemon;
    const args = { repo: { repoId }, thread: threads[0]!.threadId };
    const asked = {
      method: "BeginApproval",
      credential: threads[1]!.credential,
      body: { method: "GetThreadState", args },
    };
    const { code, rows } = await rowsOf(asked);
    expect(code).toBeNull();
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      sink: "repo",
      threadId: threads[0]!.threadId,
      callerKind: "ThreadScoped",
      ...rejected("approval-no-terminal"),
    });
    await expectRow(
      {
        method: "ConfirmApproval",
        credential: secrets.registration,
        body: { challengeId: crypto.randomUUID(), repoId, nonce: NONCE, clientPid: 1 },
      },
      { sink: "repo", ...rejected("credential-kind") },
    );
  });

  test("every method with an empty body, by every kind of caller → one row each", async () => {
    const { registration, admin } = daemon.secrets;
    const callers = [null, UNKNOWN, registration, admin, daemon.threads[0]!.credential];
    for (const method of Object.keys(METHODS)) {
      for (const credential of callers) {
        const { code, rows } = await rowsOf({ method, credential });
        const label = `${method} by ${callers.indexOf(credential)} → ${code}`;
        expect([label, rows.length]).toEqual([label, 1]);
        expect([label, code === "internal"]).toEqual([label, false]);
        expect([label, rows[0]!.errorCode]).toEqual([label, code]);
      }
    }
  });

  test("JSON that is no object, and fields of the wrong type → one row each; what is not parseable → none", async () => {
    const credential = daemon.secrets.registration;
    for (const body of [
      "null",
      "[]",
      "5",
      '"x"',
      '{"repo":7,"closed":[]}',
      '{"repo":{"repoId":3}}',
    ]) {
      await expectRow({ method: "RepoThreadSummaries", credential, body }, rejected("bad-field"));
    }
    const deep = `${'{"a":'.repeat(2000)}1${"}".repeat(2000)}`;
    await expectRow({ method: "ListRepos", credential, body: deep }, ACCEPTED);
    for (const asked of [
      { method: "NoSuchMethod" },
      { method: "__proto__" },
      { method: "constructor" },
      { method: "ListRepos/x" },
      { method: "ListRepos", body: "{" },
      { method: "ListRepos", body: "not json" },
      { method: "ListRepos", verb: "GET" },
      { method: "ListRepos", verb: "PUT" },
      { method: "ListRepos", body: " ".repeat(1024 * 1024 + 1) },
    ]) {
      const { code, rows } = await rowsOf({ credential, ...asked });
      expect([asked.method, code === null, rows]).toEqual([asked.method, false, []]);
    }
  });
});

describe("audit: secrets", () => {
  test("credentials, nonces, a hook's secret, where they belong and where not → never in either database", async () => {
    const { secrets, threads, repoId } = daemon;
    const [own] = threads;
    const all = [secrets.registration, secrets.admin, own!.credential, own!.secret, UNKNOWN, NONCE];
    for (const secret of all) {
      const credential = secrets.registration;
      const repo = { repoId: secret };
      await daemon.ask({ method: "RegisterRepo", credential, body: { folder: `/x/${secret}` } });
      // Where a long value is cut, most of the secret before the cut and a few digits of it behind.
      const cut = `/${"x".repeat(140)}/${secret}`;
      await daemon.ask({ method: "RegisterRepo", credential, body: { folder: cut } });
      await daemon.ask({ method: "GetThreadState", credential, body: { repo, thread: secret } });
      await daemon.ask({
        method: "AwaitLaunchGate",
        credential: own!.credential,
        body: { repoId, threadId: secret, paneId: secret, waitMs: 0 },
      });
      await daemon.ask({
        method: "Hold",
        credential: secret,
        body: { ...hookOf(own!), token: secret },
      });
    }
    const bytes = daemon
      .databaseFiles()
      .filter((file) => existsSync(file))
      .map((file) => readFileSync(file).toString("latin1"));
    expect(bytes).not.toBeEmpty();
    for (const [i, secret] of all.entries()) {
      expect([i, bytes.some((text) => text.includes(secret.slice(0, 32)))]).toEqual([i, false]);
    }
    // The scan finds what is there.
    expect(bytes.some((text) => text.includes("[64 hex digits]"))).toBe(true);
  });
});
