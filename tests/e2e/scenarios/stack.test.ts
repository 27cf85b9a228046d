/**
 * Worked scenarios of the cascade that need one move of a parent each (1, 2, 3, 4, 6, 7, 8, 11), through the whole binary: real
 * jj and tmux, the scripted agent. One parent, six followers in six situations: first a person amends the parent, then its
 * agent, who only knows git, commits another revision.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  acknowledged,
  amend,
  commitOf,
  expectAtRest,
  expectTold,
  expectFiles,
  homeOf,
  inCommit,
  intents,
  newFollower,
  newThread,
  onDisk,
  reached,
  resultOf,
  revisions,
  rowOf,
  stateOf,
  story,
  untilRun,
  type Follower,
  type Home,
  type IntentRow,
  type Thread,
} from "../../support/family.ts";
import { bash, moments, read, say, touch, wait, write } from "../../support/scenario.ts";
import { isThorough, thorough } from "../../support/thorough.ts";
import { waitFor } from "../../support/wait.ts";
import { initialised, type World } from "../../support/world.ts";

setDefaultTimeout(240_000);
let w: World;
let home: Home;
let parent: Thread;
type Name = "edited" | "updated" | "clash" | "git" | "middle" | "leaf";
/** The default suite does without two of them: `npm run test:scenarios` has all. */
const FOLLOWERS: readonly Name[] = isThorough
  ? ["edited", "updated", "clash", "git", "middle", "leaf"]
  : ["edited", "git", "middle", "leaf"];
const of = {} as Record<Name, Follower>;
/** The followers' intents after each move. */
let first: Record<Name, IntentRow>;
let second: Record<Name, IntentRow>;

/** What an agent does before it waits for the first move. */
const BEFORE: Record<Name, readonly unknown[]> = {
  edited: [
    [write("c1", "own.ts", "recorded\n"), bash("c2", "jj describe -m tests")],
    // Recorded by nobody: tools of an agent that does not run jj after them.
    [
      write("e1", "own.ts", "recorded\nand not\n"),
      bash("e2", "printf new >new.sh; chmod +x new.sh; rm base.txt"),
    ],
  ],
  updated: [[write("c1", "own.ts", "mine\n"), bash("c2", "jj describe -m tests")]],
  clash: [[write("c1", "api.ts", "the child's\n"), bash("c2", "jj describe -m tests")]],
  git: [[write("c1", "own.ts", "mine\n"), bash("c2", "jj describe -m tests")]],
  middle: [[write("c1", "middle.ts", "middle\n"), bash("c2", "jj describe -m middle")]],
  leaf: [[write("c1", "leaf.ts", "leaf\n"), bash("c2", "jj describe -m leaf")]],
};

/** Its first batch after the first move: calls that must not run. */
const BATCH = { a1: "Read", a2: "Read", a3: "Bash" };
/** After the second. */
const BATCH_2 = { b1: "Read", b2: "Write", b3: "Bash" };

function responses(name: Name): unknown[] {
  const at = (what: string) => w.signal(`${name}-${what}`);
  // In flight while the parent moves, and commits with git on files that are stale by then.
  const stale = bash(
    "stale",
    `touch '${at("busy")}'; while [ ! -e '${at("moved")}' ]; do sleep 0.02; done
     echo two >later.ts; git add -A; git commit -q -m 'on stale files'; echo three >last.ts; git rev-parse HEAD`,
  );
  const fresh = bash("fresh", "git add -A; git commit -q -m 'on fresh files'; git rev-parse HEAD");
  return [
    ...BEFORE[name],
    ...(name === "git" ? [[stale]] : []),
    [
      touch(at("ready")),
      wait(at("go")),
      read("a1", "api.ts"),
      read("a2", "own.ts"),
      bash("a3", "touch ran-a3"),
    ],
    untilRun(read("again-1", "api.ts")),
    ...(name === "clash" ? [[write("s1", "api.ts", "solved\n"), bash("s2", "jj status")]] : []),
    ...(name === "git" ? [[write("s1", "own.ts", "with git\n"), fresh]] : []),
    [
      touch(at("told")),
      wait(at("go-2")),
      read("b1", "lexer.ts"),
      write("b2", "ran-b2", "x"),
      bash("b3", "touch ran-b3"),
    ],
    untilRun(bash("again-2", "cat lexer.ts")),
    [touch(at("done")), say("done")],
  ];
}

beforeAll(async () => {
  w = await initialised({ colocated: true });
  home = homeOf(w, w.repo);
  const prompt = w.scenario("parent", {
    responses: [
      [wait(w.signal("commit")), write("p1", "lexer.ts", "lexer\n")],
      [bash("p2", "git add -A; git commit -q -m 'parent: lexer, by git'; git rev-parse HEAD")],
      [say("done")],
    ],
  });
  parent = await newThread(home, "parent", ["-m", prompt]);
  w.repo.write("api.ts", "v1\n", parent.path);
  await w.repo.jj(["describe", "--quiet", "-m", "parent: first"], parent.path);
  for (const name of FOLLOWERS) {
    const follows = name === "leaf" ? "middle" : "parent";
    of[name] = await newFollower(home, name, follows, responses(name));
    // Of the git one too: it is in the middle of its call.
    await reached(home, name === "git" ? "git-busy" : `${name}-ready`);
  }
});
afterAll(() => w.close());

/** Every follower has `count` acknowledged intents; the last of each. */
async function told(count: number): Promise<Record<Name, IntentRow>> {
  const rows = {} as Record<Name, IntentRow>;
  for (const name of FOLLOWERS) rows[name] = (await acknowledged(home, of[name], count)).at(-1)!;
  return rows;
}

describe("a person amends the parent's revision", () => {
  let oldParent: string;
  let updatedAt: { ino: number; ctimeMs: number };
  let updatedTo: string;
  const before = {} as Record<Name, string>;

  beforeAll(async () => {
    oldParent = await commitOf(home, parent);
    for (const name of FOLLOWERS) before[name] = await commitOf(home, of[name]);
    await amend({ ...home, parent }, { "api.ts": "v2\n" });
    for (const name of FOLLOWERS)
      await waitFor(
        () => intents(home, of[name])[0]?.state === "Detected",
        60_000,
        `detected: ${name}`,
      );
    w.raise("git-moved");
    if (!isThorough) return;
    await w.repo.jj(["workspace", "update-stale"], of.updated.path);
    updatedAt = statSync(join(of.updated.path, "api.ts"));
    updatedTo = await commitOf(home, of.updated);
  });

  test("scenario 7: A→B→C by one operation → B and C have an intent each at once, and nobody's files have changed", async () => {
    const rows = FOLLOWERS.map((name) => intents(home, of[name]));
    expect(rows.map((r) => r.length)).toEqual(FOLLOWERS.map(() => 1));
    expect(new Set(rows.map(([r]) => r!.kind))).toEqual(new Set(["NativeRewrite"]));
    expect(new Set(rows.map(([r]) => r!.op)).size).toBe(1);
    const newParent = await commitOf(home, parent);
    expect(intents(home, of.middle)[0]).toMatchObject({ from: oldParent, to: newParent });
    expect(intents(home, of.leaf)[0]).toMatchObject({
      from: before.middle,
      to: await commitOf(home, of.middle),
    });
    expect([onDisk(of.middle, "api.ts"), onDisk(of.leaf, "api.ts")]).toEqual(["v1\n", "v1\n"]);
    for (const name of ["middle", "leaf"] as const) {
      expect(await rowOf(home, of[name])).toContain("↻");
      const status = (await w.kk(["status", name])).stdout;
      expect(status).toMatch(/^cascade +↻ pending$/m);
      expect(status).toContain("waits for the agent's next tool call");
    }
  });

  test("scenario 7: C's boundary comes first → C's files move, B's only at B's own", async () => {
    for (const name of FOLLOWERS) if (name !== "middle") w.raise(`${name}-go`);
    for (const name of FOLLOWERS) if (name !== "middle") await reached(home, `${name}-told`);
    expect(onDisk(of.leaf, "api.ts")).toBe("v2\n");
    expect(onDisk(of.middle, "api.ts")).toBe("v1\n");
    expect(intents(home, of.middle)[0]!.state).toBe("Detected");
    w.raise("middle-go");
    await reached(home, "middle-told");
    first = await told(1);
    await expectFiles(home, of.middle, { "api.ts": "v2\n", "middle.ts": "middle\n" });
    await expectFiles(home, of.leaf, {
      "api.ts": "v2\n",
      "middle.ts": "middle\n",
      "leaf.ts": "leaf\n",
    });
  });

  test.each([...FOLLOWERS])(
    "scenario 6: three calls at once, %s → none ran, each has the payload byte for byte, one materialisation",
    async (name) => {
      const intent = first[name];
      expectTold(of[name], intent, BATCH);
      expect(onDisk(of[name], "ran-a3")).toBeNull();
      expect(intent).toMatchObject({ mode: "SoftBatch" });
      await expectAtRest(home, of[name]);
    },
  );

  test("scenario 1: clean ancestor rewrite → the commit jj made, same change, no rebase and no snapshot of kiki's", async () => {
    const change = (commit: string) => revisions(home, commit, "change_id");
    const result = first.middle.result!;
    expect(await change(result)).toBe(await change(before.middle));
    expect(await w.repo.commit(`${result}-`)).toBe(first.middle.to);
    expect(first.middle.bundle).toBeNull();
    // The operation that moved the parent is the one that made the commit: kiki has made none.
    const seen = await revisions(home, `"${of.middle.workspace}"@`, "commit_id", first.middle.op);
    expect(seen).toBe(result);
  });

  test("scenario 2: edits nobody had recorded → both changes visible, no edit lost, the copies that are named are there", async () => {
    const { payload, bundle } = first.edited;
    await expectFiles(home, of.edited, {
      "api.ts": "v2\n",
      "own.ts": "recorded\nand not\n",
      "new.sh": "new",
      "base.txt": null,
    });
    expect(statSync(join(of.edited.path, "new.sh")).mode & 0o111).not.toBe(0);
    expect(payload).toContain(bundle!);
    const kept = (path: string) => Bun.file(join(bundle!, "files", path)).text();
    expect([await kept("own.ts"), await kept("new.sh")]).toEqual(["recorded\nand not\n", "new"]);
    const [, commit] = /as they were, in jj revision ([0-9a-f]{12})/.exec(payload!)!;
    expect(await inCommit(home, commit!, "own.ts")).toBe("recorded\nand not\n");
  });

  thorough(
    "scenario 4: the person has run update-stale → nothing written a second time, the agent told all the same",
    async () => {
      expect(first.updated.payload).toContain("already in place");
      expect(first.updated.result).toBe(updatedTo);
      const now = statSync(join(of.updated.path, "api.ts"));
      expect([now.ino, now.ctimeMs]).toEqual([updatedAt.ino, updatedAt.ctimeMs]);
      await expectFiles(home, of.updated, { "api.ts": "v2\n", "own.ts": "mine\n" });
    },
  );

  thorough(
    "scenario 8: both changed the same line → told with conflict framing, both sides in the commit; solved by the agent",
    async () => {
      const { payload, result } = first.clash;
      expect(payload).toContain("your own work now conflicts with it");
      expect(payload).toMatch(/Conflicts, marked in the files.*\n {2}api\.ts$/m);
      expect(await w.repo.commit(`conflicts() & ${result}`)).toBe(result!);
      const marked = (await inCommit(home, result!, "api.ts"))!;
      for (const part of ["<<<<<<<", "the child's", "v2"]) expect(marked).toContain(part);
      // What the agent read after it was told is what lay in the file.
      expect(resultOf(moments(of.clash.log), "again-1")).toContain("the child's");
      await expectFiles(home, of.clash, { "api.ts": "solved\n" });
      expect(await w.repo.commit(`conflicts() & ::${await commitOf(home, of.clash)}`)).toBe("");
    },
  );

  test("scenario 11: git commit on stale files → HEAD pinned and named, edits recovered, the parent's change not reverted", async () => {
    const own = resultOf(moments(of.git.log), "stale")!.trim();
    const ref = `refs/kiki/${first.git.id}`;
    expect((await w.repo.git(["rev-parse", ref])).trim()).toBe(own);
    expect(first.git.payload).toContain(ref);
    expect(first.git.payload).toContain(own.slice(0, 12));
    for (const [path, text] of [
      ["api.ts", "v2\n"],
      ["own.ts", "mine\n"],
      ["later.ts", "two\n"],
      ["last.ts", "three\n"],
    ] as const)
      expect([path, await inCommit(home, first.git.result!, path)]).toEqual([path, text]);
    expect(await inCommit(home, await commitOf(home, parent), "api.ts")).toBe("v2\n");
  });
});

describe("the parent's agent commits a revision with git", () => {
  beforeAll(async () => {
    w.raise("commit");
    // Only the parent's direct followers: the leaf's parent has not moved.
    for (const name of FOLLOWERS)
      if (name !== "leaf")
        await waitFor(
          () => intents(home, of[name]).at(-1)?.state === "Detected",
          60_000,
          () => `detected: ${name}\n${story(home)}`,
        );
  });

  test("scenario 11, the parent's: imported when its turn ends → its followers have a ParentAdvance onto its new @", async () => {
    const at = await commitOf(home, parent);
    expect(await w.repo.commit(`${at}-`)).toBe(
      (await w.repo.git(["rev-parse", "HEAD"], parent.path)).trim(),
    );
    const rows = FOLLOWERS.filter((name) => name !== "leaf").map(
      (name) => intents(home, of[name])[1],
    );
    for (const row of rows) expect(row).toMatchObject({ kind: "ParentAdvance", to: at });
    expect(intents(home, of.leaf)).toHaveLength(1);
    expect((await stateOf(home, of.leaf)).summary.cascade).toBe("in sync");
  });

  test("scenario 7: kiki brings B onto the new revision → C's intent is recorded with it, and C is told at its own boundary", async () => {
    w.raise("middle-go-2");
    await reached(home, "middle-done");
    const row = await waitFor(() => intents(home, of.leaf)[1], 30_000, "C's second intent");
    expect(row).toMatchObject({ kind: "NativeRewrite", to: await commitOf(home, of.middle) });
    expect(onDisk(of.leaf, "lexer.ts")).toBeNull();
    for (const name of FOLLOWERS) if (name !== "middle") w.raise(`${name}-go-2`);
    for (const name of FOLLOWERS) await reached(home, `${name}-done`);
    second = await told(2);
    await expectFiles(home, of.leaf, { "lexer.ts": "lexer\n", "leaf.ts": "leaf\n" });
  });

  test.each([...FOLLOWERS])(
    "scenario 3: %s → exactly its own revisions stand on the parent's new one, its calls did not run, nothing is lost",
    async (name) => {
      const intent = second[name];
      expectTold(of[name], intent, BATCH_2);
      await expectFiles(home, of[name], {
        "lexer.ts": "lexer\n",
        "api.ts": name === "clash" ? "solved\n" : "v2\n",
        "ran-a3": null,
        "ran-b2": null,
        "ran-b3": null,
      });
      const at = await commitOf(home, of[name]);
      const base = await commitOf(home, name === "leaf" ? of.middle : parent);
      expect(await w.repo.commit(`${base} & ::${at}`)).toBe(base);
      const { baseCommit } = await stateOf(home, of[name]);
      expect(baseCommit).toBe(base);
      await expectAtRest(home, of[name]);
    },
  );

  test("scenario 11: git commit on fresh files → imported, kept in the chain and rebased", async () => {
    const at = await commitOf(home, of.git);
    await expectFiles(home, of.git, { "own.ts": "with git\n", "later.ts": "two\n" });
    const parentAt = await commitOf(home, parent);
    const log = await revisions(home, `${parentAt}..${at}`, 'description.first_line() ++ "\n"');
    expect(log.split("\n")).toContain("on fresh files");
    expect((await w.repo.git(["rev-parse", "HEAD"], of.git.path)).trim()).toBe(
      await w.repo.commit(`${at}-`),
    );
  });
});
