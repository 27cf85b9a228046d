/** Times as a person types and reads them: an ISO time, how long ago, the person's own clock. */

const UNIT_MS = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 } as const;
const DURATION = /^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/;
const TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/** Completes "--since takes …". */
export const SINCE_FORMS =
  "a duration (90s, 30m, 2h, 3d, 1w, 1d12h) or a time (2026-12-01, 2026-12-01T09:30, …09:30Z)";

/**
 * Milliseconds since the epoch; null when `text` is neither a duration before `now` nor a time. A time without an offset
 * is local, a day alone begins at its local midnight.
 */
export function parseSince(text: string, now: number): number | null {
  const at = text === "" ? null : (ago(text, now) ?? timeOf(text));
  return at !== null && Number.isFinite(new Date(at).getTime()) ? at : null;
}

function ago(text: string, now: number): number | null {
  const match = DURATION.exec(text);
  if (match === null) return null;
  const units = Object.values(UNIT_MS);
  return units.reduce((at, ms, i) => at - Number(match[i + 1] ?? 0) * ms, now);
}

function timeOf(text: string): number | null {
  const match = TIME.exec(text);
  if (match === null) return null;
  const [, year, month, day, time = "00:00", zone = ""] = match;
  // The parser lets 30 February be the 2nd of March; nobody who types it means that.
  const days = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  if (Number(day) < 1 || Number(day) > days) return null;
  return Date.parse(`${year}-${month}-${day}T${time}${zone.toUpperCase()}`);
}

/** On the person's own clock. */
export function localTime(iso: string): { day: string; time: string } {
  const at = new Date(iso);
  const two = (n: number): string => String(n).padStart(2, "0");
  return {
    day: `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`,
    time: [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":"),
  };
}
