/**
 * What the two forms of the hook (libc calls, and plain Bun where those are not to be had) agree on: where its inputs
 * come from, how long it may take, how an answer is read. Pure, and small: it is parsed before every tool call.
 */

/** Exit codes the launcher understands; anything else means that the sidecar died. */
export const EXIT_PASS = 10;
export const EXIT_DENY = 11;

export const PRE_TOOL_USE = "PreToolUse";

/** Until the daemon has taken the connection. A full backlog of a stopped daemon must not hang an agent. */
export const CONNECT_MS = 200;
/** Until a `PreToolUseDecision` is answered. What is left of one second belongs to the outage path. */
export const DECISION_MS = 900;
/** On top of the daemon's own hold limit, so that its answer at the limit still counts. */
export const HOLD_MARGIN_MS = 500;
/** For `MarkDelivered`, which may be lost. */
export const DELIVERED_MS = 300;

const EVENT_MS = 300;
/** A closing batch under a barrier is the receipt; losing it costs a redelivery. */
const BATCH_UNDER_BARRIER_MS = 5_000;
/** The daemon answers the first prompt of an incarnation only once it is ready; later ones are like any event. */
const USER_PROMPT_MS = 10_000;
const SESSION_START_MS = 5_000;

/** Everything the launcher exports; a missing value is "" and is refused by whoever needs it. */
export interface HookInputs {
  socket: string;
  credentialFile: string;
  passedFolder: string;
  spoolFolder: string;
  barrierFile: string;
  errorLog: string;
  /** Holds the incarnation whose first prompt the daemon has answered; written by the hook. */
  greetedFile: string;
  incarnation: string;
  secret: string;
  /** `kk`, to start the daemon with. */
  kk: string;
  stateDir: string;
}

export function hookInputs(env: Record<string, string | undefined>): HookInputs {
  const barrierFile = env["KIKI_HOOK_BARRIER"] ?? "";
  return {
    socket: env["KIKI_HOOK_SOCKET"] ?? "",
    credentialFile: env["KIKI_HOOK_CREDENTIAL"] ?? "",
    passedFolder: env["KIKI_HOOK_PASSED"] ?? "",
    spoolFolder: env["KIKI_HOOK_SPOOL"] ?? "",
    barrierFile,
    greetedFile: barrierFile.replace(/[^/]+$/, "greeted"),
    errorLog: env["KIKI_HOOK_ERRORLOG"] ?? "",
    incarnation: plain(env["KIKI_INCARNATION"]),
    secret: plain(env["KIKI_INCARNATION_SECRET"]),
    kk: env["KIKI_BIN"] ?? "",
    stateDir: env["KIKI_PATHS__USER_STATE_DIR"] ?? "",
  };
}

/** Ids and secrets go into the body without escaping, so anything but hex and dashes is not sent at all. */
function plain(text: string | undefined): string {
  return text !== undefined && /^[0-9a-fA-F-]{1,128}$/.test(text) ? text : "";
}

/** First fields of every body, open for more. */
export function callerFields(inputs: HookInputs): string {
  return `{"incarnation":"${inputs.incarnation}","secret":"${inputs.secret}"`;
}

export const USER_PROMPT = "UserPromptSubmit";

/** Events that may wait for the ready transaction, unless this incarnation has been greeted. */
export function isGreeting(event: string): boolean {
  return event === USER_PROMPT || event === "SessionStart";
}

/** Milliseconds an event other than PreToolUse may wait for the daemon. */
export function eventBudgetMs(event: string, underBarrier: boolean, greeted: boolean): number {
  if (isGreeting(event) && !greeted)
    return event === USER_PROMPT ? USER_PROMPT_MS : SESSION_START_MS;
  if (event === "PostToolBatch" && underBarrier) return BATCH_UNDER_BARRIER_MS;
  return EVENT_MS;
}

/** An HTTP answer, or why there is none. `unreachable`: nobody took the connection. */
export type Reply =
  | { status: number; body: string }
  | { status: 0; body: ""; failure: "unreachable" | "no answer" };

/** Whether a daemon should be started: one that answers slowly, or wrongly, is there already. */
export function isUnreachable(reply: Reply): boolean {
  return "failure" in reply && reply.failure === "unreachable";
}

/** Which delivery a deny belongs to, as the daemon wrote it; goes back to it unread. */
export interface Delivered {
  intentId: string;
  turn: number;
  batch: number;
}

export type Verdict =
  | { act: "pass" }
  /** `output` is never empty. */
  | { act: "deny"; output: string; delivered: Delivered | null }
  | { act: "hold"; token: string; holdMs: number }
  /** The daemon is there and refuses this caller or this call. */
  | { act: "refused"; message: string }
  /** Nobody said anything that counts. */
  | { act: "none"; reason: string };

/** Reads an answer to `PreToolUseDecision` or `Hold`. Never throws. */
export function readVerdict(reply: Reply): Verdict {
  if ("failure" in reply) return { act: "none", reason: `daemon: ${reply.failure}` };
  const { status } = reply;
  if (status >= 400 && status < 500) return { act: "refused", message: serverMessage(reply) };
  if (status !== 200) return { act: "none", reason: `daemon: HTTP ${status}` };
  const answer = object(reply.body);
  if (answer["decision"] === "pass") return { act: "pass" };
  if (
    answer["decision"] === "deny" &&
    typeof answer["output"] === "string" &&
    answer["output"] !== ""
  ) {
    return {
      act: "deny",
      output: answer["output"],
      delivered: (answer["delivered"] as Delivered) ?? null,
    };
  }
  if (answer["decision"] === "hold" && typeof answer["token"] === "string") {
    return { act: "hold", token: answer["token"], holdMs: Number(answer["holdMs"]) || 0 };
  }
  return { act: "none", reason: "daemon: answer not understood" };
}

/** Error text of a refusal: message and hint in one line. */
export function serverMessage(reply: Reply): string {
  const error = object(reply.body)["error"] as { message?: unknown; hint?: unknown } | undefined;
  const parts = [error?.message, error?.hint].filter(
    (part) => typeof part === "string" && part !== "",
  );
  return parts.length > 0 ? parts.join("; ") : `the kiki daemon refused it (HTTP ${reply.status})`;
}

function object(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
