/**
 * Calls of a harness that runs one at a time. The session record numbers the responses, the call's turn is checked
 * against that number, and what contradicts "one call for each response" counts against the harness.
 */

/** Siblings that an incarnation may show before its boundary counts as unproved. */
export const MAX_SERIAL_VIOLATIONS = 2;

/**
 * Where an arriving main call stands. `later`: in a response after those of all calls so far. `sibling`: in the response
 * of a call that was decided already. `unknown`: the record does not show it, which proves nothing. `contradicted`: the
 * number and the turn do not fit together, or what they say is in no order.
 */
export type SerialPlace = "later" | "sibling" | "unknown" | "contradicted";

export interface SerialCall {
  /** Response of the call in the session record; null: the record does not show the call. */
  response: number | null;
  /** Highest response of the same record in which a call was decided. */
  highest: number | null;
  /** A call of that response in this very turn was decided before. */
  sameResponse: boolean;
  /** Calls of another turn have come since this call's turn was there. */
  turnWasLeft: boolean;
}

export function placeSerial(c: SerialCall): SerialPlace {
  // Turns follow each other: one that was left does not come back.
  if (c.turnWasLeft) return "contradicted";
  if (c.response === null) return "unknown";
  if (c.sameResponse) return "sibling";
  // The same number in another turn: a response that was broken off is never counted.
  return c.highest !== null && c.response < c.highest ? "contradicted" : "later";
}

/** File times come from a coarser clock than the daemon's (Linux: one tick of the kernel). */
const CLOCK_SLACK_MS = 25;

/**
 * Whether a file was changed while no call was in flight. Times are of one machine's wall clock; `until` null: the call
 * may still be changing files. What changed before `since` is nobody's here.
 */
export function editedOutsideCalls(
  changedAt: number,
  times: { since: number; calls: readonly { from: number; until: number | null }[] },
): boolean {
  if (changedAt <= times.since + CLOCK_SLACK_MS) return false;
  return !times.calls.some(
    (c) =>
      changedAt >= c.from - CLOCK_SLACK_MS &&
      (c.until === null || changedAt <= c.until + CLOCK_SLACK_MS),
  );
}
