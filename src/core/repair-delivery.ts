/** A delivery whose attempts are used up: what is known of it, and the two ways out (cascade chapter, "Delivery"). */
import { short, type CommitId } from "./ids.ts";
import type { IntentState } from "./intent.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Examination } from "./repair.ts";

export interface ExhaustedDelivery {
  lifecycle: Lifecycle;
  intentId: string;
  state: IntentState;
  parentName: string;
  fromBase: CommitId;
  toBase: CommitId;
  epoch: number;
  /** How each attempt of this epoch ended, oldest first. */
  attempts: readonly string[];
  /** Attempts a fresh cycle has. */
  limit: number;
  payloadBytes: number;
  agent: "none" | "running";
}

export const RETRY_DELIVERY = "retry-delivery";
export const DISCARD_DELIVERY = "discard-delivery";

/** Pure: the same facts give the same plans, and with them the same ids. */
export function examineExhausted(d: ExhaustedDelivery): Examination {
  const moved = `${d.parentName} moved from ${short(d.fromBase)} to ${short(d.toBase)}`;
  return {
    authority: [
      { name: "lifecycle", value: d.lifecycle, ok: true },
      { name: "delivery", value: `exhausted in cycle ${d.epoch}: ${moved}`, ok: false },
      { name: "intent", value: `${d.intentId}, ${d.state}, ${d.payloadBytes} bytes`, ok: null },
      ...d.attempts.map((end, at) => ({ name: `attempt ${at + 1}`, value: end, ok: false })),
    ],
    observed: [{ name: "agent", value: d.agent, ok: null }],
    notes: [],
    proposals: [
      {
        kind: RETRY_DELIVERY,
        title: `tell the agent once more, in at most ${d.limit} starts`,
        changes: [
          `cycle ${d.epoch + 1} of this delivery begins and counts from zero; the text stays as it is`,
          "the agent is started in its pane, with that text as its first input",
        ],
      },
      {
        kind: DISCARD_DELIVERY,
        title: "give it up: the agent is not told what changed under it",
        changes: [
          `the delivery counts as acknowledged without proof, on your word: ${moved}`,
          "files stay as they are: they are up to date with the parent already",
          "the agent is started in its pane and goes on with its conversation",
        ],
      },
    ],
    needsRepair: true,
  };
}
