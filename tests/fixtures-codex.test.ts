/**
 * The stand-in for Codex CLI, held to what the gate has recorded of the real one (fixtures/hooks/codex), and the scripted
 * model server. Everything is asserted from outside: hook payloads as a hook receives them, files, screens, exit codes.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EVENT_LABELS, hookHash, type HookEvent } from "../fixtures/agents/codex-cli/hook-hash.ts";
import {
  callOutputs,
  refusal,
  startCodexModelServer,
  toolNames,
  type ModelItem,
} from "../fixtures/model-servers/codex.ts";
import {
  CODEX_STANDIN,
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
import { tempDir } from "./support/temp.ts";
import { runInPane } from "./support/tmux.ts";

const RECORDED = join(import.meta.dir, "../fixtures/hooks/codex/0.171.0");
const recorded = (name: string): string => readFileSync(join(RECORDED, name), "utf8");
const recordedJson = (name: string): Json => JSON.parse(recorded(name)) as Json;

afterAll(removeCodexWorlds, 10_000);

/** Keys and the kinds of their values, to any depth; a list by its first element. */
function shape(value: unknown): unknown {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.slice(0, 1).map(shape);
  if (typeof value !== "object") return typeof value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, of]) => [key, shape(of)]));
}

const INNER_PATCH =
  "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\nEOF";
const REASON = `  line 1\n"q" é🙂 `;

/** The session the gate plays on the real Codex, on the stand-in. */
async function tour(): Promise<CodexWorld> {
  const made = codexWorld();
  const denied = join(made.dir, "denied");
  writeFileSync(join(made.dir, "deny.json"), deny(REASON));
  made.rules(
    made.when("PreToolUse", "c_deny", `cat '${made.dir}/deny.json'`),
    // The record as it is while the call waits for its hook.
    made.when("PreToolUse", "c_echo", `cat ${made.home}/sessions/*/*/*/*.jsonl > '${denied}'`),
  );
  const prompt = made.scenario([
    [say("first"), exec("c_echo", "echo hi")],
    [patch("c_patch", "*** Add File: a.txt", "+x")],
    [exec("c_background", "sleep 0.5; echo later", { yield_time_ms: 100 })],
    [use("c_poll", "write_stdin", { of: "c_background", yield_time_ms: 5_000 })],
    [exec("c_deny", "echo DENY"), patch("c_deny_patch", "*** Add File: b.txt", "+x")],
    [
      exec("c_false", "echo out; false"),
      use("c_unknown", "nope", {}),
      exec("c_slow", `while [ ! -e ${made.dir}/steered ]; do sleep 0.02; done; echo steered`),
    ],
    [
      use("c_no_patch", "apply_patch", { patch: "garbage" }),
      patch("c_gone", "*** Delete File: gone"),
      exec("c_inner_patch", INNER_PATCH),
      use("c_no_cmd", "exec_command", {}),
    ],
    [say("turn over")],
    [exec("c_esc", `touch '${made.dir}/started'; sleep 60`, { yield_time_ms: 60_000 })],
    [say("here again")],
    { blocks: [], error: "not this" },
  ]);
  const session = made.interactive("--enable", "hooks", prompt);
  await made.seen("c_slow runs", () =>
    made.ofKind("tool_start").some((event) => event["tool_use_id"] === "c_slow"),
  );
  session.type("steer text");
  await made.seen("text is queued", () => made.ofKind("prompt_queued").length === 1);
  writeFileSync(join(made.dir, "steered"), "");
  await made.seen("a turn has ended", () => made.ofKind("stop_end").length === 1);
  session.type("go on");
  await made.seen("c_esc runs", () => existsSync(join(made.dir, "started")));
  session.escape();
  await made.seen("Interrupt", () => made.ofEvent("Interrupt").length === 1);
  session.type("/compact");
  await made.seen("PostCompact", () => made.ofEvent("PostCompact").length === 1);
  session.type("more");
  await made.seen("two turns have ended", () => made.ofKind("stop_end").length === 2);
  session.type("refuse");
  await made.seen("a failed turn", () => made.ofKind("error").length === 1);
  session.type("/quit");
  await session.ended();
  const id = String(made.hooks[0]?.["session_id"]);
  await made.run("exec", "resume", id, "again");
  return made;
}

const toured = tour();
toured.catch(() => undefined);

describe("held to the recordings", () => {
  test("payloads: every event and shape of the tour → the recorded keys and types", async () => {
    const { hooks } = await toured;
    const names = readdirSync(RECORDED).filter((name) => /^[A-Z]/.test(name));
    expect(names.length).toBeGreaterThanOrEqual(14);
    for (const name of names) {
      const real = recordedJson(name);
      const same = hooks.find((hook) =>
        ["hook_event_name", "source", "tool_name"].every((key) => hook[key] === real[key]),
      );
      expect([name, shape(same)]).toEqual([name, shape(real)]);
      expect([name, Object.keys(same ?? {})]).toEqual([name, Object.keys(real)]);
    }
  });

  test("payloads: which come, in which order → as the real one's", async () => {
    const { hooks } = await toured;
    const told = hooks.map((hook) =>
      [hook["hook_event_name"], hook["tool_use_id"] ?? hook["source"]].filter(Boolean).join(" "),
    );
    const main = told.filter((line) => !/c_(gone|inner|false|slow)/.test(line));
    expect(main).toEqual([
      ..."SessionStart startup|UserPromptSubmit|PreToolUse c_echo|PostToolUse c_echo".split("|"),
      ..."PreToolUse c_patch|PostToolUse c_patch".split("|"),
      ..."PreToolUse c_background|PostToolUse c_background".split("|"),
      ..."PreToolUse c_deny|PreToolUse c_deny_patch|UserPromptSubmit|Stop".split("|"),
      ..."UserPromptSubmit|PreToolUse c_esc|Interrupt|PreCompact|PostCompact".split("|"),
      ..."SessionStart compact|UserPromptSubmit|Stop|UserPromptSubmit|SessionEnd".split("|"),
      ..."SessionStart resume|UserPromptSubmit|Stop|SessionEnd".split("|"),
    ]);
    // A patch that does not fit, and one inside a command: refused or applied without a PostToolUse.
    expect(told).toContain("PreToolUse c_gone");
    expect(told).toContain("PreToolUse c_inner_patch");
    expect(told.filter((line) => /PostToolUse c_(gone|inner)/.test(line))).toEqual([]);
    const turns = hooks
      .filter((hook) => hook["hook_event_name"] === "UserPromptSubmit")
      .map((hook) => hook["turn_id"]);
    expect(turns[0]).toBe(turns[1]); // Typed during the turn.
    expect(new Set(turns).size).toBe(turns.length - 1);
    expect(new Set(hooks.map((hook) => hook["session_id"])).size).toBe(1);
    expect(String(turns[0])).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  });

  test("outputs: what the model gets for every call → the recorded bytes", async () => {
    const made = await toured;
    const plain = (text: string | undefined): string =>
      (text ?? "")
        .replaceAll(made.project, "/home/me/shop")
        .replace(/Chunk ID: [0-9a-f]{6}/, "Chunk ID: 000000")
        .replace(/Wall time: [\d.]+ seconds/g, "Wall time: 0.1000 seconds")
        .replace(/session ID \d{5}/, "session ID 10000");
    const outputs = recordedJson("outputs.json");
    const ids = Object.keys(outputs).filter((id) => id !== "c_bad"); // JSON no scenario can hold.
    const told: Json = Object.fromEntries(ids.map((id) => [id, plain(made.result(id))]));
    expect({ ...told, c_bad: outputs["c_bad"] } as Json).toEqual(outputs);
  });

  test("record: its lines → kinds and keys of the real one's, in its order", async () => {
    const { rollout } = await toured;
    const kind = (line: Json): string => {
      const payload = line["payload"] as Json;
      const item = payload["item"] as Json | undefined;
      // A turn that the provider ended has a line of another shape.
      const failed = payload["error"] === undefined ? null : "failed";
      const parts = [line["type"], payload["type"], payload["role"], item?.["type"], failed];
      return parts.filter((part) => typeof part === "string").join(" ");
    };
    const real = recorded("rollout.jsonl")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    const known = new Map(real.map((line) => [kind(line), line]));
    const callOf = (line: Json): string => {
      const id = (line["payload"] as Json)["call_id"];
      return typeof id === "string" ? id : "";
    };
    // Cut for space, or without meaning for whoever reads a record.
    const loose = /^(session_meta|turn_context|world_state|compacted|event_msg token_count)/;
    for (const line of rollout) {
      const same = known.get(kind(line));
      expect([kind(line), same === undefined]).toEqual([kind(line), false]);
      const keys = Object.keys(line["payload"] as Json);
      const all = Object.keys(same!["payload"] as Json);
      const extra = keys.filter((key) => !all.includes(key));
      expect([kind(line), extra]).toEqual([kind(line), []]);
      if (!loose.test(kind(line))) {
        const missing = all.filter(
          (key) => !keys.includes(key) && !/process_id|parsed_cmd|duration/.test(key),
        );
        expect([kind(line), missing.filter((key) => key !== "time_to_first_token_ms")]).toEqual([
          kind(line),
          [],
        ]);
      }
    }
    expect(rollout.map((line) => line["ordinal"])).toEqual(rollout.map((_, i) => i));
    // The calls of the tour, the lines around them.
    const around = (lines: Json[]): string[] =>
      lines
        .filter((line) => /response_item|token_usage|turn_aborted/.test(kind(line)))
        .map((line) => `${kind(line)} ${callOf(line)}`.trim())
        .filter((line) => !/developer|c_bad/.test(line))
        .slice(3);
    const upToEsc = (lines: string[]): string[] =>
      lines.slice(0, lines.indexOf("event_msg turn_aborted") + 1);
    expect(upToEsc(around(rollout))).toEqual(upToEsc(around(real)));
  });

  test("record: at a call's PreToolUse → the call is the last thing in it", async () => {
    const made = await toured;
    const then = readFileSync(join(made.dir, "denied"), "utf8").trim().split("\n");
    const calls = then.filter((line) => line.includes(`"call_id":"c_echo"`));
    expect(calls).toHaveLength(1);
    expect(JSON.parse(calls[0]!)).toMatchObject({ payload: { type: "function_call" } });
  });

  test("hooks/list and hashes: the recorded settings → the same hashes; the entries' keys", async () => {
    const real = recordedJson("hooks-list.json") as {
      result: { data: { hooks: Json[] }[] };
    };
    const events = Object.keys(EVENT_LABELS) as HookEvent[];
    const entries = real.result.data[0]!.hooks;
    for (const entry of entries) {
      const event = events.find(
        (e) => e.toLowerCase() === String(entry["eventName"]).toLowerCase(),
      );
      const command = String(entry["command"]);
      expect([event, hookHash(event!, { command })]).toEqual([event, String(entry["currentHash"])]);
    }
    const made = codexWorld();
    const mine = await made.hooksList("--enable", "hooks");
    expect(shape(mine)).toEqual(shape(real));
    const listed = await made.listed();
    expect(
      listed.map((hook) => [hook["eventName"], hook["timeoutSec"], hook["displayOrder"]]),
    ).toEqual(entries.map((hook) => [hook["eventName"], hook["timeoutSec"], hook["displayOrder"]]));
  });
});

describe("command line", () => {
  test("codex: version, catalog, what it cannot start with → as the real one says it", async () => {
    const made = codexWorld();
    const [version, models, bogus, unknown] = await Promise.all([
      made.run("--version"),
      made.run("debug", "models"),
      made.run("--bogus"),
      made.run("exec", "resume", crypto.randomUUID(), "hi"),
    ]);
    expect([version.code, version.out]).toEqual([0, "codex-cli 0.171.0\n"]);
    expect(JSON.parse(models.out)).toEqual(recordedJson("models.json"));
    expect([bogus.code, bogus.err]).toEqual([2, "error: unexpected argument '--bogus' found"]);
    expect([unknown.code, unknown.out]).toEqual([1, ""]);
    expect(unknown.err).toContain("no rollout found for thread id");
  });
});

describe("terminal", () => {
  /** Every line of a recorded screen that is text, from the first that matches. */
  const textOf = (name: string): string[] =>
    recorded(`screen-${name}.txt`)
      .split("\n")
      .map((line) => line.trim())
      .filter(
        (line) =>
          /[a-z]/i.test(line) && !/\/home\/me|\d+ hooks|^Usage|^Sign in from|^Use an/.test(line),
      );

  const open = (made: CodexWorld, ...words: string[]) =>
    runInPane({
      socket: join(made.dir, "tmux.sock"),
      env: made.env,
      cwd: made.project,
      command: [CODEX_STANDIN, ...words],
      columns: 100,
      rows: 40,
    });

  test("folder access, then hooks to review: the recorded words; the answers are kept", async () => {
    const made = codexWorld({ trustFolder: false, trustHooks: false });
    mkdirSync(join(made.project, ".codex"));
    const pane = open(made);
    try {
      const folder = await pane.waitForText(/esc back/);
      for (const line of textOf("folder-access")) expect(folder).toContain(line);
      expect(made.hooks).toEqual([]);
      pane.enter();
      const review = await pane.waitForText(/esc skip/);
      for (const line of textOf("hooks-review")) expect(review).toContain(line);
      pane.send("2");
      await pane.waitForText(/^› Ask Codex to do anything$/m);
      expect(readFileSync(made.config, "utf8")).toContain(`trust_level = "trusted"`);
      const statuses = (await made.listed()).map((hook) => hook["trustStatus"]);
      expect(new Set(statuses)).toEqual(new Set(["trusted"]));

      // No event before the first prompt; then Esc, and the end.
      expect(made.hooks).toEqual([]);
      pane.type(made.scenario([[exec("c", `touch '${made.dir}/on'; sleep 60`)]]));
      pane.enter();
      await made.seen("the command runs", () => existsSync(join(made.dir, "on")));
      expect(pane.screen()).toContain("esc to interrupt");
      pane.send("Escape");
      await pane.waitForText(/Conversation interrupted/);
      expect(made.result("c")).toMatch(/^Wall time: \d+\.\d seconds\naborted by user$/);
      pane.type("/quit");
      pane.enter();
      expect(await pane.exitCode()).toBe(0);
      expect(pane.history()).toContain(`codex resume ${String(made.hooks[0]?.["session_id"])}`);
    } finally {
      await pane.tmux.kill();
    }
  });

  test("a provider that asks for a login: no auth.json → the login screen; with one → none", async () => {
    const made = codexWorld({ needsLogin: true });
    const pane = open(made, "hello");
    try {
      const login = await pane.waitForText(/Press enter to continue/);
      for (const line of textOf("login")) expect(login).toContain(line);
      expect(made.hooks).toEqual([]);
      pane.send("C-c");
      await pane.exitCode();
    } finally {
      await pane.tmux.kill();
    }
    writeFileSync(join(made.home, "auth.json"), `{"OPENAI_API_KEY":"sk-x"}`);
    const session = made.interactive("hello");
    await made.seen("a turn", () => made.ofEvent("Stop").length === 1);
    session.type("/quit");
    await session.ended();
  });
});

describe("model server", () => {
  test("codex: a conversation → the scripted step; compressed bodies, slow answers, refusals", async () => {
    const call: ModelItem = {
      type: "function_call",
      name: "exec_command",
      arguments: { cmd: "x" },
      call_id: "c1",
    };
    const dir = tempDir("model");
    const server = startCodexModelServer({
      recordDir: dir,
      scripts: {
        a: [
          [{ type: "text", text: "one" }, call],
          (request) => [{ type: "text", text: `told ${callOutputs(request.body.input)[0]?.text}` }],
          [{ type: "text", text: "slow", delay_ms: 50, tail_ms: 50 }],
        ],
        fails: [{ failed: { code: "server_error", message: "no" } }],
      },
      first: (request) => (request.body.model === "refused" ? refusal("not this") : undefined),
    });
    const lite = {
      type: "additional_tools",
      role: "developer",
      tools: [{ name: "functions", tools: [{ name: "exec_command" }] }],
    };
    const user = (text: string) => ({
      type: "message",
      role: "user",
      content: [{ type: "input_text", text }],
    });
    const assistant = { type: "message", role: "assistant", content: [] };
    const ask = async (input: object[], body: object = {}): Promise<[number, string]> => {
      const answer = await fetch(`${server.url}/responses`, {
        method: "POST",
        headers: { "content-encoding": "zstd" },
        body: Bun.zstdCompressSync(
          JSON.stringify({ model: "m", input: [lite, ...input], ...body }),
        ),
      });
      return [answer.status, await answer.text()];
    };
    try {
      const [, first] = await ask([user("SCRIPT:a go")]);
      expect(first).toContain(
        `"call_id":"c1","name":"exec_command","arguments":"{\\"cmd\\":\\"x\\"}"`,
      );
      expect(first).toContain("event: response.completed");
      const output = { type: "function_call_output", call_id: "c1", output: "é\n" };
      const so = [user("SCRIPT:a go"), assistant, { ...call, type: "function_call" }, output];
      expect((await ask(so))[1]).toContain("told é\\n");
      const started = performance.now();
      expect((await ask([...so, assistant, user("and?")]))[1]).toContain("slow");
      expect(performance.now() - started).toBeGreaterThanOrEqual(95);
      expect((await ask([user("hi")]))[1]).toContain(`"delta":"ok"`);
      expect((await ask([user("SCRIPT:fails")]))[1]).toContain("event: response.failed");
      const [status, words] = await ask([user("hi")], { model: "refused" });
      expect([status, JSON.parse(words)]).toMatchObject([400, { error: { message: "not this" } }]);
      const kept = server.requests[0]!;
      expect([kept.script, kept.step, toolNames(kept)]).toEqual(["a", 0, ["exec_command"]]);
      expect(readFileSync(join(dir, `${kept.id}.json`), "utf8")).toBe(kept.raw);
      expect(await (await fetch(`${server.url}/models`)).json()).toEqual({ models: [], data: [] });
    } finally {
      await server.close();
    }
  });
});
