/** codex-proofs: every fact about Codex that kiki relies on, each with the run in which it must not hold. */
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { capabilitiesOf } from "../../../src/core/proofs.ts";
import { CODEX_VERSION } from "../install.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import { proveAll } from "../proof.ts";
import type { Report } from "../report.ts";
import { denials } from "./denials.ts";
import { exclusivity } from "./exclusivity.ts";
import { failures } from "./failures.ts";
import { homes } from "./homes.ts";
import { serial } from "./serial.ts";
import { sessions } from "./sessions.ts";
import { tools } from "./tools.ts";

export async function codexProofs(
  report: Report,
  loopback: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("codex-proofs: what kiki relies on, on the real Codex");
  await proveAll(report, loopback, options, {
    proofs: [...exclusivity, ...homes, ...denials, ...serial, ...tools, ...failures, ...sessions],
    claimed: capabilitiesOf(new CodexHarness().gateProofs(CODEX_VERSION) ?? []),
  });
}
