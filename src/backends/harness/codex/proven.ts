/**
 * The proofs about Codex: which there are, which capabilities each of them takes when it fails, and the versions for
 * which all of them were made on the real program, with the settings kiki generates for it. Of a version that is not
 * listed only what needs no model is looked at (quick-proofs.ts).
 */
import type { Capability, Proof } from "../../../core/proofs.ts";

/** Raised whenever launch flags, generated settings or the meaning of a proof change: older proofs say nothing then. */
export const ADAPTER_VERSION = "2";

const PROOFS = {
  /** The command line of a launch is taken; that of a resumed one is part of `resume`. */
  "command-line": ["structured_tool_hooks"],
  /** `hooks/list` and `config/read` are answered, and kiki's hooks are the only ones that run. */
  "exclusive-hooks": ["exclusive_pre_tool_use"],
  /** A `PreToolUse` for every call of a tool that is left on; it may hold its call for as long as its time-out. */
  "pre-tool-hooks": ["structured_tool_hooks", "soft_pause"],
  /** A refused call does not run. */
  "deny-blocks": ["structured_tool_hooks", "soft_pause"],
  /** The model gets the text of a refusal byte for byte inside the known wrapper, at the greatest length of a payload. */
  "deny-fidelity": ["parallel_batch_boundary"],
  /** With the generated catalog the model is asked for one call at a time. */
  "serial-calls": ["parallel_batch_boundary"],
  /** A command that was left running cannot be told more by a tool that asks nobody. */
  "unasked-input": ["parallel_batch_boundary"],
  /** A call's line is on disk before its `PreToolUse`, its output before the next request, responses are told apart. */
  "session-record": ["parallel_batch_boundary"],
  /** A hook that dies blocks its call. */
  "fail-closed": ["soft_pause", "parallel_batch_boundary"],
  /** `UserPromptSubmit` shows the start-up prompt with the turn_id that later calls of the turn carry. */
  "startup-echo": ["restart_startup_delivery"],
  /** `codex resume <id>` keeps id and record, from the same CODEX_HOME. */
  resume: ["session_resume"],
  /** `Stop` after every turn; `Interrupt` where the person broke it off. */
  "turn-end": ["quiescence_detection"],
  "mcp-server": ["mcp_client"],
} as const satisfies Record<string, readonly Capability[]>;
export type ProofName = keyof typeof PROOFS;
export const PROOF_NAMES = Object.keys(PROOFS) as ProofName[];

export function proof(name: ProofName, outcome: Proof["outcome"], reason: string): Proof {
  return { name, takes: PROOFS[name], outcome, reason };
}

const PROVED: ReadonlySet<string> = new Set(["0.171.0"]);

/** null for a version that was never run. */
export function gateProofs(version: string): readonly Proof[] | null {
  if (!PROVED.has(version)) return null;
  return PROOF_NAMES.map((name) => proof(name, "proved", "seen on the real program"));
}
