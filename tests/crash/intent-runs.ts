/** Tells a story with something going wrong in it, and judges how it ended. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { openRepoDb } from "../../src/store/open.ts";
import { tempDir } from "../support/temp.ts";
import { call, type Story } from "./intent-stories.ts";
import { outcomesOf, type Absence, type Command, type Trouble } from "./intent-troubles.ts";
import { IntentWorld } from "./intent-world.ts";

export interface Told {
  /** What must not be, in words; empty when all is well. */
  wrong: string[];
  /** Where the troubles came. */
  met: readonly string[];
  /** Crash points and commands passed. */
  points: readonly string[];
  commands: readonly Command[];
}

/** One thing that goes wrong in one story. */
export interface Case {
  story: Story;
  trouble: Trouble;
  absence: Absence;
  /** Of the point or the command and its outcome. */
  name: string;
  /** How often the story has been there before. */
  turn: number;
}

/** Batches an agent needs at most to be told everything, after whatever happened. */
const MAX_BATCHES = 6;

let folder = "";
let count = 0;

/** A migrated, empty database of its own. */
function emptyDb(): string {
  if (folder === "") {
    folder = tempDir("intents");
    const db = openRepoDb(join(folder, "empty.db"));
    db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    db.close();
  }
  count += 1;
  const file = join(folder, `state-${count}.db`);
  copyFileSync(join(folder, "empty.db"), file);
  return file;
}

/** `strict`: it has to end as if nothing had gone wrong; else a loud stop will do as well. */
export async function tell(
  story: Story,
  troubles: readonly Trouble[],
  absence: Absence,
  strict: boolean,
): Promise<Told> {
  const { colocated = false, disobedient = false, updates = 1, loud = false } = story;
  const { serial = false } = story;
  const dbFile = emptyDb();
  const w = new IntentWorld({ dbFile, colocated, disobedient, serial, troubles, absence });
  try {
    await w.begin();
    await story.tell(w);
    w.mergeHeads();
    await w.refresh();
    let end = w.oracle.atRest({ updates });
    for (let n = 0; n < MAX_BATCHES && !end.settled && !end.nobody; n += 1) {
      await call(w);
      end = w.oracle.atRest({ updates });
    }
    w.oracle.atEnd();
    if (strict && !loud && !end.settled && !end.nobody) w.oracle.violation(`ends ${end.states}`);
    if (end.settled && !disobedient) {
      const before = w.agent.ran.length;
      await call(w);
      if (w.agent.ran.length === before) w.oracle.violation("the agent stays blocked");
    }
  } catch (error) {
    w.oracle.violation(`threw ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    w.close();
  }
  const { points, commands, met } = w;
  const where = `${story.name}; absence ${absence}; ${met.join(", then ")}`;
  return { wrong: w.oracle.violations.map((v) => `${where}: ${v}`), met, points, commands };
}

/** Everything that may go wrong once in a story, at every place it passes when nothing does. */
export function casesOf(story: Story, plain: Told, absences: readonly Absence[]): Case[] {
  const turns = new Map<string, number>();
  const turnOf = (name: string): number => {
    const turn = turns.get(name) ?? 0;
    turns.set(name, turn + 1);
    return turn;
  };
  const troubles: Pick<Case, "trouble" | "name" | "turn">[] = [
    ...plain.points.map((name, at) => ({
      trouble: { at: "point", nth: at + 1 } as const,
      name,
      turn: turnOf(name),
    })),
    ...plain.commands.flatMap((command, at) =>
      outcomesOf(command).map((how) => {
        const name = `${command}: ${how}`;
        return { trouble: { at: "command", nth: at + 1, how } as const, name, turn: turnOf(name) };
      }),
    ),
  ];
  return absences.flatMap((absence) => troubles.map((t) => ({ story, absence, ...t })));
}

export function caseName(c: Pick<Case, "name" | "absence">): string {
  return `${c.name}, absence ${c.absence}`;
}

export async function runCase(c: Case): Promise<string[]> {
  const { story, trouble, absence } = c;
  const half = trouble.at === "command" && trouble.how === "half done";
  const strict = story.frail !== true && absence !== "long, with edits" && !half;
  const told = await tell(story, [trouble], absence, strict);
  const came = told.met.length === 1 && told.met[0] === c.name;
  return came ? told.wrong : [...told.wrong, `${story.name}: ${c.name} never came`];
}
