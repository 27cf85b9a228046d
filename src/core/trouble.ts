/** An edge that waits for a person, as `kk repair` speaks of it: facts → named plans. Pure. */
import type { CommitId, IntentId } from "./ids.ts";
import { short } from "./ids.ts";
import type { RecoveryCopy } from "./recovery.ts";
import type { Examination, RepairFact, RepairProposal } from "./repair.ts";

interface Trouble {
  intentId: IntentId;
  /** Name of the thread that is followed. */
  parent: string;
  /** Why the intent stopped at first. */
  reason: string;
}

export interface OfferedCopy {
  commit: CommitId;
  kind: RecoveryCopy["kind"];
  /** jj's `@`: its files are on disk. */
  visible: boolean;
  description: string;
}

export type EdgeTrouble =
  | (Trouble & {
      kind: "recovery";
      /** Why it was not recovered by itself. */
      refused: string;
      bundle: string;
      /** State of the files, by the probe. */
      files: string;
      fingerprint: string;
      changed: string[];
      copies: OfferedCopy[];
      /** Files that jj does not record, where the new revision brings one. */
      colliding: string[];
      /** jj's own stale recovery has not run on these files. */
      mayLand: boolean;
    })
  | (Trouble & {
      kind: "diverged";
      anchor: CommitId;
      parentHead: CommitId | null;
      childHead: CommitId | null;
      /** What the transition would be called now. */
      now: string;
      /** The parent's head, when the child stands on it. */
      mayReanchor: CommitId | null;
    })
  | (Trouble & { kind: "not-now"; why: string })
  | (Trouble & { kind: "edge-gone" });

/** What a plan does; part of a journal. */
export type TroubleOrder =
  | { do: "retry" }
  | { do: "land" }
  | { do: "drop"; paths: string[] }
  | { do: "adopt"; commit: CommitId }
  | { do: "discard" }
  | { do: "reanchor"; commit: CommitId };

export interface TroublePlan {
  proposal: RepairProposal;
  order: TroubleOrder;
}

const KEPT = "nothing is dropped: copies of the files stay in the bundle";

/** Every way out there is now, the plainest first. */
export function troublePlans(t: EdgeTrouble): TroublePlan[] {
  switch (t.kind) {
    case "recovery":
      return recoveryPlans(t);
    case "diverged":
      return divergedPlans(t);
    case "not-now":
    case "edge-gone":
      return [];
  }
}

function recoveryPlans(t: Extract<EdgeTrouble, { kind: "recovery" }>): TroublePlan[] {
  const plans: TroublePlan[] = [];
  // Among the copies there are, only once the edits in the files are one of them.
  if (t.copies.length > 1 && !t.mayLand) plans.push(...t.copies.map((copy) => adopt(t, copy)));
  if (t.colliding.length > 0) {
    plans.push({
      order: { do: "drop", paths: t.colliding },
      proposal: {
        kind: "recovery-drop",
        title: "take the files of the new revision where ignored ones are in the way",
        changes: [
          ...t.colliding.map((path) => `remove ${path}; its bytes stay in ${t.bundle}`),
          "then go on as by itself, if every edit is proved",
        ],
      },
    });
  }
  if (t.mayLand) {
    plans.push({
      order: { do: "land" },
      proposal: {
        kind: "recovery-land",
        title: "let jj record the edits and update the files",
        changes: [
          "jj workspace update-stale: the edits become a revision, the files those of jj's own",
          "go on where every edit is then proved; else each copy of the revision is a choice of its own",
          KEPT,
        ],
      },
    });
  }
  plans.push({
    order: { do: "retry" },
    proposal: {
      kind: "recovery-retry",
      title: "look once more, and go on by itself if every edit is proved now",
      changes: ["what kiki does by itself at a boundary", KEPT],
    },
  });
  return plans;
}

function adopt(t: { copies: OfferedCopy[] }, copy: OfferedCopy): TroublePlan {
  const what = { edits: "with the edits", clean: "without the edits", other: "from elsewhere" };
  const others = t.copies.filter((c) => c !== copy).map((c) => short(c.commit));
  return {
    order: { do: "adopt", commit: copy.commit },
    proposal: {
      kind: `recovery-adopt-${short(copy.commit)}`,
      title: `go on with ${short(copy.commit)}, the copy ${what[copy.kind]}`,
      changes: [
        copy.visible
          ? "the files stay as they are"
          : `the files become those of ${short(copy.commit)}`,
        `abandon ${others.join(", ")}, kept in git under refs/kiki`,
        "the agent is told at its next call",
      ],
    },
  };
}

function divergedPlans(t: Extract<EdgeTrouble, { kind: "diverged" }>): TroublePlan[] {
  const plans: TroublePlan[] = [];
  if (t.mayReanchor !== null) {
    plans.push({
      order: { do: "reanchor", commit: t.mayReanchor },
      proposal: {
        kind: "transition-reanchor",
        title: `follow ${t.parent} from where it is now`,
        changes: [
          `the thread stands on ${short(t.mayReanchor)} already; that is the new anchor`,
          "the transition that could not be followed is given up",
        ],
      },
    });
  }
  plans.push({
    order: { do: "discard" },
    proposal: {
      kind: "transition-discard",
      title: `give up what ${t.parent} did`,
      changes: [
        "no file changes, and the agent is told nothing",
        `the anchor stays ${short(t.anchor)}; what ${t.parent} does next is judged from there`,
      ],
    },
  });
  return plans;
}

export function examineTrouble(t: EdgeTrouble): Examination {
  const authority: RepairFact[] = [
    { name: "follows", value: t.parent, ok: null },
    {
      name: "cascade",
      value:
        t.kind === "recovery"
          ? "RecoveryRequired"
          : t.kind === "diverged"
            ? "TopologyDiverged"
            : "waits",
      ok: false,
    },
    { name: "intent", value: t.intentId, ok: null },
    { name: "stopped because", value: t.reason, ok: null },
  ];
  return {
    authority,
    observed: observed(t),
    notes: notes(t),
    proposals: troublePlans(t).map((plan) => plan.proposal),
    needsRepair: true,
  };
}

function observed(t: EdgeTrouble): RepairFact[] {
  const fact = (name: string, value: string, ok: boolean | null): RepairFact => ({
    name,
    value,
    ok,
  });
  if (t.kind === "diverged") {
    const at = (commit: CommitId | null): string => (commit === null ? "none" : short(commit));
    return [
      fact("anchor", short(t.anchor), null),
      fact(`${t.parent} is at`, at(t.parentHead), t.parentHead !== null),
      fact("thread is at", at(t.childHead), t.childHead !== null),
      fact("seen from here", t.now, null),
    ];
  }
  if (t.kind !== "recovery") return [];
  return [
    fact("files", t.files, null),
    fact("fingerprint", t.fingerprint.slice(0, 12), null),
    ...t.changed.map((line) => fact("differs", line, null)),
    ...t.copies.map((copy) =>
      fact(copy.visible ? "revision" : "copy", `${short(copy.commit)} (${copy.kind})`, null),
    ),
    fact("bundle", t.bundle, true),
  ];
}

function notes(t: EdgeTrouble): string[] {
  switch (t.kind) {
    case "recovery":
      return [`not recovered by itself: ${t.refused}`];
    case "diverged":
      return [];
    case "not-now":
      return [`nothing can be done right now: ${t.why}`];
    case "edge-gone":
      return ["the thread does not follow that thread any more"];
  }
}
