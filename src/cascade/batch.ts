/** Which batch a call belongs to, where calls of one response run side by side. */
import type { HarnessEvent } from "../ports/harness.ts";
import { closeBatch, lastOrdinal, type AdmissionRow } from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { boundaryProof } from "../store/serial.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

type PreTool = Extract<HarnessEvent, { type: "PreTool" }>;

/**
 * The agent's open one, or the next number. Another prompt ends an open main batch; so does, in an incarnation without a
 * proved boundary, the end of all its calls: no event may ever say that it is over, and nothing is told in it anyway.
 */
export function batchOf(
  { db, clock }: CascadeDeps,
  { incarnation }: HookCaller,
  event: PreTool,
  open: readonly AdmissionRow[],
): number {
  const agentId = event.agentId ?? "";
  const [first, ...more] = open.filter((c) => c.agentId === agentId);
  if (first === undefined) return lastOrdinal(db, incarnation, agentId) + 1;
  const otherPrompt =
    first.promptId !== null && event.promptId !== null && first.promptId !== event.promptId;
  const allOver = [first, ...more].every(
    (c) => c.admission === "PassThrough" && c.resolved && c.toolUseId !== event.toolUseId,
  );
  const ends = agentId === "" && (otherPrompt || (allOver && !boundaryProof(db, incarnation).soft));
  if (!ends) return first.ordinal;
  write(db, () => closeBatch(db, incarnation, agentId, first.ordinal, "ended", clock.now()));
  return lastOrdinal(db, incarnation, agentId) + 1;
}
