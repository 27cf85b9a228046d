/**
 * How a plan is laid out for the person who confirms it: labelled rows of plain text, no box, no colour, at most 80
 * columns, so that it reads the same on a terminal, aloud, and in a log. On a narrow terminal a label stands on a line of
 * its own. A plan's digest is over its text at full width; what is shown is the same words on other lines.
 */
import { displayWidth, padEnd, printable } from "./width.ts";

export const FULL_COLUMNS = 80;
const MIN_COLUMNS = 24;
/** From here on label and text share a line. */
const SIDE_BY_SIDE_COLUMNS = 60;
/** Width of the column that names each line. */
const LABEL_COLUMNS = 11;

/** Width to lay a plan out for; undefined: nobody said. */
export function planColumns(columns: number | undefined): number {
  return Math.min(FULL_COLUMNS, Math.max(MIN_COLUMNS, columns ?? FULL_COLUMNS));
}

export class PlanLayout {
  readonly #columns: number;
  readonly #lines: string[] = [];

  constructor(columns: number) {
    this.#columns = columns;
  }

  /** Lines of running text. */
  text(text: string): void {
    this.#lines.push(...wrap(printable(text), this.#columns));
  }

  gap(): void {
    this.#lines.push("");
  }

  /** A title above rows. */
  section(title: string): void {
    this.#lines.push("", title);
  }

  /** `label` "" continues the row above. */
  row(label: string, text: string): void {
    this.rows(label, [text]);
  }

  /** Several lines under one label, each wrapped by itself. */
  rows(label: string, texts: readonly string[]): void {
    const beside = this.#columns >= SIDE_BY_SIDE_COLUMNS;
    const indent = beside ? LABEL_COLUMNS + 2 : 4;
    const lines = texts.flatMap((text) => wrap(printable(text), this.#columns - indent));
    if (!beside && label !== "") this.#lines.push(`  ${label}`);
    lines.forEach((line, i) => {
      const lead = beside ? `  ${padEnd(i === 0 ? label : "", LABEL_COLUMNS)}` : " ".repeat(indent);
      this.#lines.push(`${lead}${line}`.trimEnd());
    });
  }

  /** One of several changes. */
  item(text: string): void {
    wrap(printable(text), this.#columns - 4).forEach((line, i) =>
      this.#lines.push(`  ${i === 0 ? "- " : "  "}${line}`),
    );
  }

  /** Columns a row's text may take. */
  get rowColumns(): number {
    return this.#columns >= SIDE_BY_SIDE_COLUMNS
      ? this.#columns - LABEL_COLUMNS - 2
      : this.#columns - 4;
  }

  /** Ends in one newline. */
  toString(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}

/** Breaks at spaces; a word longer than the line (a path) stays whole, so that it can be copied. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const part of text.split(" ")) {
    const longer = line === "" ? part : `${line} ${part}`;
    if (line !== "" && displayWidth(longer) > columns) {
      lines.push(line);
      line = part;
    } else {
      line = longer;
    }
  }
  lines.push(line);
  return lines;
}
