/** The recall surface: messages with full-text search, changes, offsets, first inputs of kiki's own, consents. */

export const TRANSCRIPT = `
CREATE TABLE thread_messages (
  message_id INTEGER PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  seq INTEGER NOT NULL CHECK (seq > 0),
  change_id TEXT,
  commit_id TEXT,
  op_id TEXT,
  -- the harness's conversation; kiki's own messages may have none
  session_id TEXT,
  captured_at INTEGER NOT NULL,
  author TEXT NOT NULL CHECK (author IN ('human','agent','kk')),
  direction TEXT NOT NULL CHECK (direction IN ('inbound_to_agent','outbound_from_agent','local_record')),
  text TEXT NOT NULL,
  dedup_key TEXT NOT NULL CHECK (dedup_key <> ''),
  synthesized INTEGER NOT NULL CHECK (synthesized IN (0, 1)),
  anchor_unknown INTEGER NOT NULL CHECK (anchor_unknown IN (0, 1)),
  UNIQUE (thread_id, dedup_key),
  UNIQUE (thread_id, seq),
  CHECK ((change_id IS NULL) = (commit_id IS NULL)),
  CHECK ((change_id IS NULL) = (op_id IS NULL)),
  CHECK ((anchor_unknown = 1) = (change_id IS NULL)),
  CHECK ((author = 'kk') = (synthesized = 1)),
  CHECK (session_id IS NOT NULL OR author = 'kk'),
  CHECK ((author = 'agent') = (direction = 'outbound_from_agent') OR direction = 'local_record')
) STRICT;
CREATE VIRTUAL TABLE thread_messages_fts USING fts5(text, content='thread_messages', content_rowid='message_id');
CREATE TRIGGER thread_messages_seq BEFORE INSERT ON thread_messages
WHEN EXISTS (SELECT 1 FROM thread_messages WHERE thread_id = new.thread_id AND seq > new.seq)
BEGIN SELECT RAISE(ABORT, 'messages of a thread are numbered upwards'); END;
CREATE TRIGGER thread_messages_fixed BEFORE UPDATE OF message_id, thread_id, seq, session_id, captured_at, text
  ON thread_messages
WHEN new.message_id <> old.message_id OR new.thread_id <> old.thread_id OR new.seq <> old.seq
  OR new.session_id IS NOT old.session_id OR new.captured_at <> old.captured_at OR new.text <> old.text
BEGIN SELECT RAISE(ABORT, 'a message is what was said'); END;
CREATE TRIGGER thread_messages_search_add AFTER INSERT ON thread_messages
BEGIN INSERT INTO thread_messages_fts (rowid, text) VALUES (new.message_id, new.text); END;
CREATE TRIGGER thread_messages_search_remove AFTER DELETE ON thread_messages
BEGIN INSERT INTO thread_messages_fts (thread_messages_fts, rowid, text) VALUES ('delete', old.message_id, old.text);
END;

CREATE TABLE thread_changes (
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  change_id TEXT NOT NULL CHECK (change_id <> ''),
  first_seen_op_id TEXT NOT NULL,
  redirected_to TEXT,
  tombstoned_at INTEGER,
  PRIMARY KEY (thread_id, change_id),
  CHECK (redirected_to <> change_id),
  CHECK (redirected_to IS NULL OR tombstoned_at IS NULL)
) STRICT;

CREATE TABLE transcript_offsets (
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  session_id TEXT NOT NULL CHECK (session_id <> ''),
  file TEXT NOT NULL CHECK (file <> ''),
  -- device and inode: another file under the same name is read from its top
  file_identity TEXT NOT NULL,
  offset INTEGER NOT NULL CHECK (offset >= 0),
  -- bytes that were not UTF-8 and were replaced
  replaced INTEGER NOT NULL DEFAULT 0 CHECK (replaced >= 0),
  read_at INTEGER NOT NULL,
  PRIMARY KEY (thread_id, session_id, file)
) STRICT;

CREATE TABLE pending_kkd_prepends (
  -- first in, first out
  prepend_id INTEGER PRIMARY KEY AUTOINCREMENT,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  purpose TEXT NOT NULL CHECK (purpose IN ('catch_up','restart','interrupt')),
  text_sha256 TEXT NOT NULL CHECK (length(text_sha256) = 64),
  intent_id TEXT,
  sent_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  matched_message_id INTEGER UNIQUE,
  matched_at INTEGER,
  FOREIGN KEY (intent_id, thread_id) REFERENCES sync_intents(intent_id, thread_id),
  FOREIGN KEY (matched_message_id) REFERENCES thread_messages(message_id) ON DELETE SET NULL,
  CHECK (expires_at > sent_at),
  CHECK (matched_message_id IS NULL OR matched_at IS NOT NULL),
  CHECK (intent_id IS NULL OR purpose <> 'catch_up')
) STRICT;
CREATE TRIGGER pending_kkd_prepends_fixed BEFORE UPDATE ON pending_kkd_prepends
WHEN new.thread_id <> old.thread_id OR new.purpose <> old.purpose OR new.text_sha256 <> old.text_sha256
  OR new.intent_id IS NOT old.intent_id OR (old.matched_at IS NOT NULL AND (new.matched_at IS NOT old.matched_at
    OR (new.matched_message_id IS NOT NULL AND new.matched_message_id IS NOT old.matched_message_id)))
BEGIN SELECT RAISE(ABORT, 'what was sent is matched once'); END;

CREATE TABLE provider_egress_consents (
  consent_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads(thread_id),
  harness TEXT NOT NULL CHECK (harness IN ('claude-code','codex')),
  service TEXT NOT NULL CHECK (service <> ''),
  endpoint_origin TEXT NOT NULL CHECK (endpoint_origin <> ''),
  account_fingerprint TEXT NOT NULL CHECK (account_fingerprint <> ''),
  purpose TEXT NOT NULL CHECK (purpose IN ('catch_up','transcript_mcp')),
  disclosure_version INTEGER NOT NULL CHECK (disclosure_version > 0),
  granted_by_presenter TEXT NOT NULL CHECK (granted_by_presenter <> ''),
  granted_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
CREATE UNIQUE INDEX one_live_consent ON provider_egress_consents(thread_id, harness, service, endpoint_origin,
  account_fingerprint, purpose, disclosure_version) WHERE revoked_at IS NULL;
CREATE TRIGGER provider_egress_consents_fixed BEFORE UPDATE ON provider_egress_consents
WHEN old.revoked_at IS NOT NULL OR new.consent_id <> old.consent_id OR new.thread_id <> old.thread_id
  OR new.harness <> old.harness OR new.service <> old.service OR new.endpoint_origin <> old.endpoint_origin
  OR new.account_fingerprint <> old.account_fingerprint OR new.purpose <> old.purpose
  OR new.disclosure_version <> old.disclosure_version OR new.granted_by_presenter <> old.granted_by_presenter
  OR new.granted_at <> old.granted_at
BEGIN SELECT RAISE(ABORT, 'a consent is granted once and revoked once'); END;
`;
