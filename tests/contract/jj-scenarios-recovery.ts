/** jj contract: what recovering edits of a stale workspace asks of jj and git. */
import { expect } from "bun:test";
import type { CommitId } from "../../src/core/ids.ts";
import type { Observer, Scenario, Start, World } from "./jj-driver.ts";
import { addThread } from "./jj-scenarios-history.ts";

const CHILD = "kk-b";

/** A thread with a recorded file and edits, and a parent that has moved on: its files are stale. */
async function staleEdits(world: World, see: Observer): Promise<void> {
  await addThread(world, CHILD, await see.at("default"));
  world.in(CHILD).write("b.txt", "b\n");
  await world.repo.snapshot(world.folder(CHILD), "token-record");
  world.in(CHILD).write("b.txt", "b\nmore\n");
  world.in(CHILD).write("new.txt", "new\n");
  world.in("default").write("p.txt", "amended\n");
  await world.in("default").status();
}

const STALE: Start = {
  name: "stale child with edits",
  colocated: false,
  prepare: staleEdits,
};
const STALE_GIT: Start = {
  name: "stale child with edits and a git commit",
  colocated: true,
  async prepare(world, see) {
    await staleEdits(world, see);
    await world.in(CHILD).gitCommit("the agent's");
  },
};

/** After jj's own stale recovery: the clean copy, which is jj's `@`, and the one with the edits. */
async function copies(
  world: World,
  see: Observer,
): Promise<{ clean: CommitId; edits: CommitId; record: CommitId }> {
  const [op] = await world.repo.heads();
  const clean = await see.at(CHILD);
  const { changeId } = await see.commit(clean);
  const all = await world.repo.commits(op!, `change_id(${changeId})`);
  const edits = all.find((c) => c.commitId !== clean)!.commitId;
  const [, record] = await world.repo.evolvedFrom(op!, edits);
  return { clean, edits, record: record! };
}

async function sameChange(
  world: World,
  see: Observer,
  what: string,
  from: CommitId,
  to: CommitId,
): Promise<boolean> {
  const [op] = await world.repo.heads();
  return see.note(what, await world.repo.sameChange(op!, from, to));
}

export const RECOVERY: readonly Scenario[] = [
  {
    name: "stale recovery → record and copy hold the edits; edit and abandon bring them back, the torn bookmark is set",
    start: STALE,
    async run(world, see) {
      await see.view("start");
      const { repo } = world;
      const before = await see.at(CHILD);
      await repo.createBookmark("kk/b", before, "token-bookmark");
      await repo.updateStale(world.folder(CHILD), "token-update");
      await see.view("landed");
      const { clean, edits, record } = await copies(world, see);
      expect(await sameChange(world, see, "clean is the old one moved", before, clean)).toBe(true);
      expect(await sameChange(world, see, "edits are the record moved", record, edits)).toBe(true);
      expect(await sameChange(world, see, "clean is not the record", record, clean)).toBe(false);
      const paths = ["b.txt", "new.txt", "p.txt", "gone"];
      see.note("off the disk", await repo.differing(record, world.folder(CHILD), paths));
      await repo.setBookmark("kk/b", edits, "token-set");
      await see.view("bookmark set");
      await repo.edit(world.folder(CHILD), edits, "token-edit");
      await see.view("edited");
      await repo.abandon([clean], "token-abandon");
      await see.view("abandoned");
      see.note("files", world.files(CHILD));
      expect(world.files(CHILD)).toMatchObject({ "new.txt": "f:new\n", "p.txt": "f:amended\n" });
      expect((await see.workspace("after", CHILD)).state).toBe("FreshClean");
    },
  },
  {
    name: "sameChange: content or description changed elsewhere, a conflict by the move alone",
    async run(world, see) {
      await addThread(world, CHILD, await see.at("default"));
      world.in(CHILD).write("p.txt", "the child's\n");
      await world.repo.snapshot(world.folder(CHILD), "token-record");
      const first = await see.at(CHILD);
      await world.in("default").describe("renamed", first);
      const renamed = await see.at(CHILD);
      expect(await sameChange(world, see, "renamed", first, renamed)).toBe(false);
      world.in("default").write("p.txt", "the parent's\n");
      await world.in("default").status();
      const conflicted = await see.at(CHILD);
      expect((await see.commit(conflicted)).conflict).toBe(true);
      expect(await sameChange(world, see, "conflicted", renamed, conflicted)).toBe(true);
      expect(await sameChange(world, see, "from before", first, conflicted)).toBe(false);
    },
  },
  {
    name: "touchedPaths: modified, added, deleted, renamed, mode, kind, file into folder, deep, conflict → every path that is not the same",
    async run(world, see) {
      await addThread(world, CHILD, await see.at("default"));
      const child = world.in(CHILD);
      const names = "same content mode kind folder gone old deep/er/one deep/er/two other/one";
      for (const path of names.split(" ")) child.write(path, `${path}\n1\n2\n3\n`);
      await world.repo.snapshot(world.folder(CHILD), "token-record");
      const before = await see.at(CHILD);
      await child.newChange({ message: "after" });
      child.write("content", "2\n");
      child.write("mode", "mode\n1\n2\n3\n", 0o755);
      for (const path of ["kind", "folder", "gone", "old"]) child.remove(path);
      child.symlink("1\n", "kind");
      child.write("folder/in", "1\n");
      child.write("new", "old\n1\n2\n3\n");
      child.write("deep/er/one", "2\n");
      await world.repo.snapshot(world.folder(CHILD), "token-after");
      const after = await see.at(CHILD);
      const wanted = "content deep/er/one folder folder/in gone kind mode new old".split(" ");
      expect(see.note("forth", await world.repo.touchedPaths(before, after))).toEqual(wanted);
      expect(see.note("back", await world.repo.touchedPaths(after, before))).toEqual(wanted);
      expect(await world.fresh().touchedPaths(before, after)).toEqual(wanted);
      expect(await world.repo.touchedPaths(after, after)).toEqual([]);
      const root = await world.repo.touchedPaths("0".repeat(40), after);
      expect(see.note("from nothing", root)).toContain("deep/er/two");
      // The other side of a conflict.
      await child.edit(before);
      child.write("content", "3\n");
      child.write("base.txt", "of the child\n");
      await world.repo.snapshot(world.folder(CHILD), "token-conflict");
      const view = await world.repo.workspaces(await see.head());
      const [now] = view.filter((w) => w.workspace === CHILD);
      const children = await world.repo.commits(await see.head(), `${now!.commitId}+`);
      expect(children.map((c) => c.conflict)).toEqual([true]);
      const touched = await world.repo.touchedPaths(after, children[0]!.commitId);
      expect(see.note("into a conflict", touched)).toEqual(
        expect.arrayContaining(["base.txt", "content"]),
      );
    },
  },
  {
    name: "updateProgress: whole, gone, begun, mode not set, folder and file, in-between writing → state of each, in jj's order",
    async run(world, see) {
      await addThread(world, CHILD, await see.at("default"));
      const child = world.in(CHILD);
      const old = "a-b a/x gone half in/x kept mode other removed run".split(" ");
      for (const path of old) child.write(path, "old\n");
      child.write("file/x", "old\n");
      await world.repo.snapshot(world.folder(CHILD), "token-record");
      const from = await see.at(CHILD);
      child.remove("in");
      child.write("in", "new\n");
      child.remove("file");
      child.write("file", "new\n");
      child.remove("removed");
      child.write("new/deep", "new\n");
      child.write("fresh", "new\n");
      child.symlink("a-b", "link");
      child.symlink("a-b", "tried");
      for (const path of ["run", "mode"]) child.write(path, "new\n", 0o755);
      for (const path of ["a-b", "a/x", "gone", "half", "other"]) child.write(path, "new\n");
      await world.repo.snapshot(world.folder(CHILD), "token-new");
      const to = await see.at(CHILD);
      const [op] = await world.repo.heads();
      const states = async (what: string): Promise<Record<string, string>> => {
        const found = await world.repo.updateProgress(op!, from, to, world.folder(CHILD));
        return Object.fromEntries(see.note(what, found).map((p) => [p.path, p.state]));
      };
      const done = await states("all of it");
      expect(Object.keys(done)).toEqual([
        ..."a/x a-b file/x file fresh gone half".split(" "),
        ..."in/x in link mode new/deep other removed run tried".split(" "),
      ]);
      expect(new Set(Object.values(done))).toEqual(new Set(["to"]));
      child.write("a/x", "old\n");
      child.remove("gone");
      child.write("half", "ne");
      child.write("mode", "new\n", 0o644);
      child.write("run", "ne", 0o755);
      child.write("other", "nee");
      child.remove("link");
      child.symlink("elsewhere", "link");
      child.remove("file");
      child.remove("fresh");
      child.write("removed", "old\n");
      child.write("new/deep", "");
      child.remove("tried");
      child.write("tried", "");
      expect(await states("half of it")).toEqual({
        "a/x": "from",
        "a-b": "to",
        "file/x": "to",
        file: "from",
        fresh: "from",
        gone: "begun",
        half: "begun",
        "in/x": "to",
        in: "to",
        link: "other",
        mode: "begun",
        "new/deep": "begun",
        other: "other",
        removed: "from",
        run: "other",
        tried: "begun",
      });
    },
  },
  {
    name: "differing: content, kind, executable bit, absent, folder, conflict",
    async run(world, see) {
      await addThread(world, CHILD, await see.at("default"));
      const child = world.in(CHILD);
      for (const path of ["same", "content", "mode", "kind", "folder", "gone"])
        child.write(path, "1\n");
      child.symlink("same", "link");
      child.symlink("same", "other-link");
      await world.repo.snapshot(world.folder(CHILD), "token-record");
      const recorded = await see.at(CHILD);
      child.write("content", "2\n");
      child.write("mode", "1\n", 0o755);
      child.remove("kind");
      child.symlink("1\n", "kind");
      child.remove("folder");
      child.write("folder/in", "1\n");
      child.remove("gone");
      child.remove("other-link");
      child.symlink("content", "other-link");
      const paths = "same content mode kind folder gone link other-link new folder/in".split(" ");
      expect(
        see.note("differing", await world.repo.differing(recorded, world.folder(CHILD), paths)),
      ).toEqual(["content", "mode", "kind", "folder", "gone", "other-link", "folder/in"]);
    },
  },
  {
    name: "git commit on stale files → HEAD put back: update-stale neither imports it nor reverts the parent",
    start: STALE_GIT,
    async run(world, see) {
      await see.view("start");
      const { repo } = world;
      const [op] = await repo.heads();
      const head = await repo.gitHead(world.folder(CHILD), CHILD, op!);
      expect(head!.actual).toBe(await world.gitHead(CHILD));
      expect(head!.actual).not.toBe(head!.expected);
      await repo.pinCommit("refs/kiki/x", head!.actual!);
      await repo.setGitHead(world.folder(CHILD), head!.expected!);
      const probe = await see.workspace("put back", CHILD);
      expect([probe.state, probe.changed]).toEqual(["StaleDirty", ["A new.txt", "M b.txt"]]);
      expect(await repo.gitHead(world.folder(CHILD), CHILD, op!)).toEqual({
        actual: head!.expected,
        expected: head!.expected,
      });
      await repo.updateStale(world.folder(CHILD), "token-update");
      await see.view("landed");
      expect(world.files(CHILD)["p.txt"]).toBe("f:amended\n");
      const { clean, edits } = await copies(world, see);
      await repo.edit(world.folder(CHILD), edits, "token-edit");
      await repo.abandon([clean], "token-abandon");
      await see.view("adopted");
      expect(world.files(CHILD)).toMatchObject({ "b.txt": "f:b\nmore\n", "new.txt": "f:new\n" });
      expect(await world.gitHead(CHILD)).toBe((await see.commit(edits)).parents[0]!);
    },
  },
  {
    name: "gitHead of a workspace that is not colocated → null",
    async run(world, see) {
      await addThread(world, CHILD, await see.at("default"));
      const [op] = await world.repo.heads();
      expect(await world.repo.gitHead(world.folder(CHILD), CHILD, op!)).toBeNull();
    },
  },
  {
    name: "looseFiles: tracked and new ones, tracked ones that are ignored by now, too big ones; nothing ignored",
    start: STALE,
    async run(world, see) {
      const child = world.in(CHILD);
      child.write("a.log", "ignored\n");
      child.write("big", "0".repeat(1_048_577));
      child.write(".gitignore", "*.log\nbuild/\np.txt\n");
      const loose = await world.repo.looseFiles(world.folder(CHILD));
      const shown = loose
        .map((f) => `${f.tracked ? "tracked" : "new"} ${new TextDecoder().decode(f.path)}`)
        .sort();
      see.note("loose", shown);
      expect(shown).toContain("tracked p.txt");
      expect(shown).toContain("new big");
      expect(shown).not.toContain("new a.log");
    },
  },
];
