/**
 * The state vocabularies as a person sees them (interface chapter, "Glyphs"). Every state has a glyph or a word of
 * its own; colour only helps the eye and can always be left out.
 */
import type { CascadeStatus } from "../intent.ts";
import type { AgentDisplayState, Lifecycle } from "../lifecycle.ts";

export type Colour = "dim" | "amber" | "red" | "green" | "accent";

export interface Sign {
  glyph: string;
  /** Shown beside the glyph where a glyph alone must not carry the message; "" for none. */
  label: string;
  colour: Colour;
}

export const CASCADE_SIGNS: Record<CascadeStatus, Sign> = {
  "in sync": { glyph: "──", label: "", colour: "dim" },
  pending: { glyph: "↻", label: "", colour: "amber" },
  conflicted: { glyph: "◐", label: "conflicted", colour: "red" },
};

export const AGENT_SIGNS: Record<AgentDisplayState, Sign> = {
  idle: { glyph: "○", label: "", colour: "dim" },
  working: { glyph: "●", label: "", colour: "amber" },
  finished: { glyph: "✓", label: "", colour: "green" },
  blocked: { glyph: "◉", label: "blocked", colour: "red" },
};

const IN_PROGRESS: Sign = { glyph: "…", label: "", colour: "amber" };
const NEEDS_REPAIR: Sign = { glyph: "!", label: "", colour: "red" };
const GONE: Sign = { glyph: "□", label: "", colour: "dim" };

/** Takes the agent's place while the lifecycle is not `Active`; the literal label tells the states apart. */
export const LIFECYCLE_SIGNS: Record<Lifecycle, Sign | null> = {
  Active: null,
  Creating: IN_PROGRESS,
  ClosePreflight: IN_PROGRESS,
  CloseCommit: IN_PROGRESS,
  DestroyCommit: IN_PROGRESS,
  CreateFailed: NEEDS_REPAIR,
  CloseFailed: NEEDS_REPAIR,
  ProjectionDiverged: NEEDS_REPAIR,
  DestroyFailed: NEEDS_REPAIR,
  Closed: GONE,
  Destroyed: GONE,
};

/** An active thread whose agent is not known to run. */
export const NO_AGENT: Sign = { glyph: "·", label: "", colour: "dim" };

export const FOLLOWS = "←";
export const CURRENT = "▸";
export const CHECKPOINT_BEHIND = "↑";

/** The one state glyph of the first column. */
export function stateSign(lifecycle: Lifecycle, agent: AgentDisplayState | null): Sign {
  return LIFECYCLE_SIGNS[lifecycle] ?? (agent === null ? NO_AGENT : AGENT_SIGNS[agent]);
}

const ANSI: Record<Colour, string> = {
  dim: "2",
  amber: "33",
  red: "31",
  green: "32",
  accent: "36",
};

/** `text` in `colour`, or as it is when `on` is false (NO_COLOR, CLICOLOR=0, not a terminal). */
export function paint(text: string, colour: Colour, on: boolean): string {
  return on && text.trim() !== "" ? `\u001b[${ANSI[colour]}m${text}\u001b[0m` : text;
}
