/** Follows edges form a DAG; today each thread has at most one parent. */
import type { ThreadId } from "./ids.ts";

/** True when an edge `child → parent` would close a circle, itself included. */
export function wouldCycle(
  child: ThreadId,
  parent: ThreadId,
  parentOf: (thread: ThreadId) => ThreadId | null,
): boolean {
  const seen = new Set<ThreadId>();
  for (let at: ThreadId | null = parent; at !== null && !seen.has(at); at = parentOf(at)) {
    if (at === child) return true;
    seen.add(at);
  }
  return false;
}
