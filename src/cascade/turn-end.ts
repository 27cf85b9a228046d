/**
 * Records an agent's edits when its turn ends, so that whoever follows it sees them without anybody running jj. It only
 * ever adds an operation: no file changes, the stop is never waited for, and no batch is completed by it.
 */
import { errorLine } from "../core/errors.ts";
import type { OpId } from "../core/ids.ts";
import type { JjRepo } from "../ports/jj.ts";
import { openCalls } from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { cascadeThread, incarnation, type CascadeThread } from "../store/edges.ts";
import { unresolvedIntents } from "../store/intents.ts";
import { attribute } from "../store/ops.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { meetHeads } from "./one-head.ts";

export interface TurnEndInput {
  deps: CascadeDeps;
  /**
   * Tokens whose command may still be running. Once one is not among them any more, the next reading of operations
   * compares every edge with the view as it stands and closes it: that is this handler's record of what its operation
   * meant for followers, and it is owed after a crash as well.
   */
  running: Set<string>;
  refresh: () => Promise<OpId[]>;
  /** Calls of the incarnation that wait for an answer, or passed while nobody could be asked. */
  isBusy: (caller: HookCaller) => boolean;
}

/** Never throws: a snapshot that fails is one that has not been made yet. */
export async function turnEnded(input: TurnEndInput, caller: HookCaller): Promise<void> {
  try {
    if (!mayRecord(input, caller)) return;
    // Not inside: others of kiki's need not wait for the heads to settle.
    await meetHeads(input.deps);
    const made = await input.deps.exclusive((jj) => snapshot(input, caller, jj));
    if (made) await input.refresh();
  } catch (error) {
    input.deps.log.warn(`recording the edits of ${caller.threadId} failed: ${errorLine(error)}`);
  }
}

/** False: there was nothing to record, or it was not provably safe. True also when the command failed half-way. */
async function snapshot(input: TurnEndInput, caller: HookCaller, jj: JjRepo): Promise<boolean> {
  const { deps, running } = input;
  const thread = mayRecord(input, caller);
  // With several heads jj would merge them first, in an operation that is nobody's.
  const [op, ...others] = await jj.heads();
  if (thread === null || op === undefined || others.length > 0) return false;
  const probe = await jj.probe(thread.workspacePath, thread.workspaceName, op);
  if (probe.state !== "FreshDirty") return false;
  // The next turn may have begun during the probe.
  if (mayRecord(input, caller) === null) return false;
  const token = deps.ids.uuid();
  running.add(token);
  try {
    write(deps.db, () =>
      attribute(deps.db, {
        token,
        handler: "snapshot",
        ownerId: thread.threadId,
        now: deps.clock.now(),
      }),
    );
    await jj.snapshot(thread.workspacePath, token);
  } catch (error) {
    deps.log.warn(`jj could not record the edits of ${thread.name}: ${errorLine(error)}`);
  } finally {
    running.delete(token);
  }
  return true;
}

/** The thread, when nothing of its agent is in flight and no barrier holds it. */
function mayRecord(input: TurnEndInput, caller: HookCaller): CascadeThread | null {
  const { db, settings } = input.deps;
  if (settings.snapshot !== "turn-end") return null;
  const thread = cascadeThread(db, caller.threadId);
  if (thread === null || thread.lifecycle !== "Active") return null;
  if (incarnation(db, caller.incarnation)?.retired !== false) return null;
  if (openCalls(db, caller.incarnation).length > 0 || input.isBusy(caller)) return null;
  const atRest = unresolvedIntents(db, caller.threadId).every(
    (i) => i.barrier === null && (i.state === "Detected" || i.state === "TopologyDiverged"),
  );
  return atRest ? thread : null;
}
