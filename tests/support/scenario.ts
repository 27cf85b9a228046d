/** Building blocks of scenarios for both scripted agents, and reading what they logged (fixtures/agents/common). */
import { existsSync, readFileSync } from "node:fs";

export const bash = (id: string, command: string) => ({
  type: "tool_use",
  id,
  name: "Bash",
  input: { command, description: command },
});
export const write = (id: string, file_path: string, content: string) => ({
  type: "tool_use",
  id,
  name: "Write",
  input: { file_path, content },
});
export const edit = (id: string, file_path: string, old_string: string, new_string: string) => ({
  type: "tool_use",
  id,
  name: "Edit",
  input: { file_path, old_string, new_string },
});
export const read = (id: string, file_path: string) => ({
  type: "tool_use",
  id,
  name: "Read",
  input: { file_path },
});
export const say = (text: string) => ({ type: "text", text });
/** The "model" goes on once the file exists. */
export const wait = (path: string) => ({ type: "wait_file", path, timeout_ms: 120_000 });
/** Tells whoever waits for the file that the "model" got this far. */
export const touch = (path: string) => ({ type: "touch_file", path });

/** One line of a scenario's log. */
export interface Moment {
  t: number;
  kind: string;
  tool_use_id?: string;
  name?: string;
  decision?: string;
  result?: string;
}

/** Everything logged so far; empty while there is no log. */
export function moments(file: string): Moment[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Moment);
}
