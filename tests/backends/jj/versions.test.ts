/** jj and git that are missing, too old, or not what their name says. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../../src/backends/jj/backend.ts";
import { isAtLeast } from "../../../src/core/tool-versions.ts";
import { byteSize } from "../../../src/backends/jj/snapshot-settings.ts";
import { hermeticEnv, removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

/** Versions as a person's PATH would give them; `null`: no such program. */
async function check(jj: string | null, git: string | null): Promise<{ jj: string; git: string }> {
  const dir = tempDir("versions");
  const bin = join(dir, "bin");
  mkdirSync(bin);
  for (const [name, says] of [
    ["jj", jj],
    ["git", git],
  ] as const) {
    if (says === null) continue;
    writeFileSync(join(bin, name), `#!/bin/sh\necho '${says}'\n`, { mode: 0o755 });
  }
  return createJj({ env: { ...hermeticEnv(dir), PATH: bin } }).checkVersions();
}

describe("checkVersions", () => {
  test("versions: new enough, with suffixes → told apart from their suffix", async () => {
    expect(await check("jj 0.46.0-3bd5b7a", "git version 2.42.1 (Apple Git-154)")).toEqual({
      jj: "0.46.0",
      git: "2.42.1",
    });
    expect(await check("jj 1.0.0", "git version 2.53.0")).toEqual({ jj: "1.0.0", git: "2.53.0" });
  });

  const refused: [string, string | null, string | null, string, RegExp][] = [
    ["no jj", null, "git version 2.53.0", "jj-missing", /^jj is not on PATH$/],
    [
      "old jj",
      "jj 0.45.9",
      "git version 2.53.0",
      "jj-too-old",
      /^jj 0\.45\.9 is too old: kiki needs 0\.46\.0/,
    ],
    ["no git", "jj 0.46.0", null, "git-missing", /^git is not on PATH$/],
    [
      "old git",
      "jj 0.46.0",
      "git version 2.39.5",
      "git-too-old",
      /^git 2\.39\.5 is too old: jj 0\.46\.0 needs 2\.42\.0/,
    ],
    [
      "something else named jj",
      "hello",
      "git version 2.53.0",
      "jj-missing",
      /^jj --version says "hello"/,
    ],
  ];
  for (const [name, jj, git, code, message] of refused) {
    test(`versions: ${name} → ${code} with a remedy`, async () => {
      const error = await check(jj, git).then(
        () => null,
        (e: unknown) => e,
      );
      expect(error).toMatchObject({
        code,
        message: expect.stringMatching(message),
        hint: expect.stringMatching(/./),
      });
    });
  }

  test("isAtLeast: compared by number, not by text → right", () => {
    expect(isAtLeast("0.9.0", "0.46.0")).toBe(false);
    expect(isAtLeast("0.46", "0.46.0")).toBe(true);
    expect(isAtLeast("0.100.0", "0.46.0")).toBe(true);
    expect(isAtLeast("2.42.0", "2.42.0")).toBe(true);
  });
});

test("byteSize: jj's ways to write a size → bytes; anything else → null", () => {
  const sizes: [unknown, number | null][] = [
    [10, 10],
    ["10", 10],
    ["10B", 10],
    ["1KiB", 1024],
    ["1KB", 1024],
    ["1 MiB", 1024 ** 2],
    [0, Number.POSITIVE_INFINITY],
    ["1.5KiB", null],
    [-1, null],
    ["lots", null],
    [undefined, null],
  ];
  for (const [written, bytes] of sizes)
    expect([written, byteSize(written)]).toEqual([written, bytes]);
});
