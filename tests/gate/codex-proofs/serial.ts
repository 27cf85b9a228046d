/** One call a response: that Codex asks for it, what happens when a model does not keep to it, and helpers, who are off. */
import { existsSync } from "node:fs";
import type { CodexStep, ModelItem } from "../../../fixtures/model-servers/codex.ts";
import { toolNames } from "../../../fixtures/model-servers/codex.ts";
import { waitFor } from "../../support/wait.ts";
import { call, exec, patch, say } from "../codex-model.ts";
import type { RecordedHook } from "../../../src/backends/harness/hook-recorder.ts";
import { heldUntil, lookAt, untilThere } from "../holds.ts";
import { STEP_MS } from "../model.ts";
import type { Proof, ProofRun } from "../proof.ts";
import { codex } from "../codex-row.ts";
import { CodexScene, type StartChanges, type Table } from "./scene.ts";

const BOUNDARY = ["parallel_batch_boundary"] as const;
/** Time in which something that must not come would have come. */
const QUIET_MS = 2_000;
const show = (value: unknown): string => JSON.stringify(value);

const use = <T>(
  run: ProofRun,
  steps: readonly CodexStep[],
  body: (scene: CodexScene) => Promise<T>,
): Promise<T> =>
  CodexScene.use(
    run,
    {
      scripts: () => ({
        one: [...steps, [say("Done.")]],
        helper: [[exec("c_helper", "echo helper")], [say("Helped.")]],
      }),
    },
    body,
  );

/** Calls in one response, or each in one of its own. */
const together = (items: readonly ModelItem[]): CodexStep[] => [items];
const apart = (items: readonly ModelItem[]): CodexStep[] => items.map((item) => [item]);

const idOf = (hook: RecordedHook): string => String(hook.payload["tool_use_id"]);

/** From the beginning of its PreToolUse to the end of its PostToolUse, by call. */
function spans(scene: CodexScene): { id: string; from: number; to: number }[] {
  return scene.recorder.hooks("PreToolUse").map((pre) => {
    const post = scene.recorder.hooks("PostToolUse").find((hook) => idOf(hook) === idOf(pre));
    return { id: idOf(pre), from: pre.from, to: post?.to ?? pre.to ?? pre.from };
  });
}

function overlapping(scene: CodexScene): string[] {
  const all = spans(scene);
  return all
    .filter((a) => all.some((b) => b !== a && b.from < a.to && a.from < b.to))
    .map(({ id }) => id);
}

/** The model asks side questions (a title) with fewer tools; these are its answers' requests. */
const main = (scene: CodexScene) => scene.model.requests.filter((r) => r.script === "one");

const asking: Proof[] = [
  codex(
    "asks-for-one-call",
    "every request says parallel_tool_calls:false",
    "the catalog without use_responses_lite",
    BOUNDARY,
    (run) =>
      use(run, apart([exec("c_one", "echo one"), exec("c_two", "echo two")]), async (scene) => {
        const start: StartChanges = run.inverted
          ? {
              catalog: (model: Table) => ({ ...model, use_responses_lite: false }),
              settings: ["model=gpt-5.5"],
            }
          : {};
        await scene.print({ prompt: "SCRIPT:one", ...start });
        const flags = main(scene).map(({ body }) => body.parallel_tool_calls);
        return {
          holds: flags.length === 3 && flags.every((flag) => flag === false),
          seen: `parallel_tool_calls: ${show(flags)}`,
        };
      }),
  ),
  codex(
    "offers-four-tools",
    "the model is offered exactly apply_patch, exec_command, request_user_input and write_stdin",
    "the catalog without kiki's edits: tools are called inside another, which no hook sees",
    BOUNDARY,
    (run) =>
      use(run, [[exec("c_one", "echo one")]], async (scene) => {
        const start = run.inverted ? { catalog: unedited } : {};
        await scene.print({ prompt: "SCRIPT:one", ...start });
        const offered = main(scene).map((request) => toolNames(request).sort().join());
        return {
          holds:
            [...new Set(offered)].join("|") ===
            "apply_patch,exec_command,request_user_input,write_stdin",
          seen: [...new Set(offered)].join(" | "),
        };
      }),
  ),
  codex(
    "next-call-after-result",
    "a call of the next response is asked for only when the previous call is over and its result has gone to the model",
    "both calls in one response",
    BOUNDARY,
    (run) => {
      const items = [exec("c_one", "sleep 1; echo one"), exec("c_two", "echo two")];
      return use(run, run.inverted ? together(items) : apart(items), async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const [one, two] = spans(scene);
        const carried = main(scene).find((r) => r.raw.includes("c_one"));
        return {
          holds:
            one !== undefined &&
            two !== undefined &&
            carried !== undefined &&
            one.to <= carried.at &&
            carried.at <= two.from,
          seen: show({ one, carried: carried?.at, two }),
        };
      });
    },
  ),
  codex(
    "no-overlap",
    "with one call a response no two tools run at the same time, whatever kind they are",
    "all in one response",
    BOUNDARY,
    (run) => {
      const items = [
        exec("c_one", "sleep 0.5"),
        patch("c_two", "two.txt"),
        exec("c_three", "sleep 0.5"),
        exec("c_four", "sleep 0.5"),
      ];
      return use(run, run.inverted ? together(items) : apart(items), async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const beside = overlapping(scene);
        return {
          holds: spans(scene).length === 4 && beside.length === 0,
          seen: `${spans(scene).length} calls; at the same time: ${beside.join(", ") || "none"}`,
        };
      });
    },
  ),
];

/** Without the edits that kiki makes. */
const unedited = (model: Table): Table => ({
  ...model,
  tool_mode: "code_mode_only",
  multi_agent_version: "v2",
  supports_search_tool: true,
});

const siblings: Proof[] = [
  codex(
    "siblings-at-once",
    "two calls of one response ask at the same time: nothing but kiki's holding keeps them apart",
    "each in a response of its own",
    [],
    (run) => {
      const items = [exec("c_one", "echo one"), exec("c_two", "echo two")];
      return use(run, run.inverted ? apart(items) : together(items), async (scene) => {
        scene.recorder.before(heldUntil(2));
        await scene.print({ prompt: "SCRIPT:one" });
        const beside = overlapping(scene);
        return {
          holds: beside.length === 2,
          seen: `at the same time: ${beside.join(", ") || "none"}`,
        };
      });
    },
  ),
  codex(
    "siblings-and-no-more",
    "while a sibling is held, the other goes to its end, and nothing more is asked of the model or of kiki",
    "nobody is held",
    BOUNDARY,
    (run) =>
      use(
        run,
        [[exec("c_one", "echo one"), exec("c_two", "echo two")], [exec("c_three", "echo three")]],
        async (scene) => {
          // Until the other has ended and a good while more.
          const hold = `if grep -q c_two "$at/payload"; then ${untilThere(`${scene.folder}/go`)}; fi`;
          if (!run.inverted) scene.recorder.before(hold);
          const printed = scene.print({ prompt: "SCRIPT:one" });
          await waitFor(
            () => scene.hooked("PostToolUse", "c_one"),
            STEP_MS,
            "the first call's end",
          );
          // Absence has no event to wait for.
          if (run.inverted) await printed;
          else await Bun.sleep(QUIET_MS);
          const asked = main(scene).length;
          const hooks = scene.recorder.hooks("PreToolUse").map(idOf).sort().join();
          const ran = scene.hooked("PostToolUse", "c_two");
          scene.put("go", "");
          await printed;
          return {
            holds:
              asked === 1 &&
              hooks === "c_one,c_two" &&
              !ran &&
              scene.hooked("PostToolUse", "c_two"),
            seen: `meanwhile: ${asked} requests, asked about ${hooks}, the held one had run: ${ran}`,
          };
        },
      ),
  ),
  codex(
    "siblings-told-together",
    "calls of one response, and no others, have the same number in the record, and the first request after them carries both results",
    "each in a response of its own",
    BOUNDARY,
    (run) => {
      const items = [exec("c_one", "echo one"), exec("c_two", "echo two")];
      const steps = run.inverted ? apart(items) : together(items);
      return use(run, [...steps, [exec("c_three", "echo three")]], async (scene) => {
        await scene.print({ prompt: "SCRIPT:one" });
        const responses = scene.harness.record(scene.recordPath)?.responses;
        const numbers = ["c_one", "c_two", "c_three"].map((id) => responses?.get(id));
        const both = ["c_one", "c_two"].every((id) => main(scene)[1]?.raw.includes(id) === true);
        return {
          holds: show(numbers) === "[0,0,1]" && both,
          seen: `responses ${show(numbers)}; both in the second request: ${both}`,
        };
      });
    },
  ),
  codex(
    "call-in-record-before-hook",
    "the line of a call is in the session record before its PreToolUse, with its response's number",
    "looked at when the response is only being asked for",
    BOUNDARY,
    (run) => {
      const early: (number | undefined)[] = [];
      const look = (scene: CodexScene, path: string): void =>
        void early.push(scene.harness.record(path)?.responses.get("c_two"));
      return CodexScene.use(
        run,
        {
          scripts: (scene) => ({
            one: [
              [exec("c_one", "echo one")],
              () => {
                if (run.inverted) look(scene, scene.recordPath);
                return [exec("c_two", "echo two")];
              },
              [say("Done.")],
            ],
          }),
        },
        async (scene) => {
          const copy = `${scene.folder}/at-hook.jsonl`;
          scene.recorder.before(`cp '${scene.codexHome}'/sessions/*/*/*/*.jsonl '${copy}'`);
          await scene.print({ prompt: "SCRIPT:one" });
          if (!run.inverted) look(scene, copy);
          return { holds: show(early) === "[1]", seen: `response of the call: ${show(early)}` };
        },
      );
    },
  ),
  codex(
    "hook-holds-call",
    "a call waits for its hook, however long that takes, and runs after it",
    "a hook that leaves its waiting to a process of its own",
    ["soft_pause"],
    (run) =>
      use(run, [[exec("c_one", "touch ran.txt")]], async (scene) => {
        const look = `${lookAt(scene.file("ran.txt"), run.inverted)}; if [ -e '${scene.file("ran.txt")}' ]; then : >'${scene.file("early.txt")}'; fi; : >'${scene.file("looked.txt")}'`;
        scene.recorder.before(run.inverted ? `(${look}) >/dev/null 2>&1 </dev/null &` : look);
        await scene.print({ prompt: "SCRIPT:one" });
        await waitFor(() => scene.has("looked.txt"), STEP_MS, "the look");
        const early = existsSync(scene.file("early.txt"));
        return {
          holds: scene.has("ran.txt") && !early,
          seen: `after 3 s of the hook the tool ${early ? "had" : "had not"} run; in the end it ${scene.has("ran.txt") ? "had" : "had not"}`,
        };
      }),
  ),
];

const SPAWNS = [
  call("spawn_agent", { message: "SCRIPT:helper", task_name: "helper" }, "c_spawn"),
  { ...call("spawn_agent", { message: "SCRIPT:helper" }, "c_v1"), namespace: "multi_agent_v1" },
  {
    ...call("spawn_agent", { message: "SCRIPT:helper", task_name: "helper" }, "c_v2"),
    namespace: "collaboration",
  },
] as ModelItem[];

const helpers: Proof[] = [
  codex(
    "no-helpers",
    "a model that asks for a helper all the same gets none, by either of the tools' names",
    "helpers left on",
    BOUNDARY,
    (run) =>
      use(run, apart(SPAWNS), async (scene) => {
        const start = run.inverted
          ? {
              catalog: (model: Table) => ({ ...model, multi_agent_version: "v2" }),
              settings: [
                "agents.enabled=true",
                "features.multi_agent=true",
                "features.multi_agent_v2=true",
              ],
            }
          : {};
        await scene.print({ prompt: "SCRIPT:one", ...start });
        const told = ["c_spawn", "c_v1", "c_v2"].map((id) => scene.told(id));
        const helped = scene.model.requests.some((r) => r.script === "helper");
        return {
          holds: !helped && told.every((text) => text?.startsWith("unsupported call") === true),
          seen: `a helper asked the model: ${helped}; told: ${show(told)}`,
        };
      }),
  ),
];

export const serial: readonly Proof[] = [...asking, ...siblings, ...helpers];
