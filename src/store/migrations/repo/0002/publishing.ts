/** `metadata_writes`, `pr_links`, `remote_plans`. */

export const PUBLISHING = `
CREATE TABLE metadata_writes (
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  subject TEXT NOT NULL CHECK (subject IN ('description','bookmark')),
  -- the revision whose description it is; '' for the thread's bookmark
  change_id TEXT NOT NULL,
  -- of what kiki wrote last: other content is a person's
  content_sha256 TEXT NOT NULL CHECK (length(content_sha256) = 64),
  owner TEXT NOT NULL CHECK (owner IN ('kiki','human')),
  written_at INTEGER NOT NULL,
  -- a person asked kiki to take it back
  refreshed_at INTEGER,
  PRIMARY KEY (thread_id, subject, change_id),
  CHECK ((subject = 'bookmark') = (change_id = ''))
) STRICT;
CREATE TRIGGER metadata_writes_human BEFORE UPDATE ON metadata_writes
WHEN old.owner = 'human' AND (new.owner <> 'human' OR new.content_sha256 <> old.content_sha256)
  AND (old.subject = 'bookmark' OR new.refreshed_at IS old.refreshed_at)
BEGIN SELECT RAISE(ABORT, 'what a person wrote stays theirs until they ask for a refresh'); END;
CREATE TRIGGER metadata_writes_subject BEFORE UPDATE OF thread_id, subject, change_id ON metadata_writes
WHEN new.thread_id <> old.thread_id OR new.subject <> old.subject OR new.change_id <> old.change_id
BEGIN SELECT RAISE(ABORT, 'ownership is of one text'); END;

CREATE TABLE pr_links (
  thread_id TEXT PRIMARY KEY REFERENCES threads(thread_id),
  -- owner/name
  repository TEXT NOT NULL CHECK (repository LIKE '_%/_%'),
  number INTEGER NOT NULL CHECK (number > 0),
  url TEXT NOT NULL CHECK (url <> ''),
  remote TEXT NOT NULL CHECK (remote <> ''),
  head_branch TEXT NOT NULL CHECK (head_branch <> ''),
  base_branch TEXT NOT NULL CHECK (base_branch <> ''),
  pushed_commit_id TEXT NOT NULL,
  title_sha256 TEXT NOT NULL CHECK (length(title_sha256) = 64),
  body_sha256 TEXT NOT NULL CHECK (length(body_sha256) = 64),
  state TEXT NOT NULL CHECK (state IN ('open','closed','merged')),
  draft INTEGER NOT NULL CHECK (draft IN (0, 1)),
  checks TEXT NOT NULL CHECK (checks IN ('none','pending','passing','failing')),
  -- on the default branch; where the children go
  merged_commit_id TEXT,
  created_at INTEGER NOT NULL,
  observed_at INTEGER NOT NULL,
  UNIQUE (repository, number),
  CHECK ((state = 'merged') = (merged_commit_id IS NOT NULL)),
  CHECK (head_branch <> base_branch)
) STRICT;
CREATE TRIGGER pr_links_identity BEFORE UPDATE OF thread_id, repository, number ON pr_links
WHEN new.thread_id <> old.thread_id OR new.repository <> old.repository OR new.number <> old.number
BEGIN SELECT RAISE(ABORT, 'a thread keeps its pull request'); END;
CREATE TRIGGER pr_links_merged BEFORE UPDATE OF state, merged_commit_id ON pr_links
WHEN old.state = 'merged' AND (new.state <> 'merged' OR new.merged_commit_id IS NOT old.merged_commit_id)
BEGIN SELECT RAISE(ABORT, 'merged is final'); END;

CREATE TABLE remote_plans (
  plan_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  kind TEXT NOT NULL CHECK (kind IN ('force-push','pr-base')),
  args_json TEXT NOT NULL CHECK (json_valid(args_json)),
  plan_sha256 TEXT NOT NULL CHECK (length(plan_sha256) = 64),
  state TEXT NOT NULL CHECK (state IN ('Pending','Claimed','Done','Withdrawn')),
  operation_id TEXT UNIQUE REFERENCES approved_operations(operation_id),
  created_at INTEGER NOT NULL,
  settled_at INTEGER,
  CHECK ((state IN ('Claimed','Done')) = (operation_id IS NOT NULL)),
  CHECK ((state IN ('Done','Withdrawn')) = (settled_at IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX one_open_remote_plan ON remote_plans(thread_id, kind) WHERE settled_at IS NULL;
CREATE TRIGGER remote_plans_begin BEFORE INSERT ON remote_plans
WHEN new.state NOT IN ('Pending')
BEGIN SELECT RAISE(ABORT, 'a remote plan begins as Pending'); END;
CREATE TRIGGER remote_plans_move BEFORE UPDATE OF state ON remote_plans
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Pending>Claimed','Pending>Withdrawn','Claimed>Done','Claimed>Pending')
BEGIN SELECT RAISE(ABORT, 'a remote plan has no such move'); END;
CREATE TRIGGER remote_plans_fixed BEFORE UPDATE ON remote_plans
WHEN old.settled_at IS NOT NULL OR new.plan_id <> old.plan_id OR new.thread_id <> old.thread_id
  OR new.kind <> old.kind OR new.args_json <> old.args_json OR new.plan_sha256 <> old.plan_sha256
BEGIN SELECT RAISE(ABORT, 'a remote plan is exact, and settled once'); END;
`;
