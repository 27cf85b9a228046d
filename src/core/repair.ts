/**
 * What `kk repair` speaks of: what is recorded, what was seen, and named plans that change exactly what they say. A
 * plan's id is a hash of the plan and of everything it was derived from, so an id is stale as soon as any of it changes.
 */
import { canonicalJson } from "./canonical.ts";
import type { CommitId, ThreadId } from "./ids.ts";
import { short } from "./ids.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** One line of a diagnosis. */
export interface RepairFact {
  /** `bookmark`, `tmux session`, … */
  name: string;
  value: string;
  /** Whether it is as it should be; null where nobody could tell, or nothing is demanded. */
  ok: boolean | null;
}

export interface RepairProposal {
  /** Stable word for the choice, for example `creation-retry`. */
  kind: string;
  title: string;
  /** Everything it does, one line each, in order. */
  changes: string[];
}

export interface Examination {
  /** What kiki's database says; it is the authority. */
  authority: RepairFact[];
  observed: RepairFact[];
  /** Why something is as it is, or why a repair is not offered. */
  notes: string[];
  proposals: RepairProposal[];
  needsRepair: boolean;
}

const ID_CHARS = 12;

/** `sha256Hex` is handed in: core computes no hashes itself. */
export function repairId(
  threadId: ThreadId,
  seen: Examination,
  proposal: RepairProposal,
  sha256Hex: (text: string) => string,
): string {
  const { authority, observed, notes } = seen;
  return sha256Hex(canonicalJson(["repair", threadId, authority, observed, notes, proposal])).slice(
    0,
    ID_CHARS,
  );
}

// ---- a creation that failed ---------------------------------------------------------------------------------

/** What is under a failed thread's names now. */
export interface FailedCreation {
  lifecycle: Lifecycle;
  error: string;
  names: { workspaceName: string; workspacePath: string; bookmark: string; tmuxSession: string };
  /** Steps whose undoing did not come to its end, last one first. */
  leftovers: readonly string[];
  record: CommitId | null;
  folder: "absent" | "empty-folder" | "folder" | "other";
  bookmark: readonly CommitId[];
  /** `foreign`: a session of that name that is not this thread's. */
  session: "none" | "own" | "foreign" | { unknown: string };
  credential: { row: boolean; file: boolean };
  /** Processes of its agent and of its set-up recipe. */
  processes: readonly number[];
  /** Where a retry would start, or why there is none. */
  base: { commit: CommitId; description: string; why: string } | { problem: string };
}

/** Pure: the same facts give the same plans, and with them the same ids. */
export function examineFailedCreation(f: FailedCreation): Examination {
  const notes: string[] = [];
  const blocked = "problem" in f.base ? f.base.problem : standsInTheWay(f);
  if (blocked !== null) notes.push(`it cannot be made once more: ${blocked}`);
  const undo = f.leftovers.length === 0 ? [] : [`undo what is left: ${f.leftovers.join(", ")}`];
  const stays = staysBehind(f);
  const proposals: RepairProposal[] = [];
  if (blocked === null && !("problem" in f.base)) {
    proposals.push({
      kind: "creation-retry",
      title: "make it once more, under the same id and name",
      changes: [...undo, ...retryChanges(f, f.base)],
    });
  }
  proposals.push({
    kind: "creation-cleanup",
    title: "give it up: the row stays as a tombstone, its names are free again",
    changes: [...undo, "forget its credential, its generated files and its set-up log", ...stays],
  });
  return {
    authority: [
      { name: "lifecycle", value: f.lifecycle, ok: false },
      { name: "failed because", value: f.error, ok: null },
      {
        name: "left to undo",
        value: f.leftovers.length === 0 ? "nothing" : f.leftovers.join(", "),
        ok: f.leftovers.length === 0,
      },
    ],
    observed: observedFacts(f),
    notes,
    proposals,
    needsRepair: true,
  };
}

function retryChanges(
  f: FailedCreation,
  base: { commit: CommitId; description: string; why: string },
): string[] {
  const described = base.description.split("\n")[0] ?? "";
  return [
    `workspace ${f.names.workspaceName} at ${f.names.workspacePath}`,
    `one empty change on ${short(base.commit)}${described === "" ? "" : ` "${described}"`}, ${base.why}`,
    `bookmark ${f.names.bookmark} on that change`,
    `tmux session ${f.names.tmuxSession} with a new agent and the same prompt`,
  ];
}

/** Something that is not this thread's, or that a person wrote, is under one of its names. */
function standsInTheWay(f: FailedCreation): string | null {
  const undone = f.leftovers.length === 0;
  if (f.folder !== "absent" && undone) {
    return `${f.names.workspacePath} is there and not kiki's alone; move it away first`;
  }
  if (f.record !== null && undone) {
    return `jj has a workspace ${f.names.workspaceName} that is not this thread's`;
  }
  if (f.bookmark.length > 0 && undone) {
    return `jj has a bookmark ${f.names.bookmark} that is not this thread's`;
  }
  if (f.session === "foreign") {
    return `tmux has a session ${f.names.tmuxSession} that is not this thread's`;
  }
  if (typeof f.session === "object") {
    return `tmux does not say which sessions there are (${f.session.unknown})`;
  }
  return null;
}

function staysBehind(f: FailedCreation): string[] {
  if (f.leftovers.length > 0) {
    return ["a folder that holds anything but what jj put there stays, and so does its commit"];
  }
  const stays: string[] = [];
  if (f.folder !== "absent") stays.push(`${f.names.workspacePath} stays: it is not kiki's alone`);
  if (f.record !== null) stays.push(`jj workspace ${f.names.workspaceName} stays`);
  if (f.bookmark.length > 0) stays.push(`bookmark ${f.names.bookmark} stays`);
  if (f.session === "foreign") stays.push(`tmux session ${f.names.tmuxSession} stays`);
  return stays;
}

function observedFacts(f: FailedCreation): RepairFact[] {
  const none = "none";
  const session =
    typeof f.session === "object" ? `unknown: ${f.session.unknown}` : sessionText(f.session);
  const credential = [f.credential.row ? "valid" : "", f.credential.file ? "file" : ""]
    .filter((part) => part !== "")
    .join(", ");
  return [
    fact("jj workspace", f.record === null ? none : `at ${short(f.record)}`, f.record === null),
    fact("folder", FOLDERS[f.folder], f.folder === "absent"),
    fact(
      "bookmark",
      f.bookmark.length === 0 ? none : `on ${f.bookmark.map((c) => short(c)).join(" and ")}`,
      f.bookmark.length === 0,
    ),
    fact("tmux session", session, typeof f.session === "object" ? null : f.session === "none"),
    fact("credential", credential === "" ? none : credential, credential === ""),
    fact(
      "processes",
      f.processes.length === 0 ? none : f.processes.join(", "),
      f.processes.length === 0,
    ),
  ];
}

const FOLDERS = {
  absent: "none",
  "empty-folder": "there, empty",
  folder: "there, with files in it",
  other: "something that is no folder",
};

function sessionText(session: "none" | "own" | "foreign"): string {
  return session === "own" ? "there" : session === "foreign" ? "one that is not kiki's" : "none";
}

function fact(name: string, value: string, ok: boolean | null): RepairFact {
  return { name, value, ok };
}
