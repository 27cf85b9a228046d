/** Identifiers that count up, so that a failing test fails the same way again. */
import type { Ids } from "../../src/ports/ids.ts";

export class FakeIds implements Ids {
  #next = 0;

  uuid(): string {
    this.#next += 1;
    return `00000000-0000-4000-8000-${this.#next.toString(16).padStart(12, "0")}`;
  }

  secret(bytes: number): string {
    this.#next += 1;
    return this.#next.toString(16).padStart(bytes * 2, "5");
  }
}
