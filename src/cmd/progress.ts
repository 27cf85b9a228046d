/** Shows a creation saga while it runs: one line per step, plain text, nothing that moves the cursor. */
import { fail, KikiError } from "../core/errors.ts";
import { printable } from "../core/render/width.ts";
import { threadWord } from "../core/shell-line.ts";
import type { Output } from "../rpc/contract/methods.ts";
import { connect, stateDir } from "./connect.ts";
import { clientOf } from "./credentials.ts";
import { note } from "./out.ts";

type Progress = Output<"GetLifecycleOperation">;

const WAIT_MS = 10_000;
const TIMEOUT_MS = WAIT_MS + 20_000;
/** The saga survives its daemon; so does watching it, but not a daemon that keeps dying. */
const MAX_RECONNECTS = 5;

/**
 * Resolves when the thread is Active; `show` gets each line of progress. Throws KikiError `create-failed`, whose
 * message is the saga's error.
 */
export async function followCreation(
  created: Output<"NewThread">,
  show: (line: string) => void,
): Promise<void> {
  const onInterrupt = (): void => {
    note(`creation goes on in the background: kk status ${threadWord(created.name)}`);
    process.exit(130);
  };
  process.once("SIGINT", onInterrupt);
  try {
    const end = await watch(created, show);
    if (end.lifecycle === "Active") return;
    throw fail(
      "failed",
      "create-failed",
      `${created.name} could not be created: ${end.error ?? end.lifecycle}`,
      `kk status ${threadWord(created.name)}`,
    );
  } finally {
    process.removeListener("SIGINT", onInterrupt);
  }
}

/** Resolves with how any other operation ended. */
export async function followOperation(
  begun: Output<"ApplyRepair">,
  show: (line: string) => void,
): Promise<Progress> {
  const onInterrupt = (): void => {
    note(`it goes on in the background: kk status ${threadWord(begun.name)}`);
    process.exit(130);
  };
  process.once("SIGINT", onInterrupt);
  try {
    return await watch(begun, show);
  } finally {
    process.removeListener("SIGINT", onInterrupt);
  }
}

async function watch(
  created: Output<"NewThread">,
  show: (line: string) => void,
): Promise<Progress> {
  const { repoId, threadId, operationId } = created;
  // As the thread it is about: inside another one, kk may not follow it otherwise.
  const client = clientOf(stateDir(), repoId, threadId);
  const shown = new Shown();
  let seen = "";
  for (let reconnects = 0; ;) {
    try {
      const input = { repoId, operationId, seen, waitMs: WAIT_MS };
      const progress = await client.call("GetLifecycleOperation", input, { timeoutMs: TIMEOUT_MS });
      for (const line of shown.news(progress)) show(line);
      if (progress.done) return progress;
      seen = progress.seen;
    } catch (error) {
      const away = error instanceof KikiError && error.kind === "daemonUnavailable";
      if (!away || reconnects >= MAX_RECONNECTS) throw error;
      reconnects += 1;
      await connect();
    }
  }
}

/** Remembers what was printed, so that each step's end is one line. */
export class Shown {
  readonly #lines = new Set<string>();

  news(progress: Pick<Progress, "steps" | "attention">): string[] {
    const lines = progress.steps.flatMap((step) => {
      if (step.state === "Completed") return [`  ✓ ${step.name}`];
      return step.note === undefined ? [] : [`  … ${step.name}: ${printable(step.note)}`];
    });
    // Undoing goes backwards. Why it failed comes at the end, once; here, that it failed is enough.
    for (const step of progress.steps.toReversed()) {
      if (step.error !== null) lines.push(`  ! ${step.name} failed`);
      if (step.state === "Compensated") lines.push(`  undone: ${step.name}`);
    }
    const waiting = progress.attention.filter((item) => item.kind !== "create-failed");
    lines.push(...waiting.map((item) => `  ! ${printable(item.message)}`));
    const fresh = lines.filter((line) => !this.#lines.has(line));
    for (const line of fresh) this.#lines.add(line);
    return fresh;
  }
}
