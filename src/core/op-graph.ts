/**
 * jj operations form a DAG with possibly several heads. Nothing here orders incomparable operations, and nothing
 * keeps one parent or one cursor.
 */
import type { OpId } from "./ids.ts";

export interface OpNode {
  id: OpId;
  parents: readonly OpId[];
}

/**
 * Unprocessed operations among `nodes`, parents before children. Operations already in `processed` are left out and
 * count as satisfied parents, as do parents that are not in `nodes` at all (older than what was read).
 * Throws on a cycle, which jj cannot produce.
 */
export function topologicalOrder(
  nodes: ReadonlyMap<OpId, OpNode>,
  processed: ReadonlySet<OpId>,
): OpNode[] {
  const order: OpNode[] = [];
  const done = new Set<OpId>();
  const onPath = new Set<OpId>();
  // Iterative: an op log may be thousands deep.
  const visit = (start: OpId): void => {
    const stack: { id: OpId; next: number }[] = [{ id: start, next: 0 }];
    onPath.add(start);
    while (stack.length > 0) {
      const frame = stack[stack.length - 1]!;
      const node = nodes.get(frame.id)!;
      const parent = node.parents[frame.next];
      if (parent === undefined) {
        stack.pop();
        onPath.delete(frame.id);
        done.add(frame.id);
        order.push(node);
        continue;
      }
      frame.next += 1;
      if (done.has(parent) || processed.has(parent) || !nodes.has(parent)) continue;
      if (onPath.has(parent)) throw new Error(`cycle in the operation graph at ${parent}`);
      onPath.add(parent);
      stack.push({ id: parent, next: 0 });
    }
  };
  for (const id of [...nodes.keys()].sort()) {
    if (!done.has(id) && !processed.has(id)) visit(id);
  }
  return order;
}

/** True when `ancestor` is `of` itself or reachable from it through any parent edge. */
export function isAncestorOp(
  ancestor: OpId,
  of: OpId,
  parentsOf: (id: OpId) => readonly OpId[],
): boolean {
  const seen = new Set<OpId>([of]);
  const queue: OpId[] = [of];
  while (queue.length > 0) {
    const id = queue.pop()!;
    if (id === ancestor) return true;
    for (const parent of parentsOf(id)) {
      if (!seen.has(parent)) {
        seen.add(parent);
        queue.push(parent);
      }
    }
  }
  return false;
}

/** The antichain of maximal elements: `ids` without those that are ancestors of another member. */
export function maximal(ids: readonly OpId[], parentsOf: (id: OpId) => readonly OpId[]): OpId[] {
  const unique = [...new Set(ids)];
  return unique
    .filter((id) => !unique.some((other) => other !== id && isAncestorOp(id, other, parentsOf)))
    .sort();
}
