/** Identifiers that count up, so that a failing test fails the same way again. */
import type { Ids } from "../../src/ports/ids.ts";

export class FakeIds implements Ids {
  #next = 0;

  uuid(): string {
    this.#next += 1;
    return `00000000-0000-4000-8000-${this.#next.toString(16).padStart(12, "0")}`;
  }

  secret(bytes: number): string {
    if (!Number.isInteger(bytes) || bytes < 1) throw new Error(`not a length: ${bytes}`);
    this.#next += 1;
    const text = this.#next.toString(16);
    // A short secret that came round again would be no secret any more.
    if (text.length >= bytes * 2) throw new Error(`no secret of ${bytes} bytes is left`);
    return `5${text.padStart(bytes * 2 - 1, "0")}`;
  }
}
