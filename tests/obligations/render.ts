/** The last section of docs/testing.md, from the tables of this folder: what has to be proven, and by which tests it is. */
import { AUTHORITY } from "./authority.ts";
import { CRASHES, REGRESSIONS } from "./cascade.ts";
import { RESTARTS } from "./cascade-restarts.ts";
import { SERIAL_BATCHES } from "./cascade-serial.ts";
import { HARNESSES } from "./harness.ts";
import { HOSTILE_HARNESS } from "./hostile-harness.ts";
import { HOSTILE_JJ } from "./hostile-jj.ts";
import { SCENARIOS } from "./scenarios.ts";
import type { Chapter } from "./obligation.ts";

export const CHAPTERS: readonly Chapter[] = [
  CRASHES,
  RESTARTS,
  SERIAL_BATCHES,
  HARNESSES,
  REGRESSIONS,
  SCENARIOS,
  AUTHORITY,
  HOSTILE_HARNESS,
  HOSTILE_JJ,
];

export const BEGIN =
  "<!-- Made by scripts/gen-proven-docs.ts from tests/obligations; a test fails when it is out of date. -->";
export const END = "<!-- End of what is made. -->";

/** The section between the two marks, both included. */
export function renderProven(): string {
  const chapters = CHAPTERS.map(({ title, obligations }) => {
    const rows = obligations.map(({ what, by }) => `| ${cell(what)} | ${cell(tests(by))} |`);
    return [`### ${title}`, "", "| to be proven | tests |", "| --- | --- |", ...rows, ""].join(
      "\n",
    );
  });
  return [BEGIN, "", ...chapters, END].join("\n");
}

/** `page` with its section made anew. Throws when it has none. */
export function withProven(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error("docs/testing.md has no section to be made");
  return page.slice(0, begin) + renderProven() + page.slice(end + END.length);
}

function tests(by: Chapter["obligations"][number]["by"]): string {
  return Object.entries(by)
    .map(([file, names]) => `\`${file}\`: ${names.map((name) => `“${name}”`).join(" · ")}`)
    .join("<br>");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
