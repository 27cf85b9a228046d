/**
 * Repairs: one small plan for each choice of the threads chapter's table, and for what a failed saga left. Choices
 * that are sagas of their own (destroy, close without session, finishing a close or a destroy) are not repeated here.
 */
import type { SagaLifecycle } from "../saga.ts";
import { STAYS } from "./detach.ts";
import { GATE, LAUNCH, NEXT_CONFIG, READY, SESSION } from "./agent.ts";
import { EFFECT_ATTEMPTS, type PlanTemplate, type StepTemplate } from "./template.ts";

type Step = StepTemplate<never>;

/** First in every repair: the id a person chose is a hash of the plan and of what was observed. */
const RECHECK: Step = {
  name: "recheck",
  identity: "the repair id, a hash of this plan and the observed state",
  observation: "diagnosis, run again, gives the same id",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
};

/** Last in every repair of a projection: one transaction, so there is never a repaired thread that says otherwise. */
const SETTLE: Step = {
  name: "settle",
  identity: "the issue's id",
  observation: "the issue is resolved, and the thread is in the state it goes back to",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
};

const RECREATE_RECORD: Step = {
  name: "record",
  identity: "the workspace's name and path, the checkpoint, and the token of the operation",
  observation:
    "jj records the workspace at exactly that commit, in the operation carrying the token",
  compensation: "forget the workspace that carries the token",
  attempts: EFFECT_ATTEMPTS,
};

const FORGET_RECORD: Step = {
  name: "forget",
  identity: "the workspace's name, its last @, and the token of the operation",
  observation: "no head of the operation log records a workspace of that name",
  compensation: null, // what is forgotten had no folder; its commit stays, and the checkpoint names it
  attempts: EFFECT_ATTEMPTS,
};

const ADOPT_PATH: Step = {
  name: "path",
  identity: "the folder's device and inode, its old path and its new one",
  observation: "jj and the thread's row both have the new path",
  compensation: "put the old path back into both",
  attempts: EFFECT_ATTEMPTS,
};

const ADOPT_COMMIT: Step = {
  name: "adopt",
  identity:
    "the exact commit, proved to be the head or on the validated chain, and the former checkpoint",
  observation:
    "the thread's row has that commit as its checkpoint, a closed thread's as its head too",
  compensation: "put the former checkpoint back into the row",
  attempts: EFFECT_ATTEMPTS,
};

const PUT_BOOKMARK: Step = {
  name: "bookmark",
  identity: "the bookmark, where it was, the commit it belongs on, and the token of the operation",
  observation: "the bookmark is on exactly that commit in the operation carrying the token",
  compensation: "put it back to where it was, while it is on that commit or its rewrite",
  attempts: EFFECT_ATTEMPTS,
};

const PROJECTION: SagaLifecycle = {
  from: ["ProjectionDiverged"],
  during: "prior",
  completed: "recorded",
  unwound: "prior",
  stuck: "prior",
};

/** Troubles of an edge: the thread itself stays what it is. */
const ACTIVE: SagaLifecycle = {
  from: ["Active"],
  during: "prior",
  completed: "prior",
  unwound: "prior",
  stuck: "prior",
};

function repair(
  name: string,
  steps: readonly Step[],
  lifecycle: SagaLifecycle = PROJECTION,
): PlanTemplate<never> {
  return { kind: "Repair", name, lifecycle, flags: [], steps: [RECHECK, ...steps] };
}

/** What a failed creation left is undone to the end; then it is made anew, or its row says that it is gone. */
const UNWIND: Step = {
  name: "unwind",
  identity: "the failed operation",
  observation: "no step of that operation has anything left to undo",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
};

export const REPAIRS = {
  recreateDirectory: repair("WorkspaceDirectoryMissing: recreate from checkpoint", [
    FORGET_RECORD,
    RECREATE_RECORD,
    SETTLE,
  ]),
  adoptDirectory: repair("WorkspaceDirectoryMissing: adopt a moved directory", [
    ADOPT_PATH,
    SETTLE,
  ]),
  recreateRecord: repair("WorkspaceRecordMissing: recreate record", [RECREATE_RECORD, SETTLE]),
  adoptRemoval: repair("WorkspaceRecordMissing: adopt removal", [
    {
      name: "folder",
      identity: "the folder's path, device and inode, and the inventory that may go with it",
      observation: "the path is absent, or holds only what the inventory did not name",
      compensation: null, // what goes is in the checkpoint or was named one by one
      attempts: EFFECT_ATTEMPTS,
    },
    SETTLE,
  ]),
  normalisePath: repair("WorkspacePathMismatch: same folder, new path", [ADOPT_PATH, SETTLE]),
  choosePath: repair("WorkspacePathMismatch: adopt the chosen folder", [
    FORGET_RECORD,
    RECREATE_RECORD,
    ADOPT_PATH,
    SETTLE,
  ]),
  recreateBookmark: repair("BookmarkMissing: recreate at checkpoint", [PUT_BOOKMARK, SETTLE]),
  adoptCommit: repair("BookmarkMissing: adopt an exact commit", [
    ADOPT_COMMIT,
    PUT_BOOKMARK,
    SETTLE,
  ]),
  adoptName: repair("BookmarkMissing: adopt the bookmark it was renamed to", [
    {
      name: "name",
      identity: "the old name, the new one, and the checkpoint both were on",
      observation: "the thread's row has the new name, owned by a person",
      compensation: "put the old name back into the row",
      attempts: EFFECT_ATTEMPTS,
    },
    SETTLE,
  ]),
  restoreBookmark: repair("BookmarkMoved: restore", [PUT_BOOKMARK, SETTLE]),
  adoptTarget: repair("BookmarkMoved: adopt the observed target", [ADOPT_COMMIT, SETTLE]),
  restartSession: repair("SessionMissing: restart session and harness", [
    NEXT_CONFIG,
    SESSION,
    LAUNCH,
    GATE,
    READY,
    SETTLE,
  ]),
  retryCreation: repair("CreateFailed: retry", [UNWIND], {
    from: ["CreateFailed"],
    during: "prior",
    completed: "Creating",
    unwound: "prior",
    stuck: "prior",
  }),
  cleanUpCreation: repair(
    "CreateFailed: clean up",
    [
      UNWIND,
      {
        name: "tombstone",
        identity: "the thread and this operation",
        observation: "the thread's row says which operation removed it",
        compensation: null,
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    {
      from: ["CreateFailed"],
      during: "prior",
      completed: "Destroyed",
      unwound: "prior",
      stuck: "prior",
    },
  ),
  retryDelivery: repair(
    "delivery exhausted: retry",
    [
      {
        name: "epoch",
        identity: "the intent, and the epoch that is exhausted",
        observation: "the intent is in the next epoch, not exhausted, and counts from zero",
        compensation: null,
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    STAYS,
  ),
  discardDelivery: repair(
    "delivery exhausted: discard",
    [
      {
        name: "discard",
        identity: "the intent, its epoch, and the approval of exactly this",
        observation: "the intent is acknowledged, discarded on that approval",
        compensation: null,
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    STAYS,
  ),
  resumeClose: repair(
    "CloseFailed: resume the agent",
    [
      {
        name: "resume",
        identity: "the close's recorded set of stopped processes",
        observation: "each that was running runs, and the process tree is the recorded one",
        compensation: null,
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    {
      from: ["CloseFailed"],
      during: "prior",
      completed: "Active",
      unwound: "prior",
      stuck: "prior",
    },
  ),
  recoverEdits: repair(
    "RecoveryRequired: carry out what was chosen",
    [
      {
        name: "recover",
        identity: "the intent, its bundle, and the copy or the way that was chosen",
        observation: "the intent has left RecoveryRequired, or says once more why it has not",
        compensation: null, // nothing is dropped: files are in the bundle, copies under refs/kiki
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    ACTIVE,
  ),
  giveUpTransition: repair(
    "TopologyDiverged: give the transition up",
    [
      {
        name: "transition",
        identity: "the intent, the anchor the edge is to have, and the approval",
        observation: "the intent is acknowledged with that approval",
        compensation: null, // one transaction
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    ACTIVE,
  ),
  recoverOperation: repair(
    "DestroyFailed: jj operation recovery",
    [
      {
        name: "operation",
        identity: "the approved operation to go back to, and the token of the one that does",
        observation: "the operation carrying the token has the approved one's view",
        compensation: null,
        attempts: EFFECT_ATTEMPTS,
      },
    ],
    {
      from: ["DestroyFailed"],
      during: "prior",
      completed: "prior",
      unwound: "prior",
      stuck: "prior",
    },
  ),
} as const satisfies Readonly<Record<string, PlanTemplate<never>>>;
