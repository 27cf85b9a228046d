import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { seeded } from "../support/seed.ts";
import { isAncestorOp, maximal, topologicalOrder, type OpNode } from "../../src/core/op-graph.ts";

/** Random DAGs: node i may have any of the nodes before it as parents; several heads and merges included. */
const dags = fc
  .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 30 })
  .map((picks) =>
    picks.map((parents, i): OpNode => ({
      id: `op${String(i).padStart(2, "0")}`,
      parents:
        i === 0 ? [] : [...new Set(parents.map((p) => `op${String(p % i).padStart(2, "0")}`))],
    })),
  );

const mapOf = (nodes: readonly OpNode[]): Map<string, OpNode> =>
  new Map(nodes.map((n) => [n.id, n]));

describe("topological order", () => {
  test("order: any graph, any part processed → every other node once, parents before children", () => {
    fc.assert(
      fc.property(dags, fc.infiniteStream(fc.boolean()), (nodes, coins) => {
        const processed = new Set(nodes.filter(() => coins.next().value).map((n) => n.id));
        const order = topologicalOrder(mapOf(nodes), processed).map((n) => n.id);
        expect([...order].sort()).toEqual(
          nodes.map((n) => n.id).filter((id) => !processed.has(id)),
        );
        const done = new Set(processed);
        for (const id of order) {
          const { parents } = mapOf(nodes).get(id)!;
          expect(parents.every((p) => done.has(p))).toBe(true);
          done.add(id);
        }
      }),
      seeded(200),
    );
  });

  test("order: two heads and their merge → the merge last, after both, whatever the names", () => {
    const nodes = [
      { id: "a-merge", parents: ["y", "z"] },
      { id: "y", parents: ["root"] },
      { id: "z", parents: ["root"] },
      { id: "root", parents: ["older, not read"] },
    ];
    const order = topologicalOrder(mapOf(nodes), new Set()).map((n) => n.id);
    expect([order[0], order.at(-1), order.length]).toEqual(["root", "a-merge", 4]);
  });

  test("order: 20,000 operations in a row → no stack overflow", () => {
    const nodes = Array.from({ length: 20_000 }, (_, i) => ({
      id: `op${i}`,
      parents: i === 0 ? [] : [`op${i - 1}`],
    }));
    expect(topologicalOrder(mapOf(nodes), new Set()).at(-1)!.id).toBe("op19999");
  });

  test("order: a cycle → throws by name", () => {
    const nodes = [
      { id: "a", parents: ["b"] },
      { id: "b", parents: ["a"] },
    ];
    expect(() => topologicalOrder(mapOf(nodes), new Set())).toThrow("cycle");
  });
});

describe("ancestry", () => {
  /** Ancestors the slow way: closure over parent edges. */
  function closure(nodes: Map<string, OpNode>, id: string): Set<string> {
    const found = new Set([id]);
    for (const at of found) for (const p of nodes.get(at)!.parents) found.add(p);
    return found;
  }

  test("ancestor: any graph → reachable through any parent, reflexive; a single-parent walk would fail", () => {
    fc.assert(
      fc.property(dags, fc.nat(), fc.nat(), (nodes, a, b) => {
        const map = mapOf(nodes);
        const [x, y] = [nodes[a % nodes.length]!.id, nodes[b % nodes.length]!.id];
        expect(isAncestorOp(x, y, (id) => map.get(id)!.parents)).toBe(closure(map, y).has(x));
      }),
      seeded(200),
    );
  });

  test("maximal: any set → an antichain of it that covers it", () => {
    fc.assert(
      fc.property(
        dags.chain((d) => fc.tuple(fc.constant(d), fc.subarray(d))),
        ([nodes, some]) => {
          const map = mapOf(nodes);
          const parentsOf = (id: string): readonly string[] => map.get(id)!.parents;
          const ids = some.map((n) => n.id);
          const top = maximal(ids, parentsOf);
          for (const x of top) {
            for (const y of top) if (x !== y) expect(isAncestorOp(x, y, parentsOf)).toBe(false);
          }
          for (const id of ids) expect(top.some((t) => isAncestorOp(id, t, parentsOf))).toBe(true);
          expect(top.every((t) => ids.includes(t))).toBe(true);
        },
      ),
      seeded(200),
    );
  });
});
