/** What the oracle asks about one intent, one file, one machine. */
import { canMoveIntent, INTENT_STATES, type IntentState } from "../../src/core/intent.ts";
import { triggersOf, type IntentRow } from "../../src/store/intents.ts";
import type { World } from "./world.ts";

/**
 * Why an intent is left unresolved although its agent went on: what a person was told, or the older intent it waits
 * behind; null: nobody knows. `open`: all of the thread, oldest first.
 */
export function explained(w: World, i: IntentRow, open: readonly IntentRow[]): string | null {
  const rows = w.outside
    .query<{ key: string }, { threadId: string }>(
      `SELECT dedup_key AS key FROM attention
       WHERE thread_id = $threadId AND kind = 'cascade_conflict' AND loud = 1`,
    )
    .all({ threadId: i.threadId });
  const keys = rows.map((row) => row.key);
  if (i.state === "TopologyDiverged" && keys.includes(i.detectedOp)) return "said";
  const said = keys.find((key) => key === i.intentId || key.startsWith(`${i.intentId}:`));
  if (said !== undefined)
    return said.slice(i.intentId.length + 1, i.intentId.length + 30) || "said";
  if (i.state === "TopologyDiverged")
    return triggeredBy(w, i).some((op) => keys.includes(op)) ? "said" : null;
  const before = open.filter((o) => o.seq < i.seq);
  const blocks = before.find(
    (o) => o.state !== "TopologyDiverged" || o.parentThreadId === i.parentThreadId,
  );
  if (blocks === undefined) return null;
  return explained(w, blocks, before) === null ? null : `behind ${blocks.state}`;
}

function triggeredBy(w: World, i: IntentRow): string[] {
  return triggersOf(w.outside, i.intentId).map((t) => t.op);
}

/** The lines somebody wrote are among what is there now, however jj merged them. */
export function contains(now: string | null, wrote: string): boolean {
  if (now === null) return false;
  const lines = new Set(now.slice(2).split("\n"));
  return wrote
    .slice(2)
    .split("\n")
    .every((line) => lines.has(line));
}

export function reachability(): Set<string> {
  const pairs = new Set<string>();
  for (const from of INTENT_STATES) {
    const seen = new Set<IntentState>([from]);
    for (const at of seen) for (const to of INTENT_STATES) if (canMoveIntent(at, to)) seen.add(to);
    for (const to of seen) pairs.add(`${from} ${to}`);
  }
  return pairs;
}
