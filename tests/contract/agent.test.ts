/** The agent in memory and the scripted stand-in program, which is held to the real binary: the same hooks, in order. */
import { afterAll, expect } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { denyVerdict } from "../../src/core/generic-deny.ts";
import { FakeAgent } from "../fakes/agent.ts";
import { fieldOf, type HookPayload } from "../fakes/agent-protocol.ts";
import { bash, read, unknownTool, write, type ToolSpec } from "../fakes/agent-tools.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeIds } from "../fakes/ids.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

/** `fails`: the hook ends with an error; everything else is what it prints. */
type Verdict = { prints: string } | "fails";

interface Played {
  payloads: HookPayload[];
  file: (name: string) => string | null;
}

/** Plays one turn: a prompt, one response with these calls, the end. */
interface Subject {
  root: string;
  play: (calls: readonly ToolSpec[], verdicts: Record<string, Verdict>) => Promise<Played>;
}

const STAND_IN = join(import.meta.dir, "../../fixtures/agents/claude");
const EVENTS = [
  ..."PreToolUse PostToolUse PostToolUseFailure PostToolBatch UserPromptSubmit".split(" "),
  ..."SessionStart Stop".split(" "),
];

async function playFake(
  root: string,
  calls: readonly ToolSpec[],
  verdicts: Record<string, Verdict>,
): Promise<Played> {
  const files = new FakeFiles();
  files.put(`${root}/a.txt`, "one\n");
  const agent = new FakeAgent({
    hooks: {
      daemon: {
        async preToolUse(raw) {
          const verdict = verdicts[fieldOf(raw, "tool_use_id")];
          if (verdict === undefined || verdict === "fails") return { decision: "pass" };
          return { decision: "deny", output: verdict.prints };
        },
        hold: () => Promise.reject(new Error("nothing is held")),
        markDelivered: () => Promise.resolve(),
        event: () => Promise.resolve(),
      },
      disk: {
        barred: () => false,
        recordPass: () => () => undefined,
        spool: () => undefined,
        log: () => undefined,
      },
    },
    files,
    ids: new FakeIds(),
    cwd: root,
  });
  agent.start("startup", "go");
  await agent.run();
  agent.main.respond(calls);
  for (const [id, verdict] of Object.entries(verdicts)) {
    if (verdict !== "fails") continue;
    const asked = (): boolean => agent.steps().some((s) => s.name.startsWith(`${id} PreToolUse`));
    await agent.run({ until: asked });
    agent.hook(id).killLauncher();
  }
  await agent.run();
  agent.main.finish();
  await agent.run();
  return { payloads: agent.sent, file: (name) => files.get(`${root}/${name}`) };
}

async function playStandIn(
  root: string,
  calls: readonly ToolSpec[],
  verdicts: Record<string, Verdict>,
): Promise<Played> {
  const dir = tempDir("contract-agent");
  for (const name of ["home", "config", "tmp"]) mkdirSync(join(dir, name));
  const rules = Object.entries(verdicts).map(([id, verdict], n) => {
    if (verdict !== "fails") writeFileSync(join(dir, `verdict-${n}`), verdict.prints);
    const does = verdict === "fails" ? "exit 1" : `cat '${join(dir, `verdict-${n}`)}'`;
    return `case $payload in *'"hook_event_name":"PreToolUse"'*'"tool_use_id":"${id}"'*) ${does};; esac`;
  });
  const heard = join(dir, "heard");
  const lines = ["#!/bin/sh", "IFS= read -r payload", `printf '%s\\n' "$payload" >> '${heard}'`];
  writeFileSync(join(dir, "hook"), [...lines, ...rules, "exit 0", ""].join("\n"));
  chmodSync(join(dir, "hook"), 0o755);
  const hook = { type: "command", command: join(dir, "hook"), args: [], onFailure: "block" };
  const hooks = Object.fromEntries(EVENTS.map((event) => [event, [{ hooks: [hook] }]]));
  writeFileSync(join(dir, "settings.json"), JSON.stringify({ hooks }));
  const uses = calls.map(({ name, input, id }) => ({ type: "tool_use", name, input, id }));
  const responses = [uses, [{ type: "text", text: "Done." }]];
  writeFileSync(
    join(dir, "scenario.json"),
    JSON.stringify({ log: join(dir, "events"), responses }),
  );
  const argv = ["--settings", join(dir, "settings.json"), "--setting-sources", ""];
  const child = Bun.spawn([STAND_IN, ...argv, "-p", `SCENARIO:${join(dir, "scenario.json")}`], {
    cwd: root,
    env: {
      PATH: process.env["PATH"] ?? "/usr/bin:/bin",
      HOME: join(dir, "home"),
      CLAUDE_CONFIG_DIR: join(dir, "config"),
      CLAUDE_CODE_TMPDIR: join(dir, "tmp"),
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  expect(await child.exited).toBe(0);
  const payloads = readFileSync(heard, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as HookPayload);
  const file = (name: string): string | null =>
    existsSync(join(root, name)) ? readFileSync(join(root, name), "utf8") : null;
  return { payloads, file };
}

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make: () => ({ root: "/ws", play: (calls, verdicts) => playFake("/ws", calls, verdicts) }),
  },
  {
    name: "stand-in",
    make() {
      const root = tempDir("contract-agent-ws");
      writeFileSync(join(root, "a.txt"), "one\n");
      return { root, play: (calls, verdicts) => playStandIn(root, calls, verdicts) };
    },
  },
];

const named = (spec: ToolSpec, id: string): ToolSpec => ({ ...spec, id });
const touch = (root: string, name: string): ToolSpec =>
  bash(`touch ${name}`, (files) => (files.put(`${root}/${name}`, ""), ""));
const broken = bash("exit 3", () => {
  throw new Error("Exit code 3");
});
/** Hooks in order, each with the call it is about. */
const order = (p: Played): string[] =>
  p.payloads.map((h) => `${fieldOf(h, "hook_event_name")} ${fieldOf(h, "tool_use_id")}`.trim());
const closing = (p: Played) =>
  p.payloads.find((h) => h["hook_event_name"] === "PostToolBatch")!["tool_calls"] as {
    tool_use_id: string;
    tool_name: string;
    tool_input: unknown;
    tool_response: unknown;
  }[];
const REASON = '[kiki] moved\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end)';

contract("agent", implementations, [
  {
    name: "two calls that run alone → each asks, runs and reports before the next; then the closing event, then Stop",
    async run({ root, play }) {
      const calls = [named(write(`${root}/b.txt`, "2\n"), "w"), named(touch(root, "c.txt"), "t")];
      const played = await play(calls, {});
      expect(order(played)).toEqual([
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse w",
        "PostToolUse w",
        "PreToolUse t",
        "PostToolUse t",
        "PostToolBatch",
        "Stop",
      ]);
      expect([played.file("b.txt"), played.file("c.txt")]).toEqual(["2\n", ""]);
    },
  },
  {
    name: "every call denied → none runs or reports, the closing event has the wrapped reason, byte for byte",
    async run({ root, play }) {
      const calls = [named(write(`${root}/b.txt`, "2\n"), "w"), named(read(`${root}/a.txt`), "r")];
      const prints = denyVerdict(REASON);
      const played = await play(calls, { w: { prints }, r: { prints } });
      expect(order(played).filter((h) => h.startsWith("PostToolUse"))).toEqual([]);
      expect(closing(played).map((c) => [c.tool_use_id, c.tool_response])).toEqual([
        ["w", `PreToolUse:Write hook error: ${REASON}`],
        ["r", `PreToolUse:Read hook error: ${REASON}`],
      ]);
      expect(played.file("b.txt")).toBeNull();
    },
  },
  {
    name: "one denied, one failing, one unknown → siblings go on; the closing event lists all in the response's order",
    async run({ root, play }) {
      const calls = [
        named(touch(root, "c.txt"), "d"),
        named(broken, "f"),
        named(unknownTool("Fly"), "u"),
        named(touch(root, "e.txt"), "e"),
      ];
      const played = await play(calls, { d: { prints: denyVerdict("no") } });
      expect(order(played).slice(2)).toEqual([
        "PreToolUse d",
        "PreToolUse f",
        "PostToolUseFailure f",
        "PreToolUse e",
        "PostToolUse e",
        "PostToolBatch",
        "Stop",
      ]);
      expect(closing(played).map((c) => c.tool_use_id)).toEqual(["d", "f", "u", "e"]);
      expect(closing(played)[1]!.tool_response).toBe("Exit code 3");
      expect(closing(played)[2]!.tool_response).toBe(unknownTool("Fly").refusal!);
      expect([played.file("c.txt"), played.file("e.txt")]).toEqual([null, ""]);
    },
  },
  {
    name: "hook that fails → blocked by onFailure; output that is not whole JSON → the tool runs",
    async run({ root, play }) {
      const calls = [named(touch(root, "c.txt"), "x"), named(touch(root, "e.txt"), "y")];
      const played = await play(calls, { x: "fails", y: { prints: '{"hookSpecificOutput":{"' } });
      expect([played.file("c.txt"), played.file("e.txt")]).toEqual([null, ""]);
      expect(closing(played)[0]!.tool_response).toMatch(
        /^PreToolUse:Bash hook error: .*blocking because onFailure is "block"/,
      );
    },
  },
  {
    name: "payloads → the fields of the recorded ones; one prompt id for the turn, none at the start",
    async run({ root, play }) {
      const calls = [named(touch(root, "c.txt"), "t"), named(broken, "f")];
      const { payloads } = await play(calls, {});
      const recorded = join(import.meta.dir, "../../fixtures/hooks/claude-code/2.1.332");
      for (const payload of payloads) {
        const event = fieldOf(payload, "hook_event_name");
        const real = JSON.parse(
          readFileSync(join(recorded, `${event}.json`), "utf8"),
        ) as HookPayload;
        // How hard the model thinks, and which one it is, decides nothing here.
        const skip = new Set(["effort", "model"]);
        const fields = (p: HookPayload) =>
          Object.keys(p)
            .filter((k) => !skip.has(k))
            .toSorted();
        expect([event, fields(payload)]).toEqual([event, fields(real)]);
      }
      const prompts = payloads.map((p) => fieldOf(p, "prompt_id"));
      expect([prompts[0], new Set(prompts.slice(1)).size]).toEqual(["", 1]);
      expect(closing({ payloads, file: () => null })[0]!.tool_input).toEqual(calls[0]!.input);
    },
  },
]);
