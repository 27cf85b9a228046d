/** kiki's hooks in a workspace's `.claude/settings.local.json`: taken back from exactly what kiki wrote, or not at all. */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import {
  localSettingsFile,
  mergeLocalSettings,
  restoreLocalSettings,
} from "../../../src/backends/harness/claude-code/local-settings.ts";
import { failureOf } from "../../support/failure.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

const HOOKS = { PreToolUse: [{ hooks: [{ type: "command", command: "/kiki/hook" }] }] };
/** As a person writes it: odd spacing, a hook, plugins, and what is to be kept. */
const THEIRS = `{ "permissions" : {"allow": ["Bash(ls:*)"]},
  "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]},
  "enabledPlugins": {"p@m": true}, "disableAllHooks": true }`;
let workspace: string;
let folder: string;
let file: string;

beforeEach(() => {
  const dir = tempDir("local-settings");
  [workspace, folder] = [join(dir, "ws"), join(dir, "harness")];
  mkdirSync(workspace);
  mkdirSync(folder);
  file = localSettingsFile(workspace);
});
afterAll(removeTempDirs);

function theirs(text = THEIRS): void {
  mkdirSync(join(workspace, ".claude"), { recursive: true });
  writeFileSync(file, text);
}
const text = (): string => readFileSync(file, "utf8");
const merge = (): string => mergeLocalSettings(workspace, folder, HOOKS);

describe("merge and restore", () => {
  test("a file of theirs → settings kept, their hooks out; given back byte for byte", () => {
    theirs();
    expect(merge()).toBe(file);
    expect(JSON.parse(text())).toEqual({ permissions: { allow: ["Bash(ls:*)"] }, hooks: HOOKS });
    expect(restoreLocalSettings(folder)).toBeNull();
    expect(text()).toBe(THEIRS);
    expect(readdirSync(folder)).toEqual([]);
    expect(restoreLocalSettings(folder)).toBeNull();
    expect(text()).toBe(THEIRS);
  });

  test("no file, no folder → both gone again; something else in the folder → it stays", () => {
    merge();
    restoreLocalSettings(folder);
    expect(existsSync(join(workspace, ".claude"))).toBe(false);
    merge();
    writeFileSync(join(workspace, ".claude/notes.md"), "mine");
    restoreLocalSettings(folder);
    expect(readdirSync(join(workspace, ".claude"))).toEqual(["notes.md"]);
  });

  test("merged again by the next incarnation → what a person had is still what is given back", () => {
    theirs();
    merge();
    mergeLocalSettings(workspace, folder, { Stop: [] });
    restoreLocalSettings(folder);
    expect(text()).toBe(THEIRS);
  });

  test("edited meanwhile → reported, not one byte changed, and the prior bytes stay where they are", async () => {
    theirs();
    merge();
    const edited = text().replace("Bash(ls:*)", "Bash(cat:*)");
    writeFileSync(file, edited);
    expect(restoreLocalSettings(folder)).toContain(
      `${file} was edited while kiki's hooks were in it`,
    );
    expect(text()).toBe(edited);
    const kept = JSON.parse(readFileSync(join(folder, "local-settings.json"), "utf8")) as {
      prior: string;
    };
    expect(Buffer.from(kept.prior, "base64").toString()).toBe(THEIRS);
    expect(await failureOf(Promise.resolve().then(merge))).toMatchObject({
      code: "local-settings-edited",
    });
    expect(text()).toBe(edited);
  });

  test("removed meanwhile → reported, and not made again", () => {
    theirs();
    merge();
    rmSync(file);
    expect(restoreLocalSettings(folder)).toContain("was edited");
    expect(existsSync(file)).toBe(false);
  });

  test("a death before the file was written, or after it was given back → nothing to say, nothing changed", () => {
    theirs();
    merge();
    writeFileSync(file, THEIRS);
    expect(restoreLocalSettings(folder)).toBeNull();
    expect([text(), readdirSync(folder)]).toEqual([THEIRS, []]);
  });

  test("what is there is no JSON object → bad-settings naming it, nothing written", async () => {
    theirs("[1]");
    expect(await failureOf(Promise.resolve().then(merge))).toMatchObject({ code: "bad-settings" });
    expect([text(), readdirSync(folder)]).toEqual(["[1]", []]);
  });
});
