/** What kiki has read of jj's operation graph: history, every parent edge, per-workspace heads, the frontier. */
import type { ChangeId, CommitId, OpId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export type AttributionHandler = "lifecycle" | "reconcile" | "snapshot";

export interface Attribution {
  token: string;
  handler: AttributionHandler;
  ownerId: string;
  live: boolean;
}

/** Persisted before the command runs; the token travels in the operation's recorded arguments. */
export function attribute(
  db: Db,
  row: { token: string; handler: AttributionHandler; ownerId: string; now: number },
): void {
  db.query(
    "INSERT INTO op_attribution (token, handler, owner_id, created_at, live) VALUES ($token, $handler, $ownerId, $now, 1)",
  ).run(row);
}

/** The handler has recorded what its operations mean; the watcher owes nothing any more. Closed already: nothing. */
export function closeAttribution(db: Db, token: string): void {
  db.query("UPDATE op_attribution SET live = 0 WHERE token = $token AND live = 1").run({ token });
}

export function liveAttributions(db: Db): Attribution[] {
  return db
    .query<{ token: string; handler: AttributionHandler; owner_id: string }, []>(
      "SELECT token, handler, owner_id FROM op_attribution WHERE live = 1 ORDER BY token",
    )
    .all()
    .map((r) => ({ token: r.token, handler: r.handler, ownerId: r.owner_id, live: true }));
}

export function attributionOf(db: Db, token: string): Attribution | null {
  const r = db
    .query<
      { token: string; handler: AttributionHandler; owner_id: string; live: number },
      { token: string }
    >("SELECT token, handler, owner_id, live FROM op_attribution WHERE token = $token")
    .get({ token });
  return r === null
    ? null
    : { token: r.token, handler: r.handler, ownerId: r.owner_id, live: r.live === 1 };
}

export interface OpRow {
  opId: OpId;
  parents: readonly OpId[];
  description: string;
  isSnapshot: boolean;
  workspaceName: string | null;
  token: string | null;
}

/** Idempotent: an operation and all its parent edges, not yet interpreted. */
export function discoverOp(db: Db, op: OpRow, now: number): void {
  db.query(
    `INSERT INTO op_history (op_id, description, is_snapshot, workspace_name, attribution_token, discovered_at)
     VALUES ($opId, $description, $isSnapshot, $workspaceName, $token, $now) ON CONFLICT (op_id) DO NOTHING`,
  ).run({
    opId: op.opId,
    description: op.description,
    isSnapshot: op.isSnapshot ? 1 : 0,
    workspaceName: op.workspaceName,
    token: op.token,
    now,
  });
  const edge = db.query(
    "INSERT INTO op_history_parents (op_id, parent_op_id) VALUES ($opId, $parent) ON CONFLICT DO NOTHING",
  );
  for (const parent of op.parents) edge.run({ opId: op.opId, parent });
}

export function isProcessed(db: Db, opId: OpId): boolean {
  return (
    db
      .query("SELECT 1 FROM op_history WHERE op_id = $opId AND processed_at IS NOT NULL")
      .get({ opId }) !== null
  );
}

export function isDiscovered(db: Db, opId: OpId): boolean {
  return db.query("SELECT 1 FROM op_history WHERE op_id = $opId").get({ opId }) !== null;
}

/** Discovered operations that still wait for their interpretation, with every parent edge. */
export function unprocessedOps(db: Db): OpRow[] {
  const rows = db
    .query<
      {
        op_id: string;
        description: string;
        is_snapshot: number;
        workspace_name: string | null;
        attribution_token: string | null;
      },
      []
    >(
      "SELECT op_id, description, is_snapshot, workspace_name, attribution_token FROM op_history WHERE processed_at IS NULL",
    )
    .all();
  return rows.map((r) => ({
    opId: r.op_id,
    parents: parentsOf(db, r.op_id),
    description: r.description,
    isSnapshot: r.is_snapshot === 1,
    workspaceName: r.workspace_name,
    token: r.attribution_token,
  }));
}

export function parentsOf(db: Db, opId: OpId): OpId[] {
  return db
    .query<{ parent_op_id: string }, { opId: string }>(
      "SELECT parent_op_id FROM op_history_parents WHERE op_id = $opId ORDER BY parent_op_id",
    )
    .all({ opId })
    .map((r) => r.parent_op_id);
}

/** Interpreted operations that were discovered after `op`, which a reading of then has not made the frontier yet. */
export function processedAfter(db: Db, op: OpId): OpId[] {
  const sql = `SELECT later.op_id FROM op_history later, (SELECT rowid AS row, discovered_at FROM op_history
      WHERE op_id = $op) known
    WHERE later.rowid > known.row AND later.discovered_at > known.discovered_at AND later.processed_at IS NOT NULL`;
  return db
    .query<{ op_id: OpId }, { op: OpId }>(sql)
    .all({ op })
    .map((row) => row.op_id);
}

export function markProcessed(db: Db, opId: OpId, now: number): void {
  db.query(
    "UPDATE op_history SET processed_at = $now WHERE op_id = $opId AND processed_at IS NULL",
  ).run({ opId, now });
}

/** `commit` was the workspace's `@` after another operation than `opId` that has been interpreted. */
export function wasHeadBefore(db: Db, opId: OpId, workspace: string, commit: CommitId): boolean {
  return (
    db
      .query(
        `SELECT 1 FROM op_workspace_heads WHERE workspace_name = $workspace AND commit_id = $commit AND op_id <> $opId
         LIMIT 1`,
      )
      .get({ opId, workspace, commit }) !== null
  );
}

/** The change of a commit that was the workspace's `@` after some interpreted operation; null: it was not. */
export function changeOfHead(db: Db, workspace: string, commit: CommitId): ChangeId | null {
  return (
    db
      .query<{ change_id: ChangeId }, { workspace: string; commit: string }>(
        "SELECT change_id FROM op_workspace_heads WHERE workspace_name = $workspace AND commit_id = $commit LIMIT 1",
      )
      .get({ workspace, commit })?.change_id ?? null
  );
}

/** A workspace's `@` where it differs from a parent view; null commit: the workspace has none any more. */
export function recordWorkspaceHead(
  db: Db,
  row: { opId: OpId; workspace: string; changeId: ChangeId | null; commitId: CommitId | null },
): void {
  db.query(
    `INSERT INTO op_workspace_heads (op_id, workspace_name, change_id, commit_id)
     VALUES ($opId, $workspace, $changeId, $commitId) ON CONFLICT DO NOTHING`,
  ).run(row);
}

/** The antichain of interpreted heads. Empty before the first read of a repository. */
export function frontier(db: Db): OpId[] {
  return db
    .query<{ op_id: string }, []>("SELECT op_id FROM op_watch_frontier ORDER BY op_id")
    .all()
    .map((r) => r.op_id);
}

export function replaceFrontier(db: Db, heads: readonly OpId[]): void {
  db.query("DELETE FROM op_watch_frontier").run();
  const insert = db.query("INSERT INTO op_watch_frontier (op_id) VALUES ($opId)");
  for (const opId of heads) insert.run({ opId });
}

/**
 * Live tokens of handlers that record nothing themselves any more: reconciliations that were stopped from elsewhere, and
 * turn-end snapshots, which leave it to the reading that follows. The caller leaves out those still running. A recovery
 * that is still open goes on, and records what it does.
 */
export function abandonedTokens(db: Db): string[] {
  return db
    .query<{ token: string }, []>(
      `SELECT token FROM op_attribution WHERE live = 1 AND (handler = 'snapshot' OR (
         handler = 'reconcile' AND NOT EXISTS (
           SELECT 1 FROM sync_intents WHERE intent_id = owner_id AND (state = 'Reconciling'
             OR (state = 'RecoveryRequired' AND plan_json ->> '$.recovery.open' = 1)))))`,
    )
    .all()
    .map((r) => r.token);
}

/**
 * At boot: tokens of lifecycle operations that are not running and can no longer come back. Returns how many were
 * closed.
 */
export function closeOrphanedAttributions(db: Db): number {
  return db
    .query(
      `UPDATE op_attribution SET live = 0 WHERE live = 1 AND handler = 'lifecycle' AND NOT EXISTS (
         SELECT 1 FROM thread_lifecycle_ops WHERE operation_id = owner_id AND state = 'Running')`,
    )
    .run().changes;
}
