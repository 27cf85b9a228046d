/** kkd.log: one line per entry, rotated by size. Never holds secrets: callers log ids and messages, not bodies. */
import { appendFileSync, renameSync, statSync } from "node:fs";
import { errorLine, KikiError } from "../core/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";

/** A full file becomes `.1`, that one `.2`; together with the current file that is all there ever is. */
export const MAX_LOG_BYTES = 5 * 1024 * 1024;
export const LOG_FILES = 3;
const MAX_ENTRY_CHARS = 8 * 1024;
const MAX_CAUSES = 5;

/**
 * A failing disk must not take the daemon down with its log: entries that cannot be written are dropped. `file` and
 * its older copies are 0600.
 */
export function openLog(file: string, clock: Pick<Clock, "now">, maxBytes = MAX_LOG_BYTES): Log {
  let size = sizeOf(file);
  const write = (level: string, message: string): void => {
    const text = oneLine(message).slice(0, MAX_ENTRY_CHARS);
    const line = `${new Date(clock.now()).toISOString()} ${process.pid} ${level} ${text}\n`;
    const bytes = Buffer.byteLength(line);
    try {
      if (size > 0 && size + bytes > maxBytes) {
        rotate(file);
        size = 0;
      }
      appendFileSync(file, line, { mode: 0o600 });
      size += bytes;
    } catch {
      // See above.
    }
  };
  return {
    info: (message) => write("info", message),
    warn: (message) => write("warn", message),
    error: (message, cause) =>
      write("error", cause === undefined ? message : `${message}${describe(cause)}`),
  };
}

/** ` | <error> | caused by <error>`: the whole chain, and for a bug the place it was thrown from. */
function describe(cause: unknown): string {
  let text = "";
  let at: unknown = cause;
  for (let depth = 0; at !== undefined && at !== null && depth < MAX_CAUSES; depth += 1) {
    const code = at instanceof KikiError ? `${at.code}: ` : "";
    text += ` | ${depth === 0 ? "" : "caused by "}${code}${errorLine(at)}`;
    // A KikiError was expected and says what it means; anything else is a bug, and its stack is worth the length.
    if (at instanceof Error && !(at instanceof KikiError)) text += ` (${stackOf(at)})`;
    at = at instanceof Error ? at.cause : undefined;
  }
  return text;
}

function stackOf(error: Error): string {
  return (error.stack ?? "")
    .split("\n")
    .slice(1)
    .map((line) => line.trim())
    .join(" < ");
}

function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, " ⏎ ");
}

function rotate(file: string): void {
  for (let n = LOG_FILES - 1; n >= 1; n -= 1) {
    const from = n === 1 ? file : `${file}.${n - 1}`;
    try {
      renameSync(from, `${file}.${n}`);
    } catch {
      // Not there yet.
    }
  }
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}
