/** FsEvents: events in memory, and the machine's by @parcel/watcher and by the runtime's own watcher. */
import { afterAll, expect } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFsEvents } from "../../src/backends/fs-events.ts";
import type { FsEvents } from "../../src/ports/fs-events.ts";
import { FakeFsEvents } from "../fakes/fs-events.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

afterAll(removeTempDirs);

interface Subject {
  events: FsEvents;
  fake: FakeFsEvents | null;
  /** An existing folder of the test's own. */
  folder: string;
  /** Another one, beside it. */
  other: string;
  touch(path: string): void;
}

function onDisk(events: FsEvents): Subject {
  const dir = tempDir("contract-events");
  const folder = join(dir, "heads");
  const other = join(dir, "heads-2");
  for (const made of [folder, other]) mkdirSync(made);
  return { events, fake: null, folder, other, touch: (path) => writeFileSync(path, "") };
}

const native = join(import.meta.dir, "../../node_modules/@parcel/watcher");
const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const folders = ["/repo/heads", "/repo/heads-2"];
      const fake = new FakeFsEvents((folder) => folders.includes(folder));
      const [folder, other] = folders as [string, string];
      return { events: fake, fake, folder, other, touch: (path) => fake.changed(path) };
    },
  },
  {
    name: "@parcel/watcher",
    skip: existsSync(native) ? null : "@parcel/watcher is not installed",
    make: () => onDisk(createFsEvents()),
  },
  {
    name: "fs.watch",
    make: () => onDisk(createFsEvents({ load: () => Promise.reject(new Error("no native")) })),
  },
];

/** A watch that counts; `told` waits for at least that many calls. */
async function counting(s: Subject, folder = s.folder) {
  let calls = 0;
  const watch = await s.events.watch(folder, () => (calls += 1));
  return {
    watch,
    calls: () => calls,
    told: (n = 1) => waitFor(() => calls >= n, 10_000, `${n} calls for ${folder}`),
  };
}

contract("fs-events", implementations, [
  {
    name: "armed, then a change → told",
    async run(s) {
      const w = await counting(s);
      expect(w.watch.armed).toBe(true);
      s.touch(join(s.folder, "op-1"));
      await w.told();
      await w.watch.stop();
    },
  },
  {
    name: "a burst of changes → told at least once, and a bounded number of times",
    async run(s) {
      const w = await counting(s);
      for (let n = 0; n < 100; n += 1) s.touch(join(s.folder, `op-${n}`));
      await w.told();
      // A later change that is told proves that the burst has been.
      const seen = await counting(s, s.other);
      s.touch(join(s.other, "last"));
      await seen.told();
      // The runtime's watcher tells creation and closing of a file apart.
      expect(w.calls()).toBeLessThanOrEqual(300);
      await w.watch.stop();
      await seen.watch.stop();
    },
  },
  {
    name: "two watches on one folder → both told; one stopped → the other still is",
    async run(s) {
      const [a, b] = [await counting(s), await counting(s)];
      s.touch(join(s.folder, "op-1"));
      await Promise.all([a.told(), b.told()]);
      await a.watch.stop();
      const [before, beforeB] = [a.calls(), b.calls()];
      s.touch(join(s.folder, "op-2"));
      await b.told(beforeB + 1);
      expect(a.calls()).toBe(before);
      await b.watch.stop();
    },
  },
  {
    name: "a folder whose name only begins alike → not told",
    async run(s) {
      const [mine, other] = [await counting(s), await counting(s, s.other)];
      s.touch(join(s.other, "op-1"));
      await other.told();
      expect(mine.calls()).toBe(0);
      await mine.watch.stop();
      await other.watch.stop();
    },
  },
  {
    name: "no such folder → not armed, with the reason, and stopping it is nothing",
    async run(s) {
      const watch = await s.events.watch(join(s.folder, "../none"), () => undefined);
      expect(watch.armed).toBe(false);
      expect(watch.reason).toContain("ENOENT");
      await watch.stop();
    },
  },
  {
    name: "no watch left (inotify exhausted) → not armed, with the reason; those that are armed go on",
    only: ["fake"],
    async run(s) {
      const w = await counting(s);
      s.fake!.exhausted = "inotify: no space left on device";
      const late = await s.events.watch(s.folder, () => undefined);
      expect(late).toMatchObject({ armed: false, reason: "inotify: no space left on device" });
      s.touch(join(s.folder, "op-1"));
      await w.told();
      expect(s.fake!.watched).toEqual([s.folder]);
    },
  },
  {
    name: "lost events → nobody is told; overflow → everybody is, though nobody knows of what",
    only: ["fake"],
    async run(s) {
      const [a, b] = [await counting(s), await counting(s, s.other)];
      s.fake!.losing = 1;
      s.touch(join(s.folder, "op-1"));
      s.fake!.deliver();
      expect([a.calls(), b.calls()]).toEqual([0, 0]);
      s.fake!.overflow();
      await Promise.all([a.told(), b.told()]);
    },
  },
  {
    name: "held events, a storm → one call when delivered; stopped before → none",
    only: ["fake"],
    async run(s) {
      s.fake!.held = true;
      const [a, b] = [await counting(s), await counting(s)];
      for (let n = 0; n < 1000; n += 1) s.touch(join(s.folder, `op-${n}`));
      await b.watch.stop();
      expect(a.calls()).toBe(0);
      s.fake!.deliver();
      s.fake!.deliver();
      expect([a.calls(), b.calls()]).toEqual([1, 0]);
    },
  },
]);
