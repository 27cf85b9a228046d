/**
 * The terminal in front of a person: the controlling terminal (`/dev/tty`) while this process is in its foreground.
 * Standard input and output play no part: they may be a pipe, a file, or somebody else's.
 */
import { dlopen } from "bun:ffi";
import { closeSync, openSync, read, readFileSync, writeSync } from "node:fs";
import { WriteStream } from "node:tty";

/** What came back from a question: a line, the end of input (Ctrl-D), or Ctrl-C. */
export type Answer = { kind: "line"; text: string } | { kind: "end" } | { kind: "interrupted" };

export interface Terminal {
  /** Width in columns. */
  columns: number;
  /** Byte for byte. */
  write(text: string): void;
  /**
   * Writes the question and waits for one line. What was typed before the question was there is thrown away: it was
   * no answer to it.
   */
  ask(question: string): Promise<Answer>;
  close(): void;
}

const MAX_ANSWER_BYTES = 1024;
const DEFAULT_COLUMNS = 80;
const MAC = process.platform === "darwin";
const TCIFLUSH = MAC ? 1 : 0;

/** null in a background job, and where there is no controlling terminal. */
export function openTerminal(): Terminal | null {
  if (!inForeground()) return null;
  let fd: number;
  try {
    fd = openSync("/dev/tty", "r+");
  } catch {
    return null;
  }
  return {
    columns: columnsOf(fd),
    write: (text) => writeAll(fd, text),
    async ask(question) {
      dropTyped(fd);
      writeAll(fd, question);
      const answer = await firstOf(fd);
      // The cursor is still behind the question: what is said next starts on a line of its own.
      if (answer.kind !== "line") writeAll(fd, "\n");
      return answer;
    },
    close: () => closeSync(fd),
  };
}

/** Ends this process as the Ctrl-C would have that was the answer. */
export function endInterrupted(): Promise<never> {
  process.kill(process.pid, "SIGINT");
  return new Promise(() => {});
}

/**
 * A background process that reads its terminal is stopped by SIGTTIN; it must say so instead. Linux: fields 5 (pgrp)
 * and 8 (tpgid) of /proc/self/stat; without /proc the terminal itself decides.
 */
function inForeground(): boolean {
  let stat: string;
  try {
    stat = readFileSync("/proc/self/stat", "utf8");
  } catch {
    return true;
  }
  // The command name may hold blanks and brackets; what follows its last bracket is plain: state ppid pgrp …
  const [, , pgrp, , , tpgid] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return pgrp === tpgid;
}

function columnsOf(fd: number): number {
  try {
    const { columns } = new WriteStream(fd);
    return columns > 0 ? columns : DEFAULT_COLUMNS;
  } catch {
    return DEFAULT_COLUMNS;
  }
}

/** Keys typed ahead were meant for something else. Without libc the terminal keeps them, as a shell would. */
function dropTyped(fd: number): void {
  try {
    const libc = dlopen(MAC ? "libSystem.B.dylib" : "libc.so.6", {
      tcflush: { args: ["int", "int"], returns: "int" },
    });
    libc.symbols.tcflush(fd, TCIFLUSH);
    libc.close();
  } catch {
    // Another libc by another name.
  }
}

/** A line or a Ctrl-C, whichever comes first. The read itself waits off the main thread, so the signal is heard. */
function firstOf(fd: number): Promise<Answer> {
  return new Promise((resolve) => {
    const onInterrupt = (): void => resolve({ kind: "interrupted" });
    process.once("SIGINT", onInterrupt);
    readLine(fd, Buffer.alloc(MAX_ANSWER_BYTES), 0, (text) => {
      process.removeListener("SIGINT", onInterrupt);
      resolve(text === null ? { kind: "end" } : { kind: "line", text });
    });
  });
}

/**
 * Up to the first newline; null when the input ends first: what was typed before that is no answer. Nor is a longer line
 * than fits, which is read to its end all the same: its rest would be a command to the shell that reads next.
 */
function readLine(
  fd: number,
  buffer: Buffer,
  length: number,
  done: (text: string | null) => void,
  tooLong = false,
): void {
  read(fd, buffer, length, buffer.length - length, null, (error, count) => {
    if (error !== null || count === 0) return done(null);
    const end = buffer.subarray(0, length + count).indexOf(0x0a);
    if (end >= 0) return done(tooLong ? null : buffer.toString("utf8", 0, end));
    const full = length + count === buffer.length;
    readLine(fd, buffer, full ? 0 : length + count, done, tooLong || full);
  });
}

function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
}
