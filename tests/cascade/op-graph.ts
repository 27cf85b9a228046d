/**
 * The operations of a test's repository as text: what one needs to see when a merge of operations was not understood.
 * One line for each operation, newest first, with every workspace's `@` that is not what all its parents show.
 */
import { changedHeads, forkPoints } from "../../src/core/ancestry.ts";
import type { OpId } from "../../src/core/ids.ts";
import { isAncestorOp } from "../../src/core/op-graph.ts";
import type { JjOperation, WorkspaceHead } from "../../src/ports/jj.ts";
import { watchedThreads } from "../../src/store/edges.ts";
import { intentsOf } from "../../src/store/intents.ts";
import type { Rig } from "./rig.ts";

/** More lines than these help nobody. */
const MAX_LINES = 120;
const AFTERWARDS = 10;

/**
 * Operations around those that made an intent diverge: from where their parents part to a few later ones. Without such
 * an intent, the newest of all.
 */
export async function operationGraph(rig: Rig): Promise<string[]> {
  // Every head, none of them merged by looking.
  const ops = new Map<OpId, JjOperation>();
  for (const head of await rig.jj.heads())
    for (const op of await rig.jj.operations(head, 100_000)) ops.set(op.id, op);
  const order = [...ops.keys()];
  const parentsOf = (id: OpId): readonly OpId[] => ops.get(id)?.parents ?? [];
  const diverged = watchedThreads(rig.db).flatMap((thread) =>
    intentsOf(rig.db, thread.threadId)
      .filter((intent) => intent.state === "TopologyDiverged")
      .map((intent) => ({ thread, intent })),
  );
  const wanted = new Set<OpId>(diverged.length === 0 ? order.slice(0, MAX_LINES) : []);
  const lines: string[] = [];
  for (const { thread, intent } of diverged) {
    const { op } = rig.db
      .query<{ op: string }, [string]>(
        "SELECT json_extract(evidence_json, '$.op') AS op FROM sync_intents WHERE intent_id = ?",
      )
      .get(intent.intentId)!;
    lines.push(
      `${thread.name}: ${intent.reason} by operation ${cut(op)}, base ${cut(intent.fromBase)}`,
    );
    const forks = forkPoints(parentsOf(op), parentsOf);
    const from = Math.max(0, order.indexOf(op) - AFTERWARDS);
    for (const id of order.slice(from, order.indexOf(op) + 1)) wanted.add(id);
    for (const id of order) {
      const isAfter = forks.length === 0 || forks.some((fork) => isAncestorOp(fork, id, parentsOf));
      if (isAfter && isAncestorOp(id, op, parentsOf)) wanted.add(id);
    }
  }
  const shown = order.filter((id) => wanted.has(id)).slice(0, MAX_LINES);
  const views = await rig.jj.workspaceHeads(
    [...new Set(shown.flatMap((id) => [...parentsOf(id), id]))].reverse(),
  );
  const view = (id: OpId): Map<string, WorkspaceHead> =>
    new Map((views.get(id) ?? []).map((w) => [w.workspace, w]));
  const at = (head: WorkspaceHead | null | undefined): string =>
    head ? `${head.changeId.slice(0, 6)}/${head.commitId.slice(0, 8)}` : "none";
  for (const id of shown) {
    const op = ops.get(id)!;
    const before = op.parents.map(view);
    lines.push(`${cut(id)} ← ${op.parents.map(cut).join(" ")}  ${op.description.slice(0, 80)}`);
    for (const { workspace, head } of changedHeads(before, view(id)))
      lines.push(
        `    ${workspace}: ${before.map((v) => at(v.get(workspace))).join(", ")} → ${at(head)}`,
      );
  }
  return lines;
}

function cut(id: string): string {
  return id.slice(0, 12);
}
