/**
 * Two-phase approval (authority chapter): a challenge for one exact plan, a person's yes to it on the terminal it was
 * asked for on, and the one operation that yes is spent on. Every step is one transaction; `core/approval.ts` decides.
 */
import {
  claimProblem,
  confirmProblem,
  type ClaimProblem,
  type ConfirmProblem,
} from "../core/approval.ts";
import { canonicalJson } from "../core/canonical.ts";
import { fail, type KikiError } from "../core/errors.ts";
import type { Ids } from "../ports/ids.ts";
import {
  approvalById,
  approvedOperation,
  challengeById,
  claimApproval,
  closeChallenge,
  expireChallenges,
  insertApproval,
  insertChallenge,
  moveApprovedOperation,
  type ApprovalRow,
  type ApprovalStore,
} from "../store/approvals.ts";
import { write } from "../store/db.ts";
import { hashSecret, sameHash } from "./identify.ts";
import type { Presence } from "./presence.ts";

/** Life of a challenge, and of an approval nobody has used yet (authority chapter). */
export const APPROVAL_LIFE_MS = 120_000;
const NONCE_BYTES = 32;

export interface BrokerDeps {
  ids: Ids;
  /** Milliseconds of a clock that does not jump: `steadyClock`. */
  now(): number;
}

/** What a person is asked to agree to. */
export interface ProposedPlan {
  method: string;
  /** What it is about, in one word for the same thing every time. */
  target: string;
  /** Arguments as they are kept: nothing secret in them. */
  args: unknown;
  /** As it is shown. */
  text: string;
  digest: string;
}

export interface Challenge {
  challengeId: string;
  nonce: string;
  expiresAt: number;
  expiresInMs: number;
}

/** Who asks for what, once with the challenge and once more with the approval. */
export interface Asked {
  credentialId: string;
  method: string;
  target: string;
  args: unknown;
}

/** An approval in the hands of exactly the call it was issued for. */
export interface Grant {
  readonly approvalId: string;
  /** Of the plan a person agreed to. */
  readonly digest: string;
  /** The operation it has begun already and that has not ended: an answer was lost. */
  readonly begun: string | null;
  /**
   * Inside the transaction that makes the effect's beginning durable: verifies everything once more and spends the
   * approval on this operation. `lifecycle`: the saga of the same id carries it out, and ends it. Throws.
   */
  claim(operationId: string, plan: { digest: string; lifecycle: boolean }): void;
  /** For a read: claimed, done and consumed in a transaction of its own. Throws. */
  spend(): void;
}

export interface Asker {
  kind: "ThreadScoped" | "RegistrationScoped";
  credentialId: string;
}

export interface Broker {
  begin(at: ApprovalStore, plan: ProposedPlan, caller: Asker, presence: Presence): Challenge;
  /** Issues the approval. Throws KikiError of kind approval, after recording an expiry. */
  confirm(
    at: ApprovalStore,
    answer: { challengeId: string; nonce: string },
    presenter: { presenterId: string; presence: Presence },
  ): { approval: string; expiresAt: number };
  cancel(
    at: ApprovalStore,
    answer: { challengeId: string; nonce: string },
    presenter: { presenterId: string; presence: Presence },
  ): void;
  /** Throws why this approval is not for this call, or cannot be used any more. */
  grant(at: ApprovalStore, approvalId: string, asked: Asked): Grant;
}

export function makeBroker({ ids, ...deps }: BrokerDeps): Broker {
  const now = (): number => deps.now();
  const examine = (
    at: ApprovalStore,
    { challengeId, nonce }: { challengeId: string; nonce: string },
    presence: Presence,
  ) => {
    const challenge = challengeById(at, challengeId);
    if (challenge === null) {
      throw fail("approval", "challenge-unknown", "there is no such challenge", ASK_AGAIN);
    }
    const problem = confirmProblem({
      state: challenge.state,
      expiresAt: challenge.expiresAt,
      now: now(),
      nonceMatches: sameHash(challenge.nonceSha256, hashSecret(nonce)),
      enrolledPresenter: true, // the enforcer lets nobody else come this far
      foreground: presence.foreground,
      sameTerminal: presence.terminal !== null && presence.terminal === challenge.terminal,
      descendsFromAgent: presence.agent,
    });
    return { challenge, problem };
  };

  return {
    begin(at, plan, caller, presence) {
      const createdAt = now();
      const nonce = ids.secret(NONCE_BYTES);
      const challengeId = ids.uuid();
      const expiresAt = createdAt + APPROVAL_LIFE_MS;
      write(at.db, () => {
        expireChallenges(at, createdAt);
        insertChallenge(at, {
          challengeId,
          nonceSha256: hashSecret(nonce),
          method: plan.method,
          target: plan.target,
          args: canonicalJson(plan.args),
          planText: plan.text,
          planSha256: plan.digest,
          callerKind: caller.kind,
          callerCredentialId: caller.credentialId,
          createdAt,
          expiresAt,
          terminal: presence.terminal,
        });
      });
      return { challengeId, nonce, expiresAt, expiresInMs: APPROVAL_LIFE_MS };
    },

    confirm(at, answer, { presenterId, presence }) {
      const approval = ids.uuid();
      const done = write(at.db, () => {
        const { challenge, problem } = examine(at, answer, presence);
        if (problem === null) {
          const issuedAt = now();
          const { challengeId, planSha256 } = challenge;
          closeChallenge(at, challengeId, { state: "Confirmed", presenterId, closedAt: issuedAt });
          const expiresAt = issuedAt + APPROVAL_LIFE_MS;
          insertApproval(at, {
            approvalId: approval,
            challengeId,
            planSha256,
            issuedAt,
            expiresAt,
          });
          return expiresAt;
        }
        if (problem === "expired") expireChallenges(at, now());
        return problem;
      });
      if (typeof done === "string") throw notConfirmed(done);
      return { approval, expiresAt: done };
    },

    cancel(at, answer, { presenterId, presence }) {
      const problem = write(at.db, () => {
        const seen = examine(at, answer, presence);
        if (seen.problem !== null) return seen.problem;
        const { challengeId } = seen.challenge;
        closeChallenge(at, challengeId, { state: "Cancelled", presenterId, closedAt: now() });
        return null;
      });
      // No said twice is still no.
      if (problem !== null && problem !== "cancelled") throw notConfirmed(problem);
    },

    grant(at, approvalId, asked) {
      const looked = usable(at, approvalId, asked, now());
      const claim = (operationId: string, plan: { digest: string; lifecycle: boolean }): void => {
        if (!at.db.inTransaction) throw new Error("an approval is claimed with its effect");
        const row = usable(at, approvalId, asked, now());
        if (row.operationId !== null) throw notClaimed("used");
        if (row.planSha256 !== plan.digest) throw notClaimed("plan-changed");
        const lifecycleOperationId = plan.lifecycle ? operationId : null;
        claimApproval(at, row, { operationId, lifecycleOperationId, now: now() });
        if (plan.lifecycle) moveApprovedOperation(at, operationId, { state: "Running" });
      };
      return {
        approvalId,
        digest: looked.planSha256,
        begun: looked.operationId,
        claim,
        spend() {
          const operationId = ids.uuid();
          write(at.db, () => {
            claim(operationId, { digest: looked.planSha256, lifecycle: false });
            moveApprovedOperation(at, operationId, { state: "Running" });
            moveApprovedOperation(at, operationId, {
              state: "Completed",
              outcome: null,
              now: now(),
            });
          });
        },
      };
    },
  };
}

/** The approval, when exactly this caller may use it for exactly this call. Its own unended operation is no problem. */
function usable(at: ApprovalStore, approvalId: string, asked: Asked, now: number): ApprovalRow {
  const row = approvalById(at, approvalId);
  if (row === null) {
    throw fail("approval", "approval-unknown", "there is no such approval", ASK_AGAIN);
  }
  const begun = row.operationId === null ? null : approvedOperation(at, row.operationId);
  const problem = claimProblem({
    state: row.consumedAt !== null ? "Consumed" : begun !== null ? "Claimed" : "Issued",
    approved: subject(row.callerCredentialId, row.method, row.target, row.args),
    asked: subject(asked.credentialId, asked.method, asked.target, canonicalJson(asked.args)),
    expiresAt: row.expiresAt,
    now,
  });
  if (problem === "used" && row.consumedAt === null) return row;
  if (problem !== null) throw notClaimed(problem);
  return row;
}

/** Arguments stand for the digest here; the digest of the plan made from them is compared when it is claimed. */
function subject(caller: string, method: string, target: string, args: string) {
  return { caller, method, target, digest: args };
}

const ASK_AGAIN = "run the command again and look at the new plan";

function notConfirmed(problem: ConfirmProblem): KikiError {
  const [code, message, hint] = CONFIRM_TEXTS[problem];
  return fail("approval", code, message, hint);
}

const CONFIRM_TEXTS: Record<ConfirmProblem, [code: string, message: string, hint: string]> = {
  "already-confirmed": ["challenge-confirmed", "this plan has been confirmed already", ASK_AGAIN],
  cancelled: ["challenge-cancelled", "this plan was declined", ASK_AGAIN],
  expired: ["challenge-expired", "the time to confirm this plan is over", ASK_AGAIN],
  "wrong-nonce": ["wrong-nonce", "this answer is not to this plan", ASK_AGAIN],
  "not-a-presenter": ["not-a-presenter", "only an enrolled presenter confirms", ASK_AGAIN],
  "presenter-is-an-agent": [
    "presenter-is-an-agent",
    "an agent cannot approve this: the process that shows the plan was started by one",
    "a person runs the command in a terminal of their own",
  ],
  "other-terminal": [
    "other-terminal",
    "this plan was asked for on another terminal",
    "answer where it is shown",
  ],
  "not-foreground": [
    "not-foreground",
    "the plan is not in the foreground of its terminal",
    "bring it to the foreground and run it again",
  ],
};

function notClaimed(problem: ClaimProblem): KikiError {
  const [code, message] = CLAIM_TEXTS[problem];
  return fail("approval", code, message, ASK_AGAIN);
}

const CLAIM_TEXTS: Record<ClaimProblem, [code: string, message: string]> = {
  "other-caller": ["approval-other-caller", "this approval was given to somebody else"],
  "other-method": ["approval-other-method", "this approval is for another method"],
  "other-target": ["approval-other-target", "this approval is for something else"],
  "plan-changed": [
    "plan-changed",
    "what you confirmed is not what would happen now: something it is based on has changed",
  ],
  used: ["approval-used", "this approval has been used: what it allowed has been done"],
  expired: ["approval-expired", "this approval was not used in time"],
};

/** Why a plan cannot be confirmed where it was asked for; null when it can. */
export function presenceProblem(presence: Presence): KikiError | null {
  if (presence.unreadable) {
    return fail(
      "approval",
      "presenter-unreadable",
      "kiki cannot look at the process that shows the plan, so it cannot tell whether an agent started it",
      "run the command as yourself, outside of containers and namespaces",
    );
  }
  if (presence.agent) return notConfirmed("presenter-is-an-agent");
  if (presence.terminal === null) {
    return fail(
      "approval",
      "approval-no-terminal",
      "this needs a person's yes, and there is no foreground terminal to ask on",
      "run the same command in a terminal",
    );
  }
  return presence.foreground ? null : notConfirmed("not-foreground");
}
