/** The quick proofs on the scripted agent, and on versions of it that differ in one behaviour each. */
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import { PROOF_NAMES } from "../../../src/backends/harness/claude-code/proven.ts";
import { capabilitiesOf, lacking, standingOf, type Proof } from "../../../src/core/proofs.ts";
import { claudeShim, UNKNOWN_VERSION, type ShimBehaviour } from "../../support/claude-shim.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { thorough } from "../../support/thorough.ts";
import { waitForNoProcess } from "../../support/wait.ts";

setDefaultTimeout(60_000);
afterAll(removeTempDirs);

/** Runs the proofs as the daemon does; the folder is kept for a look. */
async function prove(
  behaviour: ShimBehaviour,
  options: { timeoutMs?: number; managed?: string } = {},
): Promise<{ proofs: readonly Proof[]; folder: string }> {
  const dir = tempDir("proofs");
  const folder = join(dir, "run");
  mkdirSync(folder, { mode: 0o700 });
  const { timeoutMs = 30_000, managed = join(dir, "managed") } = options;
  const proofs = await new ClaudeCodeHarness({ managedFolder: managed }).prove({
    executable: join(claudeShim(dir, behaviour), "claude"),
    version: UNKNOWN_VERSION,
    env: { PATH: process.env["PATH"] ?? "", ANTHROPIC_API_KEY: "the person's", HOME: "/root" },
    folder,
    timeoutMs,
  });
  expect(proofs.map((p) => p.name)).toEqual([...PROOF_NAMES]);
  return { proofs, folder };
}

/** Name → outcome and reason of all that were not proved. The scripted agent starts no MCP servers. */
function unproved(proofs: readonly Proof[]): Record<string, string> {
  return Object.fromEntries(
    proofs
      .filter((p) => p.outcome !== "proved" && p.name !== "mcp-server")
      .map((p) => [p.name, `${p.outcome}: ${p.reason}`]),
  );
}

describe("quick proofs", () => {
  test("an unknown version that behaves → all proved, in folders of the run alone", async () => {
    const { proofs, folder } = await prove("behaves");
    expect(unproved(proofs)).toEqual({});
    const can = capabilitiesOf(proofs);
    expect([standingOf(can), lacking(can)]).toEqual(["full", ["mcp_client"]]);
    expect(readdirSync(join(folder, "decoys"))).toEqual([]);
    expect(readdirSync(join(folder, "project/traces"))).toEqual([]);
  });

  test("runs a project's hooks beside kiki's → not exclusive, refused", async () => {
    const { proofs } = await prove("runs-project-hooks");
    const { "exclusive-hooks": exclusive, ...others } = unproved(proofs);
    expect(exclusive).toMatch(/^failed: hooks that are not kiki's ran in it: .*project-PreToolUse/);
    expect(others).toEqual({});
    expect(standingOf(capabilitiesOf(proofs))).toBe("refused");
  });

  thorough("says nothing when a batch is over → restart-only", async () => {
    const { proofs } = await prove("no-batch-event");
    expect(unproved(proofs)).toEqual({
      "batch-boundary":
        "failed: it does not say when the calls of a response are over (PostToolBatch)",
    });
    expect(standingOf(capabilitiesOf(proofs))).toBe("restart-only");
  });

  test("cuts what it tells its model → restart-only, with what it made of a payload", async () => {
    const { proofs } = await prove("cuts-denies");
    const { "deny-fidelity": fidelity, ...others } = unproved(proofs);
    expect(fidelity).toMatch(
      /^failed: its model does not get a refusal as it was written: \d+ char/,
    );
    expect(others).toEqual({});
    expect(standingOf(capabilitiesOf(proofs))).toBe("restart-only");
  });

  test("runs what it was told to refuse → refused", async () => {
    const { proofs } = await prove("ignores-denies");
    expect(unproved(proofs)["deny-blocks"]).toStartWith("failed: it ran Bash");
    expect(standingOf(capabilitiesOf(proofs))).toBe("refused");
  });

  test("goes on without a hook that died → restart-only", async () => {
    const { proofs } = await prove("fails-open");
    expect(unproved(proofs)).toEqual({
      "fail-closed": "failed: it ran a call whose hook had died",
    });
    expect(standingOf(capabilitiesOf(proofs))).toBe("restart-only");
  });

  test("gives the first prompt no id → boundary-only", async () => {
    const { proofs } = await prove("forgets-prompt-ids");
    expect(unproved(proofs)).toEqual({
      "startup-echo": "failed: the prompt it shows has no id",
    });
    expect(standingOf(capabilitiesOf(proofs))).toBe("boundary-only");
  });

  thorough(
    "no flags for settings, and every file's hooks run → not exclusive, refused",
    async () => {
      const { proofs } = await prove("no-flags");
      const { "exclusive-hooks": exclusive, "settings-flags": flags, ...others } = unproved(proofs);
      expect(exclusive).toMatch(/^failed: hooks that are not kiki's ran in it: project-.*user-/);
      expect(flags).toStartWith("failed: it has no flags for settings");
      expect(others).toEqual({});
      expect(standingOf(capabilitiesOf(proofs))).toBe("refused");
    },
  );

  test("no flags for settings, foreign hooks stay out all the same → every capability, by the local file", async () => {
    const { proofs } = await prove("no-flags-reads-local-only");
    expect(Object.keys(unproved(proofs))).toEqual(["settings-flags"]);
    expect(standingOf(capabilitiesOf(proofs))).toBe("full");
  });

  test("does not answer → ended within the limit, nothing tried, no process left", async () => {
    const began = performance.now();
    const { proofs, folder } = await prove("hangs", { timeoutMs: 1_000 });
    expect(performance.now() - began).toBeLessThan(10_000);
    const why = new Set(proofs.map((p) => `${p.outcome}: ${p.reason}`));
    expect([...why]).toEqual(["not-tried: it did not come to an end within 1 s"]);
    expect(standingOf(capabilitiesOf(proofs))).toBe("refused");
    await waitForNoProcess(`${folder}/`);
  });

  test("ends at once → nothing tried, in its own words", async () => {
    const { proofs } = await prove("dies");
    expect(new Set(proofs.map((p) => p.reason))).toEqual(
      new Set(["it ended with exit code 3: cannot go on"]),
    );
  });

  test("a managed pre-tool hook on the machine → not exclusive, naming the file; the program is not started", async () => {
    const managed = tempDir("managed");
    await Bun.write(
      join(managed, "managed-settings.json"),
      JSON.stringify({ hooks: { PreToolUse: [{ hooks: [] }] } }),
    );
    const { proofs, folder } = await prove("behaves", { managed });
    expect(unproved(proofs)["exclusive-hooks"]).toContain("managed-settings.json");
    expect(readdirSync(join(folder, "hooks"))).toEqual([]);
  });
});
