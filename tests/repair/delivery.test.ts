/** The two ways out of an exhausted delivery: what is shown, what each writes in one transaction, and what follows. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Claim } from "../../src/core/approval.ts";
import { runSaga } from "../../src/lifecycle/saga-runner.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { deliveryRepairer } from "../../src/repair/delivery-repairs.ts";
import { makeEdgeRepairs } from "../../src/repair/edge-repairs.ts";
import { makeRepairs, type Repairs } from "../../src/repair/repairs.ts";
import {
  claimApproval,
  approvalById,
  closeChallenge,
  insertApproval,
  insertChallenge,
  moveApprovedOperation,
} from "../../src/store/approvals.ts";
import { latestOperation, stepsOf } from "../../src/store/lifecycle-ops.ts";
import { sessionsOf } from "../../src/store/sessions.ts";
import { makePair } from "../cascade/pair.ts";
import type { Rig, TestThread } from "../cascade/rig.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const CALLER = { harnessExecutable: null, env: {} };
const sha256Hex = (text: string): string =>
  new Bun.CryptoHasher("sha256").update(text).digest("hex");

interface Exhausted {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  repairs: Repairs;
}

/** A thread whose agent could not be told, after three starts. */
async function exhausted(typed: string | null = null): Promise<Exhausted> {
  const { rig, parent, child, amend } = await makePair({ before: {} });
  rigs.push(rig);
  await amend("two\n");
  await rig.agent(child).call();
  if (typed !== null)
    await rig
      .agent(child)
      .event({ type: "UserPrompt", sessionId: "s", promptId: "p", prompt: typed });
  rig.agents.ended({ threadId: child.id, incarnation: child.incarnation }, "Crashed");
  for (const nth of [1, 2, 3]) rig.agents.ended(await rig.agents.nth(nth), "Crashed");
  const late: { repairs?: Repairs } = {};
  const common = {
    db: rig.db,
    clock: { now: () => 7, monotonic: () => 7, sleep: () => Promise.resolve() },
    ids: { uuid: () => crypto.randomUUID(), secret: () => "" },
  };
  const repairs = makeRepairs({
    db: rig.db,
    sha256Hex,
    repairers: [
      makeEdgeRepairs({
        ...common,
        crash: NO_CRASH,
        log: { info: () => undefined, warn: () => undefined, error: () => undefined },
        troubles: rig.cascade.troubles,
        runSaga: (saga) => runSaga(saga),
        repairHolds: (threadId, id) => late.repairs!.holds(threadId, id),
      }),
      deliveryRepairer({
        ...common,
        attempts: () => 3,
        cascade: {
          retryDelivery: (...args) => rig.cascade.retryDelivery(...args),
          discardDelivery: (...args) => rig.cascade.discardDelivery(...args),
        },
      }),
    ],
  });
  late.repairs = repairs;
  return { rig, parent, child, repairs };
}

const intent = (x: Exhausted) => x.rig.intents(x.child)[0]!;

async function idOf(x: Exhausted, kind: string): Promise<string> {
  return (await x.repairs.diagnose(x.child.id)).plans.find((p) => p.kind === kind)!.id;
}

/** A person's confirmed approval, spent on the operation that is begun. */
function approved({ rig }: Exhausted): { approvalId: string; claim: Claim } {
  const at = { db: rig.db, prefix: "" } as const;
  const [challengeId, approvalId] = [crypto.randomUUID(), crypto.randomUUID()];
  const planSha256 = sha256Hex(challengeId);
  insertChallenge(at, {
    challengeId,
    nonceSha256: sha256Hex(`nonce ${challengeId}`),
    method: "ApplyRepair",
    target: "thread",
    args: "{}",
    planText: "plan",
    planSha256,
    callerKind: "RegistrationScoped",
    callerCredentialId: "c",
    createdAt: 1,
    expiresAt: 100,
    terminal: "/dev/pts/1",
  });
  closeChallenge(at, challengeId, { state: "Confirmed", presenterId: "p", closedAt: 2 });
  insertApproval(at, { approvalId, challengeId, planSha256, issuedAt: 2, expiresAt: 100 });
  const claim: Claim = (operationId) => {
    const row = approvalById(at, approvalId)!;
    claimApproval(at, row, { operationId, lifecycleOperationId: operationId, now: 3 });
    moveApprovedOperation(at, operationId, { state: "Running" });
  };
  return { approvalId, claim };
}

test("exhausted delivery → diagnosed with its attempts and both ways out; ids stay while nothing changes", async () => {
  const x = await exhausted();
  const found = await x.repairs.diagnose(x.child.id);
  expect(found.needsRepair).toBe(true);
  expect(found.plans.map((p) => p.kind)).toEqual(["retry-delivery", "discard-delivery"]);
  expect(found.authority.filter((f) => f.name.startsWith("attempt")).map((f) => f.value)).toEqual([
    "never ready: exit code 1",
    "never ready: exit code 1",
    "never ready: exit code 1",
  ]);
  expect((await x.repairs.diagnose(x.child.id)).plans).toEqual(found.plans);
  await x.rig.reboot();
  expect((await x.repairs.diagnose(x.child.id)).plans).toEqual(found.plans);
});

test("retry-delivery → journal, approval and next epoch in one transaction; a fresh cycle begins; the old id is stale", async () => {
  const x = await exhausted();
  const id = await idOf(x, "retry-delivery");
  const { claim } = approved(x);
  let inside: unknown = null;
  const plan = await x.repairs.plan(x.child.id, id, CALLER);
  expect(plan.textFor(80)).toContain("cycle 2 of this delivery begins");
  const operationId = await plan.begin((operation) => {
    claim(operation);
    inside = [x.rig.db.inTransaction, intent(x).exhausted];
  });
  expect(inside).toEqual([true, true]);
  expect(intent(x)).toMatchObject({ exhausted: false, epoch: 2, softRedeliveryCount: 0 });
  expect(latestOperation(x.rig.db, x.child.id)).toMatchObject({
    operationId,
    kind: "Repair",
    state: "Completed",
    args: { repairId: id, repair: "retry-delivery" },
  });
  expect(stepsOf(x.rig.db, operationId).map((s) => [s.name, s.state])).toEqual([
    ["recheck", "Completed"],
    ["epoch", "Completed"],
  ]);
  const fresh = await x.rig.replaced(x.child, 4);
  expect(sessionsOf(x.rig.db, x.child.id)).toHaveLength(5);
  x.rig.agents.ready(fresh);
  const agent = x.rig.agent(x.child);
  await agent.event({
    type: "UserPrompt",
    sessionId: "s",
    promptId: agent.prompt,
    prompt: fresh.prompt!,
  });
  expect((await agent.call()).text).toBeNull();
  expect(intent(x).state).toBe("Acknowledged");
  expect(await failureOf(x.repairs.plan(x.child.id, id, CALLER))).toMatchObject({
    code: "repair-stale",
  });
});

test("discard-delivery → acknowledged without proof, with the approval that says so; the agent goes on, not told", async () => {
  const x = await exhausted();
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "discard-delivery"), CALLER);
  const { approvalId, claim } = approved(x);
  await plan.begin(claim);
  const row = x.rig.db
    .query("SELECT state, discard, discard_approval_id AS approval FROM sync_intents")
    .get();
  expect(row).toEqual({ state: "Acknowledged", discard: "delivery", approval: approvalId });
  const approval = x.rig.db.query("SELECT consumed_at AS at FROM human_approvals").get();
  expect(approval).toEqual({ at: 7 });
  const started = await x.rig.replaced(x.child, 4);
  expect(started).toMatchObject({ prompt: null });
  expect(started.resumes).not.toBeNull();
  x.rig.agents.ready(started);
  expect((await x.rig.agent(x.child).call()).text).toBeNull();
  expect(x.rig.barrier(x.child)).toBe(false);
});

test("discard-delivery, a person had typed meanwhile → the agent that goes on gets their words, and nothing of the payload", async () => {
  const x = await exhausted("rename it to lexer");
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "discard-delivery"), CALLER);
  await plan.begin(approved(x).claim);
  const started = await x.rig.replaced(x.child, 4);
  expect(started.prompt).toEndWith("rename it to lexer");
  expect(started.prompt).not.toContain(intent(x).payload!);
});

test("discard-delivery, the agent cannot be started then → said; the next daemon starts it, once", async () => {
  const x = await exhausted();
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "discard-delivery"), CALLER);
  x.rig.agents.refuses = new Error("its pane is gone");
  await plan.begin(approved(x).claim);
  await waitFor(
    () => x.rig.attention(x.child).some((m) => m.includes("its pane is gone")),
    20_000,
    "it is said",
  );
  await x.rig.reboot();
  x.rig.agents.refuses = null;
  await x.rig.reboot();
  const started = await x.rig.replaced(x.child, 4);
  expect(started).toMatchObject({ prompt: null });
  expect(x.rig.attention(x.child)).toEqual([]);
  x.rig.agents.ready(started);
  x.rig.agents.ended(started, "Quiescent");
  await x.rig.reboot();
  expect(sessionsOf(x.rig.db, x.child.id)).toHaveLength(5);
});

test("discard-delivery, no approval was spent on it → refused, and nothing at all is written", async () => {
  const x = await exhausted();
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "discard-delivery"), CALLER);
  const before = latestOperation(x.rig.db, x.child.id);
  expect(await failureOf(plan.begin(() => undefined))).toMatchObject({ code: "approval-missing" });
  expect(latestOperation(x.rig.db, x.child.id)).toEqual(before);
  expect(intent(x).exhausted).toBe(true);
});

test("plan confirmed, the delivery retried meanwhile → stale, nothing written twice", async () => {
  const x = await exhausted();
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "retry-delivery"), CALLER);
  const again = await x.repairs.plan(x.child.id, await idOf(x, "retry-delivery"), CALLER);
  await plan.begin(approved(x).claim);
  expect(await failureOf(again.begin(() => undefined))).toMatchObject({ code: "repair-stale" });
  expect(intent(x).epoch).toBe(2);
});

test("its edge waits for a person, too → all ways out, ids of their own; each settles what was said about it, and no more", async () => {
  const x = await exhausted();
  const retry = await idOf(x, "retry-delivery");
  await x.rig.repo.jj(["edit", "@-"], x.parent.path);
  await x.rig.cascade.refreshToFrontier();
  expect(x.rig.intents(x.child).map((i) => i.state)).toContain("TopologyDiverged");
  const { plans } = await x.repairs.diagnose(x.child.id);
  const kinds = plans.map((p) => p.kind);
  expect(kinds).toContain("transition-discard");
  expect(kinds).toContain("discard-delivery");
  expect(await idOf(x, "retry-delivery")).toBe(retry);
  const said = (): string[] =>
    x.rig.attention(x.child).filter((m) => !m.includes("moved in a way"));
  const [exhaustion, ...others] = said();
  expect(exhaustion).toContain("could not be told");
  expect(others).toEqual([]);
  expect(x.rig.attention(x.child)).toHaveLength(2);
  const plan = await x.repairs.plan(x.child.id, await idOf(x, "transition-discard"), CALLER);
  const second = await x.repairs.plan(x.child.id, retry, CALLER);
  await plan.begin(approved(x).claim);
  // One thing at a time: the journal of the other one runs.
  expect(await failureOf(second.begin(() => undefined))).toMatchObject({ code: "repair-stale" });
  await waitFor(
    () => latestOperation(x.rig.db, x.child.id)?.state !== "Running",
    20_000,
    "the repair has ended",
  );
  expect(latestOperation(x.rig.db, x.child.id)).toMatchObject({ state: "Completed" });
  expect(x.rig.attention(x.child)).toEqual([exhaustion!]);
  await (await x.repairs.plan(x.child.id, retry, CALLER)).begin(approved(x).claim);
  expect(x.rig.attention(x.child)).toEqual([]);
});
