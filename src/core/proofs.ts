/**
 * What a harness was proved to do, and what follows from it. A proof is one named look at how a program behaves; a
 * capability is there when every proof that stands for it was made, and at least one was. Pure.
 */

export const CAPABILITIES = [
  "soft_pause",
  "session_resume",
  "structured_tool_hooks",
  "parallel_batch_boundary",
  "exclusive_pre_tool_use",
  "restart_startup_delivery",
  "mcp_client",
  "quiescence_detection",
] as const;
export type Capability = (typeof CAPABILITIES)[number];
export type Capabilities = Record<Capability, boolean>;

export const PROOF_OUTCOMES = ["proved", "failed", "not-tried"] as const;
export type ProofOutcome = (typeof PROOF_OUTCOMES)[number];

export interface Proof {
  /** Stable, in kebab case; one of each in a list. */
  name: string;
  /** Capabilities that are not there without it. */
  takes: readonly Capability[];
  outcome: ProofOutcome;
  /** One line for people: what was seen, or why it was not tried. */
  reason: string;
}

/** The proofs of one exact version: made at the release gate, or quickly on a machine that has that version. */
export type ProofSource = "gate" | "quick";

/** AND over the proofs of each capability; one that no proof stands for is false. */
export function capabilitiesOf(proofs: readonly Proof[]): Capabilities {
  const has = (capability: Capability): boolean => {
    const about = proofs.filter((p) => p.takes.includes(capability));
    return about.length > 0 && about.every((p) => p.outcome === "proved");
  };
  return Object.fromEntries(CAPABILITIES.map((c) => [c, has(c)])) as Capabilities;
}

/** How threads run with it. `full` may still lack what no part of kiki depends on. */
export type Standing = "full" | "restart-only" | "boundary-only" | "refused";

export function standingOf(can: Capabilities): Standing {
  if (!can.exclusive_pre_tool_use || !can.structured_tool_hooks) return "refused";
  if (can.parallel_batch_boundary && can.restart_startup_delivery) return "full";
  if (can.restart_startup_delivery) return "restart-only";
  return can.parallel_batch_boundary ? "boundary-only" : "refused";
}

/** In words, without the version it is said of. */
export const STANDING_WORDS = {
  full: "proved",
  "restart-only":
    "restart-only: its agent is told about changes only by being started anew, never between two calls",
  "boundary-only":
    "boundary-only: its agent is told about changes between two calls, never by being started anew",
  refused: "refused: no thread can run with it",
} as const satisfies Record<Standing, string>;

/** What no proof was made for. */
export function lacking(can: Capabilities): Capability[] {
  return CAPABILITIES.filter((c) => !can[c]);
}

/** Reasons of the proofs without which the capabilities named are not there; each once, in their order. */
export function reasonsFor(proofs: readonly Proof[], named: readonly Capability[]): string[] {
  const failing = proofs.filter(
    (p) => p.outcome !== "proved" && p.takes.some((c) => named.includes(c)),
  );
  return [...new Set(failing.map((p) => p.reason))];
}

/** Why the standing is no better; empty for `full`. */
export function standingReasons(proofs: readonly Proof[]): string[] {
  const can = capabilitiesOf(proofs);
  switch (standingOf(can)) {
    case "full":
      return [];
    case "restart-only":
      return reasonsFor(proofs, ["parallel_batch_boundary"]);
    case "boundary-only":
      return reasonsFor(proofs, ["restart_startup_delivery"]);
    case "refused":
      return reasonsFor(proofs, [
        "exclusive_pre_tool_use",
        "structured_tool_hooks",
        "parallel_batch_boundary",
        "restart_startup_delivery",
      ]);
  }
}

/** A run that could not look at everything says so; whatever else it found may come out otherwise another time. */
export function isConclusive(proofs: readonly Proof[]): boolean {
  return proofs.length > 0 && proofs.every((p) => p.outcome !== "not-tried");
}
