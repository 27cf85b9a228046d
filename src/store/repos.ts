/** Per-user registry: `repos`. */
import type { RepoId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export interface RepoRow {
  repoId: RepoId;
  /** Resolved `<repoRoot>/.jj/repo`: what makes two folders the same repository. */
  canonicalPath: string;
  repoRoot: string;
  colocated: boolean;
  registeredAt: number;
}

interface Raw {
  repo_id: string;
  canonical_path: string;
  repo_root: string;
  colocated: number;
  registered_at: number;
}

function fromRaw(r: Raw): RepoRow {
  return {
    repoId: r.repo_id,
    canonicalPath: r.canonical_path,
    repoRoot: r.repo_root,
    colocated: r.colocated === 1,
    registeredAt: r.registered_at,
  };
}

/** Throws (UNIQUE) when the path is registered already: the caller looks first. */
export function insertRepo(db: Db, row: RepoRow): void {
  db.query(
    `INSERT INTO repos (repo_id, canonical_path, repo_root, colocated, registered_at)
     VALUES ($repoId, $canonicalPath, $repoRoot, $colocated, $registeredAt)`,
  ).run({ ...row, colocated: row.colocated ? 1 : 0 });
}

export function deleteRepo(db: Db, repoId: RepoId): void {
  db.query("DELETE FROM repos WHERE repo_id = $repoId").run({ repoId });
}

export function repoById(db: Db, repoId: RepoId): RepoRow | null {
  const r = db
    .query<Raw, { repoId: string }>("SELECT * FROM repos WHERE repo_id = $repoId")
    .get({ repoId });
  return r === null ? null : fromRaw(r);
}

export function repoByPath(db: Db, canonicalPath: string): RepoRow | null {
  const r = db
    .query<Raw, { canonicalPath: string }>(
      "SELECT * FROM repos WHERE canonical_path = $canonicalPath",
    )
    .get({ canonicalPath });
  return r === null ? null : fromRaw(r);
}

/** In order of registration; the id decides between equal times. */
export function listRepos(db: Db): RepoRow[] {
  return db
    .query<Raw, []>("SELECT * FROM repos ORDER BY registered_at, repo_id")
    .all()
    .map(fromRaw);
}
