/** `kk ls` as text: one row per thread, no row wider than the terminal. Pure; the CLI prints what it returns. */
import type { CascadeStatus } from "../intent.ts";
import type { AgentDisplayState, Lifecycle } from "../lifecycle.ts";
import {
  CASCADE_SIGNS,
  CHECKPOINT_BEHIND,
  CURRENT,
  FOLLOWS,
  paint,
  stateSign,
  type Colour,
  type Sign,
} from "./glyphs.ts";
import { displayWidth, padEnd, printable, truncate } from "./width.ts";

/** The part of a thread's summary a row shows. */
export interface LsThread {
  threadId: string;
  repoId: string;
  repoPath: string;
  name: string;
  bookmark: string | null;
  followsName: string | null;
  lifecycle: Lifecycle;
  cascade: CascadeStatus;
  agent: AgentDisplayState | null;
  checkpoint: "current" | "behind" | "diverged" | null;
  description: string;
}

export interface LsOptions {
  /** Terminal width; null when the output is no terminal: then nothing is cut. */
  columns: number | null;
  colour: boolean;
  /** A column that tells repositories apart. */
  repoColumn: boolean;
  /** Thread of the caller's context. */
  current: string | null;
}

export const NO_THREADS = "no threads — kk new starts one";

/** A name longer than this is cut in the table; `--json` has it whole. */
const MAX_NAME_COLUMNS = 32;
const GAP = "  ";

interface Cell {
  text: string;
  colour?: Colour;
}

/** Rows joined by newlines, without a trailing one. */
export function renderLs(threads: readonly LsThread[], options: LsOptions): string {
  if (threads.length === 0) return NO_THREADS;
  const repoNames = options.repoColumn ? shortRepoNames(threads) : null;
  const rows = threads.map((thread) => cellsOf(thread, options, repoNames));
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, displayWidth(cell.text));
    });
  }
  return rows.map((row) => layOut(row, widths, options)).join("\n");
}

function cellsOf(
  thread: LsThread,
  options: LsOptions,
  repoNames: ReadonlyMap<string, string> | null,
): Cell[] {
  const current = thread.threadId === options.current;
  const state = stateSign(thread.lifecycle, thread.agent);
  const cascade = CASCADE_SIGNS[thread.cascade];
  const cells: Cell[] = [
    { text: current ? CURRENT : " ", colour: "accent" },
    { text: state.glyph, colour: state.colour },
    { text: cascade.glyph, colour: cascade.colour },
  ];
  if (repoNames !== null) cells.push({ text: repoNames.get(thread.repoId) ?? "" });
  cells.push(
    { text: truncate(printable(thread.name), MAX_NAME_COLUMNS) },
    {
      text: thread.followsName === null ? "" : `${FOLLOWS} ${clip(thread.followsName)}`,
      colour: "dim",
    },
    labelsOf(thread, state, cascade),
    { text: bookmarkOf(thread), colour: "dim" },
    { text: descriptionOf(thread) },
  );
  return cells;
}

/** Words for every state a glyph must not carry alone; the literal lifecycle on every row that is not Active. */
function labelsOf(thread: LsThread, state: Sign, cascade: Sign): Cell {
  const diverged = thread.checkpoint === "diverged";
  const labels = [
    thread.lifecycle === "Active" ? state.label : thread.lifecycle,
    cascade.label,
    diverged ? "bookmark diverged" : "",
  ].filter((label) => label !== "");
  return {
    text: labels.join(", "),
    colour: diverged || cascade.label !== "" ? "red" : state.colour,
  };
}

function bookmarkOf(thread: LsThread): string {
  if (thread.bookmark === null) return "";
  return clip(thread.bookmark) + (thread.checkpoint === "behind" ? CHECKPOINT_BEHIND : "");
}

function descriptionOf(thread: LsThread): string {
  const text = printable(thread.description).trim();
  return text === "" ? "" : `"${text}"`;
}

function clip(name: string): string {
  return truncate(printable(name), MAX_NAME_COLUMNS);
}

/** Pads every cell but the last, drops columns that are empty in all rows, and cuts at the terminal's edge. */
function layOut(row: readonly Cell[], widths: readonly number[], options: LsOptions): string {
  let room = options.columns ?? Number.POSITIVE_INFINITY;
  const parts: string[] = [];
  const shown = row.filter((_, i) => (widths[i] ?? 0) > 0);
  const shownWidths = widths.filter((w) => w > 0);
  shown.forEach((cell, i) => {
    const gap = i === 0 ? "" : i <= 2 ? " " : GAP;
    const space = room - gap.length;
    if (space <= 0) return;
    const width = i === shown.length - 1 ? 0 : (shownWidths[i] ?? 0);
    const fits = Math.max(width, displayWidth(cell.text)) <= space;
    const text = fits ? padEnd(cell.text, width) : truncate(cell.text, space);
    parts.push(
      gap + paint(text, cell.colour ?? "dim", options.colour && cell.colour !== undefined),
    );
    // The first column that does not fit is the last one shown.
    room = fits ? space - displayWidth(text) : 0;
  });
  return parts.join("").trimEnd();
}

/** Last path component, with as many more as tell two repositories apart. */
function shortRepoNames(threads: readonly LsThread[]): Map<string, string> {
  const paths = new Map(threads.map((t) => [t.repoId, t.repoPath]));
  const names = new Map<string, string>();
  for (const [id, path] of paths) {
    const parts = path.split("/").filter((p) => p !== "");
    let take = 1;
    const tail = (p: string, n: number): string => p.split("/").slice(-n).join("/");
    const clashes = (n: number): boolean =>
      [...paths].some(([otherId, other]) => otherId !== id && tail(other, n) === tail(path, n));
    while (take < parts.length && clashes(take)) take += 1;
    names.set(id, printable(tail(path, take)));
  }
  return names;
}
