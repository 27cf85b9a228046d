/** The command's terminal: text out, one-line errors, and whether colour may be used. */
import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import { errorLine, KikiError } from "../core/errors.ts";
import { printable } from "../core/render/width.ts";

/** Colour only on a terminal, and never against NO_COLOR (any value), CLICOLOR=0 or TERM=dumb. */
export function wantsColour(
  env: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
): boolean {
  if (!isTerminal) return false;
  return !env["NO_COLOR"] && env["CLICOLOR"] !== "0" && env["TERM"] !== "dumb";
}

/** Not through process.stdout: building that stream takes longer than a whole `kk ls` (Bun 1.4.5). */
export function stdoutIsTerminal(): boolean {
  return isatty(1);
}

export function colour(): boolean {
  return wantsColour(process.env, stdoutIsTerminal());
}

/** Width to fit output into; null when stdout is no terminal: then nothing is cut. */
export function columns(): number | null {
  return stdoutIsTerminal() ? (process.stdout.columns ?? 80) : null;
}

export function print(text: string): void {
  console.log(text);
}

export function printJson(value: unknown): void {
  console.log(JSON.stringify(value, null, 2));
}

/** A remark for the person that is not the command's result. */
export function note(text: string): void {
  printError(`kiki: ${text}`);
}

/**
 * Lines on stderr. `console.error` colours them red on a terminal, against NO_COLOR's relatives too (Bun 1.4.5), and
 * is not finished when a process that must end exits.
 */
export function printError(text: string): void {
  const bytes = Buffer.from(`${text}\n`);
  try {
    for (let at = 0; at < bytes.length;) at += writeSync(2, bytes, at);
  } catch {
    // Nobody reads it; the exit code still tells.
  }
}

const MAX_CAUSES = 8;

/**
 * What is wrong and the next thing to type, as one line; with `verbose` the causes follow, one line each.
 */
export function errorText(error: unknown, verbose: boolean): string {
  const hint = error instanceof KikiError && error.hint !== undefined ? ` — ${error.hint}` : "";
  const lines = [`kk: ${printable(errorLine(error))}${printable(hint)}`];
  let cause: unknown = error instanceof Error ? error.cause : undefined;
  for (let i = 0; verbose && cause !== undefined && i < MAX_CAUSES; i += 1) {
    lines.push(`  caused by: ${printable(errorLine(cause))}`);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return lines.join("\n");
}

/** Exit code of a failure: the kind's own, 1 for anything unexpected. */
export function exitCodeOf(error: unknown): number {
  return error instanceof KikiError ? error.exitCode : 1;
}
