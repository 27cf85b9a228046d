/** `threads`, `thread_links`, `thread_projection_issues`, `thread_config`. */

const TABLES = `
CREATE TABLE threads_0002 (
  thread_id TEXT PRIMARY KEY,
  name TEXT NOT NULL CHECK (name <> ''),
  slug TEXT NOT NULL CHECK (length(slug) BETWEEN 1 AND 60),
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('Creating','CreateFailed','Active','ClosePreflight','CloseCommit',
    'CloseFailed','Closed','ProjectionDiverged','DestroyCommit','DestroyFailed','Destroyed')),
  projection_resume_lifecycle TEXT CHECK (projection_resume_lifecycle IN ('Active','Closed')),
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  harness_executable TEXT NOT NULL,
  harness_args_json TEXT NOT NULL CHECK (json_valid(harness_args_json)),
  first_prompt TEXT,
  workspace_name TEXT NOT NULL,
  workspace_path TEXT NOT NULL,
  bookmark TEXT NOT NULL,
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
INSERT INTO threads_0002 (rowid, thread_id, name, slug, lifecycle, projection_resume_lifecycle, harness,
  harness_executable, harness_args_json, first_prompt, workspace_name, workspace_path, bookmark, tmux_socket,
  tmux_session, tmux_session_id, owned_stack_base_commit_id, thread_head_commit_id, thread_head_change_id,
  thread_head_op_id, checkpoint_commit_id, created_at)
SELECT rowid, thread_id, name, slug, lifecycle, projection_resume_lifecycle, harness,
  harness_executable, harness_args_json, first_prompt, workspace_name, workspace_path, bookmark, tmux_socket,
  tmux_session, tmux_session_id, owned_stack_base_commit_id, thread_head_commit_id, thread_head_change_id,
  thread_head_op_id, checkpoint_commit_id, created_at FROM threads;
DROP TABLE threads;
ALTER TABLE threads_0002 RENAME TO threads;
-- a destroyed thread has given its names back
CREATE UNIQUE INDEX one_thread_of_a_slug ON threads(slug) WHERE lifecycle <> 'Destroyed';
CREATE UNIQUE INDEX one_thread_of_a_workspace ON threads(workspace_name) WHERE lifecycle <> 'Destroyed';
CREATE UNIQUE INDEX one_thread_of_a_path ON threads(workspace_path) WHERE lifecycle <> 'Destroyed';
CREATE UNIQUE INDEX one_thread_of_a_bookmark ON threads(bookmark) WHERE lifecycle <> 'Destroyed';

CREATE TABLE thread_projection_issues (
  issue_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  issue TEXT NOT NULL CHECK (issue IN ('WorkspaceDirectoryMissing','WorkspaceRecordMissing','WorkspacePathMismatch',
    'BookmarkMissing','BookmarkMoved','SessionMissing')),
  expected_json TEXT NOT NULL CHECK (json_valid(expected_json)),
  observed_json TEXT NOT NULL CHECK (json_valid(observed_json)),
  -- repair ids are made of it: another state makes them stale
  observed_sha256 TEXT NOT NULL CHECK (length(observed_sha256) = 64),
  detected_at INTEGER NOT NULL,
  observed_at INTEGER NOT NULL,
  notified_at INTEGER,
  resolved_at INTEGER,
  resolution TEXT CHECK (resolution <> ''),
  CHECK ((resolved_at IS NULL) = (resolution IS NULL))
) STRICT;
CREATE UNIQUE INDEX one_unresolved_issue_of_a_kind ON thread_projection_issues(thread_id, issue)
  WHERE resolved_at IS NULL;

CREATE TABLE thread_config (
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  key TEXT NOT NULL CHECK (key <> ''),
  value_json TEXT NOT NULL CHECK (json_valid(value_json)),
  set_at INTEGER NOT NULL,
  PRIMARY KEY (thread_id, key)
) STRICT;
`;

const TRIGGERS = `
CREATE TRIGGER threads_begin BEFORE INSERT ON threads
WHEN new.lifecycle NOT IN ('Creating')
BEGIN SELECT RAISE(ABORT, 'a thread begins as Creating'); END;
CREATE TRIGGER threads_move BEFORE UPDATE OF lifecycle ON threads
WHEN new.lifecycle <> old.lifecycle AND old.lifecycle || '>' || new.lifecycle NOT IN (
  'Creating>Active','Creating>CreateFailed',
  'CreateFailed>Creating','CreateFailed>Destroyed',
  'Active>ClosePreflight','Active>ProjectionDiverged','Active>DestroyCommit',
  'ClosePreflight>Active','ClosePreflight>CloseCommit',
  'CloseCommit>Closed','CloseCommit>Active','CloseCommit>CloseFailed',
  'CloseFailed>Active','CloseFailed>CloseCommit',
  'Closed>Active','Closed>ProjectionDiverged','Closed>DestroyCommit',
  'ProjectionDiverged>Active','ProjectionDiverged>Closed','ProjectionDiverged>CloseCommit',
  'ProjectionDiverged>DestroyCommit',
  'DestroyCommit>Destroyed','DestroyCommit>DestroyFailed','DestroyCommit>Active','DestroyCommit>Closed',
  'DestroyCommit>ProjectionDiverged',
  'DestroyFailed>DestroyCommit')
BEGIN SELECT RAISE(ABORT, 'a thread''s lifecycle has no such move'); END;
CREATE TRIGGER threads_identity BEFORE UPDATE OF thread_id, created_at ON threads
WHEN new.thread_id <> old.thread_id OR new.created_at <> old.created_at
BEGIN SELECT RAISE(ABORT, 'a thread''s identity never changes'); END;
CREATE TRIGGER threads_kept BEFORE DELETE ON threads
BEGIN SELECT RAISE(ABORT, 'a thread''s row is kept'); END;
CREATE TRIGGER threads_active_when_done BEFORE UPDATE OF lifecycle ON threads
WHEN new.lifecycle = 'Active' AND EXISTS (SELECT 1 FROM thread_lifecycle_ops WHERE thread_id = new.thread_id
  AND state = 'Running' AND kind IN ('Create','Close','Reopen','Destroy'))
BEGIN SELECT RAISE(ABORT, 'a thread with an unfinished Create, Close, Reopen or Destroy is not Active'); END;
CREATE TRIGGER threads_active_when_ready BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle IN ('Creating','Closed') AND new.lifecycle = 'Active' AND NOT EXISTS (SELECT 1 FROM agent_sessions
  WHERE thread_id = new.thread_id AND ready_at IS NOT NULL AND retired_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'only a ready incarnation makes a created or reopened thread Active'); END;
CREATE TRIGGER threads_active_without_issue BEFORE UPDATE OF lifecycle ON threads
WHEN new.lifecycle = 'Active' AND EXISTS (SELECT 1 FROM thread_projection_issues WHERE thread_id = new.thread_id
  AND resolved_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a thread with an unresolved projection issue is not Active'); END;
CREATE TRIGGER threads_diverge_from BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle IN ('Active','Closed') AND new.lifecycle = 'ProjectionDiverged'
  AND new.projection_resume_lifecycle IS NOT old.lifecycle
BEGIN SELECT RAISE(ABORT, 'ProjectionDiverged goes back to where it came from'); END;
CREATE TRIGGER threads_diverge_back BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle = 'ProjectionDiverged' AND (
  (new.lifecycle IN ('Active','Closed') AND new.lifecycle <> old.projection_resume_lifecycle)
  OR (new.lifecycle = 'CloseCommit' AND old.projection_resume_lifecycle <> 'Active'))
BEGIN SELECT RAISE(ABORT, 'ProjectionDiverged goes back to the recorded lifecycle, or closes what was Active'); END;
CREATE TRIGGER threads_destroy_goes_on BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle IN ('DestroyCommit','DestroyFailed') AND new.lifecycle IN ('Active','Closed','ProjectionDiverged')
  AND EXISTS (SELECT 1 FROM thread_lifecycle_ops o JOIN thread_lifecycle_steps s USING (operation_id)
    WHERE o.thread_id = new.thread_id AND o.kind = 'Destroy' AND s.irreversible = 1 AND s.state <> 'Pending')
BEGIN SELECT RAISE(ABORT, 'after its first irreversible step destroying can only be finished'); END;
CREATE TRIGGER threads_close_goes_on BEFORE UPDATE OF lifecycle ON threads
WHEN old.lifecycle IN ('CloseCommit','CloseFailed') AND new.lifecycle = 'Active'
  AND EXISTS (SELECT 1 FROM thread_lifecycle_steps s WHERE s.irreversible = 1 AND s.state <> 'Pending'
    AND s.operation_id = (SELECT o.operation_id FROM thread_lifecycle_ops o WHERE o.thread_id = new.thread_id
      AND o.kind = 'Close' ORDER BY o.rowid DESC LIMIT 1))
BEGIN SELECT RAISE(ABORT, 'after its first irreversible step closing can only be finished'); END;

CREATE TRIGGER thread_links_acyclic BEFORE INSERT ON thread_links
WHEN EXISTS (WITH RECURSIVE up(id) AS (SELECT new.parent_thread_id UNION
    SELECT l.parent_thread_id FROM thread_links l JOIN up ON l.child_thread_id = up.id)
  SELECT 1 FROM up WHERE id = new.child_thread_id)
BEGIN SELECT RAISE(ABORT, 'follows edges form no cycle'); END;
CREATE TRIGGER thread_links_stay_acyclic BEFORE UPDATE OF child_thread_id, parent_thread_id ON thread_links
WHEN EXISTS (WITH RECURSIVE up(id) AS (SELECT new.parent_thread_id UNION
    SELECT l.parent_thread_id FROM thread_links l JOIN up ON l.child_thread_id = up.id)
  SELECT 1 FROM up WHERE id = new.child_thread_id)
BEGIN SELECT RAISE(ABORT, 'follows edges form no cycle'); END;

CREATE TRIGGER thread_projection_issues_begin BEFORE INSERT ON thread_projection_issues
WHEN new.resolved_at IS NULL AND NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = new.thread_id
  AND lifecycle = 'ProjectionDiverged')
BEGIN SELECT RAISE(ABORT, 'an unresolved projection issue is of a diverged thread: a saga fails instead'); END;
CREATE TRIGGER thread_projection_issues_fixed BEFORE UPDATE ON thread_projection_issues
WHEN old.resolved_at IS NOT NULL OR new.issue_id <> old.issue_id OR new.thread_id <> old.thread_id
  OR new.issue <> old.issue OR new.detected_at <> old.detected_at
BEGIN SELECT RAISE(ABORT, 'a projection issue keeps its identity, and is resolved once'); END;
CREATE TRIGGER thread_projection_issues_notified BEFORE UPDATE OF notified_at ON thread_projection_issues
WHEN old.notified_at IS NOT NULL AND new.notified_at IS NOT old.notified_at
BEGIN SELECT RAISE(ABORT, 'a projection issue is notified once'); END;
`;

export const THREADS = { tables: TABLES, triggers: TRIGGERS };
