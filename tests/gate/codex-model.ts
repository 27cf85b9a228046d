/** Small words for writing scripts of the model that the real Codex asks, and for typing at its terminal interface. */
import type { ModelItem } from "../../fixtures/model-servers/codex.ts";
import type { PaneRun } from "../support/tmux.ts";

/** The composer takes an Enter that follows typing this closely for part of a paste. */
export const PASTE_MS = 600;

export const say = (text: string): ModelItem => ({ type: "text", text });
export const call = (name: string, args: unknown, call_id: string): ModelItem => ({
  type: "function_call",
  name,
  arguments: args,
  call_id,
});
/** Waits for the command's end, unless `more` says otherwise. */
export const exec = (call_id: string, cmd: string, more: object = {}): ModelItem =>
  call("exec_command", { cmd, yield_time_ms: 30_000, ...more }, call_id);
export const rawPatch = (call_id: string, input: string): ModelItem => ({
  type: "custom_tool_call",
  name: "apply_patch",
  input,
  call_id,
});
export const patchText = (file: string): string =>
  `*** Begin Patch\n*** Add File: ${file}\n+x\n*** End Patch`;
export const patch = (call_id: string, file: string): ModelItem =>
  rawPatch(call_id, patchText(file));

/** Types a prompt and sends it. */
export async function submit(pane: PaneRun, text: string): Promise<void> {
  pane.type(text);
  await Bun.sleep(PASTE_MS);
  pane.enter();
}
