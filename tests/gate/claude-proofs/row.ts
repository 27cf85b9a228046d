/** A proof about Claude Code, in the words of this suite. */
import { CLAUDE_VERSION } from "../install.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";

export function claude(
  id: string,
  claim: string,
  inversion: string,
  needed: Proof["needed"],
  prove: (run: ProofRun) => Promise<Evidence>,
): Proof {
  return { id, harness: "claude-code", version: CLAUDE_VERSION, claim, inversion, needed, prove };
}
