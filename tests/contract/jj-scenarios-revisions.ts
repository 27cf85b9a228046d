/** jj contract: revisions, how they evolve, and how kiki asks for them. */
import { expect } from "bun:test";
import type { CommitId } from "../../src/core/ids.ts";
import type { Scenario } from "./jj-driver.ts";
import { addThread, baseOf } from "./jj-scenarios-history.ts";

export const REVISIONS: readonly Scenario[] = [
  {
    name: "revsets: what kiki asks → the same commits",
    async run(world, see) {
      const main = world.in("default");
      await main.commit("parent, done");
      main.write("q.txt", "q\n");
      await main.describe("second");
      await addThread(world, "kk-b", await see.at("default"));
      await main.newChange({ message: "side" });
      const head = await see.head();
      await see.view("start");
      const b = await see.at("kk-b");
      const [second] = await world.repo.commits(head, `${b}-`);
      const [parent] = await world.repo.commits(head, `${second!.commitId}-`);
      const [p, s] = [parent!.commitId, second!.commitId];
      for (const revset of [
        `${p}..${b}`,
        `${s}..${p}`,
        `roots(${p}..${b})`,
        `descendants(${p}..${s}) ~ ${p}..${s}`,
        `(descendants((${p}..${s})) ~ (${p}..${s})) & ::(${b} | ${p})`,
        `descendants(roots(${p}..${b}))`,
        `::${s}`,
        `${s}::`,
        `heads(all())`,
        `"kk-b"@`,
        `"kk-b"@-`,
        "kk-b@",
        "@",
        "default@-",
        "trunk()",
        "root()",
        "none()",
        `change_id(${second!.changeId}) & ::${b}`,
        `present(${"f".repeat(40)})`,
        `present(${s}) | present(${"f".repeat(40)})`,
        "empty() ~ root()",
        "conflicts() | divergent() | merges()",
        "immutable()",
      ]) {
        const found = await world.repo.commits(head, revset);
        see.note(
          revset,
          found.map((c) => c.commitId).sort((x, y) => order(x) - order(y)),
        );
      }
      // Numbered by the view above; sorted by that number here.
      function order(id: CommitId): number {
        return Number(/\d+$/.exec(see.nameOf(id))?.[0] ?? 0);
      }
      const chain = await world.repo.commits(head, `${p}..${b}`);
      expect(chain.map((c) => c.description)).toEqual(["kk-b", "second"]);
    },
  },
  {
    name: "revsets: bad ones → jj-revset",
    async run(world, see) {
      const head = await see.head();
      for (const revset of [
        "no-such-name",
        "f".repeat(40),
        "all(",
        "| all()",
        "no_such_function()",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzy",
        "nobody@",
      ]) {
        expect(await see.outcome(revset, () => world.repo.commits(head, revset))).toBe("jj-revset");
      }
    },
  },
  {
    name: "existing: hidden by a rewrite → found by full id, hidden; made after the operation → not there",
    async run(world, see) {
      const before = await see.head();
      const old = await see.at("default");
      await see.view("start");
      await world.in("default").describe("reworded");
      const fresh = await see.at("default");
      await see.view("after");
      const now = await world.repo.existing(await see.head(), [old, fresh, "f".repeat(40)]);
      expect(new Map(now.map((c) => [c.commitId, c.hidden]))).toEqual(
        new Map([
          [old, true],
          [fresh, false],
        ]),
      );
      const then = await world.repo.existing(before, [old, fresh]);
      expect(then.map((c) => [c.commitId, c.hidden])).toEqual([[old, false]]);
      const head = await see.head();
      expect(await world.repo.isAncestor(head, old, old)).toBe(true);
      expect(await world.repo.isAncestor(head, old, fresh)).toBe(false);
      expect(await world.repo.isAncestor(head, await baseOf(world, before), fresh)).toBe(true);
      expect(await world.repo.isAncestor(head, fresh, await baseOf(world, before))).toBe(false);
    },
  },
  {
    name: "evolvedFrom: amend, rebase, squash → every recorded predecessor",
    async run(world, see) {
      const main = world.in("default");
      const first = await see.at("default");
      main.write("p.txt", "parent 2\n");
      await main.status();
      await main.newChange({ message: "top" });
      main.write("z.txt", "z\n");
      await main.status();
      await see.view("start");
      const top = await see.at("default");
      await main.squash();
      await see.view("squashed");
      const [into] = await world.repo.commits(await see.head(), "@-");
      const from = await world.repo.evolvedFrom(await see.head(), into!.commitId);
      expect(from).toContain(first);
      expect(from).toContain(top);
      see.note("predecessors of the squash", from.length);
      await main.rebase("-s", into!.commitId, "0".repeat(40));
      await see.view("rebased");
      const [moved] = await world.repo.commits(await see.head(), "@-");
      const all = await world.repo.evolvedFrom(await see.head(), moved!.commitId);
      expect(all).toEqual(expect.arrayContaining([into!.commitId, first, top]));
      see.note("predecessors of the rebase", all.length);
    },
  },
  {
    name: "evolution: amend in A → B and C move in the same operation, bookmarks too, files do not",
    async run(world, see) {
      const main = world.in("default");
      await addThread(world, "kk-b", await see.at("default"));
      world.in("kk-b").write("b.txt", "b\n");
      await world.in("kk-b").status();
      await world.repo.createBookmark("kk/b", await see.at("kk-b"), "token-mark");
      await addThread(world, "kk-c", await see.at("kk-b"));
      const [b, c] = [await see.at("kk-b"), await see.at("kk-c")];
      await see.view("start");
      main.write("p.txt", "amended\n");
      await main.status();
      await see.view("amended");
      const head = await see.head();
      expect(await world.repo.evolvedFrom(head, await see.at("kk-b"))).toContain(b);
      expect(await world.repo.evolvedFrom(head, await see.at("kk-c"))).toContain(c);
      expect(await world.repo.isAncestor(head, await see.at("default"), await see.at("kk-c"))).toBe(
        true,
      );
      for (const name of ["default", "kk-b", "kk-c"]) await see.workspace("amended", name);
      await world.repo.updateStale(world.folder("kk-c"), "token-update");
      expect((await see.workspace("updated", "kk-c")).state).toBe("FreshClean");
      await see.view("updated");
    },
  },
  {
    name: "evolution: a new revision in A → B stays where it is",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      await see.view("start");
      const main = world.in("default");
      await main.newChange({ message: "advance" });
      main.write("q.txt", "q\n");
      await main.status();
      await see.view("advanced");
      const head = await see.head();
      expect(await world.repo.isAncestor(head, await see.at("default"), await see.at("kk-b"))).toBe(
        false,
      );
      expect((await see.probe("advanced", "kk-b")).state).toBe("FreshClean");
    },
  },
  {
    name: "evolution: parent moved backwards, abandoned, or a child rebased elsewhere by hand",
    async run(world, see) {
      const main = world.in("default");
      const parent = await see.at("default");
      await addThread(world, "kk-b", parent);
      const base = await baseOf(world, await see.head());
      await see.view("start");
      await main.rebase("-r", await see.at("kk-b"), base);
      await see.view("child moved");
      await main.newChange({ on: [base], message: "elsewhere" });
      await main.abandon(parent);
      await see.view("abandoned");
      await main.edit((await see.commit(await see.at("kk-b"))).commitId);
      await see.view("both on one");
      main.write("two.txt", "2\n");
      await main.status();
      await see.view("amended by one of the two");
      await see.workspace("amended by one of the two", "kk-b");
    },
  },
  {
    name: "conflict: child and parent change one line → conflicted; parent takes it back → resolved",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      const [main, child] = [world.in("default"), world.in("kk-b")];
      child.write("base.txt", "line 1\nchild\nline 3\n");
      await child.status();
      main.write("base.txt", "line 1\nparent\nline 3\n");
      await main.status();
      await see.view("conflicted");
      const head = await see.head();
      const b = await see.at("kk-b");
      expect(await see.commit(b)).toMatchObject({ conflict: true });
      expect(await world.repo.conflictedPaths(head, b)).toEqual(["base.txt"]);
      expect(await world.repo.conflictedPaths(head, await see.at("default"))).toEqual([]);
      await world.repo.updateStale(world.folder("kk-b"), "token-1");
      expect((await see.workspace("conflicted", "kk-b")).state).toBe("FreshClean");
      await main.describe("reworded");
      expect((await see.probe("reworded", "kk-b")).state).toBe("FreshClean");
      main.write("base.txt", "line 1\nline 2\nline 3\n");
      await main.status();
      await see.view("taken back");
      expect(await see.commit(await see.at("kk-b"))).toMatchObject({ conflict: false });
      await world.repo.updateStale(world.folder("kk-b"), "token-2");
      await see.workspace("taken back", "kk-b");
    },
  },
  {
    name: "conflict: resolved in the files → the next snapshot has none; apart changes merge",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      const [main, child] = [world.in("default"), world.in("kk-b")];
      child.write("base.txt", "line 1\nline 2\nline 3\nchild\n");
      child.write("p.txt", "mine\n");
      await child.status();
      main.write("base.txt", "parent\nline 1\nline 2\nline 3\n");
      main.write("p.txt", "theirs\n");
      await main.status();
      await world.repo.updateStale(world.folder("kk-b"), "token-1");
      await see.workspace("half merged", "kk-b");
      child.write("p.txt", "both\n");
      expect((await see.probe("edited", "kk-b")).state).toBe("FreshDirty");
      await world.repo.snapshot(world.folder("kk-b"), "token-2");
      await see.view("resolved");
      expect(await see.commit(await see.at("kk-b"))).toMatchObject({ conflict: false });
    },
  },
  {
    name: "changedPaths: modified, added, deleted, renamed, exec bit, symlink, nothing → as jj says",
    async run(world, see) {
      const main = world.in("default");
      main.write("old-name.txt", "some content that is long enough\nto be recognised\n");
      main.write("gone.txt", "gone\n");
      main.write("run.sh", "#!/bin/sh\n");
      await main.newChange({ message: "changes" });
      const [before] = await world.repo.commits(await see.head(), "@-");
      main.write("p.txt", "changed\n");
      main.write("new/a.txt", "new\n");
      main.remove("gone.txt");
      main.remove("old-name.txt");
      main.write("new-name.txt", "some content that is long enough\nto be recognised\n");
      main.write("run.sh", "#!/bin/sh\n", 0o755);
      main.symlink("p.txt", "link");
      await main.status();
      const head = await see.head();
      const at = await see.at("default");
      const changed = await world.repo.changedPaths(head, before!.commitId, at);
      see.note("changed", sorted(changed));
      expect(sorted(changed)).toContainEqual({ status: "R", path: "new-name.txt" });
      see.note("back", sorted(await world.repo.changedPaths(head, at, before!.commitId)));
      expect(await world.repo.changedPaths(head, at, at)).toEqual([]);
      const all = await world.repo.changedPaths(head, "0".repeat(40), at);
      see.note("from nothing", sorted(all));
      const { stat, text } = await world.repo.diff(head, before!.commitId, at);
      expect(text).toContain("+changed");
      expect(text.startsWith("diff --git ")).toBe(true);
      expect(stat).toContain("p.txt");
      expect(stat.trimEnd().split("\n").at(-1)).toMatch(/^\d+ files? changed/);
      expect((await world.repo.diff(head, at, at)).text).toBe("");
    },
  },
  {
    name: "immutable: abandon, stage and edit → refused, nothing changed",
    async run(world, see) {
      const parent = await see.at("default");
      const base = await baseOf(world, await see.head());
      await world.in("default").newChange({ message: "top" });
      await world.makeImmutable([parent]);
      await see.view("start");
      const { repo } = world;
      const at = await see.head();
      const stage = (): Promise<unknown> =>
        repo.stageRebase({ at, chain: [parent], onto: base, token: "token-1" });
      expect(await see.outcome("stage", stage)).toBe("jj-immutable");
      expect(await see.outcome("abandon", () => repo.abandon([parent], "token-2"))).toBe(
        "jj-immutable",
      );
      expect(await see.refused("edit", () => world.in("default").edit(parent))).toBe(true);
      expect(await see.refused("describe", () => world.in("default").describe("x", parent))).toBe(
        true,
      );
      await see.view("after");
    },
  },
];

function sorted<T extends { path: string }>(changes: readonly T[]): T[] {
  return [...changes].sort((a, b) => (a.path < b.path ? -1 : 1));
}
