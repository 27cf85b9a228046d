/** ConfigLoader, pure part: what a layer says, what counts of all of them, and what is said about what is wrong. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readEnvironment } from "../../../src/core/config/environment.ts";
import {
  emptyLayer,
  readDocument,
  readValues,
  type Entries,
  type LayerRead,
} from "../../../src/core/config/layer.ts";
import { spelledKeys } from "../../../src/core/config/lookup.ts";
import { effective, keepLastGood, overlay } from "../../../src/core/config/merge.ts";
import { placeOf, problemLine } from "../../../src/core/config/problem.ts";
import type { Layer } from "../../../src/core/config/spec.ts";
import { testSeed } from "../../support/random.ts";

type FileLayer = "repo-shared" | "user" | "repo-local";

function file(layer: FileLayer, text: string | Uint8Array): LayerRead {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return readDocument(layer, `/${layer}.toml`, bytes);
}

function lines(...layers: LayerRead[]): string[] {
  return effective(layers).problems.map((problem) => `${problem.severity} ${problemLine(problem)}`);
}

/** `value from place` of a key. */
function told(layers: readonly LayerRead[], key: string): string {
  const setting = effective(layers).setting(key);
  if (setting === null) return "no such key";
  const { value, source, kept } = setting;
  const place = placeOf(source) === "" ? "" : ` ${placeOf(source)}`;
  return `${JSON.stringify(value)} ${source.layer}${place}${kept ? " kept" : ""}`;
}

describe("layers", () => {
  /** Each layer sets another value, so that which one won is seen. */
  const ALL: Record<Exclude<Layer, "default">, LayerRead> = {
    "repo-shared": file("repo-shared", "[close]\ndisposable = ['a']"),
    user: file("user", "\n[close]\ndisposable = ['b']"),
    "repo-local": file("repo-local", "close.disposable = ['c']"),
    thread: readValues("thread", { "close.disposable": ["d"] }),
    env: readEnvironment({ KIKI_CLOSE__DISPOSABLE: "['e']" }),
    flag: readValues("flag", { "close.disposable": ["f"] }),
  };
  const WON: Record<Layer, string> = {
    default: "[] default",
    "repo-shared": '["a"] repo-shared /repo-shared.toml:2',
    user: '["b"] user /user.toml:3',
    "repo-local": '["c"] repo-local /repo-local.toml:1',
    thread: '["d"] thread',
    env: '["e"] env KIKI_CLOSE__DISPOSABLE',
    flag: '["f"] flag',
  };
  const order = Object.keys(ALL) as (keyof typeof ALL)[];

  test("every set of layers, in any order → the highest one's value, with its place", () => {
    for (let set = 0; set < 1 << order.length; set += 1) {
      const present = order.filter((_, n) => (set & (1 << n)) !== 0);
      const winner = present.at(-1) ?? "default";
      const reads = present.map((layer) => ALL[layer]);
      expect(told(reads, "close.disposable")).toBe(WON[winner]);
      expect(told(reads.toReversed(), "close.disposable")).toBe(WON[winner]);
    }
  });

  test("maps → merged by name, each name with its own place; lists → replaced", () => {
    const layers = [
      file("repo-shared", "[agent.env]\nA = 'shared'\nB = 'shared'"),
      file("user", "[agent]\nenv = { B = 'user', C = 'user' }\nharness_args.codex = ['-a', '-b']"),
      file("repo-local", "agent.harness_args.codex = ['-c']"),
      readEnvironment({ KIKI_AGENT__ENV__C: "env", KIKI_AGENT__ENV__http_proxy: "p" }),
    ];
    const now = effective(layers);
    expect(now.map("agent.env.<NAME>")).toEqual({
      A: "shared",
      B: "user",
      C: "env",
      http_proxy: "p",
    });
    expect(now.map("agent.harness_args.<name>")).toEqual({ codex: ["-c"] });
    expect(told(layers, "agent.env.B")).toBe('"user" user /user.toml:2');
    expect(told(layers, "agent.env.D")).toBe("null default");
  });

  test("[ui] and [paths] from the repository → ignored with a warning, even where they are wrong", () => {
    const shared = file("repo-shared", "[ui]\ntheme = 'soft-light'\n[paths]\nworkspaces_root = 7");
    expect(lines(shared)).toEqual([
      "warning /repo-shared.toml:2:1: ui.theme is ignored here: only your own configuration may set it",
      "warning /repo-shared.toml:4:1: paths.workspaces_root is ignored here: only your own configuration may set it",
    ]);
    expect(told([shared], "ui.theme")).toBe('"soft-dark" default');
    expect(lines(file("user", "paths.user_state_dir = '/x'"))).toEqual([
      "warning /user.toml:1:1: paths.user_state_dir is ignored here: it is read from KIKI_PATHS__USER_STATE_DIR alone",
    ]);
    expect(lines(readValues("thread", { "cascade.hold_s": 3 }))).toEqual([
      "warning thread: cascade.hold_s is ignored here: it is a rule for the whole repository",
    ]);
  });

  test("nothing set → defaults, no problems, and a key without default is null", () => {
    const now = effective([]);
    expect(now.value("cascade.hold_s")).toBe(30);
    expect(now.value("cascade.drain_s")).toBe(5);
    expect(now.optional("ai.model")).toBeNull();
    expect(now.setting("ui.them")).toBeNull();
    expect(() => now.value("ai.model")).toThrow("no default");
  });
});

describe("what is wrong", () => {
  const ERRORS: [string, string, string][] = [
    [
      "type",
      "[cascade]\nhold_s = 'x'",
      '2:10: cascade.hold_s must be a whole number of seconds from 1 to 300, not "x"',
    ],
    [
      "range",
      "cascade.hold_s = 301",
      "1:18: cascade.hold_s must be a whole number of seconds from 1 to 300, not 301",
    ],
    [
      "fraction",
      "cascade.hold_s = 1.5",
      "1:18: cascade.hold_s must be a whole number of seconds from 1 to 300, not 1.5",
    ],
    [
      "not a number",
      "cascade.hold_s = nan",
      "1:18: cascade.hold_s must be a whole number of seconds from 1 to 300, not NaN",
    ],
    [
      "choice",
      "ui = { theme = 'pink' }",
      '1:16: ui.theme must be "soft-dark", "soft-light" or "high-contrast", not "pink"',
    ],
    ["truth", "agent.briefing = 'yes'", '1:18: agent.briefing must be true or false, not "yes"'],
    ["list", "[setup]\n\ncopy = '.env'", '3:8: setup.copy must be a list of texts, not ".env"'],
    [
      "list of others",
      "setup.copy = ['a', 1]",
      '1:14: setup.copy must be a list of texts, not ["a", 1]',
    ],
    ["date", "setup.run = 1979-05-27", "1:13: setup.run must be a text, not 1979-05-27"],
    [
      "path",
      "paths.workspaces_root = 'work'",
      '1:25: paths.workspaces_root must be an absolute path, or one that begins with ~/, not "work"',
    ],
    ["value for a table", "cascade = 5", "1:11: cascade must be a table, not 5"],
    [
      "list of tables",
      "[[cascade]]\nhold_s = 1",
      "1:1: cascade must be a table, not [{ hold_s = 1 }]",
    ],
    [
      "table for a value",
      "[cascade.hold_s]\nx = 1",
      "1:1: cascade.hold_s must be a whole number of seconds from 1 to 300, not { x = 1 }",
    ],
    [
      "reserved name",
      "[agent.env]\nKIKI_X = 'y'",
      "2:10: agent.env.KIKI_X is kiki's own or the terminal's, and stays so",
    ],
    [
      "duplicate key",
      "[ui]\ntheme = 'soft-dark'\ntheme = 'soft-light'",
      "3:1: this is not TOML: trying to redefine an already defined table or value",
    ],
    ["malformed", "[ui\ntheme = 1", "1:4: this is not TOML: illegal character in key"],
    ["no value", "a = 1\nb = ", "2:5: this is not TOML: invalid value"],
  ];
  for (const [what, text, expected] of ERRORS) {
    test(`${what} → an error that names file, line, column and what is expected`, () => {
      expect(lines(file("user", text))).toEqual([`error /user.toml:${expected}`]);
    });
  }

  const WARNINGS: [string, string, string][] = [
    ["slip", "[ui]\nthem = 1", "2:1: unknown key ui.them — did you mean ui.theme?"],
    [
      "slip in the table",
      "[cascad]\ndrain_s = 1",
      "2:1: unknown key cascad.drain_s — did you mean cascade.drain_s?",
    ],
    ["wrong table", "[ui]\npoll_s = 1", "2:1: unknown key ui.poll_s — did you mean github.poll_s?"],
    ["no table", "hold_s = 1", "1:1: unknown key hold_s — did you mean cascade.hold_s?"],
    [
      "slip in a name",
      "agent.harness_args.claude-cod = []",
      "1:1: unknown key agent.harness_args.claude-cod — did you mean agent.harness_args.claude-code?",
    ],
    ["nothing near", "[x]\ny.z = 1", "2:1: unknown key x.y.z"],
    ["empty table", "[nonsense]", "1:1: unknown key nonsense"],
    ["control characters", '"\\u001b[31m" = 1', '1:1: unknown key "\\u001b[31m"'],
  ];
  for (const [what, text, expected] of WARNINGS) {
    test(`unknown key, ${what} → a warning with the nearest key; the rest counts`, () => {
      const read = file("user", `${text}\n[close]\ndisposable = ['x']`);
      expect(lines(read)).toEqual([`warning /user.toml:${expected}`]);
      expect(effective([read]).value("close.disposable")).toEqual(["x"]);
    });
  }

  test("a wrong value beside good ones → the good ones count", () => {
    const read = file("user", "[cascade]\nhold_s = 0\ndrain_s = 9");
    expect(told([read], "cascade.drain_s")).toBe("9 user /user.toml:3");
    expect(told([read], "cascade.hold_s")).toBe("30 default");
  });

  test("variables: unknown, wrong, empty, not configuration → as for files; empty → not set", () => {
    expect(
      lines(
        readEnvironment({
          KIKI_UI__THEM: "x",
          KIKI_CASCADE__HOLD_S: "many",
          KIKI_CASCADE__DRAIN_S: "",
          KIKI_SETUP__COPY: "['a']\nx = 1",
          KIKI_UI__THEME: '"soft-dark"',
          KIKI_AGENT__ENV__KIKI_X: "1",
          KIKI_THREAD_ID: "no configuration",
          OTHER__X: "1",
        }),
      ),
    ).toEqual([
      "error agent.env.KIKI_X is kiki's own or the terminal's, and stays so",
      'error KIKI_CASCADE__HOLD_S must be a whole number of seconds from 1 to 300, not "many"',
      `error KIKI_SETUP__COPY must be a list of texts, not "['a']\\nx = 1"`,
      "warning no key is set by KIKI_UI__THEM — did you mean KIKI_UI__THEME?",
      'error KIKI_UI__THEME must be "soft-dark", "soft-light" or "high-contrast", not "\\"soft-dark\\""',
    ]);
    expect(
      told(
        [readEnvironment({ KIKI_AGENT__CLAUDE_CODE__PRETRUST: "true" })],
        "agent.claude-code.pretrust",
      ),
    ).toBe("true env KIKI_AGENT__CLAUDE_CODE__PRETRUST");
  });
});

describe("hostile files", () => {
  const bytes = (...parts: (string | number[])[]): Uint8Array =>
    Buffer.concat(
      parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from(part))),
    );

  test("byte order mark, CRLF → read as if they were not there", () => {
    const read = file("user", bytes([0xef, 0xbb, 0xbf], "[cascade]\r\nhold_s = 7\r\n"));
    expect(told([read], "cascade.hold_s")).toBe("7 user /user.toml:2");
    expect(lines(file("user", bytes([0xef, 0xbb, 0xbf], "cascade.hold_s = 0")))[0]).toContain(
      "toml:1:18:",
    );
  });

  test("NUL, invalid UTF-8, UTF-16 → an error with its line, nothing set", () => {
    expect(lines(file("user", "a = 1\nb = '\u0000'"))[0]).toContain("toml:2:6: this is not TOML");
    expect(lines(file("user", bytes("[ui]\n# caf", [0xe9], "\ntheme = 'x'")))).toEqual([
      "error /user.toml:2:6: this is not UTF-8 text",
    ]);
    expect(lines(file("user", Buffer.from("[ui]\n", "utf16le")))).toHaveLength(1);
  });

  test("ten thousand unknown keys → fifty warnings and how many more, quickly", () => {
    const read = file("user", Array.from({ length: 10_000 }, (_, n) => `k${n} = 1`).join("\n"));
    expect(read.problems).toHaveLength(51);
    expect(read.problems.at(-1)?.message).toBe("and 9950 more problems");
  });

  test("deep nesting, prototype names, long keys → warnings, no harm", () => {
    const deep = `${Array.from({ length: 500 }, () => "a").join(".")} = 1`;
    const read = file(
      "user",
      `${deep}\n[__proto__]\ntheme = 1\n[ui.constructor]\nx = 1\n"${"k".repeat(5000)}" = 1`,
    );
    expect(read.problems.map(({ severity }) => severity)).toEqual(Array(4).fill("warning"));
    for (const { message } of read.problems) expect(message.length).toBeLessThan(200);
    expect(Object.keys({})).toEqual([]);
  });
});

describe("last good values", () => {
  const good = file("user", "[cascade]\nhold_s = 60\ndrain_s = 7");

  test("malformed file → everything stays as it was, marked", () => {
    const now = keepLastGood(good, file("user", "[cascade"));
    expect(told([now], "cascade.hold_s")).toBe("60 user /user.toml:2 kept");
    expect(told([now], "cascade.drain_s")).toBe("7 user /user.toml:3 kept");
    // And again: what was kept is kept on.
    expect(told([keepLastGood(now, file("user", "]"))], "cascade.hold_s")).toBe(
      "60 user /user.toml:2 kept",
    );
  });

  test("one wrong value → it stays, the others follow the file", () => {
    const now = keepLastGood(good, file("user", "[cascade]\nhold_s = 'x'"));
    expect(told([now], "cascade.hold_s")).toBe("60 user /user.toml:2 kept");
    expect(told([now], "cascade.drain_s")).toBe("5 default");
  });

  test("a table that became a value → all of its keys stay", () => {
    expect(told([keepLastGood(good, file("user", "cascade = 1"))], "cascade.drain_s")).toContain(
      "kept",
    );
  });

  test("mended, emptied or removed → nothing old is left", () => {
    const kept = keepLastGood(good, file("user", "["));
    expect(told([keepLastGood(kept, file("user", "cascade.hold_s = 8"))], "cascade.hold_s")).toBe(
      "8 user /user.toml:1",
    );
    expect(told([keepLastGood(kept, emptyLayer("user"))], "cascade.hold_s")).toBe("30 default");
  });
});

describe("merging, for any layers", () => {
  const seed = testSeed();
  const options = { seed, numRuns: 200 };
  const entry = fc.record({
    value: fc.oneof(fc.integer(), fc.string(), fc.array(fc.string(), { maxLength: 2 })),
    source: fc.record({
      layer: fc.constant("user" as const),
      file: fc.string(),
      line: fc.nat(),
      column: fc.nat(),
      variable: fc.constant(null),
    }),
    kept: fc.boolean(),
  });
  const key = fc.constantFrom(...spelledKeys(), "agent.env.A", "agent.env.B");
  const entries: fc.Arbitrary<Entries> = fc
    .array(fc.tuple(key, entry), { maxLength: 12 })
    .map((pairs) => new Map(pairs));
  const same = (a: Entries, b: Entries): void => {
    const sorted = (x: Entries) => [...x].sort(([p], [q]) => (p < q ? -1 : 1));
    expect(sorted(a)).toEqual(sorted(b));
  };

  test(`overlay → associative, idempotent, empty is neutral, upper wins (seed ${seed})`, () => {
    fc.assert(
      fc.property(entries, entries, entries, (a, b, c) => {
        same(overlay(overlay(a, b), c), overlay(a, overlay(b, c)));
        same(overlay(a, a), a);
        same(overlay(overlay(a, b), b), overlay(a, b));
        same(overlay(a, new Map()), a);
        same(overlay(new Map(), a), a);
        for (const [name, value] of b) expect(overlay(a, b).get(name)).toBe(value);
      }),
      options,
    );
  });

  test(`a document and its rendering, value by value → the same settings (seed ${seed})`, () => {
    const values = fc.record(
      {
        "cascade.hold_s": fc.integer({ min: 1, max: 300 }),
        "setup.run": fc.string({ unit: "grapheme-ascii", maxLength: 30 }),
        "setup.copy": fc.array(fc.string({ unit: "grapheme-ascii", maxLength: 8 }), {
          maxLength: 3,
        }),
        "agent.briefing": fc.boolean(),
        "agent.env.A": fc.string({ unit: "grapheme-ascii" }),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(values, (chosen) => {
        const text = Object.entries(chosen).map(
          ([name, value]) => `${name} = ${JSON.stringify(value)}`,
        );
        const fromFile = effective([file("user", text.join("\n"))]);
        const fromValues = effective([readValues("user", chosen)]);
        expect(fromFile.problems).toEqual([]);
        expect(fromFile.settings.map(({ key: name, value }) => [name, value])).toEqual(
          fromValues.settings.map(({ key: name, value }) => [name, value]),
        );
        Object.keys(chosen).forEach((name, n) => {
          expect(fromFile.setting(name)?.source.line).toBe(n + 1);
        });
      }),
      options,
    );
  });

  test(`any bytes → a reading, never a throw (seed ${seed})`, () => {
    const toml = fc.array(
      fc.constantFrom(
        "[",
        "]",
        "{",
        "}",
        "=",
        ".",
        ",",
        '"',
        "'",
        '"""',
        "\n",
        "\r",
        "#",
        "\\",
        "ui",
        "theme",
        "1",
        "\u0000",
        " ",
      ),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 60 }),
          toml.map((parts) => Buffer.from(parts.join(""))),
        ),
        (input) => {
          const read = file("user", input);
          expect(read.lost.length === 0 || read.problems.length > 0).toBe(true);
        },
      ),
      { ...options, numRuns: 1000 },
    );
  });
});
