/** Repair plans, the pure part: the same facts give the same plans and ids, and every fact counts. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { examineFailedCreation, repairId, type FailedCreation } from "../../src/core/repair.ts";

const sha256Hex = (text: string): string => createHash("sha256").update(text).digest("hex");
const COMMIT = "a".repeat(40);

const clean: FailedCreation = {
  lifecycle: "CreateFailed",
  error: "no network",
  names: {
    workspaceName: "kk-parser",
    workspacePath: "/src/calc-kiki-parser",
    bookmark: "kk/parser",
    tmuxSession: "kk-1-parser",
  },
  leftovers: [],
  record: null,
  folder: "absent",
  bookmark: [],
  session: "none",
  credential: { row: false, file: false },
  processes: [],
  base: { commit: COMMIT, description: "base", why: "trunk()" },
};

const kinds = (f: FailedCreation): string[] =>
  examineFailedCreation(f).proposals.map((p) => p.kind);
const ids = (f: FailedCreation, thread = "t"): string[] => {
  const seen = examineFailedCreation(f);
  return seen.proposals.map((p) => repairId(thread, seen, p, sha256Hex));
};

/** One change of what was seen or recorded each. */
const CHANGES: [string, Partial<FailedCreation>][] = [
  ["error", { error: "no license" }],
  ["leftovers", { leftovers: ["session"] }],
  ["record", { record: COMMIT }],
  ["folder", { folder: "folder" }],
  ["bookmark", { bookmark: [COMMIT] }],
  ["session", { session: "foreign" }],
  ["tmux silent", { session: { unknown: "no answer" } }],
  ["credential", { credential: { row: true, file: false } }],
  ["processes", { processes: [7] }],
  ["base", { base: { commit: "b".repeat(40), description: "base", why: "trunk()" } }],
  ["no base", { base: { problem: "gone" } }],
];

describe("repair ids", () => {
  test("ids: the same facts → the same ids; two plans and two threads → different ones", () => {
    expect(ids(clean)).toEqual(ids({ ...clean }));
    expect(new Set([...ids(clean), ...ids(clean, "u")]).size).toBe(4);
    for (const id of ids(clean)) expect(id).toMatch(/^[0-9a-f]{12}$/);
  });

  test.each(CHANGES)("ids: %s changed → every id is stale", (_, change) => {
    const before = ids(clean);
    const after = ids({ ...clean, ...change });
    // The base is a retry's alone.
    const same = after.filter((id) => before.includes(id));
    expect(same.length).toBeLessThanOrEqual(
      "base" in change && !("problem" in change.base!) ? 1 : 0,
    );
    expect(after[0]).not.toBe(before[0]);
  });
});

describe("plans of a failed creation", () => {
  test("nothing left → retry and clean-up; retry lists everything it makes", () => {
    const [retry] = examineFailedCreation(clean).proposals;
    expect(kinds(clean)).toEqual(["creation-retry", "creation-cleanup"]);
    expect(retry!.changes.join("\n")).toMatch(/kk-parser[^]*aaaaaaaa[^]*kk\/parser[^]*kk-1-parser/);
  });

  test("leftovers of its own → undone first in both plans, whatever is still there under its names", () => {
    const left: FailedCreation = {
      ...clean,
      leftovers: ["session", "bookmark"],
      record: COMMIT,
      folder: "folder",
      bookmark: [COMMIT],
      session: "own",
    };
    const { proposals } = examineFailedCreation(left);
    expect(proposals.map((p) => p.changes[0])).toEqual(
      Array(2).fill("undo what is left: session, bookmark"),
    );
  });

  test.each([
    ["folder", { folder: "folder" }],
    ["record", { record: COMMIT }],
    ["bookmark", { bookmark: [COMMIT] }],
    ["session", { session: "foreign" }],
    ["tmux that does not answer", { session: { unknown: "no answer" } }],
    ["no base", { base: { problem: "gone" } }],
  ] satisfies [string, Partial<FailedCreation>][])(
    "somebody's %s in the way → no retry, and one note why",
    (_, change) => {
      const seen = examineFailedCreation({ ...clean, ...change });
      expect(seen.proposals.map((p) => p.kind)).toEqual(["creation-cleanup"]);
      expect(seen.notes).toHaveLength(1);
    },
  );
});
