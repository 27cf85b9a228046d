/** The tables of sagas: complete, in the normative order, legal. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LIFECYCLE, LIFECYCLE_OP_KINDS, type Lifecycle } from "../../src/core/lifecycle.ts";
import { CLOSE, CLOSE_WITHOUT_SESSION, DESTROY } from "../../src/core/plans/close.ts";
import { DETACH } from "../../src/core/plans/detach.ts";
import { planOf, variantsOf, type PlanTemplate } from "../../src/core/plans/template.ts";
import { SAGA_PLANS } from "../../src/core/saga-plans.ts";
import {
  CRASH_MOMENTS,
  crashPoints,
  failCrashPoints,
  undoCrashPoints,
  type SagaEnd,
  type SagaPlan,
} from "../../src/core/saga.ts";

const title = (plan: SagaPlan): string =>
  plan.variant === "" ? plan.kind : `${plan.kind} (${plan.variant})`;
const names = (plan: SagaPlan): string => plan.steps.map((s) => s.name).join(" ");
const TEMPLATES: readonly PlanTemplate<string>[] = [CLOSE, CLOSE_WITHOUT_SESSION, DESTROY, DETACH];

describe("saga plans", () => {
  test("plans: every kind of operation → has one; no two have the same title", () => {
    expect(new Set(SAGA_PLANS.map((p) => p.kind))).toEqual(new Set(LIFECYCLE_OP_KINDS));
    expect(new Set(SAGA_PLANS.map(title)).size).toBe(SAGA_PLANS.length);
  });

  // The order is the threads chapter's; what it does in one sentence is one step.
  for (const [plan, steps] of [
    [
      "Create",
      "allocate workspace head bookmark credential harness-config setup session launch gate ready",
    ],
    ["Close", "freeze quiesce recheck checkpoint verify reproof kill forget delete revoke"],
    [
      "Close (kill-panes, keep-untracked, children a b)",
      "panes freeze quiesce recheck checkpoint verify checkpoint-child:a detach-child:a checkpoint-child:b detach-child:b reproof keep kill forget delete revoke",
    ],
    [
      "Close (without session)",
      "survivors quiesce recheck checkpoint verify reproof forget delete revoke",
    ],
    ["Reopen", "recheck workspace credential harness-config setup session launch gate ready"],
    ["Detach", "admission refresh reconcile stack pin bookmark verify edge"],
    ["Detach (discard)", "admission refresh discard reconcile stack pin bookmark verify edge"],
    ["Checkpoint", "pin bookmark verify"],
    ["Destroy", "freeze quiesce recheck bookmark kill forget delete revoke transcript tombstone"],
    [
      "Destroy (abandon-revisions, keep-log)",
      "freeze quiesce recheck bookmark abandon kill forget delete revoke tombstone",
    ],
    ["Restart", "retire harness-config launch gate ready"],
    ["Interrupt", "stop end retire harness-config launch gate ready"],
  ]) {
    test(`plans: ${plan} → in the normative order`, () => {
      const found = SAGA_PLANS.find((p) => title(p) === plan);
      expect(found === undefined ? "no such plan" : names(found)).toBe(steps!);
    });
  }

  for (const [kind, first] of [
    ["Close", "kill"],
    ["Destroy", "bookmark"],
  ] as const) {
    test(`plans: ${kind} → everything from ${first} on is irreversible, nothing before it`, () => {
      for (const plan of SAGA_PLANS.filter((p) => p.kind === kind)) {
        const from = plan.steps.findIndex((s) => s.irreversible === true);
        // Without a session there is nothing to kill: forgetting is the first of it.
        expect(["kill", "forget", "bookmark"]).toContain(plan.steps[from]!.name);
        if (plan.steps.some((s) => s.name === first)) expect(plan.steps[from]!.name).toBe(first);
        for (const [i, step] of plan.steps.entries()) {
          expect([step.name, step.irreversible === true]).toEqual([step.name, i >= from]);
          if (i >= from) expect(step.compensation).toBeNull();
        }
      }
    });
  }

  test("plans: no other kind → has an irreversible step", () => {
    const others = SAGA_PLANS.filter((p) => p.kind !== "Close" && p.kind !== "Destroy");
    expect(others.flatMap((p) => p.steps.filter((s) => s.irreversible === true))).toEqual([]);
  });

  test("plans: steps up to the last proof of a close, or of a frozen destroy → turn round after a restart", () => {
    for (const plan of SAGA_PLANS) {
      const proof = { Close: "reproof", Destroy: "recheck" }[plan.kind as string];
      if (proof === undefined) continue;
      const last = plan.steps.findIndex((s) => s.name === proof);
      const marks = plan.steps.map((s) => s.restart === "unwind");
      expect(marks).toEqual(plan.steps.map((_, i) => i <= last));
    }
  });

  for (const plan of SAGA_PLANS) {
    test(`plans: ${title(plan)} → steps unique, each says what it is recognised by, bounded`, () => {
      const all = plan.steps.map((s) => s.name);
      expect(new Set(all).size).toBe(all.length);
      for (const step of plan.steps) {
        expect([step.name, step.identity.length > 5, step.observation.length > 10]).toEqual([
          step.name,
          true,
          true,
        ]);
        expect(step.attempts).toBeWithin(1, 11);
      }
    });

    test(`plans: ${title(plan)} → every end is a legal move of the thread`, () => {
      const { from, during, completed, unwound, stuck } = plan.lifecycle;
      const illegal: string[] = [];
      const check = (a: Lifecycle, b: Lifecycle): void => {
        if (a !== b && !LIFECYCLE.can(a, b)) illegal.push(`${a} → ${b}`);
      };
      for (const prior of from) {
        const now = during === "prior" ? prior : during;
        check(prior, now);
        const ends = (end: SagaEnd): Lifecycle[] =>
          end === "prior" ? [prior] : end === "recorded" ? ["Active", "Closed"] : [end];
        for (const end of [completed, unwound, stuck].flatMap(ends)) check(now, end);
      }
      expect(illegal).toEqual([]);
    });

    test(`crash points: ${title(plan)} → one per step and moment, all different`, () => {
      const points = [...crashPoints(plan), ...failCrashPoints(plan), ...undoCrashPoints(plan)];
      expect(new Set(points).size).toBe(points.length);
      expect(crashPoints(plan)).toHaveLength(plan.steps.length * CRASH_MOMENTS.length);
      expect(points[0]).toBe(`${plan.kind}.${plan.steps[0]!.name}.before`);
    });
  }
});

describe("plans that vary", () => {
  for (const template of TEMPLATES) {
    const name = template.name === "" ? template.kind : `${template.kind} ${template.name}`;
    test(`templates: ${name}, any flags and children → order kept, every step known to the matrix`, () => {
      const known = new Set(
        variantsOf(template).flatMap((p) => p.steps.map((s) => s.name.split(":")[0])),
      );
      const order = template.steps.map((s) => s.name);
      const children = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,6}$/), { maxLength: 4 });
      fc.assert(
        fc.property(fc.subarray([...template.flags]), children, (flags, kids) => {
          const plan = planOf(template, { flags, children: kids });
          const all = plan.steps.map((s) => s.name);
          expect(new Set(all).size).toBe(all.length);
          const bare = all.map((s) => s.split(":")[0]!);
          expect(bare.every((s) => known.has(s))).toBe(true);
          const single = bare.filter((s, i) => bare.indexOf(s) === i);
          expect(single).toEqual(order.filter((s) => single.includes(s)));
          for (const flag of template.flags) {
            expect(plan.variant.includes(flag)).toBe(flags.includes(flag));
          }
        }),
      );
    });
  }
});
