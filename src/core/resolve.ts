/** Which thread a person means: a name, a unique prefix of a name, or an id (commands chapter). */
import { err, ok, type Result } from "./result.ts";

export interface NamedThread {
  threadId: string;
  name: string;
}

export type ResolveProblem<T extends NamedThread> =
  | { problem: "unknown" }
  | { problem: "ambiguous"; candidates: T[] };

/**
 * An exact id wins over a name, an exact name over a prefix. Several threads of one name, or a prefix of several,
 * are ambiguous: nothing is ever picked by age or state.
 */
export function resolveThread<T extends NamedThread>(
  threads: readonly T[],
  target: string,
): Result<T, ResolveProblem<T>> {
  for (const matches of [
    threads.filter((t) => t.threadId === target),
    threads.filter((t) => t.name === target),
    target === "" ? [] : threads.filter((t) => t.name.startsWith(target)),
  ]) {
    if (matches.length === 1) return ok(matches[0]!);
    if (matches.length > 1) return err({ problem: "ambiguous", candidates: matches });
  }
  return err({ problem: "unknown" });
}

/** `"tests", "tests-2"`; where two candidates share a name, id and place are added. */
export function listCandidates(
  candidates: readonly (NamedThread & { place?: string | undefined })[],
): string {
  return candidates
    .map((c) => {
      const twin = candidates.some((other) => other !== c && other.name === c.name);
      const place = c.place === undefined ? "" : ` in ${c.place}`;
      return twin ? `${JSON.stringify(c.name)} (${c.threadId}${place})` : JSON.stringify(c.name);
    })
    .join(", ");
}
