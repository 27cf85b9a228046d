/**
 * The stand-in for Claude Code and the scripted model server: what kiki's other tests rely on.
 * Everything is asserted from outside: hook payloads as a hook receives them, files, exit codes.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "../fixtures/agents/claude-code/args.ts";
import { parseScenario } from "../fixtures/agents/common/scenario.ts";
import { processesMentioning } from "../scripts/leftovers.ts";
import {
  lastToolResults,
  messageText,
  startModelServer,
} from "../fixtures/model-servers/claude.ts";

const CLAUDE = join(dirname(import.meta.dir), "fixtures", "agents", "claude");
const WAIT_MS = 8_000;

type Json = Record<string, unknown>;
const root = realpathSync(mkdtempSync(join(tmpdir(), "kiki-test-claude-")));
let worlds = 0;

/** The hook of these tests: keeps every payload, then does what the test's rules say. */
const HOOK = `#!/bin/sh
IFS= read -r payload
printf '%s\\n' "$payload" >> "$1/hooks.ndjson"
. "$1/rules"
`;

async function waitFor<T>(what: string, look: () => T | undefined | false): Promise<T> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`did not happen: ${what}`);
    await Bun.sleep(20);
  }
}

function readLines(path: string): Json[] {
  if (!existsSync(path)) return [];
  const complete = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return complete.map((line) => JSON.parse(line) as Json);
}

const deny = (reason: string): string =>
  JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: reason,
    },
  });

/** A home, a project, a settings file with the recording hook on every event. */
class World {
  readonly dir = join(root, `w${++worlds}`);
  readonly config = join(this.dir, "config");
  readonly project = join(this.dir, "project");
  readonly log = join(this.dir, "events.ndjson");
  readonly #hook = join(this.dir, "hook");

  constructor() {
    for (const folder of ["config", "project", "home", "tmp"]) {
      mkdirSync(join(this.dir, folder), { recursive: true });
    }
    writeFileSync(this.#hook, HOOK);
    chmodSync(this.#hook, 0o755);
    this.rules("");
    this.settings();
    writeFileSync(join(this.project, "a.txt"), "one\ntwo\n");
  }

  /** Shell that runs in the hook with $payload; may print a verdict and exit. */
  rules(shell: string): void {
    writeFileSync(join(this.dir, "rules"), `${shell}\n`);
  }

  /** A rule: when the payload is of `event` and contains `text`, run `shell`. */
  when(event: string, text: string, shell: string): string {
    return `case $payload in *'"hook_event_name":"${event}"'*'${text}'*) ${shell};; esac`;
  }

  settings(hooks: Json = {}): void {
    const events = [
      ..."PreToolUse PostToolUse PostToolUseFailure PostToolBatch UserPromptSubmit".split(" "),
      ..."SessionStart SessionEnd Stop SubagentStart SubagentStop Notification".split(" "),
    ];
    const hook = { type: "command", command: this.#hook, args: [this.dir] };
    const all = events.map((event) => [event, [{ hooks: [hook] }]]);
    this.write(
      "settings.json",
      JSON.stringify({ hooks: { ...Object.fromEntries(all), ...hooks } }),
    );
  }

  write(name: string, text: string): string {
    const path = join(this.dir, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  scenario(responses: unknown[], more: Json = {}): string {
    const json = JSON.stringify({ log: this.log, responses, ...more });
    return `SCENARIO:${this.write("scenario.json", json)}`;
  }

  get hooks(): Json[] {
    return readLines(join(this.dir, "hooks.ndjson"));
  }

  ofEvent(event: string): Json[] {
    return this.hooks.filter((hook) => hook["hook_event_name"] === event);
  }

  get eventNames(): string[] {
    return this.hooks.map((hook) => String(hook["hook_event_name"]));
  }

  get events(): Json[] {
    return readLines(this.log);
  }

  ofKind(kind: string): Json[] {
    return this.events.filter((event) => event["kind"] === kind);
  }

  /** What the model got for a call. */
  result(id: string): string | undefined {
    const found = this.ofKind("result").find((event) => event["tool_use_id"] === id);
    return found?.["result"] as string | undefined;
  }

  start(args: string[], options: { stdin?: "pipe"; env?: Json; bare?: boolean } = {}) {
    const own = options.bare === true ? [] : ["--settings", join(this.dir, "settings.json")];
    return Bun.spawn([CLAUDE, ...own, ...args], {
      cwd: this.project,
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: join(this.dir, "home"),
        CLAUDE_CONFIG_DIR: this.config,
        CLAUDE_CODE_TMPDIR: join(this.dir, "tmp"),
        ...options.env,
      },
      stdin: options.stdin ?? "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
  }

  /** One --print run to its end. */
  async run(args: string[], options: { env?: Json; bare?: boolean } = {}) {
    const child = this.start(args, options);
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { code, out, err: err.trim() };
  }

  print(prompt: string, ...args: string[]) {
    return this.run(["-p", prompt, "--setting-sources", "", ...args]);
  }

  /** An interactive session over pipes: every line written is typed. */
  interactive(prompt: string, ...args: string[]) {
    const child = this.start([prompt, "--setting-sources", "", ...args], { stdin: "pipe" });
    const { stdin } = child;
    if (stdin === undefined) throw new Error("no stdin");
    return {
      child,
      type: (typed: string) => {
        void stdin.write(typed);
        void stdin.flush();
      },
      end: async () => {
        void stdin.end();
        return await child.exited;
      },
    };
  }

  hook(event: string, contains: string): Promise<Json> {
    return waitFor(`${event} with ${contains}`, () =>
      this.ofEvent(event).find((hook) => JSON.stringify(hook).includes(contains)),
    );
  }

  /** The `n`th turn has ended, its Stop hooks included: what is typed now is the next prompt. */
  idle(n: number): Promise<unknown> {
    return waitFor(`turn ${n} has ended`, () => this.ofKind("stop_end").length >= n);
  }

  get records(): string[] {
    const projects = join(this.config, "projects");
    if (!existsSync(projects)) return [];
    return readdirSync(projects, { recursive: true })
      .map((path) => join(projects, String(path)))
      .filter((path) => path.endsWith(".jsonl"));
  }
}

const callsOf = (batch: Json | undefined): Json[] => (batch?.["tool_calls"] ?? []) as Json[];
const text = (said: string, more: Json = {}) => ({ type: "text", text: said, ...more });
const use = (name: string, input: Json, more: Json = {}) => ({
  type: "tool_use",
  name,
  input,
  ...more,
});
const sh = (command: string, more: Json = {}) => use("Bash", { command, description: "d" }, more);

afterAll(async () => {
  try {
    await waitFor("every process has ended", () => processesMentioning(root).length === 0);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}, WAIT_MS + 2_000);

describe("command line", () => {
  test("claude: --version → as the real one prints it", async () => {
    const world = new World();
    const { code, out } = await world.run(["--version"], { bare: true });
    expect([code, out]).toEqual([0, "2.1.332 (Claude Code)\n"]);
  });

  test("claude: what it cannot start with → one line on stderr, code 1, no session", async () => {
    const world = new World();
    const refused: [string[], string][] = [
      [["--bogus"], "error: unknown option '--bogus'"],
      [["--settings", "/none.json"], "Error: Settings file not found: /none.json"],
      [["--resume", crypto.randomUUID()], "No conversation found with session ID: "],
      [
        ["--append-system-prompt-file", "/none"],
        "Error: Append system prompt file not found: /none",
      ],
    ];
    await Promise.all(
      refused.map(async ([args, message]) => {
        const result = await world.run(["-p", "hi", ...args], { bare: true });
        expect(result).toMatchObject({ code: 1, out: "" });
        expect(result.err).toStartWith(message);
        expect(result.err.split("\n")).toHaveLength(1);
      }),
    );
    expect(world.records).toEqual([]);
  });

  const malformed: [string, string[], string][] = [
    ["no value", ["--add-dir"], "error: option '--add-dir <directories...>' argument missing"],
    ["bad mode", ["--permission-mode", "zork"], "Allowed choices are acceptEdits, auto,"],
    ["bad source", ["--setting-sources", "none"], "Valid options are: user, project, local"],
    ["two prompts", ["a", "b"], "error: too many arguments. Expected 1 argument but got 2."],
  ];
  test.each(malformed)("arguments: %s → refused in the words of 2.1.332", (_, args, message) => {
    expect(() => parseArgs(args)).toThrow(message);
  });

  test("arguments: every way to write an option → understood", () => {
    const words = "-p --model=m --setting-sources user,local --allowed-tools A B --add-dir x y";
    expect(parseArgs([...words.split(" "), "--resume", "id", "-r", "--", "-prompt"])).toMatchObject(
      {
        print: true,
        model: "m",
        sources: ["user", "local"],
        addDirs: ["x", "y"],
        resume: "id",
        prompt: "-prompt",
      },
    );
    expect(parseArgs(["--setting-sources", ""])).toMatchObject({ sources: [], print: false });
  });

  test("claude: prompt after --add-dir <dir> → swallowed as one more directory", async () => {
    const world = new World();
    const { code, err } = await world.run(["-p", "--add-dir", world.project, "hello"]);
    expect([code, err]).toEqual([
      1,
      "Error: Input must be provided either through stdin or as a prompt argument when using --print",
    ]);
  });

  test("claude: bunfig.toml and .env in the folder → not taken in", async () => {
    const world = new World();
    writeFileSync(join(world.project, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
    writeFileSync(join(world.project, "preload.ts"), 'require("fs").writeFileSync("seen", "");\n');
    writeFileSync(join(world.project, ".env"), "FROM_DOTENV=1\n");
    await world.print(world.scenario([[sh("env", { id: "e" })]]));
    expect(existsSync(join(world.project, "seen"))).toBe(false);
    expect(world.result("e")).not.toContain("FROM_DOTENV");
  });

  test("claude: --append-system-prompt-file, --add-dir → known to the session", async () => {
    const world = new World();
    const file = world.write("briefing.md", "the briefing");
    const prompt = world.scenario([[text("hi")]]);
    await world.print(prompt, "--append-system-prompt-file", file, "--add-dir", "/x", "/y");
    const start = { append_system_prompt: "the briefing", add_dirs: ["/x", "/y"] };
    expect(world.ofKind("session_start")[0]).toMatchObject(start);
  });
});

describe("hooks", () => {
  test("payloads: every event of a turn → the fields of 2.1.332, in its order", async () => {
    const world = new World();
    const id = crypto.randomUUID();
    const batch = [use("Read", { file_path: "a.txt" }), sh("exit 3"), use("NoSuch", {})];
    await world.print(world.scenario([batch, [text("bye")]]), "--session-id", id);
    const common = "session_id transcript_path cwd prompt_id permission_mode effort";
    const start = "session_id transcript_path cwd hook_event_name source";
    const submit =
      "session_id transcript_path cwd prompt_id permission_mode hook_event_name prompt";
    const name = `${common} hook_event_name`;
    const call = `${name} tool_name tool_input`;
    const shapes = world.hooks.map((hook) => Object.keys(hook).join(" "));
    expect(shapes).toEqual([
      start,
      submit,
      `${call} tool_use_id`,
      `${call} tool_response tool_use_id duration_ms`,
      `${call} tool_use_id`,
      `${call} tool_use_id error is_interrupt duration_ms`,
      `${name} tool_calls`,
      `${name} stop_hook_active last_assistant_message background_tasks session_crons`,
      "session_id transcript_path cwd prompt_id hook_event_name reason",
    ]);
    const munged = world.project.replace(/[^A-Za-z0-9]/g, "-");
    expect(world.hooks[0]).toMatchObject({
      session_id: id,
      transcript_path: join(world.config, "projects", munged, `${id}.jsonl`),
      cwd: world.project,
      source: "startup",
    });
    expect(world.ofEvent("Stop")[0]).toMatchObject({ last_assistant_message: "bye" });
    const prompts = new Set(world.hooks.slice(1).map((hook) => hook["prompt_id"]));
    expect(prompts.size).toBe(1);
  });

  test("PostToolBatch: done, failed, denied and unknown calls → all listed in call order", async () => {
    const world = new World();
    world.rules(world.when("PreToolUse", "DENY", `printf '%s' '${deny("no")}'; exit 0`));
    const input = { file_path: "a.txt", old_string: "one", new_string: "1" };
    const batch = [
      use("Edit", input, { id: "edit" }),
      sh("cat missing", { id: "failing" }),
      sh("touch DENY", { id: "denied" }),
      use("NoSuch", {}, { id: "unknown" }),
      use("Write", { bad: 1 }, { id: "invalid" }),
    ];
    await world.print(world.scenario([batch, [text("bye")]]));
    const calls = callsOf(world.ofEvent("PostToolBatch")[0]);
    const answers = calls.map((call) => [call["tool_use_id"], call["tool_response"]]);
    expect(answers).toEqual([
      [
        "edit",
        // Not read before, so its state is not said to be known.
        `The file ${world.project}/a.txt has been updated successfully.`,
      ],
      ["failing", "Exit code 1\ncat: missing: No such file or directory"],
      ["denied", "PreToolUse:Bash hook error: no"],
      ["unknown", "<tool_use_error>Error: No such tool available: NoSuch</tool_use_error>"],
      ["invalid", expect.stringContaining("parameter `file_path` is missing") as unknown],
    ]);
    const before = world.ofEvent("PreToolUse").map((hook) => hook["tool_use_id"]);
    expect(before).toEqual(["edit", "failing", "denied"]);
    const after = world.hooks.filter((hook) =>
      String(hook["hook_event_name"]).startsWith("PostToolUse"),
    );
    expect(after.map((hook) => hook["tool_use_id"])).toEqual(["edit", "failing"]);
    expect(existsSync(join(world.project, "DENY"))).toBe(false);
  });

  test("environment: hook and tool → own process group, the variables of 2.1.332", async () => {
    const world = new World();
    const show = `env > "$1/env"; ps -o pgid=,sid= -p $$ > "$1/ids"; echo $$ >> "$1/ids"`;
    world.rules(world.when("PreToolUse", "", show));
    const env = { KIKI_THREAD: "t1" };
    const prompt = world.scenario([[sh("env", { id: "e" })]]);
    await world.run(["-p", prompt, "--setting-sources", ""], { env });
    const given = readFileSync(join(world.dir, "env"), "utf8").split("\n");
    const session = world.hooks[0]?.["session_id"];
    const expected = [
      "KIKI_THREAD=t1",
      "CLAUDECODE=1",
      `CLAUDE_PROJECT_DIR=${world.project}`,
      `CLAUDE_CODE_SESSION_ID=${session as string}`,
      "CLAUDE_CODE_ENTRYPOINT=sdk-cli",
    ];
    expect(given).toEqual(expect.arrayContaining(expected));
    expect(given.some((line) => /^CLAUDE_PID=\d+$/.test(line))).toBe(true);
    expect(world.result("e")?.split("\n")).toEqual(expect.arrayContaining(expected));
    const [group, sid, pid] = readFileSync(join(world.dir, "ids"), "utf8").trim().split(/\s+/);
    expect([group, sid]).toEqual([pid, pid]);
  });

  test("refusals: every form a hook can answer in → the bytes the model gets", async () => {
    const world = new World();
    const cases: [string, string, string, Json?][] = [
      ["json", `printf '%s' '${deny("line 1\nline 2 ")}'`, "line 1\nline 2 "],
      ["json3", `printf '%s' '${deny("x")}'; exit 3`, "x"],
      ["legacy", `echo '{"decision":"block","reason":"old"}'`, "old"],
      ["exit2", `printf 'said\\n' >&2; exit 2`, "[CMD]: said\n"],
      [
        "noreason",
        `echo '${deny("").replace(/,"permissionDecisionReason":""/, "")}'`,
        "Blocked by hook",
      ],
      ["fail", `echo bad >&2; exit 1`, '[CMD]: failed; blocking because onFailure is "block"\nbad'],
      [
        "killed",
        `kill -9 $$`,
        '[CMD]: failed; blocking because onFailure is "block"\nNo stderr output',
      ],
      ["runs-text", `echo hello`, ""],
      ["runs-broken", `echo '{"hookSpec'`, ""],
      ["runs-open", `exit 1`, "", { onFailure: undefined }],
      ["runs-allow", `echo '${deny("").replace('"deny"', '"allow"')}'`, ""],
    ];
    const commands = cases.map(([id, shell, , more]) => ({
      type: "command",
      command: `case $(cat) in *'echo ${id}"'*) ${shell};; esac`,
      onFailure: "block",
      ...more,
    }));
    world.settings({ PreToolUse: [{ matcher: "Bash|Write", hooks: commands }] });
    await world.print(world.scenario([cases.map(([id]) => sh(`echo ${id}`, { id }))]));
    for (const [i, [id, , reason]] of cases.entries()) {
      const command = commands[i]?.command ?? "";
      const told = reason === "" ? id : `PreToolUse:Bash hook error: ${reason}`;
      expect([id, world.result(id)]).toEqual([id, told.replace("CMD", () => command)]);
    }
  });

  test("refusals: schema breach, missing program, timeout with onFailure → blocked; without → runs", async () => {
    const world = new World();
    const wrong = { type: "command", command: `echo '{"decision":5}'` };
    const missing = { type: "command", command: "/none/hook", args: ["a b"] };
    const slow = { type: "command", command: "sleep 9", timeout: 0.2 };
    const onFailure = "block";
    world.settings({
      PreToolUse: [
        { matcher: "Bash", hooks: [{ ...wrong, onFailure }] },
        { matcher: "Write", hooks: [{ ...missing, onFailure }] },
        { matcher: "Edit", hooks: [{ ...slow, onFailure }] },
        { matcher: "Read", hooks: [wrong, missing] },
      ],
    });
    const edit = { file_path: "a.txt", old_string: "one", new_string: "1" };
    const batch = [
      sh("echo x", { id: "schema" }),
      use("Edit", edit, { id: "slow" }),
      use("Write", { file_path: "w.txt", content: "" }, { id: "missing" }),
      use("Read", { file_path: "a.txt" }, { id: "open" }),
    ];
    await world.print(world.scenario([batch]));
    expect(world.result("schema")).toContain("failed; blocking");
    expect(world.result("schema")).toContain("Hook JSON output validation failed");
    expect(world.result("missing")).toContain("[/none/hook a b]: failed; blocking");
    expect(world.result("missing")).toContain("ENOENT");
    expect(world.result("slow")).toBe(
      'PreToolUse:Edit hook error: [sleep 9]: timed out; blocking because onFailure is "block"',
    );
    expect(world.result("open")).toBe("1\tone\n2\ttwo\n3\t");
    expect(existsSync(join(world.project, "w.txt"))).toBe(false);
  });

  test("several hooks: allow first, two refusals → refused, the later refusal is told", async () => {
    const world = new World();
    const hook = (shell: string) => ({ type: "command", command: shell });
    const block = (why: string) => `echo '{"decision":"block","reason":"${why}"}'`;
    const allow = deny("").replace('"deny"', '"allow"');
    const early = `${block("early")}; touch ${world.dir}/early`;
    const late = `while [ ! -e ${world.dir}/early ]; do sleep 0.1; done; ${block("late")}`;
    const hooks = [`echo '${allow}'`, late, early];
    world.settings({ PreToolUse: [{ matcher: "*", hooks: hooks.map(hook) }] });
    await world.print(world.scenario([[sh("echo x", { id: "c" })]]));
    expect(world.result("c")).toBe("PreToolUse:Bash hook error: late");
  });

  test("long refusal: 51,000 units → whole; 51,100 → the middle cut, full text in a file", async () => {
    const world = new World();
    const reason = (n: number) => world.write(`deny-${n}`, deny("x".repeat(n)));
    const rule = (n: number) => world.when("PreToolUse", `echo ${n}`, `cat '${reason(n)}'; exit 0`);
    world.rules([rule(51_000), rule(51_100)].join("\n"));
    await world.print(
      world.scenario([[sh("echo 51000", { id: "whole" }), sh("echo 51100", { id: "cut" })]]),
    );
    const prefix = "PreToolUse:Bash hook error: ";
    expect(world.result("whole")).toBe(prefix + "x".repeat(51_000));
    const cut = world.result("cut") ?? "";
    const half = "x".repeat(25_000);
    expect(cut).toStartWith(`${prefix}${half}\n\n... [1100 characters truncated] ...\n\n${half}`);
    const path = /saved to: (.*)\n/.exec(cut)?.[1] ?? "";
    expect(readFileSync(path, "utf8")).toBe("x".repeat(51_100));
  });

  test("spawning: with args → no shell; without → sh -c", async () => {
    const world = new World();
    const direct = { type: "command", command: "/usr/bin/touch", args: [`${world.dir}/$HOME x`] };
    const shell = { type: "command", command: `touch ${world.dir}/shell-$((1 + 1))` };
    world.settings({ Stop: [{ hooks: [direct, shell] }] });
    await world.print("hello");
    expect(existsSync(join(world.dir, "$HOME x"))).toBe(true);
    expect(existsSync(join(world.dir, "shell-2"))).toBe(true);
  });

  test("ends of turns: PostToolBatch block, Stop block, prompt block → as measured", async () => {
    const batchEnds = new World();
    const block = `echo '{"decision":"block","reason":"enough"}'; exit 0`;
    batchEnds.rules(batchEnds.when("PostToolBatch", "", block));
    await batchEnds.print(batchEnds.scenario([[sh("true")], [text("never")]]));
    expect(batchEnds.ofKind("response")).toHaveLength(1);
    expect(batchEnds.ofEvent("Stop")).toEqual([]);

    const stopGoesOn = new World();
    stopGoesOn.rules(stopGoesOn.when("Stop", '"stop_hook_active":false', block));
    await stopGoesOn.print(stopGoesOn.scenario([[text("first")], [text("second")]]));
    const stops = stopGoesOn.ofEvent("Stop");
    expect(stops.map((stop) => [stop["last_assistant_message"], stop["stop_hook_active"]])).toEqual(
      [
        ["first", false],
        ["second", true],
      ],
    );

    const promptBlocked = new World();
    promptBlocked.rules(promptBlocked.when("UserPromptSubmit", "", block));
    const { out } = await promptBlocked.print(promptBlocked.scenario([[sh("touch ran")]]));
    expect(out).toBe("enough\n");
    expect(promptBlocked.eventNames).toEqual(["SessionStart", "UserPromptSubmit", "SessionEnd"]);
  });

  test("additionalContext, updatedInput: from PreToolUse → told to the model, applied", async () => {
    const world = new World();
    const output = {
      hookEventName: "PreToolUse",
      additionalContext: "CTX",
      updatedInput: { command: "echo changed" },
    };
    const shell = `printf '%s' '${JSON.stringify({ hookSpecificOutput: output })}'`;
    world.rules(world.when("PreToolUse", "", shell));
    await world.print(world.scenario([[sh("echo asked", { id: "c" })], [text("bye")]]));
    expect(world.result("c")).toBe("changed");
    expect(world.ofKind("response")[1]?.["contexts"]).toEqual([
      "PreToolUse:Bash hook additional context: CTX",
    ]);
    const [call] = callsOf(world.ofEvent("PostToolBatch")[0]);
    expect(call?.["tool_input"]).toMatchObject({ command: "echo asked" });
  });
});

describe("settings sources", () => {
  /** Which of the four sources' hooks ran. */
  async function ran(args: string[], more: { project?: Json; user?: Json; inline?: boolean } = {}) {
    const world = new World();
    const source = (name: string, extra: Json = {}) => {
      const hook = { type: "command", command: `echo ${name} >> ${world.dir}/ran` };
      return JSON.stringify({ hooks: { Stop: [{ hooks: [hook] }] }, ...extra });
    };
    world.write("config/settings.json", source("user", more.user));
    world.write("project/.claude/settings.json", source("project", more.project));
    world.write("project/.claude/settings.local.json", source("local"));
    const file = world.write("kiki.json", source("kiki"));
    const settings = more.inline === true ? source("kiki") : file;
    await world.run(["-p", "hi", "--settings", settings, ...args], { bare: true });
    const path = join(world.dir, "ran");
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean).sort() : [];
  }
  const disableAllHooks = true;

  test("sources: default, one, none → --settings always, the others as named", async () => {
    const [all, one, none, inline] = await Promise.all([
      ran([]),
      ran(["--setting-sources", "project"]),
      ran(["--setting-sources", ""]),
      ran(["--setting-sources", ""], { inline: true }),
    ]);
    expect(all).toEqual(["kiki", "local", "project", "user"]);
    expect(one).toEqual(["kiki", "project"]);
    expect([none, inline]).toEqual([["kiki"], ["kiki"]]);
  });

  test("disableAllHooks: in a loaded source → nobody's hooks; excluded → no effect", async () => {
    const [project, user, excluded] = await Promise.all([
      ran([], { project: { disableAllHooks } }),
      ran(["--setting-sources", "user"], { user: { disableAllHooks } }),
      ran(["--setting-sources", ""], { project: { disableAllHooks } }),
    ]);
    expect([project, user, excluded]).toEqual([[], [], ["kiki"]]);
  });

  test("--plugin-dir: a plugin with hooks → they run even with no sources", async () => {
    const world = new World();
    const hook = { type: "command", command: "touch ${CLAUDE_PLUGIN_ROOT}/ran" };
    world.write(
      "plugin/hooks/hooks.json",
      JSON.stringify({ hooks: { Stop: [{ hooks: [hook] }] } }),
    );
    await world.print("hi", "--plugin-dir", join(world.dir, "plugin"));
    expect(existsSync(join(world.dir, "plugin", "ran"))).toBe(true);
  });

  test("settings file: rewritten during the session → the hooks stay", async () => {
    const world = new World();
    const settings = join(world.dir, "settings.json");
    await world.print(world.scenario([[sh(`echo '{}' > ${settings}`)], [sh("true", { id: "b" })]]));
    expect(world.ofEvent("PreToolUse").map((hook) => hook["tool_use_id"])).toContain("b");
  });
});

describe("dispatch", () => {
  /** When every call began and ended, hooks included, in milliseconds. */
  function spansOf(world: World): Map<string, { from: number; to: number }> {
    const found = new Map<string, { from: number; to: number }>();
    for (const event of world.events) {
      const id = event["tool_use_id"] as string;
      const t = event["t"] as number;
      if (event["kind"] === "pre_start") found.set(id, { from: t, to: t });
      if (event["kind"] === "result") found.set(id, { from: found.get(id)?.from ?? t, to: t });
    }
    return found;
  }

  test("streaming: blocks apart → a tool has run before its sibling's block has ended", async () => {
    const world = new World();
    const gate = join(world.dir, "gate");
    const batch = [
      use("Write", { file_path: "first.txt", content: "1" }, { id: "first" }),
      { type: "wait_file", path: gate },
      use("Write", { file_path: "second.txt", content: "2" }, { id: "second" }),
    ];
    const child = world.start(["-p", world.scenario([batch])]);
    await world.hook("PostToolUse", "first");
    expect(readFileSync(join(world.project, "first.txt"), "utf8")).toBe("1");
    expect(world.ofEvent("PreToolUse")).toHaveLength(1);
    expect(world.ofKind("response_end")).toEqual([]);
    writeFileSync(gate, "");
    expect(await child.exited).toBe(0);
    expect(world.ofEvent("PreToolUse").map((hook) => hook["tool_use_id"])).toEqual([
      "first",
      "second",
    ]);
    expect(world.ofEvent("PostToolBatch")).toHaveLength(1);
  });

  test("mixed batch: safe calls → together; others → alone; all → in order", async () => {
    const world = new World();
    // r1 is held until r2 is done: side by side, or never.
    world.rules(
      `${world.when("PreToolUse", "echo r1", 'while [ ! -e "$1/r2" ]; do sleep 0.02; done')}\n` +
        world.when("PostToolUse", "echo r2", 'touch "$1/r2"'),
    );
    const batch = [
      sh("echo r1", { id: "r1" }),
      sh("echo r2", { id: "r2" }),
      sh("sleep 0.1; touch w1", { id: "w1" }),
      sh("echo w2 > w2; sleep 0.1", { id: "w2" }),
      use("Read", { file_path: "w2" }, { id: "r3" }),
      sh("cat w2 | head -1", { id: "r4" }),
    ];
    await world.print(world.scenario([batch, [text("bye")]]));
    const spans = spansOf(world);
    const at = (id: string) => spans.get(id) ?? { from: Number.NaN, to: Number.NaN };
    expect(at("r2").from).toBeLessThan(at("r1").to); // side by side
    expect(at("w1").from).toBeGreaterThanOrEqual(Math.max(at("r1").to, at("r2").to));
    expect(at("w2").from).toBeGreaterThanOrEqual(at("w1").to);
    expect(Math.min(at("r3").from, at("r4").from)).toBeGreaterThanOrEqual(at("w2").to);
    expect([world.result("r3"), world.result("r4")]).toEqual(["1\tw2\n2\t", "w2"]);
    // The model gets results as they complete.
    const told = world.ofKind("response")[1]?.["results"] as Json[];
    expect(told.map((result) => result["tool_use_id"]).slice(0, 2)).toEqual(["r2", "r1"]);
  });

  test("files: changed after a read → the edit applies and says so; re-read → current", async () => {
    const world = new World();
    const edit = (from: string, to: string, id: string) =>
      use("Edit", { file_path: "a.txt", old_string: from, new_string: to }, { id });
    const moved = `${deny("moved")}`;
    const shell = `echo new > ${world.project}/a.txt; echo two >> ${world.project}/a.txt; echo '${moved}'`;
    world.rules(world.when("PreToolUse", "MOVE", `${shell}; exit 0`));
    await world.print(
      world.scenario([
        [use("Read", { file_path: "a.txt" })],
        [sh("touch MOVE"), edit("one", "1", "gone"), edit("two", "2", "stale")],
        [use("Read", { file_path: "a.txt" }), edit("new", "3", "fresh")],
      ]),
    );
    expect(world.result("gone")).toBe(
      "<tool_use_error>String to replace not found in file.\nString: one</tool_use_error>",
    );
    expect(world.result("stale")).toContain("had been modified on disk since you last read it");
    expect(world.result("fresh")).toContain("(file state is current in your context");
    expect(readFileSync(join(world.project, "a.txt"), "utf8")).toBe("3\n2\n");
  });

  test("cd: inside the project → later calls and payloads are there; outside → brought back", async () => {
    const world = new World();
    mkdirSync(join(world.project, "sub"));
    const batch = [
      sh("cd sub && touch here", { id: "in" }),
      sh("touch there; cd /", { id: "out" }),
      sh("touch back", { id: "back" }),
    ];
    await world.print(world.scenario([batch]));
    expect(readdirSync(join(world.project, "sub")).sort()).toEqual(["here", "there"]);
    expect(existsSync(join(world.project, "back"))).toBe(true);
    const after = world.ofEvent("PostToolUse").map((hook) => hook["cwd"]);
    expect(after).toEqual([join(world.project, "sub"), world.project, world.project]);
    expect(world.result("out")).toContain(`Shell cwd was reset to ${world.project}`);
  });

  test("background command: at the end of the session → reported, then killed", async () => {
    const world = new World();
    const background = use("Bash", { command: "sleep 60", run_in_background: true }, { id: "b" });
    const session = world.interactive(world.scenario([[background], [text("started")]]));
    const stop = await world.hook("Stop", "started");
    expect(stop["background_tasks"]).toMatchObject([{ type: "shell", command: "sleep 60" }]);
    expect(world.result("b")).toContain("Command running in background with ID: ");
    expect(await session.end()).toBe(0);
    await waitFor("sleep has ended", () =>
      processesMentioning(world.dir).every(({ what }) => !what.includes("sleep 60")),
    );
  });

  test("background command: finished → a turn of its own with a new prompt id", async () => {
    const world = new World();
    const background = use("Bash", { command: "true", run_in_background: true });
    await world.print(world.scenario([[background], [text("started")], [text("not said")]]));
    const [first, second] = world.ofEvent("UserPromptSubmit");
    expect(second?.["prompt"]).toContain("<status>completed</status>");
    expect(second?.["prompt_id"]).not.toBe(first?.["prompt_id"]);
    const said = world.ofEvent("Stop").map((stop) => stop["last_assistant_message"]);
    expect(said).toEqual(["started", "ok"]);
  });
});

describe("sub-agents", () => {
  const nested = [[sh("echo in1", { id: "in1" }), sh("echo in2", { id: "in2" })], [text("report")]];
  const input = { description: "d", prompt: "look", subagent_type: "finder" };

  test("--print, run_in_background false: own events and batch → inside the Agent call", async () => {
    const world = new World();
    const agent = use(
      "Agent",
      { ...input, run_in_background: false },
      { id: "A", responses: nested },
    );
    await world.print(world.scenario([[agent, sh("echo side", { id: "S" })], [text("bye")]]));
    const inner = world.hooks.filter((hook) => hook["agent_id"] !== undefined);
    const names = inner.map((hook) => hook["hook_event_name"]);
    expect(names[0]).toBe("SubagentStart");
    expect(names.slice(-2)).toEqual(["PostToolBatch", "SubagentStop"]);
    expect(new Set(inner.map((hook) => hook["agent_id"])).size).toBe(1);
    expect(new Set(inner.map((hook) => hook["transcript_path"])).size).toBe(1);
    expect(inner.every((hook) => hook["agent_type"] === "finder")).toBe(true);
    const [agents, main] = world.ofEvent("PostToolBatch");
    const ids = (hook?: Json) => callsOf(hook).map((call) => call["tool_use_id"]);
    expect([ids(agents), ids(main)]).toEqual([
      ["in1", "in2"],
      ["A", "S"],
    ]);
    // Agent results are a list of parts, not a string.
    const parts = callsOf(main)[0]?.["tool_response"];
    expect(parts).toMatchObject([{ text: expect.stringContaining("report") as unknown }]);
    const path = String(inner.at(-1)?.["agent_transcript_path"]);
    expect(path).toEndWith(`/subagents/agent-${inner[0]?.["agent_id"] as string}.jsonl`);
    expect(readLines(path).every((line) => line["isSidechain"] === true)).toBe(true);
  });

  test("interactive: any Agent call → launched, goes on after Stop, reports as a prompt", async () => {
    const world = new World();
    const gate = join(world.dir, "gate");
    const held = [
      [{ type: "wait_file", path: gate }, sh("echo in", { id: "in" })],
      [text("report")],
    ];
    const agent = use(
      "Agent",
      { ...input, run_in_background: false },
      { id: "A", responses: held },
    );
    const session = world.interactive(world.scenario([[agent], [text("bye")]]));
    const stop = await world.hook("Stop", "bye");
    expect(stop["background_tasks"]).toMatchObject([{ type: "subagent", status: "running" }]);
    expect(world.result("A")).toContain("Async agent launched");
    expect(world.ofEvent("PreToolUse")[0]?.["tool_input"]).not.toHaveProperty("run_in_background");
    writeFileSync(gate, "");
    const report = await world.hook("UserPromptSubmit", "<task-notification>");
    expect(report["prompt"]).toContain("<result>report</result>");
    expect(world.ofEvent("PreToolUse")[1]).toMatchObject({
      tool_use_id: "in",
      agent_type: "finder",
    });
    expect(await session.end()).toBe(0);
  });

  test("interactive with CLAUDE_CODE_DISABLE_BACKGROUND_TASKS → in the foreground", async () => {
    const world = new World();
    world.write(
      "settings.json",
      JSON.stringify({
        ...(JSON.parse(readFileSync(join(world.dir, "settings.json"), "utf8")) as Json),
        env: { CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1" },
      }),
    );
    const agent = use("Agent", input, { id: "A", responses: nested });
    const session = world.interactive(world.scenario([[agent], [text("bye")]]));
    await world.hook("Stop", "bye");
    expect(world.result("A")).toContain("report");
    expect(await session.end()).toBe(0);
  });
});

describe("record", () => {
  test("lines: while the response streams → none; at its end → one per block", async () => {
    const world = new World();
    world.rules(world.when("PreToolUse", "DENY", `printf '%s' '${deny("no")}'; exit 0`));
    const gate = join(world.dir, "gate");
    const id = crypto.randomUUID();
    const wait = { type: "wait_file", path: gate };
    const batch = [text("hm"), sh("echo x", { id: "x" }), sh("echo DENY", { id: "y" }), wait];
    const child = world.start(["-p", world.scenario([batch]), "--session-id", id]);
    await waitFor("both calls are done", () => world.ofKind("result").length === 2);
    await waitFor("the prompt is recorded", () => world.records.length === 1);
    const path = world.records[0] ?? "";
    expect(readLines(path).map((line) => line["type"])).toEqual(["user"]);
    writeFileSync(gate, "");
    await child.exited;
    const lines = readLines(path);
    const asked = lines.filter((line) => line["type"] === "assistant").slice(0, 3);
    const messages = asked.map((line) => line["message"] as Json);
    expect(new Set(messages.map((message) => message["id"])).size).toBe(1);
    expect(messages.map((message) => message["stop_reason"])).toEqual(Array(3).fill("tool_use"));
    expect(asked.map((line) => line["apiBlockIndex"])).toEqual([0, 1, 2]);
    expect(lines[0]).toMatchObject({ type: "user", parentUuid: null, sessionId: id });
    const denied = lines.find((line) => line["toolDenialKind"] === "permission-rule");
    expect(denied).toMatchObject({
      toolUseResult: "Error: PreToolUse:Bash hook error: no",
      sourceToolAssistantUUID: asked[2]?.["uuid"],
      permissionDecision: { decision: "reject", source: "hook" },
    });
  });

  test("session: id used again → refused; resumed → same id and file, `resumed` steps", async () => {
    const world = new World();
    const id = crypto.randomUUID();
    const prompt = world.scenario([[text("one")]], { resumed: [[text("back")]] });
    await world.print(prompt, "--session-id", id);
    const again = await world.print("hi", "--session-id", id);
    expect(again).toMatchObject({ code: 1, err: `Error: Session ID ${id} is already in use.` });
    const resumed = await world.print("[[kiki:2]] go on", "--resume", id);
    expect(resumed.out).toBe("back\n");
    expect(world.records).toHaveLength(1);
    expect(world.ofEvent("SessionStart").map((hook) => hook["source"])).toEqual([
      "startup",
      "resume",
    ]);
    expect(new Set(world.hooks.map((hook) => hook["session_id"]))).toEqual(new Set([id]));
    expect(readFileSync(world.records[0] ?? "", "utf8")).toContain("[[kiki:2]] go on");
  });
});

describe("interactive", () => {
  test("prompts: one after another → new prompt ids, the scenario goes on, then ok", async () => {
    const world = new World();
    const session = world.interactive(world.scenario([[text("one")], [sh("true")], [text("two")]]));
    await world.idle(1);
    session.type("next\n");
    await world.idle(2);
    session.type("more\n");
    await world.idle(3);
    const said = world.ofEvent("Stop").map((stop) => stop["last_assistant_message"]);
    expect(said).toEqual(["one", "two", "ok"]);
    expect(await session.end()).toBe(0);
    const ids = world.ofEvent("UserPromptSubmit").map((hook) => hook["prompt_id"]);
    expect(new Set(ids).size).toBe(3);
    expect(world.ofEvent("SessionEnd")[0]).toMatchObject({ reason: "prompt_input_exit" });
  });

  for (const how of ["Esc", "SIGUSR1"]) {
    test(`${how}: while a hook holds a call → hook killed, no Post, Batch or Stop`, async () => {
      const world = new World();
      const hold = `echo $$ > "$1/holding"; sleep 30; echo gone > "$1/outlived"`;
      world.rules(world.when("PreToolUse", "HOLD", hold));
      const batch = [sh("touch HOLD", { id: "held" }), sh("touch other", { id: "waiting" })];
      const session = world.interactive(world.scenario([batch, [text("next")]]));
      await waitFor("the hook holds", () => existsSync(join(world.dir, "holding")));
      if (how === "Esc") session.type("\x1b");
      else session.child.kill("SIGUSR1");
      await waitFor("interrupted", () => world.ofKind("interrupted").length === 1);
      session.type("hello\n");
      await world.hook("Stop", "next");
      const names = world.eventNames;
      expect(names.slice(0, 4)).toEqual([
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "UserPromptSubmit",
      ]);
      expect(await session.end()).toBe(0);
      expect(existsSync(join(world.dir, "outlived"))).toBe(false);
      expect(readdirSync(world.project)).toEqual(["a.txt"]);
      const record = readFileSync(world.records[0] ?? "", "utf8");
      expect(record).toContain("[Request interrupted by user for tool use]");
    });
  }

  test("Esc: while a command runs → the command is killed, the next prompt is a new turn", async () => {
    const world = new World();
    const session = world.interactive(
      world.scenario([[sh("touch started; sleep 30; touch late")]]),
    );
    await waitFor("the command runs", () => existsSync(join(world.project, "started")));
    session.type("\x1b");
    await waitFor("interrupted", () => world.ofKind("interrupted").length === 1);
    expect(await session.end()).toBe(0);
    expect(world.eventNames).toEqual([
      "SessionStart",
      "UserPromptSubmit",
      "PreToolUse",
      "SessionEnd",
    ]);
    expect(existsSync(join(world.project, "late"))).toBe(false);
  });

  test("typed during a turn: before tool results → same prompt id, told with them", async () => {
    const world = new World();
    const gate = join(world.dir, "gate");
    const session = world.interactive(
      world.scenario([[sh("true"), { type: "wait_file", path: gate }], [text("bye")]]),
    );
    await world.hook("PostToolUse", "true");
    session.type("also this\n");
    await waitFor("the message waits", () => world.ofKind("prompt_queued").length === 1);
    writeFileSync(gate, "");
    await world.hook("Stop", "bye");
    expect(await session.end()).toBe(0);
    const ids = world.ofEvent("UserPromptSubmit").map((hook) => hook["prompt_id"]);
    expect(ids[1]).toBe(ids[0]);
    expect(world.ofKind("response")[1]?.["typed"]).toEqual(["also this"]);
    expect(world.ofEvent("Stop")).toHaveLength(1);
  });

  test("typed during a turn: nothing left to deliver it with → a turn without its event", async () => {
    const world = new World();
    const gate = join(world.dir, "gate");
    const session = world.interactive(
      world.scenario([[{ type: "wait_file", path: gate }, text("one")], [text("two")]]),
    );
    await waitFor("the response has begun", () => world.ofKind("response").length === 1);
    session.type("also this\n");
    await waitFor("the message waits", () => world.ofKind("prompt_queued").length === 1);
    writeFileSync(gate, "");
    const second = await world.hook("Stop", "two");
    expect(await session.end()).toBe(0);
    const ids = world.ofEvent("UserPromptSubmit").map((hook) => hook["prompt_id"]);
    expect(ids).toEqual([ids[0], ids[0]]);
    expect(second["prompt_id"]).not.toBe(ids[0]);
  });

  test("/clear and /exit: → new id and file; end with its reason, code 0", async () => {
    const world = new World();
    const session = world.interactive(world.scenario([[text("one")]]));
    const first = await world.hook("Stop", "one");
    session.type("/clear\n");
    const started = await world.hook("SessionStart", '"source":"clear"');
    expect(started["session_id"]).not.toBe(first["session_id"]);
    session.type("/exit\n");
    expect(await session.child.exited).toBe(0);
    const ends = world.ofEvent("SessionEnd");
    expect(ends.map((end) => [end["session_id"], end["reason"]])).toEqual([
      [first["session_id"], "clear"],
      [started["session_id"], "prompt_input_exit"],
    ]);
    expect(world.records).toHaveLength(2);
    const out = await new Response(session.child.stdout).text();
    expect(out).toContain(`claude --resume ${started["session_id"] as string}`);
  });

  test("!command: → runs without PreToolUse and UserPromptSubmit, a turn follows", async () => {
    const world = new World();
    const session = world.interactive(world.scenario([[text("one")], [text("two")]]));
    await world.hook("Stop", "one");
    session.type("!touch by-hand\n");
    await world.hook("Stop", "two");
    expect(await session.end()).toBe(0);
    expect(existsSync(join(world.project, "by-hand"))).toBe(true);
    expect(world.ofEvent("UserPromptSubmit")).toHaveLength(1);
    expect(world.ofEvent("PreToolUse")).toEqual([]);
  });

  test("SIGTERM: in the middle of a call → SessionEnd, code 143, no process left", async () => {
    const world = new World();
    const session = world.interactive(world.scenario([[sh("touch started; sleep 61")]]));
    await waitFor("the command runs", () => existsSync(join(world.project, "started")));
    session.child.kill("SIGTERM");
    expect(await session.child.exited).toBe(143);
    expect(world.eventNames.slice(-2)).toEqual(["PreToolUse", "SessionEnd"]);
    expect(world.ofEvent("SessionEnd")[0]).toMatchObject({ reason: "other" });
    await waitFor("nothing is left", () => processesMentioning(world.dir).length === 0);
  });

  test("idle: nothing typed after Stop → one Notification after the configured time", async () => {
    const world = new World();
    // The global state's own key; its default is one minute.
    world.write("config/.claude.json", JSON.stringify({ messageIdleNotifThresholdMs: 100 }));
    const session = world.interactive(world.scenario([[text("one")]]));
    const idle = await world.hook("Notification", "idle_prompt");
    expect(idle["message"]).toBe("Claude is waiting for your input");
    expect(await session.end()).toBe(0);
    expect(world.ofEvent("Notification")).toHaveLength(1);
  });
});

describe("terminal", () => {
  const socket = join(root, "tmux.sock");
  const tmux = (...args: string[]): string =>
    Bun.spawnSync(["tmux", "-f", "/dev/null", "-S", socket, ...args]).stdout.toString();
  const pane = (): string => tmux("capture-pane", "-p", "-t", "=t:");
  afterAll(() => tmux("kill-server"));

  test("tmux pane: trust dialog, a turn, Esc, Ctrl-D twice → held, readable, ended", async () => {
    const world = new World();
    world.write("config/.claude.json", JSON.stringify({ standInTrustDialog: true }));
    const hold = world.when("PreToolUse", "HOLD", `touch "$1/holding"; sleep 30`);
    world.rules(
      `${hold}\n${world.when("PreToolUse", "DENY", `echo '${deny("kiki says no")}'; exit`)}`,
    );
    const prompt = world.scenario([
      [text("Working on it."), sh("echo hi"), sh("touch DENY")],
      [text("All done.")],
      [sh("touch HOLD")],
    ]);
    const settings = join(world.dir, "settings.json");
    const command = [CLAUDE, "--settings", settings, "--setting-sources", "", prompt];
    const env = [`CLAUDE_CONFIG_DIR=${world.config}`, `CLAUDE_CODE_TMPDIR=${world.dir}/tmp`];
    const line = ["env", ...env, ...command].map((word) => `'${word}'`).join(" ");
    tmux("new-session", "-d", "-s", "t", "-x", "100", "-y", "50", "-c", world.project, line);
    tmux("set-option", "-g", "remain-on-exit", "on");

    await waitFor("the dialog", () => pane().includes("Quick safety check"));
    expect(pane()).toContain("Accessing workspace:");
    expect(world.hooks).toEqual([]);
    tmux("send-keys", "-t", "=t:", "Down");
    await waitFor("the other option", () => pane().includes("❯ Yes, I trust this folder"));
    tmux("send-keys", "-t", "=t:", "Enter");
    await world.hook("Stop", "All done.");
    await waitFor("the answer is drawn", () => pane().includes("● All done."));
    const shown = pane();
    for (const part of [
      "● Working on it.",
      "● Bash(echo hi)\n  ⎿  hi",
      "hook error: kiki says no",
    ]) {
      expect(shown).toContain(part);
    }
    expect(JSON.parse(readFileSync(join(world.config, ".claude.json"), "utf8"))).toMatchObject({
      projects: { [world.project]: { hasTrustDialogAccepted: true } },
    });

    tmux("send-keys", "-t", "=t:", "-l", "go on");
    tmux("send-keys", "-t", "=t:", "Enter");
    await waitFor("the hook holds", () => existsSync(join(world.dir, "holding")));
    expect(pane()).toContain("esc to interrupt");
    tmux("send-keys", "-t", "=t:", "Escape");
    await waitFor("interrupted", () => pane().includes("Interrupted · What should Claude do"));
    tmux("send-keys", "-t", "=t:", "C-d", "C-d");
    await waitFor("the end", () => {
      // tmux 3.3a sometimes loses the exit status (and the line it draws) of a pane whose terminal closes first.
      return tmux("list-panes", "-t", "=t:", "-F", "#{pane_dead}").startsWith("1");
    });
    expect(pane()).toContain("Resume this session with:");
    expect(world.ofEvent("SessionEnd")[0]).toMatchObject({ reason: "prompt_input_exit" });
  });
});

describe("scenario", () => {
  test("while, again: three calls blocked twice → re-read each time, then on", async () => {
    const world = new World();
    const block = `echo '${deny("this call did not run: your parent moved")}'; exit 0`;
    // The first two batches of writes are refused, as by kiki when a parent moves twice.
    world.rules(
      `n=$(grep -c '"PostToolBatch"' "$1/hooks.ndjson")\n` +
        world.when("PreToolUse", '"tool_name":"Write"', `[ "$n" -ge 3 ] || { ${block}; }`),
    );
    const write = (name: string) => use("Write", { file_path: name, content: name }, { id: name });
    await world.print(
      world.scenario([
        { name: "three", blocks: [write("x"), write("y"), write("z")] },
        {
          while: { last_result_contains: "did not run" },
          do: [[use("Read", { file_path: "a.txt" })], { again: "three" }],
        },
        {
          when: { any_result_contains: "did not run" },
          do: [[text("told")]],
          else: [[text("no")]],
        },
      ]),
    );
    const calls = world.ofEvent("PreToolUse").map((hook) => hook["tool_use_id"] as string);
    const names = world.ofEvent("PreToolUse").map((hook) => hook["tool_name"]);
    expect(names.join(" ")).toBe("Write Write Write Read Write Write Write Read Write Write Write");
    expect(new Set(calls).size).toBe(calls.length); // An id in a loop is not used twice.
    expect(world.ofEvent("Stop")[0]).toMatchObject({ last_assistant_message: "told" });
    expect(readdirSync(world.project).sort()).toEqual(["a.txt", "x", "y", "z"]);
  });

  const broken: [string, Json, string][] = [
    ["misspelt key", { responses: [[{ type: "text", txt: "" }]] }, '[0][0]: unknown key "txt"'],
    ["unknown block", { responses: [[{ type: "say" }]] }, "responses[0][0].type: must be"],
    ["unknown name", { responses: [{ again: "x" }] }, 'again: no response is named "x"'],
    ["relative path", { responses: [], log: "x" }, "log: must be an absolute path"],
    ["two conditions", { responses: [{ when: {}, do: [] }] }, ".when: a condition has exactly"],
    ["no responses", {}, "responses: must be a list"],
  ];
  test.each(broken)("scenario: %s → an error that says where", (_, json, why) => {
    expect(() => parseScenario("s.json", json)).toThrow(why);
  });

  test("claude: a scenario that cannot go on → told in the session, code 1", async () => {
    const world = new World();
    const endless = { while: { not: { prompt_contains: "?" } }, do: [], max: 3 };
    const [looped, missing] = await Promise.all([
      world.print(world.scenario([endless])),
      world.print("SCENARIO:/none.json"),
    ]);
    expect(looped).toMatchObject({ code: 1, out: "API Error: while: still true after 3 rounds\n" });
    expect(missing.out).toStartWith("API Error: scenario /none.json: ENOENT");
  });

  test("stream-json: → init, each block, each result, the outcome", async () => {
    const world = new World();
    const prompt = world.scenario([[text("hm"), sh("echo x")], [text("bye")]]);
    const { out } = await world.print(prompt, "--output-format", "stream-json", "--verbose");
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    const types = lines.map((line) => line["type"]);
    expect(types).toEqual(["system", "assistant", "assistant", "user", "assistant", "result"]);
    expect(lines.at(-1)).toMatchObject({ result: "bye", is_error: false });
  });
});

describe("model server", () => {
  const scripts = {
    one: [
      [
        { type: "tool_use" as const, name: "Bash", input: { command: "echo" } },
        { type: "text" as const, text: "later", delay_ms: 60, tail_ms: 60 },
      ],
      (request: { body: { messages: readonly { role: string }[] } }) => [
        { type: "text" as const, text: `saw ${request.body.messages.length} messages` },
      ],
    ],
  };
  let server: ReturnType<typeof startModelServer>;
  const records = join(root, "model");
  beforeAll(() => {
    server = startModelServer({ scripts, recordDir: records });
  });
  afterAll(() => server.close());

  const ask = (messages: unknown[], more: Json = {}) =>
    fetch(`${server.url}/v1/messages?beta=true`, {
      method: "POST",
      body: JSON.stringify({ model: "m", stream: true, tools: [{}], messages, ...more }),
    });
  const user = (content: unknown) => ({ role: "user", content });
  const asked = user([{ type: "text", text: "SCRIPT:none then SCRIPT:one" }]);

  test("script: chosen by the last SCRIPT: → streamed block by block, with its pauses", async () => {
    const startedAt = performance.now();
    const answer = await (await ask([user("SCRIPT:none"), asked])).text();
    expect(performance.now() - startedAt).toBeGreaterThan(110);
    const events = [...answer.matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
    const block = ["content_block_start", "content_block_delta", "content_block_stop"];
    expect(events).toEqual(["message_start", ...block, ...block, "message_delta", "message_stop"]);
    expect(answer).toContain('"stop_reason":"tool_use"');
  });

  test("step: by the assistant messages since → the next one; a function sees the request", async () => {
    const messages = [asked, { role: "assistant", content: "x" }, user("result")];
    const answer = (await (await ask(messages, { stream: false })).json()) as Json;
    expect(answer).toMatchObject({
      stop_reason: "end_turn",
      content: [{ type: "text", text: "saw 3 messages" }],
    });
  });

  test("no script, or a side question without tools → ok", async () => {
    for (const body of [{}, { tools: [] }]) {
      const messages = [body.tools === undefined ? user("SCRIPT:gone") : asked];
      const answer = (await (await ask(messages, { ...body, stream: false })).json()) as Json;
      expect(answer["content"]).toEqual([{ type: "text", text: "ok" }]);
    }
  });

  test("requests: kept in memory and on disk → byte for byte, results readable", async () => {
    const parts = [{ type: "text", text: "payload\u2028ü" }];
    const result = { type: "tool_result", tool_use_id: "t1", is_error: true, content: parts };
    const body = JSON.stringify({ model: "m", messages: [user([result])] });
    const waiting = server.waitFor((request) => request.raw === body);
    await fetch(`${server.url}/v1/messages`, { method: "POST", body });
    const request = await waiting;
    expect(readFileSync(join(records, `${request.id}.json`), "utf8")).toBe(body);
    expect(lastToolResults(request.body.messages)).toEqual([
      { id: "t1", text: "payload\u2028ü", isError: true },
    ]);
    expect(messageText({ role: "user", content: parts })).toBe("payload\u2028ü");
    expect(server.requests).toContain(request);
  });

  test("other paths, bad bodies, a folder of scripts, close → answered and ended", async () => {
    const folder = join(root, "scripts");
    mkdirSync(folder);
    writeFileSync(join(folder, "f.json"), JSON.stringify([[{ type: "text", text: "from file" }]]));
    const other = startModelServer({ scripts: folder, recordDir: join(root, "model2") });
    const counted = await fetch(`${other.url}/v1/messages/count_tokens`, { method: "POST" });
    expect(await counted.json()).toEqual({ input_tokens: 100 });
    expect((await fetch(`${other.url}/v1/messages`, { method: "POST", body: "{" })).status).toBe(
      400,
    );
    const body = JSON.stringify({ tools: [{}], messages: [user("SCRIPT:f")] });
    const answer = await fetch(`${other.url}/v1/messages`, { method: "POST", body });
    expect(await answer.text()).toContain("from file");
    await fetch(`${other.url}/v1/models`);
    expect(readdirSync(join(root, "model2")).some((name) => name.endsWith("-other.txt"))).toBe(
      true,
    );
    await other.close();
    expect(fetch(`${other.url}/v1/models`)).rejects.toThrow();
    expect(statSync(join(root, "model2", "log.ndjson")).size).toBeGreaterThan(0);
  });
});
