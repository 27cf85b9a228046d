/** `sync_intents` and `sync_intent_triggers`: the tables. Their triggers are in intent-triggers.ts. */

export const INTENTS = `
CREATE TABLE sync_intents_0002 (
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
  payload_sha256 TEXT CHECK (length(payload_sha256) = 64),
  payload_json TEXT CHECK (json_valid(payload_json)),
  anchor_change_id TEXT,
  anchor_commit_id TEXT,
  anchor_op_id TEXT,
  prepared_at INTEGER,
  delivered_at INTEGER,
  -- the soft barrier
  delivery_mode TEXT CHECK (delivery_mode IN ('SoftBatch','RestartStartup')),
  barrier_agent_session_id TEXT,
  barrier_model_turn INTEGER,
  barrier_tool_batch INTEGER,
  barrier_bound_at INTEGER,
  batch_completed_at INTEGER,
  receipt TEXT CHECK (receipt IN ('matching','contrary','unreadable')),
  receipt_json TEXT CHECK (json_valid(receipt_json)),
  -- the restart pair: the replacement incarnation, and the one-use id its first input carries
  restart_agent_session_id TEXT,
  restart_delivery_id TEXT,
  -- reconciled without a batch: admission closed, the agent's tree stopped (idle agent, hard restart)
  quiesced_at INTEGER,
  soft_redelivery_count INTEGER NOT NULL DEFAULT 0 CHECK (soft_redelivery_count >= 0),
  delivery_epoch INTEGER NOT NULL DEFAULT 1 CHECK (delivery_epoch > 0),
  delivery_exhausted_at INTEGER,
  acknowledged_at INTEGER,
  acknowledged_by TEXT,
  -- a person gave the transition, or the proof of its delivery, up
  discard TEXT CHECK (discard IN ('transition','delivery')),
  discard_approval_id TEXT REFERENCES human_approvals(approval_id),
  -- trouble
  reason TEXT,
  evidence_json TEXT CHECK (json_valid(evidence_json)),
  recovery_bundle_path TEXT,
  -- what recovery adopted, and who chose
  recovery_choice_json TEXT CHECK (json_valid(recovery_choice_json)),
  recovery_chosen_at INTEGER,
  superseded_by TEXT,
  UNIQUE (thread_id, seq),
  UNIQUE (intent_id, thread_id),
  FOREIGN KEY (barrier_agent_session_id, thread_id) REFERENCES agent_sessions(agent_session_id, thread_id),
  FOREIGN KEY (restart_agent_session_id, thread_id) REFERENCES agent_sessions(agent_session_id, thread_id),
  FOREIGN KEY (restart_agent_session_id, restart_delivery_id)
    REFERENCES agent_sessions(agent_session_id, startup_delivery_id),
  FOREIGN KEY (superseded_by, thread_id) REFERENCES sync_intents(intent_id, thread_id),
  CHECK (thread_id <> parent_thread_id),
  CHECK (from_base_commit_id <> to_base_commit_id OR state IN ('Superseded','TopologyDiverged')),
  CHECK (discard IS NOT NULL OR state NOT IN ('Materialized','Delivered','Acknowledged')
    OR (result_commit_id IS NOT NULL AND payload IS NOT NULL AND payload_sha256 IS NOT NULL
        AND anchor_change_id IS NOT NULL AND anchor_commit_id IS NOT NULL AND anchor_op_id IS NOT NULL
        AND prepared_at IS NOT NULL)),
  CHECK ((prepared_at IS NULL) = (result_commit_id IS NULL)),
  CHECK ((prepared_at IS NULL) = (payload IS NULL)),
  CHECK ((prepared_at IS NULL) = (payload_sha256 IS NULL)),
  CHECK (payload_json IS NULL OR payload IS NOT NULL),
  CHECK ((prepared_at IS NULL) = (anchor_change_id IS NULL)),
  CHECK ((prepared_at IS NULL) = (anchor_commit_id IS NULL)),
  CHECK ((prepared_at IS NULL) = (anchor_op_id IS NULL)),
  CHECK (payload IS NULL OR (length(CAST(payload AS BLOB)) <= 16384 AND payload = trim(payload, char(9,10,13,32)))),
  CHECK (state <> 'Delivered' OR delivered_at IS NOT NULL),
  CHECK (delivered_at IS NULL OR prepared_at IS NOT NULL),
  CHECK ((state = 'Acknowledged') = (acknowledged_at IS NOT NULL)),
  CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL)),
  -- the batch's own proof; a restart's is the echo on its incarnation
  CHECK (state <> 'Acknowledged' OR discard IS NOT NULL OR delivery_mode IS 'RestartStartup'
    OR (batch_completed_at IS NOT NULL AND receipt = 'matching')),
  CHECK (state <> 'Acknowledged' OR discard IS NOT NULL OR delivered_at IS NOT NULL),
  CHECK ((delivery_mode IS 'SoftBatch') = (barrier_bound_at IS NOT NULL)),
  CHECK ((barrier_bound_at IS NULL) = (barrier_agent_session_id IS NULL)),
  CHECK ((barrier_bound_at IS NULL) = (barrier_model_turn IS NULL)),
  CHECK ((barrier_bound_at IS NULL) = (barrier_tool_batch IS NULL)),
  CHECK ((delivery_mode IS 'RestartStartup') = (restart_delivery_id IS NOT NULL)),
  CHECK ((restart_delivery_id IS NULL) = (restart_agent_session_id IS NULL)),
  CHECK (delivery_mode IS NOT 'RestartStartup' OR prepared_at IS NOT NULL),
  CHECK (batch_completed_at IS NULL OR delivery_mode IS 'SoftBatch'),
  CHECK ((batch_completed_at IS NULL) = (receipt IS NULL)),
  CHECK (receipt_json IS NULL OR receipt IS NOT NULL),
  CHECK (state <> 'Detected' OR delivery_mode IS NULL),
  CHECK (state <> 'Reconciling' OR delivery_mode IS NOT NULL OR quiesced_at IS NOT NULL),
  CHECK (state <> 'RecoveryRequired' OR (reason IS NOT NULL AND recovery_bundle_path IS NOT NULL
    AND probe_fingerprint IS NOT NULL)),
  CHECK (state <> 'TopologyDiverged' OR reason IS NOT NULL),
  CHECK ((recovery_choice_json IS NULL) = (recovery_chosen_at IS NULL)),
  CHECK (recovery_chosen_at IS NULL OR recovery_bundle_path IS NOT NULL),
  CHECK (delivery_exhausted_at IS NULL OR (prepared_at IS NOT NULL
    AND state IN ('Materialized','Delivered','Acknowledged'))),
  CHECK ((discard IS NULL) = (discard_approval_id IS NULL)),
  CHECK (discard IS NULL OR state = 'Acknowledged'),
  CHECK (discard IS NOT 'delivery' OR prepared_at IS NOT NULL),
  CHECK (superseded_by IS NULL OR state = 'Superseded'),
  CHECK (state <> 'Superseded' OR superseded_by IS NOT NULL OR reason IS NOT NULL)
) STRICT;
INSERT INTO sync_intents_0002 (rowid, intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
  to_base_commit_id, detected_op_id, created_at, plan_json, probe_fingerprint, result_commit_id, payload,
  payload_sha256, payload_json, anchor_change_id, anchor_commit_id, anchor_op_id, prepared_at, delivered_at,
  delivery_mode, barrier_agent_session_id, barrier_model_turn, barrier_tool_batch, barrier_bound_at,
  batch_completed_at, receipt, receipt_json, soft_redelivery_count, delivery_epoch, delivery_exhausted_at,
  acknowledged_at, acknowledged_by, reason, evidence_json, recovery_bundle_path, superseded_by)
SELECT rowid, intent_id, thread_id, parent_thread_id, seq, kind, state, from_base_commit_id,
  to_base_commit_id, detected_op_id, created_at, plan_json, probe_fingerprint, result_commit_id, payload,
  payload_sha256, payload_json, anchor_change_id, anchor_commit_id, anchor_op_id, prepared_at, delivered_at,
  delivery_mode, barrier_agent_session_id, barrier_model_turn, barrier_tool_batch, barrier_bound_at,
  batch_completed_at, receipt, receipt_json, soft_redelivery_count, delivery_epoch, delivery_exhausted_at,
  acknowledged_at, acknowledged_by, reason, evidence_json, recovery_bundle_path, superseded_by FROM sync_intents;
DROP TABLE sync_intents;
ALTER TABLE sync_intents_0002 RENAME TO sync_intents;
CREATE INDEX sync_intents_by_thread ON sync_intents(thread_id, seq);
-- one edge has at most one intent that may still absorb transitions
CREATE UNIQUE INDEX one_detected_per_edge ON sync_intents(thread_id, parent_thread_id) WHERE state = 'Detected';
-- at most one bound, unacknowledged intent per thread
CREATE UNIQUE INDEX one_bound_intent ON sync_intents(thread_id)
  WHERE delivery_mode IS NOT NULL AND state IN ('Reconciling','Materialized','Delivered','RecoveryRequired');
CREATE UNIQUE INDEX one_intent_per_restart ON sync_intents(restart_delivery_id);
`;
