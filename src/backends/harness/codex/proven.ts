/**
 * What has been proved about which version of Codex, with the real program and the settings kiki generates for it. A
 * version that is not listed has proved nothing, and without exclusive hooks no incarnation gets a prompt.
 */
import type { Capabilities } from "../../../ports/harness.ts";

const NOTHING: Capabilities = {
  soft_pause: false,
  session_resume: false,
  structured_tool_hooks: false,
  parallel_batch_boundary: false,
  exclusive_pre_tool_use: false,
  restart_startup_delivery: false,
  mcp_client: false,
  quiescence_detection: false,
};

const EVERYTHING: Capabilities = {
  // A PreToolUse hook may hold its call for as long as its time-out.
  soft_pause: true,
  // `codex resume <id>` keeps id and record, from the same CODEX_HOME.
  session_resume: true,
  structured_tool_hooks: true,
  // Serial: the generated catalog asks for one call at a time, and kiki enforces it.
  parallel_batch_boundary: true,
  // hooks/list before every launch: kiki's hooks, trusted, and nothing else that would run.
  exclusive_pre_tool_use: true,
  // UserPromptSubmit shows the start-up prompt with the turn_id that later calls of the turn carry.
  restart_startup_delivery: true,
  mcp_client: true,
  // Stop after every turn; Interrupt where the person broke it off.
  quiescence_detection: true,
};

const PROVEN: ReadonlyMap<string, Capabilities> = new Map([["0.171.0", EVERYTHING]]);

/** What is proved for exactly this version. */
export function provenCapabilities(version: string): Capabilities {
  return { ...(PROVEN.get(version) ?? NOTHING) };
}
