/** claude-proofs: every fact about Claude Code that kiki relies on, each with the run in which it must not hold. */
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import { capabilitiesOf } from "../../../src/core/proofs.ts";
import { CLAUDE_VERSION } from "../install.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import { proveAll } from "../proof.ts";
import type { Report } from "../report.ts";
import { batches } from "./batches.ts";
import { denials } from "./denials.ts";
import { exclusivity } from "./exclusivity.ts";
import { failures } from "./failures.ts";
import { sessions } from "./sessions.ts";

export async function claudeProofs(
  report: Report,
  loopback: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("claude-proofs: what kiki relies on, on the real Claude Code");
  await proveAll(report, loopback, options, {
    proofs: [...exclusivity, ...denials, ...batches, ...failures, ...sessions],
    claimed: capabilitiesOf(new ClaudeCodeHarness().gateProofs(CLAUDE_VERSION) ?? []),
  });
}
