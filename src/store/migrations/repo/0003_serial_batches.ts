/**
 * Per-repository database, version 3: calls of a harness that runs one at a time. Its session record says which response
 * a call belongs to, and which record that is tells one conversation from another.
 */
export const SQL = `
-- the session record that shows the call; null where the harness reports batches itself
ALTER TABLE tool_admissions ADD COLUMN record_path TEXT CHECK (record_path <> '');
-- responses that were complete before the call's line in that record; null as long as the record does not show the line
ALTER TABLE tool_admissions ADD COLUMN model_turn INTEGER CHECK (model_turn >= 0)
  CHECK (model_turn IS NULL OR record_path IS NOT NULL);
CREATE TRIGGER tool_admissions_turn BEFORE UPDATE OF record_path, model_turn ON tool_admissions
WHEN new.record_path IS NOT old.record_path OR (old.model_turn IS NOT NULL AND new.model_turn IS NOT old.model_turn)
BEGIN SELECT RAISE(ABORT, 'a call belongs to one response of one record'); END;
`;
