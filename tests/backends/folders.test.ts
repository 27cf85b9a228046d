/** Looking at folders and taking them back, on a real file system. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  fileSha256,
  folderKind,
  inodeOf,
  listFiles,
  removeListed,
  removeTree,
} from "../../src/backends/folders.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

let dir: string;
beforeEach(() => {
  dir = join(tempDir("folders"), "ws");
  mkdirSync(join(dir, ".jj/repo"), { recursive: true });
  mkdirSync(join(dir, "src/deep"), { recursive: true });
  writeFileSync(join(dir, ".git"), "gitdir: x");
  writeFileSync(join(dir, "a.txt"), "a");
  writeFileSync(join(dir, "src/deep/b.txt"), "b");
});
afterAll(removeTempDirs);

const TOOLS = [".jj", ".git"];

describe("folders", () => {
  test("kind: nothing, empty, with something, a file, a link to a folder → told apart", async () => {
    mkdirSync(join(dir, "empty"));
    symlinkSync(dir, join(dir, "link"));
    const kinds = await Promise.all(
      ["nothing", "empty", "src", "a.txt", "link", "a.txt/x"].map((n) => folderKind(join(dir, n))),
    );
    expect(kinds).toEqual(["absent", "empty-folder", "folder", "other", "other", "absent"]);
  });

  test("inode: same folder under its name → the same; replaced → another; gone → null", async () => {
    const before = await inodeOf(dir);
    expect(await inodeOf(`${dir}/src/..`)).toBe(before);
    expect(await inodeOf(join(dir, "src"))).not.toBe(before);
    expect(await inodeOf(join(dir, "gone"))).toBeNull();
  });

  test("sha256: a file → its hash; none → null", async () => {
    expect(await fileSha256(join(dir, "a.txt"))).toBe(
      createHash("sha256").update("a").digest("hex"),
    );
    expect(await fileSha256(join(dir, "none"))).toBeNull();
  });

  test("list: tools' entries skipped at the top only, links listed and not followed", async () => {
    mkdirSync(join(dir, "src/.git"));
    writeFileSync(join(dir, "src/.git/config"), "");
    symlinkSync("/", join(dir, "root"));
    expect(await listFiles(dir, TOOLS)).toEqual([
      "a.txt",
      "root",
      "src/.git/config",
      "src/deep/b.txt",
    ]);
  });

  test("remove: everything listed → folder gone", async () => {
    expect(await removeListed(dir, ["a.txt", "src/deep/b.txt"], TOOLS)).toBe(true);
    expect(existsSync(dir)).toBe(false);
  });

  test("remove: a file nobody listed → it stays, with the folders above it and the tools' entries", async () => {
    writeFileSync(join(dir, "src/new.txt"), "mine");
    expect(await removeListed(dir, ["a.txt", "src/deep/b.txt", "gone.txt"], TOOLS)).toBe(false);
    expect(readFileSync(join(dir, "src/new.txt"), "utf8")).toBe("mine");
    expect([existsSync(join(dir, "a.txt")), existsSync(join(dir, ".jj/repo"))]).toEqual([
      false,
      true,
    ]);
  });

  test("remove: a listed link → the link goes, not what it points at", async () => {
    const target = join(dir, "../target.txt");
    writeFileSync(target, "kept");
    symlinkSync(target, join(dir, "link"));
    await removeListed(dir, ["a.txt", "src/deep/b.txt", "link"], TOOLS);
    expect([existsSync(dir), readFileSync(target, "utf8")]).toEqual([false, "kept"]);
  });

  test("remove tree: there or not → gone", async () => {
    await removeTree(dir);
    await removeTree(dir);
    expect(existsSync(dir)).toBe(false);
  });
});
