/** What the fake jj can do to its callers that the real one cannot be made to, and what it refuses for their sake. */
import { describe, expect, test } from "bun:test";
import { fail } from "../../src/core/errors.ts";
import type { JjOperation } from "../../src/ports/jj.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeJj } from "../fakes/jj.ts";
import { FakeJjBackend } from "../fakes/jj/backend.ts";
import { failureOf } from "../support/failure.ts";

const MAIN = "/src/calc";
const CHILD = "/src/calc-kiki-b";

/** Main with one described revision, and a thread on it. */
async function scene(): Promise<FakeJj> {
  const jj = new FakeJj(new FakeFiles());
  jj.personWorkspace("default", MAIN);
  jj.amend("default", { "p.txt": "parent\n" });
  jj.in("default").describe("parent");
  await jj.addWorkspace(child("kk-b", CHILD, jj));
  return jj;
}

function child(name: string, path: string, jj: FakeJj): Parameters<FakeJj["addWorkspace"]>[0] {
  return { name, path, base: jj.at("default")!, description: name, token: `token-${name}` };
}

function errorOf(action: () => unknown): Promise<unknown> {
  return failureOf(Promise.resolve().then(action));
}

/** Every operation there is, and the heads. */
async function everything(jj: FakeJj): Promise<JjOperation[][]> {
  const heads = await jj.heads();
  return Promise.all(heads.map((head) => jj.operations(head, 1_000)));
}

describe("fake jj: stricter than jj", () => {
  test("mutation: its token is not persisted → error, nothing done", async () => {
    const jj = await scene();
    const before = await everything(jj);
    jj.attributed = () => false;
    const at = jj.at("default")!;
    for (const act of [
      () => jj.createBookmark("kk/b", at, "t"),
      () => jj.deleteBookmark("kk/b", "t"),
      () => jj.abandon([at], "t"),
      () => jj.snapshot(CHILD, "t"),
      () => jj.updateStale(CHILD, "t"),
      () => jj.forgetWorkspace("kk-b", "t"),
      () => jj.integrate(jj.head, "t"),
      () => jj.stageRebase({ at: jj.head, chain: [at], onto: at, token: "t" }),
      () => jj.addWorkspace({ ...child("kk-c", "/src/c", jj), token: "t" }),
      () => jj.ensureNeutral("t"),
    ]) {
      expect(String(await errorOf(act))).toContain("was not persisted");
    }
    expect(await everything(jj)).toEqual(before);
  });

  test("ids: abbreviated → error, in every call that takes one", async () => {
    const jj = await scene();
    const at = jj.at("default")!;
    const brief = at.slice(0, 12);
    for (const act of [
      () => jj.commits(jj.head, brief),
      () => jj.existing(jj.head, [brief]),
      () => jj.isAncestor(jj.head, brief, at),
      () => jj.evolvedFrom(jj.head, brief),
      () => jj.changedPaths(jj.head, brief, at),
      () => jj.conflictedPaths(jj.head, brief),
      () => jj.createBookmark("kk/b", brief, "t"),
      () => jj.abandon([brief], "t"),
      () => jj.stageRebase({ at: jj.head, chain: [brief], onto: at, token: "t" }),
      () => jj.addWorkspace({ ...child("kk-c", "/src/c", jj), base: brief }),
      () => jj.workspaces(jj.head.slice(0, 12)),
    ]) {
      expect(String(await errorOf(act))).toMatch(/full/);
    }
  });

  test("worlds: made the same way → the same ids", async () => {
    const [one, two] = [await scene(), await scene()];
    expect(await everything(one)).toEqual(await everything(two));
    expect(one.at("kk-b")).toBe(two.at("kk-b"));
  });
});

describe("fake jj: trouble on demand", () => {
  test("versions: tools that will not do → what is wrong, before anything is made", async () => {
    const backend = new FakeJjBackend(new FakeFiles(), []);
    expect(await backend.checkVersions()).toEqual({ jj: "0.46.0", git: "2.53.0" });
    backend.unfit = fail("failed", "git-too-old", "git 2.39 is too old", "install git 2.42");
    expect(await failureOf(backend.checkVersions())).toBe(backend.unfit);
  });

  test("failNext before → nothing done; after → done and the answer lost; once each", async () => {
    const jj = await scene();
    const at = jj.at("default")!;
    const error = fail("failed", "jj-timeout", "no answer");
    jj.faults.failNext("createBookmark", error, "before");
    expect(await failureOf(jj.createBookmark("kk/b", at, "t"))).toBe(error);
    expect(jj.bookmark("kk/b")).toBeNull();
    jj.faults.failNext("createBookmark", error, "after");
    expect(await failureOf(jj.createBookmark("kk/b", at, "t"))).toBe(error);
    expect(jj.bookmark("kk/b")).toBe(at);
    await jj.createBookmark("kk/c", at, "t");
  });

  test("lock: op heads held → mutations wait or jj-locked, reads answer", async () => {
    const jj = await scene();
    const at = jj.at("default")!;
    const release = jj.faults.lock(null, "wait");
    let done = false;
    const waiting = jj.createBookmark("kk/b", at, "t").then(() => (done = true));
    expect(await jj.workspaces(jj.head)).toHaveLength(2);
    expect([done, jj.bookmark("kk/b")]).toEqual([false, null]);
    release();
    await waiting;
    expect(jj.bookmark("kk/b")).toBe(at);
    const again = jj.faults.lock(null, "fail");
    expect(await failureOf(jj.deleteBookmark("kk/b", "t"))).toMatchObject({ code: "jj-locked" });
    again();
    await jj.deleteBookmark("kk/b", "t");
  });

  test("lock: one workspace held → its snapshot fails, its probe is busy, others go on", async () => {
    const jj = await scene();
    const release = jj.faults.lock(CHILD, "fail");
    expect(await failureOf(jj.snapshot(CHILD, "t"))).toMatchObject({ code: "jj-locked" });
    expect((await jj.probe(CHILD, "kk-b", jj.head)).reason).toStartWith("busy");
    await jj.snapshot(MAIN, "t");
    release();
    await jj.snapshot(CHILD, "t");
  });

  test("delay: a slow jj → nothing is done before it is over", async () => {
    const jj = await scene();
    const { promise, resolve } = Promise.withResolvers<void>();
    jj.faults.delay = (method) => (method === "snapshot" ? promise : undefined);
    jj.in("kk-b").write("b.txt", "b\n");
    const before = jj.head;
    const slow = jj.snapshot(CHILD, "t");
    await jj.heads();
    expect(jj.head).toBe(before);
    resolve();
    await slow;
    expect(jj.head).not.toBe(before);
  });

  test("heads: a listing that races with a new operation → shows both, the next one does not", async () => {
    const jj = await scene();
    const [before] = await jj.heads();
    jj.storm(1);
    jj.lingerHead();
    expect(await jj.heads()).toEqual([before!, jj.head].sort());
    expect(await jj.heads()).toEqual([jj.head]);
  });

  test("storm: 500 operations of a person → 500 more, one head, every one read back", async () => {
    const jj = await scene();
    const [before] = await everything(jj);
    jj.storm(500);
    const [after] = await everything(jj);
    expect(after!.length).toBe(before!.length + 500);
    expect(after![0]!.description).toStartWith("describe commit ");
  });

  test("addWorkspace: stopped between its operations → @ on the root commit, files not there", async () => {
    const jj = await scene();
    jj.during = (moment) => {
      if (moment === "first-operation") throw new Error("killed");
    };
    await errorOf(() => jj.addWorkspace(child("kk-c", "/src/c", jj)));
    const half = (await jj.workspaces(jj.head)).find((w) => w.workspace === "kk-c")!;
    expect(half.parents).toEqual(["0".repeat(40)]);
    expect((await jj.operations(jj.head, 1))[0]!.args).toBe("");
    expect(jj.engine.disk.files.get("/src/c/p.txt")).toBeNull();
  });

  test("snapshot: stopped after its operation → the edit is recorded, the files are from before", async () => {
    const jj = await scene();
    jj.in("kk-b").write("b.txt", "b\n");
    const { checkoutOp } = await jj.probe(CHILD, "kk-b", jj.head);
    jj.during = (moment) => {
      if (moment === "snapshot-published") throw new Error("killed");
    };
    await errorOf(() => jj.snapshot(CHILD, "t"));
    jj.during = () => undefined;
    const probe = await jj.probe(CHILD, "kk-b", jj.head);
    expect(probe).toMatchObject({ state: "StaleDirty", checkoutOp });
    expect(probe.changed).toEqual(["A b.txt", "C b.txt"]);
  });

  test("update-stale: stopped between files and record → edits jj does not know to be its own", async () => {
    const jj = await scene();
    jj.amend("default", { "p.txt": "amended\n" });
    jj.during = (moment) => {
      if (moment === "files-updated") throw new Error("killed");
    };
    await errorOf(() => jj.updateStale(CHILD, "t"));
    jj.during = () => undefined;
    expect(await jj.probe(CHILD, "kk-b", jj.head)).toMatchObject({
      state: "StaleDirty",
      changed: ["M p.txt"],
    });
  });

  test("probe: a record of the files that is not the checkout's commit → W working copy", async () => {
    const jj = await scene();
    const { disk, store } = jj.engine;
    disk.setTreeState(CHILD, store.commit("0".repeat(40)).tree);
    const probe = await jj.probe(CHILD, "kk-b", jj.head);
    expect([probe.state, probe.changed]).toEqual(["FreshDirty", ["A p.txt", "W working copy"]]);
    jj.unproved.set(CHILD, "unsupported: a sparse working copy");
    expect((await jj.probe(CHILD, "kk-b", jj.head)).reason).toBe(
      "unsupported: a sparse working copy",
    );
  });

  test("conflict: one side of it taken by the agent's edit in part → not in this fake, loudly", async () => {
    const jj = await scene();
    jj.amend("kk-b", { "p.txt": "child\n" });
    jj.amend("default", { "p.txt": "other\n" });
    await jj.updateStale(CHILD, "t");
    const text = jj.in("kk-b").read("p.txt")!;
    jj.in("kk-b").write("p.txt", text.replace("child", "mine"));
    expect(String(await errorOf(() => jj.snapshot(CHILD, "t")))).toContain("not in this fake");
  });
});
