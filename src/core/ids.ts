/**
 * Names for the identifiers that travel through kiki. They are plain strings at run time; the aliases say which
 * kind of string a signature wants.
 */

/** UUID of a thread; never changes, everything else joins on it. */
export type ThreadId = string;
/** UUID of a registered repository. */
export type RepoId = string;
/** 40 lower-case hex digits: an exact jj (git) commit. Pins. */
export type CommitId = string;
/** jj change id in reverse hex (k–z letters), 32 characters. Correlates rewritten revisions, never pins. */
export type ChangeId = string;
/** 128 lower-case hex digits: a jj operation. */
export type OpId = string;
/** UUID of one process of a harness started by kiki (`agent_sessions.agent_session_id`). */
export type IncarnationId = string;
/** UUID of one `sync_intents` row. */
export type IntentId = string;
/** UUID of one `thread_lifecycle_ops` row. */
export type LifecycleOpId = string;

/** The operation every jj repository starts from. */
export const ROOT_OP: OpId = "0".repeat(128);

export function isOpId(text: string): boolean {
  return /^[0-9a-f]{128}$/.test(text);
}

/** First characters of an id, for people. */
export function short(id: string): string {
  return id.slice(0, 12);
}
