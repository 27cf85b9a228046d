/**
 * git's own locks in a colocated workspace, on real jj: whoever holds one (an editor's `git status` is enough) must not
 * cost the workspace its revision.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../../src/backends/jj/backend.ts";
import type { KikiError } from "../../../src/core/errors.ts";
import type { JjRepo } from "../../../src/ports/jj.ts";
import { failureOf } from "../../support/failure.ts";
import { makeRepo, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs } from "../../support/temp.ts";

setDefaultTimeout(60_000);
afterAll(removeTempDirs);

interface Scene extends TestRepo {
  repo: JjRepo;
  child: string;
  /** Happens while kiki waits for a lock, before it tries again. */
  waiting: { until(): Promise<void> };
  git(args: string[], cwd?: string): Promise<string>;
}

/** A child on the parent's `@`, with an own file recorded; its parent has been amended, so its files are stale. */
async function stale(): Promise<Scene> {
  const person = await makeRepo({ colocated: true });
  const waiting: Scene["waiting"] = { until: async () => undefined };
  const clock = {
    now: Date.now,
    monotonic: () => performance.now(),
    sleep: () => waiting.until(),
  };
  person.write("p.txt", "parent\n");
  await person.jj(["describe", "--quiet", "-m", "parent"]);
  const jj = createJj({ env: person.env, clock });
  const repo = jj.open((await jj.locate(person.root))!, join(person.dir, "state/jj"));
  await repo.ensureNeutral("token-neutral");
  const child = join(person.dir, "child");
  const [op] = await repo.heads();
  await repo.addWorkspace({
    name: "kk-child",
    path: child,
    base: (await repo.workspaces(op!))[0]!.commitId,
    description: "child thread",
    token: "token-add",
  });
  person.write("own.txt", "own\n", child);
  await person.jj(["util", "snapshot", "--quiet"], child);
  person.write("p.txt", "amended\n");
  await person.jj(["util", "snapshot", "--quiet"]);
  return { ...person, repo, child, waiting };
}

const lockOf = (s: Scene, name: string): string => join(s.root, ".git/worktrees/child", name);
const headOf = async (s: Scene): Promise<string> =>
  (await s.git(["rev-parse", "HEAD"], s.child)).trim();

async function at(s: Scene): Promise<{ changeId: string; commitId: string; parent: string }> {
  const [op, ...others] = await s.repo.heads();
  expect(others).toEqual([]);
  const view = (await s.repo.workspaces(op!)).find((w) => w.workspace === "kk-child")!;
  const [commit] = await s.repo.commits(op!, view.commitId);
  return { changeId: view.changeId, commitId: view.commitId, parent: commit!.parents[0]! };
}

/** Files, `@`, HEAD and git's index agree, and jj's next command there finds nothing to move. */
async function expectInPlace(s: Scene, changeId: string): Promise<void> {
  const [op] = await s.repo.heads();
  expect(await s.repo.probe(s.child, "kk-child", op!)).toMatchObject({ state: "FreshClean" });
  expect(readFileSync(join(s.child, "p.txt"), "utf8")).toBe("amended\n");
  const here = await at(s);
  expect(here.changeId).toBe(changeId);
  expect(await headOf(s)).toBe(here.parent);
  await s.jj(["status"], s.child);
  expect(await at(s)).toEqual(here);
  expect(await s.git(["status", "--porcelain", "--untracked-files=no"], s.child)).toBe(
    " A own.txt\n",
  );
}

for (const lock of ["index.lock", "HEAD.lock"]) {
  test(`updateStale: git's ${lock} held for a moment → done after it is released, on the same revision, HEAD with it`, async () => {
    const s = await stale();
    const { changeId } = await at(s);
    writeFileSync(lockOf(s, lock), "");
    let pauses = 0;
    s.waiting.until = async () => {
      pauses += 1;
      rmSync(lockOf(s, lock));
    };
    await s.repo.updateStale(s.child, "token-update");
    expect(pauses).toBe(1);
    await expectInPlace(s, changeId);
  });

  test(`updateStale: git's ${lock} left over → jj-locked, the file named and still there, HEAD and files as before; removed → done`, async () => {
    const s = await stale();
    const { changeId } = await at(s);
    const head = await headOf(s);
    writeFileSync(lockOf(s, lock), "");
    const failure = await failureOf(s.repo.updateStale(s.child, "token-update"));
    expect(failure).toMatchObject({ code: "jj-locked" });
    expect((failure as KikiError).hint).toContain(`worktrees/child/${lock}`);
    expect(existsSync(lockOf(s, lock))).toBe(true);
    expect(await headOf(s)).toBe(head);
    expect(readFileSync(join(s.child, "p.txt"), "utf8")).toBe("parent\n");
    rmSync(lockOf(s, lock));
    await s.repo.updateStale(s.child, "token-again");
    await expectInPlace(s, changeId);
  });
}

test("updateStale: index held, and somebody commits with git meanwhile → not tried again, that commit is HEAD", async () => {
  const s = await stale();
  writeFileSync(lockOf(s, "index.lock"), "");
  const tree = (await s.git(["write-tree"], s.root)).trim();
  const parent = await headOf(s);
  const own = (await s.git(["commit-tree", tree, "-p", parent, "-m", "own"], s.root)).trim();
  let pauses = 0;
  s.waiting.until = async () => {
    pauses += 1;
    await s.git(["update-ref", "--no-deref", "HEAD", own], s.child);
  };
  expect(await failureOf(s.repo.updateStale(s.child, "token-update"))).toMatchObject({
    code: "jj-locked",
  });
  expect(await headOf(s)).toBe(own);
  const [op] = await s.repo.heads();
  expect((await s.repo.probe(s.child, "kk-child", op!)).changed).toContain("H HEAD");
  expect(pauses).toBeGreaterThan(0);
});

test("edit: git's index held for a moment → the revision asked for, HEAD with it", async () => {
  const s = await stale();
  await s.repo.updateStale(s.child, "token-update");
  const target = await s.jj(["new", "--no-edit", "--quiet", "-m", "elsewhere", "root()"], s.root);
  expect(target).toBe("");
  const id = (
    await s.jj(
      ["log", "--no-graph", "-r", 'description(substring:"elsewhere")', "-T", "commit_id"],
      s.root,
    )
  ).trim();
  await s.jj(["new", "--no-edit", "--quiet", "-m", "above", id], s.root);
  const above = (
    await s.jj(
      ["log", "--no-graph", "-r", 'description(substring:"above")', "-T", "commit_id"],
      s.root,
    )
  ).trim();
  writeFileSync(lockOf(s, "index.lock"), "");
  s.waiting.until = async () => rmSync(lockOf(s, "index.lock"), { force: true });
  await s.repo.edit(s.child, above, "token-edit");
  const here = await at(s);
  expect(here.commitId).toBe(above);
  expect(await headOf(s)).toBe(id);
  await s.jj(["status"], s.child);
  expect(await at(s)).toEqual(here);
});

test("snapshot: git's index held for a moment after a commit with git → that commit is below, nothing else moved", async () => {
  const s = await stale();
  await s.repo.updateStale(s.child, "token-update");
  await s.git(["add", "-A"], s.child);
  await s.git(["commit", "-q", "-m", "with git"], s.child);
  const own = await headOf(s);
  s.write("later.txt", "later\n", s.child);
  writeFileSync(lockOf(s, "index.lock"), "");
  s.waiting.until = async () => rmSync(lockOf(s, "index.lock"), { force: true });
  await s.repo.snapshot(s.child, "token-snapshot");
  const here = await at(s);
  expect(here.parent).toBe(own);
  expect(await headOf(s)).toBe(own);
  expect(await s.jj(["diff", "--name-only", "-r", here.commitId], s.root)).toBe("later.txt\n");
});
