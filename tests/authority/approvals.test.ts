/** From a challenge to the one operation it is spent on, on the real tables of both databases. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Asked, Grant } from "../../src/authority/broker.ts";
import type { Presence } from "../../src/authority/presence.ts";
import { KikiError } from "../../src/core/errors.ts";
import { approvedOperation, type ApprovalStore } from "../../src/store/approvals.ts";
import { write } from "../../src/store/db.ts";
import { endOperation, insertOperation } from "../../src/store/lifecycle-ops.ts";
import { ASKED, LIFE_MS, makeAuthorityRig, PERSON, PLAN, type AuthorityRig } from "./rig.ts";

let rig: AuthorityRig;
beforeEach(() => {
  rig = makeAuthorityRig();
});
afterEach(() => rig.close());

const CALLER = { kind: "ThreadScoped", credentialId: "parser" } as const;

function codeOf(body: () => unknown): string {
  try {
    body();
    return "done";
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    expect(error.kind).toBe("approval");
    expect(error.hint).toBeDefined();
    return error.code;
  }
}

function begin(at: ApprovalStore = rig.repo, broker = rig.broker) {
  return broker.begin(at, PLAN, CALLER, PERSON);
}

function confirm(
  answer: { challengeId: string; nonce: string },
  presence: Presence = PERSON,
  at: ApprovalStore = rig.repo,
  broker = rig.broker,
): string {
  return broker.confirm(at, answer, { presenterId: "p1", presence }).approval;
}

/** Spends it on an operation of that id. */
function claim(
  grant: Grant,
  operationId: string,
  at = rig.repo,
  digest: string = PLAN.digest,
): void {
  write(at.db, () => grant.claim(operationId, { digest, lifecycle: false }));
}

function rows(at: ApprovalStore, table: string): Record<string, unknown>[] {
  return at.db.query<Record<string, unknown>, []>(`SELECT * FROM ${at.prefix}${table}`).all();
}

const STORES = ["repo", "user"] as const;

for (const which of STORES) {
  describe(`${which} approvals`, () => {
    test("begun, confirmed, claimed, ended → one row each, bound to caller, plan, presenter and terminal", () => {
      const at = rig[which];
      const challenge = begin(at);
      expect(challenge.expiresInMs).toBe(120_000);
      const approval = confirm(challenge, PERSON, at);
      claim(rig.broker.grant(at, approval, ASKED), "op-1", at);
      expect(rows(at, "approval_challenges")).toMatchObject([
        {
          challenge_id: challenge.challengeId,
          state: "Confirmed",
          method: "NewThread",
          target: "repo r1",
          args_json: '{"name":"x"}',
          plan_text: PLAN.text,
          plan_sha256: PLAN.digest,
          caller_kind: "ThreadScoped",
          caller_credential_id: "parser",
          presenter_id: "p1",
          terminal: "tty 1",
        },
      ]);
      expect(rows(at, "human_approvals")).toMatchObject([
        { approval_id: approval, operation_id: "op-1", consumed_at: null },
      ]);
      expect(rows(at, "approved_operations")).toMatchObject([
        { operation_id: "op-1", approval_id: approval, state: "Claimed" },
      ]);
      // The nonce itself is known to the client alone.
      expect(at.db.serialize().toString("latin1")).not.toContain(challenge.nonce);
    });

    test("read: spent at once → operation Completed, approval consumed, a second use refused", () => {
      const at = rig[which];
      const grant = rig.broker.grant(at, confirm(begin(at), PERSON, at), ASKED);
      grant.spend();
      expect(rows(at, "approved_operations")).toMatchObject([{ state: "Completed" }]);
      expect(rows(at, "human_approvals")[0]!["consumed_at"]).not.toBeNull();
      expect(codeOf(() => grant.spend())).toBe("approval-used");
      expect(codeOf(() => rig.broker.grant(at, grant.approvalId, ASKED))).toBe("approval-used");
    });
  });
}

describe("confirming", () => {
  const places: [string, Presence, string][] = [
    ["on another terminal", { ...PERSON, terminal: "tty 2" }, "other-terminal"],
    ["without a terminal", { ...PERSON, terminal: null }, "other-terminal"],
    ["in the background", { ...PERSON, foreground: false }, "not-foreground"],
    ["below an agent, on the same terminal", { ...PERSON, agent: true }, "presenter-is-an-agent"],
  ];
  for (const [name, presence, code] of places) {
    test(`confirm and cancel: ${name} → ${code}, still pending for the person`, () => {
      const challenge = begin();
      expect(codeOf(() => confirm(challenge, presence))).toBe(code);
      const presenter = { presenterId: "p1", presence };
      expect(codeOf(() => rig.broker.cancel(rig.repo, challenge, presenter))).toBe(code);
      expect(rows(rig.repo, "human_approvals")).toEqual([]);
      expect(confirm(challenge)).toMatch(/^[0-9a-f-]{36}$/);
    });
  }

  test("wrong nonce, another challenge's nonce → refused", () => {
    const [one, two] = [begin(), begin()];
    expect(codeOf(() => confirm({ ...one, nonce: "0".repeat(64) }))).toBe("wrong-nonce");
    expect(codeOf(() => confirm({ ...one, nonce: two.nonce }))).toBe("wrong-nonce");
  });

  test("unknown challenge, one of the other database → challenge-unknown", () => {
    const challenge = begin(rig.user);
    expect(codeOf(() => confirm(challenge))).toBe("challenge-unknown");
  });

  test("confirmed twice → one approval", () => {
    const challenge = begin();
    confirm(challenge);
    expect(codeOf(() => confirm(challenge))).toBe("challenge-confirmed");
    expect(rows(rig.repo, "human_approvals")).toHaveLength(1);
  });

  test("cancelled → confirms nothing any more; no said twice is still no", () => {
    const challenge = begin();
    const presenter = { presenterId: "p1", presence: PERSON };
    rig.broker.cancel(rig.repo, challenge, presenter);
    rig.broker.cancel(rig.repo, challenge, presenter);
    expect(codeOf(() => confirm(challenge))).toBe("challenge-cancelled");
    expect(rows(rig.repo, "approval_challenges")).toMatchObject([{ state: "Cancelled" }]);
  });

  test("the moment the time is over → expired, recorded as such", () => {
    const challenge = begin();
    rig.clock.advance(LIFE_MS - 1);
    const other = begin();
    rig.clock.advance(1);
    expect(codeOf(() => confirm(challenge))).toBe("challenge-expired");
    expect(rows(rig.repo, "approval_challenges").map((row) => row["state"])).toEqual([
      "Expired",
      "Pending",
    ]);
    confirm(other);
  });
});

describe("using an approval", () => {
  const others: [string, Partial<Asked>, string][] = [
    ["another caller", { credentialId: "registration" }, "approval-other-caller"],
    ["another method", { method: "ApplyRepair" }, "approval-other-method"],
    ["another target", { target: "repo r2" }, "approval-other-target"],
    ["a changed argument", { args: { name: "y" } }, "plan-changed"],
    ["one argument more", { args: { name: "x", base: "@" } }, "plan-changed"],
  ];
  for (const [name, more, code] of others) {
    test(`grant: ${name} → ${code}; the caller it was for still has it`, () => {
      const approval = confirm(begin());
      const asked = { ...ASKED, ...more };
      expect(codeOf(() => rig.broker.grant(rig.repo, approval, asked))).toBe(code);
      claim(rig.broker.grant(rig.repo, approval, ASKED), "op-1");
    });
  }

  test("changed repository state: the plan made now has another digest → plan-changed, nothing claimed", () => {
    const grant = rig.broker.grant(rig.repo, confirm(begin()), ASKED);
    expect(codeOf(() => claim(grant, "op-1", rig.repo, "e".repeat(64)))).toBe("plan-changed");
    expect(rows(rig.repo, "approved_operations")).toEqual([]);
    claim(grant, "op-1");
  });

  test("not used in time → approval-expired, also when it was looked up before", () => {
    const approval = confirm(begin());
    const grant = rig.broker.grant(rig.repo, approval, ASKED);
    rig.clock.advance(LIFE_MS);
    expect(codeOf(() => claim(grant, "op-1"))).toBe("approval-expired");
    expect(codeOf(() => rig.broker.grant(rig.repo, approval, ASKED))).toBe("approval-expired");
  });

  for (const days of [1, -1]) {
    test(`wall clock jumps by ${days} day in between → confirmed and claimed all the same, expired as long after`, () => {
      const challenge = begin();
      rig.clock.jump(days * 86_400_000);
      const approval = confirm(challenge);
      rig.clock.jump(-2 * days * 86_400_000);
      const late = confirm(begin());
      claim(rig.broker.grant(rig.repo, approval, ASKED), "op-1");
      rig.clock.advance(LIFE_MS);
      expect(codeOf(() => rig.broker.grant(rig.repo, late, ASKED))).toBe("approval-expired");
    });
  }

  test("replay after the operation has ended → approval-used", () => {
    const approval = confirm(begin());
    const grant = rig.broker.grant(rig.repo, approval, ASKED);
    grant.spend();
    expect(codeOf(() => rig.broker.grant(rig.repo, approval, ASKED))).toBe("approval-used");
  });

  test("an answer lost while the operation runs → the same call finds that operation, no other may use it", () => {
    const approval = confirm(begin());
    claim(rig.broker.grant(rig.repo, approval, ASKED), "op-1");
    // Its own operation is past expiry, too.
    rig.clock.advance(LIFE_MS);
    const again = rig.restarted().grant(rig.repo, approval, ASKED);
    expect(again.begun).toBe("op-1");
    expect(codeOf(() => claim(again, "op-2"))).toBe("approval-used");
    const other = { ...ASKED, credentialId: "registration" };
    expect(codeOf(() => rig.broker.grant(rig.repo, approval, other))).toBe("approval-other-caller");
  });

  test("claim outside a transaction → a bug, loud", () => {
    const grant = rig.broker.grant(rig.repo, confirm(begin()), ASKED);
    expect(() => grant.claim("op-1", { digest: PLAN.digest, lifecycle: false })).toThrow(
      "with its effect",
    );
  });

  test("the transaction of the effect fails → nothing is spent", () => {
    const grant = rig.broker.grant(rig.repo, confirm(begin()), ASKED);
    expect(() =>
      write(rig.repo.db, () => {
        grant.claim("op-1", { digest: PLAN.digest, lifecycle: false });
        throw new Error("the disk is full");
      }),
    ).toThrow("the disk is full");
    claim(grant, "op-2");
  });

  test("daemon restarts between any two of begin, confirm and claim → nothing is lost", () => {
    const challenge = begin();
    const approval = confirm(challenge, PERSON, rig.repo, rig.restarted());
    claim(rig.restarted().grant(rig.repo, approval, ASKED), "op-1");
    expect(approvedOperation(rig.repo, "op-1")?.state).toBe("Claimed");
  });

  test("two clients race for one approval, 100 rounds → one wins each time", async () => {
    for (let round = 0; round < 100; round += 1) {
      const approval = confirm(begin());
      const grants = [1, 2].map(() => rig.broker.grant(rig.repo, approval, ASKED));
      const race = grants.map(async (grant, i) => {
        // In either order: what comes before a claim (the preflight) takes its time.
        if ((round + i) % 2 === 0) await Promise.resolve();
        return codeOf(() => claim(grant, `op-${round}-${i}`));
      });
      expect((await Promise.all(race)).sort()).toEqual(["approval-used", "done"]);
    }
    expect(rows(rig.repo, "approved_operations")).toHaveLength(100);
  });
});

describe("an approval spent on a saga", () => {
  function operation(approval: string): void {
    const grant = rig.broker.grant(rig.repo, approval, ASKED);
    write(rig.repo.db, () => {
      const row = { threadId: "parser", kind: "Create" as const, args: {}, steps: [], now: 1 };
      insertOperation(rig.repo.db, { ...row, operationId: "op-1" });
      grant.claim("op-1", { digest: PLAN.digest, lifecycle: true });
    });
  }

  for (const [state, error] of [
    ["Completed", null],
    ["Failed", "no more disk"],
  ] as const) {
    test(`saga ends ${state} → operation ${state} and approval consumed, in that transaction`, () => {
      operation(confirm(begin()));
      expect(rows(rig.repo, "approved_operations")).toMatchObject([
        { state: "Running", lifecycle_operation_id: "op-1" },
      ]);
      const end = error === null ? { state, now: 9 } : { state, error, now: 9 };
      write(rig.repo.db, () => endOperation(rig.repo.db, "op-1", end));
      expect(rows(rig.repo, "approved_operations")).toMatchObject([{ state, error, ended_at: 9 }]);
      expect(rows(rig.repo, "human_approvals")).toMatchObject([{ consumed_at: 9 }]);
    });
  }

  test("crash between claim and effect, crash after effect before consumption → only that operation goes on", () => {
    const approval = confirm(begin());
    operation(approval);
    // A new daemon: the saga's journal is what it resumes; the approval opens nothing else.
    const again = rig.restarted().grant(rig.repo, approval, ASKED);
    expect(again.begun).toBe("op-1");
    expect(codeOf(() => claim(again, "op-2"))).toBe("approval-used");
    write(rig.repo.db, () => endOperation(rig.repo.db, "op-1", { state: "Completed", now: 9 }));
    expect(codeOf(() => rig.broker.grant(rig.repo, approval, ASKED))).toBe("approval-used");
  });
});
