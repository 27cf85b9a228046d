/** What the watcher reads of jj's operations, on the real jj: completely, cheaply, and without writing any. */
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createFsEvents } from "../../src/backends/fs-events.ts";
import type { OpId } from "../../src/core/ids.ts";
import type { Db } from "../../src/store/db.ts";
import { cascadeThread } from "../../src/store/edges.ts";
import { intentsOf, triggersOf } from "../../src/store/intents.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { frontier, unprocessedOps } from "../../src/store/ops.ts";
import { countedJj, type CountedJj } from "../support/counted-jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import { makeRig, type Rig, type RigOptions, type TestThread } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return pair;
}

/** The daemon has seen the threads being made: what it remembers of that costs no jj process later. */
async function counting(): Promise<{
  rig: Rig;
  jj: CountedJj;
  parent: TestThread;
  child: TestThread;
}> {
  let jj: CountedJj | null = null;
  const rig = await makeRig({ jjEnv: (repo) => (jj = countedJj(repo.dir, repo.env)).env });
  rigs.push(rig);
  const parent = await rig.thread("parser");
  rig.repo.write("parser.txt", "one\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  const child = await rig.thread("tests", parent);
  await rig.cascade.refreshToFrontier();
  return { rig, jj: jj!, parent, child };
}

function rowsOf(rig: Rig, op: OpId): { workspace_name: string; commit_id: string | null }[] {
  return rig.db
    .query<{ workspace_name: string; commit_id: string | null }, [string]>(
      "SELECT workspace_name, commit_id FROM op_workspace_heads WHERE op_id = ? ORDER BY workspace_name",
    )
    .all(op);
}

async function operationsOnDisk(rig: Rig): Promise<number> {
  return (
    await rig.repo.jj(["--at-op", await rig.repo.head(), "op", "log", "--no-graph", "-T", '"x\\n"'])
  )
    .split("\n")
    .filter((line) => line === "x").length;
}

test("catch-up: forty operations, half of them move a parent → at most two jj processes per operation that moves one, no operation written", async () => {
  const { rig, jj, parent, child } = await counting();
  for (let n = 0; n < 10; n += 1) {
    // Amend, describe in place, a bookmark, and a revision on top: two of four move the parent's `@`.
    rig.repo.write("parser.txt", `version ${n}\n`, parent.path);
    await rig.repo.jj(["status"], parent.path);
    await rig.repo.jj(["bookmark", "set", "-B", "mark", "-r", `root()+`], parent.path);
    await rig.repo.jj(["new", "-m", `step ${n}`], parent.path);
    await rig.repo.jj(["bookmark", "set", "-B", "mark", "-r", "@-"], parent.path);
  }
  const known = await operationsOnDisk(rig);
  const head = await rig.repo.head();
  jj.reset();
  await rig.cascade.refreshToFrontier();
  const calls = jj.calls();
  expect(await rig.repo.head()).toBe(head);
  expect(await operationsOnDisk(rig)).toBe(known);
  expect(unprocessedOps(rig.db)).toEqual([]);
  expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([["ParentAdvance", "Detected"]]);
  const triggers = triggersOf(rig.db, rig.intents(child)[0]!.intentId);
  expect(triggers.length).toBeGreaterThanOrEqual(20);
  // The log, the heads and the bookmarks are read for all of them together.
  expect(calls.length).toBeLessThanOrEqual(2 * triggers.length + 6);
  expect(calls.filter((c) => c.includes(" op log "))).toHaveLength(1);
  expect(calls.filter((c) => c.includes(" workspace list "))).toHaveLength(0);
  // kiki's own reading is pure: an exact operation in every call.
  for (const call of calls) expect(call).toMatch(/ --at-op [0-9a-f]{128} /);
});

test("catch-up: operations that move no parent → the same few jj processes, however many they are", async () => {
  const { rig, jj, child } = await counting();
  const cost = async (operations: number): Promise<number> => {
    for (let n = 0; n < operations; n += 1)
      await rig.repo.jj(["describe", "-m", `words ${operations} ${n}`]);
    jj.reset();
    await rig.cascade.refreshToFrontier();
    return jj.calls().length;
  };
  const few = await cost(3);
  expect(await cost(40)).toBe(few);
  expect(few).toBeLessThanOrEqual(4);
  expect(rig.intents(child)).toEqual([]);
});

test("one operation that rewrites a parent with its child → the log, the bookmarks and one read of commits, then durable", async () => {
  const { rig, jj, parent, child } = await counting();
  for (const words of ["first", "second"]) {
    await rig.repo.jj(["describe", "-m", words], parent.path);
    jj.reset();
    await rig.cascade.refreshToFrontier();
    const kinds = jj.calls().map((call) => / (op log|bookmark list|log) /.exec(call)?.[1] ?? call);
    expect(kinds.sort()).toEqual(["bookmark list", "log", "op log"]);
    const [intent] = rig.intents(child);
    expect([intent!.state, intent!.toBase]).toEqual(["Detected", await rig.head(parent)]);
  }
});

test("catch-up: the same operations one by one, or all at once after a boot → the same intents, triggers and heads", async () => {
  const { rig, parent, child } = await family();
  const grandchild = await rig.thread("docs", child);
  await rig.cascade.refreshToFrontier();
  const copy = join(rig.stateDir, "copy.db");
  rig.db.query("VACUUM INTO $copy").run({ copy });
  const steps = [
    () => rig.repo.jj(["describe", "-m", "reworded"], parent.path),
    () => rig.repo.jj(["new", "-m", "on top"], parent.path),
    () => rig.repo.jj(["describe", "-m", "child reworded", "-r", "kk-tests@"]),
    () => rig.repo.jj(["describe", "-m", "base reworded", "-r", "kk-parser@-"]),
    () => rig.repo.jj(["new", "-m", "again"], parent.path),
  ];
  for (const step of steps) {
    await step();
    await rig.cascade.refreshToFrontier();
  }
  const behind = openRepoDb(copy);
  const boot = rig.cascadeOn(behind);
  await boot.start();
  const state = (db: Db): unknown => ({
    intents: [child, grandchild].map((t) =>
      intentsOf(db, t.id).map((i) => [
        i.kind,
        i.state,
        i.fromBase,
        i.toBase,
        i.reason,
        triggersOf(db, i.intentId),
      ]),
    ),
    heads: db.query("SELECT thread_id, thread_head_commit_id FROM threads ORDER BY 1").all(),
    recorded: db.query("SELECT * FROM op_workspace_heads ORDER BY 1, 2").all(),
    frontier: frontier(db),
  });
  expect(state(behind)).toEqual(state(rig.db));
  expect(intentsOf(behind, child.id)).toHaveLength(1);
  await boot.stop();
  behind.close();
});

test("workspace add: read between its two operations → the first moves no thread and no edge", async () => {
  let between: OpId | null = null;
  const { rig, parent, child } = await family({
    wrapJj: (jj) => ({
      ...jj,
      heads: async () => (between === null ? jj.heads() : [between]),
    }),
  });
  // A workspace of a thread kiki knows comes back: the person forgot it and adds it again.
  const added = join(rig.repo.dir, "again");
  await rig.repo.jj(["workspace", "add", "--name", "visitor", "-r", "kk-parser@", added]);
  const [created, half] = await rig.jj.operations(await rig.repo.head(), 2);
  expect(half!.description).toBe("add workspace 'visitor'");
  const temporary = (await rig.jj.workspaces(half!.id)).find((w) => w.workspace === "visitor")!;
  expect(temporary.parents).toEqual(["0".repeat(40)]);
  rig.db
    .query("UPDATE threads SET workspace_name = 'visitor' WHERE thread_id = $id")
    .run({ id: parent.id });
  const headOf = (thread: TestThread): string | null =>
    cascadeThread(rig.db, thread.id)?.head ?? null;
  const before = headOf(parent);

  between = half!.id;
  await rig.cascade.refreshToFrontier();
  expect(frontier(rig.db)).toEqual([half!.id]);
  // History says what the view shows; nothing is concluded from it.
  expect(rowsOf(rig, half!.id)).toContainEqual({
    workspace_name: "visitor",
    commit_id: temporary.commitId,
  });
  expect(headOf(parent)).toBe(before);
  expect(rig.intents(child)).toEqual([]);

  between = null;
  await rig.cascade.refreshToFrontier();
  const head = await rig.jj.workspaces(created!.id);
  const visitor = head.find((w) => w.workspace === "visitor")!;
  expect(rowsOf(rig, created!.id)).toContainEqual({
    workspace_name: "visitor",
    commit_id: visitor.commitId,
  });
  expect(headOf(parent)).toBe(visitor.commitId);
});

test("heads: a listing still shows the operation the newest one replaced → the frontier is the newest alone, nothing diverges", async () => {
  let old: OpId | null = null;
  const { rig, parent, child } = await family({
    wrapJj: (jj) => ({
      ...jj,
      heads: async () => [...(await jj.heads()), ...(old === null ? [] : [old])].sort(),
    }),
  });
  old = await rig.repo.head();
  await rig.repo.jj(["describe", "-m", "reworded"], parent.path);
  await rig.cascade.refreshToFrontier();
  expect(frontier(rig.db)).toEqual([await rig.repo.head()]);
  expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([["NativeRewrite", "Detected"]]);
});

test("merge of operations: both sides moved the parent to changes of their own → TopologyDiverged, with the operation and both heads kept as evidence", async () => {
  const { rig, parent, child } = await family();
  const at = await rig.repo.head();
  const mine = await rig.head(parent);
  for (const side of ["left", "right"])
    await rig.repo.jj([`--at-op=${at}`, "new", "-m", side, mine], parent.path);
  expect(await rig.jj.heads()).toHaveLength(2);
  await rig.repo.jj(["log"]); // the person's next command merges them
  const [merge] = await rig.cascade.refreshToFrontier();
  const diverged = rig.intents(child).find((i) => i.state === "TopologyDiverged")!;
  expect(diverged.reason).toBe("IncoherentViews");
  const row = rig.db
    .query<{ evidence_json: string }, [string]>(
      "SELECT evidence_json FROM sync_intents WHERE intent_id = ?",
    )
    .get(diverged.intentId)!;
  expect(JSON.parse(row.evidence_json)).toEqual({
    op: merge,
    parentAfter: await rig.head(parent),
    childAfter: await rig.head(child),
  });
  expect(rig.attention(child).join()).toContain("IncoherentViews");
  // Whatever the parent does next waits with it.
  await rig.repo.jj(["workspace", "update-stale"], parent.path);
  await rig.repo.jj(["describe", "-m", "later"], parent.path);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child).filter((i) => i.state === "TopologyDiverged")).toHaveLength(1);
  expect(rig.intents(child).filter((i) => i.state === "Detected")).toEqual([]);
});

test("bookmarks: created, moved backward, deleted, a person's own on the parent → no intent, whatever they point at", async () => {
  const { rig, parent, child } = await family();
  for (const args of [
    ["bookmark", "create", "wip", "-r", "kk-parser@"],
    ["bookmark", "set", "wip", "-B", "-r", "root()+"],
    ["bookmark", "set", "kk/parser", "-B", "-r", "root()+"],
    ["bookmark", "set", "kk/tests", "-B", "-r", "kk-parser@"],
    ["bookmark", "delete", "wip"],
  ])
    await rig.repo.jj(args);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child)).toEqual([]);
  expect(rig.intents(parent)).toEqual([]);
  expect(unprocessedOps(rig.db)).toEqual([]);
});

test("file events on the real machine: a person's command → its intent is durable without anybody asking", async () => {
  const { rig, parent, child } = await family({ fsEvents: createFsEvents() });
  expect(rig.cascade.watching().events).toBe(true);
  await rig.repo.jj(["describe", "-m", "reworded"], parent.path);
  await waitFor(() => rig.intents(child).length === 1, 20_000, "the intent");
  const head = await rig.repo.head();
  await waitFor(() => frontier(rig.db).join() === head, 20_000, "the frontier");
});

test("polled ten times a second while two agents commit → every operation is a command of theirs, none is by reading", async () => {
  let polls = 0;
  const { rig, parent, child } = await family({
    settings: { pollMs: 500 }, // without file events five times as often
    wrapJj: (jj) => ({
      ...jj,
      heads() {
        polls += 1;
        return jj.heads();
      },
    }),
  });
  const other = await rig.thread("docs");
  await rig.cascade.refreshToFrontier();
  const known = await idsOf(rig);
  polls = 0;
  const COMMITS = 12;
  const work = async (thread: TestThread): Promise<void> => {
    for (let n = 0; n < COMMITS; n += 1) {
      rig.repo.write(`${thread.name}.txt`, `${n}\n`, thread.path);
      await rig.repo.jj(["commit", "--quiet", "-m", `${thread.name} ${n}`], thread.path);
    }
  };
  await Promise.all([work(parent), work(other)]);
  // Whoever uses jj next merges what ran side by side.
  await rig.repo.jj(["log", "--ignore-working-copy"]);
  await waitFor(() => unprocessedOps(rig.db).length === 0 && polls > 2 * COMMITS, 60_000, "read");
  await rig.cascade.refreshToFrontier();
  const made = (await rig.jj.operations(await rig.repo.head(), 10_000)).filter(
    (op) => !known.has(op.id),
  );
  expect(made.filter((op) => op.args.includes("operation.username=kiki"))).toEqual([]);
  // Of each commit its snapshot and itself; what is beside that is a merge of two commands at once.
  const own = made.filter((op) => op.parents.length === 1);
  expect(own.filter((op) => op.args.includes("commit --quiet"))).toHaveLength(4 * COMMITS);
  expect(own).toHaveLength(4 * COMMITS);
  expect(rig.intents(child).map((i) => i.state)).toEqual(["Detected"]);
});

async function idsOf(rig: Rig): Promise<Set<OpId>> {
  const ops = await rig.jj.operations(await rig.repo.head(), 10_000);
  return new Set(ops.map((op) => op.id));
}
