import type { Chapter } from "./obligation.ts";

const STACK = "e2e/scenarios/stack.test.ts";
const BUSY = "e2e/scenarios/busy.test.ts";
const STORY = "e2e/story.test.ts";

/** "Worked scenarios (each is a test)": by observable state alone, through the whole binary. */
export const SCENARIOS: Chapter = {
  title: "Cascade: worked scenarios through the whole binary",
  obligations: [
    {
      what: "1 clean ancestor rewrite",
      by: {
        [STACK]: ["scenario 1: clean ancestor rewrite"],
        [STORY]: ["two parent moves → both delivered byte for byte"],
      },
    },
    {
      what: "2 rewrite after an unsnapshotted agent edit",
      by: { [STACK]: ["scenario 2: edits nobody had recorded"] },
    },
    {
      what: "3 parent adds a revision",
      by: { [STACK]: ["scenario 3: %s → exactly its own revisions stand on the parent's new one"] },
    },
    {
      what: "4 person already ran update-stale",
      by: { [STACK]: ["scenario 4: the person has run update-stale"] },
    },
    {
      what: "5 agent crash after delivery",
      by: { "e2e/restart.test.ts": ["scenario 5: agent killed after delivery →"] },
    },
    {
      what: "6 three parallel tools",
      by: { [STACK]: ["scenario 6: three calls at once, %s → none ran"] },
    },
    {
      what: "7 A→B→C by one op",
      by: {
        [STACK]: [
          "scenario 7: A→B→C by one operation",
          "scenario 7: C's boundary comes first",
          "scenario 7: kiki brings B onto the new revision",
        ],
      },
    },
    {
      what: "8 conflict exposed",
      by: { [STACK]: ["scenario 8: both changed the same line"] },
    },
    {
      what: "9 daemon outage with edits; one notice per thread afterwards",
      by: {
        "e2e/scenarios/outage.test.ts": ["scenario 9: daemon killed, parent moves"],
        "core/outage.test.ts": ["outage: told of before → only what is new"],
      },
    },
    {
      what: "10 op storm coalescing to one delivery",
      by: { [BUSY]: ["times between two calls → one intent with every move, told once"] },
    },
    {
      what: "11 agent that only knows git",
      by: {
        [STACK]: [
          "scenario 11: git commit on stale files",
          "scenario 11: git commit on fresh files",
          "scenario 11, the parent's: imported when its turn ends",
        ],
      },
    },
    {
      what: "12 busy parent, busy child for fifty turns",
      by: { [BUSY]: ["scenario 12: the parent moves before every one of"] },
    },
    {
      what: "a process the agent has left running writes on while its files are changed: no line lost",
      by: {
        "e2e/scenarios/writer.test.ts": ["a process of the agent writes on while its parent moves"],
      },
    },
  ],
};
