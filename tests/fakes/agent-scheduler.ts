/**
 * Steps, and who takes them. Everything a fake agent does is a step that somebody else decides to take: a test by
 * name, `drive` in order, or a seed in any order, with faults. Between two steps the rest of the world may go on.
 */
import type { Random } from "../support/random.ts";

export interface Step {
  /** For example `toolu_2 PreToolUse: confirms`. */
  name: string;
  /** Something that goes wrong; taken only when asked for. */
  fault: boolean;
  take(): void;
}

export interface Actor {
  /** What could happen next, in the order in which it happens when nothing is delayed. */
  steps(): Step[];
  /** Answers this actor waits for, from outside. Each settles without throwing. */
  waiting(): Promise<void>[];
}

export interface DriveOptions {
  /** Any order; without it, the order of `steps()`. */
  random?: Random;
  /** Probability of a fault instead of a step. Needs `random`. */
  faults?: number;
  /** Steps that are not taken now. */
  hold?: RegExp;
  /** Stops as soon as it is true; throws when it never gets true. */
  until?: () => boolean;
  /** Returns instead of waiting for answers from outside. */
  patient?: boolean;
  /** Lets the rest of the world go on after a step; default one turn of the event loop. */
  settle?: () => Promise<void>;
  /** Most steps to take; more is a world that never rests. */
  limit?: number;
  /** Longest wait for one answer from outside, in milliseconds of the machine. */
  waitMs?: number;
}

const LIMIT = 5_000;
const WAIT_MS = 20_000;
/** Of steps in an error's text. */
const MAX_NAMES = 12;

/** Takes steps until nobody has any left and nobody waits, or `until`. Returns the names of the steps taken. */
export async function drive(
  actors: readonly Actor[],
  options: DriveOptions = {},
): Promise<string[]> {
  const taken: string[] = [];
  const settle = options.settle ?? (() => new Promise<void>((resolve) => setImmediate(resolve)));
  for (;;) {
    if (options.until?.() === true) return taken;
    if (taken.length >= (options.limit ?? LIMIT)) throw never(`rest`, taken, actors);
    const step = choose(actors, options);
    if (step !== null) {
      taken.push(step.name);
      step.take();
      await settle();
      continue;
    }
    const waiting = actors.flatMap((a) => a.waiting());
    if (waiting.length === 0 || options.patient === false) {
      if (options.until !== undefined && !options.until()) throw never("until", taken, actors);
      return taken;
    }
    await answer(waiting, options.waitMs ?? WAIT_MS, () => never("an answer", taken, actors));
  }
}

/** Takes the one step whose name matches; throws when there is none, or when the name could mean several. */
export function take(actor: Actor, name: RegExp): void {
  const fits = actor.steps().filter((s) => name.test(s.name));
  const [step] = fits;
  if (step === undefined || fits.length > 1) {
    throw new Error(`${fits.length} steps match ${name}: ${names(actor.steps())}`);
  }
  step.take();
}

function choose(actors: readonly Actor[], o: DriveOptions): Step | null {
  const steps = actors.flatMap((a) => a.steps()).filter((s) => o.hold?.test(s.name) !== true);
  const good = steps.filter((s) => !s.fault);
  if (o.random === undefined) return good[0] ?? null;
  const bad = steps.filter((s) => s.fault);
  if (bad.length > 0 && o.random.chance(o.faults ?? 0)) return o.random.pick(bad);
  return good.length === 0 ? null : o.random.pick(good);
}

async function answer(waiting: Promise<void>[], ms: number, late: () => Error): Promise<void> {
  let timer: Timer | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    await Promise.race([...waiting, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

function never(what: string, taken: readonly string[], actors: readonly Actor[]): Error {
  const open = names(actors.flatMap((a) => a.steps()));
  return new Error(`never: ${what}; open: ${open}; last: ${taken.slice(-20).join(", ")}`);
}

function names(steps: readonly Step[]): string {
  if (steps.length === 0) return "none";
  const shown = steps.slice(0, MAX_NAMES).map((s) => s.name);
  return (
    shown.join(", ") + (steps.length > MAX_NAMES ? ` and ${steps.length - MAX_NAMES} more` : "")
  );
}
