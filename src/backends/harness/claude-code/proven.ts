/**
 * The proofs about Claude Code: which there are, which capabilities each of them takes when it fails, and the versions
 * for which the release gate has made all of them on the real program. What a version that is not listed does is looked
 * at when it is first met (quick-proofs.ts).
 */
import type { Capability, Proof } from "../../../core/proofs.ts";

/** Raised whenever launch flags, generated settings or the meaning of a proof change: older proofs say nothing then. */
export const ADAPTER_VERSION = "1";

export const PROOFS = {
  /** Launch flags for settings. Without them kiki's hooks go into a file of the workspace, and no capability is lost. */
  "settings-flags": [],
  /** Hooks of user, project and local settings stay out; kiki's run. */
  "exclusive-hooks": ["exclusive_pre_tool_use"],
  /** A `PreToolUse` for every call, naming session, call and tool, and waited for. */
  "pre-tool-hooks": ["structured_tool_hooks", "soft_pause"],
  /** A refused call does not run. */
  "deny-blocks": ["structured_tool_hooks", "soft_pause"],
  /** The model gets prefix and text of a refusal byte for byte, at the greatest length a payload has. */
  "deny-fidelity": ["parallel_batch_boundary"],
  /** `PostToolBatch` once per response with its membership and results, also when every call was refused. */
  "batch-boundary": ["parallel_batch_boundary"],
  /** A hook that dies blocks its call. */
  "fail-closed": ["soft_pause", "parallel_batch_boundary"],
  /** `UserPromptSubmit` shows the first prompt as it was given, and later calls carry its `prompt_id`. */
  "startup-echo": ["restart_startup_delivery"],
  "session-id": ["session_resume"],
  resume: ["session_resume"],
  /** `Stop` after a turn. */
  "turn-end": ["quiescence_detection"],
  "mcp-server": ["mcp_client"],
} as const satisfies Record<string, readonly Capability[]>;
export type ProofName = keyof typeof PROOFS;
export const PROOF_NAMES = Object.keys(PROOFS) as ProofName[];

export function proof(name: ProofName, outcome: Proof["outcome"], reason: string): Proof {
  return { name, takes: PROOFS[name], outcome, reason };
}

const AT_THE_GATE: ReadonlySet<string> = new Set(["2.1.332"]);

/** null for a version the gate never ran. */
export function gateProofs(version: string): readonly Proof[] | null {
  if (!AT_THE_GATE.has(version)) return null;
  return PROOF_NAMES.map((name) =>
    proof(name, "proved", "seen on the real program by the release gate"),
  );
}
