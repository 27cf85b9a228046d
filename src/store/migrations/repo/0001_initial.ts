/**
 * Per-repository database, the tables of the coordination slice. Constraints are written so that a bug cannot store
 * nonsense: every enumeration is a CHECK, every either-or a CHECK or a partial unique index, terminal rows are
 * guarded by triggers.
 */
export const SQL = `
CREATE TABLE threads (
  thread_id TEXT PRIMARY KEY,
  name TEXT NOT NULL CHECK (name <> ''),
  slug TEXT NOT NULL UNIQUE CHECK (length(slug) BETWEEN 1 AND 60),
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('Creating','CreateFailed','Active','ClosePreflight','CloseCommit',
    'CloseFailed','Closed','ProjectionDiverged','DestroyCommit','DestroyFailed','Destroyed')),
  projection_resume_lifecycle TEXT CHECK (projection_resume_lifecycle IN ('Active','Closed')),
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  harness_executable TEXT NOT NULL,
  harness_args_json TEXT NOT NULL CHECK (json_valid(harness_args_json)),
  first_prompt TEXT,
  workspace_name TEXT NOT NULL UNIQUE,
  workspace_path TEXT NOT NULL UNIQUE,
  bookmark TEXT NOT NULL UNIQUE,
  tmux_socket TEXT,
  tmux_session TEXT NOT NULL,
  tmux_session_id TEXT,
  owned_stack_base_commit_id TEXT,
  thread_head_commit_id TEXT,
  thread_head_change_id TEXT,
  thread_head_op_id TEXT,
  checkpoint_commit_id TEXT,
  created_at INTEGER NOT NULL,
  CHECK ((lifecycle = 'ProjectionDiverged') = (projection_resume_lifecycle IS NOT NULL)),
  CHECK ((thread_head_commit_id IS NULL) = (thread_head_op_id IS NULL)),
  CHECK ((thread_head_commit_id IS NULL) = (thread_head_change_id IS NULL)),
  CHECK (lifecycle NOT IN ('Active','ClosePreflight','CloseCommit','CloseFailed','Closed','ProjectionDiverged')
    OR (thread_head_commit_id IS NOT NULL AND checkpoint_commit_id IS NOT NULL
        AND owned_stack_base_commit_id IS NOT NULL)),
  CHECK (lifecycle <> 'Closed' OR thread_head_commit_id = checkpoint_commit_id)
) STRICT;

CREATE TABLE thread_links (
  child_thread_id TEXT PRIMARY KEY REFERENCES threads(thread_id),
  parent_thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  last_synchronized_parent_commit_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  CHECK (child_thread_id <> parent_thread_id)
) STRICT;
CREATE INDEX thread_links_parent ON thread_links(parent_thread_id);

CREATE TABLE thread_lifecycle_ops (
  operation_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  kind TEXT NOT NULL CHECK (kind IN ('Create','Close','Reopen','Detach','Checkpoint','Repair','Destroy','Restart',
    'Interrupt')),
  state TEXT NOT NULL CHECK (state IN ('Running','Completed','Failed')),
  args_json TEXT NOT NULL CHECK (json_valid(args_json)),
  failing INTEGER NOT NULL DEFAULT 0 CHECK (failing IN (0, 1)),
  error TEXT,
  attempts INTEGER NOT NULL DEFAULT 1,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  CHECK ((state = 'Running') = (ended_at IS NULL)),
  CHECK (state <> 'Failed' OR error IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX one_running_op_per_thread ON thread_lifecycle_ops(thread_id) WHERE state = 'Running';

CREATE TABLE thread_lifecycle_steps (
  operation_id TEXT NOT NULL REFERENCES thread_lifecycle_ops(operation_id),
  ordinal INTEGER NOT NULL CHECK (ordinal > 0),
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('Pending','Started','Completed','Failed','Compensating','Compensated')),
  identity_json TEXT CHECK (json_valid(identity_json)),
  result_json TEXT CHECK (json_valid(result_json)),
  error TEXT,
  PRIMARY KEY (operation_id, ordinal),
  UNIQUE (operation_id, name),
  CHECK (state = 'Pending' OR identity_json IS NOT NULL),
  CHECK (state <> 'Completed' OR result_json IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX one_started_step_per_op ON thread_lifecycle_steps(operation_id) WHERE state = 'Started';

CREATE TABLE agent_sessions (
  agent_session_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  harness_version TEXT NOT NULL,
  harness_session_id TEXT NOT NULL,
  secret_sha256 TEXT NOT NULL UNIQUE CHECK (length(secret_sha256) = 64),
  settings_fingerprint TEXT NOT NULL CHECK (length(settings_fingerprint) = 64),
  capabilities_json TEXT NOT NULL CHECK (json_valid(capabilities_json)),
  pid INTEGER,
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
  delivered_intent_id TEXT REFERENCES sync_intents(intent_id),
  CHECK ((pid IS NULL) = (start_time IS NULL)),
  CHECK (ready_at IS NULL OR (pid IS NOT NULL AND session_started_at IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX one_live_incarnation ON agent_sessions(thread_id) WHERE retired_at IS NULL;

CREATE TABLE launch_gates (
  gate_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  agent_session_id TEXT NOT NULL UNIQUE REFERENCES agent_sessions(agent_session_id),
  state TEXT NOT NULL CHECK (state IN ('Activated','Claimed','Exec','Revoked')),
  pane_id TEXT NOT NULL,
  launch_file TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_open_gate ON launch_gates(thread_id) WHERE state IN ('Activated','Claimed');
CREATE TRIGGER launch_gates_forward BEFORE UPDATE OF state ON launch_gates
WHEN NOT ((old.state = 'Activated' AND new.state IN ('Claimed','Revoked'))
  OR (old.state = 'Claimed' AND new.state IN ('Exec','Revoked')))
BEGIN SELECT RAISE(ABORT, 'a launch gate is used once and only moves forward'); END;

CREATE TABLE credentials (
  credential_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  kind TEXT NOT NULL CHECK (kind = 'ThreadScoped'),
  secret_sha256 TEXT NOT NULL UNIQUE CHECK (length(secret_sha256) = 64),
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
CREATE UNIQUE INDEX one_live_thread_credential ON credentials(thread_id) WHERE revoked_at IS NULL;

-- the launcher cannot pass its gate before these are durable
CREATE TRIGGER launch_gates_need_projections BEFORE INSERT ON launch_gates
WHEN NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = new.thread_id AND thread_head_commit_id IS NOT NULL
    AND checkpoint_commit_id IS NOT NULL AND tmux_session_id IS NOT NULL)
  OR NOT EXISTS (SELECT 1 FROM credentials WHERE thread_id = new.thread_id AND revoked_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a launch gate needs credential, head, checkpoint and tmux session'); END;

CREATE TRIGGER threads_active_when_done BEFORE UPDATE OF lifecycle ON threads
WHEN new.lifecycle = 'Active' AND EXISTS (SELECT 1 FROM thread_lifecycle_ops WHERE thread_id = new.thread_id
  AND state = 'Running' AND kind IN ('Create','Close','Reopen','Destroy'))
BEGIN SELECT RAISE(ABORT, 'a thread with an unfinished Create, Close, Reopen or Destroy is not Active'); END;
CREATE TRIGGER threads_active_when_ready BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle = 'Creating' AND new.lifecycle = 'Active' AND NOT EXISTS (SELECT 1 FROM agent_sessions
  WHERE thread_id = new.thread_id AND ready_at IS NOT NULL AND retired_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'only a ready incarnation makes a created thread Active'); END;

CREATE TABLE sync_intents (
  intent_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  parent_thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  seq INTEGER NOT NULL CHECK (seq > 0),
  kind TEXT NOT NULL CHECK (kind IN ('NativeRewrite','ParentAdvance')),
  state TEXT NOT NULL CHECK (state IN ('Detected','Reconciling','Materialized','Delivered','Acknowledged',
    'RecoveryRequired','TopologyDiverged','Superseded')),
  from_base_commit_id TEXT NOT NULL,
  to_base_commit_id TEXT NOT NULL,
  detected_op_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- reconciliation plan: what a restart needs in order to go on with exact ids
  plan_json TEXT CHECK (json_valid(plan_json)),
  probe_fingerprint TEXT,
  result_commit_id TEXT,
  payload TEXT,
  payload_sha256 TEXT,
  payload_json TEXT CHECK (json_valid(payload_json)),
  anchor_change_id TEXT,
  anchor_commit_id TEXT,
  anchor_op_id TEXT,
  prepared_at INTEGER,
  delivered_at INTEGER,
  -- the soft barrier
  delivery_mode TEXT CHECK (delivery_mode IN ('SoftBatch','RestartStartup')),
  barrier_agent_session_id TEXT REFERENCES agent_sessions(agent_session_id),
  barrier_model_turn INTEGER,
  barrier_tool_batch INTEGER,
  barrier_bound_at INTEGER,
  batch_completed_at INTEGER,
  receipt TEXT CHECK (receipt IN ('matching','contrary')),
  receipt_json TEXT CHECK (json_valid(receipt_json)),
  soft_redelivery_count INTEGER NOT NULL DEFAULT 0,
  delivery_epoch INTEGER NOT NULL DEFAULT 1,
  delivery_exhausted_at INTEGER,
  acknowledged_at INTEGER,
  acknowledged_by TEXT,
  -- trouble
  reason TEXT,
  evidence_json TEXT CHECK (json_valid(evidence_json)),
  recovery_bundle_path TEXT,
  superseded_by TEXT REFERENCES sync_intents(intent_id),
  UNIQUE (thread_id, seq),
  CHECK (from_base_commit_id <> to_base_commit_id OR state IN ('Superseded','TopologyDiverged')),
  CHECK (state NOT IN ('Materialized','Delivered','Acknowledged')
    OR (result_commit_id IS NOT NULL AND payload IS NOT NULL AND payload_sha256 IS NOT NULL
        AND anchor_change_id IS NOT NULL AND anchor_commit_id IS NOT NULL AND anchor_op_id IS NOT NULL
        AND prepared_at IS NOT NULL)),
  CHECK (state <> 'Delivered' OR delivered_at IS NOT NULL),
  CHECK (state <> 'Acknowledged' OR (acknowledged_at IS NOT NULL AND acknowledged_by IS NOT NULL)),
  CHECK ((delivery_mode IS NULL) = (barrier_bound_at IS NULL)),
  CHECK (delivery_mode IS NOT 'SoftBatch' OR (barrier_agent_session_id IS NOT NULL
    AND barrier_model_turn IS NOT NULL AND barrier_tool_batch IS NOT NULL)),
  CHECK (delivery_mode IS NOT NULL OR (barrier_agent_session_id IS NULL AND barrier_model_turn IS NULL
    AND barrier_tool_batch IS NULL)),
  CHECK (batch_completed_at IS NULL OR delivery_mode = 'SoftBatch'),
  CHECK ((batch_completed_at IS NULL) = (receipt IS NULL)),
  CHECK (state <> 'Reconciling' OR delivery_mode IS NOT NULL),
  CHECK (state <> 'RecoveryRequired' OR (reason IS NOT NULL AND recovery_bundle_path IS NOT NULL
    AND probe_fingerprint IS NOT NULL)),
  CHECK (state <> 'TopologyDiverged' OR reason IS NOT NULL),
  CHECK (payload IS NULL OR (length(CAST(payload AS BLOB)) <= 16384 AND payload = trim(payload, char(9,10,13,32))))
) STRICT;
CREATE INDEX sync_intents_by_thread ON sync_intents(thread_id, seq);
-- one edge has at most one intent that may still absorb transitions
CREATE UNIQUE INDEX one_detected_per_edge ON sync_intents(thread_id, parent_thread_id) WHERE state = 'Detected';
-- at most one bound, unacknowledged intent per thread
CREATE UNIQUE INDEX one_bound_intent ON sync_intents(thread_id)
  WHERE delivery_mode IS NOT NULL AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired');

CREATE TRIGGER sync_intents_terminal BEFORE UPDATE ON sync_intents
WHEN old.state IN ('Acknowledged','Superseded','TopologyDiverged')
BEGIN SELECT RAISE(ABORT, 'terminal intent is immutable'); END;
CREATE TRIGGER sync_intents_payload BEFORE UPDATE OF payload, payload_sha256, payload_json ON sync_intents
WHEN old.payload IS NOT NULL AND (new.payload IS NOT old.payload OR new.payload_sha256 IS NOT old.payload_sha256
  OR new.payload_json IS NOT old.payload_json)
BEGIN SELECT RAISE(ABORT, 'payload is immutable once set'); END;
CREATE TRIGGER sync_intents_seq BEFORE INSERT ON sync_intents
WHEN EXISTS (SELECT 1 FROM sync_intents WHERE thread_id = new.thread_id AND seq >= new.seq)
BEGIN SELECT RAISE(ABORT, 'seq must grow'); END;

CREATE TABLE sync_intent_triggers (
  intent_id TEXT NOT NULL REFERENCES sync_intents(intent_id),
  op_id TEXT NOT NULL,
  from_commit_id TEXT NOT NULL,
  to_commit_id TEXT NOT NULL,
  PRIMARY KEY (intent_id, op_id)
) STRICT;

CREATE TABLE op_attribution (
  token TEXT PRIMARY KEY,
  handler TEXT NOT NULL CHECK (handler IN ('lifecycle','reconcile','snapshot')),
  owner_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- live: the handler still owes the interpretation of its operations
  live INTEGER NOT NULL CHECK (live IN (0, 1))
) STRICT;

CREATE TABLE op_history (
  op_id TEXT PRIMARY KEY CHECK (length(op_id) = 128),
  description TEXT NOT NULL,
  is_snapshot INTEGER NOT NULL CHECK (is_snapshot IN (0, 1)),
  workspace_name TEXT,
  attribution_token TEXT REFERENCES op_attribution(token),
  discovered_at INTEGER NOT NULL,
  processed_at INTEGER
) STRICT;
CREATE INDEX op_history_unprocessed ON op_history(op_id) WHERE processed_at IS NULL;

CREATE TABLE op_history_parents (
  op_id TEXT NOT NULL REFERENCES op_history(op_id),
  parent_op_id TEXT NOT NULL,
  PRIMARY KEY (op_id, parent_op_id)
) STRICT;

CREATE TABLE op_workspace_heads (
  op_id TEXT NOT NULL REFERENCES op_history(op_id),
  workspace_name TEXT NOT NULL,
  change_id TEXT,
  commit_id TEXT,
  PRIMARY KEY (op_id, workspace_name),
  CHECK ((change_id IS NULL) = (commit_id IS NULL))
) STRICT;

CREATE TABLE op_watch_frontier (
  op_id TEXT PRIMARY KEY REFERENCES op_history(op_id)
) STRICT;

CREATE TABLE tool_admissions (
  admission_id INTEGER PRIMARY KEY,
  agent_session_id TEXT NOT NULL REFERENCES agent_sessions(agent_session_id),
  -- '' for the main agent
  agent_id TEXT NOT NULL,
  batch_ordinal INTEGER NOT NULL CHECK (batch_ordinal > 0),
  prompt_id TEXT,
  tool_use_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  admission TEXT NOT NULL CHECK (admission IN ('PassThrough','Block')),
  intent_id TEXT REFERENCES sync_intents(intent_id),
  -- for Block: 'payload' or 'generic', what the hook was told to print
  answer TEXT CHECK (answer IN ('payload','generic')),
  admitted_at INTEGER NOT NULL,
  resolved_at INTEGER,
  resolution TEXT CHECK (resolution IN ('post-tool','batch-closed','batch-ended','denied','incarnation-retired')),
  batch_closed_at INTEGER,
  batch_end TEXT CHECK (batch_end IN ('closed','ended')),
  UNIQUE (agent_session_id, tool_use_id),
  CHECK ((admission = 'Block') = (intent_id IS NOT NULL)),
  CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
  CHECK ((batch_closed_at IS NULL) = (batch_end IS NULL)),
  CHECK (answer IS NULL OR admission = 'Block')
) STRICT;
CREATE INDEX tool_admissions_open ON tool_admissions(agent_session_id, agent_id, batch_ordinal)
  WHERE batch_closed_at IS NULL;

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  thread_id TEXT,
  kind TEXT NOT NULL,
  data_json TEXT NOT NULL CHECK (json_valid(data_json)),
  at INTEGER NOT NULL
) STRICT;

CREATE TABLE attention (
  attention_id INTEGER PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  kind TEXT NOT NULL,
  -- one notification per event, ever: the key says which event
  dedup_key TEXT NOT NULL,
  message TEXT NOT NULL,
  loud INTEGER NOT NULL CHECK (loud IN (0, 1)),
  raised_at INTEGER NOT NULL,
  acknowledged_at INTEGER,
  UNIQUE (thread_id, kind, dedup_key)
) STRICT;
`;
