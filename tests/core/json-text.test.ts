/** Setting one member of a JSON text: that member changes, every other byte stays. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { withMember } from "../../src/core/json-text.ts";
import { seeded } from "../support/seed.ts";

describe("withMember", () => {
  const path = ["projects", "/w s", "trusted"];
  const cases: [string, string, string][] = [
    ["empty object", "{}", '{"projects":{"/w s":{"trusted":true}}}'],
    [
      "formatted file without it → set off like its neighbour",
      '{\n  "a": 1e400,\n  "big": 12345678901234567890\n}\n',
      '{\n  "a": 1e400,\n  "big": 12345678901234567890,\n  "projects":{"/w s":{"trusted":true}}\n}\n',
    ],
    [
      "there, false → only its value",
      '{"projects": {"/w s": {"trusted" : false, "x": "}\\","}}}',
      '{"projects": {"/w s": {"trusted" : true, "x": "}\\","}}}',
    ],
    [
      "another project",
      '{"projects":{"/other":{"trusted":true}},"z":[{"projects":{}}]}',
      '{"projects":{"/other":{"trusted":true},"/w s":{"trusted":true}},"z":[{"projects":{}}]}',
    ],
  ];
  for (const [name, text, expected] of cases)
    test(`member: ${name}`, () => expect(withMember(text, path, true)).toBe(expected));

  test("member: no object, broken, or no object on the way → null", () => {
    for (const text of ["", "[]", "{", '{"projects":[]}', '{"projects":{"/w s":1}}', "\ufeff{}"])
      expect(withMember(text, path, true)).toBeNull();
  });

  test("member: any object, any path of it → that value and nothing else", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom(0, 1, 2),
        fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }),
        fc.jsonValue(),
        (object, indent, keys, value) => {
          const text = JSON.stringify(object, null, indent);
          const made = withMember(text, keys, value);
          if (made === null) return;
          const expected = JSON.parse(text) as Record<string, unknown>;
          let at = expected;
          for (const key of keys.slice(0, -1)) {
            if (!Object.hasOwn(at, key)) define(at, key, {});
            at = at[key] as Record<string, unknown>;
          }
          define(at, keys.at(-1)!, JSON.parse(JSON.stringify(value)));
          expect(JSON.parse(made)).toEqual(expected);
        },
      ),
      seeded(500),
    );
  });
});

/** Also `__proto__`, which JSON takes for a name like any other. */
function define(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}
