/** SQLite's failures that a person can do something about, by name. */
import { KikiError } from "../core/errors.ts";

/** SQLite primary result code (the extended code's first two words) → what it means for a person. */
const NAMED: readonly { code: RegExp; name: string; what: string; hint: string }[] = [
  {
    code: /^SQLITE_(NOTADB|CORRUPT)/,
    name: "database-corrupt",
    what: "is not a readable database",
    hint: "move the file away and restore a copy of it; kiki has not changed it",
  },
  {
    code: /^SQLITE_READONLY/,
    name: "database-read-only",
    what: "cannot be written",
    hint: "make the file and its folder writable for you",
  },
  {
    code: /^SQLITE_FULL/,
    name: "database-disk-full",
    what: "cannot grow: the disk is full",
    hint: "free some space and try again; nothing was half-written",
  },
  {
    code: /^SQLITE_(CANTOPEN|PERM|AUTH)/,
    name: "database-unreadable",
    what: "cannot be opened",
    hint: "check that the path is a file and that you may read and write it",
  },
  {
    code: /^SQLITE_IOERR/,
    name: "database-io",
    what: "could not be read or written by the system",
    hint: "check the disk and the system's log",
  },
  {
    code: /^SQLITE_(BUSY|LOCKED)/,
    name: "database-busy",
    what: "is locked by another process",
    hint: "end the other program that has it open",
  },
];

/**
 * A KikiError (`database-…`) for a failure of the file or the disk; anything else, constraint violations above all,
 * is a bug and comes back as it is. `file` is what the message names.
 */
export function nameStorageError(error: unknown, file: string): unknown {
  if (!(error instanceof Error) || error instanceof KikiError) return error;
  const code = (error as { code?: unknown }).code;
  if (typeof code !== "string") return error;
  const named = NAMED.find((n) => n.code.test(code));
  if (named === undefined) return error;
  const message = `${file} ${named.what}`;
  return new KikiError({ kind: "failed", code: named.name, message, hint: named.hint }, error);
}
