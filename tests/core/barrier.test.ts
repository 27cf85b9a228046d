import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  completionOf,
  decideBoundary,
  judgeReceipt,
  MAX_BLOCKED_BATCHES_IN_A_ROW,
  MAX_SOFT_REDELIVERIES,
  type ActiveBarrier,
  type BoundaryDecision,
  type BoundaryFacts,
} from "../../src/core/barrier.ts";
import { INTENT_STATES } from "../../src/core/intent.ts";

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

const anyFacts: fc.Arbitrary<BoundaryFacts> = fc.record({
  agentId: fc.constantFrom(null, "a7"),
  batch: fc.record({
    incarnation: fc.constantFrom("inc", "other"),
    ordinal: fc.integer({ min: 1, max: 6 }),
  }),
  admission: fc.constantFrom(null, "PassThrough" as const, "Block" as const),
  active: fc.option(
    fc.record({
      intentId: fc.constant("i1"),
      state: fc.constantFrom(
        "Reconciling" as const,
        "Materialized" as const,
        "Delivered" as const,
        "RecoveryRequired" as const,
      ),
      batch: fc.record({
        incarnation: fc.constantFrom("inc", "other"),
        ordinal: fc.integer({ min: 1, max: 6 }),
      }),
      completed: fc.boolean(),
      receipt: fc.constantFrom(null, "matching" as const, "contrary" as const),
      redeliveries: fc.integer({ min: 0, max: 3 }),
    }),
  ),
  next: fc.option(
    fc.record({
      intentId: fc.constant("i2"),
      state: fc.constantFrom(...INTENT_STATES),
      exhausted: fc.boolean(),
    }),
  ),
  blockedInARow: fc.integer({ min: 0, max: 5 }),
  hasCopy: fc.boolean(),
});

test("decideBoundary: any facts → acknowledged only with complete proof, passed only without a barrier", () => {
  fc.assert(
    fc.property(anyFacts, (f) => {
      const d = decideBoundary(f);
      if (d.act === "acknowledge") {
        expect(f.agentId).toBeNull();
        expect(f.active).toMatchObject({
          intentId: d.intentId,
          completed: true,
          receipt: "matching",
        });
        expect(f.active!.batch.incarnation).toBe(f.batch.incarnation);
        expect(f.batch.ordinal).toBeGreaterThan(f.active!.batch.ordinal);
      }
      // A durable block is never released to the agent that has to hear of it.
      if (d.act === "pass" && f.active !== null) {
        expect(f.agentId).not.toBeNull();
        expect(f.active.completed && f.hasCopy).toBe(true);
      }
      if (d.act === "bind") expect(f.agentId).toBeNull();
    }),
    { numRuns: 5000 },
  );
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
