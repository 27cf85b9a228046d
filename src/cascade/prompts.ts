/** What a prompt of an agent says about a delivery: the echo of a startup, or words that a restart must not lose. */
import { startupMark } from "../core/delivery.ts";
import type { HarnessEvent } from "../ports/harness.ts";
import { startedFor } from "../store/deliveries.ts";
import { write } from "../store/db.ts";
import { noteActivity } from "../store/edges.ts";
import { unresolvedIntents } from "../store/intents.ts";
import { liveSession, sessionById } from "../store/sessions.ts";
import { countPrompt, recordAnswered, recordStartupPrompt } from "../store/startup-prompts.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { changeIntents } from "./moves.ts";
import { forgetTyped, keepTyped, typedWasTaken } from "./typed.ts";

type UserPrompt = Extract<HarnessEvent, { type: "UserPrompt" }>;

/**
 * Prompts are numbered. Those of an incarnation that was started in order to be told are recorded by their ids too, and
 * whether they show its startup id: the first that does is the echo, and the text may come again, where a person took it
 * back and sent it once more. While an intent is owed to an agent, a person's words are kept.
 */
export function recordPrompt(deps: CascadeDeps, caller: HookCaller, event: UserPrompt): void {
  const { db, clock } = deps;
  const { threadId, incarnation } = caller;
  const now = clock.now();
  const started = startedFor(db, threadId, incarnation);
  const echoes =
    started?.restart != null && event.prompt.includes(startupMark(started.restart.deliveryId));
  changeIntents(deps, (changes) => {
    const number = countPrompt(db, incarnation);
    if (started !== null) {
      const prompt = { incarnation, number, promptId: event.promptId, shows: echoes };
      recordStartupPrompt(db, threadId, prompt, now);
    }
    if (echoes && sessionById(db, incarnation)?.echoPrompt === null)
      changes.startupEchoed(incarnation, { prompt: number, now });
    noteActivity(db, incarnation, {
      status: "Running",
      turnCompleted: false,
      event: "UserPromptSubmit",
      now,
    });
  });
  if (echoes || !isTyped(event.prompt)) return;
  // Late, of one that has ended: with a creation that failed even its folder may be gone.
  if (liveSession(db, threadId)?.incarnation !== incarnation) return;
  if (isOwed(deps, threadId))
    keepTyped(deps, caller, { text: event.prompt, promptId: event.promptId });
  // Of work that came to nothing (its transition was covered): an old request must not come back some day.
  else forgetTyped(deps, threadId);
}

/**
 * The main agent's turn is over. What it was started with is from here on in its conversation; what was typed for it is
 * answered, unless an agent may yet be started to be told.
 */
export function promptsAnswered(
  deps: CascadeDeps,
  { threadId, incarnation }: HookCaller,
  promptId: string | null,
): void {
  const { db, clock } = deps;
  if (promptId !== null && startedFor(db, threadId, incarnation) !== null)
    write(db, () => recordAnswered(db, threadId, { incarnation, promptId }, clock.now()));
  const pending = unresolvedIntents(db, threadId).some(
    (i) => i.state !== "Detected" && i.state !== "TopologyDiverged",
  );
  if (!pending) forgetTyped(deps, threadId);
  else if (promptId !== null) typedWasTaken(deps, threadId, promptId);
}

/** Of merely detected work as well: where no boundary is proved, that alone ends the agent. */
function isOwed({ db }: CascadeDeps, threadId: string): boolean {
  return unresolvedIntents(db, threadId).some((i) => i.state !== "TopologyDiverged");
}

/** What the harness itself submits at the end of a background task is nobody's words, and what kiki starts it with is kiki's. */
function isTyped(prompt: string): boolean {
  return prompt.trim() !== "" && !/^<task-notification>|^\[kiki\] /.test(prompt);
}
