/**
 * Threads whose agent is Codex: the whole binary, real jj, real tmux, the scripted codex. One world and one parent, which a
 * person moves; each story has a follower of its own.
 */
import { copyFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  acknowledged,
  commitOf,
  expectAtRest,
  expectDenied,
  expectFiles,
  homeOf,
  inCommit,
  inDb,
  intents,
  newFollower,
  newThread,
  onDisk,
  reached,
  rowOf,
  stateOf,
  story,
  untilRun,
  type Follower,
  type Home,
  type IntentRow,
  type Thread,
} from "../support/family.ts";
import {
  codexLogin,
  expectRefused,
  newCodex,
  prompt,
  ranFrom,
  recordedOutputs,
  refusal,
  typeInto,
} from "../support/codex-thread.ts";
import { bash, moments, read, say, touch, wait, write } from "../support/scenario.ts";
import { thorough } from "../support/thorough.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(180_000);

let w: World;
let home: Home;
let parent: Thread;
let tests: Follower;
let notes: Follower;
let lexer: Follower;

const sig = (name: string): string => w.signal(name);
const until = (name: string) => wait(sig(name));
const follows = ["--follows", "parser"];

beforeAll(async () => {
  w = await initialised({ colocated: true });
  codexLogin(w);
  home = homeOf(w, w.repo);
  parent = await newThread(home, "parser");
  await move({ "parser.ts": "v1\n" }, "parser: first");
  [tests, notes, lexer] = await Promise.all([
    newCodex(home, "tests", TESTS(), follows),
    newFollower(home, "notes", "parser", NOTES()),
    newCodex(home, "lexer", LEXER(), follows),
  ]);
  await Promise.all(["tests-ready", "notes-ready", "lexer-ready"].map((s) => reached(home, s)));
});
afterAll(() => w.close());

const TESTS = () => ({
  responses: [
    [touch(sig("tests-ready")), until("tests-1"), bash("a1", "touch ran-a1")],
    untilRun(bash("a2", "cp parser.ts seen-1; jj st --quiet")),
    [touch(sig("told-1")), until("tests-2"), write("b1", "own.ts", "mine\n")],
    untilRun(bash("b2", "cp lexer.ts seen-2; jj st --quiet")),
    [touch(sig("told-2")), until("tests-3"), bash("c1", "touch ran-c1")],
    [say("enough for now")],
    // The next prompt.
    untilRun(bash("c2", "cp parser.ts seen-3; jj st --quiet")),
    [touch(sig("told-3")), until("tests-4"), bash("d1", "touch ran-d1")],
    [touch(sig("told-4")), until("never"), say("never said")],
  ],
  resumed: [[bash("e1", "cp parser.ts seen-4")], [say("done")]],
});
const NOTES = () => [
  [
    touch(sig("notes-ready")),
    until("notes-1"),
    read("n1", "parser.ts"),
    bash("n2", "touch ran-n2"),
  ],
  untilRun(bash("n3", "cp parser.ts seen-1; jj st --quiet")),
  [touch(sig("notes-told")), say("done")],
];
const PAIR = ["sleep 0.3; echo one >> pair", "echo two >> pair"] as const;
const LEXER = () => ({
  responses: [
    [touch(sig("lexer-ready")), until("lexer-1"), bash("p1", PAIR[0]), bash("p2", PAIR[1])],
    [touch(sig("paired")), until("lexer-2"), bash("q1", "touch ran-q1")],
    untilRun(until("mended"), bash("q2", "cp parser.ts seen-1; jj st --quiet")),
    [touch(sig("redelivered")), until("lexer-3"), bash("r1", PAIR[0]), bash("r2", PAIR[1])],
    [touch(sig("lost")), until("lexer-4"), bash("s1", "touch ran-s1")],
    [say("never said: it was ended")],
  ],
  resumed: [[bash("t1", "cp parser.ts seen-2")], [say("done")]],
});

/** As a person does it: files written, recorded by jj. */
async function move(files: Record<string, string>, message?: string): Promise<void> {
  for (const [path, text] of Object.entries(files)) w.repo.write(path, text, parent.path);
  if (message !== undefined) await w.repo.jj(["describe", "--quiet", "-m", message], parent.path);
  else await w.repo.jj(["status", "--quiet"], parent.path);
}

/** The unresolved intent that leads to where the parent stands now. */
async function detected(of: Thread): Promise<IntentRow> {
  const to = await commitOf(home, parent);
  return waitFor(
    () => intents(home, of).find((row) => row.state === "Detected" && row.to === to),
    90_000,
    () => `a detected intent of ${of.name}\n${story(home)}`,
  );
}

const current = (of: Thread): IntentRow => intents(home, of).at(-1)!;

interface Session {
  id: string;
  pid: number;
  conversation: string;
  retired: number;
  soft: number | null;
  violations: number;
}

const sessions = (of: Thread): Session[] =>
  inDb(home, (db) =>
    db
      .query<Session, [string]>(
        `SELECT agent_session_id AS id, pid, harness_session_id AS conversation,
           retired_at IS NOT NULL AS retired, serial_violations AS violations,
           capabilities_json ->> '$.parallel_batch_boundary' AS soft
         FROM agent_sessions WHERE thread_id = ? ORDER BY rowid`,
      )
      .all(of.id),
  );

/** Waits for it with everything that may explain why it does not come. */
const comesTrue = (what: string, look: () => unknown): Promise<unknown> =>
  waitFor(look, 90_000, () => `${what}\n${story(home)}`);

test("two calls in one response → one after the other, and a person is told in kk status", async () => {
  w.raise("lexer-1");
  await reached(home, "paired");
  const all = moments(lexer.log);
  const [one, two] = [ranFrom(all, "p1")!, ranFrom(all, "p2")!];
  // Their hooks race: either may be the first.
  expect(one.to <= two.from || two.to <= one.from).toBe(true);
  const { stdout } = await w.kk(["status", "lexer", "--no-jj"]);
  expect(stdout).toContain("asked for two calls at once");
  expect(sessions(lexer)[0]).toMatchObject({ violations: 1, soft: 1 });
});

test("parent amends → codex's call refused with the payload byte for byte, in event log and session record; a child of each harness is told the same", async () => {
  await move({ "parser.ts": "v2\n" });
  await Promise.all([detected(tests), detected(notes)]);
  expect(await rowOf(home, tests)).toContain("↻");
  expect((await stateOf(home, tests)).harness).toBe("codex");
  w.raise("tests-1");
  w.raise("notes-1");
  await Promise.all([reached(home, "told-1"), reached(home, "notes-told")]);
  const [[told], [other]] = await Promise.all([
    acknowledged(home, tests, 1),
    acknowledged(home, notes, 1),
  ]);
  expect(told).toMatchObject({ kind: "NativeRewrite", mode: "SoftBatch", receipt: "matching" });
  expectRefused(home, tests, "a1", told!.payload!, "touch ran-a1");
  expectDenied(notes, other!.payload!, { n1: "Read", n2: "Bash" });
  expect([onDisk(tests, "seen-1"), onDisk(tests, "ran-a1")]).toEqual(["v2\n", null]);
  expect(onDisk(notes, "seen-1")).toBe("v2\n");
  await expectAtRest(home, tests);
});

test("parent adds a revision → a patch is refused with the payload and its whole text, the child's chain follows", async () => {
  await w.repo.jj(["new", "--quiet", "-m", "lexer"], parent.path);
  await move({ "lexer.ts": "lexer\n" });
  await detected(tests);
  w.raise("tests-2");
  await reached(home, "told-2");
  const [, told] = await acknowledged(home, tests, 2);
  expect(told).toMatchObject({ kind: "ParentAdvance", mode: "SoftBatch", receipt: "matching" });
  const patch = "*** Begin Patch\n*** Add File: own.ts\n+mine\n*** End Patch";
  expectRefused(home, tests, "b1", told!.payload!, patch);
  expect([onDisk(tests, "seen-2"), onDisk(tests, "own.ts")]).toEqual(["lexer\n", null]);
});

test("the turn ends right behind the refused call → complete by it and not acknowledged; the next prompt's first call acknowledges", async () => {
  await move({ "parser.ts": "v3\n" });
  await detected(tests);
  w.raise("tests-3");
  const done = () =>
    inDb(home, (db) =>
      db
        .query<{ at: number | null; event: string }, [string]>(
          `SELECT i.batch_completed_at AS at, s.last_event AS event FROM sync_intents i
             JOIN agent_sessions s ON s.thread_id = i.thread_id AND s.retired_at IS NULL
           WHERE i.thread_id = ? ORDER BY i.seq DESC LIMIT 1`,
        )
        .get(tests.id),
    );
  await comesTrue("the turn's end", () => done()?.event === "Stop" && done()?.at !== null);
  expect(current(tests)).toMatchObject({ state: "Delivered", receipt: "matching" });
  expectRefused(home, tests, "c1", current(tests).payload!, "touch ran-c1");
  await prompt(home, tests, "go on");
  await reached(home, "told-3");
  await acknowledged(home, tests, 3);
  expect(onDisk(tests, "seen-3")).toBe("v3\n");
});

test("kill -9 of codex after delivery → resumed in its conversation with the payload as first input, echoed and acknowledged", async () => {
  await move({ "parser.ts": "v4\n" });
  await detected(tests);
  w.raise("tests-4");
  await reached(home, "told-4");
  expect(current(tests)).toMatchObject({ state: "Delivered", mode: "SoftBatch" });
  process.kill(sessions(tests).at(-1)!.pid, "SIGKILL");
  await acknowledged(home, tests, 4);
  const [before, after] = sessions(tests);
  expect(after).toMatchObject({ retired: 0, conversation: before!.conversation });
  expect(before!.retired).toBe(1);
  const { payload, mode } = current(tests);
  expect(mode).toBe("RestartStartup");
  const log = moments(tests.log) as { kind: string; prompt?: string; source?: string }[];
  const start = log.findLastIndex((m) => m.kind === "session_start");
  expect(log[start]!.source).toBe("resume");
  const first = log.slice(start).find((m) => m.kind === "prompt")!.prompt!;
  expect(first.startsWith(payload!)).toBe(true);
  await comesTrue("the agent going on", () => onDisk(tests, "seen-4") === "v4\n");
  // kiki records what it did when its turn ends.
  await comesTrue(
    "its turn's end recorded",
    async () => (await inCommit(home, await commitOf(home, tests), "seen-4")) === "v4\n",
  );
  await expectFiles(home, tests, { "seen-4": "v4\n", "ran-d1": null });
  await expectAtRest(home, tests);
});

/** Between kiki's hook and Codex stands something that changes what it says. */
function garble(of: Thread): () => void {
  const hook = join(home.state, "harness", of.id, "hook");
  copyFileSync(hook, `${hook}.own`);
  const text = `#!/bin/sh\nout=$("$0.own" "$@"); code=$?\nprintf '%s' "$out" | sed 's/kiki/k1k1/g'\nexit $code\n`;
  writeFileSync(`${hook}.new`, text, { mode: 0o700 });
  // At no moment is there none, which Codex would answer with a refusal of its own.
  renameSync(`${hook}.new`, hook);
  return () => renameSync(`${hook}.own`, hook);
}

thorough(
  "a refusal that reached the model otherwise → told once more, byte for byte, and acknowledged by the call after",
  async () => {
    await detected(lexer);
    const mend = garble(lexer);
    w.raise("lexer-2");
    await comesTrue("the garbled refusal", () => recordedOutputs(home, lexer).has("q1"));
    mend();
    w.raise("mended");
    await reached(home, "redelivered");
    const told = (await acknowledged(home, lexer, 1))[0]!;
    expect(told).toMatchObject({ redeliveries: 1, receipt: "matching", mode: "SoftBatch" });
    expect(recordedOutputs(home, lexer).get("q1")).toContain("k1k1");
    const again = [...recordedOutputs(home, lexer)].filter(([id]) => id.startsWith("q2"));
    expect(
      again.some(
        ([, text]) => text === refusal(told.payload!, "cp parser.ts seen-1; jj st --quiet"),
      ),
    ).toBe(true);
    expect([onDisk(lexer, "seen-1"), onDisk(lexer, "ran-q1")]).toEqual(["v4\n", null]);
  },
);

thorough(
  "two calls in one response again → the boundary is given up: the next move is told by a restart",
  async () => {
    w.raise("lexer-3");
    await reached(home, "lost");
    expect(sessions(lexer)[0]).toMatchObject({ violations: 2, soft: 0 });
    expect((await stateOf(home, lexer)).attention.map((a) => a.message).join("\n")).toContain(
      "restarted to be told",
    );
    await move({ "parser.ts": "v5\n" });
    await detected(lexer);
    w.raise("lexer-4");
    const told = (await acknowledged(home, lexer, 2)).at(-1)!;
    expect(told.mode).toBe("RestartStartup");
    expect(sessions(lexer)).toHaveLength(2);
    await comesTrue("the agent going on", () => onDisk(lexer, "seen-2") === "v5\n");
    expect(onDisk(lexer, "ran-s1")).toBeNull();
  },
);

test("kk ls, kk status, kk thread audit of a codex thread", async () => {
  const { stdout: status } = await w.kk(["status", "tests", "--no-jj"]);
  expect(status).toMatch(/^agent +. \w+ codex, last event /m);
  expect(status).toMatch(/^follows +← parser at [0-9a-f]{12}$/m);
  const { stdout: list } = await w.kk(["ls"]);
  expect(list).toMatch(/ tests +← parser +kk\/tests /);
  const { screen, code } = await w.kkOnTerminal(["thread", "audit", "tests"], "y");
  expect(code).toBe(0);
  expect(screen).toMatch(/PreToolUseDecision .*decision=hold/);
  expect(screen).toMatch(/MarkDelivered +ThreadScoped/);
});

test("a provider that refuses the first request → said in kk status, with the setting that does without; a turn that works takes it back", async () => {
  const refused = { responses: [{ blocks: [], error: REFUSED }, [say("here")], [say("again")]] };
  const docs = await newCodex(home, "docs", refused);
  const seen = await comesTrue("an attention", async () =>
    (await stateOf(home, docs)).attention.find((a) => a.kind === "catalog-refused"),
  );
  expect((seen as { message: string }).message).toContain("Unsupported value");
  expect((seen as { message: string }).message).toContain('[agent.codex] boundary = "restart"');
  const { stdout } = await w.kk(["status", "docs", "--no-jj"]);
  expect(stdout).toMatch(/^next +look at what it says/m);
  await prompt(home, docs, "again please");
  await comesTrue("taken back", async () => (await stateOf(home, docs)).attention.length === 0);
});
const REFUSED = JSON.stringify({
  error: { message: "Unsupported value: 'parallel_tool_calls'", type: "invalid_request_error" },
});

thorough(
  "everything it is told is garbled → told once more, then started anew, which makes its hook anew",
  async () => {
    const { agent, go } = await blocked("garbled", {
      responses: [untilRun(bash("v2", "touch ran-v2")), [say("never said")]],
      resumed: [[bash("v3", "cp parser.ts seen")], [say("done")]],
    });
    garble(agent);
    await go({ "parser.ts": "v6\n" });
    const told = (await acknowledged(home, agent, 1))[0]!;
    expect(told).toMatchObject({ mode: "RestartStartup", redeliveries: 1 });
    expect(sessions(agent)).toHaveLength(2);
    await comesTrue("the agent going on", () => onDisk(agent, "seen") === "v6\n");
    expect(onDisk(agent, "ran-v2")).toBeNull();
  },
);

thorough("Esc at a refused call, another prompt → ended, told by its first input", async () => {
  const { agent, go } = await blocked("stopped", {
    responses: [[say("never said")]],
    behind: [until("never")],
  });
  await go({ "parser.ts": "v7\n" });
  await comesTrue("delivered", () => current(agent).state === "Delivered");
  await typeInto(home, agent, "Escape");
  await comesTrue("interrupted", () => moments(agent.log).some((m) => m.kind === "interrupted"));
  const again = w.scenario("again", { log: agent.log, responses: [[bash("w1", "touch ran-w1")]] });
  await prompt(home, agent, `instead ${again}`);
  // What comes while the turn is still being broken off goes back into the composer.
  const submitted = () =>
    (moments(agent.log) as { kind: string; prompt?: string }[]).some(
      (m) => m.kind === "prompt" && m.prompt === `instead ${again}`,
    );
  await comesTrue("the prompt", async () => {
    if (submitted()) return true;
    await typeInto(home, agent, "Enter");
    return false;
  });
  const told = (await acknowledged(home, agent, 1))[0]!;
  expect(told.mode).toBe("RestartStartup");
  const last = (moments(agent.log) as { kind: string; prompt?: string }[]).findLast(
    (m) => m.kind === "prompt",
  )!.prompt!;
  expect([last.startsWith(told.payload!), last.endsWith(`instead ${again}`)]).toEqual([true, true]);
  await comesTrue("what was typed", () => onDisk(agent, "ran-w1") !== null);
});

thorough("kill -9 of the daemon at delivery → the story ends the same", async () => {
  const { agent, go } = await blocked("orphan", {
    responses: [untilRun(bash("x2", "cp parser.ts seen")), [touch(sig("orphan-told")), say("ok")]],
  });
  await go({ "parser.ts": "v8\n" });
  await comesTrue("delivered", () => ["Materialized", "Delivered"].includes(current(agent).state));
  process.kill(w.daemonPid(), "SIGKILL");
  await reached(home, "orphan-told");
  const told = (await acknowledged(home, agent, 1))[0]!;
  expect(told.receipt).toBe("matching");
  expect(onDisk(agent, "seen")).toBe("v8\n");
  const texts = [...recordedOutputs(home, agent).values()];
  expect(texts.some((text) => text.includes(told.payload!))).toBe(true);
});

/** A follower that waits before its one call, and what lets it go once the parent has moved. */
async function blocked(
  name: string,
  of: { responses: readonly unknown[]; resumed?: readonly unknown[]; behind?: readonly unknown[] },
): Promise<{ agent: Follower; go: (files: Record<string, string>) => Promise<void> }> {
  const { responses, resumed = [], behind = [] } = of;
  const first = [touch(sig(`${name}-ready`)), until(name), bash("first", "touch ran"), ...behind];
  const agent = await newCodex(home, name, { responses: [first, ...responses], resumed }, follows);
  await reached(home, `${name}-ready`);
  return {
    agent,
    go: async (files) => {
      await move(files);
      await detected(agent);
      w.raise(name);
    },
  };
}
