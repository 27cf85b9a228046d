/** Creation step 11: waiting for the agent's handshake, and everything that ends the wait otherwise. */
import { threadWord } from "../core/shell-line.ts";
import { fail } from "../core/errors.ts";
import { raiseAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { sessionById } from "../store/sessions.ts";
import { evidenceOf, threadOf, type CreateContext } from "./creation-deps.ts";
import { paneGone, tmuxOf, type GateIdentity } from "./creation-steps-session.ts";
import { SagaSuspended, type StepDef } from "./saga.ts";

/** From the open gate to the handshake. */
export const READY_TIMEOUT_MS = 60_000;
/** The same once the pane shows a dialog that waits for the person. */
export const DIALOG_TIMEOUT_MS = 10 * 60_000;
export const PANE_POLL_MS = 1_000;
/** Longer limits read better in minutes. */
const MINUTES_FROM_MS = 120_000;

interface ReadyEvidence {
  incarnation: string;
}

/**
 * Waits for the handshake, whose transaction completes this step and the operation (gate.ts). What ends the wait
 * otherwise: the harness ended, the pane went, the settings changed, time.
 */
export const readyStep: StepDef<CreateContext, ReadyEvidence, ReadyEvidence> = {
  name: "ready",
  identity: (ctx) => ({ incarnation: evidenceOf<GateIdentity>(ctx, "gate").incarnation }),
  observe: () => ({ is: "not-done" }), // `run` looks first
  run: awaitReady,
};

async function awaitReady(ctx: CreateContext, id: ReadyEvidence): Promise<ReadyEvidence> {
  const { clock, db } = ctx.deps;
  const { paneId } = evidenceOf<GateIdentity>(ctx, "gate");
  const began = clock.monotonic();
  let limitMs = READY_TIMEOUT_MS;
  let shown = "";
  for (;;) {
    if (ctx.stopping.aborted) throw new SagaSuspended();
    const session = sessionById(db, id.incarnation);
    if (session === null) throw new Error(`no incarnation ${id.incarnation}`);
    if (session.readyAt !== null) return id;
    const trouble = ctx.trouble();
    if (trouble !== null) throw trouble;
    // Read before the verdict: the pane holds what the harness said last.
    shown = (await paneText(ctx, paneId)) ?? shown;
    if (session.retiredAt !== null) throw endedEarly(ctx, session.lastEvent, shown);
    const adapter = ctx.deps.harness(session.harness);
    const dialog = adapter.startupDialog(shown);
    if (dialog === null && adapter.naming === "harness" && adapter.composer(shown)) {
      await ctx.composerSeen(id.incarnation);
      if (sessionById(db, id.incarnation)?.readyAt !== null) continue;
    }
    if (dialog !== null) {
      limitMs = DIALOG_TIMEOUT_MS;
      askForDialog(ctx, id.incarnation, dialog);
    }
    // The last look at the journal is after the last wait: a handshake in time is never called late.
    const left = limitMs - (clock.monotonic() - began);
    if (left <= 0 && sessionById(db, id.incarnation)?.readyAt === null) {
      throw notReady(ctx, limitMs, dialog, shown);
    }
    await ctx.signals.wait(ctx.threadId, Math.min(PANE_POLL_MS, Math.max(left, 1)), ctx.stopping);
  }
}

/** Text of the agent's pane; null when tmux does not say. Throws `agent-pane-gone` when it is provably gone. */
async function paneText(ctx: CreateContext, paneId: string): Promise<string | null> {
  const tmux = tmuxOf(ctx);
  const panes = await tmux.listPanes();
  if (panes.known && !panes.value.some((p) => p.id === paneId && !p.dead)) throw paneGone();
  const text = await tmux.capturePane(paneId);
  return text.known ? text.value : null;
}

function askForDialog(ctx: CreateContext, incarnation: string, dialog: string): void {
  const { clock, db } = ctx.deps;
  const { name } = threadOf(ctx);
  write(db, () => {
    raiseAttention(db, {
      threadId: ctx.threadId,
      kind: "startup-dialog",
      dedupKey: incarnation,
      message: `"${name}" waits: accept the dialog in the agent pane (${dialog}) — kk switch ${threadWord(name)}`,
      loud: true,
      now: clock.now(),
    });
  });
}

function endedEarly(ctx: CreateContext, event: string | null, shown: string): Error {
  const { harness } = threadOf(ctx);
  return fail(
    "failed",
    "harness-ended",
    `${harness} ended before it was ready (${event ?? "no report"})${lastLine(shown)}`,
    `run ${harness} by hand in the repository to see what it says`,
  );
}

function notReady(
  ctx: CreateContext,
  limitMs: number,
  dialog: string | null,
  shown: string,
): Error {
  const { harness } = threadOf(ctx);
  const minutes = limitMs >= MINUTES_FROM_MS ? `${limitMs / 60_000} min` : `${limitMs / 1000} s`;
  return dialog === null
    ? fail(
        "failed",
        "harness-not-ready",
        `${harness} did not report its start within ${minutes}${lastLine(shown)}`,
        `run ${harness} by hand in the repository to see what it waits for`,
      )
    : fail(
        "failed",
        "dialog-not-accepted",
        `${harness} waited ${minutes} for its dialog to be accepted (${dialog})`,
        `run ${harness} by hand in the repository, accept the dialog, then run kk new again`,
      );
}

/** The last thing the pane showed, which is gone with the session; at most one line of 120 characters. */
function lastLine(shown: string): string {
  const lines = shown.split("\n").map((line) => line.trim());
  const last = lines.findLast((line) => line !== "" && !line.startsWith("kiki: "));
  return last === undefined ? "" : `: ${last.slice(0, 120)}`;
}
