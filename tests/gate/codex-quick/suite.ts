/**
 * codex-quick: the quick proofs on the real Codex, as a daemon runs them for a version it does not know. The program says
 * another version of itself and behaves as it does, or differs in one behaviour: each difference must be found, and nothing
 * else. Then threads of such versions.
 */
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { capabilitiesOf } from "../../../src/core/proofs.ts";
import { PROVE_TIMEOUT_MS } from "../../../src/lifecycle/proving.ts";
import { CODEX_VERSION } from "../install.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import { proveAll } from "../proof.ts";
import type { Report } from "../report.ts";
import { quick } from "./quick.ts";
import { threadsOfUnknownVersions } from "./threads.ts";

export async function codexQuick(
  report: Report,
  loopback: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("codex-quick: the quick proofs on the real Codex, under an unknown version");
  await proveAll(report, loopback, options, {
    proofs: quick,
    claimed: capabilitiesOf(new CodexHarness().gateProofs(CODEX_VERSION) ?? []),
  });
  report.say(`  a daemon gives each of these runs ${PROVE_TIMEOUT_MS / 1000} s`);
  if (options.only === null) await threadsOfUnknownVersions(report, options);
}
