/** Clock, ids, processes and file-system events on the real machine. */
import { afterAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { realClock } from "../../src/backends/clock.ts";
import { createFsEvents, type FsEventsOptions } from "../../src/backends/fs-events.ts";
import { realIds } from "../../src/backends/ids.ts";
import { darwinProcesses, parsePsLine } from "../../src/backends/processes/darwin.ts";
import { processesFor } from "../../src/backends/processes/select.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

afterAll(removeTempDirs);

const DEADLINE_MS = 20_000;

test("clock: sleep → not before its time; aborted → rejects with the reason", async () => {
  const begun = realClock.monotonic();
  await realClock.sleep(20);
  expect(realClock.monotonic() - begun).toBeGreaterThanOrEqual(19);
  const controller = new AbortController();
  const sleeping = realClock.sleep(DEADLINE_MS, controller.signal);
  controller.abort(new Error("enough"));
  expect(await failureOf(sleeping)).toMatchObject({ message: "enough" });
  expect(await failureOf(realClock.sleep(1, controller.signal))).toMatchObject({
    message: "enough",
  });
});

test("ids: uuid and secret → their shapes, never twice", () => {
  expect(realIds.uuid()).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(realIds.secret(32)).toMatch(/^[0-9a-f]{64}$/);
  expect(realIds.secret(32)).not.toBe(realIds.secret(32));
});

describe("processes", () => {
  for (const [name, processes] of [
    ["this machine", processesFor()],
    ["ps", darwinProcesses],
  ] as const) {
    test(`processes (${name}): a running child → identified, its parent known, found by argument; ended → gone`, async () => {
      const token = `kiki-test-token-${realIds.uuid()}`;
      // One process: a forked copy of it would carry the token for a moment longer than its parent lives.
      const child = Bun.spawn(["sh", "-c", "read line", token], {
        stdin: "pipe",
        stdout: "ignore",
        detached: true,
      });
      try {
        const identity = processes.identify(child.pid);
        expect(identity).toMatchObject({ pid: child.pid, startTime: expect.stringMatching(/./) });
        expect(processes.identify(child.pid)).toEqual(identity!);
        expect(processes.parentOf(child.pid)).toBe(process.pid);
        // Until the child has become the program, it shows its parent's arguments.
        const found = await waitFor(() => processes.withArgument(token)[0], DEADLINE_MS, "found");
        expect(found).toEqual(identity!);
      } finally {
        process.kill(-child.pid, "SIGKILL");
        await child.exited;
      }
      expect(processes.identify(child.pid)).toBeNull();
      expect(processes.parentOf(child.pid)).toBeNull();
      expect(processes.withArgument(token)).toEqual([]);
    });
  }

  test("ps line: spaces in the command, one-digit day, zombie, empty → parsed or left out", () => {
    expect(
      parsePsLine("  501   1 Ss   Mon Nov  2 09:05:01 2026 /Applications/My App -x  y"),
    ).toEqual({
      identity: { pid: 501, startTime: "Mon Nov 2 09:05:01 2026" },
      parent: 1,
      command: "/Applications/My App -x  y",
    });
    expect(parsePsLine("  502   1 Z    Mon Nov  2 09:05:01 2026 (gone)")).toBeNull();
    expect(parsePsLine("")).toBeNull();
  });
});

describe("fs events", () => {
  const ways: [string, FsEventsOptions][] = [
    ["native watcher", {}],
    ["fallback", { load: () => Promise.reject(new Error("no native module")) }],
  ];
  for (const [name, options] of ways) {
    test(`fs events (${name}): a file appears → told; stopped → not told`, async () => {
      const folder = tempDir("events");
      let changed = (): void => undefined;
      const seen = new Promise<void>((resolve) => (changed = resolve));
      let told = 0;
      const watch = await createFsEvents(options).watch(folder, () => {
        told += 1;
        changed();
      });
      expect(watch.armed).toBe(true);
      if (options.load !== undefined)
        expect(watch.reason).toBe("fs.watch in place of @parcel/watcher: no native module");
      writeFileSync(join(folder, "new"), "");
      await seen;
      await watch.stop();
      const before = told;
      writeFileSync(join(folder, "newer"), "");
      // Another watch that sees a later file proves that the stopped one had its chance.
      let later = (): void => undefined;
      const seenLater = new Promise<void>((resolve) => (later = resolve));
      const again = await createFsEvents(options).watch(folder, () => later());
      writeFileSync(join(folder, "newest"), "");
      await seenLater;
      await again.stop();
      expect(told).toBe(before);
    });
  }

  test("fs events: no such folder → not armed, with the reason", async () => {
    const watch = await createFsEvents().watch("/no/such/folder", () => undefined);
    expect(watch).toMatchObject({
      armed: false,
      reason: expect.stringContaining("fs.watch: ENOENT"),
    });
    await watch.stop();
  });
});
