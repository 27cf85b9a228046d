/**
 * What the scripted model asks for during the quick proofs, response after response, and what is seen at each request:
 * what the model is told of the calls so far, and what the session record says of them at that moment.
 */
import { join } from "node:path";
import { denyVerdict } from "../../../core/generic-deny.ts";
import { writeDurable } from "../../files.ts";
import type { HarnessEvent } from "../../../ports/harness.ts";
import type { HookRecorder, RecordedHook } from "../hook-recorder.ts";
import { shellQuote } from "../launcher.ts";
import { hardestReason } from "../proof-kit.ts";
import { interpretCodexEvent } from "./events.ts";
import { RolloutReader } from "./record.ts";
import { callOutputs, saidByUser, type ModelItem, type ModelRequest } from "./scripted-model.ts";

/** Calls of the first session in their order; a trace of the same name says that the tool ran. */
export const CALL = {
  /** Refused, each in a response of its own: a command, a patch, a tool of an MCP server. */
  command: "call_kiki_command",
  patch: "call_kiki_patch",
  server: "call_kiki_server",
  /** Two of one response: the second one's hook waits until the first has run. */
  first: "call_kiki_first",
  second: "call_kiki_second",
  /** Commands that read their input: one asks for a terminal, one goes on in the background. */
  terminal: "call_kiki_terminal",
  toTerminal: "call_kiki_to_terminal",
  background: "call_kiki_background",
  toBackground: "call_kiki_to_background",
  /** While its hook dies. */
  unguarded: "call_kiki_unguarded",
  /** Of the second session. */
  again: "call_kiki_again",
} as const;

export const REASON = hardestReason().trim();
export const MCP_SERVER = "kiki_proof";
export const MCP_TOOL = "look";
const SHELL_TOOL = "exec_command";
/** What 0.171.0 says of a command that goes on: write_stdin takes the number. */
const RUNNING = /session ID (\d+)/;
const YIELD_MS = 250;

/** What the record says of one call. */
export interface Recorded {
  response: number | undefined;
  output: string | undefined;
  command: string | undefined;
}

/** One request of a session's own, with everything asked for before it. */
export interface Asked {
  calls: readonly string[];
  tools: readonly string[];
  parallel: unknown;
  outputs: ReadonlyMap<string, string>;
  /** All text of persons and programs in the conversation so far. */
  said: string;
  recorded: ReadonlyMap<string, Recorded>;
}

export interface ScriptPlaces {
  recorder: HookRecorder;
  /** Relative to the workspace and absolute, the same folder. */
  traces: { name: string; path: string };
  /** Of the generated CODEX_HOME. */
  sessions: string;
  launcher: string;
  /** Made when the command in the background may end. */
  stop: string;
}

type Step = (asked: ModelRequest, outputs: ReadonlyMap<string, string>) => ModelItem[] | null;

/** A session of the scripted model. */
export class Script {
  readonly asked: Asked[] = [];
  readonly #steps: Step[];
  readonly #recorder: HookRecorder;
  readonly #records = new RolloutReader();
  readonly #calls: string[] = [];

  private constructor(recorder: HookRecorder, steps: Step[]) {
    this.#recorder = recorder;
    this.#steps = steps;
  }

  /** Everything, up to a call whose hook dies. */
  static whole(places: ScriptPlaces): Script {
    places.recorder.before(atHook(places));
    places.recorder.denyWith(denyVerdict(REASON));
    return new Script(places.recorder, stepsOf(places));
  }

  /** One call. */
  static again({ recorder, traces }: ScriptPlaces): Script {
    recorder.denyWith(null);
    return new Script(recorder, [() => [touch(traces.path, CALL.again)]]);
  }

  /** The model has been told of that call. */
  told(id: string): boolean {
    return this.asked.some(({ outputs }) => outputs.has(id));
  }

  answer(request: ModelRequest): readonly ModelItem[] {
    // A side question, a title for example, has other tools.
    if (!request.tools.includes(SHELL_TOOL)) return [{ type: "text", text: "ok" }];
    const outputs = callOutputs(request.input);
    const { tools, parallel } = request;
    const calls = [...this.#calls];
    const [said, recorded] = [saidByUser(request.input), this.#recorded(calls)];
    this.asked.push({ calls, tools, parallel, outputs, said, recorded });
    // Asked anew without a word of its last calls, it would ask for them for ever.
    const told = calls.every((id) => outputs.has(id));
    for (let step = told ? this.#steps.shift() : undefined; step; step = this.#steps.shift()) {
      const items = step(request, outputs);
      if (items === null) continue;
      for (const item of items) if (item.type !== "text") this.#calls.push(item.id);
      return items;
    }
    return [{ type: "text", text: "Done." }];
  }

  #recorded(calls: readonly string[]): Map<string, Recorded> {
    const event = eventOf(this.#recorder.hooks("PreToolUse").at(-1));
    const path = event?.type === "PreTool" ? event.recordPath : null;
    const record = path === null ? null : this.#records.read(path);
    // The reader goes on with the same maps.
    return new Map(
      calls.map((id) => [
        id,
        {
          response: record?.responses.get(id),
          output: record?.outputs.get(id),
          command: record?.commands.get(id),
        },
      ]),
    );
  }
}

/** As the daemon would understand it; null: not at all. */
export function eventOf(hook: RecordedHook | undefined): HarnessEvent | null {
  try {
    return hook === undefined ? null : interpretCodexEvent(hook.payload);
  } catch {
    return null;
  }
}

function stepsOf(places: ScriptPlaces): Step[] {
  const { traces, recorder, stop } = places;
  const reading = (id: string): string =>
    `: >${trace(traces.path, id)}; read x && : >${trace(traces.path, `${id}_fed`)}`;
  return [
    () => [touch(traces.path, CALL.command)],
    () => [{ type: "custom", id: CALL.patch, name: "apply_patch", input: patchText(traces.name) }],
    ({ tools }) => {
      const [namespace, name] = mcpTool(tools) ?? [];
      if (name === undefined) return null;
      const place = namespace === undefined ? {} : { namespace };
      return [{ type: "function", id: CALL.server, name, ...place, args: {} }];
    },
    () => {
      recorder.denyWith(null);
      return [touch(traces.path, CALL.first), touch(traces.path, CALL.second)];
    },
    () => [command(CALL.terminal, reading(CALL.terminal), { tty: true })],
    (_, outputs) => feed(CALL.toTerminal, outputs.get(CALL.terminal)),
    () => {
      const wait = `while [ ! -e ${shellQuote(stop)} ]; do sleep 0.02; done`;
      return [command(CALL.background, `${reading(CALL.background)}; ${wait}`)];
    },
    (_, outputs) => feed(CALL.toBackground, outputs.get(CALL.background)),
    () => {
      writeDurable(stop, "", 0o600);
      killItself(places);
      return [touch(traces.path, CALL.unguarded)];
    },
  ];
}

/** sh of every PreToolUse: keeps the session records as they are now, and lets the second of two calls wait. */
function atHook({ sessions, traces }: ScriptPlaces): string {
  const [first, second] = [CALL.first, CALL.second].map((id) => trace(traces.path, id));
  return `cp -R ${shellQuote(sessions)} "$at/sessions" 2>/dev/null
case $(cat "$at/payload") in *${CALL.second}*)
  n=0
  while [ ! -e ${first} ] && [ $n -lt 50 ]; do sleep 0.05; n=$((n + 1)); done
  [ ! -e ${second} ] || : >"$at/early" ;;
esac`;
}

/** From here on the hook of a call dies before it says anything; every other event is still recorded. */
function killItself({ launcher, recorder }: ScriptPlaces): void {
  const script = `#!/bin/sh
[ "$1" != PreToolUse ] || kill -KILL $$
${shellQuote(recorder.executable)} "$1" >/dev/null
exit 0
`;
  writeDurable(launcher, script, 0o700);
}

const trace = (folder: string, id: string): string => shellQuote(join(folder, id));

/** The command of a call that leaves its trace and does nothing else. */
export function touchCommand(folder: string, id: string): string {
  return `: >${trace(folder, id)}`;
}

/** `folder`: relative to the workspace. */
export function patchText(folder: string): string {
  return `*** Begin Patch\n*** Add File: ${folder}/${CALL.patch}\n+x\n*** End Patch`;
}

const touch = (folder: string, id: string): ModelItem => ({
  type: "function",
  id,
  name: SHELL_TOOL,
  args: { cmd: touchCommand(folder, id) },
});

function command(id: string, cmd: string, more: object = {}): ModelItem {
  const args = { cmd, yield_time_ms: YIELD_MS, ...more };
  return { type: "function", id, name: SHELL_TOOL, args };
}

/** One line to a command that goes on; null where none does. */
function feed(id: string, told: string | undefined): ModelItem[] | null {
  const session = RUNNING.exec(told ?? "")?.[1];
  if (session === undefined) return null;
  const args = { session_id: Number(session), chars: "x\n", yield_time_ms: YIELD_MS };
  return [{ type: "function", id, name: "write_stdin", args }];
}

/** Namespace, where there is one, and name by which the model calls the tool of the proof's MCP server. */
function mcpTool(tools: readonly string[]): [string | undefined, string] | null {
  const offered = tools.find((name) => name.includes(MCP_SERVER) && name.endsWith(MCP_TOOL));
  if (offered === undefined) return null;
  const dot = offered.lastIndexOf(".");
  return dot < 0 ? [undefined, offered] : [offered.slice(0, dot), offered.slice(dot + 1)];
}
