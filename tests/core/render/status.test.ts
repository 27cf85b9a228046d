/** `kk status`, as text. */
import { describe, expect, test } from "bun:test";
import { CASCADE_STATUSES } from "../../../src/core/intent.ts";
import { AGENT_DISPLAY_STATES, LIFECYCLES } from "../../../src/core/lifecycle.ts";
import { renderStatus, type StatusThread } from "../../../src/core/render/status.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);

type Summary = StatusThread["summary"];

function state(over: Partial<StatusThread> = {}, summary: Partial<Summary> = {}): StatusThread {
  return {
    summary: {
      threadId: "t1",
      repoId: "r1",
      repoPath: "/code/repo",
      name: "tests",
      bookmark: "kk/tests",
      followsName: "parser",
      lifecycle: "Active",
      cascade: "in sync",
      agent: "working",
      checkpoint: "current",
      description: "",
      lastAgentEvent: "PreToolUse",
      ...summary,
    },
    workspacePath: "/code/repo-kiki-tests",
    workspaceName: "kk-tests",
    head: A,
    checkpointCommit: A,
    harness: "claude-code",
    follows: { name: "parser", lastSynchronized: B },
    children: [{ name: "docs" }, { name: "bench" }],
    intents: [],
    attention: [],
    issues: [],
    operation: null,
    ...over,
  };
}

const plain = (thread: StatusThread, body: string | null = null): string =>
  renderStatus(thread, { colour: false, body });

describe("status", () => {
  test("thread in sync, with jj's text → golden page", () => {
    const body = "The working copy has no changes.\nWorking copy  (@) : abc\n";
    expect(plain(state(), body)).toBe(
      [
        "thread      tests",
        "lifecycle   Active",
        "workspace   /code/repo-kiki-tests",
        `head        ${A}`,
        `checkpoint  kk/tests ${A} (checkpoint current)`,
        "cascade     ── in sync",
        "agent       ● working claude-code, last event PreToolUse",
        "follows     ← parser at bbbbbbbbbbbb",
        "children    docs, bench",
        "",
        "The working copy has no changes.",
        "Working copy  (@) : abc",
      ].join("\n"),
    );
  });

  test("--no-jj → exactly the header", () => {
    expect(plain(state(), "jj text").startsWith(`${plain(state())}\n\n`)).toBe(true);
    expect(plain(state())).not.toContain("jj text");
  });

  test("checkpoint relations → the three literal phrases", () => {
    const phrases = {
      current: "(checkpoint current)",
      behind: "(checkpoint behind head)",
      diverged: "(projection diverged)",
    } as const;
    for (const [relation, phrase] of Object.entries(phrases)) {
      const text = plain(state({}, { checkpoint: relation as keyof typeof phrases }));
      expect(text).toContain(`checkpoint  kk/tests ${A} ${phrase}`);
    }
  });

  test("unresolved intent → named below a cascade line without counts; resolved ones are not", () => {
    const intent = {
      kind: "ParentAdvance",
      parentName: "parser",
      fromBase: A,
      toBase: B,
      reason: null,
      paused: false,
    } as const;
    const text = plain(
      state(
        {
          intents: [
            { ...intent, state: "Acknowledged" },
            { ...intent, state: "Materialized" },
          ],
        },
        { cascade: "pending" },
      ),
    );
    expect(text).toContain(
      "cascade     ↻ pending\n            ParentAdvance of parser aaaaaaaaaaaa → bbbbbbbbbbbb: Materialized",
    );
    expect(text).not.toContain("Acknowledged");
  });

  test("failed creation → operation with its step and error, no head, what to do next", () => {
    const text = plain(
      state(
        {
          head: null,
          checkpointCommit: null,
          operation: {
            kind: "Create",
            state: "Failed",
            error: "tmux is not on PATH",
            steps: [
              { name: "workspace", state: "Compensated", error: null },
              { name: "session", state: "Failed", error: "no tmux" },
              { name: "launch", state: "Pending", error: null },
            ],
          },
        },
        { lifecycle: "CreateFailed", agent: null, bookmark: null, checkpoint: null },
      ),
    );
    expect(text).toContain("lifecycle   ! CreateFailed");
    expect(text).toMatch(/^head {8}none$/m);
    expect(text).toContain("operation   Create Failed at session (Failed): tmux is not on PATH");
    expect(text.split("\n").at(-1)).toMatch(/^next        mend what it says, then kk repair \w+$/);
  });

  test("attention → one issue line each, on one line", () => {
    const text = plain(
      state({ attention: [{ kind: "dialog", message: "accept it\nin the pane" }] }),
    );
    expect(text.split("\n").at(-1)).toBe("issue       ! dialog: accept it in the pane");
  });

  test("agent paused for a person, or ended while something is owed to it → said in its line", () => {
    const move = { kind: "NativeRewrite", parentName: "parser", fromBase: A, toBase: B } as const;
    const stopped = [
      { ...move, state: "RecoveryRequired", reason: "StaleDirty", paused: true } as const,
    ];
    expect(plain(state({ intents: stopped }, { agent: "blocked" }))).toContain(
      "blocked claude-code, paused until you decide",
    );
    const told = [{ ...move, state: "Delivered", reason: null, paused: false } as const];
    const ended = plain(state({ intents: told }, { agent: null, cascade: "pending" }));
    expect(ended).toContain("claude-code, not running, and not told yet what changed under it");
    expect(ended).toContain(
      "Delivered (the agent ended before it confirmed; the next one is told first of all)",
    );
  });

  describe("next", () => {
    const next = (over: Partial<StatusThread>, summary: Partial<Summary> = {}): string =>
      plain(state(over, summary)).match(/^next {8}(.*)$/m)?.[1] ?? "";
    const move = {
      kind: "NativeRewrite",
      parentName: "parser",
      fromBase: A,
      toBase: B,
      paused: false,
    } as const;
    const anew = `kk new --no-follow --base kk-tests@ -m "<what to do>"`;

    test("all well, or going on by itself → no such line", () => {
      expect(next({})).toBe("");
      expect(next({}, { lifecycle: "Creating", agent: null })).toBe("");
      const intents = [{ ...move, state: "Detected", reason: null } as const];
      expect(next({ intents }, { cascade: "pending", agent: "working" })).toBe("");
    });

    test("agent waits for an answer → where to give it, name quoted for the shell", () => {
      const attention = [{ kind: "permission_prompt", message: "Bash?" }];
      expect(next({ attention }, { name: "a b", agent: "blocked" })).toBe(
        "kk switch 'a b', and answer in the agent's pane",
      );
      const dialog = [{ kind: "startup-dialog", message: "trust?" }];
      expect(next({ attention: dialog }, { lifecycle: "Creating", agent: "blocked" })).toBe(
        "kk switch tests, and answer in the agent's pane",
      );
    });

    test("parent moved while the agent has nothing to do → what sets it going", () => {
      const intents = [{ ...move, state: "Detected", reason: null } as const];
      for (const agent of ["idle", "finished"] as const) {
        expect(next({ intents }, { cascade: "pending", agent })).toStartWith(
          "kk switch tests, and give the agent something to do",
        );
      }
    });

    test("what a person can repair → kk repair", () => {
      const stopped = [{ ...move, state: "RecoveryRequired", reason: "StaleDirty" } as const];
      expect(next({ intents: stopped }, { cascade: "conflicted" })).toBe("kk repair tests");
      const diverged = [{ ...move, state: "TopologyDiverged", reason: "backward" } as const];
      expect(next({ intents: diverged }, { cascade: "conflicted" })).toBe(
        "the agent may work on, on its old base; kk repair tests shows the ways to the new one",
      );
      const both = [...diverged, ...stopped];
      expect(next({ intents: both }, { cascade: "conflicted" })).toBe("kk repair tests");
    });

    test("what this version cannot mend → how to go on without losing anything", () => {
      const crashed = [{ kind: "agent-crashed", message: "signal 9" }];
      expect(next({ attention: crashed }, { agent: "blocked" })).toEndWith(anew);
      expect(next({}, { agent: null })).toEndWith(anew);
      const gone = [{ issue: "WorkspaceDirectoryMissing", message: "no folder" } as const];
      expect(next({ issues: gone })).toBe(`put the folder back, or go on in a new thread: ${anew}`);
    });
  });

  test("session and folder gone → an issue line each, by the glossary's names", () => {
    const issues = [
      { issue: "WorkspaceDirectoryMissing", message: "there is no folder /w" },
      { issue: "SessionMissing", message: "there is no tmux session kk-tests" },
    ] as const;
    const text = plain(state({ issues }));
    expect(text).toContain("issue       ! WorkspaceDirectoryMissing: there is no folder /w");
    expect(text).toContain("issue       ! SessionMissing: there is no tmux session kk-tests");
  });

  test("without colour: every state of each vocabulary → a page of its own, no escape", () => {
    const pages = [
      LIFECYCLES.map((lifecycle) => plain(state({}, { lifecycle }))),
      CASCADE_STATUSES.map((cascade) => plain(state({}, { cascade }))),
      [...AGENT_DISPLAY_STATES, null].map((agent) => plain(state({}, { agent }))),
    ];
    for (const group of pages) {
      expect(new Set(group).size).toBe(group.length);
      for (const page of group) expect(page).not.toContain("\u001b");
    }
  });
});
