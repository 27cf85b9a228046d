/** Random graphs for property tests, and ancestry asked the slow way: by writing out every path. */
import fc from "fast-check";
import type { OpNode } from "../../src/core/op-graph.ts";

export const opName = (i: number): string => `op${String(i).padStart(2, "0")}`;

/** Parents of node i are any of the nodes before it; merges, several heads and crossed histories included. */
export const opGraphs = (maxLength: number): fc.Arbitrary<OpNode[]> =>
  fc
    .array(fc.array(fc.nat(), { minLength: 1, maxLength: 3 }), {
      minLength: 1,
      maxLength,
      size: "max",
    })
    .map((picks) =>
      picks.map((parents, i): OpNode => ({
        id: opName(i),
        // Mostly near ones: an operation seldom starts from a very old view.
        parents:
          i === 0 ? [] : [...new Set(parents.map((p) => opName(i - 1 - (p % Math.min(i, 4)))))],
      })),
    );

/** Ancestors of every node, itself included: one path after the other, each parent edge followed. */
export function ancestorSets(nodes: readonly OpNode[]): Map<string, Set<string>> {
  const sets = new Map<string, Set<string>>();
  for (const node of nodes) {
    const mine = new Set([node.id]);
    for (const parent of node.parents) for (const a of sets.get(parent)!) mine.add(a);
    sets.set(node.id, mine);
  }
  return sets;
}

export const headsOf = (nodes: readonly OpNode[]): string[] => {
  const below = new Set(nodes.flatMap((n) => n.parents));
  return nodes.map((n) => n.id).filter((id) => !below.has(id));
};
