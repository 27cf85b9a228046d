/** `kk ls`, as text: golden rows, distinct signs without colour, and no row wider than the terminal. */
import { describe, expect, test } from "bun:test";
import { CASCADE_STATUSES } from "../../../src/core/intent.ts";
import { AGENT_DISPLAY_STATES, LIFECYCLES } from "../../../src/core/lifecycle.ts";
import { renderLs, type LsOptions, type LsThread } from "../../../src/core/render/ls.ts";
import { displayWidth } from "../../../src/core/render/width.ts";

const PLAIN: LsOptions = { columns: null, colour: false, repoColumn: false, current: null };

function thread(over: Partial<LsThread> = {}): LsThread {
  const name = over.name ?? "parser";
  return {
    threadId: `id-${name}`,
    repoId: "r1",
    repoPath: "/home/p/code/kiki",
    name,
    bookmark: `kk/${name}`,
    followsName: null,
    lifecycle: "Active",
    cascade: "in sync",
    agent: "idle",
    checkpoint: "current",
    description: "",
    ...over,
  };
}

const STORY: LsThread[] = [
  thread({ name: "parser", agent: "working", description: "Parse the thing" }),
  thread({
    name: "tests",
    followsName: "parser",
    cascade: "pending",
    agent: "finished",
    checkpoint: "behind",
  }),
  thread({ name: "日本語", followsName: "parser", cascade: "conflicted", agent: "blocked" }),
  thread({ name: "draft", lifecycle: "Creating", agent: null, bookmark: null, checkpoint: null }),
  thread({
    name: "broken",
    lifecycle: "CreateFailed",
    agent: null,
    bookmark: null,
    checkpoint: null,
  }),
  thread({ name: "old", lifecycle: "Closed", agent: null }),
];

describe("ls", () => {
  test("every kind of row → golden table", () => {
    expect(renderLs(STORY, { ...PLAIN, current: "id-tests" })).toBe(
      [
        '  ● ──  parser                                 kk/parser  "Parse the thing"',
        "▸ ✓ ↻   tests   ← parser                       kk/tests↑",
        "  ◉ ◐   日本語  ← parser  blocked, conflicted  kk/日本語",
        "  … ──  draft             Creating",
        "  ! ──  broken            CreateFailed",
        "  □ ──  old               Closed               kk/old",
      ].join("\n"),
    );
  });

  test("no threads → says how to make one", () => {
    expect(renderLs([], PLAIN)).toBe("no threads — kk new starts one");
  });

  test("repo column → last folder, with more where two repositories share it", () => {
    const text = renderLs(
      [
        thread({ name: "a", repoId: "r1", repoPath: "/x/one/app" }),
        thread({ name: "b", repoId: "r2", repoPath: "/x/two/app" }),
        thread({ name: "c", repoId: "r3", repoPath: "/x/lib" }),
      ],
      { ...PLAIN, repoColumn: true },
    );
    expect(text).toBe(
      ["  ○ ──  one/app  a  kk/a", "  ○ ──  two/app  b  kk/b", "  ○ ──  lib      c  kk/c"].join(
        "\n",
      ),
    );
  });

  test("control characters in a name or description → one row, no escape", () => {
    const text = renderLs(
      [thread({ name: "a\nb\u001b[31mc", description: "one\ntwo\u202ethree" })],
      PLAIN,
    );
    expect(text.split("\n")).toHaveLength(1);
    for (const escape of ["\u001b", "\u202e"]) expect(text).not.toContain(escape);
  });

  test("long names in a narrow terminal → words of state whole, what does not fit left out", () => {
    const long = "long-prompt-that-names-the-thread";
    const threads = [
      thread({ name: long, followsName: "parser", cascade: "conflicted", agent: "blocked" }),
      thread({ name: "broken", lifecycle: "CreateFailed", agent: null, bookmark: null }),
    ];
    expect(renderLs(threads, { ...PLAIN, columns: 40 })).toBe(
      ["  ◉ ◐   long-promp…  blocked, conflicted", "  ! ──  broken       CreateFailed"].join("\n"),
    );
    expect(renderLs(threads, { ...PLAIN, columns: 80 })).toBe(
      [
        "  ◉ ◐   long-prompt-that-names-the-thre…  ← parser  blocked, conflicted",
        "  ! ──  broken                                      CreateFailed",
      ].join("\n"),
    );
  });

  test("creation that waits for a person → says both, not only that it goes on", () => {
    const text = renderLs([thread({ lifecycle: "Creating", agent: "blocked" })], PLAIN);
    expect(text).toBe("  … ──  parser  Creating, blocked  kk/parser");
  });

  for (const columns of [10, 17, 20, 33, 40, 60, 80]) {
    test(`${columns} columns → no row is wider, cut rows end in one …`, () => {
      const rows = renderLs(STORY, { ...PLAIN, columns }).split("\n");
      expect(rows).toHaveLength(STORY.length);
      for (const row of rows) {
        expect(displayWidth(row)).toBeLessThanOrEqual(columns);
        expect(row.slice(3).match(/…/g)?.length ?? 0).toBeLessThanOrEqual(1);
      }
    });
  }
});

describe("ls without colour", () => {
  const rowOf = (over: Partial<LsThread>): string => renderLs([thread(over)], PLAIN);

  test("agent states → all rows differ", () => {
    const rows = [...AGENT_DISPLAY_STATES, null].map((agent) => rowOf({ agent }));
    expect(new Set(rows).size).toBe(rows.length);
  });

  test("cascade states → all rows differ", () => {
    const rows = CASCADE_STATUSES.map((cascade) => rowOf({ cascade }));
    expect(new Set(rows).size).toBe(rows.length);
  });

  test("lifecycles → all rows differ, and every one but Active has its literal label", () => {
    const rows = LIFECYCLES.map((lifecycle) => rowOf({ lifecycle }));
    expect(new Set(rows).size).toBe(rows.length);
    LIFECYCLES.forEach((lifecycle, i) => {
      expect([lifecycle, rows[i]?.includes(lifecycle)]).toEqual([
        lifecycle,
        lifecycle !== "Active",
      ]);
    });
  });

  test("checkpoint relations → all rows differ", () => {
    const rows = (["current", "behind", "diverged"] as const).map((checkpoint) =>
      rowOf({ checkpoint }),
    );
    expect(new Set(rows).size).toBe(rows.length);
  });

  test("colour → the same text once the escapes are removed, none when it is off", () => {
    const plain = renderLs(STORY, PLAIN);
    expect(plain).not.toContain("\u001b");
    const coloured = renderLs(STORY, { ...PLAIN, colour: true });
    expect(coloured).toContain("\u001b[33m●");
    const trimmed = Bun.stripANSI(coloured)
      .split("\n")
      .map((row) => row.trimEnd())
      .join("\n");
    expect(trimmed).toBe(plain);
  });
});
