/** Credentials: only the hex SHA-256 of a secret is ever stored. The user and the repo database each have a table. */
import type { ThreadId } from "../core/ids.ts";
import type { Db } from "./db.ts";

export type UserCredentialKind = "RegistrationScoped" | "ApprovalPresenter" | "Admin";

export interface UserCredential {
  credentialId: string;
  kind: UserCredentialKind;
  secretSha256: string;
}

/** User database. */
export function insertUserCredential(db: Db, row: UserCredential & { now: number }): void {
  db.query(
    `INSERT INTO credentials (credential_id, kind, secret_sha256, created_at)
     VALUES ($credentialId, $kind, $secretSha256, $now)`,
  ).run({ ...row });
}

/** User database: every credential that has not been revoked. Few; the caller compares in constant time. */
export function liveUserCredentials(db: Db): UserCredential[] {
  return db
    .query<UserCredential, []>(
      "SELECT credential_id AS credentialId, kind, secret_sha256 AS secretSha256 FROM credentials WHERE revoked_at IS NULL ORDER BY credential_id",
    )
    .all();
}

/** User database. */
export function revokeUserCredential(db: Db, credentialId: string, now: number): void {
  db.query(
    "UPDATE credentials SET revoked_at = $now WHERE credential_id = $credentialId AND revoked_at IS NULL",
  ).run({ credentialId, now });
}

export interface ThreadCredential {
  credentialId: string;
  threadId: ThreadId;
  secretSha256: string;
}

/** Repo database. Throws (partial UNIQUE) while the thread still has a live one. */
export function insertThreadCredential(db: Db, row: ThreadCredential & { now: number }): void {
  db.query(
    `INSERT INTO credentials (credential_id, thread_id, kind, secret_sha256, created_at)
     VALUES ($credentialId, $threadId, 'ThreadScoped', $secretSha256, $now)`,
  ).run({ ...row });
}

/** Repo database: the live credential of a thread. */
export function threadCredential(
  db: Db,
  threadId: ThreadId,
): (ThreadCredential & { createdAt: number }) | null {
  return db
    .query<ThreadCredential & { createdAt: number }, { threadId: string }>(
      `SELECT credential_id AS credentialId, thread_id AS threadId, secret_sha256 AS secretSha256,
         created_at AS createdAt
       FROM credentials WHERE thread_id = $threadId AND revoked_at IS NULL`,
    )
    .get({ threadId });
}

/** Repo database: whose live credential hashes to this; null for a revoked or unknown one. */
export function threadOfCredential(
  db: Db,
  secretSha256: string,
): Pick<ThreadCredential, "credentialId" | "threadId"> | null {
  return db
    .query<Pick<ThreadCredential, "credentialId" | "threadId">, { secretSha256: string }>(
      `SELECT credential_id AS credentialId, thread_id AS threadId FROM credentials
       WHERE secret_sha256 = $secretSha256 AND revoked_at IS NULL`,
    )
    .get({ secretSha256 });
}

/** Repo database. */
export function revokeThreadCredential(db: Db, threadId: ThreadId, now: number): void {
  db.query(
    "UPDATE credentials SET revoked_at = $now WHERE thread_id = $threadId AND revoked_at IS NULL",
  ).run({ threadId, now });
}

/** Repo database: every credential the thread has had, revoked ones too: which requests were its own. */
export function threadCredentialIds(db: Db, threadId: ThreadId): Set<string> {
  const rows = db
    .query<{ id: string }, { threadId: string }>(
      "SELECT credential_id AS id FROM credentials WHERE thread_id = $threadId",
    )
    .all({ threadId });
  return new Set(rows.map((row) => row.id));
}
