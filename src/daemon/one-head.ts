/** One exact view of a repository in which agents work: their jj commands overlap, and the next one merges what did. */
import { fail } from "../core/errors.ts";
import type { OpId } from "../core/ids.ts";
import type { Clock } from "../ports/clock.ts";

/** In a repository at work the next command comes within seconds; in a quiet one a person has to run it. */
const MERGE_WAIT_MS = 5_000;
const MERGE_POLL_MS = 100;

/** The only operation head. Throws `several-op-heads` when jj has not merged several within five seconds. */
export async function oneHead(
  refreshToFrontier: () => Promise<OpId[]>,
  clock: Pick<Clock, "monotonic" | "sleep">,
): Promise<OpId> {
  const deadline = clock.monotonic() + MERGE_WAIT_MS;
  for (;;) {
    const [head, ...others] = await refreshToFrontier();
    if (head !== undefined && others.length === 0) return head;
    if (clock.monotonic() >= deadline) break;
    await clock.sleep(MERGE_POLL_MS);
  }
  throw fail(
    "failed",
    "several-op-heads",
    "the repository has several operation heads, and jj has not merged them yet",
    "run jj log once, then try again",
  );
}
