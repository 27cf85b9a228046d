/** jj contract: colocated workspaces, in which agents use git behind jj's back. */
import { expect } from "bun:test";
import type { Scenario, Start } from "./jj-driver.ts";
import { addThread } from "./jj-scenarios-history.ts";

/** A colocated thread on the parent's `@`. */
const THREAD: Start = {
  name: "colocated thread",
  colocated: true,
  async prepare(world, see) {
    await addThread(world, "kk-b", await see.at("default"));
  },
};

export const GIT: readonly Scenario[] = [
  {
    name: "git commit in a fresh workspace → H HEAD; the snapshot imports it, @ moves sideways",
    start: THREAD,
    async run(world, see) {
      await see.view("start");
      const child = world.in("kk-b");
      child.write("b.txt", "b\n");
      await world.repo.snapshot(world.folder("kk-b"), "token-1");
      await see.view("recorded");
      child.write("c.txt", "c\n");
      await child.gitCommit("by git");
      const moved = await see.workspace("committed", "kk-b");
      expect([moved.state, moved.changed.includes("H HEAD")]).toEqual(["FreshDirty", true]);
      await world.repo.snapshot(world.folder("kk-b"), "token-2");
      const commits = await see.view("imported");
      expect(commits.find((c) => c.description === "by git")?.hidden).toBe(false);
      expect((await see.workspace("imported", "kk-b")).state).toBe("FreshClean");
      const at = await see.commit(await see.at("kk-b"));
      expect(await world.gitHead("kk-b")).toBe(at.parents[0]!);
    },
  },
  {
    name: "git commit in an undescribed, empty @ → imported without a sibling; jj goes on from there",
    start: THREAD,
    async run(world, see) {
      const child = world.in("kk-b");
      await child.newChange();
      await see.view("start");
      child.write("c.txt", "c\n");
      await child.gitCommit("by git");
      await child.status();
      await see.view("imported");
      child.write("d.txt", "d\n");
      await child.commit("by jj");
      await see.view("committed");
      const at = await see.commit(await see.at("kk-b"));
      expect(await world.gitHead("kk-b")).toBe(at.parents[0]!);
    },
  },
  {
    name: "parent amended → HEAD moves with update-stale, in an operation that carries its token",
    start: THREAD,
    async run(world, see) {
      await see.view("start");
      world.in("default").write("p.txt", "amended\n");
      await world.in("default").status();
      expect((await see.probe("amended", "kk-b")).state).toBe("StaleClean");
      const before = await see.head();
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      await see.view("updated");
      const [own] = await world.repo.operations(await see.head(), 1);
      expect([own!.parents, own!.args.includes("token-update")]).toEqual([[before], true]);
      expect(await world.gitHead("kk-b")).toBe(await see.at("default"));
      expect((await see.workspace("updated", "kk-b")).state).toBe("FreshClean");
    },
  },
  {
    name: "parent reworded → nothing to do, HEAD stays; the next command of the child moves on",
    start: THREAD,
    async run(world, see) {
      await see.view("start");
      await world.in("default").describe("reworded");
      expect((await see.probe("reworded", "kk-b")).state).toBe("FreshClean");
      await world.in("kk-b").status();
      expect((await see.probe("looked", "kk-b")).state).toBe("FreshClean");
      await see.view("looked");
      see.note("HEAD", await world.gitHead("kk-b"));
      world.in("kk-b").write("b.txt", "b\n");
      await world.in("kk-b").newChange({ message: "next" });
      await see.view("new revision");
      const at = await see.commit(await see.at("kk-b"));
      expect(await world.gitHead("kk-b")).toBe(at.parents[0]!);
    },
  },
  {
    name: "git commit, then the parent amended → StaleDirty; update-stale brings the old parent back",
    start: THREAD,
    async run(world, see) {
      await see.view("start");
      const child = world.in("kk-b");
      child.write("b.txt", "b\n");
      await child.gitCommit("by git");
      world.in("default").write("p.txt", "amended\n");
      await world.in("default").status();
      await see.view("amended");
      const stale = await see.workspace("amended", "kk-b");
      expect([stale.state, stale.changed.includes("H HEAD")]).toEqual(["StaleDirty", true]);
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      await see.view("updated");
      await see.workspace("updated", "kk-b");
    },
  },
];
