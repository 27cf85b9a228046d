/** `stopped_processes`: what kiki is about to stop, or has stopped, written before the first SIGSTOP. */

const TABLES = `
CREATE TABLE stopped_processes (
  owner_kind TEXT NOT NULL CHECK (owner_kind IN ('lifecycle','intent')),
  owner_id TEXT NOT NULL CHECK (owner_id <> ''),
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  pid INTEGER NOT NULL CHECK (pid > 1),
  -- a pid alone is reused
  start_time TEXT NOT NULL CHECK (start_time <> ''),
  pgid INTEGER NOT NULL,
  session INTEGER NOT NULL,
  -- stopped before kiki came: it stays so
  was_stopped INTEGER NOT NULL CHECK (was_stopped IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('Recorded','Stopped','Resumed','Gone')),
  recorded_at INTEGER NOT NULL,
  settled_at INTEGER,
  PRIMARY KEY (owner_kind, owner_id, pid, start_time),
  CHECK ((state IN ('Resumed','Gone')) = (settled_at IS NOT NULL))
) STRICT;
CREATE INDEX stopped_processes_open ON stopped_processes(thread_id) WHERE settled_at IS NULL;
`;

const TRIGGERS = `
CREATE TRIGGER stopped_processes_begin BEFORE INSERT ON stopped_processes
WHEN new.state NOT IN ('Recorded')
BEGIN SELECT RAISE(ABORT, 'a process is recorded before it is stopped'); END;
CREATE TRIGGER stopped_processes_move BEFORE UPDATE OF state ON stopped_processes
WHEN new.state <> old.state AND old.state || '>' || new.state NOT IN (
  'Recorded>Stopped','Recorded>Resumed','Recorded>Gone',
  'Stopped>Resumed','Stopped>Gone','Stopped>Recorded',
  'Resumed>Recorded')
BEGIN SELECT RAISE(ABORT, 'a stopped process has no such move'); END;
CREATE TRIGGER stopped_processes_fixed BEFORE UPDATE ON stopped_processes
WHEN new.owner_kind <> old.owner_kind OR new.owner_id <> old.owner_id OR new.thread_id <> old.thread_id
  OR new.pid <> old.pid OR new.start_time <> old.start_time
  OR (new.was_stopped <> old.was_stopped AND new.state <> 'Recorded')
BEGIN SELECT RAISE(ABORT, 'what was recorded of a process before it was stopped is kept'); END;
`;

export const PROCESSES = { tables: TABLES, triggers: TRIGGERS };
