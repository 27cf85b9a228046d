/** The mutations on real jj: what they do, what they leave alone, and what they say when they cannot. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createJj, type JjOptions } from "../../../src/backends/jj/backend.ts";
import type { JjRepo } from "../../../src/ports/jj.ts";
import { failureOf } from "../../support/failure.ts";
import { holdLock } from "../../support/hold-lock.ts";
import { makeRepo, personIn, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree, treeChanges, treeOf } from "../../support/tree.ts";

const TIMEOUT_MS = 60_000;

afterAll(removeTempDirs);

const templates = { plain: "", colocated: "" };

beforeAll(async () => {
  templates.plain = await prepare(false);
  templates.colocated = await prepare(true);
}, TIMEOUT_MS);

/** main with `base` and the parent change in its `@`, and kiki's neutral folder. */
async function prepare(colocated: boolean): Promise<string> {
  const person = await makeRepo({ colocated });
  person.write("p.txt", "parent\n");
  await person.jj(["describe", "--quiet", "-m", "parent"]);
  await (await open(person)).ensureNeutral("token-neutral");
  return person.dir;
}

async function open(person: TestRepo, options: JjOptions = {}): Promise<JjRepo> {
  const jj = createJj({ env: person.env, ...options });
  return jj.open((await jj.locate(person.root))!, join(person.dir, "state/jj"));
}

interface Scene extends TestRepo {
  child: string;
  repo: JjRepo;
  head(): Promise<string>;
  at(workspace: string): Promise<string>;
}

async function scene(
  kind: keyof typeof templates = "plain",
  options: JjOptions = {},
): Promise<Scene> {
  const dir = join(tempDir("mutate"), "copy");
  await copyTree(templates[kind], dir);
  const person = personIn(dir, join(dir, "repo"));
  return withRepo(person, await open(person, options));
}

function withRepo(person: TestRepo, repo: JjRepo): Scene {
  const head = async (): Promise<string> => {
    const heads = await repo.heads();
    expect(heads).toHaveLength(1);
    return heads[0]!;
  };
  return {
    ...person,
    child: join(person.dir, "child"),
    repo,
    head,
    async at(workspace) {
      return (await repo.workspaces(await head())).find((w) => w.workspace === workspace)!.commitId;
    },
  };
}

/** Adds workspace kk-child on the parent's `@`, as `kk new` does. */
async function addChild(s: Scene): Promise<string> {
  await s.repo.addWorkspace({
    name: "kk-child",
    path: s.child,
    base: await s.at("default"),
    description: "child thread",
    token: "token-add",
  });
  return s.at("kk-child");
}

describe("neutral folder", () => {
  for (const kind of ["plain", "colocated"] as const) {
    test.concurrent(
      `ensureNeutral: ${kind} → no workspace, no revision, no git trace; again → no operation`,
      async () => {
        const s = await scene(kind);
        expect(await s.jj(["workspace", "list", "-T", 'name ++ "\\n"'])).toBe("default\n");
        expect(
          await s.jj(["log", "--no-graph", "-T", 'description.first_line() ++ "\\n"']),
        ).not.toContain("kiki");
        expect(await s.jj(["log", "--no-graph", "-r", "all() ~ root()", "-T", '"x"'])).toBe("xx");
        const head = await s.head();
        await s.repo.ensureNeutral("token-again");
        expect(await s.head()).toBe(head);
      },
      TIMEOUT_MS,
    );
  }

  test.concurrent(
    "ensureNeutral: asked for twenty times at once → made once",
    async () => {
      const person = await makeRepo();
      const s = withRepo(person, await open(person));
      await Promise.all(Array.from({ length: 20 }, (_, n) => s.repo.ensureNeutral(`token-${n}`)));
      const ops = await s.repo.operations(await s.head(), 100);
      expect(ops.filter((op) => op.description.startsWith("add workspace 'kiki"))).toHaveLength(1);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "ensureNeutral: left half-made by a crash (recorded, or without checkout) → repaired",
    async () => {
      const s = await scene();
      await s.jj([
        "workspace",
        "add",
        "--quiet",
        "--no-colocate",
        "--name",
        "left",
        "-r",
        "root()",
        join(s.dir, "left"),
      ]);
      const jj = createJj({ env: s.env });
      const recorded = jj.open(s.repo.location, join(s.dir, "left"));
      await recorded.ensureNeutral("token-recorded");
      rmSync(join(s.dir, "left/.jj/working_copy/checkout"));
      await recorded.ensureNeutral("token-without");
      expect(await s.jj(["workspace", "list", "-T", 'name ++ "\\n"'])).toBe("default\n");
      await recorded.createBookmark("works", await s.at("default"), "token-works");
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "ensureNeutral: folder holds somebody's files → refused, nothing removed",
    async () => {
      const s = await scene();
      mkdirSync(join(s.dir, "taken"));
      writeFileSync(join(s.dir, "taken/precious"), "1");
      const repo = createJj({ env: s.env }).open(s.repo.location, join(s.dir, "taken"));
      expect(await failureOf(repo.ensureNeutral("t"))).toMatchObject({ code: "jj-neutral" });
      expect(existsSync(join(s.dir, "taken/precious"))).toBe(true);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "ensureNeutral: main workspace stale → says which and what to do",
    async () => {
      const person = await makeRepo();
      await person.jj(["describe", "--quiet", "-r", "@-", "-m", "x"]);
      const other = join(person.dir, "other");
      await person.jj(["workspace", "add", "--quiet", "-r", "@-", "--name", "other", other]);
      await person.jj(["edit", "--quiet", "default@-"], other);
      person.write("base.txt", "rewritten\n", other);
      await person.jj(["util", "snapshot", "--quiet"], other);
      const repo = await open(person);
      expect(await failureOf(repo.ensureNeutral("t"))).toMatchObject({
        code: "jj-stale",
        hint: expect.stringContaining("update-stale"),
      });
    },
    TIMEOUT_MS,
  );
});

describe("workspaces", () => {
  for (const kind of ["plain", "colocated"] as const) {
    test.concurrent(
      `addWorkspace: ${kind} → described empty change on exactly the base; main not snapshotted`,
      async () => {
        const s = await scene(kind);
        s.write("dirty.txt", "the person's, not recorded\n");
        const main = await s.at("default");
        const child = await addChild(s);
        const [view] = await s.repo.commits(await s.head(), "kk-child@");
        expect(view).toMatchObject({
          commitId: child,
          parents: [main],
          empty: true,
          description: "child thread",
        });
        expect(await s.at("default")).toBe(main);
        expect(s.read("p.txt", s.child)).toBe("parent\n");
        expect(existsSync(join(s.child, ".git"))).toBe(kind === "colocated");
        expect((await s.repo.probe(s.child, "kk-child", await s.head())).state).toBe("FreshClean");
      },
      TIMEOUT_MS,
    );
  }

  test.concurrent(
    "addWorkspace: colocated → git works there, HEAD is the parent of @, before and after a cascade",
    async () => {
      const s = await scene("colocated");
      await addChild(s);
      expect((await s.git(["rev-parse", "HEAD"], s.child)).trim()).toBe(await s.at("default"));
      expect(await s.git(["status", "--porcelain"], s.child)).toBe("");
      s.write("p.txt", "parent, amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      await s.repo.updateStale(s.child, "token-update");
      expect((await s.git(["rev-parse", "HEAD"], s.child)).trim()).toBe(await s.at("default"));
      expect(await s.git(["status", "--porcelain"], s.child)).toBe("");
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "addWorkspace: place taken (folder, file, broken symlink) or without parent → refused, no operation",
    async () => {
      const s = await scene();
      const head = await s.head();
      const base = await s.at("default");
      mkdirSync(join(s.dir, "folder"));
      writeFileSync(join(s.dir, "file"), "");
      symlinkSync("nowhere", join(s.dir, "broken"));
      const add = (path: string): Promise<void> =>
        s.repo.addWorkspace({ name: "kk-x", path, base, description: "x", token: "t" });
      for (const name of ["folder", "file", "broken"]) {
        const path = join(s.dir, name);
        expect(await failureOf(add(path))).toMatchObject({
          code: "workspace-path-exists",
          message: expect.stringContaining(path),
        });
      }
      expect(await failureOf(add(join(s.dir, "no/such/x")))).toMatchObject({
        code: "workspace-parent-missing",
      });
      expect(await s.head()).toBe(head);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "addWorkspace: name taken → jj-workspace-exists",
    async () => {
      const s = await scene();
      const base = await s.at("default");
      expect(
        await failureOf(
          s.repo.addWorkspace({
            name: "default",
            path: s.child,
            base,
            description: "x",
            token: "t",
          }),
        ),
      ).toMatchObject({ code: "jj-workspace-exists" });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "addWorkspace: colocated and git refuses the worktree → clear error",
    async () => {
      const s = await scene("colocated");
      // A file stands where git keeps its worktrees.
      rmSync(join(s.root, ".git/worktrees"), { recursive: true, force: true });
      writeFileSync(join(s.root, ".git/worktrees"), "");
      const base = await s.at("default");
      expect(
        await failureOf(
          s.repo.addWorkspace({ name: "kk-x", path: s.child, base, description: "x", token: "t" }),
        ),
      ).toMatchObject({ code: "jj-colocate-refused" });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "forgetWorkspace: twice → files stay, second time no error",
    async () => {
      const s = await scene();
      await addChild(s);
      await s.repo.forgetWorkspace("kk-child", "t1");
      await s.repo.forgetWorkspace("kk-child", "t2");
      expect((await s.repo.workspaces(await s.head())).map((w) => w.workspace)).toEqual([
        "default",
      ]);
      expect(s.read("p.txt", s.child)).toBe("parent\n");
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "abandon: exactly the named commit → gone, neighbours stay",
    async () => {
      const s = await scene();
      const child = await addChild(s);
      await s.repo.forgetWorkspace("kk-child", "t1");
      await s.repo.abandon([child], "t2");
      const [abandoned] = await s.repo.existing(await s.head(), [child]);
      expect(abandoned).toMatchObject({ hidden: true });
      expect(await s.at("default")).toBe(await s.commit("@"));
    },
    TIMEOUT_MS,
  );
});

describe("attribution", () => {
  test.concurrent(
    "mutations: every operation with arguments carries the token; user is kiki",
    async () => {
      const s = await scene("colocated");
      const before = await s.head();
      await addChild(s);
      await s.repo.createBookmark("kk/child", await s.at("kk-child"), "token-bookmark");
      s.write("c.txt", "c\n", s.child);
      await s.repo.snapshot(s.child, "token-snapshot");
      s.write("p.txt", "amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      await s.repo.updateStale(s.child, "token-update");
      await s.repo.deleteBookmark("kk/child", "token-delete");
      await s.repo.forgetWorkspace("kk-child", "token-forget");
      const all = await s.repo.operations(await s.head(), 100);
      const made = all.slice(
        0,
        all.findIndex((op) => op.id === before),
      );
      const tokens = made.map((op) => /kiki\.token=([a-z-]+)/.exec(op.args)?.[1] ?? op.description);
      // A colocated update makes an operation of its own; the first half of `workspace add` has no arguments.
      expect(tokens.reverse()).toEqual([
        "add workspace 'kk-child'",
        "token-add",
        "token-bookmark",
        "token-snapshot",
        "snapshot working copy",
        "token-update",
        "token-delete",
        "token-forget",
      ]);
      const users = await s.jj(["op", "log", "--no-graph", "-n", "1", "-T", "user"]);
      expect(users).toStartWith("kiki@");
    },
    TIMEOUT_MS,
  );
});

describe("bookmarks", () => {
  test.concurrent(
    "bookmark: on a thread's @ → follows its snapshot and an amend of its parent",
    async () => {
      const s = await scene();
      await s.repo.createBookmark("kk/child", await addChild(s), "t1");
      s.write("c.txt", "c\n", s.child);
      await s.repo.snapshot(s.child, "t2");
      expect(await s.repo.bookmarks(await s.head())).toEqual([
        { name: "kk/child", targets: [await s.at("kk-child")] },
      ]);
      s.write("p.txt", "amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      expect(await s.repo.bookmarks(await s.head())).toEqual([
        { name: "kk/child", targets: [await s.at("kk-child")] },
      ]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "bookmark: created twice → jj-bookmark-exists; deleted twice → no error; glob characters → only that name",
    async () => {
      const s = await scene();
      const commit = await s.at("default");
      for (const name of ["kk/a*", "kk/ab"]) await s.repo.createBookmark(name, commit, "t");
      expect(await failureOf(s.repo.createBookmark("kk/ab", commit, "t"))).toMatchObject({
        code: "jj-bookmark-exists",
      });
      await s.repo.deleteBookmark("kk/a*", "t");
      await s.repo.deleteBookmark("kk/a*", "t");
      expect((await s.repo.bookmarks(await s.head())).map((b) => b.name)).toEqual(["kk/ab"]);
    },
    TIMEOUT_MS,
  );
});

describe("staged rebase", () => {
  /** Parent advances by one revision; child has two commits on the old one. */
  async function advanced(
    kind: keyof typeof templates = "plain",
  ): Promise<Scene & { chain: string[]; onto: string }> {
    const s = await scene(kind);
    await addChild(s);
    s.write("c.txt", "c1\n", s.child);
    await s.jj(["commit", "--quiet", "-m", "c1"], s.child);
    s.write("c.txt", "c2\n", s.child);
    await s.jj(["describe", "--quiet", "-m", "c2"], s.child);
    await s.jj(["new", "--quiet", "-m", "parent 2"]);
    s.write("q.txt", "q\n");
    await s.jj(["util", "snapshot", "--quiet"]);
    const head = await s.at("kk-child");
    const [, first] = await s.repo.commits(await s.head(), `::${head}`);
    return { ...s, chain: [first!.commitId, head], onto: await s.at("default") };
  }

  test.concurrent(
    "stageRebase → heads, files and records unchanged; inspectable; integrate publishes exactly it",
    async () => {
      const s = await advanced();
      const at = await s.head();
      const before = treeOf(s.child);
      const staged = await s.repo.stageRebase({
        at,
        chain: s.chain,
        onto: s.onto,
        token: "token-stage",
      });
      expect(await s.head()).toBe(at);
      expect(treeChanges(before, treeOf(s.child))).toEqual([]);
      const child = (await s.repo.workspaces(staged.id)).find((w) => w.workspace === "kk-child")!;
      const chain = await s.repo.commits(staged.id, `${s.onto}..${child.commitId}`);
      expect(chain.map((c) => c.description)).toEqual(["c2", "c1"]);
      expect(chain.at(-1)!.parents).toEqual([s.onto]);
      await s.repo.integrate(staged.id, "token-integrate");
      expect(await s.head()).toBe(staged.id);
      expect(treeChanges(before, treeOf(s.child))).toEqual([]);
      expect((await s.repo.operations(staged.id, 1))[0]!.args).toContain("token-stage");
      await s.repo.integrate(staged.id, "token-again");
      expect(await s.head()).toBe(staged.id);
      const stale = await s.repo.probe(s.child, "kk-child", staged.id);
      expect(stale).toMatchObject({
        state: "StaleClean",
        recordedCommit: child.commitId,
        checkoutOp: expect.not.stringMatching(staged.id),
      });
      await s.repo.updateStale(s.child, "token-update");
      expect(s.read("q.txt", s.child)).toBe("q\n");
      expect(await s.repo.probe(s.child, "kk-child", await s.head())).toMatchObject({
        state: "FreshClean",
        recordedCommit: child.commitId,
        checkoutOp: await s.head(),
      });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "stageRebase: colocated → the same, and git HEAD ends on the parent",
    async () => {
      const s = await advanced("colocated");
      const staged = await s.repo.stageRebase({
        at: await s.head(),
        chain: s.chain,
        onto: s.onto,
        token: "t1",
      });
      await s.repo.integrate(staged.id, "t2");
      expect((await s.repo.probe(s.child, "kk-child", staged.id)).state).toBe("StaleClean");
      await s.repo.updateStale(s.child, "t3");
      const [child] = await s.repo.commits(await s.head(), "kk-child@");
      expect((await s.git(["rev-parse", "HEAD"], s.child)).trim()).toBe(child!.parents[0]!);
      expect((await s.repo.probe(s.child, "kk-child", await s.head())).state).toBe("FreshClean");
      expect(
        (await s.repo.workspaces(await s.head())).find((w) => w.workspace === "default")!.commitId,
      ).toBe(s.onto);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "stageRebase: a grandchild on the chain → moves along only when its commits are named",
    async () => {
      const s = await advanced();
      const grand = join(s.dir, "grand");
      await s.repo.addWorkspace({
        name: "kk-grand",
        path: grand,
        base: s.chain[1]!,
        description: "grand",
        token: "t0",
      });
      const g = await s.at("kk-grand");
      const parentOf = async (op: string): Promise<string> => {
        const [view] = await s.repo.commits(op, "kk-grand@-");
        return view!.description;
      };
      const at = await s.head();
      const without = await s.repo.stageRebase({ at, chain: s.chain, onto: s.onto, token: "t1" });
      expect(await parentOf(without.id)).toBe("parent");
      const together = await s.repo.stageRebase({
        at,
        chain: [...s.chain, g],
        onto: s.onto,
        token: "t2",
      });
      expect(await parentOf(together.id)).toBe("c2");
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "stageRebase: conflict → visible in the staged operation, before anything is published",
    async () => {
      const s = await advanced();
      s.write("c.txt", "the parent's\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      const staged = await s.repo.stageRebase({
        at: await s.head(),
        chain: s.chain,
        onto: await s.at("default"),
        token: "t",
      });
      const conflicts = await s.repo.commits(staged.id, "conflicts() & ::kk-child@");
      expect(conflicts.length).toBeGreaterThan(0);
      expect(await s.repo.conflictedPaths(staged.id, conflicts[0]!.commitId)).toEqual(["c.txt"]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "stageRebase: already in place → jj-nothing-staged; immutable → jj-immutable",
    async () => {
      const s = await advanced();
      const at = await s.head();
      const [parent] = await s.repo.commits(at, "default@-");
      expect(
        await failureOf(
          s.repo.stageRebase({ at, chain: s.chain, onto: parent!.commitId, token: "t" }),
        ),
      ).toMatchObject({ code: "jj-nothing-staged" });
      await s.jj(["config", "set", "--repo", 'revset-aliases."immutable_heads()"', "kk-child@-"]);
      expect(
        await failureOf(s.repo.stageRebase({ at, chain: s.chain, onto: s.onto, token: "t" })),
      ).toMatchObject({ code: "jj-immutable" });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "integrate: another operation landed after staging → heads show it before and after",
    async () => {
      const s = await advanced();
      const at = await s.head();
      const staged = await s.repo.stageRebase({ at, chain: s.chain, onto: s.onto, token: "t1" });
      s.write("c.txt", "c2, edited by the agent\n", s.child);
      await s.jj(["util", "snapshot", "--quiet"], s.child);
      // The check a caller makes before integrating.
      expect(await s.repo.heads()).not.toEqual([at]);
      await s.repo.integrate(staged.id, "t2");
      const [merged] = await s.repo.heads();
      expect(merged).not.toBe(staged.id);
      const [op] = await s.repo.operations(merged!, 1);
      expect(op!.parents).toHaveLength(2);
      expect(await s.repo.commits(merged!, "kk-child@")).toMatchObject([{ divergent: true }]);
    },
    TIMEOUT_MS,
  );
});

describe("update-stale", () => {
  test.concurrent(
    "updateStale: fresh workspace → nothing; stale with edits → files updated, edits in a divergent commit",
    async () => {
      const s = await scene();
      await addChild(s);
      const head = await s.head();
      await s.repo.updateStale(s.child, "t1");
      expect(await s.head()).toBe(head);
      s.write("p.txt", "amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      s.write("c.txt", "unrecorded edit\n", s.child);
      expect((await s.repo.probe(s.child, "kk-child", await s.head())).state).toBe("StaleDirty");
      await s.repo.updateStale(s.child, "t2");
      expect(s.read("p.txt", s.child)).toBe("amended\n");
      expect(existsSync(join(s.child, "c.txt"))).toBe(false);
      const [child] = await s.repo.commits(await s.head(), "kk-child@");
      expect(child).toMatchObject({ divergent: true });
      const copies = await s.repo.commits(await s.head(), `change_id(${child!.changeId})`);
      expect(copies.filter((c) => !c.empty)).toHaveLength(1);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "snapshot: stale workspace → jj-stale, nothing changed",
    async () => {
      const s = await scene();
      await addChild(s);
      s.write("p.txt", "amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      const head = await s.head();
      expect(await failureOf(s.repo.snapshot(s.child, "t"))).toMatchObject({ code: "jj-stale" });
      expect(await s.head()).toBe(head);
    },
    TIMEOUT_MS,
  );
});

describe("locks", () => {
  const QUICK = { limits: { mutateTimeoutMs: 1_500, lockBackoffMs: [20, 20] } };

  test.concurrent(
    "lock: git's packed-refs held for ever → jj-locked after bounded tries, lock still there",
    async () => {
      const s = await scene("plain", { limits: { lockBackoffMs: [20, 20] } });
      await addChild(s);
      const lock = join(s.root, ".jj/repo/store/git/packed-refs.lock");
      writeFileSync(lock, "");
      s.write("c.txt", "c\n", s.child);
      expect(await failureOf(s.repo.snapshot(s.child, "t"))).toMatchObject({ code: "jj-locked" });
      expect(existsSync(lock)).toBe(true);
    },
    TIMEOUT_MS,
  );

  for (const [what, path] of [
    ["op-heads lock", "repo/.jj/repo/op_heads/heads/lock"],
    ["working-copy lock", "child/.jj/working_copy/working_copy.lock"],
  ] as const) {
    test.concurrent(
      `lock: jj's ${what} held for ever → jj-locked in time, no jj left running`,
      async () => {
        const s = await scene("plain", QUICK);
        await addChild(s);
        s.write("c.txt", "c\n", s.child);
        const lock = await holdLock(join(s.dir, path));
        try {
          expect(await failureOf(s.repo.snapshot(s.child, "token-held"))).toMatchObject({
            code: "jj-locked",
            message: expect.stringContaining(path),
          });
        } finally {
          await lock.release();
        }
        await s.repo.snapshot(s.child, "token-free");
        const [child] = await s.repo.commits(await s.head(), "kk-child@");
        expect(child).toMatchObject({ empty: false });
      },
      TIMEOUT_MS,
    );
  }
});
