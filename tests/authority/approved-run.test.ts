/** Approved operations without a saga: outcomes, restarts at every moment, and outcomes nobody can tell. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  OutcomeUnknown,
  runApproved,
  type ApprovedEnd,
  type ApprovedWork,
  type StepSeen,
} from "../../src/authority/approved-run.ts";
import { approvedOperation, openApprovedOperations } from "../../src/store/approvals.ts";
import { approvedSteps } from "../../src/store/approved-steps.ts";
import { write } from "../../src/store/db.ts";
import { ASKED, makeAuthorityRig, PERSON, PLAN, type AuthorityRig } from "./rig.ts";

let rig: AuthorityRig;
/** What is there in the world outside, in the order in which it came. */
let world: string[];
/** A look at the world says nothing. */
let blind: boolean;
/** Thrown by the second step before it does anything; after it has. */
let refuse: Error | null;
let lose: Error | null;
let crashAt: string | null;
let approval: string;

beforeEach(() => {
  rig = makeAuthorityRig();
  [world, blind, refuse, lose, crashAt] = [[], false, null, null, null];
  const presenter = { presenterId: "p1", presence: PERSON };
  const caller = { kind: "ThreadScoped", credentialId: "parser" } as const;
  const challenge = rig.broker.begin(rig.user, PLAN, caller, PERSON);
  ({ approval } = rig.broker.confirm(rig.user, challenge, presenter));
  const grant = rig.broker.grant(rig.user, approval, ASKED);
  write(rig.userDb, () => grant.claim("op", { digest: PLAN.digest, lifecycle: false }));
});
afterEach(() => rig.close());

function work(): ApprovedWork {
  const seen = (name: string): StepSeen =>
    blind ? "unknown" : world.includes(name) ? "done" : "not-done";
  const step = (name: string) => ({
    name,
    observe: () => seen(name),
    run() {
      if (name === "push" && refuse !== null) throw refuse;
      world.push(name);
      if (name === "push" && lose !== null) throw lose;
    },
  });
  return {
    identity: { remote: "origin" },
    steps: [step("pack"), step("push")],
    outcome: () => ({ pushed: world.length }),
  };
}

function run(): Promise<ApprovedEnd> {
  return runApproved(
    {
      at: rig.user,
      now: () => rig.clock.now(),
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      crash: {
        at(name) {
          if (name !== crashAt) return;
          crashAt = null;
          throw new Error("died");
        },
      },
    },
    "op",
    work(),
  );
}

const consumed = (): unknown =>
  rig.userDb
    .query<{ at: number | null }, []>("SELECT consumed_at AS at FROM user_human_approvals")
    .get()!.at;

test("every step runs once, in order → Completed, outcome kept, approval consumed", async () => {
  expect(await run()).toMatchObject({ state: "Completed", outcome: { pushed: 2 } });
  expect(world).toEqual(["pack", "push"]);
  expect(consumed()).not.toBeNull();
  expect(await run()).toMatchObject({ state: "Completed", outcome: { pushed: 2 } });
  expect(world).toEqual(["pack", "push"]);
});

for (const step of ["pack", "push"]) {
  for (const moment of ["before", "started", "effected", "completed"]) {
    test(`dies at ${step}.${moment} → goes on there, nothing twice, approval not free in between`, async () => {
      crashAt = `approved.NewThread.${step}.${moment}`;
      expect(await run().catch((error: Error) => error.message)).toBe("died");
      expect(openApprovedOperations(rig.user).map((op) => op.operationId)).toEqual(["op"]);
      expect(consumed()).toBeNull();
      expect(await run()).toMatchObject({ state: "Completed" });
      expect(world).toEqual(["pack", "push"]);
      expect(openApprovedOperations(rig.user)).toEqual([]);
    });
  }
}

test("a step fails → Failed with its reason, approval consumed, later steps never begun", async () => {
  refuse = new Error("refused by the remote");
  expect(await run()).toMatchObject({
    state: "Failed",
    error: "refused by the remote",
    thrown: refuse,
  });
  expect(world).toEqual(["pack"]);
  expect(consumed()).not.toBeNull();
  expect((await run()).state).toBe("Failed");
});

test("a step may have happened → OutcomeUnknown, approval neither free nor consumed, not done again", async () => {
  lose = new OutcomeUnknown("the answer was lost");
  expect(await run()).toMatchObject({ state: "OutcomeUnknown", error: "the answer was lost" });
  expect(consumed()).toBeNull();
  blind = true;
  expect(await run()).toMatchObject({ state: "OutcomeUnknown" });
  expect(world).toEqual(["pack", "push"]);
  expect(rig.broker.grant(rig.user, approval, ASKED).begun).toBe("op");
});

test("OutcomeUnknown, then seen → Completed without doing it again", async () => {
  lose = new OutcomeUnknown("the answer was lost");
  await run();
  lose = null;
  expect((await run()).state).toBe("Completed");
  expect(world).toEqual(["pack", "push"]);
});

test("OutcomeUnknown, then seen not to have happened → done, once", async () => {
  refuse = new OutcomeUnknown("the connection broke");
  expect((await run()).state).toBe("OutcomeUnknown");
  refuse = null;
  expect((await run()).state).toBe("Completed");
  expect(world).toEqual(["pack", "push"]);
  expect(approvedSteps(rig.user, "op").map((row) => [row.name, row.state, row.attempts])).toEqual([
    ["pack", "Completed", 1],
    ["push", "Completed", 2],
  ]);
  expect(approvedOperation(rig.user, "op")?.state).toBe("Completed");
});
