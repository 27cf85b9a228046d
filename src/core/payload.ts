/**
 * The text an agent gets as the result of a blocked call. Composed once, stored, re-emitted byte for byte: plain text
 * for a model, neither beginning nor ending with white space, at most 16 KiB of UTF-8.
 */
import { KIKI_HEADER } from "./generic-deny.ts";
import { short, type CommitId } from "./ids.ts";
import type { RecoveryChoice } from "./recovery.ts";

export const MAX_PAYLOAD_BYTES = 16 * 1024;

export interface PayloadFacts {
  threadName: string;
  parentName: string;
  oldBase: CommitId;
  newBase: CommitId;
  /** Operations that moved the parent since the child last stood on it; default 1. */
  moves?: number;
  /** Of those, later work that this reconciliation settles as well; default none. */
  coversLater?: number;
  /** First lines of the parent's revisions that are new to the child, oldest first. */
  newRevisions: readonly { commit: CommitId; description: string }[];
  /** What kiki did to the files. */
  action: "materialised" | "rebased" | "already-in-place" | "adopted";
  /** The child had edits jj had not recorded yet; they were recorded first and are part of the result. */
  adoptedEdits: boolean;
  resultCommit: CommitId;
  /** Paths whose content changed in the child's base. */
  changed: readonly { status: string; path: string }[];
  diffStat: string;
  diff: string;
  conflicts: readonly string[];
  /** Edits that lay on files jj had left behind, and what else was kept of them. */
  recovered: readonly RecoveryChoice[];
  /** git ref under which the agent's own commits are kept. */
  pinnedRef: string;
}

/** Of a program's one argument Linux takes 128 KiB; whatever an agent is started with stays well below. */
export const MAX_INPUT_BYTES = 100_000;
/** What `startupPrompt` puts around payload and typed words, generously. */
export const STARTUP_FRAME_BYTES = 1_000;
/** With the first prompt, which may be as long by itself. */
const MAX_ANEW_BYTES = 120_000;

/**
 * The first input of an agent that is started in order to be told: the saved payload byte for byte, what a restart
 * means for the work, the id by which the harness's own report of the prompt is recognised, and then, as it was, what
 * the person had typed meanwhile. `begunWith`: its conversation cannot be taken up, and had begun with this; left out
 * where there is no room for it.
 */
export function startupPrompt(
  payload: string,
  mark: string,
  typed: readonly string[],
  begunWith: string | null = null,
): string {
  const head = [
    payload,
    "kiki has restarted you so that you are told this for certain. Nothing that was interrupted has been run again. " +
      "Re-read the affected files, then go on with what you were doing.",
    mark,
  ];
  const anew = begunWith === null ? [] : [ANEW, begunWith];
  const tail = typed.length > 0 ? [`Typed meanwhile by the person you work for:`, ...typed] : [];
  const whole = [...head, ...anew, ...tail].join("\n\n");
  return bytes(whole) <= MAX_ANEW_BYTES ? whole : [...head, ...tail].join("\n\n");
}

/** What a person had typed to an agent that kiki ended, for one that is started without anything to be told. */
export function plainPrompt(typed: readonly string[]): string | null {
  if (typed.length === 0) return null;
  return [
    `${KIKI_HEADER} kiki has restarted you. Nothing that was interrupted has been run again, and files may have changed.`,
    "Typed meanwhile by the person you work for:",
    ...typed,
  ].join("\n\n");
}

/** First input of a conversation that takes the place of one that cannot be taken up. `words`: what is to be said besides. */
export function anewPrompt(begunWith: string | null, words: string | null): string | null {
  if (begunWith === null) return words;
  const text = `${KIKI_HEADER} ${ANEW}\n\n${begunWith}`;
  if (words === null) return text;
  const both = `${text}\n\n${words}`;
  return bytes(both) <= MAX_ANEW_BYTES ? both : words;
}

const ANEW =
  "Your earlier conversation could not be taken up again. See in the files and revisions what is done of the " +
  "request it had begun with:";
const CLOSING = "(end of message from kiki)";
/** One line of a list; longer ones are cut, so that no single name can push out everything else. */
const MAX_LINE_BYTES = 512;
/** A path may be this long (PATH_MAX), and has to be whole to be of use. */
const PATH_BYTES = 4_096;
/** Of each list. Together with the lines that are always there they leave room for some of the diff. */
const LIST_BYTES = { revisions: 2_400, conflicts: 3_200, changed: 3_200 };
/** One is usual; of more in one piece of work the newest, whose copies have what the ones before had. */
const MAX_RECOVERIES = 2;
/** A summary or diff that has less room than this says nothing worth reading. */
const MIN_PART_BYTES = 200;

export function composePayload(f: PayloadFacts): string {
  const out = new Bounded(MAX_PAYLOAD_BYTES - bytes(`\n\n${CLOSING}`));
  out.always([
    f.conflicts.length === 0
      ? `${KIKI_HEADER} The thread this one follows has moved, and the files here are now up to date with it.`
      : `${KIKI_HEADER} The thread this one follows has moved, and your own work now conflicts with it.`,
    "",
    "This tool call did not run, and no other call of the same batch ran. Files under you may have changed:",
    "re-read every affected file before you continue, then repeat what is still needed.",
    "",
    `Thread:   ${oneLine(f.threadName)}`,
    `Parent:   ${oneLine(f.parentName)}`,
    `Old base: ${short(f.oldBase)}`,
    `New base: ${short(f.newBase)}`,
    ...coverage(f),
  ]);
  const named = (c: { commit: CommitId; description: string }): string =>
    `${short(c.commit)} ${c.description === "" ? "(no description)" : c.description}`;
  out.list(
    `New in ${oneLine(f.parentName)}:`,
    f.newRevisions.map(named),
    "revisions",
    LIST_BYTES.revisions,
  );
  out.always([
    "",
    `What kiki did: ${actionText(f)}`,
    `Your working copy is now ${short(f.resultCommit)}.`,
  ]);
  for (const kept of f.recovered.slice(-MAX_RECOVERIES)) {
    out.always(recoveredText(kept, f.pinnedRef));
  }
  out.list(
    "Conflicts, marked in the files; resolve them as part of your work:",
    f.conflicts,
    "conflicted files",
    LIST_BYTES.conflicts,
  );
  if (f.changed.length === 0)
    out.always(["", "No file content changed, only revision descriptions or positions."]);
  out.list(
    "Files that changed:",
    f.changed.map((c) => `${c.status} ${c.path}`),
    "changed files",
    LIST_BYTES.changed,
  );
  out.part("", f.diffStat, "of this summary");
  out.part("What changed in your base:\n", f.diff, "of the diff; read the files for the rest");
  return `${out.text}\n\n${CLOSING}`;
}

/** The same for programs: all facts without the diff's text, which is jj's to show again. */
export function payloadTwin(f: PayloadFacts): Record<string, unknown> {
  const { diff: _diff, ...facts } = f;
  return {
    header: KIKI_HEADER,
    ...facts,
    moves: f.moves ?? 1,
    coversLater: f.coversLater ?? 0,
  };
}

function coverage(f: PayloadFacts): string[] {
  const moves = f.moves ?? 1;
  if (moves < 2) return [];
  const later = f.coversLater ?? 0;
  const when = later === 0 ? "" : `, ${later} of them while kiki was already at work`;
  return [`Covers:   ${moves} moves of the parent${when}; this message is about all of them`];
}

function recoveredText(kept: RecoveryChoice, pinnedRef: string): string[] {
  const lines = [
    "",
    "You had edits that jj had not recorded when your parent moved. They are in your files, on the new base.",
  ];
  if (kept.edits !== null) lines.push(`  as they were, in jj revision ${short(kept.edits)}`);
  if (kept.pinnedHead !== null)
    lines.push(
      `  your git commits, as git commit ${short(kept.pinnedHead)} (${oneLine(pinnedRef)})`,
    );
  return [...lines, `  copies of the files, in ${oneLine(kept.bundle, PATH_BYTES)}`];
}

function actionText(f: PayloadFacts): string {
  const first = f.adoptedEdits ? "recorded your unrecorded edits, " : "";
  switch (f.action) {
    case "materialised":
      return `${first}brought your files to the revision jj had already rebased.`;
    case "rebased":
      return `${first}rebased your revisions onto the new base and updated your files.`;
    case "already-in-place":
      return "nothing; the files were already in place.";
    case "adopted":
      return "brought your files to the new base and put the edits back that jj had not recorded yet.";
  }
}

const encoder = new TextEncoder();
const bytes = (text: string): number => encoder.encode(text).length;

/** Text that never grows beyond its limit; what is left out is said where it would have stood. */
class Bounded {
  readonly #limit: number;
  text = "";

  constructor(limit: number) {
    this.#limit = limit;
  }

  get #room(): number {
    return this.#limit - bytes(this.text);
  }

  /** Lines whose length is bounded by what they are made of. */
  always(lines: readonly string[]): void {
    this.text += (this.text === "" ? "" : "\n") + lines.join("\n");
  }

  /** A heading and indented items, whole lines only. */
  list(heading: string, items: readonly string[], what: string, most: number): void {
    if (items.length === 0) return;
    const note = (left: number): string => `\n  … and ${left} more ${what}, not listed here`;
    const room = Math.min(most, this.#room) - bytes(note(items.length));
    let added = `\n\n${heading}`;
    let kept = 0;
    for (const item of items) {
      const line = `\n  ${oneLine(item)}`;
      if (bytes(added) + bytes(line) > room) break;
      added += line;
      kept += 1;
    }
    this.text += kept === items.length ? added : added + note(items.length - kept);
  }

  /** Text of many lines; begins with a heading of its own. */
  part(heading: string, body: string, what: string): void {
    if (body.trim() === "") return;
    const lines = printable(body).trimEnd().split("\n");
    const note = (left: number): string => `\n… (cut here to fit: ${left} more lines ${what})`;
    const room = this.#room - bytes(note(lines.length));
    if (room < MIN_PART_BYTES) return;
    let used = bytes(`\n\n${heading}`) - 1;
    let kept = 0;
    for (const line of lines) {
      used += bytes(line) + 1;
      if (used > room) break;
      kept += 1;
    }
    const rest = kept === lines.length ? "" : note(lines.length - kept);
    this.text += `\n\n${heading}${lines.slice(0, kept).join("\n")}${rest}`;
  }
}

/** A name or path as one line of bounded length. */
function oneLine(text: string, most = MAX_LINE_BYTES): string {
  const line = printable(text).replaceAll("\n", "␊").replaceAll("\t", "␉");
  if (bytes(line) <= most) return line;
  let kept = "";
  let used = bytes("…");
  for (const character of line) {
    used += bytes(character);
    if (used > most) break;
    kept += character;
  }
  return `${kept}…`;
}

/**
 * Control characters become their pictures: a harness may drop or change them on the way, and a receipt must show the
 * very bytes that were stored. Half a surrogate pair has no bytes of its own.
 */
function printable(text: string): string {
  return text.toWellFormed().replace(/[\p{Cc}\p{Zl}\p{Zp}\u{feff}]/gu, (character) => {
    if (character === "\n" || character === "\t") return character;
    const code = character.codePointAt(0)!;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : "\u{fffd}";
  });
}
