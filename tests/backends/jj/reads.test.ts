/** Reading writes nothing, anywhere; and what is read is what jj says. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT_OP } from "../../../src/core/ids.ts";
import { createJj } from "../../../src/backends/jj/backend.ts";
import type { JjRepo } from "../../../src/ports/jj.ts";
import { failureOf } from "../../support/failure.ts";
import { makeRepo, personIn, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree, treeChanges, treeOf } from "../../support/tree.ts";

const TIMEOUT_MS = 60_000;
const ROOT_COMMIT = "0".repeat(40);

afterAll(removeTempDirs);

let template: string;

beforeAll(async () => {
  const repo = await makeRepo({ colocated: true });
  repo.write("p.txt", "parent\n");
  await repo.jj(["describe", "--quiet", "-m", "parent: first line\n\nsecond paragraph"]);
  await repo.jj([
    "workspace",
    "add",
    "--quiet",
    "--name",
    "child",
    "-r",
    "@",
    "-m",
    "child",
    join(repo.dir, "child"),
  ]);
  await repo.jj(["bookmark", "create", "--quiet", "kk/child", "-r", "child@"]);
  template = repo.dir;
}, TIMEOUT_MS);

interface Scene extends TestRepo {
  child: string;
  repo: JjRepo;
}

async function scene(): Promise<Scene> {
  const dir = join(tempDir("reads"), "copy");
  await copyTree(template, dir);
  const person = personIn(dir, join(dir, "repo"));
  return { ...person, child: join(dir, "child"), repo: await open(person) };
}

async function open(person: TestRepo): Promise<JjRepo> {
  const jj = createJj({ env: person.env });
  return jj.open((await jj.locate(person.root))!, join(person.dir, "neutral"));
}

/** Every read there is, against one operation. */
async function readEverything(s: Scene, op: string): Promise<void> {
  const [, base] = await s.repo.commits(op, "::child@");
  const head = (await s.repo.commits(op, "child@"))[0]!.commitId;
  await s.repo.operations(op, 20);
  await s.repo.operationExists(op);
  await s.repo.workspaces(op);
  await s.repo.existing(op, [head, "deadbeef".repeat(5)]);
  await s.repo.isAncestor(op, base!.commitId, head);
  await s.repo.bookmarks(op);
  await s.repo.changedPaths(op, ROOT_COMMIT, head);
  await s.repo.conflictedPaths(op, head);
  await s.repo.diff(op, ROOT_COMMIT, head);
  await s.repo.probe(s.child, "child", op);
}

describe("purity", () => {
  test.concurrent(
    "reads: dirty workspaces, one head → nothing written, no operation",
    async () => {
      const s = await scene();
      s.write("p.txt", "edited, not recorded\n");
      s.write("new.txt", "new\n", s.child);
      const before = treeOf(s.dir);
      const [op] = await s.repo.heads();
      await readEverything(s, op!);
      await readEverything(s, (await s.repo.operations(op!, 2))[1]!.id);
      expect(treeChanges(before, treeOf(s.dir))).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "reads: two operation heads → both listed, neither merged",
    async () => {
      const s = await scene();
      const head = await s.head();
      await s.jj(["--at-op", head, "describe", "--quiet", "-m", "one"]);
      await s.jj(["--at-op", head, "describe", "--quiet", "-m", "two"]);
      const before = treeOf(s.dir);
      const heads = await s.repo.heads();
      expect(heads).toHaveLength(2);
      for (const op of heads) await readEverything(s, op);
      const status = await s.repo.statusText(s.child);
      expect(status).toStartWith("2 concurrent operations");
      expect(treeChanges(before, treeOf(s.dir))).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "statusText: dirty → jj's own text; heads, files and record unchanged",
    async () => {
      const s = await scene();
      s.write("new.txt", "new\n", s.child);
      const kept = (tree: Record<string, string>): [string, string][] =>
        Object.entries(tree).filter(([path]) =>
          /^child\/(?!\.jj\/working_copy$)|op_heads|^repo\/[^.]/.test(path),
        );
      const before = kept(treeOf(s.dir));
      expect(await s.repo.statusText(s.child)).toContain("A new.txt\n");
      expect(kept(treeOf(s.dir))).toEqual(before);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "statusText: stale → one line that says so",
    async () => {
      const s = await scene();
      s.write("p.txt", "amended\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      const [head] = await s.repo.heads();
      expect(await s.repo.statusText(s.child)).toBe(
        `workspace is stale: files are from before operation ${head!.slice(0, 12)}\n`,
      );
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "statusText: git HEAD moved by the agent → one line, not imported",
    async () => {
      const s = await scene();
      s.write("p.txt", "by the agent\n", s.child);
      await s.git(["commit", "-q", "-a", "-m", "by the agent"], s.child);
      const [head] = await s.repo.heads();
      expect(await s.repo.statusText(s.child)).toStartWith("git HEAD of this workspace has moved");
      expect(await s.repo.heads()).toEqual([head!]);
    },
    TIMEOUT_MS,
  );
});

describe("what is read", () => {
  test.concurrent(
    "heads: a second head and a lock file, gone a moment later → one head",
    async () => {
      const s = await scene();
      const folder = s.repo.headsFolder;
      writeFileSync(join(folder, "lock"), "");
      const [head] = await s.repo.heads();
      const jj = createJj({
        env: s.env,
        clock: {
          now: Date.now,
          monotonic: () => performance.now(),
          // The pause before listing again: jj deletes the old head meanwhile.
          sleep: async () => rmSync(join(folder, "f".repeat(128))),
        },
      });
      writeFileSync(join(folder, "f".repeat(128)), "");
      const repo = jj.open(s.repo.location, join(s.dir, "neutral"));
      expect(await repo.heads()).toEqual([head!]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "operations: newest first, with parents, arguments and snapshot mark",
    async () => {
      const s = await scene();
      s.write("p.txt", "more\n");
      await s.jj(["describe", "--quiet", "-m", "reworded"]);
      const [head] = await s.repo.heads();
      const ops = await s.repo.operations(head!, 1000);
      expect(ops[0]).toMatchObject({ id: head!, isSnapshot: false, workspaceName: "default" });
      expect(ops[0]!.args).toContain("describe --quiet -m reworded");
      expect(ops[1]).toMatchObject({ id: ops[0]!.parents[0]!, isSnapshot: true });
      expect(ops.at(-1)).toMatchObject({ id: ROOT_OP, parents: [] });
      expect(await s.repo.operationExists(head!)).toBe(true);
      expect(await s.repo.operationExists("0".repeat(127) + "1")).toBe(false);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "workspaces, commits, bookmarks → exact ids and flags",
    async () => {
      const s = await scene();
      const [op] = await s.repo.heads();
      const parent = await s.commit("@");
      const child = await s.commit("child@");
      const views = await s.repo.workspaces(op!);
      expect(views.find((w) => w.workspace === "child")).toMatchObject({
        root: s.child,
        commitId: child.trim(),
        parents: [parent],
        empty: true,
        conflict: false,
        divergent: false,
        description: "child",
      });
      expect((await s.repo.commits(op!, "::child@")).map((c) => c.description)).toEqual([
        "child",
        "parent: first line",
        "base",
        "",
      ]);
      expect(await s.repo.commits(op!, "trunk()")).toMatchObject([
        { commitId: ROOT_COMMIT, immutable: true },
      ]);
      expect(await s.repo.commits(op!, "@")).toMatchObject([{ commitId: parent }]);
      expect(await s.repo.bookmarks(op!)).toEqual([{ name: "kk/child", targets: [child] }]);
      expect(await s.repo.isAncestor(op!, parent, child)).toBe(true);
      expect(await s.repo.isAncestor(op!, child, parent)).toBe(false);
      expect(await s.repo.changedPaths(op!, ROOT_COMMIT, parent)).toEqual([
        { status: "A", path: ".gitignore" },
        { status: "A", path: "base.txt" },
        { status: "A", path: "p.txt" },
      ]);
      const diff = await s.repo.diff(op!, ROOT_COMMIT, parent);
      expect(diff.text).toContain("+++ b/p.txt");
      expect(diff.stat).toContain("3 files changed");
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "commits: hidden after a rewrite → still read by full id; an old operation → the old view",
    async () => {
      const s = await scene();
      const [before] = await s.repo.heads();
      const old = await s.commit("@");
      await s.jj(["describe", "--quiet", "-m", "reworded"]);
      const [after] = await s.repo.heads();
      expect(await s.repo.existing(after!, [old, "deadbeef".repeat(5)])).toMatchObject([
        { commitId: old, hidden: true },
      ]);
      expect(await s.repo.commits(before!, "default@")).toMatchObject([
        { commitId: old, hidden: false },
      ]);
      expect(await s.repo.isAncestor(after!, old, await s.commit("child@"))).toBe(false);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "bookmarks: conflicted → every side; deleted → none",
    async () => {
      const s = await scene();
      await s.jj(["new", "--quiet", "root()"]);
      const head = await s.head();
      const [one, two] = [await s.commit("@"), await s.commit("child@")];
      await s.jj(["--at-op", head, "bookmark", "create", "--quiet", "b", "-r", one]);
      await s.jj(["--at-op", head, "bookmark", "create", "--quiet", "b", "-r", two]);
      await s.jj(["bookmark", "delete", "--quiet", "kk/child"]);
      const [op] = await s.repo.heads();
      const found = await s.repo.bookmarks(op!);
      expect(found.map((b) => b.name)).toEqual(["b"]);
      expect([...found[0]!.targets].sort()).toEqual([one, two].sort());
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "conflicts: conflicted commit → its paths, also with odd names",
    async () => {
      const s = await scene();
      s.write("odd\nname", "one\n");
      await s.jj(["commit", "--quiet", "-m", "one"]);
      s.write("odd\nname", "two\n");
      await s.jj(["commit", "--quiet", "-m", "two"]);
      await s.jj(["rebase", "--quiet", "-r", "@-", "-o", "root()"]);
      const [op] = await s.repo.heads();
      const [commit] = await s.repo.commits(op!, "conflicts()");
      expect(commit).toMatchObject({ conflict: true, description: "two" });
      expect(await s.repo.conflictedPaths(op!, commit!.commitId)).toEqual(["odd\nname"]);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "errors: bad revset, unknown revision, unknown operation → their own codes",
    async () => {
      const s = await scene();
      const [op] = await s.repo.heads();
      expect(await failureOf(s.repo.commits(op!, "foo("))).toMatchObject({ code: "jj-revset" });
      expect(await failureOf(s.repo.commits(op!, "nonesuch"))).toMatchObject({
        code: "jj-revset",
        message: expect.stringContaining("`nonesuch` doesn't exist"),
      });
      expect(await failureOf(s.repo.commits("1".repeat(128), "@"))).toMatchObject({
        code: "jj-op-missing",
      });
      expect(await failureOf(s.repo.commits("123abc", "@"))).toMatchObject({
        code: "jj-op-missing",
      });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "reads: the person's settings that change output or add prompts → no effect",
    async () => {
      const s = await scene();
      writeFileSync(
        s.env["JJ_CONFIG"]!,
        `[user]\nname = "P"\nemail = "p@example.com"\n[ui]\nquiet = true\nlog-word-wrap = true\ncolor = "always"\npaginate = "auto"\npager = "false"\ndiff-formatter = ["false"]\n[aliases]\nst = ["log"]\n`,
      );
      const [op] = await s.repo.heads();
      const [child] = await s.repo.commits(op!, "child@");
      expect(child).toMatchObject({ description: "child" });
      const { text } = await s.repo.diff(op!, ROOT_COMMIT, child!.parents[0]!);
      expect(text).toContain("+++ b/p.txt");
    },
    TIMEOUT_MS,
  );
});

describe("locate", () => {
  test.concurrent(
    "locate: below main, below a secondary workspace, through a symlink, outside → the same repository or null",
    async () => {
      const s = await scene();
      const jj = createJj({ env: s.env });
      mkdirSync(join(s.child, "deep/er"), { recursive: true });
      symlinkSync(s.child, join(s.dir, "link"));
      const main = { repoRoot: s.root, repoDir: join(s.root, ".jj/repo"), colocated: true };
      expect(await jj.locate(s.root)).toEqual({ ...main, workspaceRoot: s.root });
      expect(await jj.locate(join(s.child, "deep/er"))).toEqual({
        ...main,
        workspaceRoot: s.child,
      });
      expect(await jj.locate(join(s.dir, "link/deep"))).toEqual({
        ...main,
        workspaceRoot: s.child,
      });
      expect(await jj.locate(s.dir)).toBeNull();
      expect(await jj.locate(join(s.dir, "no/such/folder"))).toBeNull();
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "locate: repository without a git checkout beside it → not colocated",
    async () => {
      const plain = await makeRepo();
      const jj = createJj({ env: plain.env });
      expect(await jj.locate(plain.root)).toMatchObject({ colocated: false });
    },
    TIMEOUT_MS,
  );
});
