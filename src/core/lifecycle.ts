/** Thread lifecycle: the states and the only moves between them (threads chapter, "Lifecycle transitions"). */
import { machine, type Moves, type Next } from "./machine.ts";

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

const MOVES = {
  Creating: ["Active", "CreateFailed"],
  CreateFailed: ["Creating", "Destroyed"],
  Active: ["ClosePreflight", "ProjectionDiverged", "DestroyCommit"],
  ClosePreflight: ["Active", "CloseCommit"],
  CloseCommit: ["Closed", "Active", "CloseFailed"],
  CloseFailed: ["Active", "CloseCommit"],
  Closed: ["Active", "ProjectionDiverged", "DestroyCommit"],
  ProjectionDiverged: ["Active", "Closed", "CloseCommit", "DestroyCommit"],
  DestroyCommit: ["Destroyed", "DestroyFailed", "Active", "Closed", "ProjectionDiverged"],
  DestroyFailed: ["DestroyCommit"],
  Destroyed: [],
} as const satisfies Moves<Lifecycle>;
export const LIFECYCLE = machine("lifecycle", ["Creating"], MOVES);

/** The states reachable in one step from `from`. */
export type NextLifecycle<F extends Lifecycle> = Next<typeof MOVES, F>;

/** Typed move: an illegal one does not compile; one computed at run time throws by name. */
export function moveLifecycle<F extends Lifecycle>(from: F, to: NextLifecycle<F>): Lifecycle {
  return LIFECYCLE.move(from, to);
}

/** What a move needs to be known besides the two states. */
export interface LifecycleFacts {
  /** The state that `ProjectionDiverged` goes back to; null in every other state. */
  projectionResume: "Active" | "Closed" | null;
  /** The state that the running or failed Destroy began from; null when there is none. */
  destroyFrom: Lifecycle | null;
  /** A step that cannot be undone has been started: the kill of a close, the bookmark of a destroy. */
  irreversible: boolean;
  /** Unresolved projection issues. */
  issues: number;
  /** Create, Close, Reopen or Destroy that stays unfinished after the transaction of this move. */
  unfinished: "Create" | "Close" | "Reopen" | "Destroy" | null;
}

/** Why a move of the table may not be made now, in words; null when it may. */
export function lifecycleMoveProblem<F extends Lifecycle>(
  from: F,
  to: NextLifecycle<F>,
  f: LifecycleFacts,
): string | null {
  const target: Lifecycle = LIFECYCLE.move(from, to);
  if (target === "Active") {
    if (f.issues > 0) return "an Active thread has no unresolved projection issue";
    if (f.unfinished !== null) return `its ${f.unfinished} is unfinished`;
  }
  if (target === "ProjectionDiverged" && from !== "DestroyCommit" && f.issues === 0)
    return "no projection issue was found";
  switch (from as Lifecycle) {
    case "ProjectionDiverged":
      if ((target === "Active" || target === "Closed") && target !== f.projectionResume)
        return `it goes back to ${f.projectionResume ?? "nothing"}, not to ${target}`;
      if (target === "CloseCommit" && f.projectionResume !== "Active")
        return "only a thread that was Active is closed without its session";
      return null;
    case "DestroyCommit":
      if (target === "Destroyed" || target === "DestroyFailed") return null;
      if (f.irreversible) return "destroying has begun and can only be finished";
      return target === f.destroyFrom
        ? null
        : `destroying began from ${f.destroyFrom ?? "nothing"}, not from ${target}`;
    case "CloseCommit":
    case "CloseFailed":
      return target === "Active" && f.irreversible
        ? "its session was ended and closing can only be finished"
        : null;
    case "Creating":
    case "CreateFailed":
    case "Active":
    case "ClosePreflight":
    case "Closed":
    case "DestroyFailed":
    case "Destroyed":
      return null;
  }
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

export const STEP = machine("step", ["Pending"], {
  Pending: ["Started"],
  Started: ["Completed", "Failed", "Compensating"],
  // → Compensated: a step that leaves nothing outside has nothing to undo.
  Completed: ["Compensating", "Compensated"],
  Failed: [],
  // An undo that fails leaves its step here and ends the operation: what is below is still in use.
  Compensating: ["Compensated"],
  Compensated: [],
} as const satisfies Moves<StepState>);

export const OP_STATES = ["Running", "Completed", "Failed"] as const;
export type OpState = (typeof OP_STATES)[number];

export const OPERATION = machine("operation", ["Running"], {
  Running: ["Completed", "Failed"],
  Completed: [],
  // A repair goes on with exactly the plan that failed.
  Failed: ["Running"],
} as const satisfies Moves<OpState>);

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
