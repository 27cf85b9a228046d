/**
 * What kiki makes of jj's merges of concurrent operations, on the fake jj and on the real one alike: one coherent move of
 * the parent is followed, whatever else was merged with it; anything else is loud.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { OpId } from "../../src/core/ids.ts";
import type { WorkspaceView } from "../../src/ports/jj.ts";
import { frontier, unprocessedOps } from "../../src/store/ops.ts";
import { PLAIN, type World } from "../contract/jj-driver.ts";
import { fakeWorld, realWorld } from "../contract/jj-worlds.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makeRig, type Rig, type TestThread } from "./rig.ts";

setDefaultTimeout(120_000);
const open: Scene[] = [];
afterAll(async () => {
  for (const scene of open) await scene.rig.close();
  removeTempDirs();
});

const PARENT = "kk-parser";
const WORLDS: Record<string, () => Promise<World>> = {
  "fake jj": () => fakeWorld(PLAIN),
  "real jj": () => realWorld(PLAIN),
};

/** A parent, its child, and commands that saw only one operation. */
class Scene {
  readonly world: World;
  readonly rig: Rig;
  readonly child: TestThread;
  /** The one operation everything begins at. */
  readonly start: OpId;

  private constructor(world: World, rig: Rig, child: TestThread, start: OpId) {
    [this.world, this.rig, this.child, this.start] = [world, rig, child, start];
    open.push(this);
  }

  static async make(world: World): Promise<Scene> {
    const rig = await makeRig({
      wrapJj: () => world.repo,
      threads: {
        folder: (workspace) => world.folder(workspace),
        base: async () => (await workspaceAt(world, "default")).commitId,
      },
    });
    const parent = await rig.thread("parser");
    const child = await rig.thread("tests", parent);
    const [start] = await rig.cascade.refreshToFrontier();
    return new Scene(world, rig, child, start!);
  }

  /** A bookmark, which moves nobody. */
  async beside(op: OpId, mark: string): Promise<OpId> {
    const { commitId } = await workspaceAt(this.world, "default", op);
    return this.#side(() => this.world.at(op, "default").bookmark(mark, commitId));
  }

  onTop(op: OpId, message: string): Promise<OpId> {
    return this.#side(() => this.world.at(op, PARENT).newChange({ message }));
  }

  reworded(op: OpId, text: string): Promise<OpId> {
    return this.#side(() => this.world.at(op, PARENT).describe(text));
  }

  async #side(act: () => Promise<void>): Promise<OpId> {
    const before = new Set(await this.world.repo.heads());
    await act();
    return (await this.world.repo.heads()).find((id) => !before.has(id))!;
  }

  /** Somebody's next command merges the `heads` that are there, and kiki reads. Returns the parent's `@`. */
  async merged(heads: number): Promise<WorkspaceView> {
    expect(await this.world.repo.heads()).toHaveLength(heads);
    await this.world.in("default").status();
    const [head, ...others] = await this.world.repo.heads();
    expect(others).toEqual([]);
    const [merge] = await this.world.repo.operations(head!, 1);
    expect(merge!.parents).toHaveLength(heads);
    await this.rig.cascade.refreshToFrontier();
    expect(frontier(this.rig.db)).toEqual([head!]);
    expect(unprocessedOps(this.rig.db)).toEqual([]);
    return workspaceAt(this.world, PARENT);
  }

  get intents(): { state: string; reason: string | null; toBase: string }[] {
    return this.rig
      .intents(this.child)
      .map(({ state, reason, toBase }) => ({ state, reason, toBase }));
  }

  /** Diverged, said aloud. */
  expectLoud(): void {
    expect(this.intents.map((i) => [i.state, i.reason])).toContainEqual([
      "TopologyDiverged",
      "IncoherentViews",
    ]);
    expect(this.rig.attention(this.child).join()).toContain("IncoherentViews");
  }
}

async function workspaceAt(world: World, workspace: string, op?: OpId): Promise<WorkspaceView> {
  const at = op ?? (await world.repo.heads())[0]!;
  return (await world.repo.workspaces(at)).find((w) => w.workspace === workspace)!;
}

describe.each(Object.keys(WORLDS))("merges of operations, %s", (name) => {
  const scene = async (): Promise<Scene> => Scene.make(await WORLDS[name]!());

  test("three heads, two of them part after the parent went on → its last move is followed", async () => {
    const s = await scene();
    await s.beside(s.start, "a");
    const later = await s.onTop(s.start, "two");
    await s.beside(later, "b");
    await s.onTop(later, "three");
    const at = await s.merged(3);
    expect(at.description).toBe("three");
    expect(s.intents).toEqual([{ state: "Detected", reason: null, toBase: at.commitId }]);
    expect(s.rig.attention(s.child)).toEqual([]);
  });

  test("three heads, the parent goes on, is reworded, and goes on again, each on a later part → its last move is followed", async () => {
    const s = await scene();
    await s.beside(s.start, "a");
    const two = await s.onTop(s.start, "two");
    const words = await s.reworded(two, "two in other words");
    await s.beside(words, "b");
    await s.onTop(await s.onTop(words, "three"), "four");
    const at = await s.merged(3);
    expect(at.description).toBe("four");
    expect(s.intents).toEqual([{ state: "Detected", reason: null, toBase: at.commitId }]);
  });

  test("four heads, each parting later than the one before → the parent's last move is followed", async () => {
    const s = await scene();
    let op = s.start;
    for (const mark of ["a", "b", "c"]) {
      await s.beside(op, mark);
      op = await s.onTop(op, `after ${mark}`);
    }
    const at = await s.merged(4);
    expect(at.description).toBe("after c");
    expect(s.intents).toEqual([{ state: "Detected", reason: null, toBase: at.commitId }]);
  });

  test("three heads, two of them took the parent to changes of their own → IncoherentViews, loud, no base chosen", async () => {
    const s = await scene();
    await s.beside(s.start, "a");
    const later = await s.onTop(s.start, "two");
    await s.onTop(later, "left");
    await s.onTop(later, "right");
    await s.merged(3);
    s.expectLoud();
  });

  test("three heads, two of them reworded the parent's change differently → two copies, IncoherentViews, loud", async () => {
    const s = await scene();
    await s.beside(s.start, "a");
    const later = await s.onTop(s.start, "two");
    await s.reworded(later, "one way");
    await s.reworded(later, "another way");
    const at = await s.merged(3);
    expect(at.divergent).toBe(true);
    s.expectLoud();
  });
});
