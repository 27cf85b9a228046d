/**
 * An agent that cannot be proved to know what changed under it: the whole binary, real jj, real tmux, the scripted
 * agent. Its process is ended, and another one is told by its first input.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { Database } from "bun:sqlite";
import { isAlive } from "../../src/cmd/alive.ts";
import { expectAtRest, expectDenied, expectFiles, homeOf } from "../support/family.ts";
import { bash, moments, read, say, touch, wait, write } from "../support/scenario.ts";
import { thorough } from "../support/thorough.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor, waitForContent } from "../support/wait.ts";

setDefaultTimeout(180_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});

interface Session {
  id: string;
  pid: number | null;
  conversation: string;
  retired: number;
  echo: number | null;
}

interface Intent {
  state: string;
  mode: string | null;
  payload: string;
}

interface Family {
  w: World;
  child: string;
  log: string;
  sessions(): Session[];
  intent(): Intent;
}

/** A parent that amends on a signal; a child whose second response reads what the parent has. */
async function family(second: readonly unknown[], resumed: readonly unknown[]): Promise<Family> {
  const w = await initialised({ colocated: true });
  worlds.push(w);
  const log = join(w.dir, "child.ndjson");
  const parent = w.scenario("parent", {
    responses: [
      [write("p1", "parser.ts", "v1\n"), bash("p2", "jj describe -m parser")],
      [touch(w.signal("parent-ready")), wait(w.signal("amend")), write("p4", "parser.ts", "v2\n")],
      [bash("p5", "jj status")],
      [touch(w.signal("parent-done")), say("done")],
    ],
  });
  const child = w.scenario("child", {
    log,
    responses: [
      // Left behind by its shell, in a session of its own: a server the agent has started.
      [write("c1", "own.ts", "mine\n"), bash("c2", LINGERS)],
      [touch(w.signal("child-ready")), wait(w.signal("go")), ...second],
      [touch(w.signal("told")), wait(w.signal("never")), say("never said")],
    ],
    resumed,
  });
  await w.newThread(["parser", "-m", parent]);
  await waitFor(() => existsSync(w.signal("parent-ready")), 60_000, "parent's first revision");
  await w.newThread(["tests", "--follows", "parser", "-m", child]);
  await waitFor(() => existsSync(w.signal("child-ready")), 60_000, "child's first revision");
  w.raise("amend");
  await waitFor(
    async () => (await w.state("tests")).intents.some((i) => i.state === "Detected"),
    60_000,
    "a detected intent",
  );
  const { workspacePath, summary } = await w.state("tests");
  const db = repoDb(w);
  const sessions = (): Session[] =>
    db
      .query<Session, [string]>(
        `SELECT agent_session_id AS id, pid, harness_session_id AS conversation,
           retired_at IS NOT NULL AS retired, startup_echo_prompt AS echo
         FROM agent_sessions WHERE thread_id = ? ORDER BY rowid`,
      )
      .all(summary.threadId);
  const intent = (): Intent =>
    db.query<Intent, []>("SELECT state, delivery_mode AS mode, payload FROM sync_intents").get()!;
  return { w, child: workspacePath, log, sessions, intent };
}

const LINGERS = [
  `setsid sh -c 'echo $$ > lingers.pid; while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &`,
  "while [ ! -s lingers.pid ]; do sleep 0.02; done; jj describe -m tests",
].join("\n");

function repoDb(w: World): Database {
  const [repo] = new Database(join(w.stateDir, "state.db"), { readonly: true })
    .query<{ repo_id: string }, []>("SELECT repo_id FROM repos")
    .all();
  return new Database(join(w.stateDir, "repos", repo!.repo_id, "state.db"), { readonly: true });
}

function said(f: Family): string {
  return readFileSync(join(f.w.stateDir, "kkd.log"), "utf8").split("\n").slice(-25).join("\n");
}

/** `T`: stopped. */
function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
}

const acknowledged = (f: Family) =>
  waitFor(
    () => f.intent().state === "Acknowledged",
    60_000,
    () => `acknowledged\n${JSON.stringify([f.intent(), f.sessions()])}\n${said(f)}`,
  );

/** Typed by the person into the agent's pane. */
async function type(f: Family, ...keys: string[]): Promise<void> {
  const { threadId } = (await f.w.state("tests")).summary;
  const panes = f.w.tmux.ok("list-panes", "-a", "-F", "#{pane_id} #{@kiki_role} #{@kiki_thread}");
  const pane = panes.split("\n").find((line) => line.endsWith(` agent ${threadId}`))!;
  f.w.tmux.ok("send-keys", "-t", pane.split(" ")[0]!, ...keys);
}

/** Session records of the agents, wherever their configuration has them. */
function recordsBelow(f: Family): string[] {
  return (readdirSync(f.w.dir, { recursive: true }) as string[])
    .filter((path) => path.includes("projects/") && path.endsWith(".jsonl"))
    .map((path) => join(f.w.dir, path));
}

function typedSoFar(f: Family): string {
  const path = (readdirSync(f.w.stateDir, { recursive: true }) as string[]).find((one) =>
    one.endsWith("typed.json"),
  );
  return path === undefined ? "" : readFileSync(join(f.w.stateDir, path), "utf8");
}

test("scenario 5: agent killed after delivery → a replacement in the same pane and conversation gets the payload as its first input, and acknowledges", async () => {
  const resumed = [[read("r1", "parser.ts"), bash("r2", "cp parser.ts seen.txt")], [say("done")]];
  const f = await family([read("a1", "parser.ts"), bash("a2", "touch ran-a2")], resumed);
  f.w.raise("go");
  await waitFor(() => existsSync(f.w.signal("told")), 60_000, "the payload delivered");
  expect(f.intent()).toMatchObject({ state: "Delivered", mode: "SoftBatch" });
  const [first] = f.sessions();
  process.kill(first!.pid!, "SIGKILL");
  await acknowledged(f);
  const [before, after] = f.sessions();
  expect(before).toMatchObject({ retired: 1, echo: null });
  expect(after).toMatchObject({ retired: 0, echo: 1, conversation: before!.conversation });
  expect(f.sessions()).toHaveLength(2);
  expect(f.intent().mode).toBe("RestartStartup");
  const log = moments(f.log) as (ReturnType<typeof moments>[number] & { prompt?: string })[];
  const starts = log.map((m) => m.kind).lastIndexOf("session_start");
  const prompts = log.slice(starts).filter((m) => m.kind === "prompt");
  expect(prompts).toHaveLength(1);
  expect(prompts[0]!.prompt!.startsWith(f.intent().payload)).toBe(true);
  await waitForContent(join(f.child, "seen.txt"), "v2\n", 30_000);
  // Told twice, byte for byte: as the results of the blocked calls, and as the first input of the replacement.
  const home = homeOf(f.w, f.w.repo);
  const { summary, workspacePath: path, workspaceName: workspace } = await f.w.state("tests");
  const child = { name: "tests", id: summary.threadId, path, workspace, log: f.log };
  expectDenied(child, f.intent().payload, { a1: "Read", a2: "Bash" });
  await waitFor(
    async () => (await f.w.state("tests")).summary.agent === "finished",
    30_000,
    "its turn ended",
  );
  await expectFiles(home, child, { "parser.ts": "v2\n", "own.ts": "mine\n", "ran-a2": null });
  await expectAtRest(home, child);
});

test("Esc at a blocked batch, then another prompt → ended and started anew; what it had left running stands still meanwhile and goes on; what was typed follows the payload", async () => {
  // The stream stays open after the refused call, so that its batch never closes.
  const f = await family([read("a1", "parser.ts"), wait("/nowhere/never")], []);
  const pid = Number(readFileSync(join(f.child, "lingers.pid"), "utf8"));
  expect(isAlive(pid)).toBe(true);
  f.w.raise("go");
  await waitFor(() => f.intent().state === "Delivered", 60_000, "the payload delivered");
  const again = f.w.scenario("again", { log: f.log, responses: [[bash("b1", "touch ran-b1")]] });
  await type(f, "Escape");
  await waitFor(() => moments(f.log).some((m) => m.kind === "interrupted"), 30_000, "interrupted");
  await type(f, "-l", `do this instead ${again}`);
  await type(f, "Enter");
  await acknowledged(f);
  expect(f.sessions()).toHaveLength(2);
  await waitFor(() => existsSync(join(f.child, "ran-b1")), 30_000, "what was typed is done");
  const log = moments(f.log) as { kind: string; prompt?: string }[];
  const last = log.findLast((m) => m.kind === "prompt")!.prompt!;
  expect(last.startsWith(f.intent().payload)).toBe(true);
  expect(last.endsWith(`do this instead ${again}`)).toBe(true);
  const stopped = repoDb(f.w)
    .query<{ pid: number; state: string }, []>("SELECT pid, state FROM stopped_processes")
    .all();
  expect(stopped.find((row) => row.pid === pid)).toMatchObject({ state: "Resumed" });
  await waitFor(() => "SR".includes(stateOf(pid)), 10_000, "what was left running runs again");
});

thorough(
  "conversation's record deleted, then the agent is killed → a new conversation, told by its first input, and it acknowledges",
  async () => {
    const again = {
      responses: [[read("r1", "parser.ts"), bash("r2", "touch went-on")], [say("done")]],
    };
    const f = await family([read("a1", "parser.ts")], []);
    f.w.raise("go");
    await waitFor(() => existsSync(f.w.signal("told")), 60_000, "the payload delivered");
    const [first] = f.sessions();
    const prompt = f.w.scenario("again", { log: f.log, ...again });
    await type(f, "-l", prompt);
    await type(f, "Enter");
    await waitFor(() => typedSoFar(f).includes("again"), 30_000, "what was typed is kept");
    // Stopped first: it would write its record anew.
    process.kill(first!.pid!, "SIGSTOP");
    rmSync(recordsBelow(f).find((path) => path.endsWith(`${first!.conversation}.jsonl`))!);
    process.kill(first!.pid!, "SIGKILL");
    await acknowledged(f);
    const [before, after] = f.sessions();
    expect(f.sessions()).toHaveLength(2);
    expect(after!.conversation).not.toBe(before!.conversation);
    await waitFor(() => existsSync(join(f.child, "went-on")), 30_000, "the agent going on");
  },
);
