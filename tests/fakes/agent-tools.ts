/** Tool calls a model may write, as the fake agent runs them. Names, inputs and result texts are Claude Code's. */
import type { AgentFiles } from "./agent-protocol.ts";

export interface ToolSpec {
  name: string;
  input: Record<string, unknown>;
  /** May run beside other such calls; every other call runs alone, in order (2.1.332). */
  concurrent: boolean;
  /** What the tool does to the files. Returns its result; a throw is a failed tool. */
  effect?: (files: AgentFiles) => string;
  /** The effect happens when the tool starts, not when it ends: an interruption does not take it back. */
  early?: boolean;
  /** Refused by the harness before any hook (unknown tool, input that does not fit), with this text. */
  refusal?: string;
  /** Waits for a person's answer after its hook. */
  asks?: boolean;
  /** The call starts another agent: beside the turn, or within the call. */
  starts?: "background" | "foreground";
  /**
   * The command returns while its process runs on (Codex): no event now. Called when the tool has returned, with what is
   * to be called when the process ends.
   */
  background?: (ended: () => void) => void;
  /** Call id; default the next one. */
  id?: string;
}

export function read(path: string): ToolSpec {
  return {
    name: "Read",
    input: { file_path: path },
    concurrent: true,
    effect: (files) => {
      const text = files.get(path);
      if (text === null) throw new Error("File does not exist.");
      return text.replace(/^/gm, "\t");
    },
  };
}

export function write(path: string, content: string): ToolSpec {
  return {
    name: "Write",
    input: { file_path: path, content },
    concurrent: false,
    effect: (files) => {
      files.put(path, content);
      return `File created successfully at: ${path}`;
    },
  };
}

export function edit(path: string, from: string, to: string): ToolSpec {
  return {
    name: "Edit",
    input: { replace_all: false, file_path: path, old_string: from, new_string: to },
    concurrent: false,
    effect: (files) => {
      const text = files.get(path);
      if (text === null || !text.includes(from)) throw new Error("String to replace not found.");
      files.put(
        path,
        text.replace(from, () => to),
      );
      return `The file ${path} has been updated.`;
    },
  };
}

/** `effect` stands for what the command does; a command with one is no reading command and runs alone. */
export function bash(command: string, effect?: (files: AgentFiles) => string): ToolSpec {
  return {
    name: "Bash",
    input: { command, description: command },
    concurrent: effect === undefined,
    effect: effect ?? (() => ""),
  };
}

/** In a terminal every agent runs in the background, whatever the call says (2.1.332). */
export function subAgent(
  description: string,
  starts: "background" | "foreground" = "background",
): ToolSpec {
  return {
    name: "Agent",
    input: { description, prompt: description, subagent_type: "general-purpose" },
    concurrent: true,
    starts,
  };
}

/** A call of a tool that does not exist: it is in PostToolBatch without ever having had a PreToolUse. */
export function unknownTool(name: string): ToolSpec {
  const refusal = `<tool_use_error>Error: No such tool available: ${name}</tool_use_error>`;
  return { name, input: {}, concurrent: true, refusal };
}
