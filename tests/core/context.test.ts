/** ContextDiscovery: which thread a command is about, for every combination of what its place says. */
import { describe, expect, test } from "bun:test";
import {
  decideContext,
  passedOverText,
  type ContextEvidence,
  type KnownThread,
} from "../../src/core/context.ts";

const thread = (
  threadId: string,
  name: string,
  repoId: string,
  more: Partial<KnownThread> = {},
): KnownThread => ({
  threadId,
  name,
  repoId,
  lifecycle: "Active",
  ...more,
});

const THREADS: readonly KnownThread[] = [
  thread("t-env", "lexer", "r1"),
  thread("t-tmux", "parser", "r1"),
  thread("t-dir", "parser-tests", "r2"),
  thread("t-closed", "old", "r1", { lifecycle: "Closed" }),
  thread("t-destroyed", "ashes", "r1", { lifecycle: "Destroyed" }),
  thread("t-twin", "lexer", "r2"),
  thread("t-failed", "broken", "r1", { lifecycle: "CreateFailed" }),
];

const NOTHING: ContextEvidence = {
  target: null,
  environment: null,
  tmux: null,
  folder: { repoId: null, threadId: null },
  threads: THREADS,
};

/** `thread@repo by source`, the passed-over after a semicolon; or the problem. */
function decided(seen: Partial<ContextEvidence>): string {
  const found = decideContext({ ...NOTHING, ...seen });
  if (!found.ok) {
    const { error } = found;
    const names =
      error.problem === "ambiguous" ? error.candidates.map((c) => c.threadId).join(",") : "";
    return `${error.problem} ${names}`.trim();
  }
  const { thread: which, repoId, by, passed } = found.value;
  const over = passed.map((p) => `${p.source} ${p.why}`).join(", ");
  return `${which?.threadId ?? "none"}@${repoId ?? "nowhere"} by ${by ?? "nothing"}${over === "" ? "" : `; ${over}`}`;
}

describe("sources", () => {
  /** What each source can say, and what it then is: a thread to go by, or a reason to pass it over. */
  const STATES = {
    nothing: { id: null, over: null },
    open: { id: "", over: null },
    closed: { id: "t-closed", over: "closed" },
    gone: { id: "t-nobody", over: "gone" },
    destroyed: { id: "t-destroyed", over: "gone" },
  } as const;
  type State = keyof typeof STATES;
  const states = Object.keys(STATES) as State[];
  const own = { environment: "t-env", tmux: "t-tmux", folder: "t-dir" } as const;
  const repos: Record<string, string> = { "t-env": "r1", "t-tmux": "r1", "t-dir": "r2" };

  for (const environment of states) {
    test(`environment ${environment} × tmux × folder, all 25 → the first open one; what pointed elsewhere is said`, () => {
      for (const tmux of states) {
        for (const folder of states) {
          const say = { environment, tmux, folder };
          const id = (source: keyof typeof own): string | null =>
            STATES[say[source]].id === "" ? own[source] : STATES[say[source]].id;
          const sources = ["environment", "tmux", "folder"] as const;
          const first = sources.findIndex((source) => say[source] === "open");
          const before = first < 0 ? sources : sources.slice(0, first);
          const over = before.flatMap((s) => {
            const why = STATES[say[s]].over;
            return why === null ? [] : [`${s} ${why}`];
          });
          const winner = first < 0 ? null : sources[first]!;
          const expected =
            winner === null
              ? "none@r9 by folder"
              : `${own[winner]}@${repos[own[winner]]} by ${winner}`;
          const got = decided({
            environment: id("environment"),
            tmux: id("tmux"),
            folder: { repoId: "r9", threadId: id("folder") },
          });
          expect([say, got]).toEqual([
            say,
            [expected, ...(over.length > 0 ? [over.join(", ")] : [])].join("; "),
          ]);
        }
      }
    });
  }

  test("nothing anywhere → no thread, no repository", () => {
    expect(decided({})).toBe("none@nowhere by nothing");
  });

  test("a folder in a repository, in no workspace → that repository", () => {
    expect(decided({ folder: { repoId: "r2", threadId: null } })).toBe("none@r2 by folder");
  });

  test("a thread whose creation failed → implied: it is where its repair is asked for", () => {
    expect(decided({ folder: { repoId: "r1", threadId: "t-failed" } })).toBe(
      "t-failed@r1 by folder",
    );
  });
});

describe("targets", () => {
  const inR1 = { folder: { repoId: "r1", threadId: null } };
  const CASES: [string, Partial<ContextEvidence>, string][] = [
    ["a name", { ...inR1, target: "parser" }, "t-tmux@r1 by target"],
    ["a unique prefix", { ...inR1, target: "le" }, "t-env@r1 by target"],
    ["an exact name that is a prefix of another", { target: "parser" }, "t-tmux@r1 by target"],
    ["an id, from another repository", { ...inR1, target: "t-dir" }, "t-dir@r2 by target"],
    ["a name of another repository", { ...inR1, target: "parser-tests" }, "unknown"],
    ["a name twice, outside any repository", { target: "lexer" }, "ambiguous t-env,t-twin"],
    ["a prefix of several", { target: "par" }, "ambiguous t-tmux,t-dir"],
    ["nobody", { target: "zebra" }, "unknown"],
    ["a closed thread, named", { ...inR1, target: "old" }, "t-closed@r1 by target"],
    ["a destroyed thread", { target: "ashes" }, "unknown"],
    ["a destroyed thread's id", { target: "t-destroyed" }, "unknown"],
    [
      "a name, with a context in another repository than the folder",
      { target: "lexer", environment: "t-dir", ...inR1 },
      "t-twin@r2 by target",
    ],
    [
      "a name that contradicts the environment",
      { target: "parser", environment: "t-env" },
      "t-tmux@r1 by target",
    ],
    [
      "a name, with a stale environment",
      { target: "parser", environment: "t-nobody", ...inR1 },
      "t-tmux@r1 by target; environment gone",
    ],
  ];
  for (const [what, seen, expected] of CASES) {
    test(`${what} → ${expected}`, () => {
      expect(decided(seen)).toBe(expected);
    });
  }

  test("any target, whatever the sources say → never another thread than one it names", () => {
    for (const target of ["parser", "t-env", "le", "old"]) {
      for (const environment of [null, "t-env", "t-dir", "t-nobody", "t-closed"]) {
        for (const tmux of [null, "t-tmux", "t-nobody"]) {
          const found = decideContext({ ...NOTHING, target, environment, tmux });
          if (!found.ok) continue;
          const { name, threadId } = found.value.thread!;
          expect(name.startsWith(target) || threadId === target).toBe(true);
        }
      }
    }
  });
});

test("what was passed over → in words, the last one; nothing → null", () => {
  const words = (seen: Partial<ContextEvidence>): string | null => {
    const found = decideContext({ ...NOTHING, ...seen });
    return found.ok ? passedOverText(found.value.passed) : "problem";
  };
  expect(words({})).toBeNull();
  expect(words({ environment: "t-nobody" })).toBe(
    "KIKI_THREAD_ID names a thread that is not there any more (t-nobody)",
  );
  expect(words({ tmux: "t-nobody", folder: { repoId: "r1", threadId: "t-closed" } })).toBe(
    'this folder belongs to the closed thread "old"',
  );
});
