/** What set-up recipes need of the machine: copies between two workspaces, and a command nothing waits for. */
import type { ProcessIdentity } from "./processes.ts";

/** A copy kiki made; `path` is relative to the workspace. */
export interface CopiedFile {
  path: string;
  /** Hex SHA-256 of the bytes copied. */
  sha256: string;
}

export interface StartedRecipe {
  process: ProcessIdentity | null;
  /** Resolves when the started process itself has ended. Never rejects. */
  exited: Promise<void>;
}

export interface Recipes {
  /**
   * Files below `root` that the patterns name, relative, sorted, each once; a folder stands for what is in it. Nothing
   * of jj's or git's, nothing a symlink leads out to. `missing`: patterns that name nothing. `problems`: one line each.
   */
  match(
    root: string,
    patterns: readonly string[],
  ): Promise<{ files: string[]; missing: string[]; problems: string[] }>;
  /**
   * Copies `files` from `root` to the same places below `workspace`, contents and permission bits, each completely or
   * not at all. What is there already stays, even a symlink; nothing is written through one. Repeatable: a copy that
   * exists with the source's bytes counts as copied.
   */
  copy(
    root: string,
    workspace: string,
    files: readonly string[],
  ): Promise<{ copied: CopiedFile[]; notes: string[]; problems: string[] }>;
  /** Takes copies back whose bytes are still the ones copied, and the folders that are empty by it. */
  uncopy(workspace: string, copied: readonly CopiedFile[]): Promise<void>;
  /** Appends lines to a log, 0600. */
  note(log: string, lines: readonly string[]): void;
  /** Last line of a log that is neither empty nor kiki's own note, at most 200 characters; "" without one. */
  lastLine(log: string): string;
  /** Keeps a log that grew beyond `maxBytes` to its newest half; what writes to it goes on. */
  trim(log: string, maxBytes: number): void;
  /**
   * Starts a process in a session and group of its own, output appended to `log`, standard input empty. It does not
   * end with the daemon. Throws KikiError `command-missing`, `command-cwd`.
   */
  start(request: {
    argv: readonly string[];
    cwd: string;
    env: Record<string, string>;
    log: string;
  }): StartedRecipe;
  /** Every process that carries `token` in its arguments or its environment. */
  carrying(token: string): ProcessIdentity[];
  /** Every process of the session that the process `leader` began. */
  ofSession(leader: number): ProcessIdentity[];
  /**
   * SIGTERM to all that `find` names, SIGKILL to those that are there `graceMs` later, until none is. Resolves with
   * those that were ended. Throws KikiError `recipe-still-running` when one cannot be ended.
   */
  end(find: () => ProcessIdentity[], graceMs: number): Promise<ProcessIdentity[]>;
}
