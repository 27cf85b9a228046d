/** What was seen of a Codex in its two short sessions, and what that proves. Pure. */
import type { Proof } from "../../../core/proofs.ts";
import type { HarnessEvent } from "../../../ports/harness.ts";
import type { RecordedHook } from "../hook-recorder.ts";
import { PROOF_NAMES, proof, type ProofName } from "./proven.ts";
import { CALL, eventOf, MCP_SERVER, MCP_TOOL, type Asked } from "./quick-script.ts";

type Of<T extends HarnessEvent["type"]> = Extract<HarnessEvent, { type: T }>;

/** How far a session came; `why` says what stopped it, and is the reason of everything that was not looked at. */
export interface SeenSession {
  hooks: readonly RecordedHook[];
  asked: readonly Asked[];
  prompt: string;
  /** Ended by itself, with code 0. */
  whole: boolean;
  why: string;
}

export interface Seen {
  /** What it says of the command line a thread is started with; null: nothing against it. "": it said nothing in time. */
  refusedArguments: string | null;
  /** What a refusal should repeat of a call, by call id. */
  commands: ReadonlyMap<string, string>;
  /** What the model should get for a refused call. */
  expected: (call: { toolName: string; command?: string | undefined }) => string;
  /** Number of the call's response in the record as it was when its PreToolUse ran. */
  atHook: ReadonlyMap<string, number | undefined>;
  /** Path of the record of that session in its home, where kiki looks for it. */
  recordPath: string | null;
  /** Names of traces: of tools that ran, and of commands that were told more. */
  ran: ReadonlySet<string>;
  /** The second of two calls had run while its hook was still waiting. */
  early: boolean;
  /** Hooks of the person and the project that ran, as `<scope>-<event>`. */
  decoys: readonly string[];
  mcpAsked: boolean;
  first: SeenSession;
  /** null: there was no time, or no reason, for it. `heard`: its model is told the conversation so far. */
  second: (SeenSession & { heard: boolean }) | null;
}

type Verdict = Pick<Proof, "outcome" | "reason">;
const proved = (reason: string): Verdict => ({ outcome: "proved", reason });
const failed = (reason: string): Verdict => ({ outcome: "failed", reason });
const notTried = (reason: string): Verdict => ({ outcome: "not-tried", reason });

/** Of 0.171.0; all ask but `write_stdin`, which without terminals tells a command nothing. */
const KNOWN_TOOLS = new Set([
  "apply_patch",
  "exec_command",
  "list_mcp_resource_templates",
  "list_mcp_resources",
  "read_mcp_resource",
  "request_user_input",
  "write_stdin",
]);
const SHOWN_NAMES = 4;
/** Calls that are refused, and the names under which their hooks see the tool. */
const DENIED = [
  [CALL.command, "Bash"],
  [CALL.patch, "apply_patch"],
  [CALL.server, `mcp__${MCP_SERVER}__${MCP_TOOL}`],
] as const;

export function judgeSeen(seen: Seen): Proof[] {
  return PROOF_NAMES.map((name) => {
    const { outcome, reason } = CHECKS[name](seen);
    return proof(name, outcome, reason);
  });
}

const CHECKS: Record<ProofName, (seen: Seen) => Verdict> = {
  "command-line": ({ refusedArguments: refused }) =>
    refused === null
      ? proved("it takes the command line that kiki starts it with")
      : refused === ""
        ? notTried("it did not say in time whether it takes kiki's command line")
        : failed(`it does not take the command line that kiki starts it with: ${refused}`),
  "exclusive-hooks"(seen) {
    if (seen.decoys.length > 0)
      return failed(`hooks that are not kiki's ran in it: ${some(seen.decoys)}`);
    if (after(seen, CALL.command) === null) return notTried(seen.first.why);
    return preTools(seen.first).length === 0
      ? failed("kiki's hooks did not run in it, although it lists them")
      : proved("it lists kiki's hooks, and of those in four files only kiki's ran");
  },
  "pre-tool-hooks"(seen) {
    if (after(seen, CALL.patch) === null) return notTried(seen.first.why);
    const session = startOf(seen.first)?.sessionId;
    if (session === undefined) return failed("it does not say that it has started (SessionStart)");
    const strange = offered(seen).filter((name) => !KNOWN_TOOLS.has(name) && !ofServer(name));
    if (strange.length > 0)
      return failed(`it has tools of which kiki does not know whether they ask: ${some(strange)}`);
    const asked = preTools(seen.first);
    for (const [id, tool] of expectedQuestions(seen)) {
      const about = asked.filter((event) => event.toolUseId === id);
      if (about.length > 1)
        return failed(`it asked about one call of ${tool} ${about.length} times`);
      const [event] = about;
      if (event?.toolName !== tool || event.sessionId !== session || event.recordPath === null)
        return failed(`it did not ask about ${tool} with session, call, tool and record`);
    }
    return seen.early
      ? failed("it ran a call whose hook had not answered yet")
      : proved("every call was asked about, once, with session, call, tool and record, and waited");
  },
  "deny-blocks"(seen) {
    if (after(seen, CALL.patch) === null) return notTried(seen.first.why);
    const ended = posts(seen.first);
    const ran = DENIED.find(([id]) => seen.ran.has(id) || ended.includes(id));
    return ran === undefined
      ? proved("refused calls did not run")
      : failed(`it ran ${ran[1]}, which it was told to refuse`);
  },
  "deny-fidelity"(seen) {
    if (after(seen, CALL.patch) === null) return notTried(seen.first.why);
    for (const [id, toolName] of DENIED) {
      const told = after(seen, id)?.outputs.get(id);
      const expected = seen.expected({ toolName, command: seen.commands.get(id) });
      if (told === expected || (id === CALL.server && told === undefined)) continue;
      const got = told ?? "";
      return failed(
        `its model does not get a refusal as it was written: ${got.length} characters of ${expected.length}` +
          `, the first other one at ${firstDifference(got, expected)}`,
      );
    }
    return proved("its model got the refusals byte for byte");
  },
  "serial-calls"(seen) {
    const last = after(seen, CALL.second);
    if (last === null) return notTried(seen.first.why);
    const requests = [...seen.first.asked, ...(seen.second?.asked ?? [])];
    if (requests.some(({ parallel }) => parallel !== false))
      return failed("it lets its model ask for several calls at a time (parallel_tool_calls)");
    const early = seen.first.asked.some(({ calls, outputs }) =>
      calls.some((id) => !outputs.has(id)),
    );
    if (early) return failed("it asks its model again before all calls of a response are over");
    const both = [CALL.first, CALL.second].every(
      (id) => seen.ran.has(id) && preTools(seen.first).some((event) => event.toolUseId === id),
    );
    return both && !seen.early
      ? proved("its model is asked for one call at a time, and of two the second can wait")
      : failed("while one of two calls waited for its hook, the other did not come to its end");
  },
  "unasked-input"(seen) {
    if (after(seen, CALL.background) === null) return notTried(seen.first.why);
    const asked = new Set(preTools(seen.first).map(({ toolUseId }) => toolUseId));
    for (const [id, feed] of [
      [CALL.terminal, CALL.toTerminal],
      [CALL.background, CALL.toBackground],
    ] as const) {
      if (seen.ran.has(`${id}_fed`) && !asked.has(feed))
        return failed("what it runs can be told more without asking (write_stdin)");
      if (seen.ran.has(id) && after(seen, feed) === null)
        return failed("it does not say in words kiki knows that a command goes on");
    }
    return seen.ran.has(CALL.background)
      ? proved("a command that goes on cannot be told more without asking")
      : failed("it did not run a command that asks for no terminal");
  },
  "session-record"(seen) {
    const last = after(seen, CALL.second);
    if (last === null) return notTried(seen.first.why);
    if (seen.recordPath === null || preTools(seen.first)[0]?.recordPath !== seen.recordPath)
      return failed("its session record is not where kiki looks for it");
    const all = last.calls.map((id) => ({ id, at: seen.atHook.get(id) }));
    const lost = all.find(({ at }) => at === undefined);
    if (lost !== undefined)
      return failed("a call is not in its session record when it asks about it");
    const numbers = new Map(all.map(({ id, at }) => [id, at ?? 0]));
    const alone = all.filter(({ id }) => id !== CALL.second).map(({ at = 0 }) => at);
    const rising = alone.every((at, i) => i === 0 || at > (alone[i - 1] ?? 0));
    if (!rising || numbers.get(CALL.first) !== numbers.get(CALL.second))
      return failed("its session record does not say which calls are of one response");
    const wrong = DENIED.some(([id]) => {
      const told = after(seen, id);
      const recorded = told?.recorded.get(id);
      return (
        told !== null &&
        (recorded?.output !== told.outputs.get(id) || recorded?.command !== seen.commands.get(id))
      );
    });
    const without = last.calls.some((id) => last.recorded.get(id)?.output === undefined);
    return wrong || without
      ? failed("its session record does not have what its model gets when that is asked again")
      : proved(
          "its session record has every call before it asks, and every result before its model",
        );
  },
  "fail-closed"(seen) {
    if (seen.ran.has(CALL.unguarded)) return failed("it ran a call whose hook had died");
    if (after(seen, CALL.unguarded) === null) return notTried(seen.first.why);
    return proved("a call whose hook died did not run");
  },
  "startup-echo"(seen) {
    if (after(seen, CALL.patch) === null) return notTried(seen.first.why);
    const { first, second } = seen;
    if (second === null) return notTried(first.whole ? "no time was left to look" : first.why);
    if (second.asked.length === 0) return notTried(second.why || "its model was not asked again");
    const turns = [turnOf(first), turnOf(second)];
    const wrong = turns.find((turn) => "why" in turn);
    if (wrong !== undefined && "why" in wrong) return failed(wrong.why);
    const ids = turns.map((turn) => ("id" in turn ? turn.id : ""));
    return new Set(ids).size === ids.length
      ? proved("calls carry the id of the turn in which it shows the prompt it was started with")
      : failed("two prompts have the same turn");
  },
  resume(seen) {
    const { first, second } = seen;
    if (second === null) return notTried(first.whole ? "no time was left to look" : first.why);
    const same = resumedAs(seen);
    if (same === null)
      return second.whole
        ? failed("resumed, it does not say that it has started")
        : notTried(second.why);
    if (!same) return failed("resumed, its conversation has another id or record");
    if (second.heard)
      return proved("it takes its conversation up again, with the same id and record");
    return second.whole
      ? failed("resumed, its model is not told the conversation so far")
      : notTried(second.why);
  },
  "turn-end"({ first }) {
    if (!first.whole) return notTried(first.why);
    const stops = events(first).filter((event) => event.type === "TurnStopped");
    return stops.length === 1
      ? proved("it says when a turn is over")
      : failed(`it says ${stops.length} times that a turn is over (Stop)`);
  },
  "mcp-server"(seen) {
    const asked = preTools(seen.first).some(({ toolUseId }) => toolUseId === CALL.server);
    if (asked) return proved("it has the tools of the project's MCP server, and asks about them");
    if (!seen.first.whole) return notTried(seen.first.why);
    return seen.mcpAsked
      ? failed("it asked the project's MCP server for its tools, and its model did not get them")
      : failed("it did not ask the project's MCP server for its tools");
  },
};

/** The first request that tells of that call; null: none did. */
function after({ first }: Seen, id: string): Asked | null {
  return first.asked.find(({ outputs }) => outputs.has(id)) ?? null;
}

function events(session: SeenSession): HarnessEvent[] {
  return session.hooks.flatMap((hook) => eventOf(hook) ?? []);
}

function preTools(session: SeenSession): Of<"PreTool">[] {
  return events(session).filter((event) => event.type === "PreTool");
}

/** Ids of calls it says were run. */
function posts(session: SeenSession): string[] {
  return events(session).flatMap((event) => (event.type === "PostTool" ? [event.toolUseId] : []));
}

function startOf(session: SeenSession): Of<"SessionStarted"> | undefined {
  return events(session).find((event) => event.type === "SessionStarted");
}

/** Whether the second session is the first one taken up again; null: it never began. */
function resumedAs({ first, second }: Seen): boolean | null {
  const [one, two] = [startOf(first), second === null ? undefined : startOf(second)];
  if (two === undefined) return null;
  return (
    two.source === "resume" &&
    two.sessionId === one?.sessionId &&
    two.transcriptPath === one.transcriptPath
  );
}

/** Id of the turn that a session's prompt began and all its calls carry. */
function turnOf(session: SeenSession): { id: string } | { why: string } {
  const mine = events(session).find(
    (event) => event.type === "UserPrompt" && event.prompt === session.prompt,
  );
  if (mine?.type !== "UserPrompt")
    return { why: "it does not show the prompt it was started with" };
  const { promptId: id } = mine;
  if (id === null) return { why: "the prompt it shows has no turn" };
  const calls = preTools(session);
  return calls.length > 0 && calls.every(({ promptId }) => promptId === id)
    ? { id }
    : { why: "calls do not carry the turn of the prompt they belong to" };
}

/** Names offered at any time. */
function offered({ first, second }: Seen): string[] {
  const asked = [...first.asked, ...(second?.asked ?? [])];
  return [...new Set(asked.flatMap(({ tools }) => tools))];
}

function ofServer(name: string): boolean {
  return name.startsWith(`mcp__${MCP_SERVER}.`) || name.startsWith(`mcp__${MCP_SERVER}__`);
}

/** Calls it must have asked about, with the names their hooks see; the MCP tool where the model had it. */
function expectedQuestions(seen: Seen): (readonly [string, string])[] {
  const last = seen.first.asked.at(-1);
  const commands = [CALL.first, CALL.second, CALL.background].map((id) => [id, "Bash"] as const);
  return [...DENIED, ...commands].filter(([id]) => last?.outputs.has(id) === true);
}

/** Names enough to find them by. */
function some(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).join(", ");
  const more = names.length - SHOWN_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
