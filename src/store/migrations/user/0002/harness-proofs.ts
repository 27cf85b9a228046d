/** Per-user database, of version 2: what was proved about which version of a harness, when and by what. Append-only. */
export const HARNESS_PROOFS = `
CREATE TABLE harness_proof_runs (
  run_id INTEGER PRIMARY KEY,
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  adapter_version TEXT NOT NULL CHECK (adapter_version <> ''),
  harness_version TEXT NOT NULL CHECK (harness_version <> ''),
  source TEXT NOT NULL CHECK (source IN ('gate','quick')),
  executable TEXT,
  executable_stamp TEXT,
  proved_at INTEGER NOT NULL,
  proved_by TEXT NOT NULL CHECK (proved_by <> ''),
  CHECK ((source = 'quick') = (executable IS NOT NULL)),
  CHECK ((source = 'quick') = (executable_stamp IS NOT NULL))
) STRICT;
CREATE INDEX harness_proof_runs_of ON harness_proof_runs (harness, adapter_version, harness_version);
CREATE TABLE harness_proofs (
  run_id INTEGER NOT NULL REFERENCES harness_proof_runs(run_id),
  ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
  name TEXT NOT NULL CHECK (name <> ''),
  takes_json TEXT NOT NULL CHECK (json_valid(takes_json) AND json_type(takes_json) = 'array'),
  outcome TEXT NOT NULL CHECK (outcome IN ('proved','failed','not-tried')),
  reason TEXT NOT NULL CHECK (reason <> ''),
  PRIMARY KEY (run_id, ordinal),
  UNIQUE (run_id, name)
) STRICT;
CREATE TRIGGER harness_proof_runs_fixed BEFORE UPDATE ON harness_proof_runs
BEGIN SELECT RAISE(ABORT, 'what was proved is not rewritten'); END;
CREATE TRIGGER harness_proof_runs_kept BEFORE DELETE ON harness_proof_runs
BEGIN SELECT RAISE(ABORT, 'proofs are kept'); END;
CREATE TRIGGER harness_proofs_fixed BEFORE UPDATE ON harness_proofs
BEGIN SELECT RAISE(ABORT, 'what was proved is not rewritten'); END;
CREATE TRIGGER harness_proofs_kept BEFORE DELETE ON harness_proofs
BEGIN SELECT RAISE(ABORT, 'proofs are kept'); END;
`;
