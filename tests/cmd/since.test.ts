/** `--since`: durations and times a person types, and what is neither. */
import { describe, expect, test } from "bun:test";
import { localTime, parseSince } from "../../src/cmd/since.ts";

const NOW = Date.UTC(2026, 11, 1, 12, 0, 0);
const HOUR = 3_600_000;

describe("since", () => {
  test("durations, one unit or several in order → that long ago", () => {
    const table: [string, number][] = [
      ["90s", 90_000],
      ["30m", HOUR / 2],
      ["2h", 2 * HOUR],
      ["3d", 72 * HOUR],
      ["1w", 168 * HOUR],
      ["1d12h", 36 * HOUR],
      ["0s", 0],
    ];
    for (const [text, ago] of table)
      expect([text, parseSince(text, NOW)]).toEqual([text, NOW - ago]);
  });

  test("times with an offset → that moment", () => {
    const noon = Date.UTC(2026, 10, 30, 12);
    for (const text of [
      "2026-11-30T12:00Z",
      "2026-11-30T12:00:00z",
      "2026-11-30T12:00:00.000Z",
      "2026-11-30T14:00+02:00",
      "2026-11-30 12:00:00Z",
    ]) {
      expect([text, parseSince(text, NOW)]).toEqual([text, noon]);
    }
  });

  test("times without an offset → the person's own clock, a day from its midnight", () => {
    expect(parseSince("2026-11-30", NOW)).toBe(new Date(2026, 10, 30).getTime());
    expect(parseSince("2026-11-30T09:30", NOW)).toBe(new Date(2026, 10, 30, 9, 30).getTime());
  });

  test("anything else → null", () => {
    for (const text of [
      "",
      " ",
      "2",
      "h",
      "-2h",
      "2h ",
      "2x",
      "2.5h",
      "12h1d",
      "2h2h",
      "yesterday",
      "2026",
      "2026-13-01",
      "2026-00-10",
      "2026-02-29",
      "2026-11-31",
      "2026-11-00",
      "2026-11-30T25:00",
      "2026-11-30T12",
      "2026-11-30T12:00+99:00",
      "99999999999d",
      `${"9".repeat(400)}s`,
      "٣d",
    ]) {
      expect([text, parseSince(text, NOW)]).toEqual([text, null]);
    }
  });
});

test("a time to be read → day and time of the person's own clock, two digits each", () => {
  const at = new Date(2026, 2, 4, 5, 6, 7);
  expect(localTime(at.toISOString())).toEqual({ day: "2026-03-04", time: "05:06:07" });
});
