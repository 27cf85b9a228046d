/** Every move of a parent is accounted for, once the watcher has read everything there is. */
import { isPrepared } from "../../src/core/intent.ts";
import { edges, watchedThreads } from "../../src/store/edges.ts";
import { newestOfEdge } from "../../src/store/intents.ts";
import { frontier, liveAttributions, unprocessedOps } from "../../src/store/ops.ts";
import type { World } from "./world.ts";

/** The watcher has interpreted the one head there is, and owes nothing to a handler. */
function upToDate(w: World): string | null {
  const heads = [...w.jj.engine.heads];
  if (w.life === null || heads.length !== 1 || w.ports.parked.length > 0) return null;
  const db = w.outside;
  if (frontier(db).join() !== heads[0] || unprocessedOps(db).length > 0) return null;
  return liveAttributions(db).length > 0 ? null : heads[0]!;
}

/** anchor → the parent's `@` is covered by intents; cached heads are the view's. */
export function checkCover(w: World): void {
  const head = upToDate(w);
  if (head === null) return;
  const { view } = w.jj.engine.store.operation(head);
  const db = w.outside;
  const threads = new Map(watchedThreads(db).map((t) => [t.threadId, t]));
  for (const thread of threads.values()) {
    const at = view.workspaces.get(thread.workspaceName);
    if (at !== undefined && thread.lifecycle === "Active" && thread.head !== at)
      w.breach(
        `${thread.name}: cached head ${thread.head?.slice(0, 8)}, jj's is ${at.slice(0, 8)}`,
      );
  }
  for (const edge of edges(db)) {
    const parent = threads.get(edge.parent);
    const child = threads.get(edge.child);
    // Before its gate opens nobody watches the edge, and the gate waits for its comparison.
    if (parent === undefined || child?.lifecycle !== "Active") continue;
    const at = view.workspaces.get(parent.workspaceName) ?? null;
    const newest = newestOfEdge(db, edge.child, edge.parent);
    const why = uncovered(at, edge.lastSynchronized, newest);
    if (why !== null && !givenUp(w, edge, at))
      w.breach(`edge ${parent.name} → ${child.name}: ${why}`);
  }
}

/** A person gave up what the parent did until it was there. */
function givenUp(w: World, edge: { child: string; parent: string }, at: string | null): boolean {
  return (
    w.outside
      .query(
        `SELECT 1 FROM sync_intents i LEFT JOIN sync_intent_triggers t USING (intent_id)
         WHERE i.thread_id = $child AND i.parent_thread_id = $parent AND i.discard = 'transition'
           AND $at IN (i.to_base_commit_id, t.to_commit_id)`,
      )
      .get({ child: edge.child, parent: edge.parent, at }) !== null
  );
}

function uncovered(
  at: string | null,
  anchor: string,
  newest: ReturnType<typeof newestOfEdge>,
): string | null {
  if (newest?.state === "TopologyDiverged") return null;
  if (newest === null || isPrepared(newest.state)) {
    return at === anchor
      ? null
      : `parent at ${at?.slice(0, 8)}, anchor ${anchor.slice(0, 8)}, no intent`;
  }
  // Its files were brought along already, perhaps further than it had pinned, before its harness ran a refused tool; a
  // repair of that begins with what was pinned.
  const undone = newest.state === "RecoveryRequired" || newest.state === "Reconciling";
  const brought = undone && newest.resultCommit !== null;
  return at === newest.toBase || (brought && at === anchor)
    ? null
    : `parent at ${at?.slice(0, 8)}, newest intent (${newest.state}) ends at ${newest.toBase.slice(0, 8)}`;
}

/** At the end: every operation there is was read with all its parents, and every `@` that moved in it was recorded. */
export function checkHistory(w: World): void {
  const { store, heads } = w.jj.engine;
  const db = w.outside;
  const parentsOf = db.query<{ parent: string }, { id: string }>(
    "SELECT parent_op_id AS parent FROM op_history_parents WHERE op_id = $id ORDER BY parent_op_id",
  );
  const headsOf = db.query<{ name: string; commit: string | null }, { id: string }>(
    'SELECT workspace_name AS name, commit_id AS "commit" FROM op_workspace_heads WHERE op_id = $id',
  );
  const rowOf = db.query<{ processed: number | null; baseline: number }, { id: string }>(
    "SELECT processed_at AS processed, 0 AS baseline FROM op_history WHERE op_id = $id",
  );
  const seen = new Set(heads);
  for (const id of seen) {
    const op = store.operation(id);
    for (const parent of op.parents) seen.add(parent);
    if (op.parents.length === 0) continue;
    const row = rowOf.get({ id });
    if (row?.processed == null) {
      w.breach(`operation "${op.description}" was never interpreted`);
      continue;
    }
    const parents = parentsOf.all({ id }).map((p) => p.parent);
    if (parents.join() !== [...op.parents].sort().join())
      w.breach(`operation "${op.description}" lost a parent`);
    checkMoved(w, id, headsOf.all({ id }));
  }
}

/** The baseline, before the first thread, has no recorded heads. */
function checkMoved(
  w: World,
  id: string,
  recorded: readonly { name: string; commit: string | null }[],
): void {
  if (w.baseline.has(id)) return;
  const { store } = w.jj.engine;
  const op = store.operation(id);
  const views = op.parents.map((p) => store.operation(p).view.workspaces);
  const names = new Set([...op.view.workspaces.keys(), ...views.flatMap((v) => [...v.keys()])]);
  for (const name of names) {
    const now = op.view.workspaces.get(name) ?? null;
    const moved = views.some((v) => (v.get(name) ?? null) !== now);
    const row = recorded.find((r) => r.name === name);
    if (moved && row?.commit !== now && !(now === null && row !== undefined && row.commit === null))
      w.breach(`operation "${op.description}": the move of ${name} was not recorded`);
    if (!moved && row !== undefined)
      w.breach(`operation "${op.description}": ${name} did not move`);
  }
}
