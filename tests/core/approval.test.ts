import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  APPROVED_OPERATION_STATES,
  CHALLENGE_STATES,
  claimProblem,
  confirmProblem,
  consumesApproval,
  HUMAN_APPROVAL_STATES,
  resumeApproved,
  type ApprovalSubject,
} from "../../src/core/approval.ts";
import { refuted, seeded } from "../support/seed.ts";

const challenge = {
  state: "Pending" as const,
  expiresAt: 100,
  now: 50,
  nonceMatches: true,
  enrolledPresenter: true,
  foreground: true,
  sameTerminal: true,
  descendsFromAgent: false,
};
const subject: ApprovalSubject = { caller: "c", method: "Close", target: "r/t", digest: "d" };
const approval = {
  state: "Issued" as const,
  approved: subject,
  asked: subject,
  expiresAt: 100,
  now: 50,
};

describe("confirming a challenge", () => {
  const table: [string, Partial<Parameters<typeof confirmProblem>[0]>, string | null][] = [
    ["everything right", {}, null],
    ["one moment before it expires", { now: 99 }, null],
    ["the moment it expires", { now: 100 }, "expired"],
    ["confirmed before", { state: "Confirmed" }, "already-confirmed"],
    ["cancelled before", { state: "Cancelled" }, "cancelled"],
    ["expired before", { state: "Expired", now: 0 }, "expired"],
    ["wrong nonce", { nonceMatches: false }, "wrong-nonce"],
    ["any other credential", { enrolledPresenter: false }, "not-a-presenter"],
    ["on another terminal", { sameTerminal: false }, "other-terminal"],
    ["in the background", { foreground: false }, "not-foreground"],
    [
      "below an agent, on a terminal of its own",
      { descendsFromAgent: true },
      "presenter-is-an-agent",
    ],
  ];
  for (const [name, more, expected] of table) {
    test(`confirm: ${name} → ${expected ?? "confirmed"}`, () =>
      expect(confirmProblem({ ...challenge, ...more }) as string | null).toBe(expected));
  }

  const anyChallenge = fc.record({
    state: fc.constantFrom(...CHALLENGE_STATES),
    expiresAt: fc.integer({ min: 0, max: 9 }),
    now: fc.integer({ min: 0, max: 9 }),
    nonceMatches: fc.boolean(),
    enrolledPresenter: fc.boolean(),
    foreground: fc.boolean(),
    sameTerminal: fc.boolean(),
    descendsFromAgent: fc.boolean(),
  });
  test("confirm: any challenge → confirmed only when pending, in time, and by a presenter at its own terminal", () => {
    fc.assert(
      fc.property(anyChallenge, (c) => {
        const all =
          c.state === "Pending" &&
          c.now < c.expiresAt &&
          c.nonceMatches &&
          c.enrolledPresenter &&
          c.foreground &&
          c.sameTerminal &&
          !c.descendsFromAgent;
        expect(confirmProblem(c) === null).toBe(all);
      }),
      seeded(2000),
    );
  });
});

type Claim = typeof claimProblem;
const words = fc.constantFrom("a", "b");
const anySubject: fc.Arbitrary<ApprovalSubject> = fc.record({
  caller: words,
  method: words,
  target: words,
  digest: words,
});
const exact = (claim: Claim): fc.IProperty<[Parameters<Claim>[0]]> =>
  fc.property(
    fc.record({
      state: fc.constantFrom("Issued" as const, ...HUMAN_APPROVAL_STATES),
      approved: anySubject,
      asked: anySubject,
      expiresAt: fc.integer({ min: 0, max: 9 }),
      now: fc.integer({ min: 0, max: 9 }),
    }),
    (f) => {
      const same = JSON.stringify(f.approved) === JSON.stringify(f.asked);
      expect(claim(f) === null).toBe(same && f.state === "Issued" && f.now < f.expiresAt);
    },
  );

describe("claiming an approval", () => {
  const table: [string, Partial<Parameters<Claim>[0]>, string | null][] = [
    ["the exact plan", {}, null],
    ["another caller", { asked: { ...subject, caller: "x" } }, "other-caller"],
    ["another method", { asked: { ...subject, method: "Destroy" } }, "other-method"],
    ["another thread", { asked: { ...subject, target: "r/u" } }, "other-target"],
    ["the plan has changed", { asked: { ...subject, digest: "e" } }, "plan-changed"],
    ["claimed before", { state: "Claimed" }, "used"],
    ["consumed before", { state: "Consumed" }, "used"],
    ["too late", { now: 100 }, "expired"],
  ];
  for (const [name, more, expected] of table) {
    test(`claim: ${name} → ${expected ?? "claimed"}`, () =>
      expect(claimProblem({ ...approval, ...more }) as string | null).toBe(expected));
  }
  test("claim: any approval and any request → only the same four words, unused, in time", () => {
    fc.assert(exact(claimProblem), seeded(5000));
  });
  const wrong: [string, Claim][] = [
    [
      "the digest alone",
      (f) => claimProblem({ ...f, asked: { ...f.approved, digest: f.asked.digest } }),
    ],
    ["used twice", (f) => claimProblem({ ...f, state: "Issued" })],
    ["never too late", (f) => claimProblem({ ...f, expiresAt: Number.POSITIVE_INFINITY })],
  ];
  for (const [name, claim] of wrong) {
    test(`claim: ${name} → refuted`, () => expect(refuted(exact(claim), 5000)).toBe(true));
  }
});

test("approved operation: after a restart → each state has one way on, and an unknown outcome is looked at", () => {
  expect(APPROVED_OPERATION_STATES.map((s) => `${s} ${resumeApproved(s)}`)).toEqual([
    "Claimed start",
    "Running resume",
    "Completed nothing",
    "Failed nothing",
    "OutcomeUnknown observe",
  ]);
  expect(APPROVED_OPERATION_STATES.filter(consumesApproval)).toEqual(["Completed", "Failed"]);
});
