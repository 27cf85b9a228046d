/** Per-user database, version 2: presenters, approvals and audit of what concerns no repository, proofs of harnesses. */
import { approvalTables } from "../shared/0002_approvals.ts";
import { HARNESS_PROOFS } from "./0002/harness-proofs.ts";

const PRESENTERS = `
CREATE TABLE approval_presenters (
  presenter_id TEXT PRIMARY KEY,
  credential_id TEXT NOT NULL UNIQUE REFERENCES credentials(credential_id),
  front_end TEXT NOT NULL CHECK (front_end IN ('cli','tui')),
  enrolled_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
CREATE TRIGGER approval_presenters_credential BEFORE INSERT ON approval_presenters
WHEN NOT EXISTS (SELECT 1 FROM credentials WHERE credential_id = new.credential_id AND kind = 'ApprovalPresenter'
  AND revoked_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a presenter is enrolled with a live presenter credential'); END;
CREATE TRIGGER approval_presenters_fixed BEFORE UPDATE ON approval_presenters
WHEN old.revoked_at IS NOT NULL OR new.presenter_id <> old.presenter_id OR new.credential_id <> old.credential_id
  OR new.front_end <> old.front_end OR new.enrolled_at <> old.enrolled_at
BEGIN SELECT RAISE(ABORT, 'a presenter is enrolled once and revoked once'); END;
CREATE TRIGGER approval_presenters_kept BEFORE DELETE ON approval_presenters
BEGIN SELECT RAISE(ABORT, 'presenters are kept'); END;

CREATE TRIGGER credentials_fixed BEFORE UPDATE ON credentials
WHEN old.revoked_at IS NOT NULL OR new.credential_id <> old.credential_id OR new.kind <> old.kind
  OR new.secret_sha256 <> old.secret_sha256 OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'a credential is issued once and revoked once'); END;

CREATE TRIGGER repos_identity BEFORE UPDATE OF repo_id, registered_at ON repos
WHEN new.repo_id <> old.repo_id OR new.registered_at <> old.registered_at
BEGIN SELECT RAISE(ABORT, 'a repository''s identity never changes'); END;
`;

export const SQL = `${PRESENTERS}${HARNESS_PROOFS}${approvalTables({
  prefix: "user_",
  challengeExtra: `
  FOREIGN KEY (presenter_id) REFERENCES approval_presenters(presenter_id),`,
  operationExtra: "",
})}`;
