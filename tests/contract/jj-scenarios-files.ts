/** jj contract: what the probe says of a workspace's files, and what snapshot and update-stale do to them. */
import { expect } from "bun:test";
import type { Hands, Observer, Scenario, Start, World } from "./jj-driver.ts";
import { addThread } from "./jj-scenarios-history.ts";

/** Child with files of every kind, recorded; nothing is stale. */
async function withChild(world: World, see: Observer): Promise<Hands> {
  world.in("default").write("gone.txt", "the parent will delete this\n");
  await world.in("default").status();
  await addThread(world, "kk-b", await see.at("default"));
  const child = world.in("kk-b");
  child.write("d/g", "g\n");
  child.write("d/e/f", "f\n");
  child.write("d/.gitignore", "*.tmp\n!keep.tmp\n");
  child.write("run.sh", "#!/bin/sh\n", 0o755);
  child.symlink("base.txt", "link");
  await world.repo.snapshot(world.folder("kk-b"), "token-kinds");
  return child;
}

/** The parent changes, adds and deletes files: the child is stale. */
async function amendParent(world: World): Promise<void> {
  const main = world.in("default");
  main.write("p.txt", "parent\nmore\n");
  main.write("new.txt", "from the parent\n");
  main.write("out/made", "from the parent\n");
  main.remove("gone.txt");
  await main.status();
}

const CHILD: Start = {
  name: "child",
  colocated: false,
  prepare: async (world, see) => void (await withChild(world, see)),
};
const STALE: Start = {
  name: "stale child",
  colocated: false,
  async prepare(world, see) {
    await withChild(world, see);
    await amendParent(world);
  },
};

interface Edits {
  what: string;
  act: (child: Hands, world: World) => void;
  /** What `changed` must be, where it is asked in that state. */
  fresh?: readonly string[];
  stale?: readonly string[];
}

const EDITS: readonly Edits[] = [
  { what: "nothing", act: () => undefined, fresh: [], stale: [] },
  {
    what: "what jj does not look at (same content again, ignored, nested repository, too big)",
    act(child) {
      child.write("d/g", "g\n");
      child.write("a.log", "1\n");
      child.write("build/x", "1\n");
      child.write("d/a.tmp", "1\n");
      child.write("nest/.jj/x", "1\n");
      child.write("nest/f", "1\n");
      child.write("big", "0".repeat(1_048_577));
    },
    fresh: [],
    stale: [],
  },
  {
    what: "modified, deleted, exec bit set and cleared, symlink retargeted, new files",
    act(child) {
      child.write("p.txt", "mine\n");
      child.remove("d/g");
      child.write("base.txt", "line 1\nline 2\nline 3\n", 0o755);
      child.write("run.sh", "#!/bin/sh\n", 0o644);
      child.remove("link");
      child.symlink("p.txt", "link");
      child.write("q/w/e", "1\n");
      child.write("d/keep.tmp", "1\n");
      child.write("limit", "0".repeat(1_048_576));
    },
    fresh: [
      "A d/keep.tmp",
      "A limit",
      "A q/w/e",
      "D d/g",
      "M base.txt",
      "M link",
      "M p.txt",
      "M run.sh",
    ],
    stale: [
      "A d/keep.tmp",
      "A limit",
      "A q/w/e",
      "D d/g",
      "M base.txt",
      "M link",
      "M p.txt",
      "M run.sh",
    ],
  },
  {
    what: "file → folder, symlink → file, renamed, newly ignored and modified",
    act(child) {
      child.remove("d/g");
      child.write("d/g/h", "h\n");
      child.remove("link");
      child.write("link", "line 1\n");
      child.remove("base.txt");
      child.write("moved.txt", "line 1\nline 2\nline 3\n");
      child.write(".gitignore", "*.log\nbuild/\np.txt\n");
      child.write("p.txt", "mine\n");
    },
    fresh: ["A d/g/h", "A moved.txt", "D base.txt", "M .gitignore", "M link", "M p.txt", "T d/g"],
  },
  {
    what: "folder → file, file → symlink, a file the parent deletes deleted here",
    act(child) {
      child.remove("d");
      child.write("d", "a file\n");
      child.remove("p.txt");
      child.symlink("base.txt", "p.txt");
      child.remove("gone.txt");
    },
    stale: ["A d", "D d/.gitignore", "D d/e/f", "D d/g", "D gone.txt", "M p.txt"],
  },
  {
    what: "the parent's new file made here too",
    act: (child) => child.write("new.txt", "other\n"),
    stale: ["A new.txt", "C new.txt"],
  },
  {
    what: "an ignored file, a file too big, an ignored folder where the parent has files",
    act(child, world) {
      world.exclude("/new.txt\n/out\n");
      child.write("new.txt", "ignored here\n");
      child.write("out", "0".repeat(1_100_000));
    },
    stale: ["C new.txt", "C out"],
  },
  {
    what: "an ignored folder where the parent has a file",
    act(child, world) {
      world.exclude("/new.txt\n");
      child.write("new.txt/x", "ignored here\n");
    },
    stale: ["C new.txt"],
  },
];

const PROBED = EDITS.filter((edits) => edits.fresh !== undefined).map(
  ({ what, act, fresh }): Scenario => ({
    name: `probe, fresh: ${what} → state and letters; a snapshot records exactly that`,
    start: CHILD,
    async run(world, see) {
      const at = await see.at("kk-b");
      await see.view("start");
      act(world.in("kk-b"), world);
      const before = await see.workspace("edited", "kk-b");
      expect(before.state).toBe(fresh!.length === 0 ? "FreshClean" : "FreshDirty");
      expect(before.changed).toEqual([...fresh!]);
      await world.repo.snapshot(world.folder("kk-b"), "token-record");
      await see.view("recorded");
      const recorded = await see.at("kk-b");
      expect(recorded === at).toBe(fresh!.length === 0);
      const changes = await world.repo.changedPaths(await see.head(), at, recorded);
      see.note("recorded", changes.map((c) => `${c.status} ${c.path}`).sort());
      expect((await see.probe("recorded", "kk-b")).state).toBe("FreshClean");
    },
  }),
);

const UPDATED = EDITS.map(({ what, act, stale }): Scenario => ({
  name: `update-stale: ${what} → files brought along, edits in a divergent revision, collisions kept`,
  start: STALE,
  async run(world, see) {
    await see.view("start");
    act(world.in("kk-b"), world);
    const before = await see.workspace("edited", "kk-b");
    expect(before.state).toBe(before.changed.length === 0 ? "StaleClean" : "StaleDirty");
    if (stale !== undefined) expect(before.changed).toEqual([...stale]);
    await world.repo.updateStale(world.folder("kk-b"), "token-update");
    await see.view("updated");
    expect((await see.workspace("updated", "kk-b")).state).toBe("FreshClean");
  },
}));

const STALENESS: readonly Scenario[] = [
  {
    name: "update-stale: fresh workspace, clean and edited → nothing, then a snapshot",
    start: CHILD,
    async run(world, see) {
      await see.view("start");
      const head = await see.head();
      await world.repo.updateStale(world.folder("kk-b"), "token-1");
      expect(await see.head()).toBe(head);
      world.in("kk-b").write("p.txt", "mine\n");
      await world.repo.updateStale(world.folder("kk-b"), "token-2");
      await see.view("recorded");
      expect((await see.workspace("recorded", "kk-b")).state).toBe("FreshClean");
    },
  },
  {
    name: "update-stale: parent only reworded, edits in the child → not stale, and yet divergent",
    start: CHILD,
    async run(world, see) {
      await see.view("start");
      await world.in("default").describe("reworded");
      expect((await see.probe("reworded", "kk-b")).state).toBe("FreshClean");
      world.in("kk-b").write("p.txt", "mine\n");
      expect((await see.probe("edited", "kk-b")).state).toBe("FreshDirty");
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      const commits = await see.view("updated");
      expect(commits.filter((c) => c.divergent)).toHaveLength(2);
      await see.workspace("updated", "kk-b");
    },
  },
  {
    name: "update-stale: the edit and the parent's change meet in one line → conflict in the divergent revision",
    start: STALE,
    async run(world, see) {
      await see.view("start");
      world.in("kk-b").write("p.txt", "mine\n");
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      const commits = await see.view("updated");
      expect(commits.filter((c) => c.conflict)).toHaveLength(1);
      expect(await see.commit(await see.at("kk-b"))).toMatchObject({ conflict: false });
      await see.workspace("updated", "kk-b");
    },
  },
  {
    name: "update-stale: twice stale before it runs; by the person instead of kiki → one step, fresh",
    start: STALE,
    async run(world, see) {
      await see.view("start");
      world.in("default").write("p.txt", "once more\n");
      await world.in("default").status();
      const head = await see.head();
      await world.in("kk-b").updateStale();
      expect(await see.head()).toBe(head);
      expect((await see.workspace("updated", "kk-b")).state).toBe("FreshClean");
      await world.repo.updateStale(world.folder("kk-b"), "token-again");
      expect(await see.head()).toBe(head);
    },
  },
  {
    name: "snapshot: stale workspace, any command of its agent → refused, nothing changed",
    start: STALE,
    async run(world, see) {
      await see.view("start");
      const snapshot = () => world.repo.snapshot(world.folder("kk-b"), "token-snapshot");
      expect(await see.outcome("snapshot", snapshot)).toBe("jj-stale");
      expect(await see.refused("status", () => world.in("kk-b").status())).toBe(true);
      expect(await see.refused("new", () => world.in("kk-b").newChange())).toBe(true);
      await see.view("after");
      await see.workspace("after", "kk-b");
      expect(await world.repo.statusText(world.folder("kk-b"))).toContain("stale");
      expect(await world.repo.statusText(world.folder("default"))).toContain("A p.txt");
    },
  },
  {
    name: "snapshot: nothing to record → no operation, the checkout moves on; fingerprint moves with every edit",
    start: CHILD,
    async run(world, see) {
      await see.view("start");
      await world.in("default").describe("reworded");
      const head = await see.head();
      await world.repo.snapshot(world.folder("kk-b"), "token-snapshot");
      expect(await see.head()).toBe(head);
      const clean = await see.probe("recorded", "kk-b");
      expect(clean.checkoutOp).toBe(head);
      const again = await see.probe("again", "kk-b");
      expect(again.fingerprint).toBe(clean.fingerprint);
      world.in("kk-b").write("d/g", "one\n");
      const one = await see.probe("edited", "kk-b");
      world.in("kk-b").write("d/g", "two\n");
      const two = await see.probe("edited again", "kk-b");
      expect(new Set([clean, one, two].map((p) => p.fingerprint)).size).toBe(3);
      expect(two.changed).toEqual(one.changed);
    },
  },
  {
    name: "probe: pinned operation older → answers while @ is the same, busy when it moved",
    start: CHILD,
    async run(world, see) {
      const op = await see.head();
      await see.view("start");
      await world.in("default").bookmark("x", await see.at("default"));
      expect((await see.probe("@ unchanged", "kk-b", op)).state).toBe("FreshClean");
      await world.in("kk-b").describe("moved");
      const moved = await see.probe("@ moved", "kk-b", op);
      expect(moved.reason).toStartWith("busy");
    },
  },
  {
    name: "probe: what cannot be proved → Unknown, by kind",
    start: STALE,
    async run(world, see) {
      const { repo } = world;
      const op = await see.head();
      await see.view("start");
      const reason = async (what: string, workspace: string, folder = workspace) => {
        const answer = await repo.probe(world.folder(folder), workspace, op);
        see.note(what, [answer.state, answer.changed, answer.reason?.split(":")[0] ?? null]);
        return answer.reason?.split(":")[0];
      };
      expect(await reason("another workspace's folder", "default", "kk-b")).toBe("unreadable");
      expect(await reason("no folder", "kk-none")).toBe("unreadable");
      const release = await world.holdWorkspace("kk-b");
      expect(await reason("a jj command runs there", "kk-b")).toBe("busy");
      await release();
      expect(await reason("it has ended", "kk-b")).toBeUndefined();
      await world.at(op, "default").describe("one");
      await world.at(op, "default").describe("other");
      expect(await reason("two heads", "kk-b")).toBe("heads");
    },
  },
  {
    name: "update-stale: the operation the files are from is lost → recovery commit with everything on disk",
    start: STALE,
    async run(world, see) {
      await see.view("start");
      const { checkoutOp } = await see.probe("stale", "kk-b");
      world.in("kk-b").write("mine.txt", "mine\n");
      world.loseOperation(checkoutOp);
      const lost = await world.fresh().probe(world.folder("kk-b"), "kk-b", await see.head());
      expect([lost.state, lost.reason?.split(":")[0]]).toEqual(["Unknown", "operation-lost"]);
      await world.repo.updateStale(world.folder("kk-b"), "token-update");
      const head = await see.head();
      const chain = await world.repo.commits(head, "default@..kk-b@");
      see.note("recovered", chain);
      expect(chain[0]!.description).toContain("RECOVERY COMMIT");
      const recovered = await world.repo.changedPaths(head, chain[1]!.commitId, chain[0]!.commitId);
      see.note("reverts", recovered.map((c) => `${c.status} ${c.path}`).sort());
      expect(world.files("kk-b")).toMatchObject({ "mine.txt": "f:mine\n", "p.txt": "f:parent\n" });
    },
  },
];

export const FILES: readonly Scenario[] = [...PROBED, ...UPDATED, ...STALENESS];
