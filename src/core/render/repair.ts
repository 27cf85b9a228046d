/** `kk repair` as text: recorded, seen, and every plan with its id and exactly what it changes. Pure. */
import { threadWord } from "../shell-line.ts";
import type { RepairFact } from "../repair.ts";
import { paint } from "./glyphs.ts";
import { padEnd, printable } from "./width.ts";

export interface DiagnosisText {
  name: string;
  lifecycle: string;
  needsRepair: boolean;
  authority: readonly RepairFact[];
  observed: readonly RepairFact[];
  notes: readonly string[];
  plans: readonly { id: string; kind: string; title: string; changes: readonly string[] }[];
}

const LABEL_COLUMNS = 16;

/** Ends without a newline. */
export function renderDiagnoses(
  diagnoses: readonly DiagnosisText[],
  options: { colour: boolean },
): string {
  if (diagnoses.length === 0) return "nothing to repair";
  return diagnoses.map((d) => renderOne(d, options.colour)).join("\n\n");
}

function renderOne(d: DiagnosisText, colour: boolean): string {
  const lines = [`thread ${printable(d.name)}`];
  const facts = (title: string, list: readonly RepairFact[]): void => {
    if (list.length === 0) return;
    lines.push(title, ...list.map((fact) => factLine(fact, colour)));
  };
  facts("recorded", d.authority);
  facts("observed", d.observed);
  for (const note of d.notes) lines.push(`note  ${printable(note)}`);
  if (!d.needsRepair) lines.push("nothing to repair");
  for (const plan of d.plans) {
    lines.push("", `repair ${plan.id}  ${plan.kind}: ${plan.title}`);
    lines.push(...plan.changes.map((change) => `  - ${printable(change)}`));
    lines.push(`  ${applyLine(d.name, plan.id)}`);
  }
  return lines.join("\n");
}

/** What follows `--` is no flag, so there the name comes last. */
function applyLine(name: string, id: string): string {
  const thread = threadWord(name);
  return name.startsWith("-")
    ? `kk repair --apply ${id} ${thread}`
    : `kk repair ${thread} --apply ${id}`;
}

/** A sign as well as a colour: `!` for what is not as it should be. */
function factLine({ name, value, ok }: RepairFact, colour: boolean): string {
  const sign = ok === false ? "!" : ok === null ? " " : "✓";
  const text = `  ${sign} ${padEnd(name, LABEL_COLUMNS)}${printable(value)}`.trimEnd();
  return ok === false ? paint(text, "red", colour) : text;
}
