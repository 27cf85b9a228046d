/**
 * An agent that runs `jj undo`, `jj op restore`, `jj op revert` or `jj abandon` on another thread's work, before and after
 * its own thread, or the other one, has followed: on real jj. jj itself refuses some of it, which is asserted as well.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { CommandResult } from "../support/jj-repo.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair } from "./pair.ts";
import type { Rig, TestThread } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Family {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  /** Newest operation before the child was made, before the parent moved, and the parent's move itself. */
  beforeChild: string;
  beforeMove: string;
  move: string;
}

type How = "amends" | "adds a revision";

/** The parent has moved; `told`: the child has followed and acknowledged it. */
async function family(how: How, told: boolean): Promise<Family> {
  const { rig, parent, child, beforeChild } = await makePair({
    own: { "tests.txt": "recorded\n" },
  });
  rigs.push(rig);
  const beforeMove = await rig.repo.head();
  if (how === "amends") {
    rig.repo.write("parser.txt", "two\n", parent.path);
    await rig.repo.jj(["status"], parent.path);
  } else await rig.repo.jj(["new", "-m", "lexer"], parent.path);
  const move = await rig.repo.head();
  await rig.cascade.refreshToFrontier();
  if (told) {
    await rig.agent(child).batch();
    await rig.agent(child).batch();
    expect(rig.intents(child).map((i) => i.state)).toEqual(["Acknowledged"]);
  }
  return { rig, parent, child, beforeChild, beforeMove, move };
}

const FILES = ["parser.txt", "tests.txt", "late.txt"];
const filesOf = (f: Family) => FILES.map((file) => f.rig.file(f.child, file));

/** Loud once, no file changed by kiki, the agent's calls pass, also after a restart of the daemon. */
async function expectDiverged(f: Family, reason: string, says: string): Promise<void> {
  const { rig, child } = f;
  const [files, earlier] = [
    filesOf(f),
    rig.intents(child).filter((i) => i.state === "Acknowledged"),
  ];
  await rig.cascade.refreshToFrontier();
  const head = await rig.repo.head();
  expect(rig.intents(child).at(-1)).toMatchObject({ state: "TopologyDiverged", reason });
  for (let n = 0; n < 2; n += 1) expect((await rig.agent(child).batch())[0]!.text).toBeNull();
  await rig.reboot();
  expect((await rig.agent(child).batch())[0]!.text).toBeNull();
  expect(rig.intents(child)).toHaveLength(earlier.length + 1);
  expect(filesOf(f)).toEqual(files);
  expect(await rig.repo.head()).toBe(head);
  expect(rig.attention(child)).toHaveLength(1);
  expect(rig.attention(child)[0]).toContain(says);
  expect(rig.attention(child)[0]).toContain("kiki changed no file");
}

/** Nothing happened: whatever was to be told is told, nothing else. */
async function expectRefused(f: Family, result: CommandResult, why: string): Promise<void> {
  expect(result.code).toBe(1);
  expect(result.stderr).toContain(why);
  const waiting = f.rig.intents(f.child).filter((i) => i.state === "Detected").length;
  await f.rig.cascade.refreshToFrontier();
  const [answer] = await f.rig.agent(f.child).batch();
  expect(answer!.text === null).toBe(waiting === 0);
  await f.rig.agent(f.child).batch();
  expect(f.rig.intents(f.child).map((i) => i.state)).toEqual(["Acknowledged"]);
  expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\n");
  expect(f.rig.attention(f.child)).toEqual([]);
}

const PARENT = "parser moved in a way kiki does not follow";
const CHILD = "the revision of tests was taken away";

/** Each command once, and each situation: what of their combinations the default suite has. */
const ALWAYS: readonly string[] = [
  "adds a revision, false: op revert <the move>",
  "adds a revision, true: abandon kk-parser@",
  "amends, true: op restore <before>",
  "amends, false: undo --allow-cross-workspace --ignore-working-copy",
];

describe("the child's agent takes back what the parent did", () => {
  for (const [how, told, run, reason] of [
    [
      "adds a revision",
      false,
      (f: Family) => ["op", "restore", f.beforeMove],
      "ParentMovedBackward",
    ],
    ["adds a revision", false, (f: Family) => ["op", "revert", f.move], "ParentMovedBackward"],
    ["adds a revision", false, () => ["abandon", "kk-parser@"], "ParentAbandoned"],
    [
      "adds a revision",
      true,
      (f: Family) => ["op", "restore", f.beforeMove],
      "ParentMovedBackward",
    ],
    ["adds a revision", true, (f: Family) => ["op", "revert", f.move], "ParentMovedBackward"],
    ["adds a revision", true, () => ["abandon", "kk-parser@"], "ParentAbandoned"],
    ["amends", true, (f: Family) => ["op", "restore", f.beforeMove], "ParentMovedBackward"],
    ["amends", true, (f: Family) => ["op", "revert", f.move], "ParentMovedBackward"],
    ["amends", true, () => ["abandon", "kk-parser@"], "ParentAbandoned"],
    [
      "amends",
      false,
      (f: Family) => ["op", "restore", f.beforeMove, "--ignore-working-copy"],
      "ParentMovedBackward",
    ],
    [
      "amends",
      false,
      () => ["undo", "--allow-cross-workspace", "--ignore-working-copy"],
      "ParentMovedBackward",
    ],
  ] as const) {
    const words = run({ beforeMove: "<before>", move: "<the move>" } as Family).join(" ");
    (ALWAYS.includes(`${how}, ${told}: ${words}`) ? test : thorough)(
      `parent ${how}, ${told ? "the child was told" : "not yet told"}: jj ${words} → TopologyDiverged, loud, no file changed by kiki`,
      async () => {
        const f = await family(how, told);
        await f.rig.repo.jj([...run(f)], f.child.path);
        await expectDiverged(f, reason, PARENT);
      },
    );
  }
});

describe("another thread's revision is taken away", () => {
  for (const how of ["amends", "adds a revision"] as const) {
    for (const told of [false, true]) {
      for (const dirty of [false, true]) {
        const at = how === "amends" && told && dirty ? test : thorough;
        at(
          `parent ${how}, ${told ? "the child was told" : "not yet told"}, ${dirty ? "unrecorded edits" : "all recorded"}: the parent's agent abandons the child's revision → TopologyDiverged, every file stays`,
          async () => {
            const f = await family(how, told);
            if (dirty) f.rig.repo.write("late.txt", "not recorded\n", f.child.path);
            await f.rig.repo.jj(["abandon", "kk-tests@"], f.parent.path);
            await expectDiverged(f, "ChildAbandoned", CHILD);
            expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\n");
            expect(f.rig.file(f.child, "late.txt")).toBe(dirty ? "not recorded\n" : null);
          },
        );
      }
      const restores = how === "amends" || told ? thorough : test;
      restores(
        `parent ${how}, ${told ? "the child was told" : "not yet told"}: the parent's agent restores an operation from before the child → TopologyDiverged, every file stays`,
        async () => {
          const f = await family(how, told);
          f.rig.repo.write("late.txt", "not recorded\n", f.child.path);
          await f.rig.repo.jj(["op", "restore", f.beforeChild], f.parent.path);
          await expectDiverged(f, "ChildAbandoned", CHILD);
          expect(f.rig.file(f.child, "late.txt")).toBe("not recorded\n");
        },
      );
    }
  }

  test("the parent's agent restores an operation from before what the child recorded since → TopologyDiverged, the child's files stay", async () => {
    const f = await family("amends", true);
    f.rig.repo.write("tests.txt", "recorded later\n", f.child.path);
    await f.rig.repo.jj(["status"], f.child.path);
    await f.rig.cascade.refreshToFrontier();
    await f.rig.repo.jj(["op", "restore", f.beforeMove], f.parent.path);
    await expectDiverged(f, "ChildAbandoned", CHILD);
    expect(f.rig.file(f.child, "tests.txt")).toBe("recorded later\n");
  });

  test("a sibling's agent abandons the child's revision, the parent has not moved → TopologyDiverged at once", async () => {
    const f = await family("amends", true);
    const sibling = await f.rig.thread("docs", f.parent);
    await f.rig.cascade.refreshToFrontier();
    await f.rig.repo.jj(["abandon", "kk-tests@"], sibling.path);
    await expectDiverged(f, "ChildAbandoned", CHILD);
    expect(f.rig.intents(sibling)).toEqual([]);
  });

  thorough(
    "a person abandons the child's revision in the main workspace, then the parent moves → TopologyDiverged at the boundary, every file stays",
    async () => {
      const f = await family("amends", true);
      await f.rig.repo.jj(["abandon", "kk-tests@"]);
      f.rig.repo.write("parser.txt", "three\n", f.parent.path);
      await f.rig.repo.jj(["status"], f.parent.path);
      await f.rig.cascade.refreshToFrontier();
      const files = filesOf(f);
      expect((await f.rig.agent(f.child).batch())[0]!.text).toContain("did not run");
      expect(f.rig.intents(f.child).at(-1)).toMatchObject({
        state: "TopologyDiverged",
        reason: "ChildAbandoned",
      });
      expect((await f.rig.agent(f.child).batch())[0]!.text).toBeNull();
      expect(filesOf(f)).toEqual(files);
      expect(f.rig.attention(f.child)).toHaveLength(1);
    },
  );

  test("a person squashes the child's revision into the parent's → followed, nothing is gone", async () => {
    const f = await family("amends", true);
    await f.rig.repo.jj(["squash", "--from", "kk-tests@", "--into", "kk-parser@", "-u"]);
    await f.rig.cascade.refreshToFrontier();
    await f.rig.agent(f.child).batch();
    expect(f.rig.intents(f.child).at(-1)!.state).toBe("Delivered");
    expect(filesOf(f)).toEqual(["two\n", "recorded\n", null]);
    expect(f.rig.attention(f.child)).toEqual([]);
  });
});

describe("jj refuses by itself", () => {
  test("child not yet told of an amendment: jj undo, op revert, op restore, abandon → its workspace is stale; told as ever", async () => {
    const f = await family("amends", false);
    for (const args of [["undo"], ["op", "revert", f.move], ["op", "restore", f.beforeMove]])
      expect((await f.rig.repo.tryJj(args, f.child.path)).stderr).toContain("is stale");
    const last = await f.rig.repo.tryJj(["abandon", "kk-parser@"], f.child.path);
    await expectRefused(f, last, "is stale");
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
  });

  test("jj undo of what another workspace did, the parent's or kiki's → refused; told as ever", async () => {
    const f = await family("adds a revision", false);
    const result = await f.rig.repo.tryJj(["undo"], f.child.path);
    await expectRefused(f, result, "performed in workspace kk-parser");
    // Now the newest operation is kiki's own.
    for (const where of [f.child, f.parent])
      expect((await f.rig.repo.tryJj(["undo"], where.path)).stderr).toContain(
        "performed in workspace kiki-neutral",
      );
  });
});

describe("a thread takes back what it did itself", () => {
  for (const how of ["amends", "adds a revision"] as const) {
    (how === "amends" ? test : thorough)(
      `parent ${how} and undoes it before the child was told → nothing left to tell, no file changed`,
      async () => {
        const f = await family(how, false);
        f.rig.repo.write("late.txt", "not recorded\n", f.child.path);
        await f.rig.repo.jj(["undo"], f.parent.path);
        await f.rig.cascade.refreshToFrontier();
        expect(f.rig.intents(f.child).map((i) => i.state)).toEqual(["Superseded"]);
        expect((await f.rig.agent(f.child).batch())[0]!.text).toBeNull();
        expect(filesOf(f)).toEqual(["one\n", "recorded\n", "not recorded\n"]);
        expect(f.rig.attention(f.child)).toEqual([]);
      },
    );
  }

  test("parent amends, the child is told, the parent undoes it → the child is told of that, too", async () => {
    const f = await family("amends", true);
    await f.rig.repo.jj(["undo"], f.parent.path);
    await f.rig.cascade.refreshToFrontier();
    const [answer] = await f.rig.agent(f.child).batch();
    expect(answer!.text).toContain("-two\n");
    expect(answer!.text).toContain("+one\n");
    expect(filesOf(f)).toEqual(["one\n", "recorded\n", null]);
    expect(f.rig.attention(f.child)).toEqual([]);
  });

  test("the same with unrecorded edits of the child's → told of that, the edits in its files and in the bundle", async () => {
    const f = await family("amends", true);
    f.rig.repo.write("late.txt", "not recorded\n", f.child.path);
    await f.rig.repo.jj(["undo"], f.parent.path);
    await f.rig.cascade.refreshToFrontier();
    const [answer] = await f.rig.agent(f.child).batch();
    const intent = f.rig.intents(f.child).at(-1)!;
    expect(answer!.text).toBe(intent.payload);
    expect(answer!.text).toContain("+one\n");
    expect(filesOf(f)).toEqual(["one\n", "recorded\n", "not recorded\n"]);
    expect(await Bun.file(`${intent.recoveryBundle}/files/late.txt`).text()).toBe("not recorded\n");
    expect(await f.rig.repo.commit("divergent()")).toBe("");
    expect(f.rig.attention(f.child)).toEqual([]);
  });

  test("the child's agent undoes kiki's rebase of its own revision → its own doing; with the parent's next move TopologyDiverged", async () => {
    const f = await family("adds a revision", true);
    await f.rig.repo.jj(["undo", "--allow-cross-workspace"], f.child.path);
    await f.rig.cascade.refreshToFrontier();
    expect(f.rig.intents(f.child).map((i) => i.state)).toEqual(["Acknowledged"]);
    f.rig.repo.write("lexer.txt", "lexer\n", f.parent.path);
    await f.rig.repo.jj(["status"], f.parent.path);
    await expectDiverged(f, "AnchorNotInChild", PARENT);
  });

  test("parent adds a revision, the child is told, the parent restores the operation before it → TopologyDiverged", async () => {
    const f = await family("adds a revision", true);
    await f.rig.repo.jj(["op", "restore", f.beforeMove], f.parent.path);
    await expectDiverged(f, "ParentMovedBackward", PARENT);
  });
});
