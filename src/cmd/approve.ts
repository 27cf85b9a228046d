/**
 * The place where a person says yes. The plan is the daemon's, shown byte for byte; the answer comes from the
 * terminal itself, never from a pipe, a flag or the environment. The presenter's challenge and its refusal of live
 * incarnations (authority chapter) come in here.
 */
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { fail } from "../core/errors.ts";
import type { Plan } from "../rpc/contract/types.ts";
import { print, printJson } from "./out.ts";

const QUESTION = "Go ahead? [y/N] ";
const MAX_ANSWER_BYTES = 1024;

/**
 * Returns when the person agreed. Throws KikiError of kind approval: `approval-refused`, or `approval-no-terminal`
 * after printing the plan to stdout, as JSON where the command was asked for it.
 */
export function approve(plan: Plan, json: boolean): void {
  const terminal = openTerminal();
  if (terminal === null) {
    if (json) printJson(plan);
    else print(plan.text.trimEnd());
    throw fail(
      "approval",
      "approval-no-terminal",
      "this needs a person's yes, and there is no foreground terminal to ask on",
      "run the same command in a terminal",
    );
  }
  try {
    writeAll(terminal, plan.text.endsWith("\n") ? plan.text : `${plan.text}\n`);
    writeAll(terminal, QUESTION);
    if (!isYes(readLine(terminal))) {
      throw fail("approval", "approval-refused", "not approved: nothing was changed");
    }
  } finally {
    closeSync(terminal);
  }
}

/** Only these count; anything else, an empty line included, is a no. */
export function isYes(answer: string): boolean {
  return /^\s*(y|yes)\s*$/i.test(answer);
}

/** A descriptor of the controlling terminal while this process is in its foreground; else null. */
function openTerminal(): number | null {
  if (!inForeground()) return null;
  try {
    return openSync("/dev/tty", "r+");
  } catch {
    return null;
  }
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

/** Up to the first newline; what was typed before an end of input is no answer. */
function readLine(fd: number): string {
  const buffer = Buffer.alloc(MAX_ANSWER_BYTES);
  let length = 0;
  while (length < buffer.length) {
    const read = readSync(fd, buffer, length, buffer.length - length, null);
    if (read === 0) {
      // Ctrl-D leaves the cursor behind the question; what is said next starts on a line of its own.
      writeAll(fd, "\n");
      return "";
    }
    length += read;
    const end = buffer.subarray(0, length).indexOf(0x0a);
    if (end >= 0) return buffer.toString("utf8", 0, end);
  }
  return "";
}

function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
}
