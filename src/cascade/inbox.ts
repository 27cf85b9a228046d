/**
 * Events of an incarnation, in order: those that arrive by RPC, those a hook spooled while the daemon was away, and
 * the calls that passed while nobody could be asked. The spool is drained before any decision.
 */
import { completionOf } from "../core/barrier.ts";
import { threadPaths } from "../core/paths.ts";
import { errorLine, KikiError } from "../core/errors.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import {
  anyClosed,
  closeBatch,
  copyLost,
  lastOrdinal,
  openCalls,
  resolveCall,
  type AdmissionRow,
} from "../store/admissions.ts";
import { acknowledgeAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { cascadeThread, incarnation, noteActivity } from "../store/edges.ts";
import { nameStorageError } from "../store/errors.ts";
import { intentById, unresolvedIntents } from "../store/intents.ts";
import type { HeldCall } from "./boundary.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { changeIntents } from "./moves.ts";
import { promptsAnswered, recordPrompt } from "./prompts.ts";
import { receiptOf } from "./receipts.ts";
import { isSerial, turnIsOver } from "./serial.ts";
import { recordToolRan } from "./tool-ran.ts";
import {
  endSubAgents,
  hasPassed,
  importPassed,
  importUnseen,
  isInvented,
  keepInFlight,
  nameStarts,
  nameSubAgents,
  notOfBatch,
} from "./unseen-calls.ts";

type BatchClosed = Extract<HarnessEvent, { type: "BatchClosed" }>;

export class Inbox {
  readonly #deps: CascadeDeps;
  readonly #changed: (incarnation: string) => void;
  readonly #over: (caller: HookCaller, whose: (call: HeldCall) => boolean) => void;
  readonly #turnEnded: (caller: HookCaller) => void;
  readonly #pause: (intentId: string, toolRan: boolean) => void;

  /**
   * `over`: nobody waits for an answer to these calls any more. `turnEnded`: the main agent's; not waited for. `pause`:
   * the intent waits for a person from here, for a refused tool that ran; not waited for.
   */
  constructor(
    deps: CascadeDeps,
    changed: (incarnation: string) => void,
    over: (caller: HookCaller, whose: (call: HeldCall) => boolean) => void,
    turnEnded: (caller: HookCaller) => void,
    pause: (intentId: string, toolRan: boolean) => void,
  ) {
    this.#deps = deps;
    this.#changed = changed;
    this.#over = over;
    this.#turnEnded = turnEnded;
    this.#pause = pause;
  }

  /** One event that arrived by RPC, after everything that was spooled before it. */
  event(caller: HookCaller, raw: unknown): Promise<void> {
    return this.#deps.queues.run(`inbox:${caller.threadId}`, async () => {
      await this.#drainNow(caller);
      await this.#take(caller, raw);
    });
  }

  /** Idempotent: duplicates and stale ones change nothing. */
  async #take(caller: HookCaller, raw: unknown): Promise<void> {
    const event = this.#adapter(caller).interpretEvent(raw);
    // Calls that passed unseen and that this event speaks of are older than it; ids say so, no clock does.
    const ids = callsOf(event);
    if (ids.size > 0) importPassed(this.#deps, caller, ids);
    await this.#apply(caller, event);
    this.#changed(caller.incarnation);
  }

  async #apply(caller: HookCaller, event: HarnessEvent): Promise<void> {
    const { db, clock } = this.#deps;
    switch (event.type) {
      case "SessionStarted":
        // A new conversation (resume, clear): whatever batch was open can no longer close. Compaction keeps the
        // conversation, and the calls that are in flight in it.
        if (incarnation(db, caller.incarnation)?.harnessSessionId !== event.sessionId)
          this.#endOpen(caller, () => true);
        await this.#deps.sessionStarted(caller.incarnation, event.sessionId);
        this.#note(caller, "Quiescent", false, `SessionStart ${event.source}`);
        return;
      case "UserPrompt":
        recordPrompt(this.#deps, caller, event);
        return;
      case "PostTool":
        importUnseen(this.#deps, caller, event);
        write(db, () =>
          resolveCall(db, caller.incarnation, event.toolUseId, "post-tool", clock.now()),
        );
        this.#note(caller, "Running", false, `PostToolUse ${event.toolName}`);
        return;
      case "BatchClosed":
        this.#closed(caller, event);
        if (event.agentId === null) this.#dialogOver(caller);
        return;
      case "TurnStopped":
        if (event.agentId === null) {
          this.#dialogOver(caller);
          if (isSerial(this.#deps, caller.threadId))
            turnIsOver(this.#deps, caller, event.sessionId, (id) => this.#pause(id, true));
        }
        this.#endOpen(caller, (agentId) => agentId === (event.agentId ?? ""));
        endSubAgents(this.#deps, caller);
        if (event.agentId === null) {
          // Before the stop itself: one that is recorded alone would have the agent started anew.
          promptsAnswered(this.#deps, caller, event.promptId);
          this.#note(caller, "Quiescent", true, "Stop");
          this.#turnEnded(caller);
        }
        return;
      case "TurnInterrupted":
        // Its calls got no result, so a bound batch among them is never completed.
        this.#dialogOver(caller);
        this.#endOpen(caller, () => true);
        this.#note(caller, "Quiescent", false, "Interrupt");
        return;
      case "SessionEnded":
        this.#endOpen(caller, () => true);
        this.#dialogOver(caller);
        this.#note(caller, "Quiescent", true, `SessionEnd ${event.reason}`);
        return;
      case "Attention":
        if (event.kind === "permission_prompt") {
          this.#deps.raiseAttention({
            threadId: caller.threadId,
            kind: "permission_prompt",
            // One for all dialogs of a batch, by its number: a replayed event is the same event.
            dedupKey: `${caller.incarnation}:${lastOrdinal(db, caller.incarnation, "")}`,
            message: event.message,
            loud: true,
          });
        }
        return;
      case "PreTool":
      case "Other":
        return;
    }
  }

  /** A batch closes only after every dialog of it was answered; a sibling's own end says nothing about one. */
  #dialogOver(caller: HookCaller): void {
    const { db, clock } = this.#deps;
    write(db, () => acknowledgeAttention(db, caller.threadId, "permission_prompt", clock.now()));
  }

  #note(
    caller: HookCaller,
    status: "Running" | "Quiescent",
    turnCompleted: boolean,
    event: string,
  ): void {
    const { db, clock } = this.#deps;
    noteActivity(db, caller.incarnation, { status, turnCompleted, event, now: clock.now() });
  }

  /** A batch that ends without its closing event is over, but not complete. */
  #endOpen(caller: HookCaller, whose: (agentId: string) => boolean): void {
    const { db, clock } = this.#deps;
    this.#over(caller, (call) => whose(call.agentId));
    const batches = new Map(
      openCalls(db, caller.incarnation).map((c) => [`${c.agentId}\n${c.ordinal}`, c]),
    );
    write(db, () => {
      for (const c of batches.values()) {
        if (whose(c.agentId))
          closeBatch(db, caller.incarnation, c.agentId, c.ordinal, "ended", clock.now());
      }
    });
  }

  /** PostToolBatch never acknowledges: it closes a passed batch, or completes a bound one and brings the receipt. */
  #closed(caller: HookCaller, event: BatchClosed): void {
    const { db, clock } = this.#deps;
    const agentId = event.agentId ?? "";
    const open = openCalls(db, caller.incarnation).filter((c) => c.agentId === agentId);
    const listed = new Set(event.calls.map((c) => c.toolUseId));
    if (agentId !== "") nameSubAgents(this.#deps, caller, { agentId, listed });
    this.#over(caller, (call) => call.agentId === agentId && listed.has(call.toolUseId));
    const first = open[0];
    if (first === undefined) return; // duplicate, or a batch whose every call was refused before hooks
    // A call that passed while nobody could be asked has an invented id until its batch is over.
    const admitted = open.map((c) => c.toolUseId).filter((id) => !isInvented(id));
    const stale =
      admitted.length > 0
        ? !admitted.some((id) => listed.has(id))
        : anyClosed(db, caller.incarnation, listed);
    if (stale) return; // not this batch
    if (completionOf(admitted, listed) !== "complete") {
      this.#omitted(caller, open, listed);
      return;
    }
    const { ordinal } = first;
    const bound = agentId === "" ? this.#boundTo(caller, ordinal) : null;
    // Refused with a copy, or for another reason: it must not have run either.
    const block = bound ?? this.#blockedFor(open);
    const verdict =
      block === null
        ? null
        : receiptOf(this.#deps, caller, { ...block, agentId, ordinal }, responsesOf(event));
    const { calls } = event;
    const others = agentId === "" ? notOfBatch(this.#deps, caller, { open, calls }) : [];
    changeIntents(this.#deps, (changes) => {
      if (agentId === "" && block === null) nameStarts(this.#deps, caller, { ordinal, calls });
      closeBatch(db, caller.incarnation, agentId, ordinal, "closed", clock.now());
      keepInFlight(this.#deps, caller, others);
      if (block === null || verdict === null) return;
      const { intentId } = block;
      if (verdict === "tool-ran") {
        recordToolRan(this.#deps, changes, caller, { intentId, results: responsesOf(event) });
      } else if (bound !== null) {
        changes.batchCompleted(
          intentId,
          { incarnation: caller.incarnation, batch: ordinal },
          { judged: verdict, evidence: { listed: [...listed], session: event.sessionId } },
          clock.now(),
        );
      } else if (agentId !== "" && verdict === "contrary") {
        copyLost(db, caller.incarnation, { agentId, ordinal, intentId });
      }
    });
    if (block !== null && verdict === "tool-ran") this.#pause(block.intentId, true);
  }

  #blockedFor(open: readonly AdmissionRow[]): { intentId: string; payload: string | null } | null {
    const intentId = open.find((c) => c.admission === "Block")?.intentId ?? null;
    const intent = intentId === null ? null : intentById(this.#deps.db, intentId);
    return intent === null ? null : { intentId: intent.intentId, payload: intent.payload };
  }

  /**
   * The event is not this batch's, or not of all of it. A call it leaves out may still run, because the event was
   * overtaken by a call of the next response: that one keeps its batch open, and with it the files as they are.
   */
  #omitted(caller: HookCaller, open: readonly AdmissionRow[], listed: ReadonlySet<string>): void {
    const { db, clock } = this.#deps;
    const mayRun = open.some(
      (c) =>
        c.admission === "PassThrough" &&
        !c.resolved &&
        !isInvented(c.toolUseId) &&
        !listed.has(c.toolUseId),
    );
    const { agentId, ordinal } = open[0]!;
    write(db, () => {
      if (!mayRun)
        return closeBatch(db, caller.incarnation, agentId, ordinal, "ended", clock.now());
      for (const id of listed) resolveCall(db, caller.incarnation, id, "batch-closed", clock.now());
    });
  }

  #boundTo(
    caller: HookCaller,
    ordinal: number,
  ): { intentId: string; payload: string | null } | null {
    const intent = unresolvedIntents(this.#deps.db, caller.threadId).find(
      (i) =>
        i.barrier?.incarnation === caller.incarnation &&
        i.barrier.batch === ordinal &&
        i.batchCompletedAt === null,
    );
    return intent === undefined ? null : { intentId: intent.intentId, payload: intent.payload };
  }

  /**
   * Spooled events in their sequence, each after the unseen calls it speaks of; then the unseen calls that are left:
   * their batch has not closed yet. Order is per incarnation.
   */
  drain(caller: HookCaller): Promise<void> {
    return this.#deps.queues.run(`inbox:${caller.threadId}`, () => this.#drainNow(caller));
  }

  async #drainNow(caller: HookCaller): Promise<void> {
    // It was replaced while it waited here: what lies there is its successor's, and not to be taken for old.
    if (incarnation(this.#deps.db, caller.incarnation)?.retired !== false) return;
    const paths = threadPaths(this.#deps.stateDir, this.#deps.repoId, caller.threadId);
    for (const name of this.#deps.files.listDir(paths.spool)) {
      if (!name.endsWith(".json")) continue;
      const file = `${paths.spool}/${name}`;
      const text = this.#deps.files.readText(file);
      if (text !== null) await this.#takeSpooled(caller, name, text);
      this.#deps.files.removeDurable(file);
    }
    importPassed(this.#deps, caller, null);
  }

  async #takeSpooled(caller: HookCaller, name: string, text: string): Promise<void> {
    try {
      const entry = JSON.parse(text) as { incarnation?: unknown; event?: unknown };
      // Events of an earlier incarnation of the thread say nothing about this one.
      if (entry.incarnation === caller.incarnation) await this.#take(caller, entry.event);
    } catch (error) {
      // It stays in the spool: a disk that is full now must not cost a receipt.
      const named = nameStorageError(error, this.#deps.db.filename);
      if (named instanceof KikiError && named.code.startsWith("database-")) throw named;
      this.#deps.log.warn(`spooled event ${name} cannot be read: ${errorLine(error)}`);
    }
  }

  /** After `drain`: a call that passed unseen is an open PassThrough admission now, so only fresh files count. */
  passedUnresolved(caller: HookCaller): boolean {
    return hasPassed(this.#deps, caller);
  }

  #adapter(caller: HookCaller): ReturnType<CascadeDeps["harness"]> {
    return this.#deps.harness(cascadeThread(this.#deps.db, caller.threadId)!.harness);
  }
}

/** What the model got, by call. */
function responsesOf(event: BatchClosed): Map<string, string> {
  return new Map(event.calls.map((c) => [c.toolUseId, c.response]));
}

/** Tool calls an event speaks of. */
function callsOf(event: HarnessEvent): ReadonlySet<string> {
  if (event.type === "PostTool") return new Set([event.toolUseId]);
  if (event.type === "BatchClosed") return new Set(event.calls.map((c) => c.toolUseId));
  return new Set();
}
