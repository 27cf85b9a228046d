/** `events` and `attention`: tables of version 1, now with what may happen to a row. */

export const SMALL = `
ALTER TABLE attention ADD COLUMN notified_at INTEGER;

CREATE TRIGGER events_fixed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'what happened never changes'); END;
CREATE TRIGGER attention_fixed BEFORE UPDATE ON attention
WHEN new.thread_id <> old.thread_id OR new.kind <> old.kind OR new.dedup_key <> old.dedup_key
  OR new.raised_at <> old.raised_at
  OR (old.acknowledged_at IS NOT NULL AND new.acknowledged_at IS NOT old.acknowledged_at)
  OR (old.notified_at IS NOT NULL AND new.notified_at IS NOT old.notified_at)
BEGIN SELECT RAISE(ABORT, 'an event is notified once and acknowledged once'); END;
CREATE TRIGGER attention_kept BEFORE DELETE ON attention
BEGIN SELECT RAISE(ABORT, 'attention is kept, so that nothing is notified twice'); END;
`;
