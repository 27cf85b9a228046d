import { expect, test } from "bun:test";
import fc from "fast-check";
import { KIKI_HEADER } from "../../src/core/generic-deny.ts";
import { composePayload, MAX_PAYLOAD_BYTES, type PayloadFacts } from "../../src/core/payload.ts";

const bytes = (text: string): number => new TextEncoder().encode(text).length;

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

test("payload: a diff far too long → cut at a line, said to be cut, head and closing line whole", () => {
  const diff = `${"+line with ünïcode\n".repeat(5000)}`;
  const text = composePayload({ ...facts, diff });
  expect(bytes(text)).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES);
  expect(bytes(text)).toBeGreaterThan(MAX_PAYLOAD_BYTES - 400);
  expect(text).toContain(
    "\n… (cut to fit; read the files for the rest)\n\n(end of message from kiki)",
  );
  expect(text).toContain("  A lexer.ts\n");
});

test("payload: whatever stands in paths, names and diffs → within the limit, no white space at the ends, stable", () => {
  const line = fc.string({ unit: "binary", maxLength: 300 });
  const many = (maxLength: number) => fc.array(line, { maxLength });
  fc.assert(
    fc.property(
      many(400),
      many(60),
      line,
      line,
      many(200),
      (paths, descriptions, name, parent, diff) => {
        const input: PayloadFacts = {
          ...facts,
          threadName: name,
          parentName: parent,
          changed: paths.map((path) => ({ status: "M", path })),
          conflicts: paths.slice(0, 50),
          newRevisions: descriptions.map((description) => ({
            commit: "d".repeat(40),
            description,
          })),
          diff: diff.join("\n"),
          diffStat: diff.slice(0, 20).join("\n"),
        };
        const text = composePayload(input);
        expect(bytes(text)).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES);
        expect(text).toBe(text.trim());
        expect(text.startsWith(KIKI_HEADER)).toBe(true);
        expect(composePayload(input)).toBe(text);
      },
    ),
    { numRuns: 200 },
  );
});
