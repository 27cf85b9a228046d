/**
 * Completeness under load: a thousand requests of every kind at once leave exactly the rows they should, and a daemon
 * that is killed leaves the row of everything it has answered.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { statePaths } from "../../src/core/paths.ts";
import type { AuditSink } from "../../src/store/audit.ts";
import { randomOf, testSeed } from "../support/random.ts";
import { hookOf, serveThreads, type Asked, type Served } from "../support/served.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(120_000);
afterAll(removeTempDirs);

const REQUESTS = 1_000;
const AT_ONCE = 64;
const THREADS = 4;
const UNKNOWN = "0123456789abcdef".repeat(4);
const TOO_LARGE = " ".repeat(1024 * 1024 + 1);

/** `code` null: answered. `sink` null: nothing to record. */
interface Kind extends Asked {
  sink: AuditSink | null;
  code: string | null;
}

function kinds(daemon: Served): Kind[] {
  const { repoId, secrets, threads } = daemon;
  const credential = secrets.registration;
  const repo = { repoId };
  const list = { method: "ListRepos", credential };
  const summaries = { method: "RepoThreadSummaries", credential, body: { repo, closed: true } };
  const filter = { since: null, method: null, outcome: null, limit: 3 };
  const perThread = threads.flatMap((thread, i): Kind[] => {
    const own = { credential: thread.credential };
    const other = threads[(i + 1) % threads.length]!;
    const state = { repo, thread: other.threadId };
    const event = { hook_event_name: "Notification", session_id: "s" };
    const report = { ...hookOf(thread), event };
    return [
      { method: "ReportEvent", ...own, body: report, sink: "repo", code: null },
      { method: "ReportEvent", credential, body: report, sink: "user", code: "credential-kind" },
      { method: "GetThreadState", ...own, body: state, sink: "repo", code: "approval-needed" },
      {
        method: "GetThreadAudit",
        ...own,
        body: { repo, thread: thread.threadId, ...filter },
        sink: "repo",
        code: null,
      },
      { method: "PreToolUseDecision", ...own, body: {}, sink: "repo", code: "bad-field" },
    ];
  });
  return [
    ...perThread,
    { method: "DaemonStatus", sink: "user", code: null },
    { method: "DaemonStatus", body: "", sink: "user", code: null },
    { ...list, sink: "user", code: null },
    { ...list, credential: null, sink: "user", code: "credential-missing" },
    { ...list, credential: UNKNOWN, sink: "user", code: "credential-unknown" },
    { ...list, credential: secrets.admin, sink: "user", code: "credential-kind" },
    { ...summaries, sink: "repo", code: null },
    { ...summaries, credential: null, sink: "repo", code: "credential-missing" },
    {
      ...summaries,
      body: { repo: { repoId: "x" }, closed: true },
      sink: "user",
      code: "not-registered",
    },
    { ...summaries, body: { repo }, sink: "user", code: "bad-field" },
    { ...summaries, body: "[]", sink: "user", code: "bad-field" },
    {
      method: "GetAuditLog",
      credential,
      body: { scope: "repo", repo, ...filter },
      sink: "repo",
      code: "approval-needed",
    },
    // Nothing that could be done, and nothing to record.
    { ...list, verb: "GET", sink: null, code: "not-a-post" },
    { ...list, verb: "DELETE", sink: null, code: "not-a-post" },
    { ...list, body: "{", sink: null, code: "bad-json" },
    { ...list, body: "\u0000\u00ff", sink: null, code: "bad-json" },
    { ...list, body: TOO_LARGE, sink: null, code: "body-too-large" },
    { ...list, method: "Nothing", sink: null, code: "unknown-method" },
    { ...list, method: "toString", sink: null, code: "unknown-method" },
  ];
}

/** Every kind at least once; the rest, and the order, are drawn. */
function drawn(all: readonly Kind[], seed: number): Kind[] {
  const random = randomOf(seed);
  const plan = Array.from({ length: REQUESTS }, (_, i) => all[i] ?? random.pick(all));
  for (let i = plan.length - 1; i > 0; i -= 1) {
    const j = random.below(i + 1);
    [plan[i], plan[j]] = [plan[j]!, plan[i]!];
  }
  return plan;
}

/** Runs them with `AT_ONCE` under way at any time. */
async function atOnce<T>(all: readonly T[], run: (one: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < all.length) {
      const one = all[next]!;
      next += 1;
      await run(one);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

const count = (words: readonly string[]): Record<string, number> => {
  const counted: Record<string, number> = {};
  for (const word of words.toSorted()) counted[word] = (counted[word] ?? 0) + 1;
  return counted;
};

test("1,000 mixed requests at once → one row for each that is parseable, none for the rest, each in its log", async () => {
  const daemon = await serveThreads(THREADS);
  try {
    const all = kinds(daemon);
    const seed = testSeed();
    console.info(`requests of seed ${seed} (KIKI_TEST_SEED=${seed} asks the same again)`);
    const plan = drawn(all, seed);
    const before = { repo: daemon.rows("repo").length, user: daemon.rows("user").length };
    const wrong: string[] = [];
    await atOnce(plan, async (asked) => {
      const { code } = await daemon.ask(asked);
      if (code !== asked.code) wrong.push(`${asked.method}: ${code}, not ${asked.code}`);
    });
    expect(wrong).toEqual([]);
    const ids = new Set<string>();
    for (const sink of ["repo", "user"] as const) {
      const rows = daemon.rows(sink).slice(before[sink]);
      const expected = plan.filter((asked) => asked.sink === sink);
      expect([sink, count(rows.map((r) => `${r.method} ${r.errorCode}`))]).toEqual([
        sink,
        count(expected.map((asked) => `${asked.method} ${asked.code}`)),
      ]);
      for (const row of rows) ids.add(row.requestId);
    }
    expect(ids.size).toBe(plan.filter((asked) => asked.sink !== null).length);
  } finally {
    await daemon.stop();
  }
});

test("the daemon is killed in the middle of it → every answer that was given has its row", async () => {
  const daemon = await serveThreads(1);
  const pid = Number(readFileSync(statePaths(daemon.stateDir).pid, "utf8"));
  const credential = daemon.secrets.registration;
  const answered: string[] = [];
  const all = Array.from({ length: REQUESTS }, (_, i) => `marker.n${i}`);
  const repo = { repoId: daemon.repoId };
  const load = atOnce(all, async (key) => {
    const body = { repo, thread: null, key };
    const answer = await daemon.ask({ method: "GetConfig", credential, body }).catch(() => null);
    if (answer !== null) answered.push(key);
  });
  await waitFor(() => answered.length > 150, 30_000, "answers");
  process.kill(pid, "SIGKILL");
  await load;
  await daemon.stop();
  const recorded = new Set(daemon.rows("repo").map((row) => row.detail["key"]));
  expect(answered.length).toBeLessThan(REQUESTS);
  expect(answered.filter((key) => !recorded.has(key))).toEqual([]);
});
