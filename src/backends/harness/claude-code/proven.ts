/**
 * What has been proved about which version of Claude Code, by running the real binary against a scripted model
 * server. A version that is not listed has proved nothing: soft delivery and exclusive hooks are off, and without
 * exclusive hooks no incarnation gets a prompt.
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
  // PreToolUse hooks are synchronous and may hold a call for as long as the hook's time-out.
  soft_pause: true,
  // --resume <id> keeps id and record, also from another folder.
  session_resume: true,
  structured_tool_hooks: true,
  // PostToolBatch once per response and agent, with the membership, also when all calls were denied.
  parallel_batch_boundary: true,
  // --settings F --setting-sources "" runs the hooks of F only.
  exclusive_pre_tool_use: true,
  // UserPromptSubmit shows the start-up prompt with a prompt_id that later calls of the turn carry.
  restart_startup_delivery: true,
  mcp_client: true,
  // Stop after every turn that was not interrupted; the session record and pane tell the rest.
  quiescence_detection: true,
};

const PROVEN: ReadonlyMap<string, Capabilities> = new Map([["2.1.332", EVERYTHING]]);

/** What is proved for exactly this version. */
export function provenCapabilities(version: string): Capabilities {
  return { ...(PROVEN.get(version) ?? NOTHING) };
}
