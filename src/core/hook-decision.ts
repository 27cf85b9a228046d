/** The daemon's answer to a hook (same shape as the `PreToolUseDecision` and `Hold` methods of the contract). */
import type { IntentId } from "./ids.ts";

export type HookDecision =
  | { decision: "pass" }
  | {
      decision: "deny";
      /** Bytes for the harness, printed on stdout as they are. */
      output: string;
      /** Present when `output` carries the payload: the hook reports it with MarkDelivered after printing. */
      delivered?: { intentId: IntentId; turn: number; batch: number } | undefined;
    }
  | { decision: "hold"; token: string; holdMs: number };
