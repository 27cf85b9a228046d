/** What holds for every state machine of the core: the same four questions to each table. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { AGENT, LAUNCH_GATE } from "../../src/core/agent.ts";
import { APPROVED_OPERATION, CHALLENGE, HUMAN_APPROVAL } from "../../src/core/approval.ts";
import { DELIVERY } from "../../src/core/delivery.ts";
import { INTENT, INTENT_REASONS, moveIntent } from "../../src/core/intent.ts";
import { LIFECYCLE, moveLifecycle, OPERATION, STEP } from "../../src/core/lifecycle.ts";
import type { Machine } from "../../src/core/machine.ts";
import { seeded } from "../support/seed.ts";

type Any = Machine<Record<string, readonly string[]>>;

/** Each machine with the states that end it, written out a second time. */
const MACHINES: [Any, string[]][] = [
  [LIFECYCLE as unknown as Any, ["Destroyed"]],
  [OPERATION as unknown as Any, ["Completed"]],
  [STEP as unknown as Any, ["Failed", "Compensated"]],
  [INTENT as unknown as Any, ["Acknowledged", "Superseded"]],
  [DELIVERY as unknown as Any, ["Acknowledged"]],
  [CHALLENGE as unknown as Any, ["Confirmed", "Cancelled", "Expired"]],
  [HUMAN_APPROVAL as unknown as Any, ["Consumed"]],
  [APPROVED_OPERATION as unknown as Any, ["Completed", "Failed"]],
  [LAUNCH_GATE as unknown as Any, ["Exec", "Revoked"]],
  [AGENT as unknown as Any, ["Crashed"]],
];

function reachable(m: Any): Set<string> {
  const found = new Set<string>(m.initial);
  for (const at of found) for (const [from, to] of m.all) if (from === at) found.add(to);
  return found;
}

for (const [m, terminal] of MACHINES) {
  describe(m.name, () => {
    test(`${m.name}: terminal states → exactly the named ones, and no move out of them`, () => {
      expect([...m.terminal].sort()).toEqual([...terminal].sort());
      for (const from of terminal) {
        for (const to of m.states) expect(() => m.move(from, to)).toThrow(`${from} → ${to}`);
      }
    });

    test(`${m.name}: every pair of states → moves by the table, or throws both names`, () => {
      const legal = new Set(m.all.map(([from, to]) => `${from} ${to}`));
      for (const from of m.states) {
        for (const to of m.states) {
          expect(m.can(from, to)).toBe(legal.has(`${from} ${to}`));
          if (legal.has(`${from} ${to}`)) expect(m.move(from, to)).toBe(to);
          else
            expect(() => m.move(from, to)).toThrow(`illegal ${m.name} transition ${from} → ${to}`);
        }
      }
    });

    test(`${m.name}: from where it begins → every state can be reached`, () => {
      expect([...reachable(m)].sort()).toEqual([...m.states].sort());
    });

    test(`${m.name}: any walk → every step is in the table, and an end stays an end`, () => {
      fc.assert(
        fc.property(fc.array(fc.nat(), { maxLength: 30 }), (choices) => {
          let at = m.initial[choices.length % m.initial.length]!;
          for (const choice of choices) {
            const to = m.states[choice % m.states.length]!;
            const ended = terminal.includes(at);
            if (!ended && m.can(at, to)) at = m.move(at, to);
            else expect(() => m.move(at, to)).toThrow(at);
          }
        }),
        seeded(50),
      );
    });
  });
}

test("machines: every one that src/core declares → asked here", () => {
  const folder = join(import.meta.dir, "../../src/core");
  const declared = readdirSync(folder)
    .filter((name) => name.endsWith(".ts") && name !== "machine.ts")
    .flatMap((name) => [...readFileSync(join(folder, name), "utf8").matchAll(/= machine\(/g)]);
  expect(declared).toHaveLength(MACHINES.length);
});

test("machines: an illegal move with known states → does not compile, and throws all the same", () => {
  const illegal: (() => unknown)[] = [
    // @ts-expect-error a destroyed thread stays destroyed
    () => moveLifecycle("Destroyed", "Active"),
    // @ts-expect-error only a recovery leads back to Reconciling
    () => moveIntent("Materialized", "Reconciling"),
    // @ts-expect-error nothing is acknowledged because somebody hopes so
    () => moveIntent("Delivered", "Acknowledged", "hoped"),
    // @ts-expect-error an effect comes before its evidence
    () => STEP.move("Pending", "Completed"),
    // @ts-expect-error a challenge is confirmed once
    () => CHALLENGE.move("Confirmed", "Pending"),
    // @ts-expect-error an approval is used once
    () => HUMAN_APPROVAL.move("Consumed", "Issued"),
    // @ts-expect-error nobody has looked what happened
    () => APPROVED_OPERATION.move("OutcomeUnknown", "Running"),
    // @ts-expect-error a gate only moves forward
    () => LAUNCH_GATE.move("Exec", "Activated"),
    // @ts-expect-error an exhausted delivery is a person's
    () => DELIVERY.move("Exhausted", "Restarting"),
  ];
  for (const move of illegal) expect(move).toThrow("illegal");
});

describe("reasons of intent moves", () => {
  test("intent: every move → at least one reason, and no other reason is taken", () => {
    for (const [from, to] of INTENT.all) {
      const reasons = (INTENT_REASONS[from] as Record<string, readonly string[]>)[to]!;
      expect(reasons.length).toBeGreaterThan(0);
      for (const why of reasons) expect(moveIntent(from, to as never, why as never)).toBe(to);
      expect(() => moveIntent(from, to as never, "because" as never)).toThrow(
        `${from} → ${to} because because`,
      );
    }
  });

  test("intent: acknowledged → only by proof or by a person's discard", () => {
    const ways = INTENT.states.flatMap((from) =>
      Object.entries(INTENT_REASONS[from])
        .filter(([to]) => to === "Acknowledged")
        .flatMap(([, reasons]) => (reasons as readonly string[]).map((why) => `${from} ${why}`)),
    );
    expect(ways.sort()).toEqual([
      "Delivered discarded-delivery",
      "Delivered proved",
      "Detected discarded-transition",
      "Materialized discarded-delivery",
      "Materialized proved",
      "TopologyDiverged discarded-transition",
    ]);
  });
});
