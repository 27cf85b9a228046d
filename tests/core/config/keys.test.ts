/** The table of keys is sound, and docs/config.md says what it says. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { renderConfigDocs } from "../../../src/core/config/docs.ts";
import { CONFIG_KEYS, HARNESS_NAMES, type ConfigKey } from "../../../src/core/config/keys.ts";
import { findKey, isMap, specOf, spelledKeys } from "../../../src/core/config/lookup.ts";
import { effectOf, envName } from "../../../src/core/config/spec.ts";
import { HARNESSES } from "../../../src/ports/harness.ts";

const KEYS = Object.keys(CONFIG_KEYS) as ConfigKey[];

describe("the table", () => {
  test("defaults: every one → a value its own type takes", () => {
    const bad = KEYS.filter((key) => {
      const { default: value, schema } = specOf(key);
      return value !== null && !schema.safeParse(value).success;
    });
    expect(bad).toEqual([]);
  });

  test("variables: every key → one of its own", () => {
    const names = spelledKeys().map(envName);
    expect(new Set(names).size).toBe(names.length);
    expect(
      names.filter((name) => !/^KIKI_[A-Z0-9]+(?:_[A-Z0-9]+)*__[A-Z0-9_]+$/.test(name)),
    ).toEqual([]);
  });

  test("lookup: every declared key → itself; its table → a table; another → unknown", () => {
    for (const key of spelledKeys()) {
      const words = key.split(".");
      const found = findKey(words);
      expect([key, found.is]).toEqual([key, "key"]);
      for (let n = 1; n < words.length; n += 1) {
        expect([key, findKey(words.slice(0, n)).is]).toEqual([key, "table"]);
      }
      expect(findKey([...words, "x"]).is).toBe("unknown");
      expect(findKey([`${key}x`]).is).toBe("unknown");
    }
    for (const word of ["", "__proto__", "constructor", "toString", "agent.env.<NAME>"]) {
      expect([word, findKey(word.split(".")).is === "key"]).toEqual([word, false]);
    }
  });

  test("names in maps: taken, unknown or refused → as each map says", () => {
    expect(findKey(["agent", "env", "HTTP_PROXY"]).is).toBe("key");
    for (const name of ["KIKI_THREAD_ID", "TMUX", "TERM", "CLAUDECODE", "A B", "1A", ""]) {
      expect([name, findKey(["agent", "env", name]).is]).toEqual([name, "refused"]);
    }
    expect(findKey(["agent", "harness_args", "codex"]).is).toBe("key");
    expect(findKey(["agent", "harness_args", "emacs"]).is).toBe("unknown");
  });

  test("layers: [ui] and [paths] → never from the repository; state paths → from the environment alone", () => {
    const shared = KEYS.filter((key) => specOf(key).layers.includes("repo-shared"));
    expect(shared.filter((key) => /^(?:ui|paths)\./.test(key))).toEqual([]);
    expect(shared.length).toBeGreaterThan(20);
    expect(specOf("paths.user_state_dir").layers).toEqual(["default", "env"]);
  });

  test("limits of the contract: hold_s → at most 300", () => {
    expect(specOf("cascade.hold_s").schema.safeParse(300).success).toBe(true);
    expect(specOf("cascade.hold_s").schema.safeParse(301).success).toBe(false);
  });

  test("harnesses: those arguments may be set for → those there are", () => {
    expect([...HARNESS_NAMES]).toEqual([...HARNESSES]);
  });
});

describe("docs/config.md", () => {
  test("the table → what the file says (else: bun scripts/gen-config-docs.ts)", () => {
    const file = join(import.meta.dir, "../../../docs/config.md");
    expect(readFileSync(file, "utf8")).toBe(renderConfigDocs());
  });

  test("every key → a row with its sentence, default, and when a change takes effect", () => {
    const rows = renderConfigDocs().split("\n");
    for (const key of KEYS) {
      const row = rows.find((line) => line.startsWith(`| \`${key}\` |`)) ?? "";
      expect(row).toContain(specOf(key).doc.replaceAll("|", "\\|"));
      expect(row).toContain(effectOf(specOf(key)));
      if (!isMap(key) && specOf(key).default !== null)
        expect(row).toContain(String(specOf(key).default));
    }
  });
});
