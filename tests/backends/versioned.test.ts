/** Reading a file that somebody edits meanwhile. */
import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readVersioned } from "../../src/backends/versioned.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const LIMIT = 100;

function text(
  path: string,
  known: string | null,
): { text: string; version: string | null } | string {
  const seen = readVersioned(path, known, LIMIT);
  if (seen.is !== "read") return seen.is === "unusable" ? `unusable: it ${seen.why}` : seen.is;
  return { text: Buffer.from(seen.bytes).toString(), version: seen.version };
}

/** Written long ago, so that its time stamp tells it from any later one. */
function old(path: string, content: string, seconds = 1_000_000_000): void {
  writeFileSync(path, content);
  utimesSync(path, seconds, seconds);
}

function versionOf(path: string): string {
  const seen = text(path, null);
  if (typeof seen === "string" || seen.version === null) throw new Error(JSON.stringify(seen));
  return seen.version;
}

test("versioned: unchanged → same; edited in place, replaced, replaced by equal bytes → read again", () => {
  const dir = tempDir("versioned");
  const path = join(dir, "c.toml");
  old(path, "one");
  const version = versionOf(path);
  expect(text(path, version)).toBe("same");

  old(path, "two");
  expect(text(path, version)).toMatchObject({ text: "two" });
  const second = versionOf(path);
  old(join(dir, "other"), "two");
  renameSync(join(dir, "other"), path);
  expect(text(path, second)).toMatchObject({ text: "two" });
});

test("versioned: changed this moment → read, without a version to rely on", () => {
  const path = join(tempDir("versioned"), "c.toml");
  writeFileSync(path, "new");
  expect(text(path, null)).toEqual({ text: "new", version: null });
});

test("versioned: absent, absent folder, dangling link → absent; a link → what it leads to", () => {
  const dir = tempDir("versioned");
  old(join(dir, "file"), "x");
  symlinkSync(join(dir, "nowhere"), join(dir, "dangling"));
  symlinkSync(join(dir, "file"), join(dir, "link"));
  expect(text(join(dir, "no"), null)).toBe("absent");
  expect(text(join(dir, "no/c.toml"), null)).toBe("absent");
  expect(text(join(dir, "file/c.toml"), null)).toBe("absent");
  expect(text(join(dir, "dangling"), null)).toBe("absent");
  expect(text(join(dir, "link"), null)).toMatchObject({ text: "x" });
});

test("versioned: folder, pipe, device, too large, loop → said, at once", () => {
  const dir = tempDir("versioned");
  mkdirSync(join(dir, "folder"));
  writeFileSync(join(dir, "large"), "x".repeat(LIMIT + 1));
  symlinkSync(join(dir, "loop"), join(dir, "loop"));
  expect(Bun.spawnSync(["mkfifo", join(dir, "pipe")]).exitCode).toBe(0);
  expect(text(join(dir, "folder"), null)).toBe("unusable: it is a folder");
  expect(text(join(dir, "pipe"), null)).toBe("unusable: it is not a file");
  expect(text("/dev/zero", null)).toBe("unusable: it is not a file");
  expect(text(join(dir, "large"), null)).toBe("unusable: it is 101 bytes long; the limit is 100");
  expect(text(join(dir, "loop"), null)).toBe("unusable: it cannot be read (ELOOP)");
});

// Root reads everything.
test.skipIf(process.getuid?.() === 0)("versioned: no permission → said", () => {
  const path = join(tempDir("versioned"), "c.toml");
  writeFileSync(path, "x");
  chmodSync(path, 0);
  expect(text(path, null)).toBe("unusable: it cannot be read (EACCES)");
});
