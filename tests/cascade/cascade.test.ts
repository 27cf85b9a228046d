import { join } from "node:path";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { triggersOf } from "../../src/store/intents.ts";
import { frontier, parentsOf, unprocessedOps } from "../../src/store/ops.ts";
import { holdLock } from "../support/hold-lock.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig, TestThread, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** A parent with one file of its own and a child that follows it, both at rest and known to the watcher. */
async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return pair;
}

/** The parent amends its revision: jj rebases the child's commit, the child's files go stale. */
async function amend(rig: Rig, parent: TestThread, text: string): Promise<void> {
  rig.repo.write("parser.txt", text, parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
}

/** The parent starts a new revision with one more file. */
async function advance(rig: Rig, parent: TestThread, file: string): Promise<void> {
  await rig.repo.jj(["new", "-m", `adds ${file}`], parent.path);
  rig.repo.write(file, `${file}\n`, parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
}

describe.each([{ colocated: false }, { colocated: true }])(
  "cascade on real jj, colocated $colocated",
  (kind) => {
    test("native rewrite: parent amends → child blocked once, files current, acknowledged by a later turn", async () => {
      const { rig, parent, child } = await family(kind);
      const agent = rig.agent(child);
      expect((await agent.batch())[0]!.text).toBeNull();
      await amend(rig, parent, "two\n");
      expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([
        ["NativeRewrite", "Detected"],
      ]);
      expect(rig.file(child, "parser.txt")).toBe("one\n");

      const answers = await Promise.all([agent.call(), agent.call(), agent.call()]);
      const payload = answers[0]!.text!;
      expect(payload).toStartWith("[kiki]");
      expect(payload).toContain("M parser.txt");
      expect(payload).toContain("+two");
      for (const a of answers) expect(a.text).toBe(payload);
      expect(rig.file(child, "parser.txt")).toBe("two\n");
      expect(rig.intents(child)[0]).toMatchObject({
        state: "Delivered",
        payload,
        softRedeliveryCount: 0,
      });
      expect(rig.barrier(child)).toBe(true);

      await agent.close(answers);
      expect(rig.intents(child)[0]).toMatchObject({ state: "Delivered", receipt: "matching" });
      expect((await agent.call()).text).toBeNull();
      expect(rig.intents(child)[0]!.state).toBe("Acknowledged");
      expect(rig.barrier(child)).toBe(false);
      expect(rig.intents(child)[0]!.resultCommit).toBe(await rig.head(child));
    });

    test("parent advance: parent adds a revision → exactly the child's chain is rebased, staged and integrated", async () => {
      const { rig, parent, child } = await family(kind);
      rig.repo.write("tests.txt", "t1\n", child.path);
      await rig.repo.jj(["commit", "-m", "first test"], child.path);
      await rig.cascade.refreshToFrontier();
      const before = await rig.head(child);
      await advance(rig, parent, "lexer.txt");
      expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([
        ["ParentAdvance", "Detected"],
      ]);

      const [answer] = await rig.agent(child).batch();
      expect(answer!.text).toContain("A lexer.txt");
      expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
      expect(rig.file(child, "tests.txt")).toBe("t1\n");
      const head = await rig.head(child);
      expect(head).not.toBe(before);
      const parentHead = await rig.head(parent);
      const chain = await rig.repo.jj([
        "log",
        "--no-graph",
        "--ignore-working-copy",
        "-r",
        `${parentHead}..${head}`,
        "-T",
        'description.first_line() ++ "\\n"',
      ]);
      expect(chain).toBe("\nfirst test\n");
      const row = rig.db.query("SELECT * FROM threads WHERE thread_id = ?").get(child.id);
      expect(row).toMatchObject({
        thread_head_commit_id: head,
        owned_stack_base_commit_id: parentHead,
      });
      if (kind.colocated) {
        // git users see the same: HEAD is the parent of the working copy.
        const at = await rig.repo.git(["rev-parse", "HEAD"], child.path);
        expect(at.trim()).toBe(await rig.repo.commit(`${head}-`));
      }
      // Nothing about the parent's own workspace changed.
      expect(await rig.repo.jj(["status"], parent.path)).toContain("A lexer.txt");
    });

    test("unrecorded edits of an agent that never runs jj, parent adds a revision → edits are recorded and kept", async () => {
      const { rig, parent, child } = await family(kind);
      rig.repo.write("tests.txt", "not recorded yet\n", child.path);
      await advance(rig, parent, "lexer.txt");
      const [answer] = await rig.agent(child).batch();
      expect(answer!.text).toContain("recorded your unrecorded edits");
      expect(rig.file(child, "tests.txt")).toBe("not recorded yet\n");
      expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
    });
  },
);

test("person ran update-stale in the child → no second update, the agent still learns of it", async () => {
  const { rig, parent, child } = await family();
  await amend(rig, parent, "two\n");
  await rig.repo.jj(["workspace", "update-stale"], child.path);
  const head = await rig.repo.head();
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toContain("already in place");
  expect(await rig.repo.head()).toBe(head);
});

test("several parent moves before the first boundary → one intent, one delivery, every operation a trigger", async () => {
  const { rig, parent, child } = await family();
  await amend(rig, parent, "two\n");
  await amend(rig, parent, "three\n");
  await advance(rig, parent, "lexer.txt");
  const [intent, ...more] = rig.intents(child);
  expect(more).toEqual([]);
  expect(intent).toMatchObject({ state: "Detected", kind: "ParentAdvance" });
  const triggers = triggersOf(rig.db, intent!.intentId);
  expect(triggers.length).toBeGreaterThanOrEqual(3);
  expect(new Set(triggers.map((t) => t.op)).size).toBe(triggers.length);
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toContain("M parser.txt");
  expect(answer!.text).toContain("A lexer.txt");
  expect(rig.file(child, "parser.txt")).toBe("three\n");
  expect((await rig.agent(child).batch())[0]!.text).toBeNull();
  expect(rig.intents(child).map((i) => i.state)).toEqual(["Acknowledged"]);
});

test("A→B→C: one amend of A → B and C each get their own intent and materialise at their own boundary", async () => {
  const { rig, parent: a, child: b } = await family();
  const c = await rig.thread("docs", b);
  await amend(rig, a, "two\n");
  expect(rig.intents(b).map((i) => i.kind)).toEqual(["NativeRewrite"]);
  expect(rig.intents(c).map((i) => i.kind)).toEqual(["NativeRewrite"]);
  await rig.agent(c).batch();
  expect(rig.file(c, "parser.txt")).toBe("two\n");
  expect(rig.file(b, "parser.txt")).toBe("one\n");
  await rig.agent(b).batch();
  expect(rig.file(b, "parser.txt")).toBe("two\n");
});

test("A→B→C: advance of B by kiki → C's intent is recorded by the reconciliation although the watcher skips its operation", async () => {
  const { rig, parent: a, child: b } = await family();
  const c = await rig.thread("docs", b);
  await advance(rig, a, "lexer.txt");
  expect(rig.intents(c)).toEqual([]);
  await rig.agent(b).batch();
  expect(rig.intents(c).map((i) => [i.kind, i.state])).toEqual([["NativeRewrite", "Detected"]]);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(c)).toHaveLength(1);
  await rig.agent(c).batch();
  expect(rig.file(c, "lexer.txt")).toBe("lexer.txt\n");
});

test("conflict between parent and child → delivered with the conflicted path named", async () => {
  const { rig, parent, child } = await family();
  rig.repo.write("parser.txt", "child's version\n", child.path);
  await rig.repo.jj(["status"], child.path);
  await amend(rig, parent, "parent's version\n");
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toContain("Conflicts");
  expect(answer!.text).toContain("parser.txt");
  expect(rig.file(child, "parser.txt")).toContain("<<<<<<<");
});

test("parent goes backward → TopologyDiverged, loud, calls pass, no file changes", async () => {
  const { rig, parent, child } = await family();
  await advance(rig, parent, "lexer.txt");
  await rig.agent(child).batch();
  await rig.agent(child).batch();
  await rig.repo.jj(["edit", "@-"], parent.path);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child).at(-1)).toMatchObject({
    state: "TopologyDiverged",
    reason: "ParentMovedBackward",
  });
  expect((await rig.agent(child).batch())[0]!.text).toBeNull();
  expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
  expect(rig.attention(child)).toHaveLength(1);
});

test("parent squashes its revision into the one below → the child's chain is rebased onto its new head", async () => {
  const { rig, parent, child } = await family();
  await advance(rig, parent, "lexer.txt");
  await rig.agent(child).batch();
  await rig.agent(child).batch();
  rig.repo.write("tests.txt", "t1\n", child.path);
  await rig.repo.jj(["describe", "-m", "a test"], child.path);
  // The usual jj way: work in an empty revision on top, then squash it down.
  await rig.repo.jj(["squash", "-u"], parent.path);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child).at(-1)).toMatchObject({ state: "Detected", kind: "ParentAdvance" });
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toBe(rig.intents(child).at(-1)!.payload);
  expect(rig.intents(child).at(-1)!.state).toBe("Delivered");
  expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
  expect(rig.file(child, "tests.txt")).toBe("t1\n");
  const chain = `${await rig.head(parent)}..${await rig.head(child)}`;
  expect(
    await rig.repo.jj([
      "log",
      "--no-graph",
      "--ignore-working-copy",
      "-r",
      chain,
      "-T",
      "description",
    ]),
  ).toBe("a test\n");
});

test("parent abandons its revision → TopologyDiverged, the child's files are not touched", async () => {
  const { rig, parent, child } = await family();
  await advance(rig, parent, "lexer.txt");
  await rig.agent(child).batch();
  await rig.agent(child).batch();
  await rig.repo.jj(["abandon"], parent.path);
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child).at(-1)!.state).toBe("TopologyDiverged");
  expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
  expect((await rig.agent(child).batch())[0]!.text).toBeNull();
});

test("two operation heads → all interpreted; merged at the next boundary, every parent edge kept, one intent, told there", async () => {
  const { rig, parent, child } = await family();
  const at = await rig.repo.head();
  const parentHead = await rig.head(parent);
  // Two commands that started from the same operation: neither saw the other.
  await rig.repo.jj([`--at-op=${at}`, "describe", "-m", "reworded", "-r", parentHead]);
  await rig.repo.jj([`--at-op=${at}`, "bookmark", "create", "elsewhere", "-r", "root()+"]);
  const heads = await rig.jj.heads();
  expect(heads).toHaveLength(2);
  expect(await rig.cascade.refreshToFrontier()).toEqual(heads);
  expect(frontier(rig.db)).toEqual(heads);
  expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([["NativeRewrite", "Detected"]]);
  // No operation is written by looking.
  expect(await rig.jj.heads()).toEqual(heads);

  // Whoever brings files up to date needs one view, and nobody else has merged them for a while.
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toContain("reworded");
  const [newest] = await rig.cascade.refreshToFrontier();
  expect(frontier(rig.db)).toEqual([newest!]);
  expect(unprocessedOps(rig.db)).toEqual([]);
  expect(rig.intents(child)).toHaveLength(1);
  const merged = rig.db
    .query<{ op: string }, [string]>(
      "SELECT op_id AS op FROM op_history_parents WHERE parent_op_id = ?",
    )
    .all(heads[0]!);
  expect(merged.map(({ op }) => parentsOf(rig.db, op))).toEqual([heads]);
});

test("operation storm: thirty amends read at once → one intent, one delivery, no operation authored by reading", async () => {
  const { rig, parent, child } = await family();
  for (let n = 0; n < 30; n += 1) {
    rig.repo.write("parser.txt", `version ${n}\n`, parent.path);
    await rig.repo.jj(["status"], parent.path);
  }
  const before = await rig.repo.head();
  await rig.cascade.refreshToFrontier();
  expect(await rig.repo.head()).toBe(before);
  expect(rig.intents(child)).toHaveLength(1);
  expect(triggersOf(rig.db, rig.intents(child)[0]!.intentId)).toHaveLength(30);
  await rig.agent(child).batch();
  expect(rig.file(child, "parser.txt")).toBe("version 29\n");
  expect((await rig.agent(child).batch())[0]!.text).toBeNull();
  expect(rig.intents(child).map((i) => i.state)).toEqual(["Acknowledged"]);
});

test("person's jj command runs in the child at the boundary → waited for, then delivered, no recovery", async () => {
  const { rig, parent, child } = await family();
  await amend(rig, parent, "two\n");
  // jj's working-copy lock, held the way a running jj command holds it.
  const lock = await holdLock(join(child.path, ".jj/working_copy/working_copy.lock"));
  const answer = rig.agent(child).call();
  const held = await Promise.race([
    answer.then(() => "answered"),
    Bun.sleep(700).then(() => "held"),
  ]);
  expect(held).toBe("held");
  expect(rig.file(child, "parser.txt")).toBe("one\n");
  await lock.release();
  expect((await answer).text).toBe(rig.intents(child)[0]!.payload);
  expect(rig.intents(child)[0]!.state).toBe("Delivered");
});

test("writer that never pauses → a refresh ends all the same, with one complete view; nothing is missed afterwards", async () => {
  const { rig, parent, child } = await family();
  let writing = true;
  let written = 0;
  const writer = (async () => {
    for (; writing; written += 1) {
      await rig.repo.jj(["describe", "-m", `version ${written}`], parent.path);
    }
  })();
  await waitFor(() => written > 1, 20_000, "a writer at work");
  const view = await Promise.race([
    rig.cascade.refreshToFrontier(),
    Bun.sleep(30_000).then(() => "never came back"),
  ]);
  expect(view).toEqual(frontier(rig.db));
  writing = false;
  await writer;
  await rig.cascade.refreshToFrontier();
  expect(frontier(rig.db)).toEqual(await rig.jj.heads());
  expect(rig.intents(child)).toHaveLength(1);
  await rig.agent(child).batch();
  await rig.agent(child).batch();
  expect(rig.intents(child).map((i) => i.state)).toEqual(["Acknowledged"]);
});
