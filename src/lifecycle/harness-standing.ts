/** Whether threads may run with a harness, as it was proved, and in which words a person hears how. */
import { fail } from "../core/errors.ts";
import {
  CAPABILITIES,
  capabilitiesOf,
  standingOf,
  standingReasons,
  STANDING_WORDS,
  type Proof,
  type Standing,
} from "../core/proofs.ts";
import type { HarnessName } from "../ports/harness.ts";
import { keptCapabilities } from "../store/sessions.ts";
import type { CreationDeps } from "./creation-deps.ts";
import { gateOnly, type ProvedHarness } from "./proving.ts";

/**
 * What a version was proved to do, without what it has lost in this repository. Throws `harness-version`,
 * `harness-unsupported`. May run the program: at most once for each version.
 */
export async function provedHarness(
  deps: Pick<CreationDeps, "harness" | "proving" | "db">,
  name: HarnessName,
  executable: string,
  env: Record<string, string>,
): Promise<ProvedHarness> {
  const harness = deps.harness(name);
  const proved = await (deps.proving === undefined
    ? gateOnly(harness, executable, env)
    : deps.proving.of(harness, executable, env));
  const proofs = [...proved.proofs, ...lostProofs(deps, name, proved)];
  checkProofs(name, proved.version, proofs);
  return { ...proved, proofs, capabilities: capabilitiesOf(proofs) };
}

/** Not kept with the proofs of the version, which are the user's: it counts in the repository where it was seen. */
function lostProofs(
  { db }: Pick<CreationDeps, "db">,
  name: HarnessName,
  { version, capabilities }: ProvedHarness,
): Proof[] {
  const kept = keptCapabilities(db, name, version, capabilities);
  const takes = CAPABILITIES.filter((c) => capabilities[c] && !kept[c]);
  if (takes.length === 0) return [];
  const reason = "it was seen to fail in this repository: a refused call ran";
  return [{ name: "kept-in-use", takes, outcome: "failed", reason }];
}

/** Without its own hook alone, or without any way to deliver, kiki can promise nothing. Throws `harness-unsupported`. */
export function checkProofs(harness: HarnessName, version: string, proofs: readonly Proof[]): void {
  const can = capabilitiesOf(proofs);
  if (standingOf(can) !== "refused") return;
  const what = can.exclusive_pre_tool_use
    ? "kiki has no proven way to tell its agent about a change"
    : "kiki cannot prove that its hook is the only one";
  const why = standingReasons(proofs);
  throw fail(
    "failed",
    "harness-unsupported",
    `${harness} ${version}: ${what}${why.length === 0 ? "" : ` (${why.join("; ")})`}`,
    "use a version kiki supports: kk doctor lists them",
  );
}

export interface StandingWords {
  standing: Standing;
  words: string;
  reasons: string[];
}

export function standingWords(proofs: readonly Proof[]): StandingWords {
  const standing = standingOf(capabilitiesOf(proofs));
  return { standing, words: STANDING_WORDS[standing], reasons: standingReasons(proofs) };
}
