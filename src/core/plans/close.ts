/** Ending a thread: close (threads chapter, "Close") and destroy ("Destroy"). */
import {
  EFFECT_ATTEMPTS,
  PROOF_ATTEMPTS,
  WAIT_ATTEMPTS,
  type PlanTemplate,
  type StepTemplate,
} from "./template.ts";

/** Everything below the pane wrappers stands still. What it proves dies with the daemon: a restart resumes. */
const FREEZE = {
  name: "freeze",
  identity:
    "the operation, and each process's pid, start time, group, session and prior stop state",
  observation: "two samples in a row are identical and every process in them is stopped",
  compensation:
    "resume exactly the processes that were running, and prove that the process tree is the recorded one",
  attempts: PROOF_ATTEMPTS,
  restart: "unwind",
} as const satisfies StepTemplate<never>;

const QUIESCE = {
  name: "quiesce",
  identity: "the operation and the workspace's folder",
  observation:
    "every process whose cwd, root, mapped file or descriptor lies in the folder is in the frozen set",
  compensation: null,
  attempts: PROOF_ATTEMPTS,
  restart: "unwind",
} as const satisfies StepTemplate<never>;

const RECHECK = {
  name: "recheck",
  identity: "the approved fingerprint and the generation of the armed watch",
  observation:
    "frontier, loss inventory and frozen workspace give the approved fingerprint under that watch",
  compensation: null,
  attempts: PROOF_ATTEMPTS,
  restart: "unwind",
} as const satisfies StepTemplate<never>;

const KILL = {
  name: "kill",
  identity: "the session's tag: the thread and the operation that made it",
  observation: "tmux lists no session with that tag, and no frozen process is left",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
  irreversible: true,
} as const satisfies StepTemplate<never>;

const FORGET = {
  name: "forget",
  identity: "the workspace's name and the token its jj operation carries",
  observation: "no head of the operation log records a workspace of that name",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
  irreversible: true,
} as const satisfies StepTemplate<never>;

const DELETE = {
  name: "delete",
  identity: "the folder's path, device and inode, and the inventory that may go with it",
  observation: "the path is absent, or holds only what the inventory did not name",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
  irreversible: true,
} as const satisfies StepTemplate<never>;

const REVOKE = {
  name: "revoke",
  identity: "the credential's id and the path of its file",
  observation: "the credential's row is revoked and its file is absent",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
  irreversible: true,
} as const satisfies StepTemplate<never>;

type CloseFlag = "kill-panes" | "keep-untracked";

/** From the claimed approval to the proof that nothing has moved since it was asked for. */
const CLOSE_PROOF: readonly StepTemplate<CloseFlag>[] = [
  QUIESCE,
  RECHECK,
  {
    name: "checkpoint",
    identity:
      "the pinned operation, the commit and the token of the operation that moves the bookmark",
    observation: "the bookmark is on exactly that commit in the operation carrying the token",
    compensation: null, // a checkpoint of the exact head stays true, whatever becomes of the close
    attempts: EFFECT_ATTEMPTS,
    restart: "unwind",
  },
  {
    name: "verify",
    identity: "the approved fingerprint and the generation of the armed watch",
    observation: "the watch has seen nothing and the frozen workspace has the same fingerprint",
    compensation: null,
    attempts: PROOF_ATTEMPTS,
    restart: "unwind",
  },
  {
    name: "checkpoint-child",
    each: "child",
    identity: "the child, its exact head and the token of the operation that moves its bookmark",
    observation: "the child's bookmark is on exactly that commit",
    compensation: null,
    attempts: EFFECT_ATTEMPTS,
    restart: "unwind",
  },
  {
    name: "detach-child",
    each: "child",
    identity: "the child, and its edge with the anchor",
    observation: "the child follows nobody, and its base is the anchor it had",
    compensation:
      "put exactly that edge back, if child and parent are where they were; otherwise it cannot be undone",
    attempts: EFFECT_ATTEMPTS,
    restart: "unwind",
  },
  {
    name: "reproof",
    identity: "the approved fingerprint, the generation of the watch and the frozen set",
    observation: "watch, fingerprint and holders are as they were when the workspace was frozen",
    compensation: null,
    attempts: PROOF_ATTEMPTS,
    restart: "unwind",
  },
  {
    name: "keep",
    when: "keep-untracked",
    identity: "the folder named in the plan and the files that go there, with their hashes",
    observation: "each of the files is there, and hashes to what it did",
    compensation: "remove the copies that still hash to what was copied",
    attempts: EFFECT_ATTEMPTS,
  },
];

/**
 * `kk close`. A daemon that starts again before `reproof` is done resumes the agent; after it, `kill` proves anew
 * before it ends anything; from there on the close can only be finished.
 */
export const CLOSE: PlanTemplate<CloseFlag> = {
  kind: "Close",
  name: "",
  lifecycle: {
    from: ["ClosePreflight"],
    during: "CloseCommit",
    completed: "Closed",
    unwound: "Active",
    stuck: "CloseFailed",
  },
  flags: ["kill-panes", "keep-untracked"],
  steps: [
    {
      name: "panes",
      when: "kill-panes",
      identity: "the panes the approved plan names, each with the pid and start time of its root",
      observation: "tmux lists none of those panes, and their roots are gone",
      compensation: null, // the plan said that they end
      attempts: EFFECT_ATTEMPTS,
      restart: "unwind",
    },
    FREEZE,
    ...CLOSE_PROOF,
    KILL,
    FORGET,
    DELETE,
    REVOKE,
  ],
};

/** The repair of `SessionMissing` that closes: there is nothing to freeze and nothing to go back to. */
export const CLOSE_WITHOUT_SESSION: PlanTemplate<CloseFlag> = {
  kind: "Close",
  name: "without session",
  lifecycle: {
    from: ["ProjectionDiverged"],
    during: "CloseCommit",
    completed: "Closed",
    unwound: "CloseFailed",
    stuck: "CloseFailed",
  },
  flags: ["keep-untracked"],
  steps: [
    {
      name: "survivors",
      identity: "the thread's recorded wrappers and incarnations with pid and start time",
      observation: "none of them runs, and no process carries the thread's mark",
      compensation: null,
      attempts: PROOF_ATTEMPTS,
      restart: "unwind",
    },
    ...CLOSE_PROOF,
    FORGET,
    DELETE,
    REVOKE,
  ],
};

export type DestroyFlag = "abandon-revisions" | "keep-log";

/** `kk thread destroy`. What there is not — a closed thread has no session — counts as gone. */
export const DESTROY: PlanTemplate<DestroyFlag> = {
  kind: "Destroy",
  name: "",
  lifecycle: {
    from: ["Active", "Closed", "ProjectionDiverged"],
    during: "DestroyCommit",
    completed: "Destroyed",
    unwound: "prior",
    stuck: "DestroyFailed",
  },
  flags: ["abandon-revisions", "keep-log"],
  steps: [
    FREEZE,
    QUIESCE,
    RECHECK,
    {
      name: "bookmark",
      identity: "the bookmark, the commit it is on and the token of the operation that deletes it",
      observation: "no head of the operation log has the bookmark",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
      irreversible: true,
    },
    {
      name: "abandon",
      when: "abandon-revisions",
      identity: "the exact commits of the approved chain and the token of the operation",
      observation: "each of them is hidden, and no other commit was",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
      irreversible: true,
    },
    KILL,
    FORGET,
    DELETE,
    REVOKE,
    {
      name: "transcript",
      unless: "keep-log",
      identity: "the thread",
      observation: "no message of the thread is recorded",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
      irreversible: true,
    },
    {
      name: "tombstone",
      identity: "the thread and this operation",
      observation: "the thread's row says which operation destroyed it",
      compensation: null,
      attempts: WAIT_ATTEMPTS, // one transaction, and the last: nothing speaks against trying it again
      irreversible: true,
    },
  ],
};
