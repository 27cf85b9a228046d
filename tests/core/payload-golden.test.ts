/**
 * What an agent is told, byte for byte, for every kind of work. `KIKI_TEST_WRITE=1` writes the files anew: look at the
 * difference before you keep it.
 */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  composePayload,
  MAX_PAYLOAD_BYTES,
  payloadTwin,
  type PayloadFacts,
} from "../../src/core/payload.ts";

const FOLDER = join(import.meta.dir, "../../fixtures/payloads");
const id = (digit: string): string => digit.repeat(40);

const rewrite: PayloadFacts = {
  recovered: [],
  pinnedRef: "",
  threadName: "tests",
  parentName: "parser",
  oldBase: id("a"),
  newBase: id("b"),
  newRevisions: [{ commit: id("b"), description: "parser: read numbers" }],
  action: "materialised",
  adoptedEdits: false,
  resultCommit: id("c"),
  changed: [{ status: "M", path: "src/parser.ts" }],
  diffStat: "src/parser.ts | 2 +-\n1 file changed, 1 insertion(+), 1 deletion(-)\n",
  diff: [
    "diff --git a/src/parser.ts b/src/parser.ts",
    "--- a/src/parser.ts",
    "+++ b/src/parser.ts",
    "@@ -1,1 +1,1 @@",
    "-export const parse = (s: string) => s;",
    "+export const parse = (s: string) => Number(s);",
    "",
  ].join("\n"),
  conflicts: [],
};

const advance: PayloadFacts = {
  ...rewrite,
  action: "rebased",
  newBase: id("d"),
  newRevisions: [
    { commit: id("b"), description: "parser: read numbers" },
    { commit: id("d"), description: "" },
  ],
  changed: [
    { status: "A", path: "src/lexer.ts" },
    { status: "M", path: "src/parser.ts" },
    { status: "D", path: "src/old name.ts" },
  ],
};

const KINDS: Record<string, PayloadFacts> = {
  "native-rewrite": rewrite,
  "parent-advance": advance,
  "recorded-edits": { ...advance, adoptedEdits: true },
  "several-coalesced": { ...advance, moves: 4 },
  "superseded-prefix": { ...advance, moves: 5, coversLater: 2 },
  conflict: { ...advance, conflicts: ["src/parser.ts", "docs/überblick.md"] },
  "adopted-edits": {
    ...advance,
    action: "adopted",
    recovered: [
      {
        by: "kiki",
        adopted: id("d"),
        edits: id("e"),
        pinnedHead: id("f"),
        bundle: "/home/you/.config/kiki/repos/0f3c/recovery/7d21",
      },
    ],
    pinnedRef: "refs/kiki/7d21",
    conflicts: ["src/parser.ts"],
  },
  "already-in-place": { ...rewrite, action: "already-in-place" },
  "words-only": { ...rewrite, changed: [], diffStat: "", diff: "" },
  "cut-to-fit": {
    ...advance,
    threadName: `tests-${"長".repeat(300)}`,
    newRevisions: Array.from({ length: 60 }, (_, n) => ({
      commit: id("b"),
      description: `step ${n} of a long way, told in a line of its own`,
    })),
    changed: Array.from({ length: 120 }, (_, n) => ({
      status: "M",
      path: `src/generated/module-${n}/文件.ts`,
    })),
    diff: Array.from({ length: 900 }, (_, n) => `+line ${n}: é 中 🎉 \u{1b}[31mred\r`).join("\n"),
  },
};

const bytes = (text: string): number => new TextEncoder().encode(text).length;
const twinText = (facts: PayloadFacts): string =>
  `${JSON.stringify(payloadTwin(facts), null, 2)}\n`;

if (process.env["KIKI_TEST_WRITE"] === "1") {
  for (const [name, facts] of Object.entries(KINDS)) {
    writeFileSync(join(FOLDER, `${name}.txt`), composePayload(facts));
    writeFileSync(join(FOLDER, `${name}.json`), twinText(facts));
  }
}

test.each(Object.entries(KINDS))(
  "payload golden: %s → the very bytes of its file",
  (name, facts) => {
    const golden = readFileSync(join(FOLDER, `${name}.txt`));
    const text = composePayload(facts);
    expect(text).toBe(golden.toString("utf8"));
    expect(Buffer.from(text).equals(golden)).toBe(true);
    expect(text).toBe(text.trim());
    expect(bytes(text)).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES);
    expect(twinText(facts)).toBe(readFileSync(join(FOLDER, `${name}.json`), "utf8"));
  },
);

test("payload golden: files → one text and one twin per kind, none left over", () => {
  const expected = Object.keys(KINDS).flatMap((name) => [`${name}.json`, `${name}.txt`]);
  expect(readdirSync(FOLDER).sort()).toEqual(expected.sort());
});
