/** What is said of a version of Codex that was never run: what needs no model is looked at, the rest is not tried. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { capabilitiesOf, standingOf, type Proof } from "../../../src/core/proofs.ts";
import { codexProgram } from "../../support/codex-program.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

const FOREIGN = { hooks: { PreToolUse: [{ hooks: [{ type: "command", command: "foreign" }] }] } };
let root = "";
let harness = new CodexHarness();
beforeEach(() => {
  root = realpathSync(tempDir("codex-quick"));
  harness = new CodexHarness({ managedFolder: join(root, "managed") });
  codexProgram(join(root, "codex"), "codex-cli 0.999.0");
});

const prove = (): Promise<readonly Proof[]> => {
  const folder = join(root, "run");
  mkdirSync(folder, { mode: 0o700 });
  const [executable, env] = [join(root, "codex"), { PATH: process.env["PATH"] ?? "" }];
  return harness.prove({ executable, version: "0.999.0", env, folder, timeoutMs: 20_000 });
};
const outcomes = (proofs: readonly Proof[]): string[] =>
  proofs.map(({ name, outcome }) => `${name} ${outcome}`);

test("what it lists is kiki's alone → that is proved, nothing that needs a turn is tried, no thread can run", async () => {
  const proofs = await prove();
  expect(outcomes(proofs)[0]).toBe("exclusive-hooks proved");
  expect(proofs.slice(1).every(({ outcome }) => outcome === "not-tried")).toBe(true);
  expect(standingOf(capabilitiesOf(proofs))).toBe("refused");
  expect(proofs.map(({ name }) => name)).toEqual(
    harness.gateProofs("0.171.0")!.map(({ name }) => name),
  );
});

test("a managed hook → refuted, naming the file; a program that does not answer → not tried", async () => {
  const path = join(root, "managed/hooks.json");
  mkdirSync(join(root, "managed"));
  writeFileSync(path, JSON.stringify(FOREIGN));
  const [refuted] = await prove();
  expect(refuted).toMatchObject({ outcome: "failed", reason: expect.stringContaining(path) });
  writeFileSync(path, "{}");
  writeFileSync(join(root, "codex"), "#!/bin/sh\nexit 3\n");
  const folder = join(root, "again");
  mkdirSync(folder);
  const request = { executable: join(root, "codex"), version: "0.999.0", env: {}, folder };
  const [silent] = await harness.prove({ ...request, timeoutMs: 20_000 });
  expect(silent).toMatchObject({ name: "exclusive-hooks", outcome: "not-tried" });
});
