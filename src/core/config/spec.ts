/** What the table of configuration keys declares of each key. */
import type { ValueType } from "./types.ts";

/** Lowest to highest: a value of a later layer hides those of the earlier ones. */
export const LAYERS = [
  "default",
  "repo-shared",
  "user",
  "repo-local",
  "thread",
  "env",
  "flag",
] as const;
export type Layer = (typeof LAYERS)[number];

/**
 * `hot`: at once. `lifecycle`: for threads made, and agents started, from then on. `restart`: once the daemon has been
 * restarted.
 */
export type ReloadClass = "hot" | "lifecycle" | "restart";

/**
 * Who reads the key, and so whose environment counts: the command a person types, or the daemon, which keeps the
 * environment it was started in.
 */
export type ReadBy = "command" | "daemon";

export interface KeySpec<T = unknown> extends ValueType<T> {
  /** null: nothing is set, and kiki chooses. */
  default: T | null;
  /** Layers that may set it; the others are ignored with a warning. */
  layers: readonly Layer[];
  reload: ReloadClass;
  readBy: ReadBy;
  doc: string;
  /** Only where it is not what the reload class says. */
  effect?: string;
  /** Declared, checked and shown, and read by nothing in this version. */
  planned?: true;
}

/** When a change takes effect, completing "a change takes effect". */
export function effectOf(spec: KeySpec): string {
  if (spec.effect !== undefined) return spec.effect;
  switch (spec.reload) {
    case "hot":
      return "at once";
    case "lifecycle":
      return "for threads made and agents started from then on";
    case "restart":
      return "with kk daemon restart";
  }
}

/** `KIKI_AGENT__CLAUDE_CODE__PRETRUST` of `agent.claude-code.pretrust`: `.` is two underscores, `-` is one. */
export function envName(dotted: string): string {
  return `KIKI_${dotted.toUpperCase().replaceAll("-", "_").replaceAll(".", "__")}`;
}
