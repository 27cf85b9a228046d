/** Per-user database: front ends that may confirm approvals. */
import type { Db } from "./db.ts";

export interface PresenterRow {
  presenterId: string;
  credentialId: string;
  enrolledAt: number;
}

const COLUMNS =
  "presenter_id AS presenterId, credential_id AS credentialId, enrolled_at AS enrolledAt";

/** Throws (trigger) unless the credential is a live presenter's. */
export function insertPresenter(db: Db, row: PresenterRow): void {
  db.query(
    `INSERT INTO approval_presenters (presenter_id, credential_id, front_end, enrolled_at)
     VALUES ($presenterId, $credentialId, 'cli', $enrolledAt)`,
  ).run({ ...row });
}

/** Every presenter that has not been revoked. */
export function livePresenters(db: Db): PresenterRow[] {
  return db
    .query<PresenterRow, []>(
      `SELECT ${COLUMNS} FROM approval_presenters WHERE revoked_at IS NULL ORDER BY enrolled_at, presenter_id`,
    )
    .all();
}

/** Whether there has ever been one: first use comes once. */
export function everEnrolled(db: Db): boolean {
  return db.query("SELECT 1 FROM approval_presenters LIMIT 1").get() !== null;
}

export function presenterOfCredential(db: Db, credentialId: string): PresenterRow | null {
  return db
    .query<PresenterRow, { credentialId: string }>(
      `SELECT ${COLUMNS} FROM approval_presenters WHERE credential_id = $credentialId AND revoked_at IS NULL`,
    )
    .get({ credentialId });
}

export function revokePresenter(db: Db, presenterId: string, now: number): void {
  db.query(
    "UPDATE approval_presenters SET revoked_at = $now WHERE presenter_id = $presenterId AND revoked_at IS NULL",
  ).run({ presenterId, now });
}
