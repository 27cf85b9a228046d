/** What two sessions of a Codex prove: everything as it should be, and one thing of it changed at a time. */
import { expect, test } from "bun:test";
import { PROOF_NAMES, type ProofName } from "../../../src/backends/harness/codex/proven.ts";
import { judgeSeen, type Seen } from "../../../src/backends/harness/codex/quick-judge.ts";
import { CALL, type Asked } from "../../../src/backends/harness/codex/quick-script.ts";
import type { RecordedHook } from "../../../src/backends/harness/hook-recorder.ts";

const RECORD = "/home/sessions/2026/12/01/rollout-s1.jsonl";
const TOOLS = ["exec_command", "apply_patch", "write_stdin", "mcp__kiki_proof.look"];
const NAMES: Record<string, string> = {
  [CALL.patch]: "apply_patch",
  [CALL.server]: "mcp__kiki_proof__look",
};
const RESPONSES = [
  [CALL.command],
  [CALL.patch],
  [CALL.server],
  [CALL.first, CALL.second],
  [CALL.terminal],
  [CALL.background],
  [CALL.toBackground],
  [CALL.unguarded],
];
const REFUSED = new Set<string>([CALL.command, CALL.patch, CALL.server]);

const hook = (event: string, payload: Record<string, unknown>): RecordedHook => ({
  at: "",
  event,
  payload: { hook_event_name: event, session_id: "s1", transcript_path: RECORD, ...payload },
  from: 0,
  to: 0,
});
const preTool = (id: string, turn: string): RecordedHook =>
  hook("PreToolUse", { turn_id: turn, tool_use_id: id, tool_name: NAMES[id] ?? "Bash" });

const output = (id: string): string => (REFUSED.has(id) ? `refused ${id}` : `output of ${id}`);
const command = (id: string): string | undefined =>
  NAMES[id] === "mcp__kiki_proof__look" ? undefined : `command ${id}`;

function asked(calls: readonly string[], said: string): Asked {
  return {
    calls,
    tools: TOOLS,
    parallel: false,
    said,
    outputs: new Map(calls.map((id) => [id, output(id)])),
    recorded: new Map(
      calls.map((id) => [id, { response: 0, output: output(id), command: command(id) }]),
    ),
  };
}

/** A program that behaves. */
function behaving(): Seen {
  const hooked = RESPONSES.flat().filter((id) => id !== CALL.toBackground && id !== CALL.unguarded);
  return {
    refusedArguments: null,
    commands: new Map([CALL.command, CALL.patch].map((id) => [id, `command ${id}`])),
    expected: ({ toolName, command: of }) =>
      `refused ${Object.keys(NAMES).find((id) => NAMES[id] === toolName) ?? of?.replace("command ", "")}`,
    atHook: new Map(RESPONSES.flatMap((ids, n) => ids.map((id) => [id, n] as const))),
    recordPath: RECORD,
    ran: new Set([CALL.first, CALL.second, CALL.background, CALL.again]),
    early: false,
    decoys: [],
    mcpAsked: true,
    first: {
      prompt: "one",
      whole: true,
      why: "",
      asked: [[], ...RESPONSES.map((_, n) => RESPONSES.slice(0, n + 1).flat())].map((ids) =>
        asked(ids, "one"),
      ),
      hooks: [
        hook("SessionStart", { source: "startup" }),
        hook("UserPromptSubmit", { turn_id: "t1", prompt: "one" }),
        ...hooked.map((id) => preTool(id, "t1")),
        hook("Stop", { turn_id: "t1" }),
      ],
    },
    second: {
      prompt: "two",
      whole: true,
      why: "",
      heard: true,
      asked: [asked([], "one two"), asked([CALL.again], "one two")],
      hooks: [
        hook("SessionStart", { source: "resume" }),
        hook("UserPromptSubmit", { turn_id: "t2", prompt: "two" }),
        preTool(CALL.again, "t2"),
      ],
    },
  };
}

/** Outcome and reason of all that were not proved. */
function unproved(change: (seen: Seen) => Partial<Seen> = () => ({})): Record<string, string> {
  const seen = behaving();
  const proofs = judgeSeen({ ...seen, ...change(seen) });
  expect(proofs.map(({ name }) => name)).toEqual([...PROOF_NAMES]);
  const open = proofs.filter(({ outcome }) => outcome !== "proved");
  return Object.fromEntries(open.map((p) => [p.name, `${p.outcome}: ${p.reason}`]));
}

const without = (event: string) => (seen: Seen) => ({
  first: { ...seen.first, hooks: seen.first.hooks.filter((h) => h.event !== event) },
});
/** Every request changed. */
const requests = (change: (one: Asked) => Partial<Asked>) => (seen: Seen) => ({
  first: { ...seen.first, asked: seen.first.asked.map((one) => ({ ...one, ...change(one) })) },
});
const again = (change: Partial<NonNullable<Seen["second"]>>) => (seen: Seen) => ({
  second: { ...seen.second!, ...change },
});

test("a program that behaves → everything proved", () => {
  expect(unproved()).toEqual({});
});

const one: [string, (seen: Seen) => Partial<Seen>, Partial<Record<ProofName, string>>][] = [
  [
    "its command line refused",
    () => ({ refusedArguments: "error: no" }),
    {
      "command-line":
        "failed: it does not take the command line that kiki starts it with: error: no",
    },
  ],
  [
    "nothing said of it in time",
    () => ({ refusedArguments: "" }),
    { "command-line": "not-tried: it did not say in time whether it takes kiki's command line" },
  ],
  [
    "hooks of others, more than fit a line",
    () => ({ decoys: ["a", "b", "c", "d", "e", "f"] }),
    { "exclusive-hooks": "failed: hooks that are not kiki's ran in it: a, b, c, d and 2 more" },
  ],
  [
    "no SessionStart",
    without("SessionStart"),
    {
      "pre-tool-hooks": "failed: it does not say that it has started (SessionStart)",
      resume: "failed: resumed, its conversation has another id or record",
    },
  ],
  [
    "a tool of its own that is new",
    requests(({ tools }) => ({ tools: [...tools, "edit_everything"] })),
    {
      "pre-tool-hooks":
        "failed: it has tools of which kiki does not know whether they ask: edit_everything",
    },
  ],
  [
    "a new tool on a terminal only",
    again({ asked: [asked([CALL.again], "")].map((a) => ({ ...a, tools: ["open_thread"] })) }),
    {
      "pre-tool-hooks":
        "failed: it has tools of which kiki does not know whether they ask: open_thread",
    },
  ],
  [
    "asks twice about one call",
    ({ first }) => ({ first: { ...first, hooks: [...first.hooks, preTool(CALL.command, "t1")] } }),
    { "pre-tool-hooks": "failed: it asked about one call of Bash 2 times" },
  ],
  [
    "calls of an MCP server that ask nobody",
    ({ first }) => ({
      first: {
        ...first,
        hooks: first.hooks.filter(({ payload }) => payload["tool_use_id"] !== CALL.server),
      },
    }),
    {
      "pre-tool-hooks":
        "failed: it did not ask about mcp__kiki_proof__look with session, call, tool and record",
      "mcp-server":
        "failed: it asked the project's MCP server for its tools, and its model did not get them",
    },
  ],
  [
    "runs the second call before its hook has answered",
    () => ({ early: true }),
    {
      "pre-tool-hooks": "failed: it ran a call whose hook had not answered yet",
      "serial-calls":
        "failed: while one of two calls waited for its hook, the other did not come to its end",
    },
  ],
  [
    "a refused patch runs",
    ({ ran }) => ({ ran: new Set([...ran, CALL.patch]) }),
    { "deny-blocks": "failed: it ran apply_patch, which it was told to refuse" },
  ],
  [
    "a refused call has a PostToolUse",
    ({ first }) => ({
      first: {
        ...first,
        hooks: [
          ...first.hooks,
          hook("PostToolUse", { turn_id: "t1", tool_use_id: CALL.command, tool_name: "Bash" }),
        ],
      },
    }),
    { "deny-blocks": "failed: it ran Bash, which it was told to refuse" },
  ],
  [
    "asked again with one of two results",
    ({ first }) => ({
      first: {
        ...first,
        asked: first.asked.map((a) => ({
          ...a,
          outputs: new Map(
            [...a.outputs].filter(([id]) => id !== CALL.first || a.calls.length > 5),
          ),
        })),
      },
    }),
    { "serial-calls": "failed: it asks its model again before all calls of a response are over" },
  ],
  [
    "a background command takes input",
    ({ ran }) => ({ ran: new Set([...ran, `${CALL.background}_fed`]) }),
    { "unasked-input": "failed: what it runs can be told more without asking (write_stdin)" },
  ],
  [
    "a terminal that was granted and not tried",
    ({ ran }) => ({ ran: new Set([...ran, CALL.terminal]) }),
    { "unasked-input": "failed: it does not say in words kiki knows that a command goes on" },
  ],
  [
    "its record elsewhere",
    () => ({ recordPath: null }),
    { "session-record": "failed: its session record is not where kiki looks for it" },
  ],
  [
    "a call written down after its hook",
    ({ atHook }) => ({ atHook: new Map([...atHook, [CALL.patch, undefined]]) }),
    { "session-record": "failed: a call is not in its session record when it asks about it" },
  ],
  [
    "two calls of one response told apart",
    ({ atHook }) => ({ atHook: new Map([...atHook, [CALL.second, 4]]) }),
    { "session-record": "failed: its session record does not say which calls are of one response" },
  ],
  [
    "outputs written down later than the next request",
    requests(({ recorded }) => ({
      recorded: new Map([...recorded].map(([id, r]) => [id, { ...r, output: undefined }])),
    })),
    {
      "session-record":
        "failed: its session record does not have what its model gets when that is asked again",
    },
  ],
  [
    "the unguarded call runs",
    ({ ran }) => ({ ran: new Set([...ran, CALL.unguarded]) }),
    { "fail-closed": "failed: it ran a call whose hook had died" },
  ],
  [
    "both prompts in one turn",
    again({
      hooks: [
        hook("SessionStart", { source: "resume" }),
        hook("UserPromptSubmit", { turn_id: "t1", prompt: "two" }),
        preTool(CALL.again, "t1"),
      ],
    }),
    { "startup-echo": "failed: two prompts have the same turn" },
  ],
  [
    "several calls at a time on a terminal only",
    again({ asked: [{ ...asked([CALL.again], ""), parallel: true }] }),
    {
      "serial-calls":
        "failed: it lets its model ask for several calls at a time (parallel_tool_calls)",
    },
  ],
  [
    "no time for a second session",
    () => ({ second: null }),
    {
      "startup-echo": "not-tried: no time was left to look",
      resume: "not-tried: no time was left to look",
    },
  ],
  [
    "on a terminal it waits for somebody",
    again({ asked: [], hooks: [], whole: false, why: "on a terminal it did not come to an end" }),
    {
      "startup-echo": "not-tried: on a terminal it did not come to an end",
      resume: "not-tried: on a terminal it did not come to an end",
    },
  ],
  [
    "resumed, without the conversation so far",
    again({ heard: false }),
    { resume: "failed: resumed, its model is not told the conversation so far" },
  ],
  [
    "no Stop",
    without("Stop"),
    { "turn-end": "failed: it says 0 times that a turn is over (Stop)" },
  ],
];
for (const [what, change, found] of one)
  test(`${what} → ${Object.keys(found).join(", ")} and nothing else`, () => {
    expect(unproved(change)).toEqual(found as Record<string, string>);
  });

test("ended before anything was asked → nothing tried but the command line, in its words", () => {
  const found = unproved(({ first }) => ({
    first: { ...first, asked: [], hooks: [], whole: false, why: "it ended with exit code 3" },
    second: null,
    ran: new Set(),
    mcpAsked: false,
  }));
  expect(Object.keys(found)).toEqual(PROOF_NAMES.filter((name) => name !== "command-line"));
  expect(new Set(Object.values(found))).toEqual(new Set(["not-tried: it ended with exit code 3"]));
});
