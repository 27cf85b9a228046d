import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  behindGate,
  GATE_STATES,
  STATUS_SOURCES,
  witness,
  type WitnessedStatus,
} from "../../src/core/agent.ts";
import { AGENT_STATUSES } from "../../src/core/lifecycle.ts";
import { refuted, seeded } from "../support/seed.ts";

describe("launch gate", () => {
  test("gate: activated, exec'd and ready → told apart after a restart", () => {
    const found = GATE_STATES.flatMap((state) =>
      [false, true].flatMap((live) =>
        [false, true].map(
          (ready) => `${state} ${live} ${ready}: ${behindGate({ state, live, ready })}`,
        ),
      ),
    );
    expect(found).toEqual([
      "Activated false false: not-started",
      "Activated false true: not-started",
      "Activated true false: not-started",
      "Activated true true: not-started",
      "Claimed false false: maybe-started",
      "Claimed false true: maybe-started",
      "Claimed true false: maybe-started",
      "Claimed true true: maybe-started",
      "Exec false false: ended",
      "Exec false true: ended",
      "Exec true false: starting",
      "Exec true true: ready",
      "Revoked false false: ended",
      "Revoked false true: ended",
      "Revoked true false: ended",
      "Revoked true true: ended",
    ]);
  });
});

const any: fc.Arbitrary<WitnessedStatus> = fc.record({
  status: fc.constantFrom(...AGENT_STATUSES),
  source: fc.constantFrom(...STATUS_SOURCES),
});
const calls = (s: string): boolean => s === "Stuck" || s === "Crashed";
type Witness = typeof witness;

const ranked = (w: Witness): fc.IProperty<[WitnessedStatus[]]> =>
  fc.property(fc.array(any, { minLength: 2, maxLength: 12 }), ([first, ...rest]) => {
    let known = first!;
    for (const seen of rest) {
      const next = w(known, seen);
      const weaker = STATUS_SOURCES.indexOf(seen.source) > STATUS_SOURCES.indexOf(known.source);
      // A weaker witness never clears, and what has crashed has crashed.
      if (calls(known.status) && !calls(next.status)) expect(weaker).toBe(false);
      if (known.status === "Crashed") expect(next).toEqual(known);
      // Attention is raised whoever sees the reason for it.
      if (calls(seen.status) && known.status !== "Crashed") expect(calls(next.status)).toBe(true);
      // A weaker one never says that work goes on where a stronger one said it had ended.
      if (weaker && known.status === "Quiescent") expect(next.status).not.toBe("Running");
      // Nothing stays "working" because Esc fires no hook.
      if (known.status === "Running" && seen.status === "Quiescent") expect(next).toEqual(seen);
      known = next;
    }
  });

describe("witnesses of an agent's status", () => {
  test("status: any witnesses in any order → a weaker one raises attention and never clears it", () => {
    fc.assert(ranked(witness), seeded(2000));
  });
  const wrong: [string, Witness][] = [
    ["the last one is right", (_, seen) => seen],
    [
      "only the strongest counts",
      (known, seen) =>
        STATUS_SOURCES.indexOf(seen.source) <= STATUS_SOURCES.indexOf(known.source)
          ? witness(known, seen)
          : known,
    ],
    [
      "the pane is never believed",
      (known, seen) => (seen.source === "pane" ? known : witness(known, seen)),
    ],
  ];
  for (const [name, w] of wrong) {
    test(`status: ${name} → refuted`, () => expect(refuted(ranked(w), 2000)).toBe(true));
  }
});
