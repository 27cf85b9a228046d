/** Where keys stand: every way TOML has of writing one. */
import { expect, test } from "bun:test";
import { parse } from "smol-toml";
import { keyPositions, pathId } from "../../../src/core/config/positions.ts";

/** `key@line:column value@line:column` of a path. */
function at(toml: string, ...words: string[]): string {
  parse(toml); // a document smol-toml refuses is never read for positions
  const place = keyPositions(toml).get(pathId(words));
  if (place === undefined) return "not found";
  const { key, value } = place;
  return `key@${key.line}:${key.column} value@${value.line}:${value.column}`;
}

test("positions: plain, dotted, quoted and nested keys → line and column of key and value", () => {
  expect(at("a = 1", "a")).toBe("key@1:1 value@1:5");
  expect(at("\n\n  a=1", "a")).toBe("key@3:3 value@3:5");
  expect(at("[t]\nb = 2", "t", "b")).toBe("key@2:1 value@2:5");
  expect(at("[t]\nb = 2", "t")).toBe("key@1:1 value@1:1");
  expect(at("[t . u]\n\tb.c = 2", "t", "u", "b", "c")).toBe("key@2:2 value@2:8");
  expect(at("'x y'.\"a\\u0062\" = true", "x y", "ab")).toBe("key@1:1 value@1:19");
  expect(at("[[t]]\na = 1\n[[t]]\nb = 2", "t", "b")).toBe("key@4:1 value@4:5");
});

test("positions: inline tables and lists over several lines → keys inside them", () => {
  expect(at("t = { a = 1, b.c = [1, 2], d = 3 }", "t", "d")).toBe("key@1:28 value@1:32");
  expect(at("l = [ # ]\n  1,\n  [2, '}'],\n]\na = 1", "a")).toBe("key@5:1 value@5:5");
  expect(at("l = [{a = 1}, {a = 2}]\nb = 1", "b")).toBe("key@2:1 value@2:5");
});

test("positions: strings that look like TOML → taken as strings", () => {
  expect(at('s = """\n[t]\na = 1\n\\"""\n"""\na = 2', "a")).toBe("key@6:1 value@6:5");
  expect(at("s = '''\n#'''\na = 2", "a")).toBe("key@3:1 value@3:5");
  expect(at('s = """x"""""\na = 2', "a")).toBe("key@2:1 value@2:5");
  expect(at('s = "\\"\\\\" # a = 1\na = 2', "a")).toBe("key@2:1 value@2:5");
  expect(at("s = 'C:\\'\na = 2", "a")).toBe("key@2:1 value@2:5");
});

test("positions: CRLF and comments → lines count as an editor counts them", () => {
  expect(at("# one\r\n\r\n[t] # two\r\na = 1\r\n", "t", "a")).toBe("key@4:1 value@4:5");
});

test("positions: text that is not TOML → an answer, not a hang", () => {
  for (const text of [
    "[",
    "a",
    "a =",
    "= 1",
    "]]]",
    '"""',
    "a = {",
    "a = [",
    "{}\u0000",
    "a = [=]",
  ]) {
    expect(keyPositions(text)).toBeInstanceOf(Map);
  }
});
