/** Per-user database: registry, daemon facts, credentials outside threads. */
export const SQL = `
CREATE TABLE repos (
  repo_id TEXT PRIMARY KEY,
  canonical_path TEXT NOT NULL UNIQUE,
  repo_root TEXT NOT NULL,
  colocated INTEGER NOT NULL CHECK (colocated IN (0, 1)),
  registered_at INTEGER NOT NULL
) STRICT;

CREATE TABLE daemon_meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE credentials (
  credential_id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('RegistrationScoped', 'ApprovalPresenter', 'Admin')),
  secret_sha256 TEXT NOT NULL UNIQUE CHECK (length(secret_sha256) = 64),
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
`;
