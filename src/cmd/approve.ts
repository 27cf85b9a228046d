/**
 * The place where a person says yes. The plan is the daemon's, shown byte for byte; below it what kk adds itself, in
 * lines that make sense without colour, on a narrow terminal, and read aloud.
 */
import { fail, type KikiError } from "../core/errors.ts";
import { wrap } from "../core/render/plan.ts";
import { displayWidth, printable } from "../core/render/width.ts";
import type { Plan } from "../rpc/contract/types.ts";
import { print, printJson } from "./out.ts";
import type { Answer, Terminal } from "./terminal.ts";

export const QUESTION = "Go ahead? [y/N] ";
/** So much of a digest is shown: enough to compare, little enough to read out. */
const DIGEST_SHOWN = 12;

/** `asked`: what was asked for, as one line. */
export async function ask(terminal: Terminal, plan: Plan, asked: string): Promise<Answer> {
  refuseControls(plan.text);
  const above = wideNote(plan.text, terminal.columns);
  terminal.write(
    (above === null ? "" : `${fitted([above], terminal.columns)}\n`) +
      (plan.text.endsWith("\n") ? plan.text : `${plan.text}\n`) +
      `\n${fitted(footer(plan, asked), terminal.columns)}`,
  );
  return terminal.ask(QUESTION);
}

/** Only these count; anything else, an empty line included, is a no. */
export function isYes(answer: string): boolean {
  return /^\s*(y|yes)\s*$/i.test(answer);
}

/** Where nobody can be asked: prints the plan to stdout, as JSON where the command was asked for it. */
export function printPlan(plan: Plan, json: boolean): void {
  // The nonce of a challenge is for the presenter alone.
  if (json) printJson({ ...plan, challenge: null });
  else print(plan.text.trimEnd());
}

/** Why this plan could not be put to a person: what the daemon saw, else what this process sees itself. */
export function refusalOf(plan: Plan): KikiError {
  const { refusal } = plan;
  if (refusal === null) {
    return fail(
      "approval",
      "approval-no-terminal",
      "this needs a person's yes, and there is no foreground terminal to ask on",
      "run the same command in the foreground of a terminal",
    );
  }
  return fail("approval", refusal.code, refusal.message, refusal.hint ?? undefined);
}

/** The daemon escapes what it shows; a plan that could move the cursor would not be what is read. */
function refuseControls(text: string): void {
  if (printable(text.replaceAll("\n", "")) === text.replaceAll("\n", "")) return;
  throw fail(
    "failed",
    "plan-unprintable",
    "the daemon's plan has control characters in it, so it cannot be shown as it is",
    "kk daemon restart, and try again",
  );
}

/** Wrapping the plan would make it another text than the one that is agreed to: its long lines are left to the terminal. */
function wideNote(text: string, columns: number): string | null {
  const widest = Math.max(...text.split("\n").map(displayWidth));
  if (widest <= columns) return null;
  return `This terminal is ${columns} columns wide and the plan ${widest}: its long lines go on in the next row.`;
}

function footer(plan: Plan, asked: string): string[] {
  const left = plan.challenge?.expiresInMs ?? 0;
  return [
    `Asked for: ${printable(asked)}`,
    `Digest ${plan.digest.slice(0, DIGEST_SHOWN)}, expires in ${inWords(left)}.`,
  ];
}

export function fitted(lines: readonly string[], columns: number): string {
  return lines.flatMap((line) => wrap(line, columns).map((part) => `${part}\n`)).join("");
}

/** A length of time as it is read out: "2 minutes", "1 minute 30 seconds". At least one second. */
export function inWords(ms: number): string {
  const total = Math.max(1, Math.round(ms / 1000));
  const [minutes, seconds] = [Math.floor(total / 60), total % 60];
  const parts = [counted(minutes, "minute"), counted(seconds, "second")];
  return parts.filter((part) => part !== null).join(" ");
}

function counted(count: number, unit: string): string | null {
  return count === 0 ? null : `${count} ${unit}${count === 1 ? "" : "s"}`;
}
