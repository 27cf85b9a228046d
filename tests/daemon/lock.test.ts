import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { takeLock } from "../../src/daemon/lock.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

afterAll(removeTempDirs);

describe("kkd.lock", () => {
  test("take: free, held, released → lock, null, lock", () => {
    const file = join(tempDir("lock"), "kkd.lock");
    const first = takeLock(file)!;
    expect(first.previous).toBeNull();
    expect(takeLock(file)).toBeNull();
    first.release();
    const second = takeLock(file)!;
    expect(second).not.toBeNull();
    second.release();
  });

  test("record: pid at once, socket later → readable by clients, and by the next holder", () => {
    const file = join(tempDir("lock"), "kkd.lock");
    writeFileSync(file, "99999\n/run/old-and-much-longer-than-the-new-one.sock\n");
    const lock = takeLock(file)!;
    expect(lock.previous).toEqual({
      pid: 99999,
      socket: "/run/old-and-much-longer-than-the-new-one.sock",
    });
    expect(readFileSync(file, "utf8")).toBe(`${process.pid}\n\n`);
    lock.record("/run/x.sock");
    expect(readFileSync(file, "utf8")).toBe(`${process.pid}\n/run/x.sock\n`);
    lock.release();
  });

  test("new file: mode → 0600", () => {
    const file = join(tempDir("lock"), "kkd.lock");
    takeLock(file)!.release();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("lock file removed while it is held → the next one locks the new file, and keeps others out", () => {
    const file = join(tempDir("lock"), "kkd.lock");
    const old = takeLock(file)!;
    rmSync(file);
    const fresh = takeLock(file)!;
    expect(fresh).not.toBeNull();
    expect(takeLock(file)).toBeNull();
    old.release();
    fresh.release();
  });

  test("holder killed with -9 while its child lives on → free at once", async () => {
    const dir = tempDir("lock");
    const file = join(dir, "kkd.lock");
    const holder = join(dir, "holder.ts");
    const source = join(import.meta.dir, "../../src/daemon/lock.ts");
    writeFileSync(
      holder,
      `import { takeLock } from ${JSON.stringify(source)};
       const lock = takeLock(${JSON.stringify(file)});
       const child = Bun.spawn(["sleep", "600"], { stdio: ["ignore", "ignore", "ignore"] });
       console.log(lock === null ? "none" : child.pid);
       setInterval(() => lock, 1000);`,
    );
    const process_ = Bun.spawn([process.execPath, holder], { stdout: "pipe", cwd: dir });
    const reader = process_.stdout.getReader();
    const child = Number(new TextDecoder().decode((await reader.read()).value));
    expect(child).toBeGreaterThan(0);
    try {
      expect(takeLock(file)).toBeNull();
      process_.kill("SIGKILL");
      await process_.exited;
      process.kill(child, 0); // the child is there, and must not have the lock
      const lock = await waitFor(() => takeLock(file), 1000, "the lock");
      lock.release();
    } finally {
      process.kill(child, "SIGKILL");
    }
  });

  test("folder that is not there → the system's own error, not a lock", () => {
    expect(() => takeLock(join(tempDir("lock"), "gone", "kkd.lock"))).toThrow("ENOENT");
  });
});
