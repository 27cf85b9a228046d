import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { refuted, seeded } from "../support/seed.ts";
import {
  AFTER_BLOCK,
  NO_ECHO,
  completionOf,
  decideBoundary,
  judgeReceipt,
  judgeRecord,
  MAX_BLOCKED_BATCHES_IN_A_ROW,
  MAX_SOFT_REDELIVERIES,
  type ActiveBarrier,
  type ActiveRestart,
  type BoundaryDecision,
  type BoundaryFacts,
} from "../../src/core/barrier.ts";
import { INTENT_STATES, type IntentState } from "../../src/core/intent.ts";

const active = (over: Partial<ActiveBarrier> = {}): ActiveBarrier => ({
  intentId: "i1",
  state: "Delivered",
  batch: { incarnation: "inc", ordinal: 4 },
  completed: true,
  receipt: "matching",
  redeliveries: 0,
  ...over,
});
const facts = (over: Partial<BoundaryFacts> = {}): BoundaryFacts => ({
  agentId: null,
  batch: { incarnation: "inc", ordinal: 5 },
  admission: null,
  active: null,
  next: null,
  blockedInARow: 0,
  hasCopy: false,
  ...over,
});
const restarted = (over: Partial<ActiveRestart> = {}): ActiveRestart => ({
  intentId: "i1",
  incarnation: "inc",
  echo: { shown: [2], answered: null },
  ...over,
});
const detected = { intentId: "i2", state: "Detected", exhausted: false } as const;

describe("decideBoundary, main agent", () => {
  const same = { incarnation: "inc", ordinal: 4 };
  const cases: [string, BoundaryFacts, BoundaryDecision][] = [
    ["nothing ready → pass", facts(), { act: "pass" }],
    ["work ready, fresh batch → bind", facts({ next: detected }), { act: "bind", intentId: "i2" }],
    [
      "work ready, batch already let through → pass",
      facts({ next: detected, admission: "PassThrough" }),
      { act: "pass" },
    ],
    [
      "work ready after two blocked batches in a row → pass",
      facts({ next: detected, blockedInARow: MAX_BLOCKED_BATCHES_IN_A_ROW }),
      { act: "pass" },
    ],
    [
      "sibling of the bound batch, prepared → payload, never an acknowledgement",
      facts({ active: active(), batch: same }),
      { act: "deny-payload", intentId: "i1" },
    ],
    [
      "sibling of the bound batch, not prepared → wait for the payload",
      facts({
        active: active({ state: "Reconciling", completed: false, receipt: null }),
        batch: same,
      }),
      { act: "await-payload", intentId: "i1" },
    ],
    [
      "another batch before the bound one completed → block",
      facts({ active: active({ completed: false, receipt: null }) }),
      { act: "block", intentId: "i1", reason: "batch-not-complete" },
    ],
    [
      "complete, matching, later turn → acknowledge",
      facts({ active: active() }),
      { act: "acknowledge", intentId: "i1" },
    ],
    [
      "complete, matching, MarkDelivered lost → acknowledge",
      facts({ active: active({ state: "Materialized" }) }),
      { act: "acknowledge", intentId: "i1" },
    ],
    [
      "complete, matching, but another incarnation → redeliver, never acknowledge",
      facts({ active: active(), batch: { incarnation: "other", ordinal: 9 } }),
      { act: "rebind", intentId: "i1", needsReconcile: false },
    ],
    [
      "complete, contrary → redeliver",
      facts({ active: active({ receipt: "contrary" }) }),
      { act: "rebind", intentId: "i1", needsReconcile: false },
    ],
    [
      "complete, contrary, not prepared → rebind and reconcile",
      facts({ active: active({ state: "Reconciling", receipt: "contrary" }) }),
      { act: "rebind", intentId: "i1", needsReconcile: true },
    ],
    [
      "contrary again after the redelivery → block",
      facts({ active: active({ receipt: "contrary", redeliveries: MAX_SOFT_REDELIVERIES }) }),
      { act: "block", intentId: "i1", reason: "second-contrary-receipt" },
    ],
    [
      "serial, not in the record, nothing else waits → pass, acknowledges nothing",
      facts({ active: active(), place: "unknown" }),
      { act: "pass" },
    ],
    [
      "serial, not in the record, other work waits → block",
      facts({ active: active(), place: "unknown", next: detected }),
      { act: "block", intentId: "i1", reason: "receipt-unreadable" },
    ],
    [
      "serial, not in the record, a sibling was seen before → block",
      facts({
        active: active(),
        place: "unknown",
        proof: { soft: true, violations: 1, fresh: false, inFlight: false },
      }),
      { act: "block", intentId: "i1", reason: "receipt-unreadable" },
    ],
    [
      "serial, in no order → block",
      facts({ active: active(), place: "contradicted" }),
      { act: "block", intentId: "i1", reason: "no-rule-matches" },
    ],
    [
      "serial, not in the record, work ready → pass, nothing is bound",
      facts({ place: "unknown", next: detected }),
      { act: "pass" },
    ],
    [
      "boundary lost, work ready, nothing in flight → block and restart",
      facts({
        next: detected,
        proof: { soft: false, violations: 2, fresh: false, inFlight: false },
      }),
      { act: "block", intentId: "i2", reason: "boundary-unproved" },
    ],
    [
      "boundary lost, work ready, a call in flight → pass",
      facts({
        next: detected,
        proof: { soft: false, violations: 2, fresh: false, inFlight: true },
      }),
      { act: "pass" },
    ],
    [
      "boundary lost, just restarted, more work → one batch first",
      facts({
        next: detected,
        proof: { soft: false, violations: 0, fresh: true, inFlight: false },
      }),
      { act: "pass" },
    ],
    [
      "boundary lost at an active barrier → block and restart",
      facts({
        active: active(),
        proof: { soft: false, violations: 2, fresh: false, inFlight: false },
      }),
      { act: "block", intentId: "i1", reason: "boundary-unproved" },
    ],
    [
      "recovery needed → block, whatever the batch",
      facts({ active: active({ state: "RecoveryRequired" }), batch: same }),
      { act: "block", intentId: "i1", reason: "recovery-required" },
    ],
    [
      "exhausted → block",
      facts({ next: { ...detected, exhausted: true } }),
      { act: "block", intentId: "i2", reason: "delivery-exhausted" },
    ],
    [
      "session changed after the redelivery → block, not another round",
      facts({ active: active({ sessionChanged: true, redeliveries: MAX_SOFT_REDELIVERIES }) }),
      { act: "block", intentId: "i1", reason: "no-rule-matches" },
    ],
    [
      "complete, matching, session changed → redeliver",
      facts({ active: active({ sessionChanged: true }) }),
      { act: "rebind", intentId: "i1", needsReconcile: false },
    ],
    [
      "a call of an earlier batch than the bound one → block",
      facts({ active: active(), batch: { incarnation: "inc", ordinal: 3 } }),
      { act: "block", intentId: "i1", reason: "no-rule-matches" },
    ],
    [
      "receipt unreadable, nothing else waits → pass, nothing acknowledged",
      facts({ active: active({ receipt: "unreadable" }) }),
      { act: "pass" },
    ],
    [
      "receipt unreadable, another delivery waits → block",
      facts({ active: active({ receipt: "unreadable" }), next: detected }),
      { act: "block", intentId: "i1", reason: "receipt-unreadable" },
    ],
    [
      "receipt unreadable, payload not prepared → redelivered, files first: nothing passes beside them",
      facts({ active: active({ state: "Reconciling", receipt: "unreadable" }) }),
      { act: "rebind", intentId: "i1", needsReconcile: true },
    ],
    [
      "receipt unreadable, of another conversation → redelivered to this one",
      facts({ active: active({ receipt: "unreadable", sessionChanged: true }) }),
      { act: "rebind", intentId: "i1", needsReconcile: false },
    ],
    [
      "diverged edge → pass",
      facts({ next: { ...detected, state: "TopologyDiverged" } }),
      { act: "pass" },
    ],
    [
      "restart, nothing echoed yet → block",
      facts({ restart: restarted({ echo: NO_ECHO }), promptOrdinal: 1 }),
      { act: "block", intentId: "i1", reason: "startup-not-echoed" },
    ],
    [
      "restart, a call of the echoed prompt → acknowledge",
      facts({ restart: restarted(), promptOrdinal: 2 }),
      { act: "acknowledge", intentId: "i1" },
    ],
    [
      "restart, a call of a later prompt, the echoed one's turn had come to its end → acknowledge",
      facts({ restart: restarted({ echo: { shown: [2], answered: 2 } }), promptOrdinal: 7 }),
      { act: "acknowledge", intentId: "i1" },
    ],
    [
      "restart, a call of a later prompt, the echoed one's turn was broken off → block, started anew",
      facts({ restart: restarted(), promptOrdinal: 7 }),
      { act: "block", intentId: "i1", reason: "startup-taken-back" },
    ],
    [
      "restart, taken back and sent once more, a call of that → acknowledge",
      facts({ restart: restarted({ echo: { shown: [2, 4], answered: null } }), promptOrdinal: 4 }),
      { act: "acknowledge", intentId: "i1" },
    ],
    [
      "restart, taken back and sent once more, a call of what was sent between → block",
      facts({ restart: restarted({ echo: { shown: [2, 4], answered: null } }), promptOrdinal: 3 }),
      { act: "block", intentId: "i1", reason: "startup-not-echoed" },
    ],
    [
      "restart, a call of an earlier prompt → block",
      facts({ restart: restarted(), promptOrdinal: 1 }),
      { act: "block", intentId: "i1", reason: "startup-not-echoed" },
    ],
    [
      "restart, the call does not say of which prompt it is → block",
      facts({ restart: restarted() }),
      { act: "block", intentId: "i1", reason: "startup-not-echoed" },
    ],
    [
      "restart, a call of another incarnation → block",
      facts({ restart: restarted({ incarnation: "old" }), promptOrdinal: 2 }),
      { act: "block", intentId: "i1", reason: "startup-not-echoed" },
    ],
    [
      "prepared but unbound → bind to this batch at once",
      facts({ next: { ...detected, state: "Materialized" }, blockedInARow: 5 }),
      { act: "rebind", intentId: "i2", needsReconcile: false },
    ],
  ];
  for (const [name, input, expected] of cases) {
    test(name, () => expect(decideBoundary(input)).toEqual(expected));
  }
});

describe("decideBoundary, other agents", () => {
  const sub = (over: Partial<BoundaryFacts>) => facts({ agentId: "a7", ...over });
  test("no barrier, work ready → pass: only the main agent binds", () =>
    expect(decideBoundary(sub({ next: detected }))).toEqual({ act: "pass" }));
  test("bound, incomplete → a copy each time", () =>
    expect(decideBoundary(sub({ active: active({ completed: false }), hasCopy: true })).act).toBe(
      "deny-payload",
    ));
  test("complete, no copy yet → one copy", () =>
    expect(decideBoundary(sub({ active: active() })).act).toBe("deny-payload"));
  test("complete, has its copy → pass, never an acknowledgement", () =>
    expect(decideBoundary(sub({ active: active(), hasCopy: true }))).toEqual({ act: "pass" }));
});

describe("decideBoundary, other agents while the main one is paused", () => {
  for (const [name, next, reason] of [
    ["recovery", { ...detected, state: "RecoveryRequired" as const }, "recovery-required"],
    [
      "exhausted",
      { ...detected, state: "Materialized" as const, exhausted: true },
      "delivery-exhausted",
    ],
  ] as const) {
    test(`${name} → block`, () =>
      expect(decideBoundary(facts({ agentId: "a7", next }))).toEqual({
        act: "block",
        intentId: "i2",
        reason,
      }));
  }
  test("restart not acknowledged → the payload, never a pass", () =>
    expect(
      decideBoundary(facts({ agentId: "a7", restart: restarted(), promptOrdinal: 2 })).act,
    ).toBe("deny-payload"));
});

test("blocks: every reason → a pause, a restart, or nothing but the next call", () => {
  expect(Object.entries(AFTER_BLOCK).filter(([, then]) => then !== "restart")).toEqual([
    ["recovery-required", "pause"],
    ["delivery-exhausted", "pause"],
    ["startup-not-echoed", "wait"],
  ]);
});

const incarnations = fc.constantFrom("inc", "other");
const batches = fc.record({
  incarnation: incarnations,
  ordinal: fc.integer({ min: 1, max: 6 }),
});
const barriers: fc.Arbitrary<ActiveBarrier> = fc.record({
  intentId: fc.constant("i1"),
  state: fc.constantFrom<IntentState>(
    "Reconciling",
    "Materialized",
    "Delivered",
    "RecoveryRequired",
  ),
  batch: batches,
  completed: fc.boolean(),
  receipt: fc.constantFrom<ActiveBarrier["receipt"]>(null, "matching", "contrary", "unreadable"),
  sessionChanged: fc.boolean(),
  redeliveries: fc.integer({ min: 0, max: 3 }),
});
const restarts: fc.Arbitrary<ActiveRestart> = fc.record({
  intentId: fc.constant("i1"),
  incarnation: incarnations,
  echo: fc.record({
    shown: fc
      .uniqueArray(fc.integer({ min: 1, max: 4 }))
      .map((all) => all.toSorted((a, b) => a - b)),
    answered: fc.option(fc.integer({ min: 1, max: 4 })),
  }),
});
const waiting: fc.Arbitrary<NonNullable<BoundaryFacts["next"]>> = fc.record({
  intentId: fc.constant("i2"),
  state: fc.constantFrom(...INTENT_STATES),
  exhausted: fc.boolean(),
});
const anyFacts = fc.record({
  agentId: fc.constantFrom(null, null, "a7"),
  batch: batches,
  admission: fc.constantFrom(null, "PassThrough" as const, "Block" as const),
  active: fc.option(barriers),
  restart: fc.oneof(
    { weight: 3, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: restarts },
  ),
  promptOrdinal: fc.constantFrom(null, 1, 2, 3, 4),
  next: fc.option(waiting),
  blockedInARow: fc.integer({ min: 0, max: 5 }),
  hasCopy: fc.boolean(),
  place: fc.constantFrom(
    undefined,
    "later" as const,
    "sibling" as const,
    "unknown" as const,
    "contradicted" as const,
  ),
  proof: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    {
      weight: 2,
      arbitrary: fc.record({
        soft: fc.boolean(),
        violations: fc.integer({ min: 0, max: 2 }),
        fresh: fc.boolean(),
        inFlight: fc.boolean(),
      }),
    },
  ),
}) as fc.Arbitrary<BoundaryFacts>;

const LOST = { soft: false, violations: 0, fresh: false, inFlight: false };

type Decide = (f: BoundaryFacts) => BoundaryDecision;

/** What an acknowledgement needs, said as the chapter says it: a receipt, and a call that is provably later. */
function proved(f: BoundaryFacts): boolean {
  if (f.agentId !== null) return false;
  if (f.restart != null) {
    const { echo, incarnation } = f.restart;
    const prompt = f.promptOrdinal;
    if (prompt == null || incarnation !== f.batch.incarnation) return false;
    return echo.shown.some((n) => n === prompt) || (echo.answered ?? 9) < prompt;
  }
  // Not placed in the session record, or of a harness that is not what was proved of it: nothing is later there.
  if (f.place === "unknown" || f.place === "contradicted" || f.proof?.soft === false) return false;
  const a = f.active;
  if (a === null || !a.completed || a.receipt !== "matching" || a.sessionChanged === true)
    return false;
  if (!["Materialized", "Delivered"].includes(a.state)) return false;
  return a.batch.incarnation === f.batch.incarnation && !(f.batch.ordinal <= a.batch.ordinal);
}

const honest = (decide: Decide): fc.IProperty<[BoundaryFacts]> =>
  fc.property(anyFacts, (f) => {
    const d = decide(f);
    expect(d.act === "acknowledge").toBe(proved(f));
    if (d.act === "acknowledge") expect(d.intentId).toBe("i1");
    // A durable block is never released to the agent that has to hear of it, but for one that reads its receipt again.
    if (d.act === "pass" && f.restart != null) throw new Error("passed before the echo");
    if (d.act === "pass" && f.active !== null) {
      if (f.agentId !== null) expect([f.active.completed, f.hasCopy]).toEqual([true, true]);
      else {
        // Nothing else waits, and the receipt, or the call itself, is not to be read.
        expect(f.next).toBeNull();
        const unread = f.active.completed && f.active.receipt === "unreadable";
        expect(unread || f.place === "unknown").toBe(true);
        // Of what is not prepared nobody was told, and its files may be changing.
        expect(["Materialized", "Delivered"]).toContain(f.active.state);
      }
    }
    // Nobody is redelivered to more often than the ladder has rungs.
    if (d.act === "rebind" && f.active !== null)
      expect(f.active.redeliveries).toBeLessThan(MAX_SOFT_REDELIVERIES);
    if (d.act === "bind" || d.act === "rebind") {
      expect(f.agentId).toBeNull();
      // What proves nothing lets no work be bound.
      expect(["unknown", "contradicted"]).not.toContain(f.place);
      expect(f.proof?.soft).not.toBe(false);
    }
  });

test("decideBoundary: any facts → acknowledged exactly with complete proof, passed only without a barrier", () => {
  fc.assert(honest(decideBoundary), seeded(5000));
});

describe("decideBoundary, wrong ones", () => {
  const ack = (intentId: string): BoundaryDecision => ({ act: "acknowledge", intentId });
  const also =
    (when: (f: BoundaryFacts, a: ActiveBarrier) => boolean): Decide =>
    (f) =>
      f.restart == null && f.active !== null && f.agentId === null && when(f, f.active)
        ? ack("i1")
        : decideBoundary(f);
  const wrong: [string, Decide][] = [
    ["another batch id is proof enough", also((f, a) => f.batch.ordinal !== a.batch.ordinal)],
    ["delivered is acknowledged", also((_, a) => a.state === "Delivered")],
    ["completed is acknowledged", also((_, a) => a.completed)],
    [
      "the incarnation does not matter",
      also((f, a) => a.receipt === "matching" && f.batch.ordinal > a.batch.ordinal),
    ],
    [
      "an unreadable receipt will do",
      also(
        (f, a) => a.receipt === "unreadable" && a.completed && f.batch.ordinal > a.batch.ordinal,
      ),
    ],
    [
      "a restart is acknowledged by any call",
      (f) => (f.restart != null && f.agentId === null ? ack("i1") : decideBoundary(f)),
    ],
    ["a sub-agent's call counts", (f) => decideBoundary({ ...f, agentId: null })],
    [
      "redelivers for ever",
      (f) =>
        decideBoundary(f.active === null ? f : { ...f, active: { ...f.active, redeliveries: 0 } }),
    ],
    [
      "a call that the record does not show is a later one",
      (f) => decideBoundary({ ...f, place: "later" }),
    ],
    [
      "a boundary that was lost still counts",
      (f) => decideBoundary({ ...f, proof: { ...LOST, soft: true } }),
    ],
    [
      "releases a batch it was told to block",
      (f) => (decideBoundary(f).act === "block" ? { act: "pass" } : decideBoundary(f)),
    ],
  ];
  for (const [name, decide] of wrong) {
    test(`decideBoundary: ${name} → refuted`, () =>
      expect(refuted(honest(decide), 5000)).toBe(true));
  }
});

test("completionOf: extra members are fine, a missing admitted one is not", () => {
  expect(completionOf(["a"], new Set(["a", "refused-before-hooks"]))).toBe("complete");
  expect(completionOf(["a", "b"], new Set(["a"]))).toBe("omits-admitted");
});

describe("judgeReceipt", () => {
  const call = (toolUseId: string) => ({ toolUseId, expected: "W: payload", generic: ["W: "] });
  const judge = (responses: Record<string, string>) =>
    judgeReceipt([call("a"), call("b")], new Map(Object.entries(responses)));
  test("one blocked call shows the payload → matching", () =>
    expect(judge({ a: "W: something generic", b: "W: payload" })).toBe("matching"));
  test("a byte differs → contrary", () =>
    expect(judge({ a: "W: payload ", b: "W: Payload" })).toBe("contrary"));
  test("nothing is shown → contrary", () => expect(judge({})).toBe("contrary"));
  test("a real result, even beside the payload → the tool ran", () =>
    expect(judge({ a: "W: payload", b: "total 0" })).toBe("tool-ran"));
});

describe("judgeRecord", () => {
  const call = (toolUseId: string) => ({ toolUseId, expected: "W: payload", generic: ["W: "] });
  const judge = (outputs: Record<string, string> | null) =>
    judgeRecord([call("a"), call("b")], outputs === null ? null : new Map(Object.entries(outputs)));
  test("no record → unreadable, not contrary", () => expect(judge(null)).toBe("unreadable"));
  test("no output of a blocked call in it yet → unreadable", () =>
    expect(judge({ other: "W: payload" })).toBe("unreadable"));
  test("the payload in it → matching", () => expect(judge({ a: "W: payload" })).toBe("matching"));
  test("another text in it → contrary", () => expect(judge({ a: "W: else" })).toBe("contrary"));
  test("a real result in it → the tool ran", () => expect(judge({ b: "done" })).toBe("tool-ran"));
});
