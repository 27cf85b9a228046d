/** `kk ls` as text: one row per thread, no row wider than the terminal. Pure; the CLI prints what it returns. */
import type { CascadeStatus } from "../intent.ts";
import type { AgentDisplayState, Lifecycle } from "../lifecycle.ts";
import {
  AGENT_SIGNS,
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
/** What is left of a column that does not fit must be worth reading; else the column is left out. */
const MIN_CUT_COLUMNS = 8;
const MIN_NAME_COLUMNS = 4;
const GAP = "  ";

/** In the order they are shown. */
const COLUMNS = [
  "mark",
  "state",
  "cascade",
  "repo",
  "name",
  "follows",
  "labels",
  "bookmark",
  "description",
] as const;
type Column = (typeof COLUMNS)[number];
type Widths = Record<Column, number>;

/** Left out first to last when the terminal is narrow. The rest says which thread and in what state: never left out. */
const OPTIONAL = ["follows", "bookmark", "description"] as const satisfies readonly Column[];

interface Cell {
  text: string;
  colour?: Colour;
}
type Row = Record<Column, Cell>;

/** Rows joined by newlines, without a trailing one. */
export function renderLs(threads: readonly LsThread[], options: LsOptions): string {
  if (threads.length === 0) return NO_THREADS;
  const repoNames = options.repoColumn ? shortRepoNames(threads) : null;
  const rows = threads.map((thread) => cellsOf(thread, options, repoNames));
  const widths = fitted(naturalWidths(rows), options.columns ?? Number.POSITIVE_INFINITY);
  return rows.map((row) => layOut(row, widths, options)).join("\n");
}

function cellsOf(
  thread: LsThread,
  options: LsOptions,
  repoNames: ReadonlyMap<string, string> | null,
): Row {
  const current = thread.threadId === options.current;
  const state = stateSign(thread.lifecycle, thread.agent);
  const cascade = CASCADE_SIGNS[thread.cascade];
  return {
    mark: { text: current ? CURRENT : " ", colour: "accent" },
    state: { text: state.glyph, colour: state.colour },
    cascade: { text: cascade.glyph, colour: cascade.colour },
    repo: { text: repoNames?.get(thread.repoId) ?? "" },
    name: { text: clip(thread.name) },
    follows: {
      text: thread.followsName === null ? "" : `${FOLLOWS} ${clip(thread.followsName)}`,
      colour: "dim",
    },
    labels: labelsOf(thread, state, cascade),
    bookmark: { text: bookmarkOf(thread), colour: "dim" },
    description: { text: descriptionOf(thread) },
  };
}

/** Words for every state a glyph must not carry alone; the literal lifecycle on every row that is not Active. */
function labelsOf(thread: LsThread, state: Sign, cascade: Sign): Cell {
  const diverged = thread.checkpoint === "diverged";
  // The lifecycle's sign takes the agent's place; that the agent waits for a person must show all the same.
  const waits = thread.lifecycle === "Creating" && thread.agent === "blocked";
  const labels = [
    thread.lifecycle === "Active" ? state.label : thread.lifecycle,
    waits ? AGENT_SIGNS.blocked.label : "",
    cascade.label,
    diverged ? "bookmark diverged" : "",
  ].filter((label) => label !== "");
  return {
    text: labels.join(", "),
    colour: diverged || waits || cascade.label !== "" ? "red" : state.colour,
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

function naturalWidths(rows: readonly Row[]): Widths {
  const widest = (column: Column): number =>
    Math.max(...rows.map((row) => displayWidth(row[column].text)));
  return Object.fromEntries(COLUMNS.map((column) => [column, widest(column)])) as Widths;
}

/** Columns that are empty everywhere take no room, not even a gap: width 0 leaves a column out. */
function fitted(natural: Widths, columns: number): Widths {
  const widths = { ...natural };
  for (const column of OPTIONAL) widths[column] = 0;
  const nameRoom = widths.name - (tableWidth(widths) - columns);
  if (nameRoom < widths.name && nameRoom >= MIN_NAME_COLUMNS) widths.name = nameRoom;
  for (const column of OPTIONAL) {
    if (natural[column] === 0) continue;
    const room = columns - tableWidth(widths) - GAP.length;
    if (room < Math.min(natural[column], MIN_CUT_COLUMNS)) break;
    widths[column] = Math.min(natural[column], room);
    // What is cut is the last thing that has room.
    if (natural[column] > room) break;
  }
  return widths;
}

function gapBefore(column: Column): string {
  return column === "mark" ? "" : column === "state" || column === "cascade" ? " " : GAP;
}

function tableWidth(widths: Widths): number {
  const shown = COLUMNS.filter((column) => widths[column] > 0);
  return shown.reduce((sum, column) => sum + gapBefore(column).length + widths[column], 0);
}

/** Pads every cell but the last; a terminal too narrow even for state and name cuts the row at its edge. */
function layOut(row: Row, widths: Widths, options: LsOptions): string {
  let room = options.columns ?? Number.POSITIVE_INFINITY;
  const parts: string[] = [];
  for (const column of COLUMNS.filter((name) => widths[name] > 0)) {
    const gap = gapBefore(column);
    const width = Math.min(widths[column], room - gap.length);
    if (width <= 0) break;
    const { text, colour } = row[column];
    const shown = padEnd(truncate(text, width), width);
    parts.push(gap + paint(shown, colour ?? "dim", options.colour && colour !== undefined));
    room -= gap.length + width;
  }
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
