/**
 * Per-repository database, version 2: the whole schema. Tables whose constraints change are made anew under another
 * name, filled with every row and its rowid (some readers order by it), and renamed; the migrator has switched
 * foreign keys off for that, and checks them before it commits. Triggers go first, because a rename looks at them.
 */
import { APPROVALS } from "./0002/approvals.ts";
import { INTENTS } from "./0002/intents.ts";
import { INTENT_TRIGGERS } from "./0002/intent-triggers.ts";
import { JOURNAL } from "./0002/journal.ts";
import { OPERATIONS } from "./0002/operations.ts";
import { PROCESSES } from "./0002/processes.ts";
import { PUBLISHING } from "./0002/publishing.ts";
import { SESSIONS } from "./0002/sessions.ts";
import { SMALL } from "./0002/small.ts";
import { THREADS } from "./0002/threads.ts";
import { TRANSCRIPT } from "./0002/transcript.ts";

const DROP_TRIGGERS = `
DROP TRIGGER launch_gates_forward;
DROP TRIGGER launch_gates_need_projections;
DROP TRIGGER threads_active_when_done;
DROP TRIGGER threads_active_when_ready;
DROP TRIGGER sync_intents_terminal;
DROP TRIGGER sync_intents_payload;
DROP TRIGGER sync_intents_seq;
`;

// The rebuilt tables first: a rename reads the whole schema, and every CREATE after it makes that longer.
export const SQL = [
  DROP_TRIGGERS,
  THREADS.tables,
  JOURNAL.tables,
  SESSIONS.tables,
  INTENTS,
  APPROVALS,
  OPERATIONS,
  PROCESSES.tables,
  PUBLISHING,
  TRANSCRIPT,
  SMALL,
  THREADS.triggers,
  JOURNAL.triggers,
  SESSIONS.triggers,
  INTENT_TRIGGERS,
  PROCESSES.triggers,
].join("\n");
