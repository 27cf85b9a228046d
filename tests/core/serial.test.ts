import { describe, expect, test } from "bun:test";
import {
  editedOutsideCalls,
  placeSerial,
  type SerialCall,
  type SerialPlace,
} from "../../src/core/serial.ts";

const call = (over: Partial<SerialCall> = {}): SerialCall => ({
  response: 7,
  highest: 6,
  sameResponse: false,
  turnWasLeft: false,
  ...over,
});

describe("placeSerial", () => {
  const cases: [string, SerialCall, SerialPlace][] = [
    ["first call there is → later", call({ highest: null, response: 0 }), "later"],
    ["a response after all so far → later", call(), "later"],
    [
      "a response of a call that was decided → sibling",
      call({ highest: 7, sameResponse: true }),
      "sibling",
    ],
    ["the number of another turn's broken-off response → later", call({ highest: 7 }), "later"],
    ["a response before another's → contradicted", call({ highest: 8 }), "contradicted"],
    ["its turn was left for another → contradicted", call({ turnWasLeft: true }), "contradicted"],
    ["not in the record → unknown", call({ response: null }), "unknown"],
    [
      "not in the record, its turn was left → contradicted",
      call({ response: null, turnWasLeft: true }),
      "contradicted",
    ],
  ];
  for (const [name, c, place] of cases)
    test(`placeSerial: ${name}`, () => expect(placeSerial(c)).toBe(place));
});

describe("editedOutsideCalls", () => {
  const times = {
    since: 1_000,
    calls: [
      { from: 2_000, until: 3_000 },
      { from: 5_000, until: 6_000 },
    ],
  };
  const cases: [string, number, boolean][] = [
    ["before the incarnation was ready → nobody's", 900, false],
    ["while a call was in flight → that call's", 2_500, false],
    ["a tick before its admission was written down → that call's", 1_990, false],
    ["between two calls → nobody's call", 4_000, true],
    ["after the last call → nobody's call", 7_000, true],
  ];
  for (const [name, at, outside] of cases)
    test(`editedOutsideCalls: ${name}`, () => expect(editedOutsideCalls(at, times)).toBe(outside));

  test("editedOutsideCalls: a call whose process may still run → what comes after it is its own", () => {
    const open = { since: 1_000, calls: [{ from: 2_000, until: null }] };
    expect(editedOutsideCalls(9_000, open)).toBe(false);
    expect(editedOutsideCalls(1_500, open)).toBe(true);
  });
});
