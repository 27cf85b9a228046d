/** `thread_lifecycle_ops` and `thread_lifecycle_steps`: the journal of every saga. */

const TABLES = `
CREATE TABLE thread_lifecycle_ops_0002 (
  operation_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  kind TEXT NOT NULL CHECK (kind IN ('Create','Close','Reopen','Detach','Checkpoint','Repair','Destroy','Restart',
    'Interrupt')),
  state TEXT NOT NULL CHECK (state IN ('Running','Completed','Failed')),
  args_json TEXT NOT NULL CHECK (json_valid(args_json)),
  failing INTEGER NOT NULL DEFAULT 0 CHECK (failing IN (0, 1)),
  error TEXT,
  attempts INTEGER NOT NULL DEFAULT 1 CHECK (attempts > 0),
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  CHECK ((state = 'Running') = (ended_at IS NULL)),
  CHECK (state <> 'Failed' OR error IS NOT NULL),
  CHECK (failing = 0 OR error IS NOT NULL)
) STRICT;
INSERT INTO thread_lifecycle_ops_0002 (rowid, operation_id, thread_id, kind, state, args_json, failing, error, attempts,
  started_at, ended_at)
SELECT rowid, operation_id, thread_id, kind, state, args_json, failing, error, attempts, started_at, ended_at
  FROM thread_lifecycle_ops;
DROP TABLE thread_lifecycle_ops;
ALTER TABLE thread_lifecycle_ops_0002 RENAME TO thread_lifecycle_ops;
CREATE UNIQUE INDEX one_running_op_per_thread ON thread_lifecycle_ops(thread_id) WHERE state = 'Running';

CREATE TABLE thread_lifecycle_steps_0002 (
  operation_id TEXT NOT NULL REFERENCES thread_lifecycle_ops(operation_id),
  ordinal INTEGER NOT NULL CHECK (ordinal > 0),
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('Pending','Started','Completed','Failed','Compensating','Compensated')),
  identity_json TEXT CHECK (json_valid(identity_json)),
  result_json TEXT CHECK (json_valid(result_json)),
  error TEXT,
  -- starts of the effect, durable: a bound on them survives any number of restarts
  attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  -- starts of its compensation, likewise
  undo_attempts INTEGER NOT NULL DEFAULT 0 CHECK (undo_attempts >= 0),
  -- from its start on there is no way back behind this step
  irreversible INTEGER NOT NULL DEFAULT 0 CHECK (irreversible IN (0, 1)),
  PRIMARY KEY (operation_id, ordinal),
  UNIQUE (operation_id, name),
  CHECK (state = 'Pending' OR identity_json IS NOT NULL),
  CHECK (state <> 'Completed' OR result_json IS NOT NULL),
  CHECK (state = 'Pending' OR attempts > 0),
  CHECK (state <> 'Compensating' OR undo_attempts > 0),
  CHECK (irreversible = 0 OR state NOT IN ('Compensating','Compensated'))
) STRICT;
INSERT INTO thread_lifecycle_steps_0002 (rowid, operation_id, ordinal, name, state, identity_json, result_json, error,
  attempts, undo_attempts)
SELECT rowid, operation_id, ordinal, name, state, identity_json, result_json, error, state <> 'Pending',
  state IN ('Compensating','Compensated')
  FROM thread_lifecycle_steps;
DROP TABLE thread_lifecycle_steps;
ALTER TABLE thread_lifecycle_steps_0002 RENAME TO thread_lifecycle_steps;
-- one step runs or is undone at a time
CREATE UNIQUE INDEX one_started_step_per_op ON thread_lifecycle_steps(operation_id)
  WHERE state IN ('Started','Compensating');
`;

const TRIGGERS = `
CREATE TRIGGER thread_lifecycle_ops_begin BEFORE INSERT ON thread_lifecycle_ops
WHEN new.state NOT IN ('Running')
BEGIN SELECT RAISE(ABORT, 'a lifecycle operation begins as Running'); END;
CREATE TRIGGER thread_lifecycle_ops_not_active BEFORE INSERT ON thread_lifecycle_ops
WHEN new.kind IN ('Create','Close','Reopen','Destroy') AND EXISTS (SELECT 1 FROM threads
  WHERE thread_id = new.thread_id AND lifecycle = 'Active')
BEGIN SELECT RAISE(ABORT, 'a thread leaves Active before its Create, Close, Reopen or Destroy begins'); END;
CREATE TRIGGER thread_lifecycle_ops_move BEFORE UPDATE OF state ON thread_lifecycle_ops
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Running>Completed','Running>Failed',
  'Failed>Running')
BEGIN SELECT RAISE(ABORT, 'a lifecycle operation has no such move'); END;
CREATE TRIGGER thread_lifecycle_ops_ended BEFORE UPDATE ON thread_lifecycle_ops
WHEN old.state <> 'Running' AND new.state <> 'Running'
BEGIN SELECT RAISE(ABORT, 'a lifecycle operation that has ended is immutable'); END;
CREATE TRIGGER thread_lifecycle_ops_plan BEFORE UPDATE OF operation_id, thread_id, args_json ON thread_lifecycle_ops
WHEN new.operation_id <> old.operation_id OR new.thread_id <> old.thread_id OR new.args_json <> old.args_json
BEGIN SELECT RAISE(ABORT, 'a lifecycle operation keeps its plan'); END;
CREATE TRIGGER thread_lifecycle_ops_attempts BEFORE UPDATE OF attempts ON thread_lifecycle_ops
WHEN new.attempts < old.attempts
BEGIN SELECT RAISE(ABORT, 'attempts only grow'); END;
CREATE TRIGGER thread_lifecycle_ops_completed BEFORE UPDATE OF state ON thread_lifecycle_ops
WHEN new.state = 'Completed' AND EXISTS (SELECT 1 FROM thread_lifecycle_steps WHERE operation_id = new.operation_id
  AND state <> 'Completed')
BEGIN SELECT RAISE(ABORT, 'a lifecycle operation completes with its last step'); END;
CREATE TRIGGER thread_lifecycle_ops_kept BEFORE DELETE ON thread_lifecycle_ops
BEGIN SELECT RAISE(ABORT, 'the journal is kept'); END;

CREATE TRIGGER thread_lifecycle_steps_begin BEFORE INSERT ON thread_lifecycle_steps
WHEN new.state NOT IN ('Pending')
BEGIN SELECT RAISE(ABORT, 'a step begins as Pending'); END;
CREATE TRIGGER thread_lifecycle_steps_move BEFORE UPDATE OF state ON thread_lifecycle_steps
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Pending>Started',
  'Started>Completed','Started>Failed','Started>Compensating',
  'Completed>Compensating','Completed>Compensated',
  'Compensating>Compensated')
BEGIN SELECT RAISE(ABORT, 'a step has no such move'); END;
CREATE TRIGGER thread_lifecycle_steps_in_order BEFORE UPDATE OF state ON thread_lifecycle_steps
WHEN old.state <> 'Started' AND new.state = 'Started' AND EXISTS (SELECT 1 FROM thread_lifecycle_steps
  WHERE operation_id = new.operation_id AND ordinal < new.ordinal AND state <> 'Completed')
BEGIN SELECT RAISE(ABORT, 'a step starts when every step before it is Completed'); END;
CREATE TRIGGER thread_lifecycle_steps_unwind BEFORE UPDATE OF state ON thread_lifecycle_steps
WHEN new.state <> old.state AND new.state IN ('Failed','Compensating','Compensated')
  AND EXISTS (SELECT 1 FROM thread_lifecycle_steps WHERE operation_id = new.operation_id
    AND ordinal > new.ordinal AND (irreversible = 1 AND state <> 'Pending'
      OR state IN ('Started','Completed','Compensating')))
BEGIN SELECT RAISE(ABORT, 'steps are undone in reverse order, and never behind an irreversible one'); END;
CREATE TRIGGER thread_lifecycle_steps_identity BEFORE UPDATE OF identity_json ON thread_lifecycle_steps
WHEN old.state <> 'Pending' AND new.identity_json IS NOT old.identity_json
BEGIN SELECT RAISE(ABORT, 'the identity of an effect is recorded before it, and kept'); END;
CREATE TRIGGER thread_lifecycle_steps_evidence BEFORE UPDATE OF result_json ON thread_lifecycle_steps
WHEN old.result_json IS NOT NULL AND new.result_json IS NOT old.result_json
BEGIN SELECT RAISE(ABORT, 'the evidence of an effect is kept'); END;
CREATE TRIGGER thread_lifecycle_steps_attempts BEFORE UPDATE OF attempts, undo_attempts
  ON thread_lifecycle_steps WHEN new.attempts < old.attempts OR new.undo_attempts < old.undo_attempts
BEGIN SELECT RAISE(ABORT, 'attempts only grow'); END;
CREATE TRIGGER thread_lifecycle_steps_irreversible BEFORE UPDATE OF irreversible ON thread_lifecycle_steps
WHEN new.irreversible <> old.irreversible
BEGIN SELECT RAISE(ABORT, 'what can be undone is part of the plan'); END;
CREATE TRIGGER thread_lifecycle_steps_done BEFORE UPDATE ON thread_lifecycle_steps
WHEN EXISTS (SELECT 1 FROM thread_lifecycle_ops WHERE operation_id = old.operation_id AND state = 'Completed')
BEGIN SELECT RAISE(ABORT, 'the steps of a completed operation are immutable'); END;
CREATE TRIGGER thread_lifecycle_steps_kept BEFORE DELETE ON thread_lifecycle_steps
BEGIN SELECT RAISE(ABORT, 'the journal is kept'); END;
`;

export const JOURNAL = { tables: TABLES, triggers: TRIGGERS };
