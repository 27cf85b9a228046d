/** Intents of one edge over a whole history: a pure model of the watcher, made of the core's own decisions. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { nextFrontier } from "../../src/core/ancestry.ts";
import { classify, type Classification } from "../../src/core/classify.ts";
import { edgeStep, edgeTail, type EdgeIntent } from "../../src/core/edge.ts";
import { INTENT_STATES } from "../../src/core/intent.ts";
import { topologicalOrder, type OpNode } from "../../src/core/op-graph.ts";
import { refuted, seeded } from "../support/seed.ts";
import { headsOf, opGraphs } from "./graphs.ts";

const advance = (toBase: string): Classification => ({
  kind: "ParentAdvance",
  fromBase: "a",
  toBase,
});
const newest = (state: EdgeIntent["state"], toBase = "b"): EdgeIntent => ({
  state,
  fromBase: "a",
  toBase,
});

describe("edge", () => {
  const table: [string, EdgeIntent | null, Classification, object][] = [
    ["nothing pending, parent moved", null, advance("b"), { step: "insert", toBase: "b" }],
    ["nothing pending, aligned", null, { kind: "AlreadyAligned" }, { step: "nothing" }],
    [
      "detected, parent moved on",
      newest("Detected"),
      advance("c"),
      { step: "coalesce", toBase: "c" },
    ],
    ["detected, the same again", newest("Detected"), advance("b"), { step: "nothing" }],
    [
      "detected, parent came back",
      newest("Detected"),
      { kind: "AlreadyAligned" },
      { step: "supersede" },
    ],
    ["detected, already there", newest("Detected"), advance("a"), { step: "supersede" }],
    [
      "reconciling, parent moved on",
      newest("Reconciling"),
      advance("c"),
      { step: "insert", toBase: "c" },
    ],
    [
      "delivered, parent moved on",
      newest("Delivered"),
      advance("c"),
      { step: "insert", toBase: "c" },
    ],
    ["diverged, anything", newest("TopologyDiverged"), advance("c"), { step: "wait" }],
    [
      "detected, cannot be followed",
      newest("Detected"),
      { kind: "TopologyDiverged", reason: "ParentMovedBackward" },
      { step: "diverge", reason: "ParentMovedBackward" },
    ],
    [
      "nothing pending, cannot be followed",
      null,
      { kind: "TopologyDiverged", reason: "IncoherentViews" },
      { step: "insert-diverged", reason: "IncoherentViews" },
    ],
  ];
  for (const [name, open, decided, expected] of table) {
    test(`edge: ${name} → ${Object.values(expected).join(" ")}`, () =>
      expect(edgeStep(open, "a", decided)).toMatchObject(expected));
  }

  test("edge: parent comes back to where the child stood, while an intent takes it off there → a move like any other", () => {
    expect(edgeStep(newest("Reconciling"), null, advance("a"))).toMatchObject({ step: "insert" });
    expect(edgeStep(newest("Detected"), null, advance("a"))).toMatchObject({ step: "coalesce" });
  });

  test("edge: tail → the pending start while it may absorb, the edge once files moved, else the pinned end", () => {
    const tail = (state: EdgeIntent["state"]): string => edgeTail(newest(state), "s");
    expect(edgeTail(null, "s")).toBe("s");
    expect(INTENT_STATES.map((s) => `${s} ${tail(s)}`)).toEqual([
      "Detected a",
      "Reconciling b",
      "Materialized s",
      "Delivered s",
      "Acknowledged b",
      "RecoveryRequired b",
      "TopologyDiverged b",
      "Superseded b",
    ]);
  });
});

// ---- the whole history -----------------------------------------------------------------------------------------

interface Row extends EdgeIntent {
  seq: number;
  triggers: string[];
}
/** What is durable. Every operation's record is one step: all of it or nothing. */
interface Db {
  processed: string[];
  frontier: string[];
  intents: Row[];
  anchor: string;
}

interface World {
  nodes: OpNode[];
  /** The parent's `@` after each operation; a number, older versions are smaller. */
  at: Map<string, string>;
  /** After how many operations a boundary takes the oldest intent up, and how far. */
  boundaries: boolean[];
}

/** Names that say nothing about the order. */
const histories: fc.Arbitrary<OpNode[]> = opGraphs(20).chain((nodes) =>
  fc
    .shuffledSubarray(
      nodes.map((n) => n.id),
      { minLength: nodes.length, maxLength: nodes.length },
    )
    .map((names) => {
      const named = new Map(nodes.map((n, i) => [n.id, names[i]!]));
      return nodes.map((n) => ({
        id: named.get(n.id)!,
        parents: n.parents.map((p) => named.get(p)!),
      }));
    }),
);
const worlds: fc.Arbitrary<World> = histories.chain((nodes) =>
  fc
    .tuple(
      fc.array(fc.integer({ min: 0, max: 3 }), {
        minLength: nodes.length,
        maxLength: nodes.length,
      }),
      fc.array(fc.boolean(), { minLength: nodes.length, maxLength: nodes.length }),
    )
    .map(([moves, boundaries]) => {
      const at = new Map<string, string>();
      for (const [i, n] of nodes.entries()) {
        const before =
          n.parents
            .map((p) => at.get(p)!)
            .sort()
            .at(-1) ?? "v00";
        // Two in four stay, one goes on, one comes back to the beginning.
        at.set(
          n.id,
          moves[i]! < 2 ? before : moves[i] === 2 ? `v${String(i).padStart(2, "0")}` : "v00",
        );
      }
      return { nodes, at, boundaries };
    }),
);

const isOpen = (r: Row): boolean => !["Acknowledged", "Superseded"].includes(r.state);

function record(db: Db, w: World, node: OpNode): Db {
  const next: Db = { ...structuredClone(db), processed: [...db.processed, node.id] };
  const to = w.at.get(node.id)!;
  if (node.parents.length > 0 && node.parents.every((p) => w.at.get(p) === to)) return next;
  const open = next.intents.findLast(isOpen) ?? null;
  const from = edgeTail(open, next.anchor);
  const decided = classify({
    fromBase: from,
    toBase: to,
    childHead: "child",
    toBaseInChild: false,
    toBaseBehindFrom: to !== from && to === "v00",
    anchorInChild: true,
    divergent: false,
    shownTwice: false,
  });
  const step = edgeStep(open, next.anchor, decided);
  const seq = (next.intents.at(-1)?.seq ?? 0) + 1;
  const fresh = { seq, fromBase: from, toBase: to, triggers: [node.id] };
  switch (step.step) {
    case "nothing":
      return next;
    case "insert":
      next.intents.push({ ...fresh, state: "Detected" });
      return next;
    case "insert-diverged":
      next.intents.push({ ...fresh, state: "TopologyDiverged" });
      return next;
    case "wait":
      open!.triggers.push(node.id);
      return next;
    case "coalesce":
      open!.triggers.push(node.id);
      open!.toBase = step.toBase;
      return next;
    case "supersede":
    case "diverge":
      open!.triggers.push(node.id);
      open!.state = step.step === "diverge" ? "TopologyDiverged" : "Superseded";
      return next;
  }
}

/** A boundary takes the oldest detected intent to its end, in one step here. */
function boundary(db: Db): Db {
  const next = structuredClone(db);
  const oldest = next.intents.find((r) => r.state === "Detected");
  if (oldest === undefined) return next;
  oldest.state = "Acknowledged";
  next.anchor = oldest.toBase;
  return next;
}

type Watch = (db: Db, w: World, crashAfter: number) => Db;

/** Reads everything behind the heads and records it, one operation at a time; a crash leaves what was recorded. */
const watch: Watch = (db, w, crashAfter) => {
  const graph = new Map(w.nodes.map((n) => [n.id, n]));
  let now = db;
  for (const node of topologicalOrder(graph, new Set(db.processed))) {
    if (now.processed.length >= crashAfter) return now;
    now = record(now, w, node);
    if (w.boundaries[now.processed.length - 1] === true) now = boundary(now);
  }
  const done = new Set(now.processed);
  const parentsOf = (id: string): readonly string[] => graph.get(id)?.parents ?? [];
  return { ...now, frontier: nextFrontier(headsOf(w.nodes), parentsOf, (id) => done.has(id)) };
};

const EMPTY: Db = { processed: [], frontier: [], intents: [], anchor: "v00" };

const replays = (play: Watch): fc.IProperty<[World, number[]]> =>
  fc.property(worlds, fc.array(fc.nat(20), { maxLength: 5 }), (w, crashes) => {
    const whole = watch(EMPTY, w, Number.POSITIVE_INFINITY);
    let db = EMPTY;
    for (const crash of [...crashes].sort((a, b) => a - b)) db = play(db, w, crash);
    db = play(play(db, w, Number.POSITIVE_INFINITY), w, Number.POSITIVE_INFINITY);
    expect(db).toEqual(whole);
  });

describe("a history with crashes", () => {
  test("replay: interrupted anywhere, any number of times, and read twice → the same intents and frontier", () => {
    fc.assert(replays(watch), seeded(400));
  });

  const wrong: [string, Watch][] = [
    [
      "a crash forgets what was processed",
      (db, w, crash) => watch({ ...db, processed: [] }, w, crash),
    ],
    [
      "the frontier is stored before its operations are interpreted",
      (db, w, crash) => {
        const done = db.frontier.length > 0 ? db : watch(db, w, crash);
        return { ...done, frontier: headsOf(w.nodes) };
      },
    ],
    [
      "one cursor instead of the processed set",
      (db, w, crash) => {
        const cursor = db.processed.at(-1);
        const ids = w.nodes.map((n) => n.id);
        const behind = cursor === undefined ? [] : ids.slice(0, ids.indexOf(cursor) + 1);
        return watch({ ...db, processed: behind }, w, crash);
      },
    ],
  ];
  for (const [name, play] of wrong) {
    test(`replay: ${name} → refuted`, () => expect(refuted(replays(play), 400)).toBe(true));
  }

  test("seq: any history → grows by one, at most one intent may absorb, each starts where the last one ended", () => {
    fc.assert(
      fc.property(worlds, (w) => {
        const { intents } = watch(EMPTY, w, Number.POSITIVE_INFINITY);
        expect(intents.map((r) => r.seq)).toEqual(intents.map((_, i) => i + 1));
        expect(intents.filter((r) => r.state === "Detected").length).toBeLessThanOrEqual(1);
        let anchor = "v00";
        for (const r of intents) {
          expect(r.fromBase).toBe(anchor);
          if (r.state === "Acknowledged") anchor = r.toBase;
          expect(new Set(r.triggers).size).toBe(r.triggers.length);
        }
      }),
      seeded(400),
    );
  });
});
