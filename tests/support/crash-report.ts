/**
 * What a file of the crash matrix has tried, for `npm run test:crash`: one line `enumerated<TAB>name` for each point
 * there is and one `survived<TAB>name` for each that held, appended to the file that `KIKI_TEST_CRASH_REPORT` names.
 * Without it nothing is written. A point whose test never ran, or whose process died, is enumerated and not survived.
 */
import { appendFileSync } from "node:fs";

export class CrashReport {
  readonly #file = process.env["KIKI_TEST_CRASH_REPORT"];
  readonly #area: string;
  readonly #open = new Set<string>();
  readonly #known = new Set<string>();

  /** `area` goes before every name: names are unique within it. */
  constructor(area: string) {
    this.#area = area;
  }

  /** While the file loads, before any test runs. Throws on a name that is there already: two points, one figure. */
  enumerate(names: readonly string[]): void {
    for (const name of names) {
      if (this.#known.has(name)) throw new Error(`crash point ${name} is enumerated twice`);
      this.#known.add(name);
      this.#open.add(name);
    }
    this.#append("enumerated", names);
  }

  /** Once what must hold after the point has been checked. Throws on a name that was not enumerated. */
  survived(...names: readonly string[]): void {
    for (const name of names) {
      if (!this.#open.delete(name)) throw new Error(`crash point ${name} was not enumerated`);
    }
    this.#append("survived", names);
  }

  #append(what: string, names: readonly string[]): void {
    if (this.#file === undefined || names.length === 0) return;
    appendFileSync(this.#file, names.map((n) => `${what}\t${this.#area}: ${n}\n`).join(""));
  }
}
