/** Time that approvals expire by: the wall clock as it was at the start, and on from there without ever jumping. */
import type { Clock } from "../ports/clock.ts";

/** Milliseconds since the epoch. After a restart it begins at the wall clock again. */
export function steadyClock(clock: Pick<Clock, "now" | "monotonic">): () => number {
  const ahead = clock.now() - clock.monotonic();
  return () => Math.round(clock.monotonic() + ahead);
}
