/**
 * The tables of approvals and audit, which both databases have: the repository's for what concerns one repository,
 * the user's (`user_…`) for the rest. Text of migration 0002, frozen with it.
 */

export interface ApprovalNames {
  /** Before every name of a table. */
  prefix: "" | "user_";
  /** SQL of the columns and constraints that only one of the two has. */
  challengeExtra: string;
  operationExtra: string;
}

export function approvalTables({
  prefix: p,
  challengeExtra,
  operationExtra,
}: ApprovalNames): string {
  return `${challenges(p, challengeExtra)}${approvals(p)}${operations(p, operationExtra)}${steps(p)}${audit(p)}`;
}

function challenges(p: string, extra: string): string {
  return `
CREATE TABLE ${p}approval_challenges (
  challenge_id TEXT PRIMARY KEY,
  nonce_sha256 TEXT NOT NULL UNIQUE CHECK (length(nonce_sha256) = 64),
  method TEXT NOT NULL CHECK (method <> ''),
  target TEXT NOT NULL,
  args_json TEXT NOT NULL CHECK (json_valid(args_json)),
  -- shown byte for byte
  plan_text TEXT NOT NULL CHECK (plan_text <> ''),
  plan_sha256 TEXT NOT NULL CHECK (length(plan_sha256) = 64),
  caller_kind TEXT NOT NULL CHECK (caller_kind IN ('ThreadScoped','RegistrationScoped')),
  caller_credential_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('Pending','Confirmed','Cancelled','Expired')),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  presenter_id TEXT,
  terminal TEXT CHECK (terminal <> ''),
  closed_at INTEGER,
  UNIQUE (challenge_id, plan_sha256),${extra}
  CHECK (expires_at > created_at),
  CHECK ((state = 'Pending') = (closed_at IS NULL)),
  CHECK (state <> 'Confirmed' OR (presenter_id IS NOT NULL AND terminal IS NOT NULL)),
  CHECK (state <> 'Confirmed' OR closed_at < expires_at)
) STRICT;
CREATE TRIGGER ${p}approval_challenges_begin BEFORE INSERT ON ${p}approval_challenges
WHEN new.state NOT IN ('Pending')
BEGIN SELECT RAISE(ABORT, 'a challenge begins as Pending'); END;
CREATE TRIGGER ${p}approval_challenges_move BEFORE UPDATE OF state ON ${p}approval_challenges
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Pending>Confirmed','Pending>Cancelled','Pending>Expired')
BEGIN SELECT RAISE(ABORT, 'a challenge has no such move'); END;
CREATE TRIGGER ${p}approval_challenges_fixed BEFORE UPDATE ON ${p}approval_challenges
WHEN old.state <> 'Pending' OR new.challenge_id <> old.challenge_id OR new.nonce_sha256 <> old.nonce_sha256
  OR new.method <> old.method OR new.target <> old.target OR new.args_json <> old.args_json
  OR new.plan_text <> old.plan_text OR new.plan_sha256 <> old.plan_sha256 OR new.caller_kind <> old.caller_kind
  OR new.caller_credential_id <> old.caller_credential_id OR new.created_at <> old.created_at
  OR new.expires_at <> old.expires_at
BEGIN SELECT RAISE(ABORT, 'a challenge is for one exact plan, and is closed once'); END;
CREATE TRIGGER ${p}approval_challenges_kept BEFORE DELETE ON ${p}approval_challenges
BEGIN SELECT RAISE(ABORT, 'challenges are kept'); END;
`;
}

function approvals(p: string): string {
  return `
CREATE TABLE ${p}human_approvals (
  approval_id TEXT PRIMARY KEY,
  challenge_id TEXT NOT NULL UNIQUE,
  plan_sha256 TEXT NOT NULL CHECK (length(plan_sha256) = 64),
  issued_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  -- the one claim
  operation_id TEXT UNIQUE,
  claimed_at INTEGER,
  consumed_at INTEGER,
  UNIQUE (approval_id, plan_sha256),
  UNIQUE (approval_id, operation_id),
  FOREIGN KEY (challenge_id, plan_sha256) REFERENCES ${p}approval_challenges(challenge_id, plan_sha256),
  -- approval and operation name each other; both rows are written in one transaction
  FOREIGN KEY (operation_id, approval_id) REFERENCES ${p}approved_operations(operation_id, approval_id)
    DEFERRABLE INITIALLY DEFERRED,
  CHECK (expires_at > issued_at),
  CHECK ((operation_id IS NULL) = (claimed_at IS NULL)),
  CHECK (consumed_at IS NULL OR claimed_at IS NOT NULL),
  CHECK (claimed_at IS NULL OR claimed_at < expires_at)
) STRICT;
CREATE TRIGGER ${p}human_approvals_issued BEFORE INSERT ON ${p}human_approvals
WHEN NOT EXISTS (SELECT 1 FROM ${p}approval_challenges WHERE challenge_id = new.challenge_id AND state = 'Confirmed')
  OR new.claimed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an approval is issued unclaimed, for a confirmed challenge'); END;
CREATE TRIGGER ${p}human_approvals_fixed BEFORE UPDATE ON ${p}human_approvals
WHEN new.approval_id <> old.approval_id OR new.challenge_id <> old.challenge_id OR new.plan_sha256 <> old.plan_sha256
  OR new.issued_at <> old.issued_at OR new.expires_at <> old.expires_at
  OR (old.claimed_at IS NOT NULL AND (new.claimed_at IS NOT old.claimed_at OR new.operation_id IS NOT old.operation_id))
  OR old.consumed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an approval is claimed once and consumed once'); END;
CREATE TRIGGER ${p}human_approvals_consumed BEFORE UPDATE OF consumed_at ON ${p}human_approvals
WHEN new.consumed_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ${p}approved_operations
  WHERE operation_id = new.operation_id AND state IN ('Completed','Failed'))
BEGIN SELECT RAISE(ABORT, 'an approval is consumed when its operation has ended'); END;
CREATE TRIGGER ${p}human_approvals_kept BEFORE DELETE ON ${p}human_approvals
BEGIN SELECT RAISE(ABORT, 'approvals are kept'); END;
`;
}

function operations(p: string, extra: string): string {
  return `
CREATE TABLE ${p}approved_operations (
  operation_id TEXT PRIMARY KEY,
  approval_id TEXT NOT NULL UNIQUE,
  plan_sha256 TEXT NOT NULL CHECK (length(plan_sha256) = 64),
  method TEXT NOT NULL CHECK (method <> ''),
  target TEXT NOT NULL,
  args_json TEXT NOT NULL CHECK (json_valid(args_json)),
  state TEXT NOT NULL CHECK (state IN ('Claimed','Running','Completed','Failed','OutcomeUnknown')),
  outcome_json TEXT CHECK (json_valid(outcome_json)),
  error TEXT,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER,${extra}
  UNIQUE (operation_id, approval_id),
  FOREIGN KEY (approval_id, plan_sha256) REFERENCES ${p}human_approvals(approval_id, plan_sha256),
  -- without its claim an operation would have spent nothing
  FOREIGN KEY (approval_id, operation_id) REFERENCES ${p}human_approvals(approval_id, operation_id)
    DEFERRABLE INITIALLY DEFERRED,
  CHECK ((state IN ('Completed','Failed')) = (ended_at IS NOT NULL)),
  CHECK (state <> 'Failed' OR error IS NOT NULL),
  CHECK (state <> 'OutcomeUnknown' OR error IS NOT NULL),
  CHECK (outcome_json IS NULL OR state = 'Completed')
) STRICT;
CREATE TRIGGER ${p}approved_operations_begin BEFORE INSERT ON ${p}approved_operations
WHEN new.state NOT IN ('Claimed')
BEGIN SELECT RAISE(ABORT, 'an approved operation begins as Claimed'); END;
CREATE TRIGGER ${p}approved_operations_move BEFORE UPDATE OF state ON ${p}approved_operations
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Claimed>Running','Claimed>Failed',
  'Running>Completed','Running>Failed','Running>OutcomeUnknown',
  'OutcomeUnknown>Completed','OutcomeUnknown>Failed')
BEGIN SELECT RAISE(ABORT, 'an approved operation has no such move'); END;
CREATE TRIGGER ${p}approved_operations_fixed BEFORE UPDATE ON ${p}approved_operations
WHEN old.state IN ('Completed','Failed') OR new.operation_id <> old.operation_id OR new.approval_id <> old.approval_id
  OR new.plan_sha256 <> old.plan_sha256 OR new.method <> old.method OR new.target <> old.target
  OR new.args_json <> old.args_json OR new.claimed_at <> old.claimed_at
BEGIN SELECT RAISE(ABORT, 'an approved operation is for one exact plan, and ends once'); END;
CREATE TRIGGER ${p}approved_operations_claim AFTER INSERT ON ${p}approved_operations
WHEN NOT EXISTS (SELECT 1 FROM ${p}human_approvals a JOIN ${p}approval_challenges c USING (challenge_id)
  WHERE a.approval_id = new.approval_id AND c.method = new.method AND c.target = new.target
    AND c.args_json = new.args_json AND (a.operation_id IS NULL OR a.operation_id = new.operation_id))
BEGIN SELECT RAISE(ABORT, 'an approved operation does exactly what was approved'); END;
CREATE TRIGGER ${p}approved_operations_kept BEFORE DELETE ON ${p}approved_operations
BEGIN SELECT RAISE(ABORT, 'approved operations are kept'); END;
`;
}

function steps(p: string): string {
  return `
CREATE TABLE ${p}approved_operation_steps (
  operation_id TEXT NOT NULL REFERENCES ${p}approved_operations(operation_id),
  ordinal INTEGER NOT NULL CHECK (ordinal > 0),
  name TEXT NOT NULL CHECK (name <> ''),
  state TEXT NOT NULL CHECK (state IN ('Pending','Started','Completed','Failed','Compensating','Compensated')),
  identity_json TEXT CHECK (json_valid(identity_json)),
  result_json TEXT CHECK (json_valid(result_json)),
  error TEXT,
  attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  PRIMARY KEY (operation_id, ordinal),
  UNIQUE (operation_id, name),
  CHECK (state = 'Pending' OR identity_json IS NOT NULL),
  CHECK (state <> 'Completed' OR result_json IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX ${p}one_started_approved_step ON ${p}approved_operation_steps(operation_id)
  WHERE state IN ('Started','Compensating');
CREATE TRIGGER ${p}approved_operation_steps_begin BEFORE INSERT ON ${p}approved_operation_steps
WHEN new.state NOT IN ('Pending')
BEGIN SELECT RAISE(ABORT, 'a step begins as Pending'); END;
CREATE TRIGGER ${p}approved_operation_steps_move BEFORE UPDATE OF state ON ${p}approved_operation_steps
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Pending>Started',
  'Started>Completed','Started>Failed','Started>Compensating',
  'Completed>Compensating','Completed>Compensated',
  'Compensating>Compensated')
BEGIN SELECT RAISE(ABORT, 'a step has no such move'); END;
CREATE TRIGGER ${p}approved_operation_steps_kept_facts BEFORE UPDATE ON ${p}approved_operation_steps
WHEN (old.state <> 'Pending' AND new.identity_json IS NOT old.identity_json)
  OR (old.result_json IS NOT NULL AND new.result_json IS NOT old.result_json) OR new.attempts < old.attempts
BEGIN SELECT RAISE(ABORT, 'identity and evidence are kept, and attempts only grow'); END;
CREATE TRIGGER ${p}approved_operation_steps_kept BEFORE DELETE ON ${p}approved_operation_steps
BEGIN SELECT RAISE(ABORT, 'the journal is kept'); END;
`;
}

function audit(p: string): string {
  return `
CREATE TABLE ${p}audit_log (
  audit_id INTEGER PRIMARY KEY AUTOINCREMENT,
  -- every parseable request has one, and makes exactly one row
  request_id TEXT NOT NULL UNIQUE CHECK (request_id <> ''),
  at INTEGER NOT NULL,
  method TEXT NOT NULL CHECK (method <> ''),
  -- as asked for: it need not exist
  thread_id TEXT,
  target TEXT,
  caller_kind TEXT CHECK (caller_kind IN ('ThreadScoped','RegistrationScoped','ApprovalPresenter','Admin')),
  credential_id TEXT,
  -- of an unidentified caller; never credential bytes
  caller_fingerprint TEXT,
  approval_id TEXT,
  outcome TEXT NOT NULL CHECK (outcome IN ('accepted','rejected')),
  error_code TEXT,
  detail_json TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(detail_json)),
  CHECK ((credential_id IS NULL) = (caller_kind IS NULL)),
  CHECK (credential_id IS NOT NULL OR caller_fingerprint IS NOT NULL),
  CHECK (outcome <> 'rejected' OR error_code IS NOT NULL)
) STRICT;
CREATE INDEX ${p}audit_log_by_thread ON ${p}audit_log(thread_id, audit_id);
CREATE TRIGGER ${p}audit_log_no_update BEFORE UPDATE ON ${p}audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER ${p}audit_log_no_delete BEFORE DELETE ON ${p}audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER ${p}audit_log_no_replace BEFORE INSERT ON ${p}audit_log
WHEN EXISTS (SELECT 1 FROM ${p}audit_log WHERE audit_id = new.audit_id OR request_id = new.request_id)
BEGIN SELECT RAISE(ABORT, 'every request makes one row of the audit log'); END;
`;
}
