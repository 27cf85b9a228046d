/**
 * What a `PreToolUse` may do, decided from durable state (cascade chapter, "On every PreToolUse"). Pure: the caller
 * gathers the facts, acts on one decision, records it, and asks again when the decision was `acknowledge`.
 */
import type { IncarnationId, IntentId } from "./ids.ts";
import { isPrepared, type IntentState } from "./intent.ts";
import type { SerialPlace } from "./serial.ts";

/** A main agent's place: batches of one incarnation are numbered, and the number never restarts. */
export interface BatchRef {
  incarnation: IncarnationId;
  ordinal: number;
}

export type Receipt = "matching" | "contrary";
/** `unreadable`: the record that has to show it could not be read (Codex); it is read again, never guessed. */
export type ObservedReceipt = Receipt | "unreadable";

/** The intent that a soft barrier delivers, unacknowledged. */
export interface ActiveBarrier {
  intentId: IntentId;
  state: IntentState;
  batch: BatchRef;
  completed: boolean;
  receipt: ObservedReceipt | null;
  /** The completing batch belonged to another conversation: the one that calls now never got the payload. */
  sessionChanged?: boolean;
  /** Rebinds so far in this delivery epoch. */
  redeliveries: number;
}

/** The intent that the first prompt of this incarnation delivers, unacknowledged. */
export interface ActiveRestart {
  intentId: IntentId;
  /** The incarnation that was started for it. */
  incarnation: IncarnationId;
  echo: StartupEcho;
}

/** What an incarnation has shown of what it was started with. Its prompts are numbered, and no number comes twice. */
export interface StartupEcho {
  /**
   * Prompts in which it durably recorded the exact startup id, oldest first. More than one where a person took the text
   * back (Esc before the model has answered puts it into the composer again) and sent it once more.
   */
  shown: readonly number[];
  /** Which of them had its turn come to its end: from there on it is in the conversation. */
  answered: number | null;
}

export const NO_ECHO: StartupEcho = { shown: [], answered: null };

/**
 * What a call's own prompt says about the startup text. `told`: the model had it when it made the call. `before`: of a
 * prompt before any that showed it, or the harness does not say of which. `taken-back`: of a later prompt, and the turn of
 * the one that showed it was broken off before anything came of it, so that nobody knows whether the model has ever got it.
 */
export function startupSeen(
  { shown, answered }: StartupEcho,
  prompt: number | null,
): "told" | "before" | "taken-back" {
  if (prompt === null) return "before";
  if (shown.includes(prompt) || (answered !== null && prompt > answered)) return "told";
  const last = shown.at(-1);
  return last !== undefined && prompt > last ? "taken-back" : "before";
}

export interface BoundaryFacts {
  /** null for the main agent. */
  agentId: string | null;
  /** The call's own batch and, once its first call was decided, that batch's fixed admission. */
  batch: BatchRef;
  admission: "PassThrough" | "Block" | null;
  active: ActiveBarrier | null;
  /** Excludes `active`: starting a restart clears the soft tuple. */
  restart?: ActiveRestart | null;
  /** Number of the prompt the call belongs to; null when the harness does not say. */
  promptOrdinal?: number | null;
  /** Oldest unresolved intent that is not `active`. */
  next: { intentId: IntentId; state: IntentState; exhausted: boolean } | null;
  /** Blocked main batches that immediately precede this one, without a passed and completed one between. */
  blockedInARow: number;
  /** Sub-agents only: this agent already got a copy of the active payload. */
  hasCopy: boolean;
  /** A call of the main agent's open batch ran that was neither admitted nor recorded as passed: more may be in flight. */
  unknownBatch?: boolean;
  /** Where a main call of a serial harness stands; absent where the harness reports its batches. */
  place?: SerialPlace;
  /** What the incarnation's boundary is worth; absent: what was proved of it holds. */
  proof?: BoundaryWorth;
}

export interface BoundaryWorth {
  /** Calls may be told at a boundary; if not, only a restart tells. */
  soft: boolean;
  /** Siblings seen where the harness excludes them. */
  violations: number;
  /** It was started in order to be told, and no batch of it has passed and completed since. */
  fresh: boolean;
  /** Calls that were let through are not over. */
  inFlight: boolean;
}

export type BoundaryDecision =
  | { act: "pass" }
  /** Rule 5: record the acknowledgement, then decide again. */
  | { act: "acknowledge"; intentId: IntentId }
  /** Deny with the saved payload, byte for byte. */
  | { act: "deny-payload"; intentId: IntentId }
  /** Hold; deny with the payload when it is prepared, generically at the hold limit. */
  | { act: "await-payload"; intentId: IntentId }
  /** Hold, confirm, drain, bind durably, reconcile. */
  | { act: "bind"; intentId: IntentId }
  /** Rule 5b: bind the prepared intent to this batch, counted, and deny with the payload. */
  | { act: "rebind"; intentId: IntentId; needsReconcile: boolean }
  /** The batch was blocked and its barrier is no more: what was decided for one call holds for its siblings. */
  | { act: "stay-blocked" }
  /** Blocked until something outside this call changes; `restart` names the hard-restart path. */
  | { act: "block"; intentId: IntentId; reason: BlockReason };

export type BlockReason =
  | "recovery-required"
  | "delivery-exhausted"
  | "batch-not-complete"
  | "second-contrary-receipt"
  | "receipt-unreadable"
  | "startup-not-echoed"
  | "startup-taken-back"
  | "batch-unknown"
  | "boundary-unproved"
  | "no-rule-matches";

/** What a block leads to by itself: a person's repair, a hard restart, or nothing but the agent's next call. */
export const AFTER_BLOCK = {
  "recovery-required": "pause",
  "delivery-exhausted": "pause",
  "batch-not-complete": "restart",
  "second-contrary-receipt": "restart",
  "receipt-unreadable": "restart",
  "startup-not-echoed": "wait",
  "startup-taken-back": "restart",
  "batch-unknown": "restart",
  "boundary-unproved": "restart",
  "no-rule-matches": "restart",
} as const satisfies Record<BlockReason, "pause" | "restart" | "wait">;

/** A busy parent may block at most this many main batches in a row with merely detected work. */
export const MAX_BLOCKED_BATCHES_IN_A_ROW = 2;
/** Soft redeliveries of one epoch before the ladder leaves for `RestartStartup`. */
export const MAX_SOFT_REDELIVERIES = 1;

export function decideBoundary(f: BoundaryFacts): BoundaryDecision {
  return f.agentId === null ? decideMain(f) : decideSubAgent(f);
}

function decideMain(f: BoundaryFacts): BoundaryDecision {
  if (f.restart != null) return decideRestarted(f, f.restart);
  if (f.active !== null) return decideBound(f, f.active);
  const waiting = f.next !== null && f.next.state !== "TopologyDiverged" ? f.next : null;
  // Files stay as they are: only a new process is a clean boundary.
  const unknown = f.unknownBatch === true || f.place === "contradicted";
  if (unknown && waiting !== null && mustStayPaused(waiting) === null)
    return block(waiting.intentId, "batch-unknown");
  if (f.admission === "PassThrough") return { act: "pass" };
  if (f.admission === "Block") return { act: "stay-blocked" };
  const n = f.next;
  if (n === null) return { act: "pass" };
  const stopped = mustStayPaused(n);
  if (stopped !== null) return stopped;
  if (f.proof?.soft === false) return decideByRestart(f.proof, n);
  switch (n.state) {
    case "Detected":
      // A call that nothing places cannot be told from a later one: no batch to bind.
      if (f.place === "unknown") return { act: "pass" };
      return f.blockedInARow >= MAX_BLOCKED_BATCHES_IN_A_ROW
        ? { act: "pass" }
        : { act: "bind", intentId: n.intentId };
    // Prepared but unbound (for example adopted after a crash): always ready.
    case "Materialized":
    case "Delivered":
      return f.place === "unknown"
        ? block(n.intentId, "batch-unknown")
        : { act: "rebind", intentId: n.intentId, needsReconcile: false };
    // Changes no files: the edge waits for a person, calls do not.
    case "TopologyDiverged":
      return { act: "pass" };
    case "Reconciling":
    case "RecoveryRequired":
    case "Acknowledged":
    case "Superseded":
      return block(n.intentId, "no-rule-matches");
  }
}

/** No boundary is proved: the process is replaced, at a moment when nothing of it is in flight. */
function decideByRestart(
  proof: BoundaryWorth,
  n: NonNullable<BoundaryFacts["next"]>,
): BoundaryDecision {
  if (n.state === "TopologyDiverged") return { act: "pass" };
  // A busy parent must not starve its child: what was just told something gets one batch done first.
  if (n.state === "Detected" && (proof.inFlight || proof.fresh)) return { act: "pass" };
  return block(n.intentId, "boundary-unproved");
}

/** Rule 2. */
function decideRestarted(f: BoundaryFacts, r: ActiveRestart): BoundaryDecision {
  const another = r.incarnation !== f.batch.incarnation;
  switch (another ? "before" : startupSeen(r.echo, f.promptOrdinal ?? null)) {
    case "told":
      return { act: "acknowledge", intentId: r.intentId };
    case "before":
      return block(r.intentId, "startup-not-echoed");
    case "taken-back":
      return block(r.intentId, "startup-taken-back");
  }
}

/** Rules 3 to 5b. */
function decideBound(f: BoundaryFacts, a: ActiveBarrier): BoundaryDecision {
  if (a.state === "RecoveryRequired") return block(a.intentId, "recovery-required");
  const prepared = isPrepared(a.state);
  if (sameBatch(a.batch, f.batch)) {
    return { act: prepared ? "deny-payload" : "await-payload", intentId: a.intentId };
  }
  if (f.place === "contradicted") return block(a.intentId, "no-rule-matches");
  if (f.proof?.soft === false) return block(a.intentId, "boundary-unproved");
  // The record shows neither the call nor, then, what the model got.
  if (f.place === "unknown")
    return prepared ? decideUnreadable(f, a) : block(a.intentId, "no-rule-matches");
  if (!a.completed) return block(a.intentId, "batch-not-complete");
  const sameIncarnation = a.batch.incarnation === f.batch.incarnation;
  // A complete batch before which a call of its own incarnation arrives: reordered, nothing is provable.
  if (sameIncarnation && f.batch.ordinal < a.batch.ordinal)
    return block(a.intentId, "no-rule-matches");
  // What another conversation got says nothing about this one, and its record is not read any more. What is not prepared
  // nobody can have got.
  if (prepared && a.receipt === "unreadable" && a.sessionChanged !== true)
    return decideUnreadable(f, a);
  const proved = a.receipt === "matching" && sameIncarnation && a.sessionChanged !== true;
  if (prepared && proved) return { act: "acknowledge", intentId: a.intentId };
  if (a.redeliveries >= MAX_SOFT_REDELIVERIES) {
    return block(
      a.intentId,
      a.receipt === "contrary" ? "second-contrary-receipt" : "no-rule-matches",
    );
  }
  return prepared || a.state === "Reconciling" || a.state === "Detected"
    ? { act: "rebind", intentId: a.intentId, needsReconcile: !prepared }
    : block(a.intentId, "no-rule-matches");
}

/**
 * Read again at the next arrival; what waits behind it cannot wait for that. Where the harness has shown a sibling once,
 * a call that nothing places may be one of the blocked call's.
 */
function decideUnreadable(f: BoundaryFacts, a: ActiveBarrier): BoundaryDecision {
  const trusted = f.place !== "unknown" || f.proof === undefined || f.proof.violations === 0;
  return f.next === null && trusted ? { act: "pass" } : block(a.intentId, "receipt-unreadable");
}

function mustStayPaused(n: NonNullable<BoundaryFacts["next"]>): BoundaryDecision | null {
  if (n.state === "RecoveryRequired") return block(n.intentId, "recovery-required");
  return n.exhausted ? block(n.intentId, "delivery-exhausted") : null;
}

function block(intentId: IntentId, reason: BlockReason): BoundaryDecision {
  return { act: "block", intentId, reason };
}

/** Only the main agent binds, completes and acknowledges; others get uncounted copies. */
function decideSubAgent(f: BoundaryFacts): BoundaryDecision {
  // Its parent has not shown yet that it was told.
  if (f.restart != null) return { act: "deny-payload", intentId: f.restart.intentId };
  const a = f.active;
  // A pause is the whole incarnation's.
  if (a === null) return (f.next === null ? null : mustStayPaused(f.next)) ?? { act: "pass" };
  if (a.state === "RecoveryRequired") return block(a.intentId, "recovery-required");
  if (!isPrepared(a.state)) return { act: "await-payload", intentId: a.intentId };
  if (!a.completed || !f.hasCopy) return { act: "deny-payload", intentId: a.intentId };
  return { act: "pass" };
}

function sameBatch(a: BatchRef, b: BatchRef): boolean {
  return a.incarnation === b.incarnation && a.ordinal === b.ordinal;
}

/**
 * What one closing batch says about an open batch of the same agent. `listed` are the ids in `PostToolBatch`;
 * `admitted` the ids kiki admitted or blocked in that batch. Extra members are fine (calls refused before hooks);
 * an admitted call that is missing means this event belongs to something else.
 */
export function completionOf(
  admitted: readonly string[],
  listed: ReadonlySet<string>,
): "complete" | "omits-admitted" {
  return admitted.every((id) => listed.has(id)) ? "complete" : "omits-admitted";
}

/**
 * The receipt: what the model actually got for the blocked calls. At least one blocked id shows the payload inside
 * the version's wrapper → matching; none does → contrary; a blocked id shows a real result → the tool ran.
 */
export function judgeReceipt(
  blocked: readonly { toolUseId: string; expected: string; generic: readonly string[] }[],
  responses: ReadonlyMap<string, string>,
): Receipt | "tool-ran" {
  let matching = false;
  for (const call of blocked) {
    const got = responses.get(call.toolUseId);
    if (got === undefined) continue;
    if (got === call.expected) matching = true;
    else if (!call.generic.some((prefix) => got.startsWith(prefix))) return "tool-ran";
  }
  return matching ? "matching" : "contrary";
}

/**
 * The same where the harness's session record is the witness (Codex). `outputs` null: the record could not be read. An
 * output that is not there yet is not contrary: every blocked call has one before the model's next request.
 */
export function judgeRecord(
  blocked: readonly { toolUseId: string; expected: string; generic: readonly string[] }[],
  outputs: ReadonlyMap<string, string> | null,
): ObservedReceipt | "tool-ran" {
  if (outputs === null || !blocked.some((call) => outputs.has(call.toolUseId))) return "unreadable";
  return judgeReceipt(blocked, outputs);
}
