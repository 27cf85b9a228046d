/**
 * Projections: the outside things kiki observes but does not own, what is wrong when one is not as recorded, what that
 * blocks, and which repairs there are (threads chapter, "Projections and repair"). The table is the rule; nothing else
 * decides what an issue blocks.
 */
import type { CommitId } from "./ids.ts";
import type { Lifecycle, ProjectionIssue } from "./lifecycle.ts";

export const PROJECTIONS = ["workspaceRecord", "directory", "bookmark", "session"] as const;
export type Projection = (typeof PROJECTIONS)[number];

/** What an issue may forbid. */
export const ACTIVITIES = [
  "head-tracking",
  "follows-classification",
  "workspace-mutation",
  "follows-source-mutation",
  "checkpoint",
  "publish",
  "close",
  "detach",
  "delivery",
  "materialisation",
] as const;
export type Activity = (typeof ACTIVITIES)[number];

export const REPAIR_CHOICES = [
  "recreate-workspace",
  "adopt-directory",
  "recreate-record",
  "adopt-removal",
  "normalise-path",
  "recreate-bookmark",
  "adopt-commit",
  "restore-bookmark",
  "adopt-target",
  "restart-session",
  "close-without-session",
  "destroy",
] as const;
export type RepairChoice = (typeof REPAIR_CHOICES)[number];

export interface IssueRule {
  /** Goes on while the issue is unresolved. */
  safe: readonly Activity[];
  /** Goes on as well where the moved folder is proved to be the same filesystem object. */
  safeWhenSameObject: readonly Activity[];
  /** Each is a plan with a name of its own; nothing is chosen for a person. */
  choices: readonly RepairChoice[];
}

// A head that nobody can read is claimed by nobody: without workspace only the thread's records are left.
const NO_WORKSPACE = { safe: [], safeWhenSameObject: [] } as const;
const BOOKMARK_SAFE = [
  "head-tracking",
  "follows-classification",
  "workspace-mutation",
  "follows-source-mutation",
  "delivery",
  "materialisation",
] as const;

export const ISSUE_RULES = {
  WorkspaceDirectoryMissing: {
    ...NO_WORKSPACE,
    choices: ["recreate-workspace", "adopt-directory", "destroy"],
  },
  WorkspaceRecordMissing: { ...NO_WORKSPACE, choices: ["recreate-record", "adopt-removal"] },
  WorkspacePathMismatch: {
    safe: [],
    safeWhenSameObject: ["head-tracking"],
    choices: ["normalise-path", "adopt-directory", "recreate-workspace"],
  },
  BookmarkMissing: {
    safe: BOOKMARK_SAFE,
    safeWhenSameObject: [],
    choices: ["recreate-bookmark", "adopt-commit"],
  },
  BookmarkMoved: {
    safe: BOOKMARK_SAFE,
    safeWhenSameObject: [],
    choices: ["restore-bookmark", "adopt-target"],
  },
  SessionMissing: {
    // The workspace is whole: only what needs an agent's boundary waits.
    safe: [
      "head-tracking",
      "follows-classification",
      "workspace-mutation",
      "follows-source-mutation",
      "checkpoint",
      "publish",
      "close",
      "detach",
    ],
    safeWhenSameObject: [],
    choices: ["restart-session", "close-without-session", "destroy"],
  },
} as const satisfies Record<ProjectionIssue, IssueRule>;

/** The first issue that forbids `activity`, or null. `sameObject`: the folder is proved to be the same one, moved. */
export function blockedBy(
  issues: readonly ProjectionIssue[],
  activity: Activity,
  sameObject: boolean,
): ProjectionIssue | null {
  return (
    issues.find((issue) => {
      const rule: IssueRule = ISSUE_RULES[issue];
      if (rule.safe.includes(activity)) return false;
      return !(sameObject && rule.safeWhenSameObject.includes(activity));
    }) ?? null
  );
}

export const CHECKPOINT_RELATIONS = ["current", "behind", "diverged"] as const;
export type CheckpointRelation = (typeof CHECKPOINT_RELATIONS)[number];

/** null: the thread has no head or no checkpoint yet. */
export function checkpointRelation(f: {
  lifecycle: Lifecycle;
  head: CommitId | null;
  checkpoint: CommitId | null;
  /** Of the bookmark issues that are open. */
  issues: readonly ProjectionIssue[];
  /** `checkpoint` is an ancestor of, or equal to, `head`; null where nobody has looked. */
  checkpointInHead: boolean | null;
}): CheckpointRelation | null {
  if (f.head === null || f.checkpoint === null) return null;
  const astray = f.issues.includes("BookmarkMissing") || f.issues.includes("BookmarkMoved");
  if (astray || f.lifecycle === "ProjectionDiverged") return "diverged";
  if (f.head === f.checkpoint) return "current";
  return f.checkpointInHead === false ? "diverged" : "behind";
}
