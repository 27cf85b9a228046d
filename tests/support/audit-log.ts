/** What a daemon has recorded of its requests and approvals, as it is on disk. */
import { join } from "node:path";
import { Database } from "bun:sqlite";
import type { World } from "./world.ts";

export interface AuditRow {
  sink: "repo" | "user";
  method: string;
  outcome: string;
  error_code: string | null;
  caller_kind: string | null;
}

/** Read-only: a daemon may be at work on it. */
export function inDb<T>(file: string, read: (db: Database) => T): T {
  const db = new Database(file, { readonly: true });
  try {
    return read(db);
  } finally {
    db.close();
  }
}

export function repoDb(world: World): string {
  const id = inDb(join(world.stateDir, "state.db"), (db) =>
    db
      .query<{ repo_id: string }, [string]>("SELECT repo_id FROM repos WHERE repo_root = ?")
      .get(world.repo.root),
  );
  return join(world.stateDir, "repos", id!.repo_id, "state.db");
}

/** Every request so far, of both logs, in no order across them. */
export function audited(world: World): AuditRow[] {
  const columns = "method, outcome, error_code, caller_kind";
  const rows = (file: string, table: string, sink: AuditRow["sink"]): AuditRow[] =>
    inDb(file, (db) =>
      db
        .query<Omit<AuditRow, "sink">, []>(`SELECT ${columns} FROM ${table} ORDER BY audit_id`)
        .all()
        .map((row) => ({ sink, ...row })),
    );
  return [
    ...rows(repoDb(world), "audit_log", "repo"),
    ...rows(join(world.stateDir, "state.db"), "user_audit_log", "user"),
  ];
}

/** `<log> <method> <code>` of every refused request since `before`. */
export function refusedSince(world: World, before: readonly AuditRow[]): string[] {
  const count = (sink: string): number => before.filter((row) => row.sink === sink).length;
  return (["repo", "user"] as const)
    .flatMap((sink) =>
      audited(world)
        .filter((row) => row.sink === sink)
        .slice(count(sink)),
    )
    .filter((row) => row.outcome === "rejected")
    .map((row) => `${row.sink} ${row.method} ${row.error_code}`);
}

/** States of the repository's challenges, oldest first. */
export function challenges(world: World): string[] {
  return inDb(repoDb(world), (db) =>
    db
      .query<{ state: string }, []>(
        "SELECT state FROM approval_challenges ORDER BY created_at, rowid",
      )
      .all()
      .map((row) => row.state),
  );
}
