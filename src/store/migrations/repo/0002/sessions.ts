/** `agent_sessions`, `launch_gates`, `tool_admissions`, `credentials`. */

const TABLES = `
CREATE TABLE agent_sessions_0002 (
  agent_session_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  harness_version TEXT NOT NULL,
  -- null until the harness has named it, where its name cannot be chosen
  harness_session_id TEXT,
  secret_sha256 TEXT NOT NULL UNIQUE CHECK (length(secret_sha256) = 64),
  settings_fingerprint TEXT NOT NULL CHECK (length(settings_fingerprint) = 64),
  capabilities_json TEXT NOT NULL CHECK (json_valid(capabilities_json)),
  pid INTEGER CHECK (pid > 0),
  start_time TEXT,
  status TEXT NOT NULL CHECK (status IN ('Running','Quiescent','Stuck','Crashed')),
  last_turn_completed INTEGER NOT NULL DEFAULT 0 CHECK (last_turn_completed IN (0, 1)),
  last_event TEXT,
  last_event_at INTEGER,
  created_at INTEGER NOT NULL,
  -- the harness's own report, which may come before the wrapper's report of the process
  session_started_at INTEGER,
  ready_at INTEGER,
  retired_at INTEGER,
  delivered_intent_id TEXT,
  -- a delivery by restart: the saved payload is this incarnation's first input
  startup_intent_id TEXT,
  startup_intent_epoch INTEGER CHECK (startup_intent_epoch > 0),
  startup_delivery_id TEXT UNIQUE CHECK (startup_delivery_id <> ''),
  startup_payload_sha256 TEXT CHECK (length(startup_payload_sha256) = 64),
  -- number of the prompt in which the harness showed the delivery id
  startup_echo_prompt INTEGER CHECK (startup_echo_prompt > 0),
  startup_echo_at INTEGER,
  -- prompts so far: they are numbered, and the number never restarts
  prompts INTEGER NOT NULL DEFAULT 0 CHECK (prompts >= 0),
  -- siblings seen where the harness's boundary excludes them
  serial_violations INTEGER NOT NULL DEFAULT 0 CHECK (serial_violations >= 0),
  UNIQUE (agent_session_id, thread_id),
  UNIQUE (agent_session_id, startup_delivery_id),
  FOREIGN KEY (delivered_intent_id, thread_id) REFERENCES sync_intents(intent_id, thread_id),
  FOREIGN KEY (startup_intent_id, thread_id) REFERENCES sync_intents(intent_id, thread_id),
  CHECK ((pid IS NULL) = (start_time IS NULL)),
  CHECK (harness_session_id IS NOT NULL OR harness = 'codex'),
  -- codex reports a session at its first prompt only, and may be ready before that
  CHECK (ready_at IS NULL OR (pid IS NOT NULL AND (session_started_at IS NOT NULL OR harness = 'codex'))),
  CHECK (retired_at IS NULL OR status IN ('Quiescent','Crashed')),
  CHECK ((startup_intent_id IS NULL) = (startup_delivery_id IS NULL)),
  CHECK ((startup_intent_epoch IS NULL) = (startup_delivery_id IS NULL)),
  CHECK ((startup_payload_sha256 IS NULL) = (startup_delivery_id IS NULL)),
  CHECK ((startup_echo_prompt IS NULL) = (startup_echo_at IS NULL)),
  CHECK (startup_echo_at IS NULL OR startup_delivery_id IS NOT NULL),
  CHECK (startup_echo_prompt <= prompts)
) STRICT;
INSERT INTO agent_sessions_0002 (rowid, agent_session_id, thread_id, harness, harness_version, harness_session_id,
  secret_sha256, settings_fingerprint, capabilities_json, pid, start_time, status, last_turn_completed, last_event,
  last_event_at, created_at, session_started_at, ready_at, retired_at, delivered_intent_id)
SELECT rowid, agent_session_id, thread_id, harness, harness_version, harness_session_id,
  secret_sha256, settings_fingerprint, capabilities_json, pid, start_time, status, last_turn_completed, last_event,
  last_event_at, created_at, session_started_at, ready_at, retired_at, delivered_intent_id FROM agent_sessions;
DROP TABLE agent_sessions;
ALTER TABLE agent_sessions_0002 RENAME TO agent_sessions;
CREATE UNIQUE INDEX one_live_incarnation ON agent_sessions(thread_id) WHERE retired_at IS NULL;
CREATE UNIQUE INDEX one_live_claim_of_an_intent ON agent_sessions(startup_intent_id) WHERE retired_at IS NULL;
CREATE INDEX agent_sessions_attempts ON agent_sessions(startup_intent_id, startup_intent_epoch);
`;

const TRIGGERS = `
CREATE TRIGGER agent_sessions_identity BEFORE UPDATE OF agent_session_id, thread_id, secret_sha256,
  settings_fingerprint, startup_intent_id, startup_intent_epoch, startup_delivery_id, startup_payload_sha256,
  created_at ON agent_sessions
WHEN new.agent_session_id <> old.agent_session_id OR new.thread_id <> old.thread_id
  OR new.secret_sha256 <> old.secret_sha256 OR new.settings_fingerprint <> old.settings_fingerprint
  OR new.startup_intent_id IS NOT old.startup_intent_id OR new.startup_intent_epoch IS NOT old.startup_intent_epoch
  OR new.startup_delivery_id IS NOT old.startup_delivery_id
  OR new.startup_payload_sha256 IS NOT old.startup_payload_sha256 OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'an incarnation''s identity never changes'); END;
CREATE TRIGGER agent_sessions_process BEFORE UPDATE OF pid, start_time ON agent_sessions
WHEN old.pid IS NOT NULL AND (new.pid IS NOT old.pid OR new.start_time IS NOT old.start_time)
BEGIN SELECT RAISE(ABORT, 'an incarnation is one process'); END;
CREATE TRIGGER agent_sessions_ready BEFORE UPDATE OF ready_at, session_started_at ON agent_sessions
WHEN (old.ready_at IS NOT NULL AND new.ready_at IS NOT old.ready_at)
  OR (old.session_started_at IS NOT NULL AND new.session_started_at IS NOT old.session_started_at)
BEGIN SELECT RAISE(ABORT, 'an incarnation becomes ready once'); END;
CREATE TRIGGER agent_sessions_retired BEFORE UPDATE OF retired_at, ready_at ON agent_sessions
WHEN old.retired_at IS NOT NULL AND (new.retired_at IS NOT old.retired_at OR new.ready_at IS NOT old.ready_at)
BEGIN SELECT RAISE(ABORT, 'a retired incarnation stays retired'); END;
CREATE TRIGGER agent_sessions_echo BEFORE UPDATE OF startup_echo_prompt, startup_echo_at ON agent_sessions
WHEN old.startup_echo_at IS NOT NULL AND (new.startup_echo_at IS NOT old.startup_echo_at
  OR new.startup_echo_prompt IS NOT old.startup_echo_prompt)
BEGIN SELECT RAISE(ABORT, 'a startup echo is recorded once'); END;
CREATE TRIGGER agent_sessions_counts BEFORE UPDATE OF serial_violations, prompts ON agent_sessions
WHEN new.serial_violations < old.serial_violations OR new.prompts < old.prompts
BEGIN SELECT RAISE(ABORT, 'counts of an incarnation only grow'); END;
CREATE TRIGGER agent_sessions_startup BEFORE INSERT ON agent_sessions
WHEN new.startup_intent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sync_intents WHERE intent_id = new.startup_intent_id
  AND state IN ('Materialized','Delivered') AND delivery_epoch = new.startup_intent_epoch
  AND payload_sha256 = new.startup_payload_sha256 AND delivery_exhausted_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a startup delivers the saved payload of the current epoch, unless that is exhausted'); END;
CREATE TRIGGER agent_sessions_owed BEFORE INSERT ON agent_sessions
WHEN new.startup_intent_id IS NULL AND EXISTS (SELECT 1 FROM sync_intents WHERE thread_id = new.thread_id
  AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired'))
BEGIN SELECT RAISE(ABORT, 'while files changed that no agent was proved to know of, an incarnation starts by being told');
END;
CREATE TRIGGER agent_sessions_kept BEFORE DELETE ON agent_sessions
BEGIN SELECT RAISE(ABORT, 'incarnations are kept: they are the attempts'); END;

CREATE TRIGGER launch_gates_begin BEFORE INSERT ON launch_gates
WHEN new.state NOT IN ('Activated')
BEGIN SELECT RAISE(ABORT, 'a launch gate begins as Activated'); END;
CREATE TRIGGER launch_gates_forward BEFORE UPDATE OF state ON launch_gates
WHEN NOT ((old.state = 'Activated' AND new.state IN ('Claimed','Revoked'))
  OR (old.state = 'Claimed' AND new.state IN ('Exec','Revoked')))
BEGIN SELECT RAISE(ABORT, 'a launch gate is used once and only moves forward'); END;
CREATE TRIGGER launch_gates_identity BEFORE UPDATE OF gate_id, thread_id, agent_session_id, pane_id, launch_file
  ON launch_gates
BEGIN SELECT RAISE(ABORT, 'a launch gate is for one incarnation in one pane'); END;
CREATE TRIGGER launch_gates_same_thread BEFORE INSERT ON launch_gates
WHEN NOT EXISTS (SELECT 1 FROM agent_sessions WHERE agent_session_id = new.agent_session_id
  AND thread_id = new.thread_id AND retired_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a launch gate is for a live incarnation of its thread'); END;
-- the launcher cannot pass its gate before these are durable
CREATE TRIGGER launch_gates_need_projections BEFORE INSERT ON launch_gates
WHEN NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = new.thread_id AND thread_head_commit_id IS NOT NULL
    AND checkpoint_commit_id IS NOT NULL AND tmux_session_id IS NOT NULL)
  OR NOT EXISTS (SELECT 1 FROM credentials WHERE thread_id = new.thread_id AND revoked_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a launch gate needs credential, head, checkpoint and tmux session'); END;

CREATE TRIGGER credentials_fixed BEFORE UPDATE ON credentials
WHEN old.revoked_at IS NOT NULL OR new.credential_id <> old.credential_id OR new.thread_id <> old.thread_id
  OR new.secret_sha256 <> old.secret_sha256 OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'a credential is issued once and revoked once'); END;

CREATE TRIGGER tool_admissions_main_batch BEFORE INSERT ON tool_admissions
WHEN new.agent_id = '' AND new.admission = 'PassThrough' AND EXISTS (SELECT 1 FROM tool_admissions
  WHERE agent_session_id = new.agent_session_id AND agent_id = '' AND batch_ordinal = new.batch_ordinal
    AND admission = 'Block')
BEGIN SELECT RAISE(ABORT, 'no sibling of a blocked call passes'); END;
CREATE TRIGGER tool_admissions_ordinal BEFORE INSERT ON tool_admissions
WHEN EXISTS (SELECT 1 FROM tool_admissions WHERE agent_session_id = new.agent_session_id AND agent_id = new.agent_id
  AND tool_use_id <> new.tool_use_id AND (batch_ordinal > new.batch_ordinal
    OR (batch_ordinal = new.batch_ordinal AND batch_closed_at IS NOT NULL)))
BEGIN SELECT RAISE(ABORT, 'batches are numbered upwards, and a closed one admits no call'); END;
CREATE TRIGGER tool_admissions_fixed BEFORE UPDATE OF agent_session_id, agent_id, batch_ordinal, admission, intent_id,
  admitted_at ON tool_admissions
WHEN new.agent_session_id <> old.agent_session_id OR new.agent_id <> old.agent_id
  OR new.batch_ordinal <> old.batch_ordinal OR new.admission <> old.admission OR new.intent_id IS NOT old.intent_id
  OR new.admitted_at <> old.admitted_at
BEGIN SELECT RAISE(ABORT, 'an admission is decided once'); END;
CREATE TRIGGER tool_admissions_resolved BEFORE UPDATE OF resolved_at, resolution ON tool_admissions
WHEN old.resolved_at IS NOT NULL AND (new.resolved_at IS NOT old.resolved_at OR new.resolution IS NOT old.resolution)
BEGIN SELECT RAISE(ABORT, 'a call is resolved once'); END;
CREATE TRIGGER tool_admissions_closed BEFORE UPDATE OF batch_closed_at, batch_end ON tool_admissions
WHEN old.batch_closed_at IS NOT NULL AND (new.batch_closed_at IS NOT old.batch_closed_at
  OR new.batch_end IS NOT old.batch_end)
BEGIN SELECT RAISE(ABORT, 'a batch closes once'); END;
CREATE TRIGGER tool_admissions_kept BEFORE DELETE ON tool_admissions
BEGIN SELECT RAISE(ABORT, 'admissions are kept'); END;
`;

export const SESSIONS = { tables: TABLES, triggers: TRIGGERS };
