/** Codex's session record: read incrementally, whatever happens to the file. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { findRecord, RolloutReader } from "../../../src/backends/harness/codex/record.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

let file = "";
let reader = new RolloutReader();
beforeEach(() => {
  file = join(tempDir("rollout"), "rollout-1.jsonl");
  reader = new RolloutReader();
});

const line = (type: string, payload: object): string => `${JSON.stringify({ type, payload })}\n`;
const item = (payload: object): string => line("response_item", payload);
const usage = (): string => line("token_usage_record", { response_id: "r" });
const call = (id: string, cmd = "echo hi"): string =>
  item({
    type: "function_call",
    name: "exec_command",
    arguments: JSON.stringify({ cmd }),
    call_id: id,
  });
const output = (id: string, text: unknown): string =>
  item({ type: "function_call_output", call_id: id, output: text });
const numbers = (): Record<string, number> => Object.fromEntries(reader.read(file)!.responses);
const outputs = (): Record<string, string> => Object.fromEntries(reader.read(file)!.outputs);

test("record: two calls of one response, then one of the next → one number, then the next", () => {
  writeFileSync(file, call("a") + call("b") + usage() + output("a", "1") + output("b", "2"));
  appendFileSync(file, call("c"));
  expect(numbers()).toEqual({ a: 0, b: 0, c: 1 });
  appendFileSync(file, usage() + output("c", "3") + call("d") + usage());
  expect(numbers()).toEqual({ a: 0, b: 0, c: 1, d: 2 });
  expect(outputs()).toEqual({ a: "1", b: "2", c: "3" });
});

const turnOver = (turn_id: string, error?: object): string =>
  line("event_msg", { type: "task_complete", turn_id, last_agent_message: null, ...error });
const failed = (message: string, codex_error_info: string): object => ({
  error: { message, codex_error_info },
});

test("record: a turn that ends by the provider's error before anything was answered → its words; an answer → none", () => {
  const refused = failed(
    '{"error":{"message":"not this","type":"invalid_request_error"}}',
    "other",
  );
  writeFileSync(file, turnOver("t1"));
  expect(reader.read(file)!.refusal).toBeNull();
  appendFileSync(file, turnOver("t2", refused));
  expect(reader.read(file)!.refusal).toEqual({ turn: "t2", said: "not this" });
  appendFileSync(file, turnOver("t3", failed("in words", "bad_request")));
  expect(reader.read(file)!.refusal).toEqual({ turn: "t3", said: "in words" });
  appendFileSync(file, call("a") + usage() + output("a", "1") + turnOver("t4", refused));
  expect(reader.read(file)!.refusal).toBeNull();
});

test.each(["usage_limit_exceeded", "unauthorized", "server_overloaded", "http_connection_failed"])(
  "record: a first turn that ends by %s → no refusal of what was asked",
  (info) => {
    writeFileSync(file, turnOver("t1", failed("later", info)));
    expect(reader.read(file)!.refusal).toBeNull();
  },
);

test("record: found by its conversation below the home, the newest day first; none → null", () => {
  const home = tempDir("codex-home");
  expect(findRecord(home, "id-1")).toBeNull();
  const days = ["2026/11/30", "2026/12/01"].map((day) => join(home, "sessions", day));
  for (const [i, day] of days.entries()) {
    mkdirSync(day, { recursive: true });
    writeFileSync(join(day, `rollout-${i}-id-1.jsonl`), "");
  }
  expect(findRecord(home, "id-1")).toBe(join(days[1]!, "rollout-1-id-1.jsonl"));
  expect(findRecord(home, "id-2")).toBeNull();
});

test("record: commands and patches → what a refusal repeats; other tools → nothing", () => {
  const patch = "*** Begin Patch\n*** End Patch";
  writeFileSync(
    file,
    call("a", "touch 'é'\n") +
      item({ type: "custom_tool_call", name: "apply_patch", input: patch, call_id: "b" }) +
      item({ type: "function_call", name: "mcp__x", arguments: "{}", call_id: "c" }) +
      item({ type: "function_call", name: "exec_command", arguments: "{bad", call_id: "d" }),
  );
  const { commands } = reader.read(file)!;
  expect(Object.fromEntries(commands)).toEqual({ a: "touch 'é'\n", b: patch });
});

test("record: torn last line → left for the next time, wherever it is torn", () => {
  const text = Buffer.from(call("a", "é🙂") + usage() + output("a", "é🙂") + call("b"));
  for (let cut = 0; cut <= text.length; cut += 7) {
    writeFileSync(file, text.subarray(0, cut));
    reader.read(file);
    writeFileSync(file, text.subarray(cut), { flag: "a" });
    expect([cut, numbers(), outputs()]).toEqual([cut, { a: 0, b: 1 }, { a: "é🙂" }]);
    reader = new RolloutReader();
  }
});

test("record: cut, replaced, rewritten in place → from the start", () => {
  writeFileSync(file, call("a") + usage() + call("b"));
  expect(numbers()).toEqual({ a: 0, b: 1 });
  truncateSync(file, call("a").length);
  expect(numbers()).toEqual({ a: 0 });
  writeFileSync(`${file}.new`, usage() + call("c"));
  renameSync(`${file}.new`, file);
  expect(numbers()).toEqual({ c: 1 });
  writeFileSync(file, call("x") + usage() + usage() + call("y"));
  expect(numbers()).toEqual({ x: 0, y: 2 });
});

test("record: missing, a folder → null; there again → read", () => {
  expect(reader.read(file)).toBeNull();
  writeFileSync(file, call("a"));
  expect(numbers()).toEqual({ a: 0 });
  rmSync(file);
  expect(reader.read(file)).toBeNull();
  mkdirSync(file);
  expect(reader.read(file)).toBeNull();
  rmSync(file, { recursive: true });
  writeFileSync(file, call("b"));
  expect(numbers()).toEqual({ b: 0 });
});

test("record: what is no JSON, of another kind, or only quotes the words → says nothing", () => {
  const quoted = item({ type: "message", text: '"function_call" "token_usage_record"' });
  writeFileSync(
    file,
    `not json "function_call"\n{"type":"token_usage_record"\n\n${quoted}${line("event_msg", { type: "function_call", call_id: "z" })}${item({ type: "function_call", name: "x" })}${call("a")}`,
  );
  expect(numbers()).toEqual({ a: 0 });
});

test("record: refusals whole, other results cut; one that is no text → readable", () => {
  const refusal = `Command blocked by PreToolUse hook: ${"r".repeat(9_000)}. Command: x`;
  writeFileSync(
    file,
    output("a", refusal) + output("b", "z".repeat(9_000)) + output("c", [{ t: 1 }]),
  );
  expect(outputs()).toEqual({ a: refusal, b: "z".repeat(4_096), c: '[{"t":1}]' });
});

test("record: what was read is not read again", () => {
  const filler = line("event_msg", { type: "agent_message", text: "x".repeat(100_000) });
  writeFileSync(file, call("first") + filler.repeat(30) + usage());
  expect(numbers()).toEqual({ first: 0 });
  // Changed where nobody has to look any more: whoever looks all the same finds another call.
  const fd = openSync(file, "r+");
  writeSync(fd, call("other"), 0);
  closeSync(fd);
  appendFileSync(file, call("next"));
  expect(numbers()).toEqual({ first: 0, next: 1 });
  reader = new RolloutReader();
  expect(numbers()).toEqual({ other: 0, next: 1 });
});

test("record: an id that is used again → the earlier call's result is not the new one's, nor its command", () => {
  writeFileSync(file, call("a", "one") + usage() + output("a", "1"));
  expect(outputs()).toEqual({ a: "1" });
  const named = { type: "function_call", name: "mcp__x", arguments: "{}", call_id: "a" };
  appendFileSync(file, item(named));
  expect(outputs()).toEqual({});
  expect(reader.read(file)!.commands.has("a")).toBe(false);
  expect(numbers()).toEqual({ a: 1 });
  appendFileSync(file, usage() + output("a", "2"));
  expect(outputs()).toEqual({ a: "2" });
});
