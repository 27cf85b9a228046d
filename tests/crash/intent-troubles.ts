/** What goes wrong in the intents' world, and what a dead daemon is left with. */
import type { JjRepo } from "../../src/ports/jj.ts";
import { never } from "../support/never.ts";

/** jj commands the cascade runs that change something, with the place of their token. */
export const COMMANDS = {
  snapshot: (args: unknown[]) => args[1],
  updateStale: (args: unknown[]) => args[1],
  stageRebase: (args: unknown[]) => (args[0] as { token: string }).token,
  integrate: (args: unknown[]) => args[1],
  edit: (args: unknown[]) => args[2],
  abandon: (args: unknown[]) => args[1],
  setBookmark: (args: unknown[]) => args[2],
  mergeHeads: (args: unknown[]) => args[0],
} as const satisfies Partial<Record<keyof JjRepo, (args: unknown[]) => unknown>>;
export type Command = keyof typeof COMMANDS;

/**
 * How a command turns out that is under way when its daemon dies: never done, done, done by a process that outlives
 * the daemon, killed in the middle, killed in the middle of the files with one of them written in half. Or the daemon
 * lives and the command fails, before or after its effect, or is killed in the middle of the files.
 */
export const OUTCOMES = [
  "not done",
  "done",
  "done later",
  "half done",
  "torn",
  "torn alone",
  "failed",
  "answer lost",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Commands that write files beside an operation have a middle. */
export function outcomesOf(command: Command): readonly Outcome[] {
  const inPieces: readonly Command[] = ["snapshot", "updateStale", "edit"];
  const writes: readonly Command[] = ["updateStale", "edit"];
  return OUTCOMES.filter((how) => {
    if (how === "half done") return inPieces.includes(command);
    return !how.startsWith("torn") || writes.includes(command);
  });
}

/** Where something goes wrong: at the nth crash point, or in the nth command, counted from the last one on. */
export type Trouble = { at: "point"; nth: number } | { at: "command"; nth: number; how: Outcome };

/** What becomes of the agent while no daemon is there. */
export const ABSENCES = ["short", "long", "long, with edits"] as const;
export type Absence = (typeof ABSENCES)[number];

/** One life of a daemon. */
export interface Mortal {
  dead: boolean;
}

/** Thrown out of a synchronous call of a daemon that dies or is dead. */
export class Killed extends Error {}

/** The same object while its owner lives; afterwards nothing of it does anything, or ever answers. */
export function mortal<T extends object>(life: Mortal, target: T): T {
  return new Proxy(target, {
    get(_, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (life.dead && name === "sleep") return never();
        if (life.dead) throw new Killed();
        const result = (value as (...a: unknown[]) => unknown).apply(target, args);
        if (!(result instanceof Promise)) return result;
        return result.then(
          (answer: unknown) => (life.dead ? never() : answer),
          (error: unknown) => (life.dead ? never() : Promise.reject(error as Error)),
        );
      };
    },
  });
}
