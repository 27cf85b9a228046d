import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fail } from "../../src/core/errors.ts";
import { openLog } from "../../src/daemon/log.ts";
import { FakeClock } from "../fakes/clock.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);
const clock = new FakeClock();

describe("kkd.log", () => {
  test("entries → one line each with an ISO time, 0600, whatever the message holds", () => {
    const file = join(tempDir("log"), "kkd.log");
    const log = openLog(file, clock);
    log.info("started");
    log.warn("two\nlines\r\nhere");
    log.error("x".repeat(100_000));
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(3);
    for (const line of lines)
      expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ (info|warn|error) /);
    expect(lines[2]!.length).toBeLessThan(10_000);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("error with causes → the chain on the same line, a stack only for what was not expected", () => {
    const file = join(tempDir("log"), "kkd.log");
    const log = openLog(file, clock);
    log.error("it failed", new Error("outer", { cause: fail("failed", "jj-gone", "jj is gone") }));
    const text = readFileSync(file, "utf8");
    expect(text.trimEnd().split("\n")).toHaveLength(1);
    expect(text).toContain("it failed | outer (at ");
    expect(text).toContain("| caused by jj-gone: jj is gone\n");
  });

  test("size limit → rotated to .1 and .2, the oldest dropped, nothing lost in between", () => {
    const file = join(tempDir("log"), "kkd.log");
    const log = openLog(file, clock, 300);
    for (let n = 0; n < 20; n += 1)
      log.info(`entry ${String(n).padStart(3, "0")} ${"-".repeat(40)}`);
    const files = [`${file}.2`, `${file}.1`, file];
    for (const path of files) expect(statSync(path).size).toBeLessThanOrEqual(300);
    expect(existsSync(`${file}.3`)).toBe(false);
    const numbers = files.flatMap((path) =>
      [...readFileSync(path, "utf8").matchAll(/entry (\d+)/g)].map((match) => Number(match[1])),
    );
    expect(numbers.at(-1)).toBe(19);
    expect(numbers).toEqual(numbers.map((_, i) => numbers[0]! + i));
  });

  test("reopened → the size of what is there counts", () => {
    const file = join(tempDir("log"), "kkd.log");
    openLog(file, clock, 300).info("x".repeat(200));
    openLog(file, clock, 300).info("y".repeat(200));
    expect(readFileSync(`${file}.1`, "utf8")).toContain("xxx");
  });

  test("folder that is gone → entries are dropped, nothing is thrown", () => {
    const log = openLog(join(tempDir("log"), "missing", "kkd.log"), clock);
    expect(() => log.error("nowhere to go", new Error("x"))).not.toThrow();
  });
});
