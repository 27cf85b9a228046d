/** jj contract: operations, their heads, and what merging them does. */
import { expect } from "bun:test";
import type { CommitId, OpId } from "../../src/core/ids.ts";
import type { Scenario, World } from "./jj-driver.ts";

/** A workspace as `kk new` makes it: a described empty change on exactly `base`. */
export async function addThread(world: World, name: string, base: CommitId): Promise<void> {
  await world.repo.addWorkspace({
    name,
    path: world.folder(name),
    base,
    description: name,
    token: `token-add-${name}`,
  });
}

export const HISTORY: readonly Scenario[] = [
  {
    name: "heads: commands one after another → one head, each operation on the one before",
    async run(world, see) {
      await see.view("start");
      const main = world.in("default");
      await main.describe("one");
      await main.newChange({ message: "two" });
      main.write("a.txt", "a\n");
      await main.status();
      const commits = await see.view("after");
      expect(commits.filter((c) => !c.empty).map((c) => c.description)).toContain("two");
    },
  },
  {
    name: "heads: two commands on the same operation → two heads; pure reads merge nothing",
    async run(world, see) {
      const { repo } = world;
      const start = await see.head();
      await see.view("start");
      await world.at(start, "default").describe("reworded");
      await world.at(start, "default").newChange({ message: "next" });
      const heads = await repo.heads();
      expect(heads).toHaveLength(2);
      for (const head of heads) {
        const [own] = await repo.operations(head, 1);
        expect(own!.parents).toEqual([start]);
        expect(await repo.commits(head, "all()")).not.toHaveLength(0);
        expect(await repo.workspaces(head)).toHaveLength(1);
        await repo.bookmarks(head);
      }
      await see.probe("with two heads", "default");
      await repo.statusText(world.folder("default"));
      expect(await repo.heads()).toEqual(heads);
    },
  },
  {
    name: "heads: a mutation of kiki meets two → one operation with both as parents, then its own",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      await world.at(start, "default").describe("reworded");
      await world.at(start, "default").newChange({ message: "next" });
      await world.repo.createBookmark("kk/x", await baseOf(world, start), "token-mark");
      const commits = await see.view("merged");
      expect(commits.find((c) => c.description === "next")?.divergent).toBe(false);
      const [own, merge] = await world.repo.operations(await see.head(), 2);
      expect(own!.parents).toEqual([merge!.id]);
      expect(merge!.parents).toHaveLength(2);
      expect(merge!.args).toContain("token-mark");
    },
  },
  {
    name: "heads: merged by kiki → one operation with all of them as parents and its token, no file looked at; of one head none",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      await world.at(start, "default").describe("reworded");
      await world.at(start, "default").newChange({ message: "next" });
      const heads = await world.repo.heads();
      world.in("default").write("p.txt", "nobody has recorded this\n");
      const before = world.files("default");
      const release = await world.holdWorkspace("default");
      // Two at the same time; whose operation it becomes is nobody's to say.
      await Promise.all([1, 2].map(() => world.repo.mergeHeads("token-one")));
      await release();
      const [merge] = await world.repo.operations(await see.head(), 1);
      expect([...merge!.parents].sort()).toEqual(heads);
      expect(merge!.args).toContain("token-one");
      expect(merge!.isSnapshot).toBe(false);
      expect(world.files("default")).toEqual(before);
      await world.repo.mergeHeads("token-three");
      expect(await see.head()).toBe(merge!.id);
      await see.view("merged");
    },
  },
  {
    name: "heads: three at once → one operation with three parents",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      for (const name of ["a", "b", "c"])
        await world.at(start, "default").bookmark(name, await baseOf(world, start));
      expect(await world.repo.heads()).toHaveLength(3);
      await world.in("default").status();
      await see.view("merged");
      expect((await world.repo.operations(await see.head(), 1))[0]!.parents).toHaveLength(3);
    },
  },
  {
    name: "heads: one change rewritten on both → divergent, @ with the earlier",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      const { changeId } = await see.commit(await see.at("default"));
      await world.at(start, "default").describe("one way");
      await world.at(start, "default").describe("another way");
      await world.in("default").status();
      const commits = await see.view("merged");
      expect(commits.filter((c) => c.divergent)).toHaveLength(2);
      const head = await see.head();
      expect(await world.repo.commits(head, `change_id(${changeId})`)).toHaveLength(2);
      const at = await see.commit(await see.at("default"));
      expect(at.description).toBe("one way");
      expect(await see.outcome("as a symbol", () => world.repo.commits(head, changeId))).toBe(
        "jj-revset",
      );
      await world
        .in("default")
        .abandon(commits.find((c) => c.description === "another way")!.commitId);
      const after = await see.view("one abandoned");
      expect(after.some((c) => c.divergent)).toBe(false);
    },
  },
  {
    name: "heads: one workspace moved on both → the earlier operation's @ stands",
    async run(world, see) {
      const start = await see.head();
      const base = await baseOf(world, start);
      await see.view("start");
      await world.at(start, "default").newChange({ on: [base], message: "first" });
      await world.at(start, "default").newChange({ on: [base], message: "second" });
      await world.repo.createBookmark("kk/x", base, "token-merge");
      await see.view("merged");
      expect((await see.commit(await see.at("default"))).description).toBe("first");
    },
  },
  {
    name: "heads: three, two of them part after the workspace went on → @ of the one that went on last",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      const base = await baseOf(world, start);
      await world.at(start, "default").bookmark("beside", base);
      const later = await onTop(world, start, "two");
      await world.at(later, "default").bookmark("beside-later", base);
      await onTop(world, later, "three");
      expect(await world.repo.heads()).toHaveLength(3);
      await world.in("default").updateStale();
      const commits = await see.view("merged");
      expect((await see.commit(await see.at("default"))).description).toBe("three");
      expect(commits.some((c) => c.divergent)).toBe(false);
    },
  },
  {
    name: "heads: three, the first of them went far on → the last is compared with where these two part, nothing is shown twice",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      const base = await baseOf(world, start);
      const later = await reworded(world, start, "once");
      let far = later;
      for (const text of ["twice", "three times", "four times"])
        far = await reworded(world, far, text);
      await world.at(start, "default").bookmark("beside", base);
      await world.at(later, "default").bookmark("beside-later", base);
      expect(await world.repo.heads()).toHaveLength(3);
      await world.in("default").updateStale();
      const commits = await see.view("merged");
      expect((await see.commit(await see.at("default"))).description).toBe("four times");
      expect(commits.some((c) => c.divergent)).toBe(false);
    },
  },
  {
    name: "heads: a bookmark moved on both → conflicted, or the descendant of the two",
    async run(world, see) {
      const parent = await see.at("default");
      const base = await baseOf(world, await see.head());
      await world.repo.createBookmark("far", base, "token-far");
      await world.in("default").newChange({ on: [base], message: "side" });
      const side = await see.at("default");
      const start = await see.head();
      await see.view("start");
      await world.at(start, "default").bookmark("far", parent);
      await world.at(start, "default").bookmark("far", side);
      await world.repo.createBookmark("near", base, "token-near");
      await see.view("merged");
      const head = await see.head();
      const far = (await world.repo.bookmarks(head)).find(({ name }) => name === "far")!;
      expect(far.targets).toHaveLength(2);
      expect(await see.outcome("conflicted name", () => world.repo.commits(head, "far"))).toBe(
        "jj-revset",
      );
      await world.at(head, "default").bookmark("near", parent);
      await world.at(head, "default").deleteBookmark("far");
      await world.in("default").status();
      await see.view("merged again");
    },
  },
  {
    name: "operations: limit and unknown or abbreviated ids → newest first; jj-op-missing",
    async run(world, see) {
      const head = await see.head();
      const all = await world.repo.operations(head, 100);
      const some = await world.repo.operations(head, 2);
      expect(some).toEqual(all.slice(0, 2));
      expect(all.at(-1)).toMatchObject({ id: "0".repeat(128), parents: [], args: "" });
      const calls: [string, () => Promise<unknown>][] = [
        ["abbreviated", () => world.repo.workspaces(head.slice(0, 12))],
        ["unknown", () => world.repo.workspaces("f".repeat(128))],
        ["an expression", () => world.repo.commits("@", "all()")],
      ];
      for (const [what, call] of calls) expect(await see.outcome(what, call)).toBe("jj-op-missing");
      expect(await world.repo.operationExists(head)).toBe(true);
      expect(await world.repo.operationExists("f".repeat(128))).toBe(false);
      expect(await world.repo.operationExists(head.slice(0, 12))).toBe(false);
    },
  },
  {
    name: "workspaceHeads: of many operations, merged and half-added ones included → what `workspaces` says of each",
    async run(world, see) {
      const { repo } = world;
      const start = await see.head();
      await addThread(world, "kk-b", await see.at("default"));
      const fork = await see.head();
      await world.at(fork, "default").describe("one side");
      await world.at(fork, "default").newChange({ message: "other side" });
      await world.in("default").status();
      const ops = (await repo.operations(await see.head(), 100)).map((op) => op.id).reverse();
      expect(ops).toContain(start);
      const heads = await repo.workspaceHeads(ops);
      expect([...heads.keys()].sort()).toEqual([...ops].sort());
      for (const op of ops.filter((id) => id !== "0".repeat(128))) {
        const views = await repo.workspaces(op);
        expect(heads.get(op)).toEqual(
          views.map(({ workspace, changeId, commitId, parents }) => ({
            workspace,
            changeId,
            commitId,
            parents,
          })),
        );
        const commits = views.map((w): [string, CommitId] => [w.workspace, w.commitId]);
        expect(new Map(await repo.workspaceCommits(op))).toEqual(new Map(commits));
      }
      expect(await repo.workspaceCommits("f".repeat(128))).toBeNull();
      expect(await see.outcome("unknown", () => repo.workspaceHeads(["f".repeat(128)]))).toBe(
        "jj-op-missing",
      );
      await see.view("after");
    },
  },
  {
    name: "relations: ancestors, equals, strangers, hidden and unknown commits → each with what it is behind",
    async run(world, see) {
      const { repo } = world;
      const main = world.in("default");
      const old = await see.at("default");
      await main.describe("reworded");
      const parent = await see.at("default");
      await main.newChange({ message: "child" });
      const child = await see.at("default");
      const op = await see.head();
      const base = await baseOf(world, op);
      const none = "d".repeat(40);
      const rows = await repo.relations(
        op,
        [child, parent, base, old, none, parent],
        [child, parent, base, none],
      );
      const behind = new Map(rows.map((row) => [row.commitId, new Set(row.behind)]));
      expect(behind).toEqual(
        new Map([
          [child, new Set([child])],
          [parent, new Set([child, parent])],
          [base, new Set([child, parent, base])],
          [old, new Set()],
        ]),
      );
      expect(rows).toHaveLength(4);
      expect(rows.find((row) => row.commitId === old)!.hidden).toBe(true);
      const [plain] = await repo.existing(op, [parent]);
      expect(rows.find((row) => row.commitId === parent)).toMatchObject({ ...plain });
      expect(await repo.relations(op, [none], [])).toEqual([]);
      expect((await repo.relations(op, [base], []))[0]!.behind).toEqual([]);
    },
  },
  {
    name: "undo and op restore: by the person → the earlier view in a new operation",
    async run(world, see) {
      const start = await see.head();
      await see.view("start");
      const main = world.in("default");
      await main.newChange({ message: "regretted" });
      await main.undo();
      await see.view("undone");
      await main.newChange({ message: "again" });
      main.write("a.txt", "a\n");
      await main.status();
      await main.restoreOperation(start);
      await see.view("restored");
      await see.workspace("restored", "default");
      expect((await see.commit(await see.at("default"))).description).toBe("parent");
    },
  },
  {
    name: "undo: of what another workspace did → refused, nothing changed",
    async run(world, see) {
      await addThread(world, "kk-b", await see.at("default"));
      await see.view("start");
      expect(await see.refused("undo", () => world.in("default").undo())).toBe(true);
      await see.view("after");
    },
  },
];

/** The commit "base" in the view of an operation. */
export async function baseOf(world: World, op: string): Promise<CommitId> {
  const all = await world.repo.commits(op, "all()");
  return all.find((c) => c.description === "base")!.commitId;
}

/** The operation that `act` made beside or on top of the heads there are. */
async function operationOf(world: World, act: () => Promise<void>): Promise<OpId> {
  const before = new Set(await world.repo.heads());
  await act();
  return (await world.repo.heads()).find((id) => !before.has(id))!;
}

function onTop(world: World, op: OpId, message: string): Promise<OpId> {
  return operationOf(world, () => world.at(op, "default").newChange({ message }));
}

function reworded(world: World, op: OpId, text: string): Promise<OpId> {
  return operationOf(world, () => world.at(op, "default").describe(text));
}
