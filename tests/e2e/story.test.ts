/** Parent moves, child's agent is told: the whole binary, real jj, real tmux, the scripted agent. */
import { watch, existsSync, lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { Database } from "bun:sqlite";
import { bash, moments, read, say, touch, wait, write, type Moment } from "../support/scenario.ts";
import { isThorough, thorough } from "../support/thorough.ts";
import { initialised, type ThreadState, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(180_000);
const worlds: World[] = [];
async function world(options: Parameters<typeof initialised>[0] = {}): Promise<World> {
  const made = await initialised(options);
  worlds.push(made);
  return made;
}
afterAll(async () => {
  for (const w of worlds) await w.close();
});

/** A parent that amends on one signal and adds a revision on the next, and a child that works in three-tool batches. */
async function family(w: World, childLog: string): Promise<{ child: string }> {
  const parent = w.scenario("parent", {
    responses: [
      [write("p1", "parser.ts", "v1\n"), bash("p2", "jj describe -m parser")],
      [touch(w.signal("parent-ready")), wait(w.signal("amend")), read("p3", "parser.ts")],
      [write("p4", "parser.ts", "v2\n"), bash("p5", "jj status")],
      [wait(w.signal("add")), bash("p6", "jj new -m lexer")],
      [write("p7", "lexer.ts", "lexer\n"), bash("p8", "jj status")],
      [touch(w.signal("parent-done")), say("done")],
    ],
  });
  const blocked = { last_result_contains: "did not run" };
  const child = w.scenario("child", {
    log: childLog,
    responses: [
      [write("c1", "own.ts", "mine\n"), bash("c2", "jj describe -m tests")],
      [
        touch(w.signal("child-ready")),
        wait(w.signal("batch-1")),
        read("a1", "parser.ts"),
        read("a2", "own.ts"),
        bash("a3", "touch ran-a3"),
      ],
      {
        while: blocked,
        do: [[read("again-1", "parser.ts"), bash("again-2", "echo going on")]],
        max: 200,
      },
      [
        touch(w.signal("told-1")),
        wait(w.signal("batch-2")),
        read("b1", "parser.ts"),
        write("b2", "b2.txt", "b2\n"),
        bash("b3", "touch ran-b3"),
      ],
      { while: blocked, do: [[read("again-3", "lexer.ts")]], max: 200 },
      [bash("c9", "echo end")],
      [touch(w.signal("child-done")), say("done")],
    ],
  });
  await w.newThread(["parser", "-m", parent]);
  await waitFor(() => existsSync(w.signal("parent-ready")), 60_000, "parent's first revision");
  await w.newThread(["tests", "--follows", "parser", "-m", child]);
  await waitFor(() => existsSync(w.signal("child-ready")), 60_000, "child's first revision");
  return { child: (await w.state("tests")).workspacePath };
}

const detected = (w: World) =>
  waitFor(
    async () => (await w.state("tests")).intents.some((i) => i.state === "Detected"),
    30_000,
    "a detected intent",
  );
const settled = (w: World, count: number) =>
  waitFor(
    async () => {
      const { intents } = await w.state("tests");
      return intents.length === count && intents.every((i) => i.state === "Acknowledged");
    },
    60_000,
    () => `${count} acknowledged intents\n${story(w)}`,
  );

/** Every change of a file below `root`, with the kernel's own time of it; jj's and git's folders left out. */
function recordChanges(root: string): { changes: { path: string; at: number }[]; stop(): void } {
  const changes: { path: string; at: number }[] = [];
  const watcher = watch(root, { recursive: true }, (_, name) => {
    if (typeof name !== "string" || /^(\.jj|\.git)(\/|$)/.test(name)) return;
    const stat = lstatSync(join(root, name), { throwIfNoEntry: false });
    changes.push({ path: name, at: stat?.ctimeMs ?? Date.now() });
  });
  return { changes, stop: () => watcher.close() };
}

function repoDb(w: World): Database {
  const [repo] = new Database(join(w.stateDir, "state.db"), { readonly: true })
    .query<{ repo_id: string }, []>("SELECT repo_id FROM repos")
    .all();
  return new Database(join(w.stateDir, "repos", repo!.repo_id, "state.db"), { readonly: true });
}

/** What a failed wait needs to be understood. */
function story(w: World): string {
  const db = repoDb(w);
  const rows = [
    ...db
      .query(
        "SELECT seq, kind, state, barrier_tool_batch, receipt, soft_redelivery_count, reason FROM sync_intents",
      )
      .all(),
    ...db
      .query(
        "SELECT batch_ordinal, tool_use_id, admission, answer, resolution, batch_end FROM tool_admissions",
      )
      .all(),
    ...db.query("SELECT kind, message FROM attention").all(),
  ];
  const log = readFileSync(join(w.stateDir, "kkd.log"), "utf8").split("\n").slice(-25);
  return [...rows.map((r) => JSON.stringify(r)), ...log].join("\n");
}

function payloads(w: World): string[] {
  const db = repoDb(w);
  return db
    .query<{ payload: string }, []>("SELECT payload FROM sync_intents ORDER BY seq")
    .all()
    .map((r) => r.payload);
}

test.each(isThorough ? [true, false] : [true])(
  "story, colocated %p: two parent moves → both delivered byte for byte, files changed only while a batch was held",
  async (colocated) => {
    const w = await world({ colocated });
    const log = join(w.dir, "child.ndjson");
    const { child } = await family(w, log);
    const recorder = recordChanges(child);
    w.raise("amend");
    await detected(w);
    w.raise("batch-1");
    await waitFor(() => existsSync(w.signal("told-1")), 60_000, "the child going on");
    expect(readFileSync(join(child, "parser.ts"), "utf8")).toBe("v2\n");
    w.raise("add");
    await waitFor(() => existsSync(w.signal("parent-done")), 60_000, "the parent's second move");
    await detected(w);
    w.raise("batch-2");
    await waitFor(() => existsSync(w.signal("child-done")), 60_000, "the child's end");
    await settled(w, 2);
    recorder.stop();

    const all = moments(log);
    const wrapped = (id: string) =>
      all.find((m) => m.kind === "result" && m.tool_use_id === id)?.result;
    const [first, second] = payloads(w);
    for (const id of ["a1", "a2"]) expect(wrapped(id)).toBe(`PreToolUse:Read hook error: ${first}`);
    expect(wrapped("a3")).toBe(`PreToolUse:Bash hook error: ${first}`);
    expect(wrapped("b1")).toBe(`PreToolUse:Read hook error: ${second}`);
    expect(wrapped("b2")).toBe(`PreToolUse:Write hook error: ${second}`);
    expect(wrapped("b3")).toBe(`PreToolUse:Bash hook error: ${second}`);
    for (const file of ["ran-a3", "ran-b3", "b2.txt"])
      expect(existsSync(join(child, file))).toBe(false);
    expect(readFileSync(join(child, "lexer.ts"), "utf8")).toBe("lexer\n");
    expect(readFileSync(join(child, "own.ts"), "utf8")).toBe("mine\n");

    // Every change of a file lies inside a held boundary, or inside a tool of the agent itself.
    const windows = spans(all, "pre_start", "pre_end")
      .filter((s) => s.decision === "deny")
      .concat(spans(all, "tool_start", "tool_end"));
    expect(recorder.changes.some((c) => c.path === "parser.ts")).toBe(true);
    expect(recorder.changes.some((c) => c.path === "lexer.ts")).toBe(true);
    const outside = recorder.changes.filter(
      (c) => !windows.some((s) => c.at >= s.from - CLOCK_TICK_MS && c.at <= s.to),
    );
    expect(outside).toEqual([]);
  },
);

/** The kernel stamps files from a clock that ticks every 4 ms (CONFIG_HZ=250) and is read downwards. */
const CLOCK_TICK_MS = 10;

function spans(
  all: readonly Moment[],
  from: string,
  to: string,
): { from: number; to: number; decision?: string | undefined }[] {
  return all
    .filter((m) => m.kind === from)
    .map((m) => {
      const end = all.find((e) => e.kind === to && e.tool_use_id === m.tool_use_id);
      return { from: m.t, to: end?.t ?? Number.POSITIVE_INFINITY, decision: end?.decision };
    });
}

for (const moment of ["Reconciling", "Materialized", "Delivered"]) {
  thorough(
    `kill -9 of the daemon once the intent is ${moment}, restart before the batch closes → the story ends the same`,
    async () => {
      const w = await world();
      const log = join(w.dir, "child.ndjson");
      const { child } = await family(w, log);
      const recorder = recordChanges(child);
      w.raise("amend");
      await detected(w);
      const db = repoDb(w);
      // The exclusive third call of the batch comes after the first two were answered: the batch is open all the while.
      w.raise("batch-1");
      await waitFor(
        () => {
          const row = db.query<{ state: string }, []>("SELECT state FROM sync_intents").get();
          const order = ["Detected", "Reconciling", "Materialized", "Delivered"];
          return order.indexOf(row!.state) >= order.indexOf(moment);
        },
        30_000,
        moment,
      );
      process.kill(w.daemonPid(), "SIGKILL");
      await waitFor(
        () => existsSync(w.signal("told-1")),
        90_000,
        () => `the child going on\n${story(w)}`,
      );
      await settled(w, 1);
      recorder.stop();
      expect(readFileSync(join(child, "parser.ts"), "utf8")).toBe("v2\n");
      const all = moments(log);
      expect(
        all.filter((m) => m.kind === "result" && m.result?.endsWith(payloads(w)[0]!)).length,
      ).toBeGreaterThanOrEqual(1);
      // Between the first refusal and the batch's end the marker holds every call, daemon or no daemon.
      const from = Math.min(
        ...spans(all, "pre_start", "pre_end")
          .filter((s) => s.decision === "deny")
          .map((s) => s.from),
      );
      for (const change of recorder.changes.filter((c) => c.path === "parser.ts")) {
        expect(change.at).toBeGreaterThanOrEqual(from - CLOCK_TICK_MS);
      }
    },
  );
}

test("kill -9 at twenty moments of a cascade → every run ends acknowledged or in an honest stop, no file changed without its barrier", async () => {
  const w = await world();
  const log = join(w.dir, "child.ndjson");
  const { child } = await family(w, log);
  const recorder = recordChanges(child);
  w.raise("amend");
  await detected(w);
  // Between "at once" and "long after the work is done"; a fixed list, so that a failure can be run again.
  const moments20 = [
    0, 900, 50, 1400, 200, 700, 350, 1100, 20, 500, 1800, 120, 650, 280, 1000, 80, 420, 1600, 240,
    820,
  ];
  let kills = 0;
  // That calls ran unasked is said, too; it stops nothing.
  const loud = ({ attention }: ThreadState) => attention.some((a) => a.kind !== "hook-outage");
  const stopped = async () => loud(await w.state("tests"));
  for (const [start, end] of [
    ["batch-1", "told-1"],
    ["batch-2", "child-done"],
  ] as const) {
    w.raise(start);
    for (; kills < 20 && !existsSync(w.signal(end)) && !(await stopped()); kills += 1) {
      await Bun.sleep(moments20[kills]!); // the moment is the point of this test, not a synchronisation
      const pid = w.daemonPid();
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        continue; // it was just being replaced
      }
      await w.gone(pid);
    }
    await waitFor(
      async () => existsSync(w.signal(end)) || (await stopped()),
      60_000,
      () => `${end}\n${story(w)}`,
    );
  }
  const state = await waitFor(
    async () => {
      const now = await w.state("tests");
      const [intent] = now.intents;
      // Nothing was begun: the agent had no boundary while a daemon was there. Pending, and said so.
      const untouched =
        intent?.state === "Detected" && readFileSync(join(child, "parser.ts"), "utf8") === "v1\n";
      return intent?.state === "Acknowledged" || loud(now) || untouched ? now : null;
    },
    90_000,
    () => `an end\n${story(w)}`,
  );
  recorder.stop();
  const [intent] = state.intents;
  const parser = readFileSync(join(child, "parser.ts"), "utf8");
  // Acknowledged: files and agent moved together. Otherwise the stop says why, and the files are as they were.
  expect({ state: intent!.state, parser }).toEqual({
    state: intent!.state,
    parser: intent!.state === "Acknowledged" ? "v2\n" : "v1\n",
  });
  if (intent!.state === "RecoveryRequired") {
    // A batch that passed while nobody could be asked wrote on stale files: kept, copied, and the agent is paused.
    expect(state.summary.cascade).toBe("conflicted");
    expect(existsSync(join(child, "ran-a3"))).toBe(true);
  }
  const all = moments(log);
  const windows = spans(all, "pre_start", "pre_end").concat(spans(all, "tool_start", "tool_end"));
  // Between two denied calls of one batch the harness waits for nobody: the marker still holds everything.
  const firstDenied = Math.min(...windows.filter((s) => s.decision === "deny").map((s) => s.from));
  for (const change of recorder.changes.filter((c) => c.path === "parser.ts")) {
    expect(change.at).toBeGreaterThanOrEqual(firstDenied - CLOCK_TICK_MS);
  }
});
