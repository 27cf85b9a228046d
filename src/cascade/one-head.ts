/**
 * One exact view while agents' jj commands overlap. Two heads are normal for moments: a command that began before
 * another one ended leaves a second head, and the next jj command merges them. Where none comes, because the agent that
 * ran them is thinking, kiki merges them the way any jj command does, in an operation that carries a token of its own
 * and is read as anybody's: that two moves do not fit together is found by the watcher, as loudly as ever.
 */
import { errorLine, fail, KikiError } from "../core/errors.ts";
import type { OpId } from "../core/ids.ts";
import type { JjRepo } from "../ports/jj.ts";
import { write } from "../store/db.ts";
import { attribute, closeAttribution } from "../store/ops.ts";
import type { CascadeDeps } from "./deps.ts";
import { jjEffect } from "./moves.ts";

/** Heads that have not changed for so long are not in the middle of anything. */
export const HEADS_GRACE_MS = 1_000;
/** In a repository that never stands still they are merged all the same after so long. */
const HEADS_RESTLESS_MS = 3_000;
const HEADS_PATIENCE_MS = 5_000;
/** For one who cannot do without one head: on a busy machine the merge itself waits for its turn. */
const ONE_HEAD_PATIENCE_MS = 20_000;
const HEADS_POLL_MS = 50;

type Deps = Pick<CascadeDeps, "db" | "clock" | "ids" | "log" | "crash">;
type Merge = (token: string) => Promise<void>;

/**
 * The current heads, which are one unless jj could not be made to merge them within five seconds: then several, and
 * nothing is wrong but the moment. `jj`: the repository that `exclusive` gives, or one whose mutations wait for their turn.
 */
export function meetHeadsOf(deps: Deps, jj: JjRepo): Promise<OpId[]> {
  return meet(deps, jj, (token) => jj.mergeHeads(token));
}

/** The same outside of `exclusive`. Somebody may be held for it, so the command gets no longer than one beside a stopped agent. */
export function meetHeads(deps: Deps & Pick<CascadeDeps, "jj" | "exclusive">): Promise<OpId[]> {
  return meet(deps, deps.jj, (token) =>
    deps.exclusive((jj) => jj.mergeHeads(token), { stopped: true }),
  );
}

/**
 * The only head, and it has been interpreted. Throws `several-op-heads` where `meetHeads` does not get one.
 * `refresh`: RefreshToFrontier.
 */
export async function refreshToOneHead(
  deps: Deps & Pick<CascadeDeps, "jj" | "exclusive">,
  refresh: () => Promise<OpId[]>,
): Promise<OpId> {
  const deadline = deps.clock.monotonic() + ONE_HEAD_PATIENCE_MS;
  for (;;) {
    const [head, ...others] = await refresh();
    if (head !== undefined && others.length === 0) return head;
    if (deps.clock.monotonic() >= deadline) break;
    await meetHeads(deps);
  }
  throw fail(
    "failed",
    "several-op-heads",
    "the repository has several operation heads, and jj could not merge them",
    "run jj log once, then try again",
  );
}

async function meet(deps: Deps, jj: Pick<JjRepo, "heads">, merge: Merge): Promise<OpId[]> {
  const { clock } = deps;
  const began = clock.monotonic();
  let heads = await jj.heads();
  let [restless, unchanged] = [began, began];
  while (heads.length > 1 && clock.monotonic() - began < HEADS_PATIENCE_MS) {
    const now = clock.monotonic();
    const due = now - unchanged >= HEADS_GRACE_MS || now - restless >= HEADS_RESTLESS_MS;
    if (due && !(await mergedOnce(deps, merge))) return heads;
    if (due) restless = unchanged = clock.monotonic();
    else await clock.sleep(HEADS_POLL_MS);
    const before = heads.join();
    heads = await jj.heads();
    if (heads.join() !== before) unchanged = clock.monotonic();
  }
  return heads;
}

/** False: the command failed. jj merges under a lock of its own, and finds nothing to merge where another has. */
async function mergedOnce(deps: Deps, merge: Merge): Promise<boolean> {
  const token = deps.ids.uuid();
  // Closed at once: nobody owes what the operation means, so the watcher reads it like everybody else's.
  write(deps.db, () => {
    attribute(deps.db, {
      token,
      handler: "snapshot",
      ownerId: "merged-heads",
      now: deps.clock.now(),
    });
    closeAttribution(deps.db, token);
  });
  try {
    await jjEffect(deps, "merge-heads", () => merge(token));
    return true;
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    deps.log.warn(`operation heads could not be merged: ${errorLine(error)}`);
    return false;
  }
}
