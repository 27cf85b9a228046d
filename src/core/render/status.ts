/**
 * `kk status` as text: a header of exact facts, then the literal `jj st`. Pure, and the same text wherever it is
 * shown, so that the overlay and the command can never disagree.
 */
import { short } from "../ids.ts";
import { isPrepared, isResolved, type IntentKind, type IntentState } from "../intent.ts";
import type { Lifecycle, ProjectionIssue, StepState } from "../lifecycle.ts";
import { CASCADE_SIGNS, FOLLOWS, paint, stateSign, type Colour } from "./glyphs.ts";
import type { LsThread } from "./ls.ts";
import { nextStep } from "./next.ts";
import { padEnd, printable } from "./width.ts";

/** What a status shows of a thread; the contract's ThreadState fits. */
export interface StatusThread {
  summary: LsThread & { lastAgentEvent: string | null };
  workspacePath: string;
  workspaceName: string;
  head: string | null;
  checkpointCommit: string | null;
  harness: string;
  follows: { name: string; lastSynchronized: string } | null;
  children: readonly { name: string }[];
  intents: readonly {
    kind: IntentKind;
    state: IntentState;
    parentName: string;
    fromBase: string;
    toBase: string;
    reason: string | null;
    /** A person has to decide first. */
    paused: boolean;
  }[];
  attention: readonly { kind: string; message: string }[];
  issues: readonly { issue: ProjectionIssue; message: string }[];
  operation: {
    kind: string;
    state: string;
    error: string | null;
    steps: readonly { name: string; state: StepState; error: string | null }[];
  } | null;
}

export interface StatusOptions {
  colour: boolean;
  /** Literal `jj st`; null leaves it out (`--no-jj`). */
  body: string | null;
}

const RELATIONS = {
  current: "checkpoint current",
  behind: "checkpoint behind head",
  diverged: "projection diverged",
} as const;

/** What an unresolved state means where nothing else says it. */
const MEANINGS: Partial<Record<IntentState, string>> = {
  Detected: "waits for the agent's next tool call",
  Reconciling: "its files are being brought up to date",
  Materialized: "its files are up to date, and the agent is told next",
  Delivered: "the agent was told, and its next turn confirms it",
};

/** The same where no agent runs: an end that a person wanted is not followed by a start. */
const ENDED_MEANINGS: typeof MEANINGS = {
  Detected: "waits for an agent",
  Reconciling: "waits for an agent",
  Materialized: "its files are up to date; the next agent is told first of all",
  Delivered: "the agent ended before it confirmed; the next one is told first of all",
};

const LABEL_COLUMNS = 12;
const MAX_CHILDREN_SHOWN = 12;

/** Ends without a newline. */
export function renderStatus(thread: StatusThread, options: StatusOptions): string {
  const header = headerLines(thread, options.colour).join("\n");
  const body = options.body === null ? "" : `\n\n${options.body.trimEnd()}`;
  return header + body;
}

function headerLines(thread: StatusThread, colour: boolean): string[] {
  const { summary } = thread;
  const cascade = CASCADE_SIGNS[summary.cascade];
  return [
    line("thread", printable(summary.name)),
    line("lifecycle", paintLifecycle(summary.lifecycle, colour)),
    line("workspace", printable(thread.workspacePath)),
    line("head", thread.head ?? noneOf(summary.lifecycle)),
    line("checkpoint", checkpointText(thread)),
    line("cascade", paint(`${cascade.glyph} ${summary.cascade}`, cascade.colour, colour)),
    ...unresolvedLines(thread),
    line("agent", agentText(thread, colour)),
    line("follows", followsText(thread)),
    line("children", childrenText(thread)),
    ...operationLines(thread),
    ...issueLines(thread, colour),
    ...nextLine(thread),
  ];
}

/** Only a creation that goes on will have one. */
function noneOf(lifecycle: Lifecycle): string {
  return lifecycle === "Creating" ? "none yet" : "none";
}

/** Last of the header: what a person reads first when they look at the end of the screen. */
function nextLine(thread: StatusThread): string[] {
  const next = nextStep(thread);
  return next === null ? [] : [line("next", printable(next))];
}

function line(label: string, text: string): string {
  return `${padEnd(label, LABEL_COLUMNS)}${text}`.trimEnd();
}

function paintLifecycle(lifecycle: Lifecycle, colour: boolean): string {
  const sign = stateSign(lifecycle, null);
  if (lifecycle === "Active") return lifecycle;
  return paint(`${sign.glyph} ${lifecycle}`, sign.colour, colour);
}

function checkpointText(thread: StatusThread): string {
  const { bookmark, checkpoint, lifecycle } = thread.summary;
  const parts = [
    bookmark === null ? "" : printable(bookmark),
    thread.checkpointCommit ?? noneOf(lifecycle),
    checkpoint === null ? "" : `(${RELATIONS[checkpoint]})`,
  ];
  return parts.filter((part) => part !== "").join(" ");
}

/** Which transitions make the cascade status what it is; a status in sync has none. */
function unresolvedLines(thread: StatusThread): string[] {
  return thread.intents
    .filter((intent) => !isResolved(intent.state))
    .map((intent) => {
      const move = `${short(intent.fromBase)} → ${short(intent.toBase)}`;
      const meanings = thread.summary.agent === null ? ENDED_MEANINGS : MEANINGS;
      const why = intent.reason ?? meanings[intent.state];
      const reason = why === undefined ? "" : ` (${printable(why)})`;
      const parent = printable(intent.parentName);
      return line("", `${intent.kind} of ${parent} ${move}: ${intent.state}${reason}`);
    });
}

function agentText(thread: StatusThread, colour: boolean): string {
  const { agent, lastAgentEvent } = thread.summary;
  const harness = printable(thread.harness);
  const owed = thread.intents.some(({ state }) => isPrepared(state));
  if (agent === null)
    return `${harness}, not running${owed ? ", and not told yet what changed under it" : ""}`;
  const sign = stateSign("Active", agent);
  const event = lastAgentEvent === null ? "" : `, last event ${printable(lastAgentEvent)}`;
  const paused = thread.intents.some((intent) => !isResolved(intent.state) && intent.paused);
  // A screen that stands still is not a hanging program.
  const stopped = paused ? ", paused until you decide" : "";
  return `${paint(`${sign.glyph} ${agent}`, sign.colour, colour)} ${harness}${stopped}${event}`;
}

function followsText(thread: StatusThread): string {
  if (thread.follows === null) return "nothing";
  const { name, lastSynchronized } = thread.follows;
  return `${FOLLOWS} ${printable(name)} at ${short(lastSynchronized)}`;
}

function childrenText(thread: StatusThread): string {
  if (thread.children.length === 0) return "none";
  const shown = thread.children.slice(0, MAX_CHILDREN_SHOWN).map((child) => printable(child.name));
  const more = thread.children.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** A lifecycle operation that has not simply succeeded: where it stands. */
function operationLines(thread: StatusThread): string[] {
  const operation = thread.operation;
  if (operation === null || operation.state === "Completed") return [];
  const at =
    operation.steps.find((s) => s.error !== null) ??
    operation.steps.find((s) => s.state !== "Completed" && s.state !== "Compensated");
  const step = at === undefined ? "" : ` at ${at.name} (${at.state})`;
  const error = operation.error === null ? "" : `: ${printable(operation.error)}`;
  return [line("operation", `${operation.kind} ${operation.state}${step}${error}`)];
}

function issueLines(thread: StatusThread, colour: boolean): string[] {
  const red: Colour = "red";
  const told = thread.operation?.error ?? null;
  const attention = thread.attention
    .filter((item) => told === null || !item.message.includes(told))
    .map((item) => `${item.kind}: ${item.message}`);
  const issues = thread.issues.map((item) => `${item.issue}: ${item.message}`);
  return [...attention, ...issues].map((text) =>
    line("issue", paint(`! ${printable(text)}`, red, colour)),
  );
}
