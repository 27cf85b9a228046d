/**
 * The quick proofs on the real Claude Code, as a daemon runs them for a version it does not know: the program says
 * another version of itself and behaves as it does. The version kiki is released with must pass what any other has to.
 */
import { mkdirSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import { capabilitiesOf, lacking } from "../../../src/core/proofs.ts";
import { PROVE_TIMEOUT_MS } from "../../../src/lifecycle/proving.ts";
import { claudeShim, UNKNOWN_VERSION } from "../../support/claude-shim.ts";
import { CLAUDE, CLAUDE_VERSION } from "../install.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { threadsOfUnknownVersions } from "./threads.ts";

/** The gate asks what the program does, not how fast this machine is. */
const PATIENCE = 6;

export async function claudeQuick(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading(
    "claude-quick: the quick proofs on the real Claude Code, under an unknown version",
  );
  const dir = mkdtempSync(join(options.folder, "proofs-"));
  const folder = join(dir, "run");
  mkdirSync(folder, { mode: 0o700 });
  const harness = new ClaudeCodeHarness();
  const executable = join(claudeShim(dir, "behaves", CLAUDE), "claude");
  const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
  const version = await harness.version(executable, env);
  report.check(
    `${CLAUDE_VERSION} calls itself ${UNKNOWN_VERSION}, of which the gate knows nothing`,
    version === UNKNOWN_VERSION && harness.gateProofs(version) === null,
  );
  const began = performance.now();
  const timeoutMs = PROVE_TIMEOUT_MS * PATIENCE;
  const proofs = await harness.prove({ executable, version, env, folder, timeoutMs });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  for (const { name, outcome, reason } of proofs)
    report.check(`${name}: ${reason}`, outcome === "proved", outcome);
  const names = (list: readonly { name: string }[] | null): string =>
    (list ?? []).map((p) => p.name).join();
  report.check(
    "these are the proofs that stand for the released version, and they give every capability",
    names(harness.gateProofs(CLAUDE_VERSION)) === names(proofs) &&
      lacking(capabilitiesOf(proofs)).length === 0,
  );
  report.check(
    "no hook but kiki's has left a trace",
    readdirSync(join(folder, "decoys")).length === 0,
  );
  report.say(`  ${seconds} s for both sessions; a daemon gives them ${PROVE_TIMEOUT_MS / 1000} s`);
  await threadsOfUnknownVersions(report, options);
}
