/** Which calls belong to one response, when their hooks run, and how a batch ends. */
import { existsSync, writeFileSync } from "node:fs";
import type { ModelBlock } from "../../../fixtures/model-servers/claude.ts";
import { waitFor } from "../../support/wait.ts";
import { heldUntil, lookAt, untilThere } from "../holds.ts";
import { MCP_SERVER } from "../mcp-server.ts";
import type { RecordedHook } from "../../../src/backends/harness/hook-recorder.ts";
import { agent, bash, read, say, STEP_MS, write } from "../model.ts";
import type { Proof, ProofRun } from "../proof.ts";
import { claude } from "./row.ts";
import { ClaudeScene, type SceneOptions } from "./scene.ts";

const BOUNDARY = ["parallel_batch_boundary"] as const;
/** Between two blocks of a slow answer. */
const SLOW_MS = 400;
const NOTES = { "notes.txt": "one\n" };

const slow = (blocks: readonly ModelBlock[]): ModelBlock[] =>
  blocks.map((block) => ({ ...block, delay_ms: SLOW_MS, tail_ms: SLOW_MS }));

function ids(hook: RecordedHook | undefined): string[] {
  const calls = hook?.payload["tool_calls"];
  return Array.isArray(calls)
    ? (calls as Record<string, unknown>[]).map((call) => String(call["tool_use_id"])).sort()
    : [];
}

/** PreToolUse ids between two PostToolBatch events of the main agent, batch by batch, in order of arrival. */
function groups(scene: ClaudeScene): string[][] {
  const found: string[][] = [[]];
  for (const { event, payload } of scene.recorder.hooks()) {
    if (payload["agent_id"] !== undefined) continue;
    if (event === "PreToolUse") found.at(-1)!.push(String(payload["tool_use_id"]));
    if (event === "PostToolBatch") found.push([]);
  }
  return found.map((group) => group.sort());
}

function use<T>(
  run: ProofRun,
  steps: (scene: ClaudeScene) => readonly (() => ModelBlock[] | Promise<ModelBlock[]>)[],
  body: (scene: ClaudeScene) => Promise<T>,
  more: Omit<SceneOptions, "scripts"> = {},
): Promise<T> {
  const scripts: SceneOptions["scripts"] = (scene) => ({
    one: [...steps(scene), () => [say("Done.")]],
    helper: [() => [bash("echo helper", "toolu_helper")], () => [say("Helped.")]],
  });
  return ClaudeScene.use(run, { ...more, scripts }, body);
}

const show = (value: unknown): string => JSON.stringify(value);

export const batches: readonly Proof[] = [
  claude(
    "batch-of-slow-stream",
    "calls that stream in one by one and run meanwhile still make one batch between two PostToolBatch events",
    "the same calls in three responses",
    BOUNDARY,
    (run) => {
      const calls = [
        bash("echo a", "toolu_a"),
        bash("touch made.txt", "toolu_b"),
        bash("echo c", "toolu_c"),
      ];
      const steps = run.inverted ? calls.map((call) => () => [call]) : [() => slow(calls)];
      return use(
        run,
        () => steps,
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const [first] = groups(scene);
          const listed = ids(scene.recorder.hooks("PostToolBatch")[0]);
          const all = ["toolu_a", "toolu_b", "toolu_c"];
          return {
            holds: show(first) === show(all) && show(listed) === show(all),
            seen: `hooked ${show(groups(scene))}, listed ${show(listed)}`,
          };
        },
      );
    },
  ),
  claude(
    "hooks-while-streaming",
    "a call is asked for, and has run, while a later sibling of the same response is not there yet",
    "the whole response at once, its first call a slow one",
    [],
    (run) =>
      use(
        run,
        (scene) => [
          () => {
            // Sent whether or not it came: what the hooks say is the evidence.
            const ran = () =>
              waitFor(
                () => scene.recorder.hooks("PostToolUse").length > 0,
                STEP_MS,
                "the end of a",
              ).catch(() => undefined);
            return [
              bash(run.inverted ? "sleep 1" : "echo a", "toolu_a"),
              { ...bash("echo b", "toolu_b"), ...(run.inverted ? {} : { after: ran }) },
            ];
          },
        ],
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const order = scene.recorder
            .hooks()
            .filter(({ event }) => event === "PreToolUse" || event === "PostToolUse")
            .map(({ event, payload }) => `${event} ${String(payload["tool_use_id"])}`);
          return {
            holds: order.indexOf("PostToolUse toolu_a") < order.indexOf("PreToolUse toolu_b"),
            seen: order.join(", "),
          };
        },
      ),
  ),
  claude(
    "hook-holds-call",
    "a call waits for its hook, however long that takes, and runs after it",
    "a hook that leaves its waiting to a process of its own",
    ["soft_pause"],
    (run) =>
      use(
        run,
        (scene) => [() => [bash(`touch ${scene.file("ran.txt")}`, "toolu_a")]],
        async (scene) => {
          const look = `${lookAt(scene.file("ran.txt"), run.inverted)}; if [ -e '${scene.file("ran.txt")}' ]; then : >'${scene.file("early.txt")}'; fi; : >'${scene.file("looked.txt")}'`;
          scene.recorder.before(run.inverted ? `(${look}) >/dev/null 2>&1 </dev/null &` : look);
          await scene.print({ prompt: "SCRIPT:one" });
          await waitFor(() => scene.has("looked.txt"), STEP_MS, "the look");
          const early = scene.has("early.txt");
          return {
            holds: scene.has("ran.txt") && !early,
            seen: `after 3 s of the hook the tool ${early ? "had" : "had not"} run; in the end it ${scene.has("ran.txt") ? "had" : "had not"}`,
          };
        },
      ),
  ),
  claude(
    "hooks-at-once",
    "hooks of calls that only read run at the same time, so that several of a batch can be held together",
    "calls that write: one at a time",
    BOUNDARY,
    (run) =>
      use(
        run,
        (scene) => [
          () =>
            ["a", "b", "c"].map((name) =>
              run.inverted
                ? write(scene.file(`${name}.txt`), name, `toolu_${name}`)
                : read(scene.file("notes.txt"), `toolu_${name}`),
            ),
        ],
        async (scene) => {
          scene.recorder.before(heldUntil(3));
          await scene.print({ prompt: "SCRIPT:one" });
          const hooks = scene.recorder.hooks("PreToolUse");
          const together = hooks.filter((hook) =>
            hooks.some(
              (other) =>
                other !== hook && other.from < (hook.to ?? 0) && hook.from < (other.to ?? 0),
            ),
          );
          return {
            holds: hooks.length === 3 && together.length === 3,
            seen: `${together.length} of ${hooks.length} hooks ran beside another`,
          };
        },
        { files: NOTES },
      ),
  ),
  claude(
    "batch-all-denied",
    "PostToolBatch comes once when every call was denied, and shows what the model gets for each",
    "the calls are passed",
    BOUNDARY,
    (run) =>
      use(
        run,
        () => [() => [bash("echo a", "toolu_a"), bash("touch b.txt", "toolu_b")]],
        async (scene) => {
          const reason = "[kiki] not now";
          if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput(reason));
          await scene.print({ prompt: "SCRIPT:one" });
          const closed = scene.recorder.hooks("PostToolBatch");
          const event = closed[0] && scene.harness.interpretEvent(closed[0].payload);
          const responses =
            event?.type === "BatchClosed" ? event.calls.map((call) => call.response) : [];
          const expected = scene.harness.expectedResult(reason, { toolName: "Bash" });
          return {
            holds:
              closed.length === 1 &&
              responses.length === 2 &&
              responses.every((response) => response === expected),
            seen: `${closed.length} PostToolBatch: ${show(responses)}`,
          };
        },
      ),
  ),
  claude(
    "denied-without-post-event",
    "a denied call fires neither PostToolUse nor PostToolUseFailure",
    "the call is passed",
    BOUNDARY,
    (run) =>
      use(
        run,
        () => [() => [bash("echo a", "toolu_a")]],
        async (scene) => {
          if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
          await scene.print({ prompt: "SCRIPT:one" });
          const events = scene.recorder.hooks().map(({ event }) => event);
          return {
            holds:
              events.includes("PreToolUse") &&
              !events.some((name) => name.startsWith("PostToolUse")),
            seen: events.join(", "),
          };
        },
      ),
  ),
  claude(
    "batch-lists-refused",
    "a call that was refused before any hook is in PostToolBatch all the same",
    "an ordinary call in its place",
    [],
    (run) =>
      use(
        run,
        () => [
          () => [
            bash("echo a", "toolu_a"),
            run.inverted
              ? bash("echo b", "toolu_b")
              : { type: "tool_use", name: "NoSuchTool", input: {}, id: "toolu_b" },
          ],
        ],
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const hooked = scene.recorder
            .hooks("PreToolUse")
            .map(({ payload }) => payload["tool_use_id"]);
          const listed = ids(scene.recorder.hooks("PostToolBatch")[0]);
          return {
            holds: listed.includes("toolu_b") && !hooked.includes("toolu_b"),
            seen: `hooked ${show(hooked)}, listed ${show(listed)}`,
          };
        },
      ),
  ),
  claude(
    "sub-agents",
    "a sub-agent's calls and its batch carry its agent_id, the session and the prompt stay the main agent's",
    "the main agent makes the call itself",
    BOUNDARY,
    (run) =>
      use(
        run,
        () => [
          () => [
            run.inverted
              ? bash("echo helper", "toolu_helper")
              : agent("SCRIPT:helper", "general-purpose"),
          ],
        ],
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const call = scene.recorder
            .hooks("PreToolUse")
            .find(({ payload }) => payload["tool_use_id"] === "toolu_helper")?.payload;
          const batch = scene.recorder
            .hooks("PostToolBatch")
            .find((hook) => ids(hook).includes("toolu_helper"))?.payload;
          const main = scene.recorder.hooks("UserPromptSubmit")[0]?.payload;
          return {
            holds:
              call?.["agent_id"] !== undefined &&
              call["agent_id"] === batch?.["agent_id"] &&
              call["prompt_id"] === main?.["prompt_id"] &&
              call["session_id"] === main?.["session_id"],
            seen: show({ call: call?.["agent_id"], batch: batch?.["agent_id"] }),
          };
        },
      ),
  ),
  claude(
    "mcp-hooked",
    "a tool of the project's MCP server is there, asks like any other, and a denial reaches the model",
    "a server that has no tools",
    ["mcp_client"],
    (run) => {
      const server = run.inverted ? MCP_SERVER.replace("[tool]", "[]") : MCP_SERVER;
      return use(
        run,
        (scene) => [
          // Connected in the background: not yet there for the first answer.
          async () => {
            await waitFor(() => scene.has("mcp.cjs.listed"), STEP_MS, "the server asked");
            return [say("Wait."), bash("echo a", "toolu_wait")];
          },
          () => [{ type: "tool_use", name: "mcp__gate__count", input: {}, id: "toolu_mcp" }],
        ],
        async (scene) => {
          const config = {
            mcpServers: { gate: { command: process.execPath, args: [scene.file("mcp.cjs")] } },
          };
          writeFileSync(scene.file(".mcp.json"), JSON.stringify(config));
          writeFileSync(
            scene.file(".claude/settings.local.json"),
            JSON.stringify({ enabledMcpjsonServers: ["gate"] }),
          );
          writeFileSync(scene.file("mcp.cjs"), server);
          scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
          await scene.print({ prompt: "SCRIPT:one" });
          const asked = scene.recorder
            .hooks("PreToolUse")
            .some(({ payload }) => payload["tool_use_id"] === "toolu_mcp");
          const told = scene.told("toolu_mcp") ?? "";
          const expected = scene.harness.expectedResult("[kiki] not now", {
            toolName: "mcp__gate__count",
          });
          return { holds: asked && told === expected, seen: `asked: ${asked}; told: ${told}` };
        },
        { files: { ".claude/CLAUDE.md": "Nothing.\n" } },
      );
    },
  ),
  claude(
    "stop-after-turn",
    "Stop comes once, at the turn's end, with every batch closed before it",
    "looked at before the turn is over",
    ["quiescence_detection"],
    (run) =>
      use(
        run,
        () => [() => [bash("echo a", "toolu_a")], () => [bash("echo b", "toolu_b")]],
        async (scene) => {
          if (run.inverted) {
            scene.recorder.before("sleep 2");
            const pane = await scene.pane({ prompt: "SCRIPT:one" });
            await waitFor(
              () => scene.recorder.hooks("PreToolUse").length > 1,
              STEP_MS,
              () => pane.screen(),
            );
          } else await scene.print({ prompt: "SCRIPT:one" });
          const events = scene.recorder
            .hooks()
            .map(({ event }) => event)
            .filter((event) => event === "Stop" || event === "PostToolBatch");
          return {
            holds: events.join() === "PostToolBatch,PostToolBatch,Stop",
            seen: events.join(),
          };
        },
      ),
  ),
  claude(
    "background-command",
    "a command in the background asks once, at its launch, and its batch closes while it runs",
    "the same command in the foreground",
    [],
    (run) =>
      use(
        run,
        (scene) => [
          () => {
            // In the foreground nobody would tell it to go on.
            const wait = run.inverted ? "sleep 1" : untilThere(scene.file("go"));
            return [
              {
                type: "tool_use",
                name: "Bash",
                input: {
                  command: `${wait}; touch ${scene.file("late.txt")}`,
                  description: "late",
                  run_in_background: !run.inverted,
                },
                id: "toolu_back",
              },
            ];
          },
        ],
        async (scene) => {
          const pane = await scene.pane({ prompt: "SCRIPT:one" });
          await waitFor(
            () => scene.recorder.hooks("PostToolBatch").length > 0,
            STEP_MS,
            () => `PostToolBatch:\n${pane.screen()}`,
          );
          const done = existsSync(scene.file("late.txt"));
          writeFileSync(scene.file("go"), "");
          await waitFor(() => scene.has("late.txt"), STEP_MS, "the command's end");
          const asked = scene.recorder.hooks("PreToolUse").length;
          return {
            holds: !done && asked === 1,
            seen: `asked ${asked} times; at its batch's end it ${done ? "was over" : "was running"}`,
          };
        },
      ),
  ),
];
