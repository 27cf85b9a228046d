/** Session records of a simulated world: what was written, and what a reader finds of it meanwhile. */
import type { SessionRecord } from "../../src/ports/harness.ts";
import { FakeRecords, type RecordLine } from "../fakes/serial-harness.ts";

/**
 * `unreadable`: nothing at all. `torn`: the last line is half there. `late`: results of calls are not there yet. `gone`:
 * the file was put away, and begins anew with what comes from now on.
 */
export const RECORD_TROUBLES = ["unreadable", "torn", "late", "gone"] as const;
export type RecordTrouble = (typeof RECORD_TROUBLES)[number];

export class SimRecords extends FakeRecords {
  readonly #troubles = new Map<string, { kind: RecordTrouble; since: number }>();

  trouble(path: string): RecordTrouble | null {
    return this.#troubles.get(path)?.kind ?? null;
  }

  begin(path: string, kind: RecordTrouble): void {
    this.#troubles.set(path, { kind, since: this.lines(path).length });
  }

  /** Everything that was written is there. */
  end(path: string): void {
    this.#troubles.delete(path);
  }

  endAll(): void {
    this.#troubles.clear();
  }

  override read(path: string): SessionRecord | null {
    const lines = this.lines(path);
    const trouble = this.#troubles.get(path);
    if (lines.length === 0 || trouble?.kind === "unreadable") return null;
    return this.parse(trouble === undefined ? lines : shown(lines, trouble));
  }
}

function shown(
  lines: readonly RecordLine[],
  { kind, since }: { kind: RecordTrouble; since: number },
): readonly RecordLine[] {
  if (kind === "torn") return lines.slice(0, -1);
  if (kind === "gone") return lines.slice(since);
  return lines.filter((line, n) => n < since || line.is !== "output");
}
