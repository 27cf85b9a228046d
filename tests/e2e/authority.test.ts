/**
 * An agent tries to say yes: the whole binary, the scripted agent in a managed pane. What was refused is looked up in the
 * audit log as it is on disk.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { audited, refusedSince } from "../support/audit-log.ts";
import { bash, say, touch, wait } from "../support/scenario.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
});
afterAll(async () => w.close());

const names = async (): Promise<string[]> => (await w.threads()).map((t) => t.name);

interface Attempt {
  name: string;
  /** Shell text; `$STATE`, `$THREAD` and `$SOCKET` are set. */
  script: string;
  /** What it printed. */
  says: RegExp;
  code: number;
  /** The refused requests it left behind, exactly. */
  rows: string[];
}
const curl = (credential: string, method: string, body: string): string =>
  `curl -sS --unix-socket "$SOCKET" -H "Authorization: Kiki $(cat "${credential}")" -d '${body}' http://kiki/v1/${method}`;
const someone = { challengeId: crypto.randomUUID(), repoId: null, nonce: "ab".repeat(32) };
const newThread = JSON.stringify({
  repo: { folder: "REPO" },
  name: "by-curl",
  prompt: null,
  follows: null,
  noFollow: true,
  base: null,
  harness: "claude-code",
  harnessArgs: [],
  harnessExecutable: "/bin/true",
  contextThread: null,
  folder: "REPO",
  tmuxSocket: null,
  columns: 80,
  rows: 24,
  shell: "/bin/sh",
  env: {},
});
const attempts: Attempt[] = [
  {
    name: "kk new",
    script: "kk new by-kk < /dev/null",
    says: /^kk: .*(agent|terminal)/m,
    code: 4,
    rows: ["repo BeginApproval presenter-is-an-agent"],
  },
  {
    name: "kk new with y piped in",
    script: "echo y | kk new by-pipe",
    says: /^kk: .*(agent|terminal)/m,
    code: 4,
    rows: ["repo BeginApproval presenter-is-an-agent"],
  },
  {
    name: "kk new on a pty of its own",
    script: `printf 'y\\n' | script -qec "kk new by-script" /dev/null`,
    says: /kk: .*agent/,
    code: 4,
    rows: ["repo BeginApproval presenter-is-an-agent"],
  },
  {
    name: "kk new on a pty, in a session of its own, environment wiped",
    script:
      `printf 'y\\n' | setsid -w env -i PATH="$PATH" HOME="$HOME" KIKI_PATHS__USER_STATE_DIR="$STATE" ` +
      `script -qec "kk new by-session" /dev/null`,
    says: /kk: .*agent/,
    code: 4,
    rows: ["repo BeginApproval presenter-is-an-agent"],
  },
  {
    name: "curl NewThread without an approval",
    script: curl("$STATE/repos/$REPO_ID/credentials/$THREAD", "NewThread", newThread),
    says: /"approval-needed"/,
    code: 0,
    rows: ["repo NewThread approval-needed"],
  },
  {
    name: "curl ConfirmApproval with the presenter's credential from its file",
    script: curl(
      "$STATE/presenter-cred",
      "ConfirmApproval",
      JSON.stringify({ ...someone, clientPid: 1 }),
    ),
    says: /"challenge-unknown"/,
    code: 0,
    rows: ["user ConfirmApproval challenge-unknown"],
  },
  {
    name: "curl an ordinary method with the presenter's credential",
    script: curl("$STATE/presenter-cred", "ListRepos", "{}"),
    says: /"credential-kind"/,
    code: 0,
    rows: ["user ListRepos credential-kind"],
  },
  {
    name: "curl ListRepos with the admin's credential",
    script: curl("$STATE/admin-cred", "ListRepos", "{}"),
    says: /"credential-kind"/,
    code: 0,
    rows: ["user ListRepos credential-kind"],
  },
  {
    name: "curl RecoverApprovalPresenter with registration",
    script: curl("$STATE/registration-cred", "RecoverApprovalPresenter", '{"clientPid": 1}'),
    says: /"credential-kind"/,
    code: 0,
    rows: ["user RecoverApprovalPresenter credential-kind"],
  },
  {
    name: "kk presenter recover on a pty of its own, y typed once it asks",
    script:
      `(until grep -q y/N "$STATE/../pty" 2> /dev/null; do sleep 0.05; done; echo y) | ` +
      `script -qefc "kk presenter recover" "$STATE/../pty"`,
    says: /kk: .*agent/,
    code: 4,
    rows: ["user RecoverApprovalPresenter presenter-is-an-agent"],
  },
  {
    name: "kk status of another thread",
    script: "kk status agreed < /dev/null",
    says: /kk: .*(agent|terminal)/,
    code: 4,
    rows: ["repo GetThreadState approval-needed", "repo BeginApproval presenter-is-an-agent"],
  },
];

const fileOf = (i: number, kind: string): string => join(w.dir, `attempt-${i}.${kind}`);
const done = (i: number): string => w.signal(`attempted-${i}`);
let threadsBefore: string[];

beforeAll(async () => {
  const steps = attempts.map((_, i) => [
    wait(w.signal(`attempt-${i}`)),
    bash(
      `t${i}`,
      `sh '${fileOf(i, "sh")}' > '${fileOf(i, "log")}' 2>&1; echo $? > '${fileOf(i, "code")}'`,
    ),
  ]);
  const prompt = w.scenario("intruder", {
    responses: [
      [bash("env", `env > '${join(w.dir, "agent.env")}'`)],
      [touch(w.signal("ready")), ...steps[0]!],
      ...steps.slice(1).map((step, i) => [touch(done(i)), ...step]),
      [touch(done(attempts.length - 1)), say("done")],
    ],
  });
  await w.newThread(["agreed"]);
  const { threadId } = await w.newThread(["intruder", "-m", prompt]);
  await waitFor(() => existsSync(w.signal("ready")), 60_000, "the agent");
  const repoId = (await w.state("intruder")).summary.repoId;
  attempts.forEach(({ script }, i) =>
    writeFileSync(
      fileOf(i, "sh"),
      `STATE='${w.stateDir}' SOCKET='${w.stateDir}/kkd.sock' THREAD='${threadId}' REPO_ID='${repoId}'\n` +
        `export PATH='${w.env["PATH"]}'\n${script.replaceAll('REPO"', `${w.repo.root}"`)}\n`,
    ),
  );
  threadsBefore = await names();
});

test("its environment → nothing of presenter or admin, neither path nor secret", () => {
  const env = readFileSync(join(w.dir, "agent.env"), "utf8");
  expect(env).toContain("KIKI_THREAD_ID=");
  for (const name of ["presenter-cred", "admin-cred"]) {
    const secret = readFileSync(join(w.stateDir, name), "utf8").trim();
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect([name, env.includes(name), env.includes(secret)]).toEqual([name, false, false]);
  }
});

test.each(attempts.map((attempt, i) => [attempt.name, attempt, i] as const))(
  "%s → refused in a clear line, nothing made, recorded once",
  async (_, attempt, i) => {
    const before = audited(w);
    w.raise(`attempt-${i}`);
    await waitFor(() => existsSync(done(i)), 60_000, attempt.name);
    const log = readFileSync(fileOf(i, "log"), "utf8");
    const code = Number(readFileSync(fileOf(i, "code"), "utf8"));
    expect({ log, code }).toEqual({
      log: expect.stringMatching(attempt.says),
      code: attempt.code,
    });
    expect(refusedSince(w, before)).toEqual(attempt.rows);
    expect(await names()).toEqual(threadsBefore);
  },
);
