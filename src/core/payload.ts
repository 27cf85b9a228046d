/**
 * The text an agent gets as the result of a blocked call. Composed once, stored, re-emitted byte for byte: plain text
 * for a model, neither beginning nor ending with white space, at most 16 KiB of UTF-8.
 */
import { KIKI_HEADER } from "./generic-deny.ts";
import { short, type CommitId } from "./ids.ts";

export const MAX_PAYLOAD_BYTES = 16 * 1024;

export interface PayloadFacts {
  threadName: string;
  parentName: string;
  oldBase: CommitId;
  newBase: CommitId;
  /** First lines of the parent's revisions that are new to the child, oldest first. */
  newRevisions: readonly { commit: CommitId; description: string }[];
  /** What kiki did to the files. */
  action: "materialised" | "rebased" | "already-in-place";
  /** The child had edits jj had not recorded yet; they were recorded first and are part of the result. */
  adoptedEdits: boolean;
  resultCommit: CommitId;
  /** Paths whose content changed in the child's base. */
  changed: readonly { status: string; path: string }[];
  diffStat: string;
  diff: string;
  conflicts: readonly string[];
}

export function composePayload(f: PayloadFacts): string {
  const lines: string[] = [];
  const push = (...more: string[]): void => void lines.push(...more);
  push(
    `${KIKI_HEADER} The thread this one follows has moved, and the files here are now up to date with it.`,
    "",
    "This tool call did not run, and no other call of the same batch ran. Files under you may have changed:",
    "re-read every affected file before you continue, then repeat what is still needed.",
    "",
    `Thread:   ${f.threadName}`,
    `Parent:   ${f.parentName}`,
    `Old base: ${short(f.oldBase)}`,
    `New base: ${short(f.newBase)}`,
  );
  if (f.newRevisions.length > 0) {
    push("", `New in ${f.parentName}:`);
    for (const r of f.newRevisions)
      push(`  ${short(r.commit)} ${r.description === "" ? "(no description)" : r.description}`);
  }
  push("", `What kiki did: ${actionText(f)}`, `Your working copy is now ${short(f.resultCommit)}.`);
  if (f.conflicts.length > 0) {
    push("", "Conflicts, marked in the files; resolve them as part of your work:");
    for (const path of f.conflicts) push(`  ${path}`);
  }
  if (f.changed.length > 0) {
    push("", "Files that changed:");
    for (const c of f.changed) push(`  ${c.status} ${c.path}`);
  } else {
    push("", "No file content changed, only revision descriptions or positions.");
  }
  const head = lines.join("\n");
  const stat = f.diffStat.trim() === "" ? "" : `\n\n${f.diffStat.trimEnd()}`;
  const closing = "\n\n(end of message from kiki)";
  return fit(
    head,
    stat,
    f.diff.trim() === "" ? "" : `\n\nWhat changed in your base:\n${f.diff.trimEnd()}`,
    closing,
  );
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
  }
}

const encoder = new TextEncoder();
const bytes = (text: string): number => encoder.encode(text).length;

/** Head always, then stat, then diff: what does not fit is cut at a line and said to be cut. */
function fit(head: string, stat: string, diff: string, closing: string): string {
  const cutNote = "\n… (cut to fit; read the files for the rest)";
  let out = cutLines(head, MAX_PAYLOAD_BYTES - bytes(closing) - bytes(cutNote), cutNote);
  for (const part of [stat, diff]) {
    const room = MAX_PAYLOAD_BYTES - bytes(out) - bytes(closing) - bytes(cutNote);
    if (part === "" || room < 200) continue;
    out += cutLines(part, room, cutNote);
  }
  return (out + closing).trim();
}

function cutLines(text: string, room: number, note: string): string {
  if (bytes(text) <= room) return text;
  const kept: string[] = [];
  let used = 0;
  for (const line of text.split("\n")) {
    used += bytes(line) + 1;
    if (used > room) break;
    kept.push(line);
  }
  return kept.join("\n") + note;
}
