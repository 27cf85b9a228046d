/** What was seen of a Claude Code in its two short sessions, and what that proves. Pure. */
import type { Proof } from "../../../core/proofs.ts";
import type { RecordedHook } from "../hook-recorder.ts";
import { PROOF_NAMES, proof, type ProofName } from "./proven.ts";

/** What the model gets for a call refused with `reason` (2.1.332): byte-exact below 50,000 UTF-16 units. */
export function deniedResult(reason: string, toolName: string): string {
  return `PreToolUse:${toolName} hook error: ${reason}`;
}

export interface PlannedCall {
  id: string;
  tool: string;
}

/** How far a session came; `why` says what stopped it, and is the reason of everything that was not looked at. */
export interface SeenSession {
  hooks: readonly RecordedHook[];
  /** Ended by itself, with code 0. */
  whole: boolean;
  why: string;
}

export interface Seen {
  /** False: the program refused the flags, and everything was looked at without them. */
  flags: boolean;
  sessionId: string;
  prompt: string;
  reason: string;
  /** Both refused, in one response. */
  denied: readonly [PlannedCall, PlannedCall];
  /** In the response after it, while the hook dies. */
  unguarded: PlannedCall;
  /** Results in the request after each of the two; null when there was none. */
  deniedResults: ReadonlyMap<string, string> | null;
  unguardedResults: ReadonlyMap<string, string> | null;
  /** Ids of calls whose tool left its trace. */
  ran: ReadonlySet<string>;
  /** Hooks of the person's, project's and local settings that ran, as `<scope>-<event>`. */
  decoys: readonly string[];
  mcpAsked: boolean;
  first: SeenSession;
  /** null: there was no time, or no reason, for it. */
  second: (SeenSession & { heard: boolean }) | null;
}

type Verdict = Pick<Proof, "outcome" | "reason">;
const proved = (reason: string): Verdict => ({ outcome: "proved", reason });
const failed = (reason: string): Verdict => ({ outcome: "failed", reason });
const notTried = (reason: string): Verdict => ({ outcome: "not-tried", reason });

export function judge(seen: Seen): Proof[] {
  return PROOF_NAMES.map((name) => {
    const { outcome, reason } = CHECKS[name](seen);
    return proof(name, outcome, reason);
  });
}

const CHECKS: Record<ProofName, (seen: Seen) => Verdict> = {
  "settings-flags": ({ flags, first, deniedResults }) =>
    !flags
      ? failed(
          "it has no flags for settings: while an agent runs, kiki's hooks are in .claude/settings.local.json of its workspace",
        )
      : deniedResults === null
        ? notTried(first.why)
        : proved("it takes its settings from the command line"),
  "exclusive-hooks"(seen) {
    if (seen.decoys.length > 0)
      return failed(`hooks that are not kiki's ran in it: ${seen.decoys.join(", ")}`);
    if (seen.deniedResults === null) return notTried(seen.first.why);
    return asked(seen).length === 0
      ? failed("its own settings were left out, and kiki's hooks with them")
      : proved("of the hooks in four settings files only kiki's ran");
  },
  "pre-tool-hooks"(seen) {
    if (seen.deniedResults === null) return notTried(seen.first.why);
    const ids = asked(seen).map(({ payload }) => payload["tool_use_id"]);
    const missing = seen.denied.find(
      ({ id, tool }) =>
        !asked(seen).some(
          ({ payload }) =>
            payload["tool_use_id"] === id &&
            payload["tool_name"] === tool &&
            payload["session_id"] === seen.sessionId,
        ),
    );
    if (missing !== undefined)
      return failed(`it did not ask about ${missing.tool} with session, call and tool`);
    return new Set(ids).size === ids.length
      ? proved("every call was asked about, once, with session, call and tool")
      : failed("it asked about one call twice");
  },
  "deny-blocks"(seen) {
    if (seen.deniedResults === null) return notTried(seen.first.why);
    const ran = seen.denied.find(({ id }) => seen.ran.has(id));
    return ran === undefined
      ? proved("refused calls did not run")
      : failed(`it ran ${ran.tool}, which it was told to refuse`);
  },
  "deny-fidelity"(seen) {
    if (seen.deniedResults === null) return notTried(seen.first.why);
    for (const { id, tool } of seen.denied) {
      const got = seen.deniedResults.get(id) ?? "";
      const expected = deniedResult(seen.reason, tool);
      if (got === expected) continue;
      return failed(
        `its model does not get a refusal as it was written: ${got.length} characters of ${expected.length}` +
          `, the first other one at ${firstDifference(got, expected)}`,
      );
    }
    return proved("its model got both refusals byte for byte");
  },
  "batch-boundary"(seen) {
    if (seen.deniedResults === null) return notTried(seen.first.why);
    const closing = seen.first.hooks.filter((h) => h.event === "PostToolBatch").map(membersOf);
    const about = closing.filter((members) => seen.denied.some(({ id }) => members.has(id)));
    const [members] = about;
    if (members === undefined)
      return failed("it does not say when the calls of a response are over (PostToolBatch)");
    if (about.length > 1) return failed("it said twice that the same calls are over");
    const ids = seen.denied.map(({ id }) => id).sort();
    if ([...members.keys()].sort().join() !== ids.join())
      return failed("it does not name exactly the calls of a response when they are over");
    const same = seen.denied.every(({ id }) => members.get(id) === seen.deniedResults?.get(id));
    return same
      ? proved(
          "it said once that the calls of a response are over, and what the model got for each",
        )
      : failed("what it reports of refused calls is not what its model gets");
  },
  "fail-closed"(seen) {
    const { id } = seen.unguarded;
    if (seen.ran.has(id)) return failed("it ran a call whose hook had died");
    if (seen.unguardedResults === null) return notTried(seen.first.why);
    return seen.unguardedResults.has(id)
      ? proved("a call whose hook died did not run")
      : failed("a call whose hook died got no result");
  },
  "startup-echo"(seen) {
    if (seen.deniedResults === null) return notTried(seen.first.why);
    const submitted = seen.first.hooks.filter((h) => h.event === "UserPromptSubmit");
    const mine = submitted.find(({ payload }) => payload["prompt"] === seen.prompt)?.payload;
    if (mine === undefined) return failed("it does not show the prompt it was started with");
    const promptId = mine["prompt_id"];
    if (typeof promptId !== "string" || promptId === "")
      return failed("the prompt it shows has no id");
    return asked(seen).every(({ payload }) => payload["prompt_id"] === promptId)
      ? proved("calls carry the id of the prompt it was started with")
      : failed("calls do not carry the id of the prompt they belong to");
  },
  "session-id"(seen) {
    const started = startOf(seen.first);
    if (started === undefined)
      return seen.first.whole
        ? failed("it does not say that it has started")
        : notTried(seen.first.why);
    return started["session_id"] === seen.sessionId
      ? proved("its conversation has the id that kiki chose")
      : failed("it does not take the conversation id that kiki chose");
  },
  resume({ second, first, sessionId }) {
    if (second === null) return notTried(first.whole ? "no time was left to look" : first.why);
    const started = startOf(second);
    if (started === undefined)
      return second.whole
        ? failed("resumed, it does not say that it has started")
        : notTried(second.why);
    if (started["session_id"] !== sessionId)
      return failed("resumed, its conversation has another id");
    if (second.heard) return proved("it takes its conversation up again under the same id");
    return second.whole
      ? failed("resumed, its model is not told the conversation so far")
      : notTried(second.why);
  },
  "turn-end"({ first }) {
    if (!first.whole) return notTried(first.why);
    return first.hooks.some((h) => h.event === "Stop")
      ? proved("it says when a turn is over")
      : failed("it does not say when a turn is over (Stop)");
  },
  "mcp-server"({ first, mcpAsked }) {
    if (mcpAsked) return proved("it asked the project's MCP server for its tools");
    return first.whole
      ? failed("it did not ask the project's MCP server for its tools")
      : notTried(first.why);
  },
};

/** Its questions about calls of the first response. */
function asked(seen: Seen): RecordedHook[] {
  const ids = new Set<unknown>(seen.denied.map(({ id }) => id));
  return seen.first.hooks.filter(
    (h) => h.event === "PreToolUse" && ids.has(h.payload["tool_use_id"]),
  );
}

function startOf({ hooks }: SeenSession): Record<string, unknown> | undefined {
  return hooks.find((h) => h.event === "SessionStart")?.payload;
}

function membersOf({ payload }: RecordedHook): Map<string, unknown> {
  const calls = Array.isArray(payload["tool_calls"]) ? (payload["tool_calls"] as unknown[]) : [];
  return new Map(
    calls.map((entry) => {
      const call = (entry ?? {}) as Record<string, unknown>;
      return [String(call["tool_use_id"]), call["tool_response"]];
    }),
  );
}

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
