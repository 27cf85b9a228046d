/** Sessions and turns: ids, resuming, compaction, breaking off, and what a start-up prompt can be recognised by. */
import { refusal } from "../../../fixtures/model-servers/codex.ts";
import type { PaneRun } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";
import { exec, say, submit } from "../codex-model.ts";
import { untilThere } from "../holds.ts";
import { STEP_MS } from "../model.ts";
import type { Proof, ProofRun } from "../proof.ts";
import { codex } from "../codex-row.ts";
import { CodexScene } from "./scene.ts";

const MARK = "[[kiki:startup-1]]";
/** Time in which an event that must not come would have come: the slowest seen after Esc is well below. */
const QUIET_MS = 2_000;

const scripts = () => ({
  one: [[exec("c_one", "touch one.txt")], [say("Done.")]],
  two: [[exec("c_two", "echo two")], [say("Done.")]],
  both: [[exec("c_one", "echo one")], [exec("c_two", "echo two")], [say("Done.")]],
});

const simple = <T>(run: ProofRun, body: (scene: CodexScene) => Promise<T>): Promise<T> =>
  CodexScene.use(run, { scripts }, body);

const starts = (scene: CodexScene): string[] =>
  scene.recorder
    .hooks("SessionStart")
    .map(({ payload }) => `${String(payload["source"])} ${String(payload["session_id"])}`);

const turns = (scene: CodexScene, event: string): string[] =>
  scene.recorder.hooks(event).map(({ payload }) => String(payload["turn_id"]));

const events = (scene: CodexScene): string[] => scene.recorder.hooks().map(({ event }) => event);

/** Waits for that many of an event; throws with the pane's screen. */
const seen = (scene: CodexScene, pane: PaneRun, event: string, times = 1): Promise<unknown> =>
  waitFor(
    () => scene.recorder.hooks(event).length >= times,
    STEP_MS,
    () => `${times} ${event}:\n${pane.screen()}`,
  );

const ids: Proof[] = [
  codex(
    "session-secret",
    "SessionStart names the session and its record, and its hook sees the incarnation's secret",
    "started without the variable",
    ["exclusive_pre_tool_use"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted ? { env: { KIKI_INCARNATION_SECRET: "" } } : {}),
        });
        const id = String(scene.recorder.hooks("SessionStart")[0]?.payload["session_id"]);
        const secret = scene.recorder.environment().includes("KIKI_INCARNATION_SECRET=secret");
        return {
          holds: scene.recordPath.endsWith(`-${id}.jsonl`) && secret,
          seen: `${id} ${scene.recordPath}, secret: ${secret}`,
        };
      }),
  ),
  codex(
    "resume-keeps-id",
    "codex resume goes on with the same id and record, and submits its prompt",
    "a new session instead",
    ["session_resume"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const first = scene.recordPath;
        const id = String(scene.recorder.hooks("SessionStart")[0]?.payload["session_id"]);
        await scene.print({ prompt: "SCRIPT:two", ...(run.inverted ? {} : { resume: id }) });
        const again = scene.recorder.hooks("SessionStart")[1]?.payload;
        const request = scene.request("two", 0);
        return {
          holds:
            starts(scene)[1] === `resume ${id}` &&
            again?.["transcript_path"] === first &&
            request?.raw.includes("SCRIPT:one") === true,
          seen: starts(scene).join(", "),
        };
      }),
  ),
  codex(
    "compaction-keeps-id",
    "/compact keeps the session's id and record, and SessionStart comes again with the next prompt only",
    "/new in its place",
    ["session_resume"],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: "SCRIPT:one" });
        await seen(scene, pane, "Stop");
        await submit(pane, run.inverted ? "/new" : "/compact");
        // A new session has the screen to itself, what had scrolled away included.
        if (run.inverted)
          await waitFor(
            () => !pane.history().includes("SCRIPT:one"),
            STEP_MS,
            () => pane.screen(),
          );
        else await pane.waitForText(/compacted/i, STEP_MS);
        await Bun.sleep(QUIET_MS);
        const meanwhile = starts(scene).length;
        await submit(pane, "SCRIPT:two");
        await seen(scene, pane, "Stop", 2);
        const all = scene.recorder.hooks("SessionStart").map(({ payload }) => payload);
        const same = (field: string): boolean => new Set(all.map((p) => p[field])).size === 1;
        return {
          holds:
            meanwhile === 1 && all.length === 2 && same("session_id") && same("transcript_path"),
          seen: `${meanwhile} before the prompt; ${starts(scene).join(", ")}`,
        };
      }),
  ),
  codex(
    "session-start-is-lazy",
    "without a prompt there is a composer and no SessionStart; it comes with the first prompt",
    "started with a prompt",
    [],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: run.inverted ? "SCRIPT:one" : null });
        if (run.inverted) await seen(scene, pane, "Stop");
        await waitFor(
          () => scene.harness.composer(pane.screen()),
          STEP_MS,
          () => pane.screen(),
        );
        await Bun.sleep(QUIET_MS);
        const before = events(scene).length;
        await submit(pane, "SCRIPT:two");
        await waitFor(
          () => scene.told("c_two") !== null,
          STEP_MS,
          () => pane.screen(),
        );
        return {
          holds: before === 0 && starts(scene).length === 1,
          seen: `${before} hooks before the first typed prompt; ${starts(scene).join(", ")}`,
        };
      }),
  ),
];

const prompts: Proof[] = [
  codex(
    "startup-echo",
    "the start-up prompt's mark comes back in UserPromptSubmit, and its turn_id in every call and the Stop of that turn",
    "a prompt without the mark",
    ["restart_startup_delivery"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: run.inverted ? "SCRIPT:both" : `SCRIPT:both ${MARK}` });
        const [prompt] = scene.recorder.hooks("UserPromptSubmit");
        const all = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"].flatMap((event) =>
          turns(scene, event),
        );
        return {
          holds:
            String(prompt?.payload["prompt"]).includes(MARK) &&
            all.length === 6 &&
            new Set(all).size === 1,
          seen: `${String(prompt?.payload["prompt"])}; turns ${all.join(", ")}`,
        };
      }),
  ),
  codex(
    "startup-echo-on-resume",
    "a resumed session echoes its start-up prompt in a new turn",
    "a new prompt without the mark",
    ["restart_startup_delivery"],
    (run) =>
      simple(run, async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const id = String(scene.recorder.hooks("SessionStart")[0]?.payload["session_id"]);
        const prompt = run.inverted ? "SCRIPT:two" : `-x\nSCRIPT:two ${MARK}`;
        await scene.print({ prompt, resume: id });
        const last = scene.recorder.hooks("UserPromptSubmit").at(-1)?.payload;
        const [first, second] = turns(scene, "PreToolUse");
        return {
          holds:
            last?.["prompt"] === `-x\nSCRIPT:two ${MARK}` &&
            last["turn_id"] === second &&
            first !== second,
          seen: `${JSON.stringify(last?.["prompt"])}; turns ${first}, ${second}`,
        };
      }),
  ),
  codex(
    "next-prompt-next-turn",
    "the next prompt of a session has another turn_id, and so have its calls",
    "one prompt only, its two calls compared",
    ["restart_startup_delivery"],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: run.inverted ? "SCRIPT:both" : "SCRIPT:one" });
        await seen(scene, pane, "Stop");
        if (!run.inverted) {
          await submit(pane, "SCRIPT:two");
          await seen(scene, pane, "Stop", 2);
        }
        const all = turns(scene, "PreToolUse");
        return { holds: all.length === 2 && all[0] !== all[1], seen: all.join(", ") };
      }),
  ),
  codex(
    "steer-same-turn",
    "text typed while a tool runs is a prompt of its own with the running turn's turn_id: a turn is not a prompt",
    "typed when the turn is over",
    [],
    (run) =>
      CodexScene.use(
        run,
        {
          scripts: () => ({
            slow: [[exec("c_slow", "touch running.txt; sleep 4")], [say("Done.")]],
          }),
        },
        async (scene) => {
          const pane = await scene.pane({ prompt: "SCRIPT:slow" });
          if (run.inverted) await seen(scene, pane, "Stop");
          else
            await waitFor(
              () => scene.has("running.txt"),
              STEP_MS,
              () => pane.screen(),
            );
          await submit(pane, "steer");
          await seen(scene, pane, "UserPromptSubmit", 2);
          const all = turns(scene, "UserPromptSubmit");
          return { holds: all.length === 2 && all[0] === all[1], seen: all.join(", ") };
        },
      ),
  ),
];

const ends: Proof[] = [
  codex(
    "stop-after-turn",
    "Stop comes once, at the turn's end, after everything else of it",
    "the model's provider refuses the turn's last request, and no Stop comes",
    ["quiescence_detection"],
    (run) =>
      CodexScene.use(
        run,
        {
          scripts,
          first: ({ script, step }) =>
            run.inverted && script === "both" && step === 2 ? refusal("not this") : undefined,
        },
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:both" });
          const all = events(scene).filter((event) => event !== "SessionEnd");
          return {
            holds: all.indexOf("Stop") === all.length - 1 && all.includes("Stop"),
            seen: all.join(", "),
          };
        },
      ),
  ),
  codex(
    "esc-interrupts",
    "Esc while a call is held: an Interrupt of the turn, no Stop, the tool does not run, and the record says that it was broken off",
    "nobody presses Esc",
    ["quiescence_detection"],
    (run) =>
      simple(run, async (scene) => {
        const go = `${scene.folder}/go`;
        scene.recorder.before(run.inverted ? null : untilThere(go));
        const pane = await scene.pane({ prompt: "SCRIPT:one" });
        await seen(scene, pane, "PreToolUse");
        if (run.inverted) await seen(scene, pane, "Stop");
        else {
          pane.send("Escape");
          await seen(scene, pane, "Interrupt");
          scene.put("go", "");
          // Absence has no event to wait for; the hook has let the call go.
          await Bun.sleep(QUIET_MS);
        }
        const output = scene.harness.record(scene.recordPath)?.outputs.get("c_one") ?? "";
        const [turn] = turns(scene, "UserPromptSubmit");
        return {
          holds:
            turns(scene, "Interrupt").join() === turn &&
            !events(scene).includes("Stop") &&
            !scene.has("one.txt") &&
            output.includes("aborted by user"),
          seen: `${events(scene).join(", ")}; the record: ${output.slice(0, 80)}`,
        };
      }),
  ),
  codex(
    "prompt-broken-off-in-hook",
    "Esc while a prompt's hook runs: an Interrupt, and the prompt is not in the next request, which has another turn_id",
    "Esc while the model is asked, which leaves it in the conversation",
    [],
    (run) =>
      CodexScene.use(
        run,
        {
          scripts: (scene) => ({
            ...scripts(),
            slow: [
              async () => {
                await waitFor(() => scene.recorder.hooks("Interrupt").length > 0, STEP_MS, "Esc");
                return [say("Late.")];
              },
            ],
          }),
        },
        async (scene) => {
          const go = `${scene.folder}/go`;
          if (!run.inverted) scene.recorder.before(untilThere(go), "UserPromptSubmit");
          const pane = await scene.pane({ prompt: `SCRIPT:slow ${MARK}` });
          await seen(scene, pane, "UserPromptSubmit");
          if (run.inverted)
            await waitFor(() => scene.request("slow", 0) !== undefined, STEP_MS, "asked");
          pane.send("Escape");
          await seen(scene, pane, "Interrupt");
          scene.put("go", "");
          await submit(pane, "SCRIPT:two");
          await seen(scene, pane, "Stop");
          const raw = scene.request("two", 0)?.raw ?? "";
          const all = turns(scene, "UserPromptSubmit");
          return {
            holds: raw !== "" && !raw.includes(MARK) && all.length === 2 && all[0] !== all[1],
            seen: `in the next request ${raw.includes(MARK)}; ${events(scene).join(", ")}`,
          };
        },
      ),
  ),
  codex(
    "person-command-unhooked",
    "a command that the person types with ! asks nobody",
    "the agent runs it",
    [],
    (run) =>
      simple(run, async (scene) => {
        const pane = await scene.pane({ prompt: "SCRIPT:two" });
        await seen(scene, pane, "Stop");
        const before = scene.recorder.hooks("PreToolUse").length;
        await submit(pane, run.inverted ? "SCRIPT:one" : "!touch one.txt");
        await waitFor(
          () => scene.has("one.txt"),
          STEP_MS,
          () => pane.screen(),
        );
        const asked = scene.recorder.hooks("PreToolUse").length - before;
        return { holds: asked === 0, seen: `${asked} PreToolUse` };
      }),
  ),
];

export const sessions: readonly Proof[] = [...ids, ...prompts, ...ends];
