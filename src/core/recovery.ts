/**
 * Unsnapshotted-edit recovery, decided (cascade chapter). Edits lie on files of an operation that jj has left behind.
 * jj's own stale recovery records them there and merges: the change is then visible twice, as the copy with the edits
 * and as the clean one whose files are on disk. One provable choice is adopted; everything else is for a person.
 *
 * Every step is derived from what is seen now, so a restart asks the same question again.
 */
import type { CommitId } from "./ids.ts";
import type { ProbeState } from "./intent.ts";

/** Part of the intent's plan. */
export interface RecoveryProgress {
  /** kiki may still bring it to its end by itself. */
  open: boolean;
  /** Why it needs a person; null while it is open. */
  refused: string | null;
  /** Number of the newest bundle, and the probe it was made of. */
  bundle: number;
  fingerprint: string;
  /** The agent's own git HEAD, kept under `refs/kiki/<intent>`. */
  pinnedHead: CommitId | null;
  /** Hard links of what a command may replace, until they are verified. */
  links: { folder: string; entries: { path: string; sha256: string }[] } | null;
  /** Files that a command of kiki's had left half-written were put back. */
  mended?: boolean;
}

/** What recovery chose; recorded on the intent, and told to the agent. */
export interface RecoveryChoice {
  by: "kiki" | "person";
  /** The revision whose files are visible. */
  adopted: CommitId;
  /** jj's record of the edits byte for byte, before it was moved; null when they were visible already. */
  edits: CommitId | null;
  pinnedHead: CommitId | null;
  bundle: string;
  /** There were none: a command of kiki's had been ended in the middle, or the files could not be looked at for a while. */
  noEdits?: boolean;
}

export interface RecoveryCopy {
  commit: CommitId;
  /** `edits`: jj's record of the edits, moved and nothing else. `clean`: what was there before them, likewise. */
  kind: "edits" | "clean" | "other";
  immutable: boolean;
}

export interface RecoveryFacts {
  probe: { state: ProbeState; changed: readonly string[]; reason: string | null };
  /** The newest bundle is of exactly what the probe saw. */
  bundled: boolean;
  at: CommitId;
  /** git HEAD where it is not the one jj expects. */
  head: { actual: CommitId | null; expected: CommitId | null } | null;
  /** The revision the files are from, beside the one jj records now. */
  before: "moved" | "changed" | "another";
  /** Every visible commit of the change, jj's `@` among them. */
  copies: readonly RecoveryCopy[];
  /** What a command of kiki's left that was ended in the middle of the files. */
  cut: CutOff | null;
  /** All copies with edits are the same. */
  alike: boolean;
  /** Every bundled edit is in the files, in `@`, or in the record that `@` is the moved copy of. */
  covered: boolean;
  /** jj's record of edits that are neither in a copy nor below `at`; null where there is none. */
  lost: CommitId | null;
  /** What stands on the copies that go. */
  followers: Followers;
  /** The copy a person chose; what kiki cannot prove is then decided. */
  chosen: CommitId | null;
  /** Bookmarks that the merge left between copies, and where each belongs. */
  torn: readonly { name: string; to: CommitId }[];
}

/** `mend`: paths to be put back. `unclear`: why the half-written cannot be told from somebody's edits; null: it can. */
export interface CutOff {
  mend: number;
  unclear: string | null;
}

export type Followers =
  /** `surplus`: jj's second copies of followers' revisions. `move`: revisions that go along. */
  | {
      ours: true;
      /** Each with the follower's own that it is a copy of. */
      surplus: readonly { commit: CommitId; twin: CommitId }[];
      move: readonly CommitId[];
    }
  | { ours: false; foreign: CommitId };

export type RecoveryStep =
  | { do: "bundle" }
  | { do: "reset-head"; from: CommitId; to: CommitId }
  /** What is half-written becomes what it was. */
  | { do: "mend" }
  /** jj's stale recovery. */
  | { do: "update" }
  | { do: "bookmark"; name: string; to: CommitId }
  | { do: "abandon"; commits: readonly CommitId[] }
  | { do: "move-followers"; commits: readonly CommitId[]; onto: CommitId }
  | { do: "edit"; commit: CommitId }
  | { do: "done"; adopted: CommitId }
  | { do: "refuse"; why: string };

/** The one copy that carries the edits: jj's `@` if it does, else the newest of those that are alike. */
function editsCopy(copies: readonly RecoveryCopy[], at: CommitId): RecoveryCopy | null {
  const found = copies.filter((copy) => copy.kind === "edits");
  return found.find((copy) => copy.commit === at) ?? found[0] ?? null;
}

/** The copy that stays. */
export function targetCopy(
  f: Pick<RecoveryFacts, "copies" | "at" | "chosen">,
): RecoveryCopy | null {
  if (f.chosen === null) return editsCopy(f.copies, f.at);
  return f.copies.find((copy) => copy.commit === f.chosen) ?? null;
}

export function decideRecovery(f: RecoveryFacts): RecoveryStep {
  if (f.probe.state === "Unknown") return refuse(f.probe.reason ?? "the files cannot be proved");
  // Before anything looks at the files as edits: half of a file is nobody's.
  if (f.cut !== null) {
    if (f.cut.unclear !== null && f.chosen === null) return refuse(f.cut.unclear);
    if (f.cut.mend > 0) return f.bundled ? { do: "mend" } : { do: "bundle" };
  }
  if (f.copies.some((copy) => copy.immutable)) return refuse("the revision is immutable");
  // They came after the choice, or were not in it: jj would record them beside the copy that was chosen.
  if (f.chosen !== null && f.probe.state === "StaleDirty" && hasEdits(f.probe.changed))
    return refuse("the files have edits that no copy has yet");
  return f.copies.length > 1 ? decideCopies(f) : decideSingle(f);
}

function decideSingle(f: RecoveryFacts): RecoveryStep {
  const { state, changed } = f.probe;
  if (state !== "StaleDirty") {
    if (f.lost !== null && f.chosen === null) return refuse(lostReason(f.lost));
    return f.covered || f.chosen === f.at
      ? { do: "done", adopted: f.at }
      : refuse("edits that were bundled are neither in the files nor in the revision");
  }
  if (!f.bundled) return { do: "bundle" };
  const [colliding] = collisionsOnly(changed);
  if (colliding !== undefined)
    return refuse(`${colliding} is in the way of a file that the new revision brings`);
  if (f.before === "another") return refuse("the workspace was moved to another revision");
  if (f.before === "changed") return refuse("the revision itself was changed elsewhere as well");
  if (!f.followers.ours) return refuse(foreign(f.followers.foreign));
  return updateFiles(f);
}

/** jj takes a HEAD that is not where it left it for a move of the workspace to that commit. */
function updateFiles(f: RecoveryFacts): RecoveryStep {
  if (f.head === null) return { do: "update" };
  const { actual, expected } = f.head;
  return actual === null || expected === null
    ? refuse("git HEAD is on no commit")
    : { do: "reset-head", from: actual, to: expected };
}

function decideCopies(f: RecoveryFacts): RecoveryStep {
  const stranger = f.copies.find((copy) => copy.kind === "other");
  if (stranger !== undefined && f.chosen === null)
    return refuse(
      `${stranger.commit.slice(0, 12)} is a copy of the revision that kiki cannot explain`,
    );
  if (f.probe.state === "StaleDirty") return f.bundled ? updateFiles(f) : { do: "bundle" };
  if (f.probe.state === "StaleClean") return { do: "update" };
  const target = targetCopy(f);
  if (target === null) return refuse("no copy of the revision has all of the edits");
  if (f.chosen === null && !f.alike) return refuse("several copies of the revision have edits");
  if (f.chosen === null && f.lost !== null) return refuse(lostReason(f.lost));
  if (f.chosen === null && !f.covered)
    return refuse("the copy with the edits does not have all that was bundled");
  if (!f.followers.ours) return refuse(foreign(f.followers.foreign));
  // Before a copy goes: a bookmark that is left between one that is there and one that is not stays torn for ever.
  const [torn] = f.torn;
  if (torn !== undefined) return { do: "bookmark", ...torn };
  const { surplus, move } = f.followers;
  if (surplus.length > 0) return { do: "abandon", commits: surplus.map((s) => s.commit) };
  if (move.length > 0) return { do: "move-followers", commits: move, onto: target.commit };
  if (target.commit !== f.at) {
    return f.probe.state === "FreshClean"
      ? { do: "edit", commit: target.commit }
      : refuse("the files changed once more");
  }
  const others = f.copies.filter((copy) => copy.commit !== f.at).map((copy) => copy.commit);
  return { do: "abandon", commits: others };
}

/** Anything but a moved git HEAD, and files that jj does not record. */
export function hasEdits(changed: readonly string[]): boolean {
  return changed.some((line) => !/^[HC] /.test(line));
}

/** Files jj would keep without a word, and record later as edits that revert the parent. */
export function collisionsOnly(changed: readonly string[]): string[] {
  const edited = new Set(changed.filter((line) => !line.startsWith("C ")).map((l) => l.slice(2)));
  return changed
    .filter((line) => line.startsWith("C "))
    .map((line) => line.slice(2))
    .filter((path) => !edited.has(path));
}

function foreign(commit: CommitId): string {
  return `${commit.slice(0, 12)}, which is no thread's, stands on the revision`;
}

export function lostReason(edits: CommitId): string {
  return `${edits.slice(0, 12)}, edits that jj recorded, is neither in the workspace's revision nor in another copy of it`;
}

function refuse(why: string): RecoveryStep {
  return { do: "refuse", why };
}
