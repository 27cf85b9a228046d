/**
 * Audit rows as text, oldest first. On a terminal a request takes as many lines as it needs, so that nothing is lost on a
 * narrow one; elsewhere each is one line with its whole time, for grep. Pure.
 */
import type { AuditRecord } from "../audit.ts";
import { paint } from "./glyphs.ts";
import { displayWidth, padEnd, printable, truncate } from "./width.ts";

export interface AuditOptions {
  /** A time of a row on the person's own clock: `2026-12-01`, `09:30:00`. */
  local(iso: string): { day: string; time: string };
  /** Terminal width; null when the output is no terminal: then nothing is cut or wrapped. */
  columns: number | null;
  colour: boolean;
  /** Names of threads by id, as far as they are known. */
  names: ReadonlyMap<string, string>;
  /** Say which thread a request was about; off where all are about one. */
  threads: boolean;
  /** Paths of repositories by id where rows of several are shown; null where the repository goes without saying. */
  repos: ReadonlyMap<string, string> | null;
  /** Older rows were left out. */
  more: boolean;
  /** The request was for some rows only. */
  filtered: boolean;
}

const ACCEPTED = "✓";
const REJECTED = "!";
const GAP = "  ";
/** Where what does not fit beside the method goes on: below the method. */
const INDENT = " ".repeat("00:00:00 ! ".length);
const NARROW_INDENT = "  ";
const MAX_SUBJECT_COLUMNS = 32;
const MAX_VALUE_COLUMNS = 60;
const ID_COLUMNS = 8;
/** Below this the indent of the method's column would leave nothing to read. */
const NARROW_COLUMNS = 40;

/** Lines joined by newlines, without a trailing one. */
export function renderAudit(rows: readonly AuditRecord[], options: AuditOptions): string {
  if (rows.length === 0) {
    return options.filtered ? "no recorded request matches" : "no requests are recorded";
  }
  const lines: string[] = [];
  const widths = {
    method: Math.max(...rows.map((row) => displayWidth(printable(row.method)))),
    subject: Math.max(...rows.map((row) => displayWidth(subjectOf(row, options)))),
  };
  if (options.more) {
    const text = "older requests are left out: --limit shows more";
    lines.push(paint(truncate(text, options.columns ?? text.length), "dim", options.colour));
  }
  let day = "";
  for (const row of rows) {
    const at = options.local(row.at);
    if (options.columns !== null && at.day !== day) lines.push(truncate(at.day, options.columns));
    day = at.day;
    lines.push(...linesOf(row, at.time, widths, options));
  }
  return lines.join("\n");
}

function linesOf(
  row: AuditRecord,
  time: string,
  widths: { method: number; subject: number },
  options: AuditOptions,
): string[] {
  const rejected = row.outcome === "rejected";
  const sign = rejected ? REJECTED : ACCEPTED;
  const head = `${options.columns === null ? row.at : time} ${sign} `;
  const subject = subjectOf(row, options);
  const parts = [
    padEnd(printable(row.method), widths.method),
    ...(widths.subject === 0 ? [] : [padEnd(subject, widths.subject)]),
    ...(row.errorCode === null ? [] : [printable(row.errorCode)]),
    callerOf(row),
    ...(row.approval === null ? [] : [`approval ${idOf(row.approval)}`]),
    ...detailOf(row, options),
  ];
  const packed = pack(head, parts, options.columns);
  return packed.map((line) => paint(line, "red", options.colour && rejected));
}

/** Parts after `head`, as many on a line as have room; one that is alone too wide is cut. */
function pack(head: string, parts: readonly string[], columns: number | null): string[] {
  const room = columns ?? Number.POSITIVE_INFINITY;
  const indent = room < NARROW_COLUMNS ? NARROW_INDENT : INDENT;
  const lines: string[] = [];
  let line = head;
  let empty = true;
  for (const part of parts) {
    // Padding is for the eye: it never makes a line too long by itself.
    const text = part.trimEnd();
    if (!empty && displayWidth(line + GAP + text) > room) {
      lines.push(line.trimEnd());
      line = indent;
      empty = true;
    }
    if (text === "" && empty) continue;
    line += (empty ? "" : GAP) + (displayWidth(line + part) + GAP.length > room ? text : part);
    empty = false;
  }
  lines.push(line.trimEnd());
  return columns === null ? lines : lines.map((each) => truncate(each, columns));
}

/** What it was about: the repository where there are several, and the thread. */
function subjectOf(row: AuditRecord, options: AuditOptions): string {
  const repo = row.repoId === null ? null : (options.repos?.get(row.repoId) ?? null);
  const about = options.threads ? aboutOf(row, options) : "";
  const place = repo === null ? [] : [repo.split("/").findLast((part) => part !== "") ?? repo];
  const text = printable([...place, ...(about === "" ? [] : [about])].join(" "));
  return options.columns === null ? text : truncate(text, MAX_SUBJECT_COLUMNS);
}

function aboutOf(row: AuditRecord, { names, columns }: AuditOptions): string {
  const { threadId, target, repoId } = row;
  const name = threadId === null ? undefined : names.get(threadId);
  // The repository as a whole: said by the log it is in, or by its name before this.
  if (threadId === null && repoId !== null && target === `repo ${repoId}`) return "";
  const text = name ?? target ?? (threadId === null ? "" : idOf(threadId));
  return columns === null ? text : shortIds(text);
}

function callerOf(row: AuditRecord): string {
  const who = row.callerKind ?? "unidentified";
  const which = row.credentialId === null ? row.fingerprint : idOf(row.credentialId);
  return which === null ? who : `${who} ${printable(which)}`;
}

function detailOf(row: AuditRecord, { columns }: AuditOptions): string[] {
  return Object.entries(row.detail).flatMap(([key, value]) => {
    if (value === null || value === undefined) return [];
    const text = printable(typeof value === "string" ? value : JSON.stringify(value));
    const shown = columns === null ? text : truncate(shortIds(text), MAX_VALUE_COLUMNS);
    return [`${printable(key)}=${shown}`];
  });
}

/** Ids and digests in a text, each cut to its first characters. */
function shortIds(text: string): string {
  return text.replace(/\b(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/g, (id) =>
    id.slice(0, ID_COLUMNS),
  );
}

/** The first characters of an id; `--json` has it whole. */
function idOf(id: string): string {
  return printable(id).slice(0, ID_COLUMNS);
}
