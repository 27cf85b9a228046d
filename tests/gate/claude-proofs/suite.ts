/** claude-proofs: every fact about Claude Code that kiki relies on, each with the run in which it must not hold. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import type { Capabilities } from "../../../src/ports/harness.ts";
import { CLAUDE_VERSION } from "../install.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import { provedBy, reportProofs, runProofs, type ProofRow } from "../proof.ts";
import type { Report } from "../report.ts";
import { batches } from "./batches.ts";
import { denials } from "./denials.ts";
import { exclusivity } from "./exclusivity.ts";
import { failures } from "./failures.ts";
import { sessions } from "./sessions.ts";

/** Each run is a start of a large program: more at once only wait for each other on two cores. */
const WIDTH = 2;

export async function claudeProofs(
  report: Report,
  loopback: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("claude-proofs: what kiki relies on, on the real Claude Code");
  const proofs = [...exclusivity, ...denials, ...batches, ...failures, ...sessions].filter(
    ({ id }) => options.only === null || id.includes(options.only),
  );
  const folder = (name: string): string => {
    const path = join(options.folder, name);
    mkdirSync(path);
    return path;
  };
  const rows = await runProofs(proofs, loopback, {
    options,
    folder,
    inverted: options.inverted,
    width: WIDTH,
  });
  reportProofs(report, rows);
  if (options.only === null) claimsAreProved(report, rows);
}

/** Nothing is claimed for this version that has not been proved here. */
function claimsAreProved(report: Report, rows: readonly ProofRow[]): void {
  const proved = provedBy(rows);
  for (const [capability, claimed] of Object.entries(
    new ClaudeCodeHarness().capabilities(CLAUDE_VERSION),
  ))
    report.check(
      `${capability}: ${claimed ? "claimed, and proved" : "not claimed"}`,
      !claimed || proved[capability as keyof Capabilities] === true,
    );
}
