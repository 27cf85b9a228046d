/**
 * Calls that passed while nobody could be asked: their hook's launcher wrote a `passed/` file, or nothing at all is
 * known of them but that they ran. What such a file was written for the launcher alone cannot say; the events do.
 */
import { threadPaths } from "../core/paths.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import {
  admit,
  closeBatch,
  hasOtherAgents,
  isKnownCall,
  lastOrdinal,
  openCalls,
  resolveCall,
  retireCallId,
  type AdmissionRow,
} from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { cascadeThread } from "../store/edges.ts";
import type { HeldCall } from "./boundary.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { isSerial } from "./serial.ts";

type PostTool = Extract<HarnessEvent, { type: "PostTool" }>;
type BatchClosed = Extract<HarnessEvent, { type: "BatchClosed" }>;

const UNSEEN = "unseen:";
const PASSED = "passed:";
/** The agent of a call that some agent of the incarnation makes, and the main agent does not. */
const SOME_SUB_AGENT = "?";

/** Stands for whatever else of a batch nobody saw. */
export function isUnseen(toolUseId: string): boolean {
  return toolUseId.startsWith(UNSEEN);
}

/** An id of kiki's own, which no event can name. */
export function isInvented(toolUseId: string): boolean {
  return isUnseen(toolUseId) || isNameless(toolUseId);
}

/** Of a file that its launcher wrote alone. */
function isNameless(toolUseId: string): boolean {
  return toolUseId.startsWith(PASSED);
}

// ---- `passed/` files ---------------------------------------------------------------------------------------------

/** A file that has not become an admission yet. */
export function hasPassed({ stateDir, repoId, files }: CascadeDeps, caller: HookCaller): boolean {
  const { passed } = threadPaths(stateDir, repoId, caller.threadId);
  return files.listDir(passed).some((n) => n.startsWith(`${caller.incarnation}.`));
}

/** A `passed/` file is its batch's PassThrough admission. `only`: the calls to look for; null takes all. */
export function importPassed(
  deps: CascadeDeps,
  caller: HookCaller,
  only: ReadonlySet<string> | null,
): void {
  const { db, clock, files } = deps;
  const folder = threadPaths(deps.stateDir, deps.repoId, caller.threadId).passed;
  const serial = isSerial(deps, caller.threadId);
  for (const name of files.listDir(folder)) {
    if (name.startsWith(".")) continue; // being written: it counts once it has its name
    if (!name.startsWith(`${caller.incarnation}.`)) {
      files.removeDurable(`${folder}/${name}`);
      continue;
    }
    const call = passedCall(deps, caller, files.readText(`${folder}/${name}`), name);
    if (only !== null && !only.has(call.toolUseId)) continue;
    const open = openCalls(db, caller.incarnation).filter((c) => c.agentId === call.agentId);
    const block = call.agentId === "" ? open.find((c) => c.admission === "Block") : undefined;
    // The marker was there before its batch was blocked: the hook is about to see it, to refuse and to take the file
    // back. One that died first refused nothing, and the harness runs no call whose hook failed.
    if (block !== undefined && only === null) continue;
    // Every call of a serial harness is a batch of its own.
    const joined = serial && block === undefined ? undefined : open[0]?.ordinal;
    const ordinal = joined ?? lastOrdinal(db, caller.incarnation, call.agentId) + 1;
    write(db, () => {
      // Named by its launcher's process, whose number comes again.
      retireCallId(db, caller.incarnation, call.toolUseId);
      admit(db, {
        ...call,
        incarnation: caller.incarnation,
        ordinal,
        admission: block === undefined ? "PassThrough" : "Block",
        intentId: block?.intentId ?? null,
        answer: block === undefined ? null : "generic",
        // What it changed meanwhile was changed by a hooked call.
        now: serial ? (files.changedAt(`${folder}/${name}`) ?? clock.now()) : clock.now(),
      });
    });
    // From here the durable admission stands for it.
    files.removeDurable(`${folder}/${name}`);
  }
}

function passedCall(
  deps: CascadeDeps,
  caller: HookCaller,
  text: string | null,
  name: string,
): Omit<HeldCall, "ordinal"> {
  try {
    const { harness } = cascadeThread(deps.db, caller.threadId)!;
    const event = deps.harness(harness).interpretEvent(JSON.parse(text ?? ""));
    if (event.type === "PreTool") {
      const { promptId, toolUseId, toolName } = event;
      const serial = isSerial(deps, caller.threadId) && event.agentId === null;
      const recordPath = serial ? event.recordPath : null;
      return { agentId: event.agentId ?? "", promptId, toolUseId, toolName, recordPath };
    }
  } catch {
    // Written by the launcher alone: which call it was is unknown, that one passed is not.
  }
  return { agentId: "", promptId: null, toolUseId: `${PASSED}${name}`, toolName: "unknown" };
}

// ---- a tool that ran ---------------------------------------------------------------------------------------------

/**
 * A tool ran that was neither admitted nor recorded as passed. Its batch is a passed one, and what else of it is in
 * flight nobody knows: that stands in the rows until the batch closes.
 */
export function importUnseen(deps: CascadeDeps, caller: HookCaller, event: PostTool): void {
  const { db, clock } = deps;
  // A failure may be of a call that was refused before hooks.
  if (event.failed || isKnownCall(db, caller.incarnation, event.toolUseId)) return;
  const agentId = event.agentId ?? "";
  const open = openCalls(db, caller.incarnation).filter((c) => c.agentId === agentId);
  // Of the newest batch, whatever is still open before it.
  const last = lastOrdinal(db, caller.incarnation, agentId);
  const newest = open.filter((c) => c.ordinal === last);
  const block = newest.find((c) => c.admission === "Block");
  if (block !== undefined) return ranBeside(deps, caller, block, event);
  // The launcher alone wrote that some call passed: it may well be this one.
  if (open.some((c) => isInvented(c.toolUseId)) || hasPassed(deps, caller)) return;
  const nameless = agentId === "" ? undefined : namelessCalls(deps, caller)[0];
  // Every call of a serial harness is a batch of its own.
  const joined = isSerial(deps, caller.threadId) ? undefined : newest[0]?.ordinal;
  const ordinal = joined ?? last + 1;
  const { promptId, toolName } = event;
  const unknown = nameless === undefined ? [`${UNSEEN}${event.toolUseId}`] : [];
  write(db, () => {
    for (const toolUseId of [event.toolUseId, ...unknown])
      admit(db, {
        incarnation: caller.incarnation,
        agentId,
        ordinal,
        promptId,
        toolUseId,
        toolName,
        admission: "PassThrough",
        intentId: null,
        answer: null,
        now: clock.now(),
      });
    if (nameless !== undefined) namedNow(deps, caller, nameless);
  });
}

/** Not one call of a blocked batch may run: it counts as blocked, so that the closing event shows what became of it. */
function ranBeside(
  { db, clock }: CascadeDeps,
  caller: HookCaller,
  block: AdmissionRow,
  { toolUseId, toolName }: PostTool,
): void {
  const row = { ...block, toolUseId, toolName, answer: "generic", now: clock.now() } as const;
  write(db, () => admit(db, { ...row, incarnation: caller.incarnation }));
}

// ---- whose a nameless call is ------------------------------------------------------------------------------------

/** Open and not over, the longest known to be no call of the main agent's first. */
function namelessCalls({ db }: CascadeDeps, caller: HookCaller): AdmissionRow[] {
  const open = openCalls(db, caller.incarnation).filter(
    (c) => isNameless(c.toolUseId) && c.admission === "PassThrough" && !c.resolved,
  );
  return [
    ...open.filter((c) => c.agentId === SOME_SUB_AGENT),
    ...open.filter((c) => c.agentId === ""),
  ];
}

/** In a transaction: an event has named the call, and it is over. */
function namedNow({ db, clock }: CascadeDeps, caller: HookCaller, call: AdmissionRow): void {
  const { incarnation } = caller;
  if (call.agentId === SOME_SUB_AGENT)
    closeBatch(db, incarnation, call.agentId, call.ordinal, "ended", clock.now());
  else resolveCall(db, incarnation, call.toolUseId, "batch-closed", clock.now());
}

/** A sub-agent's batch is over, and some of its calls nobody had heard of: as many nameless ones are theirs. */
export function nameSubAgents(
  deps: CascadeDeps,
  caller: HookCaller,
  { agentId, listed }: { agentId: string; listed: ReadonlySet<string> },
): void {
  const { db, clock } = deps;
  const nameless = namelessCalls(deps, caller);
  const strangers = strangersOf(deps, caller, listed).slice(0, nameless.length);
  if (strangers.length === 0) return;
  const open = openCalls(db, caller.incarnation).filter((c) => c.agentId === agentId);
  if (open.some((c) => c.admission === "Block")) return;
  const ordinal = open[0]?.ordinal ?? lastOrdinal(db, caller.incarnation, agentId) + 1;
  write(db, () => {
    for (const [n, toolUseId] of strangers.entries()) {
      // Known from here, so that the same event once more names no other.
      admitPassed(deps, caller, { agentId, ordinal, toolUseId });
      namedNow(deps, caller, nameless[n]!);
    }
    if (open.length === 0)
      closeBatch(db, caller.incarnation, agentId, ordinal, "ended", clock.now());
  });
}

/**
 * A batch of the main agent's closes. Of its nameless calls as many are its own as the event lists calls that nobody had
 * heard of; the others may be a sub-agent's, and still run. (Or they were asked about, and their hook died afterwards.)
 */
export function notOfBatch(
  deps: CascadeDeps,
  caller: HookCaller,
  { open, calls }: { open: readonly AdmissionRow[]; calls: BatchClosed["calls"] },
): AdmissionRow[] {
  const listed = new Set(calls.map((c) => c.toolUseId));
  const nameless = open.filter(
    (c) => isNameless(c.toolUseId) && c.admission === "PassThrough" && !c.resolved,
  );
  const others = nameless.slice(strangersOf(deps, caller, listed).length);
  if (others.length === 0) return [];
  const starts = startsOf(deps, caller, calls).length > 0;
  return starts || hasSubAgents(deps, caller) ? others : [];
}

/** Calls that nobody had heard of, and that have each started a sub-agent. */
function startsOf(
  deps: CascadeDeps,
  caller: HookCaller,
  calls: BatchClosed["calls"],
): BatchClosed["calls"] {
  const { agentTool } = deps.harness(cascadeThread(deps.db, caller.threadId)!.harness);
  if (agentTool === undefined) return [];
  return calls.filter(
    (c) => c.toolName === agentTool && !isKnownCall(deps.db, caller.incarnation, c.toolUseId),
  );
}

/** In the transaction that closes a passed batch: from here on it is known that there are sub-agents. */
export function nameStarts(
  deps: CascadeDeps,
  caller: HookCaller,
  { ordinal, calls }: { ordinal: number; calls: BatchClosed["calls"] },
): void {
  for (const { toolUseId, toolName } of startsOf(deps, caller, calls))
    admitPassed(deps, caller, { agentId: "", ordinal, toolUseId, toolName });
}

function hasSubAgents(deps: CascadeDeps, { threadId, incarnation }: HookCaller): boolean {
  const { agentTool } = deps.harness(cascadeThread(deps.db, threadId)!.harness);
  if (agentTool === undefined) return false;
  return hasOtherAgents(deps.db, incarnation, { but: SOME_SUB_AGENT, tool: agentTool });
}

/** In the transaction that closes their batch. */
export function keepInFlight(
  deps: CascadeDeps,
  caller: HookCaller,
  calls: readonly AdmissionRow[],
): void {
  const last = lastOrdinal(deps.db, caller.incarnation, SOME_SUB_AGENT);
  for (const [n, call] of calls.entries()) {
    const ordinal = last + n + 1;
    const toolUseId = `${call.toolUseId}+${ordinal}`;
    admitPassed(deps, caller, { agentId: SOME_SUB_AGENT, ordinal, toolUseId });
  }
}

/** Some agent's turn has ended, and no sub-agent has a call open: what was some sub-agent's is over, its events were lost. */
export function endSubAgents({ db, clock }: CascadeDeps, caller: HookCaller): void {
  const subs = openCalls(db, caller.incarnation).filter((c) => c.agentId !== "");
  if (subs.some((c) => c.agentId !== SOME_SUB_AGENT)) return;
  write(db, () => {
    for (const { ordinal } of subs)
      closeBatch(db, caller.incarnation, SOME_SUB_AGENT, ordinal, "ended", clock.now());
  });
}

function strangersOf({ db }: CascadeDeps, caller: HookCaller, ids: ReadonlySet<string>): string[] {
  return [...ids].filter((id) => !isKnownCall(db, caller.incarnation, id));
}

function admitPassed(
  { db, clock }: CascadeDeps,
  caller: HookCaller,
  call: { agentId: string; ordinal: number; toolUseId: string; toolName?: string },
): void {
  admit(db, {
    toolName: "unknown",
    ...call,
    incarnation: caller.incarnation,
    promptId: null,
    admission: "PassThrough",
    intentId: null,
    answer: null,
    now: clock.now(),
  });
}
