/** The durable writer. */
import { afterAll, expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import {
  appendLine,
  ensureDir,
  listDir,
  namelessFile,
  readText,
  removeDurable,
  writeDurable,
} from "../../src/backends/files.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const mode = (path: string): number => statSync(path).mode & 0o777;

test("namelessFile: content that cannot be written → fails, leaving neither file nor descriptor", () => {
  const dir = tempDir("nameless");
  const descriptors = (): number => readdirSync("/proc/self/fd").length;
  const before = descriptors();
  // Stands for a full disk.
  const content = {} as unknown as string;
  expect(() => namelessFile([dir], content)).toThrow();
  expect([readdirSync(dir), descriptors()]).toEqual([[], before]);
});

test("writeDurable: new, then replaced → whole content, exact mode whatever the umask, nothing else in the folder", () => {
  const path = join(tempDir("files"), "marker");
  const umask = process.umask(0o077);
  try {
    writeDurable(path, "one", 0o644);
    expect([readFileSync(path, "utf8"), mode(path)]).toEqual(["one", 0o644]);
    writeDurable(path, new Uint8Array([0, 255]), 0o600);
  } finally {
    process.umask(umask);
  }
  expect([[...readFileSync(path)], mode(path)]).toEqual([[0, 255], 0o600]);
  expect(readdirSync(join(path, ".."))).toEqual(["marker"]);
});

test("writeDurable: target is a symlink → the link is replaced, what it pointed to untouched", () => {
  const dir = tempDir("files");
  writeFileSync(join(dir, "precious"), "keep");
  symlinkSync("precious", join(dir, "link"));
  writeDurable(join(dir, "link"), "new", 0o600);
  expect(readFileSync(join(dir, "precious"), "utf8")).toBe("keep");
  expect(readFileSync(join(dir, "link"), "utf8")).toBe("new");
});

test("writeDurable: cannot be put in place → throws, old content and no temporary file stay", () => {
  const dir = tempDir("files");
  mkdirSync(join(dir, "target/inside"), { recursive: true });
  expect(() => writeDurable(join(dir, "target"), "x", 0o600)).toThrow();
  expect(readdirSync(dir)).toEqual(["target"]);
  expect(() => writeDurable(join(dir, "no/such/file"), "x", 0o600)).toThrow();
});

test("removeDurable, readText, listDir: nothing there → no error", () => {
  const dir = tempDir("files");
  writeFileSync(join(dir, "b"), "text");
  writeFileSync(join(dir, "a"), "");
  expect(listDir(dir)).toEqual(["a", "b"]);
  expect(readText(join(dir, "b"))).toBe("text");
  removeDurable(join(dir, "b"));
  removeDurable(join(dir, "b"));
  expect(readText(join(dir, "b"))).toBeNull();
  expect(readText(join(dir, "a/below-a-file"))).toBeNull();
  expect(listDir(join(dir, "none"))).toEqual([]);
  expect(() => readText(dir)).toThrow();
});

test("ensureDir: missing parents → made with the mode; an existing folder → left as it is", () => {
  const dir = tempDir("files");
  ensureDir(join(dir, "a/b"), 0o700);
  expect([mode(join(dir, "a")), mode(join(dir, "a/b"))]).toEqual([0o700, 0o700]);
  chmodSync(join(dir, "a"), 0o755);
  ensureDir(join(dir, "a"), 0o700);
  expect(mode(join(dir, "a"))).toBe(0o755);
});

test("appendLine: twice → two lines, private file", () => {
  const path = join(tempDir("files"), "log");
  appendLine(path, "one");
  appendLine(path, "two\n");
  expect([readFileSync(path, "utf8"), mode(path)]).toEqual(["one\ntwo\n", 0o600]);
});
