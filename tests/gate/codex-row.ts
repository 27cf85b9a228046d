/** A proof about Codex, in the words of a suite about it. */
import { CODEX_VERSION } from "./install.ts";
import type { Evidence, Proof, ProofRun } from "./proof.ts";

export function codex(
  id: string,
  claim: string,
  inversion: string,
  needed: Proof["needed"],
  prove: (run: ProofRun) => Promise<Evidence>,
): Proof {
  return { id, harness: "codex", version: CODEX_VERSION, claim, inversion, needed, prove };
}
