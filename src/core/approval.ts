/**
 * Approvals: a challenge shown to a person, the one-use permission that confirming it issues, and the operation that
 * permission is spent on (authority chapter, "Two-phase approval"). Decisions only; the transactions are the broker's.
 */
import { machine, type Moves } from "./machine.ts";

export const CHALLENGE_STATES = ["Pending", "Confirmed", "Cancelled", "Expired"] as const;
export type ChallengeState = (typeof CHALLENGE_STATES)[number];

export const CHALLENGE = machine("approval challenge", ["Pending"], {
  Pending: ["Confirmed", "Cancelled", "Expired"],
  Confirmed: [],
  Cancelled: [],
  Expired: [],
} as const satisfies Moves<ChallengeState>);

export const HUMAN_APPROVAL_STATES = ["Issued", "Claimed", "Consumed"] as const;
export type HumanApprovalState = (typeof HUMAN_APPROVAL_STATES)[number];

/** An approval nobody claims in time stays `Issued` and can never be claimed. */
export const HUMAN_APPROVAL = machine("human approval", ["Issued"], {
  Issued: ["Claimed"],
  Claimed: ["Consumed"],
  Consumed: [],
} as const satisfies Moves<HumanApprovalState>);

export const APPROVED_OPERATION_STATES = [
  "Claimed",
  "Running",
  "Completed",
  "Failed",
  "OutcomeUnknown",
] as const;
export type ApprovedOperationState = (typeof APPROVED_OPERATION_STATES)[number];

export const APPROVED_OPERATION = machine("approved operation", ["Claimed"], {
  // → Failed: refused by the revalidation that comes before the first effect.
  Claimed: ["Running", "Failed"],
  Running: ["Completed", "Failed", "OutcomeUnknown"],
  Completed: [],
  Failed: [],
  // Until somebody has observed what the remote side did.
  OutcomeUnknown: ["Completed", "Failed"],
} as const satisfies Moves<ApprovedOperationState>);

/** States in which the approval is spent: nothing goes on under it. `OutcomeUnknown` is not one of them. */
export function consumesApproval(state: ApprovedOperationState): boolean {
  return APPROVED_OPERATION.terminal.includes(state);
}

/** What a plan is for. Equal in all four or it is another plan. */
export interface ApprovalSubject {
  /** Credential that asked. */
  caller: string;
  method: string;
  /** Repository and thread. */
  target: string;
  /** Of the canonical plan, which covers every argument and the state that was observed. */
  digest: string;
}

export type ConfirmProblem =
  | "already-confirmed"
  | "cancelled"
  | "expired"
  | "wrong-nonce"
  | "not-a-presenter"
  | "other-terminal"
  | "not-foreground"
  | "presenter-is-an-agent";

/** Why a challenge may not be confirmed; null when it may. Times are of the injected clock, in milliseconds. */
export function confirmProblem(f: {
  state: ChallengeState;
  expiresAt: number;
  now: number;
  /** Compared in constant time by the caller. */
  nonceMatches: boolean;
  enrolledPresenter: boolean;
  /** The presenter's process group owns the terminal it shows the plan on. */
  foreground: boolean;
  /** It is the terminal that the plan was asked for on. */
  sameTerminal: boolean;
  /** A live incarnation's process is among the presenter's ancestors. */
  descendsFromAgent: boolean;
}): ConfirmProblem | null {
  switch (f.state) {
    case "Confirmed":
      return "already-confirmed";
    case "Cancelled":
      return "cancelled";
    case "Expired":
      return "expired";
    case "Pending":
      break;
  }
  if (f.now >= f.expiresAt) return "expired";
  if (!f.enrolledPresenter) return "not-a-presenter";
  if (!f.nonceMatches) return "wrong-nonce";
  if (f.descendsFromAgent) return "presenter-is-an-agent";
  if (!f.sameTerminal) return "other-terminal";
  return f.foreground ? null : "not-foreground";
}

/**
 * Spends a person's approval on this operation. Called inside the transaction that makes the operation durable, so that
 * neither is there without the other. Throws when the approval cannot be used (any more).
 */
export type Claim = (operationId: string) => void;

export type ClaimProblem =
  | "other-caller"
  | "other-method"
  | "other-target"
  | "plan-changed"
  | "used"
  | "expired";

/** Why an approval may not be claimed for `asked`; null when it may, in this very transaction. */
export function claimProblem(f: {
  state: HumanApprovalState;
  approved: ApprovalSubject;
  asked: ApprovalSubject;
  expiresAt: number;
  now: number;
}): ClaimProblem | null {
  if (f.approved.caller !== f.asked.caller) return "other-caller";
  if (f.approved.method !== f.asked.method) return "other-method";
  if (f.approved.target !== f.asked.target) return "other-target";
  if (f.approved.digest !== f.asked.digest) return "plan-changed";
  if (f.state !== "Issued") return "used";
  return f.now >= f.expiresAt ? "expired" : null;
}

/**
 * What a restart does with an approved operation: only that operation goes on, under its own id, and an outcome that
 * nobody has seen is looked at, never repeated.
 */
export function resumeApproved(
  state: ApprovedOperationState,
): "start" | "resume" | "observe" | "nothing" {
  switch (state) {
    case "Claimed":
      return "start";
    case "Running":
      return "resume";
    case "OutcomeUnknown":
      return "observe";
    case "Completed":
    case "Failed":
      return "nothing";
  }
}
