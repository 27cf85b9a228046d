/**
 * kiki's own jj commands that were running when their daemon was killed. What jj shows while one runs is not the outcome
 * yet: beside it nothing is judged, and nothing is changed.
 */
import { commandsCarrying } from "../core/attribution.ts";
import { fail } from "../core/errors.ts";
import { liveAttributions } from "../store/ops.ts";
import type { CascadeDeps } from "./deps.ts";

const POLL_MS = 20;

/**
 * Waits `limitMs` for their end, and ends those that provably are kiki's and do not come to it: what one leaves is looked at like whatever a command
 * leaves that was ended. Throws `jj-still-running` where it is not gone as long after that (SIGKILL acts at once, except on
 * a process in the middle of a system call that cannot be interrupted), and what looking for them throws.
 */
export async function survivorsEnded(
  deps: Pick<CascadeDeps, "db" | "processes" | "clock" | "log">,
  limitMs: number,
): Promise<void> {
  const { clock, db, log, processes } = deps;
  const began = clock.monotonic();
  const tokens = liveAttributions(db).map((attribution) => attribution.token);
  let ended = false;
  for (;;) {
    const left = tokens.flatMap((token) => commandsCarrying(token, processes));
    if (left.length === 0) return;
    const pids = left.map((one) => one.pid).join(", ");
    const waited = clock.monotonic() - began;
    if (waited >= 2 * limitMs)
      throw fail(
        "failed",
        "jj-still-running",
        `a jj command that kiki had started is still running (process ${pids})`,
        "end it: kiki changes nothing beside it, and goes on by itself afterwards",
      );
    if (waited >= limitMs) {
      if (!ended) log.warn(`ending jj of a daemon before: process ${pids}`);
      ended = true;
      // Where a system does not show arguments one by one, it may be a person's search for the token.
      for (const one of left) if (processes.argvOf(one) !== null) processes.signal(one, "SIGKILL");
    }
    await clock.sleep(POLL_MS);
  }
}
