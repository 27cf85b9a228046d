/** What a seed alone makes of a schedule: how long, how rough, and what it is after. */
import { randomOf, type Random } from "../support/random.ts";
import type { Rates } from "./rates.ts";

export interface Config extends Rates {
  steps: number;
  /** What it leans towards; for people. */
  theme: string;
  /** The database is a file, as in production; else it is in memory. Nothing else may differ. */
  disk: boolean;
  colocated: boolean;
  /** `[setup]` has something to copy and to run. */
  setup: boolean;
  /** Threads that are there, with their agents at work, before anything goes wrong. */
  prelude: number;
  /** How many steps pass before calls are parked and fail. */
  calm: number;
}

const SERIAL: Partial<Config> = {
  serial: 1,
  siblings: 0,
  records: 0,
  unhooked: 0,
  garbles: 0,
  runsDenied: 0,
};

/**
 * What hardly ever happens by itself, each in a world in which it does. The weights and probabilities not named here are
 * drawn as for any other schedule.
 */
const THEMES: Readonly<Record<string, Partial<Config>>> = {
  /** The model gets something else than what the hook said. */
  contrary: { garbles: 0.85, runsDenied: 0, rude: 1, faults: 0 },
  /** The same, and the conversation is another one by the time it got it. */
  "contrary then cleared": {
    garbles: 0.4,
    runsDenied: 0,
    clears: 8,
    brief: 0.6,
    rude: 0,
    faults: 0,
    kill: 0,
  },
  "denied calls run": {
    runsDenied: 0.5,
    garbles: 0,
    faults: 0,
    kill: 6,
    doom: "^crash intent.Materialized-Delivered.before",
  },
  /** Whoever is to be told again does not live long enough. */
  frail: {
    frail: 0.97,
    repairs: 5,
    kill: 1,
    prefer: [["batch closes without its event", 0.8]],
  },
  /** Prompts of replacements are not reported. */
  deaf: {
    frail: 0,
    prefer: [
      ["batch closes without its event", 0.4],
      ["UserPromptSubmit: (launcher|sidecar) dies", 0.7],
    ],
  },
  /** A person breaks off what replacements are started with, and types something else, or the same once more. */
  "taken back": {
    takesBack: 0.25,
    garbles: 0.6,
    runsDenied: 0,
    frail: 0,
    faults: 0,
    rude: 0,
    kill: 0,
    prefer: [["batch closes without its event", 0.5]],
  },
  /** Calls pass beside a daemon that lives, and what stood for them is lost. */
  unseen: { losses: 4, prefer: [["PreToolUse: sidecar dies", 0.25]] },
  "sub-agents": { subs: 0.5, garbles: 0 },
  /** The daemon dies when it is told that it was heard. */
  unmarked: {
    kill: 8,
    doom: "^crash intent.Materialized-Delivered.before",
    garbles: 0,
    runsDenied: 0,
    rude: 0,
    faults: 0,
  },
  /** One call at a time, and the record of them cannot be read when it is needed. */
  unread: { ...SERIAL, records: 0.12, kill: 1 },
  /** The model asks for several calls at once. */
  siblings: { ...SERIAL, siblings: 0.35 },
  /** Files change while no call is in flight. */
  unhooked: { ...SERIAL, unhooked: 0.15, siblings: 0.05 },
  /** The model gets something else than what the hook said, one call at a time. */
  "contrary, serial": { ...SERIAL, garbles: 0.7, rude: 1, faults: 0 },
};
/** Many a step is a whole round. */
const THEMED_STEPS = 15;
/** Some take long to come to what they are after, and come up up to four times as often. */
const NAMES = [
  ...Object.keys(THEMES),
  "frail",
  "frail",
  "frail",
  "denied calls run",
  "contrary then cleared",
  "unread",
  "taken back",
];

/** `steps` and `wanted`, a theme, null: drawn as well. */
export function configOf(
  seed: number,
  steps: number | null = null,
  wanted: string | null = null,
): Config {
  const r: Random = randomOf(seed ^ 0x5eed);
  const drawn = drawnFrom(r);
  const theme = wanted ?? (r.chance(0.5) ? "anything" : r.pick(NAMES));
  const after =
    theme === "anything"
      ? {}
      : { busy: 24, rounds: 50, calm: 0, prelude: 2, people: 5, ...THEMES[theme] };
  const config = { ...drawn, ...after, theme };
  return { ...config, steps: steps ?? (theme === "anything" ? drawn.steps : THEMED_STEPS) };
}

function drawnFrom(r: Random): Omit<Config, "theme"> {
  return {
    steps: r.pick([30, 40, 50, 80]),
    colocated: r.chance(0.6),
    setup: r.chance(0.1),
    prelude: r.pick([0, 1, 2, 2, 2, 2, 3]),
    calm: r.below(10),
    threads: 1 + r.below(4),
    park: r.pick([0, 0, 0.02, 0.08, 0.2, 0.4]),
    fail: r.pick([0, 0, 0, 0.01, 0.03, 0.08]),
    kill: r.pick([0, 0, 1, 2, 4]),
    people: r.pick([2, 5, 9, 14, 20]),
    heads: r.pick([0, 0, 0.5, 2, 5]),
    faults: r.pick([0, 0, 0.03, 0.1, 0.2]),
    rude: r.pick([0, 0, 0.3, 1, 2]),
    slow: r.chance(0.3),
    disk: r.chance(0.02),
    repairs: r.pick([0, 1, 1, 2, 4]),
    children: r.pick([0, 0, 0, 0.05, 0.2]),
    garbles: r.pick([0, 0, 0, 0, 0.3]),
    runsDenied: r.pick([0, 0, 0, 0, 0, 0.1]),
    frail: r.pick([0, 0, 0, 0.3]),
    losses: r.pick([0, 0, 0, 0.5, 1]),
    rounds: r.pick([0, 5, 20]),
    brief: 0.25,
    busy: r.pick([12, 24]),
    subs: r.pick([0, 0, 0.1]),
    clears: 0,
    doom: null,
    prefer: [],
    serial: r.pick([0, 0, 0.3, 1]),
    siblings: r.pick([0, 0, 0.05, 0.2]),
    records: r.pick([0, 0, 0.01, 0.05]),
    unhooked: r.pick([0, 0, 0.03]),
    takesBack: r.pick([0, 0, 0, 0.03]),
  };
}

/** What a world could not do yet when a seed was kept, it does not do for it. */
export const EARLIER: Config = {
  ...drawnFrom(randomOf(0)),
  theme: "anything",
  disk: false,
  repairs: 0,
  children: 0,
  garbles: 0,
  runsDenied: 0,
  frail: 0,
  losses: 0,
  rounds: 0,
  brief: 0.25,
  busy: 12,
  subs: 0,
  serial: 0,
  siblings: 0,
  records: 0,
  unhooked: 0,
  takesBack: 0,
};
