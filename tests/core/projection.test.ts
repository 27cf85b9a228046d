import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  auditProjections,
  expectedProjections,
  type Journal,
  type ObservedProjections,
} from "../../src/core/expectations.ts";
import {
  LIFECYCLES,
  PROJECTION_ISSUES,
  STEP_STATES,
  type Lifecycle,
  type StepState,
} from "../../src/core/lifecycle.ts";
import {
  ACTIVITIES,
  blockedBy,
  checkpointRelation,
  ISSUE_RULES,
  PROJECTIONS,
  REPAIR_CHOICES,
  type IssueRule,
} from "../../src/core/projection.ts";
import { SAGA_PLANS } from "../../src/core/saga-plans.ts";
import { effectsOf, STEP_EFFECTS } from "../../src/core/step-effects.ts";
import { seeded } from "../support/seed.ts";

const ALL_THERE: ObservedProjections = {
  workspaceRecord: "present",
  directory: "present",
  bookmark: "present",
  session: "present",
};
const NOTHING: ObservedProjections = {
  workspaceRecord: "missing",
  directory: "missing",
  bookmark: "missing",
  session: "missing",
};
const CLOSED: ObservedProjections = { ...NOTHING, bookmark: "present" };

const settled = (
  lifecycle: Lifecycle,
  seen: ObservedProjections,
  resume: "Active" | "Closed" | null = null,
) => auditProjections({ lifecycle, projectionResume: resume, journal: null }, seen);

describe("issues", () => {
  test("issues: the chapter's table, said again → what each blocks and offers", () => {
    const blocked = Object.fromEntries(
      PROJECTION_ISSUES.map((i) => [i, ACTIVITIES.filter((a) => blockedBy([i], a, false) === i)]),
    );
    const everything = [...ACTIVITIES];
    expect(blocked).toEqual({
      WorkspaceDirectoryMissing: everything,
      WorkspaceRecordMissing: everything,
      WorkspacePathMismatch: everything,
      BookmarkMissing: ["checkpoint", "publish", "close", "detach"],
      BookmarkMoved: ["checkpoint", "publish", "close", "detach"],
      SessionMissing: ["delivery", "materialisation"],
    });
    const choices = Object.values(ISSUE_RULES).map((r) => r.choices.length);
    expect(choices).toEqual([3, 2, 3, 2, 2, 3]);
    const offered = new Set(Object.values(ISSUE_RULES).flatMap((r: IssueRule) => r.choices));
    expect([...offered].sort()).toEqual([...REPAIR_CHOICES].sort());
  });

  test("issues: a path mismatch of the same folder → heads are tracked, nothing else goes on", () => {
    const issue = ["WorkspacePathMismatch"] as const;
    expect(ACTIVITIES.filter((a) => blockedBy(issue, a, true) === null)).toEqual(["head-tracking"]);
  });

  test("issues: several → whatever any of them blocks is blocked", () => {
    expect(blockedBy(["BookmarkMoved", "SessionMissing"], "close", false)).toBe("BookmarkMoved");
    expect(blockedBy(["BookmarkMoved", "SessionMissing"], "delivery", false)).toBe(
      "SessionMissing",
    );
    expect(blockedBy(["BookmarkMoved", "SessionMissing"], "head-tracking", false)).toBeNull();
    expect(blockedBy([], "close", false)).toBeNull();
  });

  const table: [string, Lifecycle, Partial<ObservedProjections>, string[]][] = [
    ["all there", "Active", {}, []],
    ["folder gone", "Active", { directory: "missing" }, ["WorkspaceDirectoryMissing"]],
    ["record gone", "Active", { workspaceRecord: "missing" }, ["WorkspaceRecordMissing"]],
    ["another folder there", "Active", { directory: "other-object" }, ["WorkspacePathMismatch"]],
    ["bookmark gone", "Active", { bookmark: "missing" }, ["BookmarkMissing"]],
    ["bookmark elsewhere", "Active", { bookmark: "moved" }, ["BookmarkMoved"]],
    ["session gone", "Active", { session: "missing" }, ["SessionMissing"]],
    [
      "everything gone, in preflight",
      "ClosePreflight",
      NOTHING,
      ["WorkspaceRecordMissing", "WorkspaceDirectoryMissing", "BookmarkMissing", "SessionMissing"],
    ],
    ["closed, bookmark gone", "Closed", NOTHING, ["BookmarkMissing"]],
    ["closed, bookmark elsewhere", "Closed", { ...CLOSED, bookmark: "moved" }, ["BookmarkMoved"]],
    ["destroyed", "Destroyed", NOTHING, []],
    ["creation failed", "CreateFailed", NOTHING, []],
  ];
  for (const [name, lifecycle, seen, expected] of table) {
    test(`audit: ${lifecycle}, ${name} → ${expected.join(", ") || "nothing"}`, () => {
      const found = settled(lifecycle, { ...ALL_THERE, ...seen });
      expect([found.issues, found.failures]).toEqual([expected as typeof found.issues, []]);
    });
  }

  test("audit: a query that failed → unknown, neither an issue nor a proof", () => {
    const blind = Object.fromEntries(
      PROJECTIONS.map((p) => [p, "unknown"]),
    ) as unknown as ObservedProjections;
    expect(settled("Active", blind)).toMatchObject({ issues: [], unknown: [...PROJECTIONS] });
  });

  test("audit: same folder under another path → normalised without asking, no issue", () => {
    expect(settled("Active", { ...ALL_THERE, directory: "same-object" })).toMatchObject({
      issues: [],
      normalisePath: true,
    });
  });

  test("audit: closed thread with a session → reported, no issue is invented", () => {
    const found = settled("Closed", { ...CLOSED, session: "present" });
    expect([found.issues, found.unexpected.map((m) => m.projection)]).toEqual([[], ["session"]]);
  });

  test("audit: diverged → compared with the state it goes back to", () => {
    expect(settled("ProjectionDiverged", CLOSED, "Closed").issues).toEqual([]);
    expect(settled("ProjectionDiverged", CLOSED, "Active").issues).toHaveLength(3);
  });
});

describe("checkpoint relation", () => {
  const facts = {
    lifecycle: "Active" as Lifecycle,
    head: "h",
    checkpoint: "c",
    issues: [],
    checkpointInHead: true,
  };
  const table: [string, Partial<Parameters<typeof checkpointRelation>[0]>, string | null][] = [
    ["bookmark trails @", {}, "behind"],
    ["nobody has looked", { checkpointInHead: null }, "behind"],
    ["on the head", { checkpoint: "h" }, "current"],
    ["not below the head", { checkpointInHead: false }, "diverged"],
    ["bookmark moved", { checkpoint: "h", issues: ["BookmarkMoved"] }, "diverged"],
    ["thread diverged", { checkpoint: "h", lifecycle: "ProjectionDiverged" }, "diverged"],
    ["no head yet", { head: null }, null],
  ];
  for (const [name, more, expected] of table) {
    test(`checkpoint: ${name} → ${expected}`, () =>
      expect(checkpointRelation({ ...facts, ...more }) as string | null).toBe(expected));
  }
});

// ---- journals in flight ------------------------------------------------------------------------------------------

/** Every journal that a plan can be in: all steps before `at` done, that one in `state`, the rest not begun. */
function journalsOf(plan: (typeof SAGA_PLANS)[number]): { journal: Journal; where: string }[] {
  return plan.lifecycle.from.flatMap((began) =>
    plan.steps.flatMap((step, at) =>
      STEP_STATES.map((state) => ({
        where: `${plan.kind} ${plan.variant} from ${began}: ${step.name} ${state}`,
        journal: {
          kind: plan.kind,
          state: "Running" as const,
          began: began === "ClosePreflight" ? ("Active" as const) : began,
          steps: plan.steps.map((s, i) => ({
            name: s.name,
            state: i < at ? ("Completed" as const) : i === at ? state : ("Pending" as const),
          })),
        },
      })),
    ),
  );
}

const during = (journal: Journal, lifecycle: Lifecycle, seen: ObservedProjections) =>
  auditProjections({ lifecycle, projectionResume: null, journal }, seen);

describe("journals in flight", () => {
  test("steps: every step of every plan → its effects are written down, and none is that no plan has", () => {
    const known = new Set<string>();
    for (const plan of SAGA_PLANS) {
      for (const step of plan.steps) {
        expect(() => effectsOf(plan.kind, step.name)).not.toThrow();
        known.add(`${plan.kind} ${step.name.split(":")[0]}`);
      }
    }
    const written = Object.entries(STEP_EFFECTS).flatMap(([kind, steps]) =>
      Object.keys(steps).map((name) => `${kind} ${name}`),
    );
    expect(written.filter((entry) => !known.has(entry))).toEqual([]);
  });

  test("steps: one that nobody has thought about → throws by name", () => {
    expect(() => effectsOf("Close", "teleport")).toThrow("Close.teleport");
  });

  test("journal: every plan in every step and state → an expectation, and one world that fits it", () => {
    let asked = 0;
    for (const { journal, where } of SAGA_PLANS.flatMap(journalsOf)) {
      const { projections } = expectedProjections({
        lifecycle: "Active",
        projectionResume: null,
        journal,
      });
      const fitting = Object.fromEntries(
        PROJECTIONS.map((p) => [p, projections[p] === "must" ? "present" : "missing"]),
      ) as unknown as ObservedProjections;
      const found = during(journal, "Active", fitting);
      expect({ where, failures: found.failures, issues: found.issues }).toEqual({
        where,
        failures: [],
        issues: [],
      });
      asked += 1;
    }
    expect(asked).toBeGreaterThan(300);
  });

  test("journal: every plan that is finished → what its last lifecycle needs is what the journal says", () => {
    for (const plan of SAGA_PLANS) {
      const end = plan.lifecycle.completed;
      if (end !== "Active" && end !== "Closed") continue;
      const [began] = plan.lifecycle.from;
      if (began === "ProjectionDiverged" || plan.kind === "Repair") continue;
      const journal: Journal = {
        kind: plan.kind,
        state: "Completed",
        began: began === "ClosePreflight" ? "Active" : began!,
        steps: plan.steps.map((s) => ({ name: s.name, state: "Completed" })),
      };
      const { projections } = expectedProjections({
        lifecycle: end,
        projectionResume: null,
        journal,
      });
      const needs = expectedProjections({
        lifecycle: end,
        projectionResume: null,
        journal: null,
      }).projections;
      for (const p of PROJECTIONS) {
        // What is left in a folder because nobody had named it is left.
        const fits = projections[p] === needs[p] || projections[p] === "either";
        expect([plan.kind, p, fits]).toEqual([plan.kind, p, true]);
      }
    }
  });

  const create = (at: string, state: StepState): Journal =>
    SAGA_PLANS.filter((p) => p.kind === "Create")
      .flatMap(journalsOf)
      .find(({ where }) => where.endsWith(`: ${at} ${state}`))!.journal;
  const close = (at: string, state: StepState): Journal =>
    SAGA_PLANS.filter((p) => p.kind === "Close" && p.variant === "")
      .flatMap(journalsOf)
      .find(({ where }) => where.endsWith(`: ${at} ${state}`))!.journal;

  const table: [string, Journal, Lifecycle, Partial<ObservedProjections>, string[]][] = [
    [
      "workspace being made, half there",
      create("workspace", "Started"),
      "Creating",
      { ...NOTHING, directory: "present" },
      [],
    ],
    [
      "workspace made, then lost",
      create("head", "Started"),
      "Creating",
      NOTHING,
      ["workspaceRecord", "directory"],
    ],
    [
      "bookmark there before its step",
      create("workspace", "Started"),
      "Creating",
      { ...NOTHING, bookmark: "present" },
      ["bookmark"],
    ],
    ["session not made yet", create("setup", "Started"), "Creating", { session: "missing" }, []],
    [
      "session gone while ready is awaited",
      create("ready", "Started"),
      "Creating",
      { session: "missing" },
      ["session"],
    ],
    [
      "workspace undone, folder kept",
      create("workspace", "Compensated"),
      "Creating",
      { ...NOTHING, directory: "present" },
      [],
    ],
    [
      "session gone before the kill",
      close("reproof", "Started"),
      "CloseCommit",
      { session: "missing" },
      ["session"],
    ],
    [
      "bookmark on its way to the checkpoint",
      close("checkpoint", "Started"),
      "CloseCommit",
      { bookmark: "moved" },
      [],
    ],
    [
      "bookmark moved after the checkpoint",
      close("verify", "Started"),
      "CloseCommit",
      { bookmark: "moved" },
      ["bookmark"],
    ],
    [
      "bookmark gone during the checkpoint",
      close("checkpoint", "Started"),
      "CloseCommit",
      { bookmark: "missing" },
      ["bookmark"],
    ],
    ["killed, session back", close("forget", "Started"), "CloseCommit", {}, ["session"]],
    [
      "deleted, leftovers stay",
      close("revoke", "Started"),
      "CloseCommit",
      { ...CLOSED, directory: "present" },
      [],
    ],
  ];
  for (const [name, journal, lifecycle, seen, expected] of table) {
    test(`journal: ${name} → ${expected.join(", ") || "its own doing"}`, () => {
      const found = during(journal, lifecycle, { ...ALL_THERE, ...seen });
      expect(found.failures.map((m) => m.projection)).toEqual(expected as never);
      expect(found.issues).toEqual([]);
    });
  }

  test("journal: failed, not running → nothing is failed again, what differs is reported", () => {
    const found = during(
      { ...close("forget", "Started"), state: "Failed" },
      "CloseFailed",
      ALL_THERE,
    );
    expect([found.failures, found.issues, found.unexpected.map((m) => m.projection)]).toEqual([
      [],
      [],
      ["session"],
    ]);
  });

  test("audit: any lifecycle, any journal, anything seen → issues or failures, never both, and none for the unknown", () => {
    const journals = SAGA_PLANS.flatMap(journalsOf).map((j) => j.journal);
    const seen: fc.Arbitrary<ObservedProjections> = fc.record({
      workspaceRecord: fc.constantFrom("present", "missing", "unknown"),
      directory: fc.constantFrom("present", "missing", "same-object", "other-object", "unknown"),
      bookmark: fc.constantFrom("present", "missing", "moved", "unknown"),
      session: fc.constantFrom("present", "missing", "unknown"),
    });
    fc.assert(
      fc.property(
        fc.constantFrom(...LIFECYCLES),
        fc.option(fc.constantFrom(...journals)),
        seen,
        (lifecycle, journal, s) => {
          const found = auditProjections({ lifecycle, projectionResume: null, journal }, s);
          expect(found.issues.length === 0 || found.failures.length === 0).toBe(true);
          if (journal !== null) expect([found.issues, found.normalisePath]).toEqual([[], false]);
          const named = [...found.failures, ...found.unexpected].map((m) => m.projection);
          expect(named.some((p) => found.unknown.includes(p))).toBe(false);
        },
      ),
      seeded(1000),
    );
  });
});
