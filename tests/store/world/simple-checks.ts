/** CHECKs whose text says by itself which value they refuse. */
import type { Database } from "bun:sqlite";
import { checksOf, columnsOf, type Check } from "./schema.ts";

export interface SimpleCheck extends Check {
  /** A literal that the column's CHECK refuses. */
  bad: { column: string; value: string };
}

const FORMS: readonly [form: RegExp, value: (column: { type: string }) => string][] = [
  [/^(\w+) IN \((?:'[^']*',? ?|\d+,? ?)+\)$/, (c) => (c.type === "TEXT" ? "'nonsense'" : "7")],
  [/^json_valid\((\w+)\)$/, () => "'{'"],
  [/^length\((\w+)\) = \d+$/, () => "'short'"],
  [/^length\((\w+)\) BETWEEN 1 AND 60$/, () => `'${"x".repeat(61)}'`],
  [/^(\w+) > 0$/, () => "0"],
  [/^(\w+) > 1$/, () => "1"],
  [/^(\w+) >= 0$/, () => "-1"],
  [/^(\w+) <> ''$/, () => "''"],
  [/^(\w+) = '\w+'$/, () => "'nonsense'"],
];

export function simpleChecks(db: Database): SimpleCheck[] {
  return checksOf(db).flatMap((check) => {
    for (const [form, value] of FORMS) {
      const column = form.exec(check.text)?.[1];
      if (column === undefined) continue;
      const of = columnsOf(db, check.table).find((c) => c.name === column)!;
      return [{ ...check, bad: { column, value: value(of) } }];
    }
    return [];
  });
}
