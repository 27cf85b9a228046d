/**
 * A harness whose model gets settings of kiki's (Codex: the generated catalog), and a provider that does not take them. No
 * hook tells of a request that failed, so from a prompt until the first sign of an answer its session record is looked at.
 */
import { threadPaths } from "../core/paths.ts";
import { acknowledgeAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { cascadeThread } from "../store/edges.ts";
import { boundaryProof } from "../store/serial.ts";
import { sessionById } from "../store/sessions.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

export const CATALOG_REFUSED = "catalog-refused";
/** Reads what the record has grown by, mostly nothing. */
const LOOK_MS = 1_000;
const MAX_QUOTED = 300;

/** `turn`: of the prompt; null: whichever is the last one. Ends with the first sign of an answer, or with the agent. Rejects when `signal` is aborted. */
export async function watchFirstAnswer(
  deps: CascadeDeps,
  caller: HookCaller,
  turn: string | null,
  signal: AbortSignal,
): Promise<void> {
  const { db, clock } = deps;
  const { threadId, incarnation } = caller;
  const harness = deps.harness(cascadeThread(db, threadId)!.harness);
  // Without kiki's settings for the model there is nothing a person could take back.
  if (harness.recordOf === undefined || !boundaryProof(db, incarnation).soft) return;
  const { harness: folder } = threadPaths(deps.stateDir, deps.repoId, threadId);
  for (;;) {
    const session = sessionById(db, incarnation);
    if (session === null || session.retiredAt !== null) return;
    if (session.lastEvent !== "UserPromptSubmit") {
      write(db, () => acknowledgeAttention(db, threadId, CATALOG_REFUSED, clock.now()));
      return;
    }
    const { harnessSessionId: id } = session;
    const path = id === null ? null : harness.recordOf(folder, id);
    const refusal = path === null ? null : (harness.record(path)?.refusal ?? null);
    // Of the turn before, as long as nothing is written of this one.
    if (refusal !== null && (turn === null || refusal.turn === turn)) {
      deps.raiseAttention({
        threadId,
        kind: CATALOG_REFUSED,
        dedupKey: incarnation,
        message:
          `the model's provider refused the first request (${refusal.said.slice(0, MAX_QUOTED)}); if it does not take the ` +
          'settings kiki generates for the model, [agent.codex] boundary = "restart" does without them',
        loud: true,
        recurs: true,
      });
      return;
    }
    await clock.sleep(LOOK_MS, signal);
  }
}
