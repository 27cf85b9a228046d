import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  changedHeads,
  forkPoints,
  nextFrontier,
  openParents,
  workspaceMove,
  type ForksOf,
  type HeadView,
  type WorkspaceMove,
} from "../../src/core/ancestry.ts";
import {
  attributedTo,
  interpreter,
  operationsOf,
  spanOf,
  tokenIn,
  type Attributions,
  type KnownOp,
} from "../../src/core/attribution.ts";
import { topologicalOrder, type OpNode } from "../../src/core/op-graph.ts";
import { refuted, seeded } from "../support/seed.ts";
import { ancestorSets, headsOf, opGraphs, opName } from "./graphs.ts";

type Graph = ReadonlyMap<string, OpNode>;
const graphOf = (nodes: readonly OpNode[]): Graph => new Map(nodes.map((n) => [n.id, n]));
const parentsIn =
  (graph: Graph) =>
  (id: string): readonly string[] =>
    graph.get(id)?.parents ?? [];

// ---- AncestryQuery: reading the graph in rounds ----------------------------------------------------------------

/** What a watcher remembers between rounds. */
interface Memory {
  processed: readonly string[];
  frontier: readonly string[];
}
/** One round: from the current heads to the new memory. */
type Round = (memory: Memory, graph: Graph, heads: readonly string[]) => Memory;

const round: Round = (memory, graph, heads) => {
  const processed = new Set(memory.processed);
  const read = new Map<string, OpNode>();
  for (
    let open = heads.filter((id) => !processed.has(id));
    open.length > 0;
    open = openParents(read, (id) => processed.has(id))
  )
    for (const id of open) read.set(id, graph.get(id)!);
  const order = topologicalOrder(read, processed).map((n) => n.id);
  for (const id of order) processed.add(id);
  return {
    processed: [...memory.processed, ...order],
    frontier: nextFrontier(heads, parentsIn(graph), (id) => processed.has(id)),
  };
};

/** The history comes in rounds; after each, everything behind the heads is interpreted once, parents first. */
const interpretsAll = (watch: Round): fc.IProperty<[OpNode[], number[]]> =>
  fc.property(opGraphs(24), fc.array(fc.nat(8), { minLength: 1, maxLength: 6 }), (nodes, sizes) => {
    const sets = ancestorSets(nodes);
    let memory: Memory = { processed: [], frontier: [] };
    let until = 0;
    for (const size of [...sizes, nodes.length]) {
      until = Math.min(nodes.length, until + size + 1);
      const sofar = nodes.slice(0, until);
      memory = watch(memory, graphOf(sofar), headsOf(sofar));
      expect([...memory.processed].sort()).toEqual(sofar.map((n) => n.id));
      expect([...memory.frontier].sort()).toEqual(headsOf(sofar));
    }
    for (const [i, id] of memory.processed.entries()) {
      const before = new Set(memory.processed.slice(0, i + 1));
      expect([...sets.get(id)!].every((a) => before.has(a))).toBe(true);
    }
  });

/** One parent for each operation: the first. */
const singleParent: Round = (memory, graph, heads) => {
  const firstOnly = new Map(
    [...graph].map(([id, n]) => [id, { id, parents: n.parents.slice(0, 1) }]),
  );
  return round(memory, firstOnly, heads);
};
/** One cursor: from the newest head back to where the last round ended. */
const linearCursor: Round = (memory, graph, heads) => {
  const newest = [...heads].sort().at(-1)!;
  const path: string[] = [];
  for (
    let at: string | undefined = newest;
    at !== undefined && at !== memory.frontier[0];
    at = graph.get(at)!.parents[0]
  )
    path.unshift(at);
  return { processed: [...memory.processed, ...path], frontier: [newest] };
};
/** The whole log as a list, everything behind the cursor is new: complete, but one head only is remembered. */
const listedLog: Round = (memory, graph, heads) => {
  const all = [...graph.keys()];
  const fresh = all.slice(all.indexOf(memory.frontier[0] ?? "") + 1);
  return { processed: [...memory.processed, ...fresh], frontier: [heads.at(-1)!] };
};
/** All parents, but ordered by a time stamp that is out of order. */
const byTime: Round = (memory, graph, heads) => {
  const done = round(memory, graph, heads);
  const fresh = done.processed.slice(memory.processed.length);
  return { ...done, processed: [...memory.processed, ...fresh.reverse()] };
};

describe("AncestryQuery", () => {
  test("AncestryQuery: any graph in any rounds → every operation once, parents first, the heads remembered", () => {
    fc.assert(interpretsAll(round), seeded(400));
  });
  const wrong: [string, Round][] = [
    ["one parent per operation", singleParent],
    ["one linear cursor", linearCursor],
    ["one cursor into the listed log", listedLog],
    ["time stamps for an order", byTime],
  ];
  for (const [name, watch] of wrong) {
    test(`AncestryQuery: ${name} → refuted`, () =>
      expect(refuted(interpretsAll(watch), 400)).toBe(true));
  }

  test("AncestryQuery: a round that is interrupted anywhere and run again → the same memory", () => {
    fc.assert(
      fc.property(opGraphs(16), fc.nat(), (nodes, cut) => {
        const graph = graphOf(nodes);
        const whole = round({ processed: [], frontier: [] }, graph, headsOf(nodes));
        const half = whole.processed.slice(0, cut % (nodes.length + 1));
        // Interpreted operations are durable one by one; the frontier only with the last of them.
        const again = round({ processed: half, frontier: [] }, graph, headsOf(nodes));
        expect(again.frontier).toEqual(whole.frontier);
        expect([...again.processed].sort()).toEqual([...whole.processed].sort());
        expect(round(again, graph, headsOf(nodes))).toEqual(again);
      }),
      seeded(200),
    );
  });

  test("AncestryQuery: a head that is not interpreted → no frontier, by name", () => {
    expect(() =>
      nextFrontier(
        ["a"],
        () => [],
        () => false,
      ),
    ).toThrow("operation a is a head");
  });

  const forksAgree = (forks: typeof forkPoints): fc.IProperty<[OpNode[], number[]]> =>
    fc.property(
      opGraphs(20),
      fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
      (nodes, picks) => {
        const ids = picks.map((p) => nodes[p % nodes.length]!.id);
        const sets = ancestorSets(nodes);
        const common = nodes
          .map((n) => n.id)
          .filter((id) => ids.every((x) => sets.get(x)!.has(id)));
        const newest = common.filter((id) => !common.some((c) => c !== id && sets.get(c)!.has(id)));
        expect(forks(ids, parentsIn(graphOf(nodes)))).toEqual(newest);
      },
    );
  test("AncestryQuery: fork points of any operations → the newest common ancestors, all of them", () => {
    fc.assert(forksAgree(forkPoints), seeded(1500));
  });
  test("AncestryQuery: fork points through first parents, or only one of them → refuted", () => {
    const first: typeof forkPoints = (ids, parents) =>
      forkPoints(ids, (id) => parents(id).slice(0, 1));
    const one: typeof forkPoints = (ids, parents) => forkPoints(ids, parents).slice(0, 1);
    expect([refuted(forksAgree(first), 1500), refuted(forksAgree(one), 1500)]).toEqual([
      true,
      true,
    ]);
  });

  test("AncestryQuery: fork points near the end of a long history → only its end is walked", () => {
    const asked = new Set<string>();
    const parents = (id: string): string[] => {
      asked.add(id);
      const n = Number(id.slice(2));
      if (id.startsWith("b")) return n === 0 ? ["op9000"] : [`b_${n - 1}`];
      return n === 0 ? [] : [opName(n - 1)];
    };
    expect(forkPoints([opName(9010), "b_9"], parents)).toEqual(["op9000"]);
    expect(asked.size).toBeLessThan(60);
  });
});

// ---- AncestryQuery: what a merge did to one workspace ----------------------------------------------------------

const head = (changeId: string, version: number, divergent = false): HeadView => ({
  commitId: `${changeId}${version}`,
  changeId,
  divergent,
});
type Move = typeof workspaceMove;

/** Both sides of a fork may stay, rewrite `@`, or move it to another change; the merge shows any of all these. */
const threeWay: fc.Arbitrary<[HeadView, HeadView, HeadView, HeadView]> = fc
  .tuple(
    fc.constantFrom("stay", "rewrite", "new"),
    fc.constantFrom("stay", "rewrite", "new", "same"),
    fc.constantFrom("left", "right", "rewritten", "elsewhere", "divergent"),
  )
  .map(([l, r, m]) => {
    const base = head("x", 0);
    const side = (how: string, n: number): HeadView =>
      how === "stay" ? base : how === "rewrite" ? head("x", n) : head(`n${n}`, 0);
    const left = side(l, 1);
    const right = r === "same" ? left : side(r, 2);
    const after = {
      left,
      right,
      rewritten: head(left.changeId, 9),
      elsewhere: head("z", 0),
      divergent: head("x", 8, true),
    };
    return [base, left, right, after[m as keyof typeof after]];
  });

const coherence = (move: Move): fc.IProperty<[[HeadView, HeadView, HeadView, HeadView]]> =>
  fc.property(threeWay, ([base, left, right, after]) => {
    const moved = [left, right].filter((v) => v.commitId !== base.commitId);
    // A rewrite of the very change it was on goes along with a move to another one.
    const away = moved.filter((v) => v.changeId !== base.changeId);
    const changes = [...new Set((away.length > 0 ? away : moved).map((v) => v.changeId))];
    const expected = ((): WorkspaceMove["kind"] => {
      if (left.commitId === after.commitId && right.commitId === after.commitId) return "unchanged";
      if (after.divergent || changes.length > 1) return "IncoherentViews";
      // The one change that was moved to, or the base's own where nobody moved.
      return after.changeId === (changes[0] ?? base.changeId) ? "moved" : "IncoherentViews";
    })();
    expect(move([left, right], after, () => [base]).kind).toBe(expected);
  });

/**
 * Some operations take the workspace to a change of its own. What a merge has to say follows from the graph alone: the
 * moves behind its parents, and whether one of them came after all others.
 */
const followsTheNewest = (
  forks: typeof forkPoints,
  between: "two" | "of all" = "two",
): fc.IProperty<[OpNode[], boolean[]]> =>
  fc.property(
    opGraphs(16),
    fc.array(fc.boolean(), { minLength: 16, maxLength: 16 }),
    (nodes, moves) => {
      const [sets, graph] = [ancestorSets(nodes), graphOf(nodes)];
      const isMove = new Set(nodes.filter((_node, i) => i === 0 || moves[i]).map((n) => n.id));
      /** Moves behind any of `ids` that none of the others came after. */
      const newest = (ids: readonly string[]): string[] => {
        const all = [...new Set(ids.flatMap((id) => [...sets.get(id)!]))].filter((m) =>
          isMove.has(m),
        );
        return all.filter((m) => !all.some((later) => later !== m && sets.get(later)!.has(m)));
      };
      // Where there are several, jj's merge shows one of them.
      const view = (id: string): HeadView => head(newest([id])[0]!, 0);
      for (const { id, parents } of nodes) {
        if (parents.length < 2 || isMove.has(id)) continue;
        if (parents.some((parent) => newest([parent]).length > 1)) continue;
        const last = newest(parents);
        const move = workspaceMove(parents.map(view), view(id), (one, other) =>
          forks(
            between === "two" ? [parents[one]!, parents[other]!] : parents,
            parentsIn(graph),
          ).map(view),
        );
        const same = parents.every((p) => view(p).commitId === view(id).commitId);
        expect(move.kind).toBe(last.length > 1 ? "IncoherentViews" : same ? "unchanged" : "moved");
      }
    },
  );

describe("AncestryQuery, operations with several parents", () => {
  test("AncestryQuery: any two sides and any result → one coherent move, or IncoherentViews", () => {
    fc.assert(coherence(workspaceMove), seeded(1000));
  });
  const wrong: [string, Move][] = [
    ["the first parent's view", (before, after) => workspaceMove(before.slice(0, 1), after)],
    ["the last operation's view", (before, after) => workspaceMove(before.slice(-1), after)],
    [
      "the parent that fits best",
      (before, after, forks) => {
        const fits = before.find((v) => v?.changeId === after?.changeId);
        return fits === undefined
          ? workspaceMove(before, after, forks)
          : workspaceMove([fits], after);
      },
    ],
  ];
  for (const [name, move] of wrong) {
    test(`AncestryQuery: ${name} → refuted`, () =>
      expect(refuted(coherence(move), 1000)).toBe(true));
  }

  const [x0, x1, y0, y1] = [head("x", 0), head("x", 1), head("y", 0), head("y", 1)];
  const z0 = head("z", 0);
  const table: [string, (HeadView | null)[], HeadView | null, (HeadView | null)[], string][] = [
    ["first operation of all", [], x0, [], "moved"],
    ["one parent, same", [x0], x0, [], "unchanged"],
    ["one parent, another", [x0], y0, [], "moved"],
    ["workspace gone", [x0], null, [], "moved"],
    ["workspace gone on one side", [x0, null], null, [x0], "moved"],
    ["made on one side", [null, x0], x0, [null], "moved"],
    ["both sides moved it apart", [y0, z0], y0, [x0], "IncoherentViews"],
    ["one side moved on from what the other rewrote", [x1, y0], y1, [x0], "moved"],
    ["a rewrite takes back where the other side went", [x1, y0], x1, [x0], "IncoherentViews"],
    ["one side moved it", [x1, x0], x1, [x0], "moved"],
    ["the merge takes back what one side did", [x0, y0], x0, [x0], "IncoherentViews"],
    ["no forks known, result of neither", [x0, x1], y0, [], "IncoherentViews"],
    ["no forks known, result of one", [x0, y0], y0, [], "moved"],
  ];
  for (const [name, before, after, forks, expected] of table) {
    test(`AncestryQuery: ${name} → ${expected}`, () =>
      expect(workspaceMove(before, after, () => forks).kind).toBe(
        expected as WorkspaceMove["kind"],
      ));
  }

  test("AncestryQuery: three parents, two of them part after the workspace went on → the later part decides", () => {
    // x0 ─┬─ (elsewhere)        stays at x0
    //     └─ y0 ─┬─ (elsewhere) stays at y0
    //            └─ z0
    const forks: ForksOf = (one, other) => (one + other === 3 ? [y0] : [x0]);
    expect(workspaceMove([x0, y0, z0], z0, forks)).toEqual({ kind: "moved", to: z0 });
    expect(workspaceMove([x0, y0, z0], y0, forks)).toEqual({ kind: "IncoherentViews" });
    expect(workspaceMove([x0, y0, z0], x0, forks)).toEqual({ kind: "IncoherentViews" });
    // Apart since x0, as far as anybody knows: two moves.
    expect(workspaceMove([x0, y0, z0], z0, () => [x0])).toEqual({ kind: "IncoherentViews" });
  });

  test("AncestryQuery: any graph of operations, moved anywhere → coherent exactly where one move came after all others", () => {
    fc.assert(followsTheNewest(forkPoints), seeded(1500));
  });
  const wrongForks: [string, typeof forkPoints][] = [
    ["forks through first parents", (ids, of) => forkPoints(ids, (id) => of(id).slice(0, 1))],
    ["where the history begins", () => [opName(0)]],
  ];
  for (const [name, forks] of wrongForks) {
    test(`AncestryQuery: ${name} → refuted`, () =>
      expect(refuted(followsTheNewest(forks), 1500)).toBe(true));
  }
  test("AncestryQuery: where all parents part at once, for every two of them → refuted", () => {
    expect(refuted(followsTheNewest(forkPoints, "of all"), 1500)).toBe(true);
  });

  test("AncestryQuery: heads of an operation → recorded where any parent's differs, removals too", () => {
    const view = (...rows: [string, HeadView][]): Map<string, HeadView> => new Map(rows);
    expect(
      changedHeads(
        [view(["a", x0], ["b", y0]), view(["a", x1], ["b", y0], ["c", x0])],
        view(["a", x1], ["b", y0], ["d", y0]),
      ),
    ).toEqual([
      { workspace: "a", head: x1 },
      { workspace: "d", head: y0 },
      { workspace: "c", head: null },
    ]);
  });
});

// ---- OpAttribution ---------------------------------------------------------------------------------------------

const uuid = (n: number): string => `0000000${n}-0000-4000-8000-000000000000`;
const TOKENS = [1, 2, 3].map(uuid);

interface World {
  nodes: OpNode[];
  ops: KnownOp[];
  known: Attributions;
  /** The truth: who ran which operation. */
  ran: Map<string, string | null>;
}

/** Operations of three handlers and of people, anywhere in the graph; some known by id, one token is not kiki's. */
const worlds: fc.Arbitrary<World> = opGraphs(18).chain((nodes) =>
  fc
    .array(fc.record({ who: fc.integer({ min: 0, max: 5 }), staged: fc.boolean() }), {
      minLength: nodes.length,
      maxLength: nodes.length,
    })
    .map((picks) => {
      const ran = new Map<string, string | null>();
      const staged = new Map<string, string>();
      const ops = nodes.map((n, i) => {
        const { who, staged: byId } = picks[i]!;
        const token = TOKENS[who - 1] ?? null;
        ran.set(n.id, token);
        if (token !== null && byId) staged.set(n.id, token);
        const said = who === 4 ? uuid(9) : byId ? null : token;
        return { id: n.id, args: said === null ? "jj new" : `jj --config kiki.token=${said} new` };
      });
      const known: Attributions = {
        isLive: (token) => (TOKENS.includes(token) ? token !== TOKENS[2] : null),
        stagedAs: (id) => staged.get(id) ?? null,
      };
      return { nodes, ops, known, ran };
    }),
);

interface Attributing {
  own(token: string, w: World): ReadonlySet<string>;
  span(own: ReadonlySet<string>, w: World): { before: string[]; after: string[] };
}
const honest: Attributing = {
  own: (token, w) => operationsOf(token, w.ops, w.known),
  span: (own, w) => spanOf(own, parentsIn(graphOf(w.nodes))),
};

const attributes = (a: Attributing): fc.IProperty<[World]> =>
  fc.property(worlds, (w) => {
    const sets = ancestorSets(w.nodes);
    for (const token of TOKENS) {
      const own = w.nodes.filter((n) => w.ran.get(n.id) === token);
      const ids = own.map((n) => n.id);
      expect([...a.own(token, w)].sort()).toEqual(ids);
      const outside = own.flatMap((n) => n.parents).filter((p) => w.ran.get(p) !== token);
      const ends = ids.filter((id) => !ids.some((o) => o !== id && sets.get(o)!.has(id)));
      expect(a.span(new Set(ids), w)).toEqual({
        before: [...new Set(outside)].sort(),
        after: ends,
      });
    }
  });

const firstToLast = (token: string, w: World): string[] => {
  const ids = w.nodes.map((n) => n.id);
  const mine = ids.filter((id) => w.ran.get(id) === token);
  return mine.length === 0 ? [] : ids.slice(ids.indexOf(mine[0]!), ids.indexOf(mine.at(-1)!) + 1);
};

describe("OpAttribution", () => {
  test("OpAttribution: any operations of any handlers in any graph → exactly their own, and every view they began from", () => {
    fc.assert(attributes(honest), seeded(400));
  });
  const wrong: [string, Attributing][] = [
    [
      "one parent per operation",
      {
        ...honest,
        span: (own, w) => spanOf(own, (id) => parentsIn(graphOf(w.nodes))(id).slice(0, 1)),
      },
    ],
    [
      "one cursor, everything up to the last one is the handler's",
      { ...honest, own: (t, w) => new Set(firstToLast(t, w)) },
    ],
    [
      "one cursor, began before the first and ended with the last",
      {
        ...honest,
        span: (own, w) => {
          const ids = w.nodes.map((n) => n.id).filter((id) => own.has(id));
          return {
            before: [...(graphOf(w.nodes).get(ids[0] ?? "")?.parents ?? [])].sort(),
            after: ids.slice(-1),
          };
        },
      },
    ],
    [
      "arguments alone",
      {
        ...honest,
        own: (t, w) => new Set(w.ops.filter((o) => tokenIn(o.args) === t).map((o) => o.id)),
      },
    ],
    [
      "inherited from the parent",
      {
        ...honest,
        own: (t, w) => {
          const own = new Set(operationsOf(t, w.ops, w.known));
          for (const n of w.nodes) if (n.parents.some((p) => own.has(p))) own.add(n.id);
          return own;
        },
      },
    ],
  ];
  for (const [name, a] of wrong) {
    test(`OpAttribution: ${name} → refuted`, () => expect(refuted(attributes(a), 400)).toBe(true));
  }

  test("OpAttribution: live token → its handler interprets; spent, unknown or none → the watcher", () => {
    const known: Attributions = {
      isLive: (t) => (t === TOKENS[0] ? true : t === TOKENS[1] ? false : null),
      stagedAs: (id) => (id === "staged" ? TOKENS[0]! : null),
    };
    const who = (id: string, token: string | null): string =>
      interpreter({ id, args: token === null ? "" : `--config kiki.token=${token}` }, known);
    expect([who("a", TOKENS[0]!), who("staged", null)]).toEqual(["handler", "handler"]);
    expect([who("b", TOKENS[1]!), who("c", uuid(9)), who("d", null)]).toEqual(
      Array(3).fill("watcher"),
    );
    expect(attributedTo({ id: "c", args: `kiki.token=${uuid(9)}` }, known)).toBeNull();
  });
});
