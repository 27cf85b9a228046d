/** Calls that are at the files although an intent is bound, and may be: the harness let a refused one run beside them. */
import type { IntentId } from "../../src/core/ids.ts";
import type { Call } from "../fakes/agent-batch.ts";
import type { SimAgent } from "./panes.ts";
import type { World } from "./world.ts";

/**
 * Let through before a person settled a refused tool that ran. The person's choice sets the agent going again, this call
 * with it; nothing is done to the files before it is over (`Oracle.fileChange`).
 */
export function isFromBeforeChoice(
  w: World,
  sim: SimAgent,
  call: Call,
  intentId: IntentId,
): boolean {
  return (
    w.outside
      .query(
        `SELECT 1 FROM sync_intents i
         JOIN tool_admissions a ON a.agent_session_id = $incarnation AND a.tool_use_id = $call
         WHERE i.intent_id = $intentId AND a.admission = 'PassThrough' AND a.admitted_at <= i.recovery_chosen_at
           AND i.recovery_choice_json ->> '$[#-1].by' = 'person'`,
      )
      .get({ incarnation: sim.incarnation, call: call.id, intentId }) !== null
  );
}
