/** The one line that says what an outage came to. */
import { expect, test } from "bun:test";
import { outageOf } from "../../src/core/outage.ts";

const AT = ["2026-12-01T10:00:00.000Z", "2026-12-01T10:00:01.000Z", "2026-12-01T10:00:02.000Z"];
const passed = (n: number) => `${AT[n]} PreToolUse toolu_${n} passed without asking: unreachable\n`;

test("outage: calls and another event → counted, from the first to the last", () => {
  const log = `${passed(0)}${AT[1]} PostToolUse toolu_1 event lost: ENOSPC\n${passed(2)}`;
  expect(outageOf(log, 0)).toEqual({
    lines: 3,
    summary: `its hooks could not reach the daemon between ${AT[0]} and ${AT[2]}: 2 calls ran without being asked about, 1 event was lost or refused`,
  });
});

test("outage: told of before → only what is new; nothing new, no log or half a line → nothing", () => {
  expect(outageOf(passed(0) + passed(1), 1)?.summary).toBe(
    `its hooks could not reach the daemon at ${AT[1]}: 1 call ran without being asked about`,
  );
  expect([outageOf(passed(0), 1), outageOf("", 0), outageOf(passed(0).trimEnd(), 0)]).toEqual([
    null,
    null,
    null,
  ]);
});

test("outage: log cut short since → told of from its beginning", () => {
  expect(outageOf(passed(2), 5)).toMatchObject({ lines: 1 });
});
