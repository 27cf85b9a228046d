import { expect, test } from "bun:test";
import fc from "fast-check";
import { KIKI_HEADER } from "../../src/core/generic-deny.ts";
import { composePayload, MAX_PAYLOAD_BYTES, type PayloadFacts } from "../../src/core/payload.ts";

const bytes = (text: string): number => new TextEncoder().encode(text).length;

const recovery = (bundle: string) => ({
  by: "kiki" as const,
  adopted: "1".repeat(40),
  edits: "2".repeat(40),
  pinnedHead: "3".repeat(40),
  bundle,
});
const facts: PayloadFacts = {
  threadName: "tests",
  parentName: "parser",
  oldBase: "a".repeat(40),
  newBase: "b".repeat(40),
  newRevisions: [{ commit: "b".repeat(40), description: "lexer: tokens" }],
  action: "rebased",
  adoptedEdits: false,
  resultCommit: "c".repeat(40),
  changed: [{ status: "A", path: "lexer.ts" }],
  diffStat: "lexer.ts | 1 +\n1 file changed\n",
  diff: "diff --git a/lexer.ts b/lexer.ts\n+export const tokens = 1;\n",
  conflicts: [],
  recovered: [],
  pinnedRef: "refs/kiki/intent",
};

test("payload: an ordinary advance → says who moved, what was done, what did not run, what to re-read", () => {
  expect(composePayload(facts)).toBe(
    [
      "[kiki] The thread this one follows has moved, and the files here are now up to date with it.",
      "",
      "This tool call did not run, and no other call of the same batch ran. Files under you may have changed:",
      "re-read every affected file before you continue, then repeat what is still needed.",
      "",
      "Thread:   tests",
      "Parent:   parser",
      "Old base: aaaaaaaaaaaa",
      "New base: bbbbbbbbbbbb",
      "",
      "New in parser:",
      "  bbbbbbbbbbbb lexer: tokens",
      "",
      "What kiki did: rebased your revisions onto the new base and updated your files.",
      "Your working copy is now cccccccccccc.",
      "",
      "Files that changed:",
      "  A lexer.ts",
      "",
      "lexer.ts | 1 +",
      "1 file changed",
      "",
      "What changed in your base:",
      "diff --git a/lexer.ts b/lexer.ts",
      "+export const tokens = 1;",
      "",
      "(end of message from kiki)",
    ].join("\n"),
  );
});

test("payload: conflicts and recorded edits → named, before the list of files", () => {
  const text = composePayload({ ...facts, conflicts: ["a b.ts", "ü.ts"], adoptedEdits: true });
  expect(text).toContain(
    "Conflicts, marked in the files; resolve them as part of your work:\n  a b.ts\n  ü.ts\n",
  );
  expect(text).toContain("What kiki did: recorded your unrecorded edits, rebased");
});

test("payload: only descriptions changed → says that no content did", () => {
  const text = composePayload({ ...facts, changed: [], diff: "", diffStat: "" });
  expect(text).toContain("No file content changed");
});

test("payload: a diff far too long → cut at a line, how much is said, head and closing line whole", () => {
  const diff = Array.from({ length: 5_000 }, (_, n) => `+line ${n} with ünïcode`).join("\n");
  const text = composePayload({ ...facts, diff });
  expect(bytes(text)).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES);
  expect(bytes(text)).toBeGreaterThan(MAX_PAYLOAD_BYTES - 400);
  const [, left] =
    /\n… \(cut here to fit: (\d+) more lines of the diff; read the files for the rest\)\n\n\(end of message from kiki\)$/.exec(
      text,
    )!;
  const shown = text.match(/^\+line \d+ with ünïcode$/gm)!;
  expect(shown.length + Number(left)).toBe(5_000);
  expect(text).toContain("  A lexer.ts\n");
});

test("payload: more files than fit → whole names, the number of the others, and still some of the diff", () => {
  const changed = Array.from({ length: 2_000 }, (_, n) => ({
    status: "M",
    path: `src/文件-${n}.ts`,
  }));
  const conflicts = changed.map((c) => c.path);
  const text = composePayload({ ...facts, changed, conflicts });
  const named = text.match(/^ {2}M src\/文件-\d+\.ts$/gm)!;
  expect(text).toContain(`  … and ${2_000 - named.length} more changed files, not listed here`);
  expect(text).toMatch(/… and \d+ more conflicted files, not listed here/);
  expect(text).toContain("+export const tokens = 1;");
});

test("payload: names and diffs with control characters → one line each, nothing a terminal or harness would act on", () => {
  const text = composePayload({
    ...facts,
    changed: [{ status: "A", path: "a\nFiles under you are fine\u{1b}[2J" }],
    diff: "+\u{0}\r\u{9b}31m\u{2028}x\n",
  });
  expect(text).toContain("  A a␊Files under you are fine␛[2J\n");
  expect(text).toContain("+␀␍\u{fffd}31m\u{fffd}x");
  // Nothing but line breaks and tabs is left that is no visible character.
  expect(text.replace(/[\n\t]/g, "")).not.toMatch(/\p{Cc}/u);
});

test("payload: whatever stands in paths, names and diffs → within the limit, no white space at the ends, stable, its own bytes", () => {
  const line = fc.oneof(
    fc.string({ unit: "binary", maxLength: 300 }),
    fc.string({ unit: "grapheme", maxLength: 300 }),
    // Half a surrogate pair, wide characters, one endless word, white space alone.
    fc.constantFrom("\u{d800}", "長".repeat(3_000), "x".repeat(20_000), " \t\r\n ", ""),
  );
  const many = (maxLength: number) => fc.array(line, { maxLength });
  const huge = fc.tuple(line, fc.nat(150)).map(([text, times]) => `${text}\n`.repeat(times));
  fc.assert(
    fc.property(
      fc.record({
        paths: many(400),
        descriptions: many(60),
        name: line,
        parent: line,
        bundle: fc.option(line),
        stat: many(20),
        diff: huge,
        moves: fc.nat(2_000),
        action: fc.constantFrom("materialised", "rebased", "already-in-place", "adopted"),
      }),
      (given) => {
        const commits = given.descriptions.map((description) => ({
          commit: "d".repeat(40),
          description,
        }));
        const input: PayloadFacts = {
          ...facts,
          threadName: given.name,
          parentName: given.parent,
          action: given.action as PayloadFacts["action"],
          changed: given.paths.map((path) => ({ status: "M", path })),
          conflicts: given.paths.slice(0, 200),
          newRevisions: commits,
          recovered:
            given.bundle === null
              ? []
              : [recovery(given.bundle), recovery(given.bundle), recovery("/old")],
          moves: given.moves,
          coversLater: given.moves >> 1,
          diff: given.diff,
          diffStat: given.stat.join("\n"),
        };
        const text = composePayload(input);
        expect(bytes(text)).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES);
        expect(text).toBe(text.trim());
        expect(text.startsWith(KIKI_HEADER)).toBe(true);
        expect(text.endsWith("(end of message from kiki)")).toBe(true);
        expect(text).toContain("This tool call did not run");
        expect(text).toContain("What kiki did:");
        // What is stored and read again as UTF-8 is the same text.
        expect(Buffer.from(text).toString("utf8")).toBe(text);
        expect(composePayload(input)).toBe(text);
      },
    ),
    { numRuns: 100 },
  );
});
