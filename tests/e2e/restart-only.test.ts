/**
 * A version of Claude Code that never says when a response's calls are over: its agent is told by restarts alone. The
 * whole binary, real jj, real tmux, the scripted agent behind a program that says another version.
 */
import { Database } from "bun:sqlite";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { claudeShim } from "../support/claude-shim.ts";
import { bash, moments, say, touch, wait, write } from "../support/scenario.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
});
afterAll(() => w.close());

interface Intent {
  state: string;
  mode: string | null;
  redeliveries: number;
  payload: string;
}

function rows<T>(sql: string): T[] {
  const repos = join(w.stateDir, "repos");
  const db = new Database(join(repos, readdirSync(repos)[0]!, "state.db"), { readonly: true });
  try {
    return db.query<T, []>(sql).all();
  } finally {
    db.close();
  }
}

const intents = (): Intent[] =>
  rows(`SELECT state, delivery_mode AS mode, soft_redelivery_count AS redeliveries, payload
        FROM sync_intents ORDER BY seq`);

async function until(count: number, state: string): Promise<void> {
  await waitFor(
    () =>
      intents().length === count && intents().every((i, n) => n < count - 1 || i.state === state),
    30_000,
    () =>
      `${count} intents, the newest ${state}\n${JSON.stringify(intents())}\n` +
      readFileSync(join(w.stateDir, "kkd.log"), "utf8").split("\n").slice(-15).join("\n"),
  );
}

test("a version without PostToolBatch, its parent moves twice in one turn → told by RestartStartup both times, acknowledged, no call ever gets a payload", async () => {
  const parent = w.scenario("parent", {
    responses: [
      [write("p1", "parser.ts", "v1\n"), bash("p2", "jj describe -m parser")],
      [touch(w.signal("parent-ready")), wait(w.signal("move-1")), write("p3", "parser.ts", "v2\n")],
      [bash("p4", "jj status")],
      [wait(w.signal("move-2")), write("p5", "parser.ts", "v3\n")],
      [bash("p6", "jj status")],
      [say("done")],
    ],
  });
  const log = join(w.dir, "child.ndjson");
  const child = w.scenario("child", {
    log,
    responses: [
      [bash("c1", "jj describe -m tests")],
      [touch(w.signal("child-ready")), wait(w.signal("go-1")), bash("c2", "touch ran-c2")],
      // It may ask its model once more before it is ended.
      [wait(w.signal("never")), say("never said")],
    ],
    // Both replacements play this one; the first is ended at its second call.
    resumed: [
      [bash("r1", "cat parser.ts >>seen.txt")],
      [touch(w.signal("told")), wait(w.signal("go-2")), bash("r2", "cat parser.ts >>after.txt")],
      [say("done")],
    ],
  });
  await w.newThread(["parser", "-m", parent]);
  await waitFor(() => existsSync(w.signal("parent-ready")), 60_000, "the parent's first revision");
  w.env["PATH"] = `${claudeShim(w.dir, "no-batch-event")}:${w.env["PATH"]}`;
  await w.newThread(["tests", "--follows", "parser", "-m", child]);
  await waitFor(() => existsSync(w.signal("child-ready")), 60_000, "the child's first revision");
  const { workspacePath } = await w.state("tests");

  w.raise("move-1");
  await until(1, "Detected");
  w.raise("go-1");
  await until(1, "Acknowledged");
  await waitFor(() => existsSync(w.signal("told")), 30_000, "the replacement goes on");
  w.raise("move-2");
  await until(2, "Detected");
  w.raise("go-2");
  await until(2, "Acknowledged");
  await waitFor(() => existsSync(join(workspacePath, "after.txt")), 30_000, "the agent going on");

  expect(intents().map(({ mode, redeliveries }) => [mode, redeliveries])).toEqual([
    ["RestartStartup", 0],
    ["RestartStartup", 0],
  ]);
  expect(
    rows(`SELECT startup_intent_id IS NOT NULL AS told, startup_echo_prompt AS echo,
            capabilities_json ->> '$.parallel_batch_boundary' AS boundary
          FROM agent_sessions JOIN threads USING (thread_id) WHERE name = 'tests'
          ORDER BY agent_sessions.rowid`),
  ).toEqual([
    { told: 0, echo: null, boundary: 0 },
    { told: 1, echo: 1, boundary: 0 },
    { told: 1, echo: 1, boundary: 0 },
  ]);
  // Refused calls were told nothing of what changed; only first inputs were.
  expect(rows("SELECT 1 FROM tool_admissions WHERE answer = 'payload'")).toEqual([]);
  const prompts = (moments(log) as { kind: string; prompt?: string }[])
    .filter(({ kind }) => kind === "prompt")
    .map(({ prompt = "" }) => prompt);
  expect(prompts).toHaveLength(3);
  for (const [n, { payload }] of intents().entries())
    expect(prompts[n + 1]!.startsWith(payload)).toBe(true);
  const file = (name: string): string | null => {
    const path = join(workspacePath, name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  };
  expect(["ran-c2", "seen.txt", "after.txt", "parser.ts"].map(file)).toEqual([
    null,
    "v2\nv3\n",
    "v3\n",
    "v3\n",
  ]);
});
