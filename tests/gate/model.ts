/** Small words for writing model scripts, and for finding what the real harness asked the scripted model. */
import type {
  ModelBlock,
  ModelServer,
  RecordedRequest,
} from "../../fixtures/model-servers/claude.ts";
import { waitFor } from "../support/wait.ts";

/** Time for the real harness to come to a step: its start takes seconds on a busy machine. */
export const STEP_MS = 90_000;
/** Longer than any step: a scripted answer that is held back for the story to go on. */
const CUE_MS = 200_000;

export const say = (text: string): ModelBlock => ({ type: "text", text });
const use = (name: string, input: object, id?: string): ModelBlock => ({
  type: "tool_use",
  name,
  input,
  ...(id === undefined ? {} : { id }),
});
export const bash = (command: string, id?: string): ModelBlock =>
  use("Bash", { command, description: command.slice(0, 40) }, id);
export const write = (file_path: string, content: string, id?: string): ModelBlock =>
  use("Write", { file_path, content }, id);
export const read = (file_path: string, id?: string): ModelBlock => use("Read", { file_path }, id);
export const edit = (file_path: string, old_string: string, new_string: string): ModelBlock =>
  use("Edit", { file_path, old_string, new_string });
export const skill = (name: string): ModelBlock => use("Skill", { skill: name });
export const agent = (prompt: string, subagent_type: string): ModelBlock =>
  use("Agent", { description: "helper", prompt, subagent_type });

export interface Cues {
  give(name: string): void;
  /** Resolves once the cue has been given. */
  taken(name: string): Promise<unknown>;
}

export function makeCues(): Cues {
  const given = new Set<string>();
  return {
    give: (name) => void given.add(name),
    taken: (name) => waitFor(() => given.has(name), CUE_MS, `cue ${name}`),
  };
}

/**
 * The request with which the harness asks for that step of a script. Its side questions, a title for the session for
 * example, quote the prompt and so the script's name, but have no tools.
 */
export function asked(model: ModelServer, script: string, step: number): Promise<RecordedRequest> {
  const main = (r: RecordedRequest): boolean =>
    r.script === script && r.step === step && (r.body.tools ?? []).length > 0;
  return model.waitFor(main, STEP_MS);
}
