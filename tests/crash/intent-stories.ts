/** What a story of the intents' world is, and what its parent and its agent do in one. */
import type { IntentCrashPoint } from "../../src/core/intent.ts";
import { bash } from "../fakes/agent-tools.ts";
import type { IntentWorld } from "./intent-world.ts";

export interface Story {
  name: string;
  colocated?: boolean;
  /** Ends in a state that a person has to see, death or no death. */
  loud?: boolean;
  /** Goes wrong once by itself: another trouble may end it where a person has to see it. */
  frail?: boolean;
  /** Updates of the files that one intent may need; default 1. */
  updates?: number;
  /** The child's harness runs one call at a time. */
  serial?: boolean;
  /** The harness runs a tool it was told to refuse: not the product's doing. */
  disobedient?: boolean;
  /** What it is about: a point it passes when nothing goes wrong. */
  passes?: IntentCrashPoint;
  tell(w: IntentWorld): Promise<void>;
}

export const look = bash("ls");

/** The agent calls something harmless, to the end of its batch. */
export async function call(w: IntentWorld, times = 1): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    w.respond([look]);
    await w.drive();
  }
}

/** The parent's revision gets other content: jj evolves the child with it. */
export async function amend(w: IntentWorld, text: string): Promise<void> {
  w.somebody("parent", (person) => person.amend({ "parser.txt": text }));
  await w.refresh();
}

/** The parent gets one more revision. */
export async function advance(w: IntentWorld, file: string): Promise<void> {
  w.somebody("parent", (person) => {
    person.new({ message: `adds ${file}` });
    person.amend({ [file]: `${file}\n` });
  });
  await w.refresh();
}

/** The agent writes a file of its own, which jj does not know yet. */
export async function edit(w: IntentWorld): Promise<void> {
  w.respond([w.oracle.edit(w.fresh())]);
  await w.drive();
}
