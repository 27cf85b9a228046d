/** jj contract: workspaces, bookmarks, and the staged rebase. */
import { expect } from "bun:test";
import { dirname } from "node:path";
import type { CommitId } from "../../src/core/ids.ts";
import { COLOCATED, PLAIN, type Observer, type Scenario, type World } from "./jj-driver.ts";
import { addThread, baseOf } from "./jj-scenarios-history.ts";

const WORKSPACES: readonly Scenario[] = [
  ...[false, true].map((colocated): Scenario => ({
    name: `addWorkspace: ${colocated ? "colocated" : "plain"} → two operations, a described empty change on the base`,
    start: colocated ? COLOCATED : PLAIN,
    async run(world, see) {
      await see.view("start");
      world.in("default").write("dirty.txt", "not recorded\n");
      await addThread(world, "kk-b", await see.at("default"));
      await see.view("added");
      await see.workspace("added", "kk-b");
      expect((await see.probe("not recorded", "default")).state).toBe("FreshDirty");
      const [second, first] = await world.repo.operations(await see.head(), 2);
      expect([first!.args, first!.workspaceName]).toEqual(["", null]);
      expect(second!.args).toContain("token-add-kk-b");
      const between = (await world.repo.workspaces(first!.id)).find(
        ({ workspace }) => workspace === "kk-b",
      )!;
      expect(between).toMatchObject({ parents: ["0".repeat(40)], empty: true });
      if (colocated)
        see.note("HEAD", [await world.gitHead("kk-b"), await world.gitHead("default")]);
    },
  })),
  {
    name: "locate: main, a folder in it, a thread's workspace, elsewhere → the same repository, or none",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      world.in("default").write("deep/er/file", "1\n");
      const main = world.folder("default");
      for (const folder of [main, `${main}/deep/er`, world.folder("kk-b")])
        see.note("located", await world.backend.locate(folder));
      expect(await world.backend.locate(dirname(main))).toBeNull();
      expect(await world.backend.locate(`${main}/none`)).toBeNull();
      await world.repo.ensureNeutral("token-again");
      await see.view("kiki's own folder is there already");
    },
  },
  {
    name: "addWorkspace: name taken, place taken, no name, unknown base → refused by name, no operation",
    async run(world, see) {
      const base = await see.at("default");
      await see.view("start");
      const add =
        (name: string, place: string, on = base) =>
        () =>
          world.repo.addWorkspace({
            name,
            path: world.folder(place),
            base: on,
            description: name,
            token: "token-add",
          });
      expect(await see.outcome("name", add("default", "kk-x"))).toBe("jj-workspace-exists");
      expect(await see.outcome("place", add("kk-x", "default"))).toBe("workspace-path-exists");
      expect(await see.outcome("parent", add("kk-x", "no/such/kk-x"))).toBe(
        "workspace-parent-missing",
      );
      expect(await see.outcome("no name", add("", "kk-y"))).toBe("jj-failed");
      await see.view("after");
    },
  },
  {
    name: "forgetWorkspace: described → its revision stays visible, files stay; twice → no error",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      const at = await see.at("kk-b");
      await see.view("start");
      await world.repo.forgetWorkspace("kk-b", "token-1");
      await see.view("forgotten");
      const probe = await see.workspace("forgotten", "kk-b");
      expect([probe.state, probe.reason?.split(":")[0]]).toEqual(["Unknown", "forgotten"]);
      const head = await see.head();
      await world.repo.forgetWorkspace("kk-b", "token-2");
      expect(await see.head()).toBe(head);
      await world.repo.abandon([at], "token-3");
      await see.view("abandoned");
      expect((await world.repo.existing(await see.head(), [at]))[0]!.hidden).toBe(true);
    },
  },
  {
    name: "forgetWorkspace: empty, undescribed @ → gone with it, unless it is bookmarked",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      await addThread(world, "kk-c", await see.at("default"));
      await world.in("kk-b").newChange();
      await world.in("kk-c").newChange();
      await world.repo.createBookmark("kk/c", await see.at("kk-c"), "token-mark");
      await see.view("start");
      await world.repo.forgetWorkspace("kk-b", "token-1");
      await world.repo.forgetWorkspace("kk-c", "token-2");
      await see.view("forgotten");
      const [kept] = (await world.repo.bookmarks(await see.head()))[0]!.targets;
      expect(await see.commit(kept!)).toMatchObject({ hidden: false, description: "" });
    },
  },
  {
    name: "abandon: a workspace's @, a chain with a child on it → new @ on the parent, child moved, bookmarks gone",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      await world.in("kk-b").commit("b1");
      world.in("kk-b").write("b.txt", "b\n");
      await world.in("kk-b").describe("b2");
      await addThread(world, "kk-c", await see.at("kk-b"));
      await world.repo.createBookmark("kk/b", await see.at("kk-b"), "token-mark");
      await see.view("start");
      const head = await see.head();
      const chain = await world.repo.commits(head, `${await see.at("default")}..kk-b@`);
      await world.repo.abandon(
        chain.map((c) => c.commitId),
        "token-abandon",
      );
      await see.view("abandoned");
      await see.workspace("abandoned", "kk-b");
      await see.workspace("abandoned", "kk-c");
      expect(await world.repo.bookmarks(await see.head())).toEqual([]);
    },
  },
  {
    name: "bookmark: on a workspace's @ that was rewritten since → jj-moved, nothing is done; on the one it is at now → made",
    async run(world, see) {
      const old = await see.at("default");
      await world.in("default").describe("reworded");
      const create = (commit: CommitId) =>
        world.repo.createBookmark("kk/x", commit, "token-mark", "default");
      expect(await see.outcome("old", () => create(old))).toBe("jj-moved");
      await see.view("after the first");
      expect(await see.outcome("now", async () => create(await see.at("default")))).toBe("done");
      await see.view("after");
    },
  },
  {
    name: "abandon, bookmark, base: of a hidden revision → refused (jj would bring it back)",
    stricter: true,
    async run(world, see) {
      const old = await see.at("default");
      await world.in("default").describe("reworded");
      await see.view("start");
      const { repo } = world;
      expect(await see.outcome("abandon", () => repo.abandon([old], "t"))).toBe("jj-failed");
      expect(await see.outcome("bookmark", () => repo.createBookmark("kk/x", old, "t"))).toBe(
        "jj-failed",
      );
      expect(await see.outcome("base", () => addThread(world, "kk-x", old))).toBe("jj-failed");
      await see.view("after");
    },
  },
];

const BOOKMARKS: readonly Scenario[] = [
  {
    name: "bookmark: on a thread's @ → follows its snapshot, an amend of its parent, also after forget",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      await world.repo.createBookmark("kk/b", await see.at("kk-b"), "token-mark");
      world.in("kk-b").write("b.txt", "b\n");
      await see.view("start");
      await world.repo.snapshot(world.folder("kk-b"), "token-snapshot");
      await see.view("snapshot");
      await world.repo.forgetWorkspace("kk-b", "token-forget");
      const main = world.in("default");
      main.write("p.txt", "amended\n");
      await main.status();
      const commits = await see.view("amended");
      const [mark] = await world.repo.bookmarks(await see.head());
      expect(mark!.targets).toEqual([commits.find((c) => c.description === "kk-b")!.commitId]);
    },
  },
  {
    name: "bookmark: created twice, deleted twice, renamed and moved by a person → as jj says",
    async run(world, see) {
      const { repo } = world;
      const at = await see.at("default");
      await see.view("start");
      await repo.createBookmark("kk/a", at, "token-a");
      expect(await see.outcome("again", () => repo.createBookmark("kk/a", at, "token-b"))).toBe(
        "jj-bookmark-exists",
      );
      const main = world.in("default");
      await main.newChange({ message: "next" });
      await see.view("new revision");
      await main.bookmark("kk/a", await see.at("default"));
      await main.renameBookmark("kk/a", "mine");
      await see.view("renamed");
      await repo.deleteBookmark("mine", "token-c");
      const head = await see.head();
      await repo.deleteBookmark("mine", "token-d");
      expect(await see.head()).toBe(head);
      await see.view("deleted");
    },
  },
  {
    name: "bookmark: names jj refuses → refused, no operation",
    async run(world, see) {
      const at = await see.at("default");
      await see.view("start");
      for (const name of ["", "a b", "a..b", "-x", "a@b", "a~b", "@", "a:b"]) {
        const create = () => world.repo.createBookmark(name, at, "token-mark");
        expect(await see.outcome(`"${name}"`, create)).toBe("jj-failed");
      }
      await see.view("after");
    },
  },
  {
    name: "bookmark: names jj takes and git does not → refused",
    stricter: true,
    async run(world, see) {
      const at = await see.at("default");
      for (const name of ["a//b", "x.lock", "/a", "a/", "HEAD", "n".repeat(300)]) {
        const create = () => world.repo.createBookmark(name, at, "token-mark");
        expect(await see.outcome(name, create)).toBe("jj-failed");
      }
    },
  },
];

/** B has two commits on the parent's old head; the parent has advanced by one. */
async function advanced(
  world: World,
  see: Observer,
): Promise<{ chain: CommitId[]; onto: CommitId }> {
  await addThread(world, "kk-b", await see.at("default"));
  const child = world.in("kk-b");
  child.write("b.txt", "1\n");
  await child.commit("b1");
  child.write("b.txt", "2\n");
  await child.describe("b2");
  await world.in("default").newChange({ message: "parent 2" });
  world.in("default").write("q.txt", "q\n");
  await world.in("default").status();
  const [b2, b1] = await world.repo.commits(await see.head(), "::kk-b@");
  await see.view("advanced");
  return { chain: [b1!.commitId, b2!.commitId], onto: await see.at("default") };
}

const STAGED: readonly Scenario[] = [
  {
    name: "stageRebase → nothing moves; the staged view shows it; integrate publishes exactly it, once",
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      const at = await see.head();
      const staged = await repo.stageRebase({ at, chain, onto, token: "token-stage" });
      expect(await repo.heads()).toEqual([at]);
      expect(await repo.operationExists(staged.id)).toBe(true);
      await see.view("staged", staged.id);
      expect((await see.probe("staged", "kk-b", at)).state).toBe("FreshClean");
      const moved = await repo.commits(staged.id, `${onto}..kk-b@`);
      expect(moved.map((c) => c.description)).toEqual(["b2", "b1"]);
      await repo.integrate(staged.id, "token-integrate");
      expect(await repo.heads()).toEqual([staged.id]);
      await repo.integrate(staged.id, "token-again");
      expect(await repo.heads()).toEqual([staged.id]);
      expect((await see.workspace("integrated", "kk-b")).state).toBe("StaleClean");
      await repo.updateStale(world.folder("kk-b"), "token-update");
      expect((await see.workspace("updated", "kk-b")).state).toBe("FreshClean");
      await see.view("updated");
    },
  },
  {
    name: "stageRebase: colocated → git HEAD follows with the files, in an operation of its own",
    start: COLOCATED,
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      const at = await see.head();
      const staged = await repo.stageRebase({ at, chain, onto, token: "token-stage" });
      await repo.integrate(staged.id, "token-integrate");
      expect((await see.probe("integrated", "kk-b")).state).toBe("StaleClean");
      await repo.updateStale(world.folder("kk-b"), "token-update");
      await see.view("updated");
      const child = await see.commit(await see.at("kk-b"));
      expect(await world.gitHead("kk-b")).toBe(child.parents[0]!);
      expect((await see.workspace("updated", "kk-b")).state).toBe("FreshClean");
    },
  },
  {
    name: "stageRebase: in place already → jj-nothing-staged; unknown revision or target → refused",
    async run(world, see) {
      const { repo } = world;
      const { chain } = await advanced(world, see);
      const at = await see.head();
      const [base] = (await see.commit(chain[0]!)).parents;
      const stage =
        (onto: CommitId, revisions = chain) =>
        () =>
          repo.stageRebase({ at, chain: revisions, onto, token: "token-stage" });
      expect(await see.outcome("in place", stage(base!))).toBe("jj-nothing-staged");
      expect(await see.outcome("nowhere", stage("f".repeat(40)))).toBe("jj-revset");
      expect(await see.outcome("nothing", stage(base!, ["f".repeat(40)]))).toBe("jj-revset");
      expect(
        await see.outcome("no such operation", () => repo.integrate("f".repeat(128), "t")),
      ).toBe("jj-op-missing");
      expect(await see.head()).toBe(at);
    },
  },
  // One operation is staged per scenario: jj gives two equal revisions made in one second the same id.
  ...[false, true].map((named): Scenario => ({
    name: `stageRebase: another thread on the chain, ${named ? "named → comes along" : "not named → stays behind"}`,
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      await addThread(world, "kk-c", chain[1]!);
      await see.view("start");
      const at = await see.head();
      const together = named ? [...chain, await see.at("kk-c")] : chain;
      const staged = await repo.stageRebase({ at, chain: together, onto, token: "token-stage" });
      await see.view("staged", staged.id);
      const [below] = await repo.commits(staged.id, "kk-c@-");
      expect(below!.description).toBe(named ? "b2" : "parent");
      expect(await repo.heads()).toEqual([at]);
    },
  })),
  {
    name: "stageRebase: one revision out of a chain → what stood on it stays behind",
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      const at = await see.head();
      const staged = await repo.stageRebase({ at, chain: [chain[0]!], onto, token: "token-3" });
      await see.view("staged", staged.id);
      expect(await repo.heads()).toEqual([at]);
    },
  },
  {
    name: "stageRebase: conflict → seen in the staged operation before anything is published",
    async run(world, see) {
      const { repo } = world;
      const { chain } = await advanced(world, see);
      world.in("default").write("b.txt", "the parent's\n");
      await world.in("default").status();
      const onto = await see.at("default");
      const at = await see.head();
      const staged = await repo.stageRebase({ at, chain, onto, token: "token-stage" });
      await see.view("staged", staged.id);
      const conflicts = await repo.commits(staged.id, "conflicts() & ::kk-b@");
      expect(conflicts).toHaveLength(2);
      expect(await repo.conflictedPaths(staged.id, conflicts[0]!.commitId)).toEqual(["b.txt"]);
    },
  },
  ...[
    {
      what: "the agent's snapshot of the same change",
      act: async (world: World) => {
        world.in("kk-b").write("b.txt", "edited meanwhile\n");
        await world.in("kk-b").status();
      },
    },
    {
      what: "something unrelated",
      act: async (world: World, see: Observer) =>
        world.in("default").bookmark("other", await see.at("default")),
    },
    {
      what: "the parent amended",
      act: async (world: World) => {
        world.in("default").write("q.txt", "amended meanwhile\n");
        await world.in("default").status();
      },
    },
  ].map(({ what, act }): Scenario => ({
    name: `integrate: ${what} landed after staging → merged, not refused; heads tell before and after`,
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      const at = await see.head();
      const staged = await repo.stageRebase({ at, chain, onto, token: "token-stage" });
      await act(world, see);
      expect(await repo.heads()).not.toEqual([at]);
      await repo.integrate(staged.id, "token-integrate");
      const [merged] = await repo.heads();
      expect(merged).not.toBe(staged.id);
      expect((await repo.operations(merged!, 1))[0]!.parents).toHaveLength(2);
      await see.view("merged");
      await see.workspace("merged", "kk-b");
      await repo.updateStale(world.folder("kk-b"), "token-update");
      await see.view("updated");
      await see.workspace("updated", "kk-b");
    },
  })),
  {
    name: "integrate: staged on an operation that was no head any more → merged with what came after",
    async run(world, see) {
      const { repo } = world;
      const { chain, onto } = await advanced(world, see);
      const at = await see.head();
      await world.in("default").describe("reworded in between");
      const staged = await repo.stageRebase({ at, chain, onto, token: "token-stage" });
      await repo.integrate(staged.id, "token-integrate");
      await see.view("merged");
      expect((await repo.operations(await see.head(), 1))[0]!.parents).toHaveLength(2);
    },
  },
  {
    name: "recovery: adopting the divergent copy with the edits → one change again, edits in the files",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      const main = world.in("default");
      main.write("p.txt", "amended\n");
      await main.status();
      const child = world.in("kk-b");
      child.write("b.txt", "unrecorded\n");
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      await see.view("diverged");
      const clean = await see.commit(await see.at("kk-b"));
      const copies = await world.repo.commits(await see.head(), `change_id(${clean.changeId})`);
      const [edits] = copies.filter((c) => c.commitId !== clean.commitId);
      await child.edit(edits!.commitId);
      await child.abandon(clean.commitId);
      await see.view("adopted");
      await see.workspace("adopted", "kk-b");
      expect((await see.commit(await see.at("kk-b"))).divergent).toBe(false);
      expect(world.files("kk-b")).toMatchObject({
        "b.txt": "f:unrecorded\n",
        "p.txt": "f:amended\n",
      });
      const head = await see.head();
      const base = await baseOf(world, head);
      expect(await world.repo.isAncestor(head, base, await see.at("kk-b"))).toBe(true);
    },
  },
];

export const THREADS: readonly Scenario[] = [...WORKSPACES, ...BOOKMARKS, ...STAGED];
