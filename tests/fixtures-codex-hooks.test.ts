/**
 * The hooks and calls of the stand-in for Codex CLI, as measured on 0.171.0: what refuses, what fails open, who is
 * trusted, what runs beside what. Asserted from outside, like tests/fixtures-codex.test.ts.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  codexWorld,
  deny,
  exec,
  patch,
  removeCodexWorlds,
  say,
  use,
  type CodexWorld,
  type Json,
} from "./support/codex-world.ts";

afterAll(removeCodexWorlds, 10_000);

const edited =
  (what: string | RegExp, to: string) =>
  (made: CodexWorld, settings: string): void =>
    writeFileSync(made.config, settings.replace(what, to));
const switchedOff =
  (file: string) =>
  (made: CodexWorld): void => {
    mkdirSync(dirname(join(made.dir, file)), { recursive: true });
    writeFileSync(join(made.dir, file), "[features]\nhooks = false\n");
  };

describe("hooks", () => {
  test("refusals: every form a hook can answer in → blocked, or open", async () => {
    const allow = deny("").replace('"deny"', '"allow"');
    const specific = (more: Json) =>
      JSON.stringify({ hookSpecificOutput: { hookEventName: "PreToolUse", ...more } });
    const cases: [id: string, shell: string, reason: string | null][] = [
      ["json", `printf '%s' '${deny(" a\nb ")}'`, "a\nb"],
      ["legacy", `echo '{"decision":"block","reason":"old"}'`, "old"],
      ["exit2", `echo ignored; printf ' said\\n' >&2; exit 2`, "said"],
      ["wrapper", `/none/such 2>/dev/null || { echo refused >&2; exit 2; }`, "refused"],
      ["exit2-silent", `exit 2`, null],
      ["exit1", `printf '%s' '${deny("x")}'; exit 1`, null],
      ["killed", `kill -9 $$`, null],
      ["missing", `/none/such`, null],
      ["text", `echo hello`, null],
      ["broken", `echo '{"hookSpec'`, null],
      ["two", `echo '{"decision":"block","reason":"x"}{}'`, null],
      ["blank", `echo '${deny("  ")}'`, null],
      ["no-event", `echo '{"hookSpecificOutput":{"permissionDecision":"deny"}}'`, null],
      ["unknown-field", `echo '{"decision":"block","reason":"x","more":1}'`, null],
      ["ask", `echo '${deny("x").replace('"deny"', '"ask"')}'`, null],
      ["bare-allow", `echo '${allow}'`, null],
      ["stop", `echo '{"continue":false}'`, null],
      ["late", `echo late >&2; sleep 9; exit 2`, null],
      // Whoever still holds its output keeps it from being over.
      ["held", `sleep 9 & echo held >&2; exit 2`, null],
      [
        "rewrite",
        `echo '${specific({ permissionDecision: "allow", updatedInput: { command: "echo new" } })}'`,
        null,
      ],
    ];
    const all = cases.map(([id, shell]) => `*'echo ${id}"'*) ${shell};;`);
    const made = codexWorld({
      preToolUse: [
        { command: `case $(cat) in ${all.join("\n")} esac`, timeout: 1, matcher: "^Ba" },
        // Not the name hooks know the tool by.
        { command: "exit 2", matcher: "bash|exec" },
      ],
    });
    await made.run("exec", made.scenario([cases.map(([id]) => exec(id, `echo ${id}`))]));
    for (const [id, , reason] of cases) {
      const told = made.result(id) ?? "";
      const ran = `Output:\n${id === "rewrite" ? "new" : id}\n`;
      const expected =
        reason === null
          ? ran
          : `Command blocked by PreToolUse hook: ${reason}. Command: echo ${id}`;
      expect([id, reason === null ? told.slice(told.indexOf("Output:")) : told]).toEqual([
        id,
        expected,
      ]);
    }
  });

  test("several refusals: the first configured one is told, whichever comes first", async () => {
    const slow = { command: "sleep 0.3; echo slow >&2; exit 2" };
    const made = codexWorld({ preToolUse: [slow, { command: "echo fast >&2; exit 2" }] });
    await made.run("exec", made.scenario([[exec("c", "true")]]));
    expect(made.result("c")).toBe("Command blocked by PreToolUse hook: slow. Command: true");
  });

  const blocking = { preToolUse: [{ command: "echo no >&2; exit 2" }] };
  /** What a test changes before the start, the words of the start, whether the hook runs, what hooks/list says. */
  const trusting: [
    name: string,
    change: (made: CodexWorld, settings: string) => void,
    args: string[],
    runs: boolean,
    listed: unknown[] | undefined,
  ][] = [
    ["trusted", () => undefined, [], true, ["trusted", true]],
    ["changed", edited("echo no", "echo No"), [], false, ["modified", true]],
    ["unknown", edited(/trusted_hash = .*/g, ""), [], false, ["untrusted", true]],
    [
      "changed, trust bypassed",
      edited("echo no", "echo No"),
      ["--dangerously-bypass-hook-trust"],
      true,
      ["modified", true],
    ],
    [
      "disabled",
      edited(/(pre_tool_use:0:0"\]\n)/, "$1enabled = false\n"),
      [],
      false,
      ["trusted", false],
    ],
    [
      "switched off by a trusted project",
      switchedOff("project/.codex/config.toml"),
      [],
      false,
      undefined,
    ],
    [
      "switched off by a trusted project, on by the command line",
      switchedOff("project/.codex/config.toml"),
      ["--enable", "hooks"],
      true,
      ["trusted", true],
    ],
    [
      "switched off by an administrator",
      switchedOff("etc/requirements.toml"),
      ["--enable", "hooks"],
      false,
      undefined,
    ],
  ];
  test.each(trusting)(
    "trust: hook %s → runs only when it should, without a word",
    async (_, change, args, runs, listed) => {
      const made = codexWorld(blocking);
      change(made, readFileSync(made.config, "utf8"));
      const [, hooks] = await Promise.all([
        made.run("exec", ...args, made.scenario([[exec("c", "true")]])),
        made.listed(...args.filter((word) => !word.includes("bypass"))),
      ]);
      expect((made.result("c") ?? "").startsWith("Command blocked")).toBe(runs);
      const found = hooks.find((hook) => hook["eventName"] === "preToolUse");
      expect(found === undefined ? undefined : [found["trustStatus"], found["enabled"]]).toEqual(
        listed,
      );
    },
  );

  test("hooks of others: project's only when trusted, and with a hash; managed always", async () => {
    const made = codexWorld();
    mkdirSync(join(made.project, ".codex"));
    const hook = { hooks: { PreToolUse: [{ hooks: [{ type: "command", command: "true" }] }] } };
    writeFileSync(join(made.project, ".codex/hooks.json"), JSON.stringify(hook));
    writeFileSync(join(made.dir, "etc/hooks.json"), JSON.stringify(hook));
    const foreign = async () =>
      (await made.listed())
        .filter(({ source }) => source !== "user")
        .map((entry) => [entry["sourcePath"], entry["isManaged"], entry["trustStatus"]]);
    const managed = [join(made.dir, "etc/hooks.json"), true, "managed"];
    expect(await foreign()).toEqual([
      managed,
      [join(made.project, ".codex/hooks.json"), false, "untrusted"],
    ]);
    made.configure({ trustFolder: false });
    expect(await foreign()).toEqual([managed]);
    writeFileSync(join(made.dir, "etc/requirements.toml"), "allow_managed_hooks_only = true\n");
    expect((await made.listed()).map(({ source }) => source)).not.toContain("user");
  });

  test("spawning: hook → login shell, session of its own, no terminal, the session's folder", async () => {
    const made = codexWorld();
    made.rules(made.when("PreToolUse", "", `{ pwd; ps -o pgid=,sid=,tty= -p $$; } > "$1/seen"`));
    const child = made.start(["exec", made.scenario([[exec("c", "env")]])]);
    await child.exited;
    const [folder, ids] = readFileSync(join(made.dir, "seen"), "utf8").split("\n");
    const [group, session, tty] = ids!.trim().split(/\s+/);
    expect([folder, tty, group]).toEqual([made.project, "?", session]);
    expect(session).not.toBe(String(child.pid));
    const env = made.result("c") ?? "";
    const id = String(made.hooks[0]?.["session_id"]);
    for (const line of ["CODEX_TOOL_CALL_ID=c", `CODEX_THREAD_ID=${id}`, "TERM=dumb"]) {
      expect(env).toContain(`${line}\n`);
    }
  });

  test("Stop and UserPromptSubmit that block → another round in the same turn; no request", async () => {
    const made = codexWorld();
    const once = `[ -e "$1/once" ] || { touch "$1/once"; echo '{"decision":"block","reason":"go on"}'; }`;
    made.rules(
      made.when("Stop", "", once),
      made.when("UserPromptSubmit", "FORBIDDEN", `echo no >&2; exit 2`),
      made.when("UserPromptSubmit", "SCENARIO", `echo some context`),
    );
    await made.run("exec", made.scenario([[say("one")], [say("two")]]));
    const stops = made
      .ofEvent("Stop")
      .map((hook) => [hook["stop_hook_active"], hook["last_assistant_message"]]);
    expect(stops).toEqual([
      [false, "one"],
      [true, "two"],
    ]);
    expect(new Set(made.ofEvent("Stop").map((hook) => hook["turn_id"])).size).toBe(1);
    const record = JSON.stringify(made.rollout);
    expect(record).toContain(">go on</hook_prompt>");
    expect(record).toContain("some context");
    await made.run("exec", "FORBIDDEN");
    expect(made.ofEvent("Stop")).toHaveLength(2);
  });

  test("PostToolUse that blocks → its reason is the output", async () => {
    const made = codexWorld();
    made.rules(made.when("PostToolUse", "", `echo '{"decision":"block","reason":"instead"}'`));
    await made.run("exec", made.scenario([[exec("c", "echo x")]]));
    expect(made.result("c")).toBe("instead");
  });
});

describe("calls", () => {
  test("one response: commands side by side, a patch alone, and its hook with it", async () => {
    const made = codexWorld();
    made.rules(made.when("PreToolUse", "", "sleep 0.1"));
    const batch = [
      exec("e1", "sleep 0.2"),
      exec("e2", "sleep 0.2"),
      patch("p1", "*** Add File: one.txt", "+1"),
      use("p2", "Write", { file_path: "two.txt", content: "2\n" }),
      exec("e3", "cat one.txt two.txt"),
    ];
    await made.run("exec", made.scenario([batch]));
    const spans = new Map(
      batch.map(({ id }) => {
        const at = (kind: string) =>
          Number(made.ofKind(kind).find((event) => event["tool_use_id"] === id)?.["t"]);
        return [id, { from: at("pre_start"), to: at("tool_end") }];
      }),
    );
    const overlap = (a: string, b: string): boolean => {
      const [one, two] = [spans.get(a)!, spans.get(b)!];
      return one.from < two.to && two.from < one.to;
    };
    expect(overlap("e1", "e2")).toBe(true);
    for (const [a, b] of ["e1 p1", "e2 p1", "p1 p2", "p2 e3"].map((pair) => pair.split(" "))) {
      expect([a, b, overlap(a!, b!)]).toEqual([a, b, false]);
    }
    expect(made.result("e3")).toEndWith("Output:\n1\n2\n");
    expect(readFileSync(join(made.project, "two.txt"), "utf8")).toBe("2\n");
  });

  test("a call of a response that still streams → runs before the response is complete", async () => {
    const made = codexWorld();
    const early = join(made.project, "early");
    const prompt = made.scenario([
      [exec("c", `touch ${early}`), { type: "wait_file", path: early }, say("x")],
    ]);
    await made.run("exec", prompt);
    expect(made.ofKind("response_end")[0]).toMatchObject({ calls: ["c"] });
  });

  test("patches: update, move, delete → done as a whole, or not at all", async () => {
    const made = codexWorld();
    writeFileSync(join(made.project, "a.txt"), "one\ntwo\nthree\n");
    writeFileSync(join(made.project, "b.txt"), "b\n");
    const change = ["*** Update File: a.txt", "@@", " one", "-two", "+2"];
    await made.run(
      "exec",
      made.scenario([
        [patch("bad", ...change, "*** Delete File: gone")],
        [patch("miss", "*** Update File: a.txt", "@@", "-nope", "+x")],
        [
          patch(
            "good",
            ...change,
            "*** Update File: b.txt",
            "*** Move to: c/b.txt",
            "@@",
            "-b",
            "+B",
          ),
        ],
        [use("edit", "Edit", { file_path: "a.txt", old_string: "three", new_string: "3\n4" })],
      ]),
    );
    expect(made.result("bad")).toContain("verification failed: Failed to read");
    expect(made.result("miss")).toBe(
      `apply_patch verification failed: Failed to find expected lines in ${made.project}/a.txt:\nnope`,
    );
    expect(made.result("good")).toEndWith(
      "Success. Updated the following files:\nM a.txt\nM c/b.txt\n",
    );
    expect(readFileSync(join(made.project, "a.txt"), "utf8")).toBe("one\n2\n3\n4\n");
    expect(readFileSync(join(made.project, "c/b.txt"), "utf8")).toBe("B\n");
    expect(existsSync(join(made.project, "b.txt"))).toBe(false);
  });

  test("long refusal: above the model's limit → head and tail; the record has it whole", async () => {
    const long = "x".repeat(60_000);
    for (const [top, told] of [
      ["", 48_000],
      ["tool_output_token_limit = 100000", 60_000],
    ] as const) {
      const made = codexWorld({ top });
      writeFileSync(join(made.dir, "long.json"), deny(long));
      made.rules(made.when("PreToolUse", "", `cat '${made.dir}/long.json'`));
      await made.run("exec", made.scenario([[exec("c", "true")]]));
      const text = made.result("c") ?? "";
      expect(text.length).toBeGreaterThanOrEqual(told);
      expect(text.length).toBeLessThan(told + 100);
      expect(text.includes("tokens truncated…")).toBe(told < 60_000);
      expect(JSON.stringify(made.rollout)).toContain(long);
    }
  });
});
