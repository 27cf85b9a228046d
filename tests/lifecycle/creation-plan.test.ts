/** The plan of `kk new`: what a person is shown, and everything that is refused before anything is made. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { KikiError } from "../../src/core/errors.ts";
import type { CreateInput } from "../../src/lifecycle/creation-deps.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, Rig } from "./rig.ts";

const folder = tempDir("creation-plan");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

async function refusal(input: CreateInput): Promise<string> {
  try {
    await rig.creation.plan(input);
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    expect(error.message).not.toContain("\n");
    return `${error.code}: ${error.message} — ${error.hint ?? ""}`;
  }
  return "not refused";
}

describe("plan: text", () => {
  test("plan: thread without parent → says what, where, from which commit and why, at most 80 columns", async () => {
    const { text } = await rig.creation.plan(inputFor("Parser: numbers"));
    const base = rig.jj.at("default")!.slice(0, 12);
    expect(text).toBe(
      [
        'New thread "Parser: numbers"',
        "",
        "  repo       /src/calc",
        "  follows    no other thread",
        `  base       ${base} (no description)`,
        "             default@, the working copy: no trunk, nothing below it",
        "",
        "Created",
        "  workspace  /src/calc-kiki-parser-numbers",
        "             jj workspace kk-parser-numbers, usable by git as well",
        '  change     one empty change on the base, described "Parser: numbers"',
        "  bookmark   kk/parser-numbers, on that change",
        "  session    kk-aaaaaaaa-parser-numbers, default tmux server",
        "             two panes: the agent and /bin/bash",
        "",
        "Agent",
        "  harness    claude-code 2.1.332",
        "  program    /usr/bin/claude",
        "  arguments  none of yours",
        "  settings   kiki's own hooks, generated outside the workspace; your files are",
        "             not changed",
        "  variables  2 of your shell's, from a fixed list of names",
        "  prompt     write the lexer",
        "",
        "If a step fails, the steps before it are undone in reverse order and the thread",
        "stays listed as CreateFailed with the reason. A folder that holds anything you",
        "or an agent wrote is kept.",
        "",
      ].join("\n"),
    );
  });

  test("plan: long prompt with escape sequences → wrapped, cut with a count, nothing that moves a cursor", async () => {
    const prompt = `\x1b[31mred\x07 ${"several words ".repeat(90)}\nsecond\tline`;
    const { text } = await rig.creation.plan(inputFor("x1", { prompt }));
    expect(text).toMatch(/… and \d+ more lines/);
    expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
    for (const line of text.split("\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(80);
  });

  test("plan: planned twice → the same digest; any argument changed → another one", async () => {
    const input = inputFor("parser");
    const { digest } = await rig.creation.plan(input);
    expect((await rig.creation.plan({ ...input })).digest).toBe(digest);
    expect(
      (await rig.creation.plan({ ...input, repo: { folder: "/x" } } as CreateInput)).digest,
    ).toBe(digest);
    const changes: Partial<CreateInput>[] = [
      { prompt: "another" },
      { harnessArgs: ["--model", "opus"] },
      { env: { PATH: "/bin" } },
      { columns: 100 },
      { shell: "/bin/zsh" },
    ];
    for (const change of changes) {
      expect((await rig.creation.plan({ ...input, ...change })).digest).not.toBe(digest);
    }
  });

  test("plan: base rewritten meanwhile → another digest", async () => {
    const { digest } = await rig.creation.plan(inputFor("parser"));
    rig.jj.amend("default", { "a.txt": "1" });
    expect((await rig.creation.plan(inputFor("parser"))).digest).not.toBe(digest);
  });

  test("plan: unrelated operations elsewhere → the same digest", async () => {
    const { digest } = await rig.creation.plan(inputFor("parser"));
    rig.jj.personBookmark("elsewhere", rig.jj.at("default")!);
    expect((await rig.creation.plan(inputFor("parser"))).digest).toBe(digest);
  });

  test("plan: made → nothing was changed anywhere", async () => {
    const before = rig.jj.head;
    await rig.creation.plan(inputFor("parser"));
    expect([rig.jj.head, rig.jj.made, rig.tmux.made, rig.files.below("/state")]).toEqual([
      before,
      [],
      [],
      [],
    ]);
  });
});

describe("plan: names", () => {
  const nameOf = async (input: CreateInput): Promise<string> =>
    (await rig.creation.plan(input)).names.name;

  test("plan: no name, a prompt → slug of its first words", async () => {
    expect(await nameOf(inputFor(null, { prompt: "Fix the Über-lexer, please: now" }))).toBe(
      "fix-the-uber-lexer-please-now",
    );
  });

  test("plan: neither name nor usable prompt → unnamed-<6 hex>, the same when planned again", async () => {
    const name = await nameOf(inputFor(null, { prompt: null }));
    expect(name).toMatch(/^unnamed-[0-9a-f]{6}$/);
    expect(await nameOf(inputFor(null, { prompt: null }))).toBe(name);
    expect(await nameOf(inputFor(null, { prompt: "日本語" }))).toMatch(/^unnamed-[0-9a-f]{6}$/);
  });

  test("plan: name of an earlier thread → -2 everywhere, and the plan says so", async () => {
    await rig.made(inputFor("parser"));
    const { names, text } = await rig.creation.plan(inputFor("parser"));
    expect(names).toMatchObject({ name: "parser-2", slug: "parser-2", bookmark: "kk/parser-2" });
    expect(text).toContain('"parser" is taken, so this one is "parser-2"');
  });

  test("plan: name with only punctuation → refused", async () => {
    expect(await refusal(inputFor("?!"))).toContain("name-empty");
  });
});

describe("plan: base", () => {
  const baseOf = async (more: Partial<CreateInput>): Promise<string> =>
    (await rig.creation.plan(inputFor("t", more))).args.base;

  test("plan: trunk exists → trunk()", async () => {
    const trunk = rig.jj.personCommit("0".repeat(40), "trunk");
    rig.jj.personBookmark("main", trunk);
    expect(await baseOf({})).toBe(trunk);
  });

  test("plan: no trunk → the invoking workspace's @-, or its @ when nothing is below", async () => {
    expect(await baseOf({})).toBe(rig.jj.at("default")!);
    const below = rig.jj.personCommit("0".repeat(40), "below");
    rig.jj.personWorkspace("other", "/src/other", [below]);
    expect(await baseOf({ folder: "/src/other/deep/down" })).toBe(below);
  });

  test("plan: no trunk, @ is a merge → asks for --base", async () => {
    const a = rig.jj.personCommit("0".repeat(40), "a");
    const b = rig.jj.personCommit("0".repeat(40), "b");
    rig.jj.personWorkspace("merged", "/src/merged", [a, b]);
    expect(await refusal(inputFor("t", { folder: "/src/merged" }))).toContain("pass --base");
  });

  test("plan: --base with one commit, @ of the invoking workspace → that commit", async () => {
    expect(await baseOf({ base: "@" })).toBe(rig.jj.at("default")!);
  });

  test("plan: --base naming none or several commits → base-not-one-commit with what it names", async () => {
    rig.jj.personCommit("0".repeat(40), "a");
    expect(await refusal(inputFor("t", { base: "none()" }))).toContain("names no commit");
    expect(await refusal(inputFor("t", { base: "all()" }))).toMatch(
      /base-not-one-commit.*names 3 commits/,
    );
  });

  test("plan: --base that jj does not understand → jj's own words", async () => {
    expect(await refusal(inputFor("t", { base: "nope" }))).toContain(
      "Revision `nope` doesn't exist",
    );
  });

  test("plan: folder outside every workspace and no trunk → no-workspace", async () => {
    expect(await refusal(inputFor("t", { folder: "/elsewhere" }))).toContain("no-workspace");
  });
});

describe("plan: follows", () => {
  test("plan: parent named by a unique prefix → its exact @ is the base, and shown", async () => {
    const parent = await rig.made(inputFor("parser"));
    const { args, text } = await rig.creation.plan(inputFor("tests", { follows: "par" }));
    expect(args).toMatchObject({ follows: parent.threadId, base: rig.jj.at("kk-parser") });
    expect(text).toContain('follows    "parser"');
    expect(text).toContain('the working copy (@) of "parser"');
  });

  test("plan: given inside a thread → follows it; --no-follow → does not", async () => {
    const parent = await rig.made(inputFor("parser"));
    const inside = inputFor("tests", { contextThread: parent.threadId });
    expect((await rig.creation.plan(inside)).args.follows).toBe(parent.threadId);
    expect((await rig.creation.plan({ ...inside, noFollow: true })).args.follows).toBeNull();
    const foreign = inputFor("tests", { contextThread: "of another repository" });
    expect((await rig.creation.plan(foreign)).args.follows).toBeNull();
  });

  test("plan: unknown parent → unknown-thread with a near name, else the names there are", async () => {
    expect(await refusal(inputFor("t", { follows: "x" }))).toContain("there are no threads yet");
    await rig.made(inputFor("parser"));
    expect(await refusal(inputFor("t", { follows: "prser" }))).toContain('did you mean "parser"?');
    expect(await refusal(inputFor("t", { follows: "zebra" }))).toContain('threads: "parser"');
  });

  test("plan: prefix of two threads → ambiguous-thread with both", async () => {
    await rig.made(inputFor("parser"));
    await rig.made(inputFor("pages"));
    expect(await refusal(inputFor("t", { follows: "pa" }))).toMatch(
      /ambiguous-thread: .*parser.*pages/,
    );
  });

  test("plan: parent that is not Active → parent-not-active with its state", async () => {
    rig.agent = "exit-1";
    await rig.made(inputFor("parser"));
    expect(await refusal(inputFor("t", { follows: "parser" }))).toContain("is CreateFailed");
  });

  test("plan: --follows with --no-follow or --base → refused", async () => {
    const parent = await rig.made(inputFor("parser"));
    expect(await refusal(inputFor("t", { follows: "parser", noFollow: true }))).toContain(
      "follow-options",
    );
    expect(await refusal(inputFor("t", { follows: "parser", base: "@" }))).toContain(
      "give one of the two",
    );
    expect(await refusal(inputFor("t", { contextThread: parent.threadId, base: "@" }))).toContain(
      "--no-follow",
    );
  });
});

describe("plan: harness", () => {
  test("plan: harness nobody knows → error naming both", async () => {
    expect(await refusal(inputFor("t", { harness: "vim" }))).toContain(
      "--harness is claude-code or codex",
    );
  });

  test("plan: codex → like any other, and its settings are part of what a person agrees to", async () => {
    const digest = async (): Promise<string> =>
      (await rig.creation.plan(inputFor("t", { harness: "codex" }))).digest;
    const before = await digest();
    expect(await digest()).toBe(before);
    rig.codex = { boundary: "restart", auth: "copy" };
    expect(await digest()).not.toBe(before);
  });

  test("plan: executable not found → says how to go on", async () => {
    expect(await refusal(inputFor("t", { harnessExecutable: null }))).toContain(
      "claude-code not on PATH — install it or pass --harness codex",
    );
  });

  test("plan: argument that touches settings → harness-arg", async () => {
    expect(await refusal(inputFor("t", { harnessArgs: ["--settings=x"] }))).toContain(
      "harness-arg",
    );
  });

  test("plan: hooks that cannot be proved exclusive, or no way to deliver → harness-unsupported", async () => {
    rig.harness.can = { exclusive_pre_tool_use: false };
    expect(await refusal(inputFor("t"))).toContain("cannot prove that its hook is the only one");
    rig.harness.can = { parallel_batch_boundary: false, restart_startup_delivery: false };
    expect(await refusal(inputFor("t"))).toContain("no proven way");
  });
});

describe("plan: texts that no program takes as one argument", () => {
  // Linux: one argument has at most 131,071 bytes; a NUL ends it.
  const cases: [string, CreateInput][] = [
    ["prompt-too-long", inputFor("t", { prompt: "é".repeat(66_000) })],
    ["name-too-long", inputFor("n".repeat(140_000))],
    ["text-with-nul", inputFor("t", { prompt: "a\0b" })],
    ["text-with-nul", inputFor("a\0b")],
  ];
  for (const [code, input] of cases) {
    test(`plan: ${JSON.stringify(input.name).slice(0, 8)}, prompt ${input.prompt?.length} characters → ${code}`, async () => {
      expect(await refusal(input)).toStartWith(`${code}: `);
    });
  }

  test("plan: name of 400 characters, prompt of 90 KB → accepted", async () => {
    const { names } = await rig.creation.plan(
      inputFor("語xyz".repeat(100), { prompt: "w ".repeat(45_000) }),
    );
    expect(names.name).toBe("語xyz".repeat(100));
  });
});

describe("plan: what is in the way", () => {
  const cases: [string, () => void][] = [
    ["workspace-path-exists", () => rig.files.makeFolders("/src/calc-kiki-t")],
    ["workspace-exists", () => rig.jj.personRecord("kk-t", "/x", rig.jj.at("default")!)],
    ["bookmark-exists", () => rig.jj.personBookmark("kk/t", rig.jj.at("default")!)],
    [
      "session-exists",
      () => rig.tmux.sessions.push({ id: "$9", name: "kk-aaaaaaaa-t", attached: 0, tags: {} }),
    ],
    ["tmux-unknown", () => (rig.tmux.mute = true)],
  ];
  for (const [code, arrange] of cases) {
    test(`plan: ${code} → refused by that name`, async () => {
      arrange();
      expect(await refusal(inputFor("t"))).toStartWith(`${code}: `);
    });
  }
});
