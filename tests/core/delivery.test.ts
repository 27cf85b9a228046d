import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  decideBoundary,
  MAX_SOFT_REDELIVERIES,
  type BatchRef,
  type ObservedReceipt,
} from "../../src/core/barrier.ts";
import {
  activeAttempt,
  attemptsInEpoch,
  deliver,
  DELIVERY_PHASES,
  deliveryMode,
  deliveryPhase,
  EXITS_OF_EXHAUSTION,
  FRESH_DELIVERY,
  restartDecision,
  startupMark,
  type Delivery,
  type DeliveryEvent,
  type DeliveryPhase,
} from "../../src/core/delivery.ts";
import { refuted, seeded } from "../support/seed.ts";

const LIMIT = 3;
const at = (ordinal: number, incarnation = "inc"): BatchRef => ({ incarnation, ordinal });
const run = (...events: DeliveryEvent[]): Delivery =>
  events.reduce((d, e) => deliver(d, e, LIMIT), FRESH_DELIVERY);
const restart = (n: number): DeliveryEvent => ({
  type: "restart",
  incarnation: `r${n}`,
  startupDeliveryId: `s${n}`,
});
const failed = (n: number): DeliveryEvent => ({ type: "attempt-failed", incarnation: `r${n}` });
const contrary = (ordinal: number): DeliveryEvent[] => [
  { type: "bind", at: at(ordinal) },
  { type: "complete", at: at(ordinal), receipt: "contrary" },
];
const exhausted = run(restart(1), failed(1), restart(2), failed(2), restart(3), failed(3));

describe("delivery", () => {
  test("delivery: bound, complete, matching, later batch → acknowledged by proof", () => {
    const d = run(
      { type: "bind", at: at(1) },
      { type: "complete", at: at(1), receipt: "matching" },
      { type: "acknowledge", at: at(2), promptOrdinal: null, toolUseId: "t2" },
    );
    expect([deliveryPhase(d), d.acknowledged]).toEqual([
      "Acknowledged",
      { by: "proof", evidence: "t2" },
    ]);
  });

  test("delivery: contrary once → bound again and counted; twice → only a restart is left", () => {
    const once = run(...contrary(1), { type: "bind", at: at(2) });
    expect([once.softRedeliveries, deliveryMode(once)]).toEqual([1, "SoftBatch"]);
    const twice = run(...contrary(1), ...contrary(2));
    expect(() => deliver(twice, { type: "bind", at: at(3) }, LIMIT)).toThrow(
      "illegal delivery event bind in SoftComplete",
    );
    expect(deliveryMode(deliver(twice, restart(1), LIMIT))).toBe("RestartStartup");
  });

  test("delivery: duplicate, stale and mismatched completions → nothing changes", () => {
    const d = run(...contrary(1));
    for (const event of [
      { type: "complete", at: at(1), receipt: "matching" },
      { type: "complete", at: at(7), receipt: "matching" },
      { type: "complete", at: at(1, "other"), receipt: "matching" },
    ] as const)
      expect(deliver(d, event, LIMIT)).toBe(d);
  });

  test("delivery: unreadable receipt, read again → acknowledged only once it matches", () => {
    const unread = run(
      { type: "bind", at: at(1) },
      { type: "complete", at: at(1), receipt: "unreadable" },
    );
    const call = { type: "acknowledge", at: at(2), promptOrdinal: null, toolUseId: "t" } as const;
    expect(() => deliver(unread, call, LIMIT)).toThrow("illegal delivery event acknowledge");
    const read = deliver(unread, { type: "read-again", receipt: "matching" }, LIMIT);
    expect(deliveryPhase(deliver(read, call, LIMIT))).toBe("Acknowledged");
  });

  test("delivery: restart → soft tuple gone, one active attempt, acknowledged after its own exact echo", () => {
    const d = run(...contrary(1), restart(1), { type: "ready", incarnation: "r1" });
    expect([d.soft, activeAttempt(d)?.startupDeliveryId]).toEqual([null, "s1"]);
    const call = {
      type: "acknowledge",
      at: at(1, "r1"),
      promptOrdinal: 4,
      toolUseId: "t",
    } as const;
    expect(() => deliver(d, call, LIMIT)).toThrow("illegal");
    const echo = (text: string): Delivery =>
      deliver(d, { type: "echo", incarnation: "r1", text, promptOrdinal: 4 }, LIMIT);
    expect(() => deliver(echo("[[kiki:s2]]"), call, LIMIT)).toThrow("illegal");
    expect(deliveryPhase(deliver(echo(`go on ${startupMark("s1")}`), call, LIMIT))).toBe(
      "Acknowledged",
    );
  });

  test("delivery: a call of a later prompt than the echo → acknowledged only where the echoed one's turn came to its end", () => {
    const echo = (promptOrdinal: number): DeliveryEvent => ({
      type: "echo",
      incarnation: "r1",
      text: startupMark("s1"),
      promptOrdinal,
    });
    const answered = (promptOrdinal: number): DeliveryEvent => ({
      type: "answered",
      incarnation: "r1",
      promptOrdinal,
    });
    const call = (promptOrdinal: number): DeliveryEvent => ({
      type: "acknowledge",
      at: at(1, "r1"),
      promptOrdinal,
      toolUseId: "t",
    });
    const shown = run(restart(1), { type: "ready", incarnation: "r1" }, echo(2));
    expect(() => deliver(shown, call(3), LIMIT)).toThrow("illegal delivery event acknowledge");
    // The end of some other turn says nothing about it.
    const other = deliver(shown, answered(3), LIMIT);
    expect(() => deliver(other, call(4), LIMIT)).toThrow("illegal delivery event acknowledge");
    const over = deliver(shown, answered(2), LIMIT);
    expect(deliveryPhase(deliver(over, call(3), LIMIT))).toBe("Acknowledged");
    const again = deliver(shown, echo(4), LIMIT);
    expect(deliveryPhase(deliver(again, call(4), LIMIT))).toBe("Acknowledged");
    expect(() => deliver(again, call(5), LIMIT)).toThrow("illegal delivery event acknowledge");
  });

  test("delivery: crash before the ready handshake → attempt retired, next one has new ids", () => {
    const d = run(restart(1), failed(1));
    expect(() => deliver(d, restart(1), LIMIT)).toThrow("illegal delivery event restart");
    const next = deliver(d, restart(2), LIMIT);
    expect(next.attempts.map((a) => [a.startupDeliveryId, a.retired])).toEqual([
      ["s1", true],
      ["s2", false],
    ]);
  });

  test("delivery: last attempt of the epoch fails → exhausted in the same step", () => {
    expect(deliveryPhase(exhausted)).toBe("Exhausted");
    expect(restartDecision(exhausted, LIMIT)).toEqual({ act: "stay-paused" });
  });

  test("delivery: exhausted → exactly the two repairs are taken, everything else throws by name", () => {
    const others: DeliveryEvent[] = [
      { type: "bind", at: at(9) },
      { type: "complete", at: at(9), receipt: "matching" },
      { type: "read-again", receipt: "matching" },
      { type: "acknowledge", at: at(9), promptOrdinal: 9, toolUseId: "t" },
      restart(9),
      { type: "ready", incarnation: "r3" },
      { type: "echo", incarnation: "r3", text: startupMark("s3"), promptOrdinal: 1 },
      { type: "answered", incarnation: "r3", promptOrdinal: 1 },
      failed(3),
    ];
    for (const event of others)
      expect(() => deliver(exhausted, event, LIMIT)).toThrow(
        `illegal delivery event ${event.type} in Exhausted`,
      );
    const retried = deliver(exhausted, { type: "retry-delivery" }, LIMIT);
    expect([retried.epoch, retried.softRedeliveries, retried.exhausted]).toEqual([2, 0, false]);
    const discarded = deliver(exhausted, { type: "discard-delivery", approval: "ap" }, LIMIT);
    expect(discarded.acknowledged).toEqual({ by: "person", evidence: "ap" });
    expect([...EXITS_OF_EXHAUSTION]).toEqual(["retry-delivery", "discard-delivery"]);
  });

  test("delivery: not exhausted → neither repair is taken", () => {
    for (const d of [FRESH_DELIVERY, run(...contrary(1)), run(restart(1))]) {
      expect(() => deliver(d, { type: "retry-delivery" }, LIMIT)).toThrow("illegal");
      expect(() => deliver(d, { type: "discard-delivery", approval: "a" }, LIMIT)).toThrow(
        "illegal",
      );
    }
  });
});

// ---- random events ---------------------------------------------------------------------------------------------

const ordinals = fc.integer({ min: 1, max: 5 });
const incarnations = fc.constantFrom("inc", "r1", "r2");
const places: fc.Arbitrary<BatchRef> = fc.record({ incarnation: incarnations, ordinal: ordinals });
const receipts = fc.constantFrom("matching" as const, "contrary" as const, "unreadable" as const);
const anyEvent: fc.Arbitrary<DeliveryEvent> = fc.oneof(
  fc.record({ type: fc.constant("bind" as const), at: places }),
  fc.record({ type: fc.constant("complete" as const), at: places, receipt: receipts }),
  fc.record({ type: fc.constant("read-again" as const), receipt: receipts }),
  fc.record({
    type: fc.constant("acknowledge" as const),
    at: places,
    promptOrdinal: fc.option(ordinals),
    toolUseId: fc.constant("t"),
  }),
  fc.record({
    type: fc.constant("restart" as const),
    incarnation: fc.constantFrom("r1", "r2", "r3", "r4", "r5"),
    startupDeliveryId: fc.constantFrom("s1", "s2", "s3", "s4", "s5"),
  }),
  fc.record({ type: fc.constant("ready" as const), incarnation: incarnations }),
  fc.record({
    type: fc.constant("echo" as const),
    incarnation: incarnations,
    text: fc.constantFrom("[[kiki:s1]]", "[[kiki:s2]]", "hello"),
    promptOrdinal: ordinals,
  }),
  fc.record({
    type: fc.constant("answered" as const),
    incarnation: incarnations,
    promptOrdinal: ordinals,
  }),
  fc.record({
    type: fc.constant("attempt-failed" as const),
    incarnation: fc.constantFrom("r1", "r2", "r3", "r4"),
  }),
  fc.record({ type: fc.constant("retry-delivery" as const) }),
  fc.record({ type: fc.constant("discard-delivery" as const), approval: fc.constant("ap") }),
);

/** Plays `raw` as it is, or, three times in four, something that fits where the delivery is. */
interface Draw {
  raw: DeliveryEvent;
  choice: number;
  receipt: ObservedReceipt;
  bent: boolean;
}
const draws = (maxLength: number): fc.Arbitrary<Draw[]> =>
  fc.array(
    fc.record({
      raw: anyEvent,
      choice: fc.nat(1000),
      receipt: receipts,
      bent: fc.integer({ min: 0, max: 3 }).map((n) => n > 0),
    }),
    { maxLength, size: "max" },
  );

function fitting(d: Delivery, { choice, receipt }: Draw): DeliveryEvent | null {
  const attempt = activeAttempt(d);
  const incarnation = attempt?.incarnation ?? "inc";
  const here = d.soft?.at ?? at(0);
  const next = at(here.ordinal + 1);
  const n = d.attempts.length + 1;
  const bind: DeliveryEvent = { type: "bind", at: next };
  const begin: DeliveryEvent = {
    type: "restart",
    incarnation: `r${n}`,
    startupDeliveryId: `s${n}`,
  };
  const end: DeliveryEvent = { type: "attempt-failed", incarnation };
  const fit: Record<DeliveryPhase, DeliveryEvent[]> = {
    Unbound: [bind, begin],
    SoftBound: [{ type: "complete", at: here, receipt }, begin],
    SoftComplete: [
      bind,
      { type: "read-again", receipt },
      { type: "acknowledge", at: next, promptOrdinal: null, toolUseId: "t" },
      begin,
    ],
    Restarting: [{ type: "ready", incarnation }, end],
    RestartReady: [
      {
        type: "echo",
        incarnation,
        text: startupMark(attempt?.startupDeliveryId ?? ""),
        promptOrdinal: 2,
      },
      { type: "answered", incarnation, promptOrdinal: 2 },
      {
        type: "acknowledge",
        at: at(1, incarnation),
        promptOrdinal: (d.echo.answered ?? -1) + 1 || (d.echo.shown.at(-1) ?? null),
        toolUseId: "t",
      },
      end,
    ],
    Exhausted: [{ type: "retry-delivery" }, { type: "discard-delivery", approval: "ap" }],
    Acknowledged: [],
  };
  const events = fit[deliveryPhase(d)];
  return events[choice % events.length] ?? null;
}

/** Applies what is taken, keeps what was. An event that is not taken changes nothing. */
function history(drawn: readonly Draw[]): { taken: DeliveryEvent[]; states: Delivery[] } {
  const taken: DeliveryEvent[] = [];
  const states = [FRESH_DELIVERY];
  for (const draw of drawn) {
    const d = states.at(-1)!;
    const event = (draw.bent ? fitting(d, draw) : null) ?? draw.raw;
    try {
      states.push(deliver(d, event, LIMIT));
      taken.push(event);
    } catch (error) {
      expect(String(error)).toMatch(/illegal delivery event \S+ in [A-Z]/);
    }
  }
  return { taken, states };
}

/** Looks back through the events alone for the receipt, or the echo, that an acknowledgement stands on. */
function provedBy(before: readonly DeliveryEvent[], ack: DeliveryEvent): boolean {
  if (ack.type !== "acknowledge") return false;
  const last = (...types: DeliveryEvent["type"][]): number =>
    before.findLastIndex((e) => types.includes(e.type));
  const start = before[last("bind", "restart")];
  const since = before.slice(last("bind", "restart") + 1);
  if (start?.type === "bind") {
    const { incarnation, ordinal } = start.at;
    const mine = since.find(
      (e) => e.type === "complete" && e.at.incarnation === incarnation && e.at.ordinal === ordinal,
    );
    const reread = since.findLast((e) => e.type === "read-again");
    const shown = reread?.type === "read-again" ? reread : mine;
    if (mine === undefined || shown === undefined || !("receipt" in shown)) return false;
    const later = ack.at.incarnation === incarnation && ack.at.ordinal > ordinal;
    return shown.receipt === "matching" && later;
  }
  if (start?.type !== "restart") return false;
  const { incarnation, startupDeliveryId } = start;
  const mine = since.filter((e) => "incarnation" in e && e.incarnation === incarnation);
  const seen = (type: DeliveryEvent["type"]): boolean => mine.some((e) => e.type === type);
  if (!seen("ready") || seen("attempt-failed") || ack.at.incarnation !== incarnation) return false;
  const prompt = ack.promptOrdinal;
  return mine.some((echo, i) => {
    if (echo.type !== "echo" || !echo.text.includes(startupDeliveryId) || prompt === null)
      return false;
    const number = echo.promptOrdinal;
    const over = mine.slice(i).some((e) => e.type === "answered" && e.promptOrdinal === number);
    return prompt === number || (over && prompt > number);
  });
}

test("delivery: the random events of this file → they do reach every phase and every kind of end", () => {
  const seen = new Set<string>();
  for (const drawn of fc.sample(draws(40), seeded(1500))) {
    const { taken, states } = history(drawn);
    for (const d of states) seen.add(deliveryPhase(d));
    const end = states.at(-1)!.acknowledged;
    const mode = taken.some((e) => e.type === "restart") ? "restart" : "soft";
    if (end !== null) seen.add(`${end.by} ${mode}`);
  }
  expect([...seen].sort()).toEqual(
    [...DELIVERY_PHASES, "proof soft", "proof restart", "person restart"].sort(),
  );
});

test("delivery: any events in any order → acknowledged only on a receipt and a later turn, an echo, or a person", () => {
  fc.assert(
    fc.property(draws(40), (events) => {
      const { taken, states } = history(events);
      const end = states.at(-1)!.acknowledged;
      if (end === null) return;
      const last = taken.at(-1)!;
      if (end.by === "proof") expect(provedBy(taken.slice(0, -1), last)).toBe(true);
      else expect([last.type, states.at(-2)!.exhausted]).toEqual(["discard-delivery", true]);
    }),
    seeded(3000),
  );
});

test("delivery: any events → bounds hold in every epoch, epochs only grow, old attempts stay as they are", () => {
  fc.assert(
    fc.property(draws(60), (events) => {
      const { states } = history(events);
      for (const [i, d] of states.entries()) {
        expect(d.softRedeliveries).toBeLessThanOrEqual(MAX_SOFT_REDELIVERIES);
        for (let epoch = 1; epoch <= d.epoch; epoch += 1)
          expect(attemptsInEpoch(d.attempts, epoch)).toBeLessThanOrEqual(LIMIT);
        expect(d.attempts.filter((a) => !a.retired).length).toBeLessThanOrEqual(1);
        expect(d.soft === null || activeAttempt(d) === null).toBe(true);
        const before = states[i - 1];
        if (before === undefined) continue;
        expect(d.epoch - before.epoch).toBeOneOf([0, 1]);
        if (d.epoch > before.epoch) expect(before.exhausted).toBe(true);
        expect(d.attempts.slice(0, before.attempts.length).map((a) => a.epoch)).toEqual(
          before.attempts.map((a) => a.epoch),
        );
      }
    }),
    seeded(1000),
  );
});

test("delivery and boundary: any reachable state and any call → acknowledge in the one exactly when in the other", () => {
  fc.assert(
    fc.property(draws(20), places, fc.option(ordinals), (events, place, promptOrdinal) => {
      const d = history(events).states.at(-1)!;
      // Without its ready handshake an incarnation's calls are denied before anything is decided.
      if (["Acknowledged", "Exhausted", "Restarting"].includes(deliveryPhase(d))) return;
      const attempt = activeAttempt(d);
      const decision = decideBoundary({
        agentId: null,
        batch: place,
        admission: null,
        active: d.soft && {
          intentId: "i",
          state: "Materialized",
          batch: d.soft.at,
          completed: d.soft.completed,
          receipt: d.soft.receipt,
          redeliveries: d.softRedeliveries,
        },
        restart: attempt && {
          intentId: "i",
          incarnation: attempt.incarnation,
          echo: d.echo,
        },
        promptOrdinal,
        next: null,
        blockedInARow: 0,
        hasCopy: false,
      });
      const taken = (event: DeliveryEvent): boolean => {
        try {
          deliver(d, event, LIMIT);
          return true;
        } catch {
          return false;
        }
      };
      const ack = { type: "acknowledge", at: place, promptOrdinal, toolUseId: "t" } as const;
      expect(decision.act === "acknowledge").toBe(taken(ack));
      if (decision.act === "rebind") expect(taken({ type: "bind", at: place })).toBe(true);
    }),
    seeded(3000),
  );
});

// ---- bounds and wrong ways to count them -----------------------------------------------------------------------

interface Row {
  epoch: number;
  at: number;
}
type Count = (rows: readonly Row[], epoch: number, epochBegan: number) => number;

/** Whatever earlier epochs did and whatever the clock says, a fresh epoch has exactly its own attempts. */
const freshCycle = (count: Count): fc.IProperty<[number[], number, number[]]> =>
  fc.property(
    fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 8 }),
    fc.integer({ min: 0, max: 100 }),
    fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 12, maxLength: 12 }),
    (earlier, epochBegan, clock) => {
      // Readings of a clock that people set back and forth.
      const rows: Row[] = earlier.map((epoch, i) => ({ epoch, at: clock[i]! }));
      for (let made = 0; made < LIMIT; made += 1) {
        expect(count(rows, 4, epochBegan)).toBe(made);
        rows.push({ epoch: 4, at: clock[8 + made]! });
      }
      expect(count(rows, 4, epochBegan)).toBe(LIMIT);
    },
  );

describe("attempts of an epoch", () => {
  test("attempts: any earlier epochs, any clock → a fresh cycle has exactly its own", () => {
    fc.assert(freshCycle(attemptsInEpoch), seeded(300));
  });
  const wrong: [string, Count][] = [
    ["all rows of the intent", (rows) => rows.length],
    [
      "rows since the epoch began, by the clock",
      (rows, _, began) => rows.filter((r) => r.at >= began).length,
    ],
    [
      "rows of this epoch and the one before",
      (rows, epoch) => rows.filter((r) => r.epoch >= epoch - 1).length,
    ],
    ["kept in memory and lost", () => 0],
  ];
  for (const [name, count] of wrong) {
    test(`attempts: counted as ${name} → refuted`, () =>
      expect(refuted(freshCycle(count), 300)).toBe(true));
  }
});
