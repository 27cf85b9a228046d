/** What an agent is told when its call is blocked without the payload. Never empty, always kiki's header. */
import type { BlockReason } from "../core/barrier.ts";
import { GENERIC_DENY_REASON, KIKI_HEADER } from "../core/generic-deny.ts";

const DID_NOT_RUN = "This call did not run and nothing was changed by it.";

/** The same words the hook prints by itself when it is not released. */
export const HOLD_TEXT = GENERIC_DENY_REASON;
export const NOT_READY_TEXT = `${KIKI_HEADER} ${DID_NOT_RUN} kiki has not finished starting this thread; make the same call again in a moment.`;

export function blockText(reason: BlockReason): string {
  switch (reason) {
    case "recovery-required":
      return `${KIKI_HEADER} ${DID_NOT_RUN} This workspace has edits that jj had not recorded when its parent moved. kiki keeps copies, pauses this agent, and waits for a person to decide. If you can read this, that may have happened: make the same call again, and do not work around this; refused once more, stop and say so.`;
    case "delivery-exhausted":
      return `${KIKI_HEADER} ${DID_NOT_RUN} kiki could not deliver what changed under you and waits for a person; stop and say so.`;
    case "batch-not-complete":
    case "second-contrary-receipt":
    case "receipt-unreadable":
    case "startup-not-echoed":
    case "startup-taken-back":
    case "batch-unknown":
    case "boundary-unproved":
    case "no-rule-matches":
      return `${KIKI_HEADER} ${DID_NOT_RUN} kiki cannot prove what you were told about changed files. This agent is restarted by kiki and told again; stop here.`;
  }
}
