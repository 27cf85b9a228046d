/** Conversations: their ids, resuming, clearing, breaking off, and what a start-up prompt can be recognised by. */
import { rmSync, writeFileSync } from "node:fs";
import { waitFor } from "../../support/wait.ts";
import type { PaneRun } from "../../support/tmux.ts";
import { untilThere } from "../holds.ts";
import { asked, bash, say, STEP_MS } from "../model.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { claude } from "./row.ts";
import { ClaudeScene, SESSION } from "./scene.ts";

const OTHER = "7b1c9d2e-4f3a-4e5b-8c6d-0e1f2a3b4c5d";
const MARK = "[[kiki:startup-1]]";
/** Longer than Esc needs. */
const LATE_MS = 20_000;
/** Of a prompt that nothing came of, nothing is told but that it was there. */
const TAKEN_BACK =
  "SessionStart,UserPromptSubmit,UserPromptSubmit,PreToolUse,PostToolUse,PostToolBatch,Stop";
/** Time in which an event that must not come would have come: the slowest seen after Esc is well below. */
const QUIET_MS = 2_000;

const scripts = () => ({
  one: [() => [bash("echo one", "toolu_one")], () => [say("Done.")]],
  two: [() => [bash("echo two", "toolu_two")], () => [say("Done.")]],
});

const simple = <T>(run: ProofRun, body: (scene: ClaudeScene) => Promise<T>): Promise<T> =>
  ClaudeScene.use(run, { scripts }, body);

const sessionIds = (scene: ClaudeScene): string[] =>
  scene.recorder
    .hooks("SessionStart")
    .map(({ payload }) => `${String(payload["source"])} ${String(payload["session_id"])}`);

/** Waits for that many of an event; throws with the pane's screen. */
const seen = (scene: ClaudeScene, pane: PaneRun, event: string, times = 1): Promise<unknown> =>
  waitFor(
    () => scene.recorder.hooks(event).length >= times,
    STEP_MS,
    () => `${times} ${event}:\n${pane.screen()}`,
  );

/** An answer, or a call, that is late enough for Esc to come first. */
const slowly = () => ({
  ...scripts(),
  slow: [() => [{ ...say("Late."), delay_ms: LATE_MS }]],
  called: [() => [bash("echo one", "toolu_one")], () => [{ ...say("Late."), delay_ms: LATE_MS }]],
});

async function takenBack(
  run: ProofRun,
  scene: ClaudeScene,
  when: "its hook runs" | "the model is asked",
): Promise<Evidence> {
  const inHook = when === "its hook runs" && !run.inverted;
  if (inHook) scene.recorder.before(untilThere(scene.file("go")), "UserPromptSubmit");
  const script = run.inverted ? "called" : "slow";
  const pane = await scene.pane({ prompt: `SCRIPT:${script} ${MARK}` });
  await seen(scene, pane, "UserPromptSubmit");
  if (!inHook) await asked(scene.model, script, run.inverted ? 1 : 0);
  pane.send("Escape");
  if (run.inverted) await pane.waitForText(/Interrupted/, STEP_MS);
  else
    await waitFor(
      () => composerOf(pane).includes(MARK),
      STEP_MS,
      () => pane.screen(),
    );
  writeFileSync(scene.file("go"), "");
  const back = composerOf(pane).includes(MARK);
  pane.send("C-u");
  await waitFor(
    () => !composerOf(pane).includes(MARK),
    STEP_MS,
    () => pane.screen(),
  );
  pane.type("SCRIPT:two");
  await pane.waitForText(/SCRIPT:two/, STEP_MS);
  pane.enter();
  const next = await asked(scene.model, "two", 0);
  await seen(scene, pane, "Stop");
  const events = scene.recorder.hooks().map(({ event }) => event);
  const ids = scene.recorder
    .hooks("UserPromptSubmit")
    .map(({ payload }) => String(payload["prompt_id"]));
  const silent = events.join() === TAKEN_BACK;
  return {
    holds: back && !next.raw.includes(MARK) && ids.length === 2 && ids[0] !== ids[1] && silent,
    seen: `composer ${back}; in the next request ${next.raw.includes(MARK)}; ${events.join(", ")}`,
  };
}

/** The line behind the last of Claude Code's prompt signs: the earlier ones are of what was said before. */
function composerOf(pane: PaneRun): string {
  return (
    pane
      .screen()
      .split("\n")
      .findLast((line) => line.startsWith("❯")) ?? ""
  );
}

export const sessions: readonly Proof[] = [
  claude(
    "session-id-chosen",
    "--session-id chooses the conversation's id and record, and SessionStart carries the incarnation's secret",
    "another id asked for",
    [],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: "SCRIPT:one", sessionId: run.inverted ? OTHER : SESSION });
        const [start] = scene.recorder.hooks("SessionStart");
        const secret = scene.recorder.environment().includes("KIKI_INCARNATION_SECRET=secret");
        return {
          holds:
            start?.payload["session_id"] === SESSION &&
            String(start.payload["transcript_path"]).endsWith(`${SESSION}.jsonl`) &&
            secret,
          seen: sessionIds(scene).join(", "),
        };
      }),
  ),
  claude(
    "resume-keeps-id",
    "--resume goes on with the same id and record, and submits its prompt",
    "a new conversation instead",
    ["session_resume"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        await scene.print({
          prompt: "SCRIPT:two",
          ...(run.inverted ? { sessionId: OTHER } : { resume: true }),
        });
        const request = scene.model.requests.find((r) => r.script === "two" && r.step === 0);
        const ids = sessionIds(scene);
        return {
          holds: ids[1] === `resume ${SESSION}` && request?.raw.includes("SCRIPT:one") === true,
          seen: ids.join(", "),
        };
      }),
  ),
  claude(
    "resume-without-record",
    "a conversation is resumable exactly while its record is there, and the adapter sees whether it is",
    "the record stays",
    ["session_resume"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const gone = (): boolean =>
          scene.harness.conversationGone({ env: scene.env, sessionId: SESSION });
        const before = gone();
        const path = scene.recorder.hooks("SessionStart")[0]?.payload["transcript_path"];
        if (!run.inverted) rmSync(String(path));
        const { code, err } = await scene.print({ prompt: "SCRIPT:two", resume: true });
        return {
          holds: !before && gone() && code === 1 && err.includes("No conversation found"),
          seen: `gone ${before}, then ${gone()}; exit ${code} ${err.trim()}`,
        };
      }),
  ),
  claude(
    "startup-echo",
    "the start-up prompt's mark comes back in UserPromptSubmit, and its prompt_id in every call of that turn",
    "a prompt without the mark",
    ["restart_startup_delivery"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: run.inverted ? "SCRIPT:one" : `SCRIPT:one ${MARK}` });
        const [prompt] = scene.recorder.hooks("UserPromptSubmit");
        const [call] = scene.recorder.hooks("PreToolUse");
        const id = prompt?.payload["prompt_id"];
        return {
          holds:
            String(prompt?.payload["prompt"]).includes(MARK) &&
            id !== undefined &&
            id === call?.payload["prompt_id"],
          seen: `${String(prompt?.payload["prompt"])}; prompt ${String(id)}, call ${String(call?.payload["prompt_id"])}`,
        };
      }),
  ),
  claude(
    "next-prompt-next-id",
    "the next prompt of a conversation has another prompt_id, and so have its calls",
    "one prompt only, its two calls compared",
    ["restart_startup_delivery"],
    (run) =>
      ClaudeScene.use(
        run,
        {
          scripts: () => ({
            ...scripts(),
            both: [
              () => [bash("echo one", "toolu_one")],
              () => [bash("echo two", "toolu_two")],
              () => [say("Done.")],
            ],
          }),
        },
        async (scene) => {
          const pane = await scene.pane({ prompt: run.inverted ? "SCRIPT:both" : "SCRIPT:one" });
          await seen(scene, pane, "Stop");
          if (!run.inverted) {
            pane.type("SCRIPT:two");
            await pane.waitForText(/SCRIPT:two/, STEP_MS);
            pane.enter();
            await seen(scene, pane, "Stop", 2);
          }
          const ids = scene.recorder
            .hooks("PreToolUse")
            .map(({ payload }) => String(payload["prompt_id"]));
          return { holds: ids.length === 2 && ids[0] !== ids[1], seen: ids.join(", ") };
        },
      ),
  ),
  claude(
    "clear-new-id",
    "/clear begins a conversation with another id and says so in SessionStart",
    "/compact in its place, which keeps the id",
    [],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: "SCRIPT:one" });
        await seen(scene, pane, "Stop");
        const command = run.inverted ? "/compact" : "/clear";
        pane.type(command);
        await pane.waitForText(new RegExp(command), STEP_MS);
        pane.enter();
        await seen(scene, pane, "SessionStart", 2);
        const last = scene.recorder.hooks("SessionStart").at(-1)?.payload;
        return {
          holds: last?.["source"] === "clear" && last["session_id"] !== SESSION,
          seen: sessionIds(scene).join(", "),
        };
      }),
  ),
  claude(
    "esc-without-events",
    "Esc while a call is held: no PostToolBatch, no Stop, and the tool does not run",
    "nobody presses Esc",
    [],
    (run) =>
      simple(run, async (scene) => {
        scene.recorder.before(run.inverted ? null : untilThere(scene.file("go")));
        const pane = await scene.pane({ prompt: "SCRIPT:one" });
        await seen(scene, pane, "PreToolUse");
        if (run.inverted) await seen(scene, pane, "Stop");
        else {
          pane.send("Escape");
          await pane.waitForText(/[Ii]nterrupted/, STEP_MS);
          writeFileSync(scene.file("go"), "");
          // Absence has no event to wait for; the hook has let the call go.
          await Bun.sleep(QUIET_MS);
        }
        const events = scene.recorder.hooks().map(({ event }) => event);
        return {
          holds: !events.some((name) => name.startsWith("PostTool") || name === "Stop"),
          seen: events.join(", "),
        };
      }),
  ),
  ...(["its hook runs", "the model is asked"] as const).map((when) =>
    claude(
      when === "its hook runs" ? "prompt-taken-back-in-hook" : "prompt-taken-back-unanswered",
      `Esc while ${when}: the prompt is in the composer again and not in the next request, which has another prompt_id; no event says so`,
      "Esc once a call was made of it, which leaves it in the conversation",
      [],
      (run) => ClaudeScene.use(run, { scripts: slowly }, (scene) => takenBack(run, scene, when)),
    ),
  ),
  claude(
    "person-command-unhooked",
    "a command that the person types with ! asks nobody",
    "the agent runs it",
    [],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: "SCRIPT:one" });
        await seen(scene, pane, "Stop");
        const before = scene.recorder.hooks("PreToolUse").length;
        if (run.inverted) {
          pane.type("SCRIPT:two");
          await pane.waitForText(/SCRIPT:two/, STEP_MS);
        } else {
          pane.type("!");
          pane.type("touch by-hand.txt");
          await pane.waitForText(/touch by-hand/, STEP_MS);
        }
        pane.enter();
        if (run.inverted) await seen(scene, pane, "Stop", 2);
        else
          await waitFor(
            () => scene.has("by-hand.txt"),
            STEP_MS,
            () => pane.screen(),
          );
        const asked = scene.recorder.hooks("PreToolUse").length - before;
        return { holds: asked === 0, seen: `${asked} PreToolUse` };
      }),
  ),
];
