/** Small words for writing scripts of the model that the real Codex asks, and for typing at its terminal interface. */
import type { ModelItem } from "../../fixtures/model-servers/codex.ts";
import type { PaneRun } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";
import { STEP_MS } from "./model.ts";

/** The composer takes an Enter that follows typing this closely for part of a paste. */
const PASTE_MS = 600;
/** Time for an Enter to be taken before there is another. */
const TAKEN_MS = 2_000;
const ENTERS = 10;

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

/** A terminal with a Codex in it: what `PaneRun` has of one. */
export type Composer = Pick<PaneRun, "type" | "enter" | "screen">;

/**
 * Types a prompt and sends it. On a busy machine Codex may read text and Enter together after all and take the Enter for a
 * line of a paste; the text then stands in the composer until there is another.
 */
export async function submit(pane: Composer, text: string): Promise<void> {
  // The composer shows the first character of a command of the person's its own way.
  const shown = text.replace(/^!/, "");
  pane.type(text);
  await waitFor(
    () => pane.screen().includes(shown),
    STEP_MS,
    () => `${text} in the composer:\n${pane.screen()}`,
  );
  const sent = (): boolean => {
    const lines = pane.screen().split("\n");
    return lines.findLast((line) => /^\s*[›!]/.test(line))?.includes(shown) !== true;
  };
  for (let tries = 0; tries < ENTERS; tries += 1) {
    // Codex goes by the time between two keys, and by nothing that could be waited for.
    await Bun.sleep(PASTE_MS);
    pane.enter();
    const taken = waitFor(sent, TAKEN_MS, "taken");
    if (await taken.catch(() => false)) return;
  }
  throw new Error(`${text} was not sent:\n${pane.screen()}`);
}
