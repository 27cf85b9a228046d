/** `[agent.claude-code] pretrust`: one key of Claude Code's state file, under its lock, every other byte kept. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { claudeStateFile, pretrust } from "../../../src/backends/harness/claude-code/pretrust.ts";
import { failureOf } from "../../support/failure.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { waitFor } from "../../support/wait.ts";

const WORKSPACE = "/home/me/shop-kiki-parser";
const THEIRS = `{
  "numStartups": 12345678901234567890,
  "projects": {
    "/home/me/shop": { "hasTrustDialogAccepted": true, "history": ["}", "\\""] }
  },
  "oauthAccount": {"emailAddress": "me@example.com"}
}
`;
let dir: string;
let file: string;

beforeEach(() => {
  dir = tempDir("pretrust");
  file = join(dir, ".claude.json");
});
afterAll(removeTempDirs);

const text = (): string => readFileSync(file, "utf8");
const trusted = (workspace: string): unknown =>
  (JSON.parse(text()) as { projects: Record<string, Record<string, unknown>> }).projects[
    workspace
  ]?.["hasTrustDialogAccepted"];

describe("pretrust", () => {
  test("a file of theirs → one key more, every other byte and the mode as they were", async () => {
    writeFileSync(file, THEIRS);
    chmodSync(file, 0o640);
    await pretrust(file, WORKSPACE);
    expect(trusted(WORKSPACE)).toBe(true);
    const added = text().length - THEIRS.length;
    const at = text().indexOf(WORKSPACE);
    expect(text().slice(0, THEIRS.indexOf("\n  },"))).toBe(
      THEIRS.slice(0, THEIRS.indexOf("\n  },")),
    );
    expect(at).toBeGreaterThan(0);
    expect(text().slice(THEIRS.indexOf("\n  },") + added)).toBe(
      THEIRS.slice(THEIRS.indexOf("\n  },")),
    );
    expect(statSync(file).mode & 0o777).toBe(0o640);
    expect(readdirSync(dir)).toEqual([".claude.json"]);
  });

  test("trusted already → not written", async () => {
    writeFileSync(file, THEIRS);
    const before = statSync(file).mtimeMs;
    await pretrust(file, "/home/me/shop");
    expect([text(), statSync(file).mtimeMs]).toEqual([THEIRS, before]);
  });

  test("no file yet → made, for its owner alone", async () => {
    await pretrust(file, WORKSPACE);
    expect(trusted(WORKSPACE)).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("a link → what it leads to is changed, the link stays", async () => {
    const real = join(dir, "dotfiles.json");
    writeFileSync(real, "{}");
    symlinkSync(real, file);
    await pretrust(file, WORKSPACE);
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(trusted(WORKSPACE)).toBe(true);
  });

  test("the lock is held → waited for; what its holder wrote is kept", async () => {
    writeFileSync(file, THEIRS);
    mkdirSync(`${file}.lock`);
    const done = pretrust(file, WORKSPACE);
    await Bun.sleep(0);
    const theirs = THEIRS.replace("me@example.com", "other@example.com");
    writeFileSync(file, theirs);
    expect(existsSync(`${file}.lock`)).toBe(true);
    rmdirSync(`${file}.lock`);
    await done;
    expect([trusted(WORKSPACE), text().includes("other@example.com")]).toEqual([true, true]);
  });

  test("a lock whose holder died long ago → taken", async () => {
    mkdirSync(`${file}.lock`);
    utimesSync(`${file}.lock`, 1, 1);
    await pretrust(file, WORKSPACE);
    expect(trusted(WORKSPACE)).toBe(true);
    await waitFor(() => !existsSync(`${file}.lock`), 1_000, "no lock");
  });

  for (const bad of [
    "[]",
    "{",
    '{"projects": 1}',
    '{"projects": {"/home/me/shop-kiki-parser": 1}}',
  ])
    test(`${bad} → pretrust-failed naming the file, not one byte changed, no lock left`, async () => {
      writeFileSync(file, bad);
      expect(await failureOf(pretrust(file, WORKSPACE))).toMatchObject({
        code: "pretrust-failed",
        message: expect.stringContaining(file) as string,
      });
      expect([text(), readdirSync(dir)]).toEqual([bad, [".claude.json"]]);
    });

  test("twelve at once → twelve keys", async () => {
    writeFileSync(file, THEIRS);
    const all = Array.from({ length: 12 }, (_, i) => `/w/${i}`);
    await Promise.all(all.map((workspace) => pretrust(file, workspace)));
    expect(all.map(trusted)).toEqual(all.map(() => true));
  });

  test("place → in the configuration folder, else in the home folder", () => {
    expect(claudeStateFile({ HOME: "/h" })).toBe("/h/.claude.json");
    expect(claudeStateFile({ HOME: "/h", CLAUDE_CONFIG_DIR: "/c" })).toBe("/c/.claude.json");
  });
});
