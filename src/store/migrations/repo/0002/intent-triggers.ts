/** What may happen to a `sync_intents` row, and in which order. */

export const INTENT_TRIGGERS = `
CREATE TRIGGER sync_intents_begin BEFORE INSERT ON sync_intents
WHEN new.state NOT IN ('Detected','TopologyDiverged')
BEGIN SELECT RAISE(ABORT, 'an intent begins as Detected or TopologyDiverged'); END;
CREATE TRIGGER sync_intents_move BEFORE UPDATE OF state ON sync_intents
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Detected>Reconciling','Detected>TopologyDiverged','Detected>Superseded','Detected>Acknowledged',
  'Reconciling>Materialized','Reconciling>RecoveryRequired','Reconciling>TopologyDiverged',
  'RecoveryRequired>Reconciling',
  'Materialized>Delivered','Materialized>Acknowledged','Materialized>RecoveryRequired',
  'Delivered>Acknowledged','Delivered>RecoveryRequired',
  'TopologyDiverged>Acknowledged')
BEGIN SELECT RAISE(ABORT, 'an intent has no such move'); END;
CREATE TRIGGER sync_intents_terminal BEFORE UPDATE ON sync_intents
WHEN old.state IN ('Acknowledged','Superseded')
BEGIN SELECT RAISE(ABORT, 'terminal intent is immutable'); END;
CREATE TRIGGER sync_intents_diverged BEFORE UPDATE ON sync_intents
WHEN old.state = 'TopologyDiverged' AND new.state <> 'Acknowledged'
BEGIN SELECT RAISE(ABORT, 'a diverged intent waits for a person, who gives its transition up'); END;
CREATE TRIGGER sync_intents_payload BEFORE UPDATE OF payload, payload_sha256, payload_json, result_commit_id,
  anchor_change_id, anchor_commit_id, anchor_op_id, prepared_at ON sync_intents
WHEN old.payload IS NOT NULL AND (new.payload IS NOT old.payload OR new.payload_sha256 IS NOT old.payload_sha256
  OR new.payload_json IS NOT old.payload_json OR new.result_commit_id IS NOT old.result_commit_id
  OR new.anchor_change_id IS NOT old.anchor_change_id OR new.anchor_commit_id IS NOT old.anchor_commit_id
  OR new.anchor_op_id IS NOT old.anchor_op_id OR new.prepared_at IS NOT old.prepared_at)
BEGIN SELECT RAISE(ABORT, 'payload is immutable once set'); END;
CREATE TRIGGER sync_intents_seq BEFORE INSERT ON sync_intents
WHEN EXISTS (SELECT 1 FROM sync_intents WHERE thread_id = new.thread_id AND seq >= new.seq)
BEGIN SELECT RAISE(ABORT, 'seq must grow'); END;
CREATE TRIGGER sync_intents_identity BEFORE UPDATE OF intent_id, thread_id, parent_thread_id, seq,
  from_base_commit_id, detected_op_id, created_at ON sync_intents
WHEN new.intent_id <> old.intent_id OR new.thread_id <> old.thread_id OR new.parent_thread_id <> old.parent_thread_id
  OR new.seq <> old.seq OR new.from_base_commit_id <> old.from_base_commit_id
  OR new.detected_op_id <> old.detected_op_id OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'an intent''s identity never changes'); END;
CREATE TRIGGER sync_intents_pinned BEFORE UPDATE OF kind, to_base_commit_id ON sync_intents
WHEN old.state <> 'Detected' AND (new.kind <> old.kind OR new.to_base_commit_id <> old.to_base_commit_id)
BEGIN SELECT RAISE(ABORT, 'only a Detected intent absorbs later transitions'); END;
CREATE TRIGGER sync_intents_delivered BEFORE UPDATE OF delivered_at ON sync_intents
WHEN old.delivered_at IS NOT NULL AND new.delivered_at IS NOT old.delivered_at
BEGIN SELECT RAISE(ABORT, 'the first delivery is recorded once'); END;
CREATE TRIGGER sync_intents_completed BEFORE UPDATE OF batch_completed_at, receipt ON sync_intents
WHEN old.batch_completed_at IS NOT NULL AND new.delivery_mode IS old.delivery_mode
  AND new.barrier_agent_session_id IS old.barrier_agent_session_id AND new.barrier_tool_batch IS old.barrier_tool_batch
  AND (new.batch_completed_at IS NOT old.batch_completed_at
    OR (old.receipt <> 'unreadable' AND new.receipt IS NOT old.receipt))
BEGIN SELECT RAISE(ABORT, 'a batch completes once, with one receipt'); END;
CREATE TRIGGER sync_intents_rebind BEFORE UPDATE OF barrier_agent_session_id, barrier_model_turn, barrier_tool_batch
  ON sync_intents
WHEN old.delivery_mode IS 'SoftBatch' AND new.delivery_mode IS 'SoftBatch'
  AND (new.barrier_agent_session_id IS NOT old.barrier_agent_session_id
    OR new.barrier_tool_batch IS NOT old.barrier_tool_batch OR new.barrier_model_turn IS NOT old.barrier_model_turn)
  AND NOT (old.batch_completed_at IS NOT NULL AND new.soft_redelivery_count = old.soft_redelivery_count + 1)
BEGIN SELECT RAISE(ABORT, 'only a completed batch is left for another, and that is counted'); END;
CREATE TRIGGER sync_intents_unbind BEFORE UPDATE OF delivery_mode ON sync_intents
WHEN old.delivery_mode IS 'SoftBatch' AND new.delivery_mode IS NULL
BEGIN SELECT RAISE(ABORT, 'a durable block is never released'); END;
CREATE TRIGGER sync_intents_redelivery BEFORE UPDATE OF soft_redelivery_count ON sync_intents
WHEN new.soft_redelivery_count < old.soft_redelivery_count AND new.delivery_epoch = old.delivery_epoch
BEGIN SELECT RAISE(ABORT, 'redeliveries are counted up within an epoch'); END;
CREATE TRIGGER sync_intents_epoch BEFORE UPDATE OF delivery_epoch, delivery_exhausted_at ON sync_intents
WHEN (new.delivery_epoch <> old.delivery_epoch OR (old.delivery_exhausted_at IS NOT NULL
    AND new.delivery_exhausted_at IS NOT old.delivery_exhausted_at))
  AND NOT (old.delivery_exhausted_at IS NOT NULL AND new.delivery_exhausted_at IS NULL
    AND new.delivery_epoch = old.delivery_epoch + 1 AND new.soft_redelivery_count = 0)
BEGIN SELECT RAISE(ABORT, 'a fresh cycle clears the exhaustion, counts from zero, and is the next epoch'); END;
CREATE TRIGGER sync_intents_exhausted BEFORE UPDATE ON sync_intents
WHEN old.delivery_exhausted_at IS NOT NULL
  AND NOT (new.delivery_exhausted_at IS NULL AND new.state = old.state)
  AND NOT (new.state = 'Acknowledged' AND new.discard IS 'delivery')
BEGIN SELECT RAISE(ABORT, 'an exhausted intent is only retried or discarded'); END;
CREATE TRIGGER sync_intents_discard BEFORE UPDATE OF state ON sync_intents
WHEN new.state = 'Acknowledged' AND ((old.state IN ('Detected','TopologyDiverged')) <> (new.discard IS 'transition'))
BEGIN SELECT RAISE(ABORT, 'only a Detected or diverged intent is acknowledged by discarding its transition'); END;
CREATE TRIGGER sync_intents_echoed BEFORE UPDATE OF state ON sync_intents
WHEN new.state = 'Acknowledged' AND new.discard IS NULL AND new.delivery_mode IS 'RestartStartup'
  AND NOT EXISTS (SELECT 1 FROM agent_sessions WHERE agent_session_id = new.restart_agent_session_id
    AND startup_echo_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'a restart delivery is acknowledged by its echo'); END;
CREATE TRIGGER sync_intents_superseded BEFORE UPDATE OF superseded_by ON sync_intents
WHEN new.superseded_by IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sync_intents WHERE intent_id = new.superseded_by
  AND parent_thread_id = new.parent_thread_id AND seq < new.seq)
BEGIN SELECT RAISE(ABORT, 'an intent is superseded by an earlier one of its edge'); END;
CREATE TRIGGER sync_intents_bundle BEFORE UPDATE OF recovery_bundle_path ON sync_intents
WHEN old.recovery_bundle_path IS NOT NULL AND new.recovery_bundle_path IS NOT old.recovery_bundle_path
BEGIN SELECT RAISE(ABORT, 'the recovery bundle is never forgotten'); END;
CREATE TRIGGER sync_intents_kept BEFORE DELETE ON sync_intents
BEGIN SELECT RAISE(ABORT, 'intents are kept'); END;

CREATE TRIGGER sync_intent_triggers_open BEFORE INSERT ON sync_intent_triggers
WHEN EXISTS (SELECT 1 FROM sync_intents WHERE intent_id = new.intent_id AND state NOT IN ('Detected','TopologyDiverged'))
BEGIN SELECT RAISE(ABORT, 'only a Detected or diverged intent gets another trigger'); END;
CREATE TRIGGER sync_intent_triggers_fixed BEFORE UPDATE ON sync_intent_triggers
BEGIN SELECT RAISE(ABORT, 'a trigger is what was seen'); END;
CREATE TRIGGER sync_intent_triggers_kept BEFORE DELETE ON sync_intent_triggers
BEGIN SELECT RAISE(ABORT, 'triggers are kept'); END;
`;
