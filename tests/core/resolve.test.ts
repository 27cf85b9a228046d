import { describe, expect, test } from "bun:test";
import { listCandidates, resolveThread } from "../../src/core/resolve.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const threads = [
  { threadId: ID, name: "parser" },
  { threadId: "22222222-2222-4222-8222-222222222222", name: "parser-tests" },
  { threadId: "33333333-3333-4333-8333-333333333333", name: "docs" },
  { threadId: "44444444-4444-4444-8444-444444444444", name: "twin" },
  { threadId: "55555555-5555-4555-8555-555555555555", name: "twin" },
  { threadId: "66666666-6666-4666-8666-666666666666", name: ID.slice(0, 8) },
];

function nameOf(target: string): string {
  const found = resolveThread(threads, target);
  if (found.ok) return `${found.value.name}/${found.value.threadId.slice(0, 1)}`;
  const { error } = found;
  return error.problem === "unknown" ? "unknown" : `ambiguous: ${listCandidates(error.candidates)}`;
}

describe("thread target", () => {
  test("exact name that is also a prefix of another → that thread", () => {
    expect(nameOf("parser")).toBe("parser/1");
  });
  test("unique prefix → the thread", () => {
    expect([nameOf("parser-"), nameOf("d")]).toEqual(["parser-tests/2", "docs/3"]);
  });
  test("id → the thread, even when a name begins like it; part of an id → not an id", () => {
    expect([nameOf(ID), nameOf("2222")]).toEqual(["parser/1", "unknown"]);
  });
  test("prefix of several → ambiguous, naming all", () => {
    expect(nameOf("par")).toBe('ambiguous: "parser", "parser-tests"');
  });
  test("two threads of one name → ambiguous, told apart by id", () => {
    expect(nameOf("twin")).toBe(
      'ambiguous: "twin" (44444444-4444-4444-8444-444444444444), "twin" (55555555-5555-4555-8555-555555555555)',
    );
  });
  test("nothing fits, empty text, other case → unknown", () => {
    expect([nameOf("xyz"), nameOf(""), nameOf("Parser")]).toEqual([
      "unknown",
      "unknown",
      "unknown",
    ]);
  });
});
