/** Thread lifecycle: the states and the only moves between them (threads chapter, "Lifecycle transitions"). */

export const LIFECYCLES = [
  "Creating",
  "CreateFailed",
  "Active",
  "ClosePreflight",
  "CloseCommit",
  "CloseFailed",
  "Closed",
  "ProjectionDiverged",
  "DestroyCommit",
  "DestroyFailed",
  "Destroyed",
] as const;
export type Lifecycle = (typeof LIFECYCLES)[number];

const TRANSITIONS = {
  Creating: ["Active", "CreateFailed"],
  CreateFailed: ["Creating", "Destroyed"],
  Active: ["ClosePreflight", "ProjectionDiverged", "DestroyCommit"],
  ClosePreflight: ["Active", "CloseCommit"],
  CloseCommit: ["Closed", "Active", "CloseFailed"],
  CloseFailed: ["Active", "CloseCommit"],
  Closed: ["Active", "ProjectionDiverged", "DestroyCommit"],
  ProjectionDiverged: ["Active", "Closed", "CloseCommit", "DestroyCommit"],
  // Back to a prior state only before the first irreversible step; the saga runner owns that condition.
  DestroyCommit: ["Destroyed", "DestroyFailed", "Active", "Closed", "ProjectionDiverged"],
  DestroyFailed: ["DestroyCommit"],
  Destroyed: [],
} as const satisfies Record<Lifecycle, readonly Lifecycle[]>;

/** The states reachable in one step from `from`. */
export type NextLifecycle<F extends Lifecycle> = (typeof TRANSITIONS)[F][number];

export function canMove(from: Lifecycle, to: Lifecycle): boolean {
  return (TRANSITIONS[from] as readonly Lifecycle[]).includes(to);
}

/** Typed move: an illegal one does not compile; one computed at run time throws by name. */
export function moveLifecycle<F extends Lifecycle>(from: F, to: NextLifecycle<F>): Lifecycle {
  if (!canMove(from, to)) throw new Error(`illegal lifecycle transition ${from} → ${String(to)}`);
  return to;
}

/** Shown by `kk ls` without `--all`: everything that still is, or should still be, somebody's work. */
export function isOperational(state: Lifecycle): boolean {
  return state !== "Closed" && state !== "Destroyed";
}

export const LIFECYCLE_OP_KINDS = [
  "Create",
  "Close",
  "Reopen",
  "Detach",
  "Checkpoint",
  "Repair",
  "Destroy",
  "Restart",
  "Interrupt",
] as const;
export type LifecycleOpKind = (typeof LIFECYCLE_OP_KINDS)[number];

export const STEP_STATES = [
  "Pending",
  "Started",
  "Completed",
  "Failed",
  "Compensating",
  "Compensated",
] as const;
export type StepState = (typeof STEP_STATES)[number];

/** Where an outside thing is not as the thread's record has it. */
export const PROJECTION_ISSUES = [
  "WorkspaceDirectoryMissing",
  "WorkspaceRecordMissing",
  "WorkspacePathMismatch",
  "BookmarkMissing",
  "BookmarkMoved",
  "SessionMissing",
] as const;
export type ProjectionIssue = (typeof PROJECTION_ISSUES)[number];

export const AGENT_STATUSES = ["Running", "Quiescent", "Stuck", "Crashed"] as const;
export type AgentStatus = (typeof AGENT_STATUSES)[number];

export const AGENT_DISPLAY_STATES = ["working", "idle", "finished", "blocked"] as const;
export type AgentDisplayState = (typeof AGENT_DISPLAY_STATES)[number];

/** Display only (harness chapter). `lastTurnCompleted` tells an ended turn from an agent that never began one. */
export function agentDisplay(
  status: AgentStatus,
  facts: { lastTurnCompleted: boolean; unacknowledgedAttention: boolean },
): AgentDisplayState {
  if (facts.unacknowledgedAttention || status === "Stuck" || status === "Crashed") return "blocked";
  if (status === "Running") return "working";
  return facts.lastTurnCompleted ? "finished" : "idle";
}
