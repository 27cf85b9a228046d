/** `op_history` and its neighbours: tables of version 1, now with the order in which they are filled. */

export const OPERATIONS = `
CREATE TRIGGER op_attribution_closed BEFORE UPDATE ON op_attribution
WHEN old.live = 0 OR new.token <> old.token OR new.handler <> old.handler OR new.owner_id <> old.owner_id
  OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'an attribution is made once and closed once'); END;
CREATE TRIGGER op_attribution_begin BEFORE INSERT ON op_attribution
WHEN new.live <> 1
BEGIN SELECT RAISE(ABORT, 'an attribution is made before the command runs'); END;
CREATE TRIGGER op_attribution_kept BEFORE DELETE ON op_attribution
BEGIN SELECT RAISE(ABORT, 'attributions are kept'); END;

CREATE TRIGGER op_history_fixed BEFORE UPDATE ON op_history
WHEN old.processed_at IS NOT NULL OR new.op_id <> old.op_id OR new.description <> old.description
  OR new.is_snapshot <> old.is_snapshot OR new.workspace_name IS NOT old.workspace_name
  OR new.attribution_token IS NOT old.attribution_token OR new.discovered_at <> old.discovered_at
BEGIN SELECT RAISE(ABORT, 'an operation is what jj says, and is interpreted once'); END;
CREATE TRIGGER op_history_in_order BEFORE UPDATE OF processed_at ON op_history
WHEN new.processed_at IS NOT NULL AND EXISTS (SELECT 1 FROM op_history_parents e JOIN op_history p
  ON p.op_id = e.parent_op_id WHERE e.op_id = new.op_id AND p.processed_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'parents are interpreted before children'); END;
CREATE TRIGGER op_history_begin BEFORE INSERT ON op_history
WHEN new.processed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an operation is discovered before it is interpreted'); END;
CREATE TRIGGER op_history_kept BEFORE DELETE ON op_history
BEGIN SELECT RAISE(ABORT, 'operations are kept'); END;

CREATE TRIGGER op_history_parents_loop BEFORE INSERT ON op_history_parents
WHEN new.op_id = new.parent_op_id
BEGIN SELECT RAISE(ABORT, 'an operation is not its own parent'); END;
CREATE TRIGGER op_history_parents_open BEFORE INSERT ON op_history_parents
WHEN EXISTS (SELECT 1 FROM op_history WHERE op_id = new.op_id AND processed_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM op_history_parents WHERE op_id = new.op_id AND parent_op_id = new.parent_op_id)
BEGIN SELECT RAISE(ABORT, 'an interpreted operation gets no further parent'); END;
CREATE TRIGGER op_history_parents_fixed BEFORE UPDATE ON op_history_parents
BEGIN SELECT RAISE(ABORT, 'parents of an operation never change'); END;
CREATE TRIGGER op_history_parents_kept BEFORE DELETE ON op_history_parents
BEGIN SELECT RAISE(ABORT, 'parents of an operation are kept'); END;

CREATE TRIGGER op_workspace_heads_fixed BEFORE UPDATE ON op_workspace_heads
BEGIN SELECT RAISE(ABORT, 'what an operation showed never changes'); END;
CREATE TRIGGER op_workspace_heads_kept BEFORE DELETE ON op_workspace_heads
BEGIN SELECT RAISE(ABORT, 'what an operation showed is kept'); END;

CREATE TRIGGER op_watch_frontier_interpreted BEFORE INSERT ON op_watch_frontier
WHEN EXISTS (SELECT 1 FROM op_history WHERE op_id = new.op_id AND processed_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'the frontier holds interpreted operations'); END;
CREATE TRIGGER op_watch_frontier_antichain BEFORE INSERT ON op_watch_frontier
WHEN EXISTS (SELECT 1 FROM op_watch_frontier f JOIN op_history_parents e
  ON (e.op_id = f.op_id AND e.parent_op_id = new.op_id) OR (e.op_id = new.op_id AND e.parent_op_id = f.op_id))
BEGIN SELECT RAISE(ABORT, 'no operation of the frontier is the parent of another'); END;
`;
