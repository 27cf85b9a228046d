/**
 * A jj or git command that failed, or was ended because an agent stands still for it (harness chapter, "Stopping"). It
 * may have been ended in the middle of anything, so that only another look says what it did: nothing, and the boundary
 * is given up; something, and that is recovery.
 */
import { errorLine, KikiError } from "../core/errors.ts";
import type { WorkspaceProbe } from "../ports/jj.ts";
import { endWriting, lookAtCut } from "./cut-off.ts";
import { pinHead, probeNow } from "./looks.ts";
import { needsRecovery } from "./recover.ts";
import type { Scene } from "./scene.ts";
import { Stop, Unproven } from "./stop.ts";

/** Ended by kiki, or kept out by a lock of somebody else's: it may do better another time. */
const PASSING: ReadonlySet<string> = new Set(["jj-timeout", "git-timeout", "jj-locked"]);

/** Whether the error is a command's; anything else says nothing about files. */
export function isOfCommand(error: unknown): error is KikiError {
  return error instanceof KikiError && /^(?:jj|git|command)-/.test(error.code);
}

/**
 * What a reconciliation does next. Throws the error again where the files are as they were and it will not pass by
 * itself, and `Unproven` where nothing can be said.
 */
export async function afterFailure(scene: Scene, error: KikiError): Promise<Stop> {
  const why = errorLine(error);
  const probe = await probeAgain(scene, why);
  if (probe === null) {
    if (!PASSING.has(error.code)) throw error;
    return new Stop({ outcome: "not-now", reason: withHint(error) });
  }
  try {
    return await needsRecovery(scene, probe, `a command did not end well: ${why}`);
  } catch (stop) {
    if (!(stop instanceof Stop)) throw new Unproven(`${why}; then ${errorLine(stop)}`, stop);
    const ended = `a command was ended in the middle: ${why}`;
    if (!(await isCut(scene, probe)) && mayBeHalf(probe)) stop.forAPerson = ended;
    stop.again = ended;
    return stop;
  }
}

/** The same during a recovery. `look-again`: the command did something whole, which the next look finds. */
export async function recoveryAfterFailure(
  scene: Scene,
  error: KikiError,
): Promise<{ notNow: string } | "look-again" | { refused: string }> {
  const why = errorLine(error);
  const probe = await probeAgain(scene, why);
  if (probe === null) {
    if (!PASSING.has(error.code)) throw error;
    return { notNow: withHint(error) };
  }
  if (await isCut(scene, probe)) return "look-again";
  return mayBeHalf(probe) ? { refused: `a command was ended in the middle: ${why}` } : "look-again";
}

/** What there is to do goes with it: a lock may be one that nobody holds any more. */
function withHint(error: KikiError): string {
  return error.hint === undefined ? errorLine(error) : `${errorLine(error)}; ${error.hint}`;
}

/** Half of a file may be jj's: that must not be taken for an edit of the agent's. */
function mayBeHalf(probe: WorkspaceProbe): boolean {
  return probe.state === "StaleDirty" || probe.state === "Unknown";
}

/** All of it is known to be kiki's own, and can be put back. */
async function isCut(scene: Scene, probe: WorkspaceProbe): Promise<boolean> {
  const cut = await lookAtCut(scene, probe);
  return cut !== null && cut.unclear === null;
}

/** null: as before the command. */
async function probeAgain(scene: Scene, why: string): Promise<WorkspaceProbe | null> {
  const { before } = scene;
  // No command of this attempt was one that changes anything.
  if (before === null) return null;
  try {
    const probe = await probeNow(scene, await pinHead(scene));
    if (probe.fingerprint !== before) return probe;
    endWriting(scene);
    return null;
  } catch (again) {
    const reason =
      again instanceof Stop && "reason" in again.outcome ? again.outcome.reason : errorLine(again);
    throw new Unproven(`${why}; and the files cannot be looked at: ${reason}`, again);
  }
}
