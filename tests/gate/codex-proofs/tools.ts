/** Every tool with which the model can look at the workspace asks; those that do not ask are off, or see nothing new. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { hookHash, hookKey } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import {
  outputOf,
  toolNames,
  type CodexRequest,
  type CodexStep,
  type ModelItem,
} from "../../../fixtures/model-servers/codex.ts";
import { waitFor } from "../../support/wait.ts";
import { call, exec, patch, say } from "../codex-model.ts";
import { MCP_SERVER } from "../mcp-server.ts";
import { untilThere } from "../holds.ts";
import { STEP_MS } from "../model.ts";
import type { Proof, ProofRun } from "../proof.ts";
import { codex } from "../codex-row.ts";
import { CodexScene, withTrust, type Table } from "./scene.ts";

const show = (value: unknown): string => JSON.stringify(value);

const use = <T>(
  run: ProofRun,
  steps: readonly CodexStep[],
  body: (scene: CodexScene) => Promise<T>,
): Promise<T> =>
  CodexScene.use(run, { scripts: () => ({ one: [...steps, [say("Done.")]] }) }, body);

/** kiki's PreToolUse hook for the tools that pattern matches only, trusted. */
function onlyFor(scene: CodexScene, matcher: string): (config: Table) => Table {
  return (config) => {
    const hooks = config["hooks"] as Record<
      string,
      { hooks: { command: string; timeout: number }[] }[]
    >;
    const { hooks: entries } = hooks["PreToolUse"]![0]!;
    const key = hookKey(join(scene.codexHome, "config.toml"), "PreToolUse", 0, 0);
    const trusted_hash = hookHash("PreToolUse", { ...entries[0]!, matcher });
    return withTrust(
      { ...config, hooks: { ...hooks, PreToolUse: [{ matcher, hooks: entries }] } },
      { [key]: { trusted_hash } },
    );
  };
}

/** The project brings an MCP server whose tool `count` is `mcp__gate__count`. */
function withServer(scene: CodexScene, source = MCP_SERVER): void {
  writeFileSync(scene.file("mcp.cjs"), source);
  scene.put(
    "project/.codex/config.toml",
    `[mcp_servers.gate]\ncommand = ${show(process.execPath)}\nargs = [${show(scene.file("mcp.cjs"))}]\n`,
  );
}

const mcpCall = (id: string): ModelItem =>
  ({ ...call("count", {}, id), namespace: "mcp__gate" }) as ModelItem;
const MCP_TOOL = "mcp__gate__count";

const asking: Proof[] = [
  codex(
    "every-tool-asks",
    "commands, patches, MCP tools and questions to the person each fire PreToolUse under the call's id",
    "a hook for a name that only the wire knows, exec_command",
    ["structured_tool_hooks", "parallel_batch_boundary"],
    (run) => {
      const question = {
        questions: [
          {
            id: "q",
            header: "Q",
            question: "Which?",
            options: [
              { label: "a", description: "a" },
              { label: "b", description: "b" },
            ],
          },
        ],
      };
      const steps = [
        [exec("c_exec", "echo one")],
        [patch("c_patch", "made.txt")],
        [mcpCall("c_mcp")],
        [call("request_user_input", question, "c_ask")],
      ];
      return use(run, steps, async (scene) => {
        withServer(scene);
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted ? { config: onlyFor(scene, "exec_command") } : {}),
        });
        const asked = scene.recorder
          .hooks("PreToolUse")
          .map(
            ({ payload }) => `${String(payload["tool_use_id"])} ${String(payload["tool_name"])}`,
          );
        return {
          holds:
            asked.join() ===
            `c_exec Bash,c_patch apply_patch,c_mcp ${MCP_TOOL},c_ask request_user_input`,
          seen: asked.join(", "),
        };
      });
    },
  ),
  codex(
    "mcp-hooked",
    "a tool of the project's MCP server is there, asks like any other, and a denial reaches the model in its own wrapper",
    "a server that has no tools",
    ["mcp_client"],
    (run) =>
      use(run, [[mcpCall("c_mcp")]], async (scene) => {
        withServer(scene, run.inverted ? MCP_SERVER.replace("[tool]", "[]") : MCP_SERVER);
        scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
        await scene.print({ prompt: "SCRIPT:one" });
        const asked = scene.hooked("PreToolUse", "c_mcp");
        const told = scene.told("c_mcp") ?? "";
        const expected = scene.harness.expectedResult("[kiki] not now", { toolName: MCP_TOOL });
        return { holds: asked && told === expected, seen: `asked: ${asked}; told: ${told}` };
      }),
  ),
];

/** Number of the running command that Codex told the model of. */
function running(request: CodexRequest, callId: string): number {
  return Number(/session ID (\d+)/.exec(outputOf(request, callId) ?? "")?.[1]);
}

const quiet: Proof[] = [
  codex(
    "write-stdin-feeds-nothing",
    "write_stdin asks nobody, and cannot tell a running command anything",
    "terminals for commands left on",
    ["parallel_batch_boundary"],
    (run) => {
      const reader = exec("c_read", "read x; echo $x > fed.txt", {
        yield_time_ms: 500,
        ...(run.inverted ? { tty: true } : {}),
      });
      const feed = (request: CodexRequest): ModelItem[] => [
        call(
          "write_stdin",
          { session_id: running(request, "c_read"), chars: "fed\n", yield_time_ms: 3_000 },
          "c_feed",
        ),
      ];
      // Without a terminal its standard input is at an end, so it must be kept from ending.
      const kept = exec("c_read", "sleep 20 & read x; echo $x > fed.txt; wait", {
        yield_time_ms: 500,
        ...(run.inverted ? { tty: true } : {}),
      });
      return use(run, [[run.inverted ? reader : kept], feed], async (scene) => {
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted ? { settings: ["features.unified_exec_tty=true"] } : {}),
        });
        const fed =
          scene.has("fed.txt") && (await Bun.file(scene.file("fed.txt")).text()) === "fed\n";
        return {
          holds: !fed && !scene.hooked("PreToolUse", "c_feed"),
          seen: `asked: ${scene.hooked("PreToolUse", "c_feed")}; fed: ${fed}; told: ${(scene.told("c_feed") ?? "").slice(0, 200)}`,
        };
      });
    },
  ),
  codex(
    "background-command",
    "a command that goes on in the background asks once; its result is in the record when it yields, and its PostToolUse comes at its end",
    "the same command waited for",
    [],
    (run) => {
      let post: boolean | undefined;
      let recorded: boolean | undefined;
      return CodexScene.use(
        run,
        {
          scripts: (scene) => ({
            one: [
              [
                // Waited for, nobody would tell it to go on.
                exec(
                  "c_back",
                  `${run.inverted ? "sleep 1" : untilThere(scene.file("go"))}; touch late.txt`,
                  run.inverted ? {} : { yield_time_ms: 300 },
                ),
              ],
              async (request) => {
                recorded = scene.harness.record(scene.recordPath)?.outputs.has("c_back");
                post = scene.hooked("PostToolUse", "c_back");
                if (run.inverted) return [say("Done.")];
                scene.put("project/go", "");
                await waitFor(() => scene.has("late.txt"), STEP_MS, "the command's end");
                const poll = {
                  session_id: running(request, "c_back"),
                  chars: "",
                  yield_time_ms: 2_000,
                };
                return [call("write_stdin", poll, "c_poll")];
              },
              [say("Done.")],
            ],
          }),
        },
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const asked = scene.recorder.hooks("PreToolUse").length;
          const later = scene.hooked("PostToolUse", "c_back");
          return {
            holds: asked === 1 && recorded === true && post === false && later,
            seen: `asked ${asked} times; at the next request in the record: ${String(recorded)}, PostToolUse: ${String(post)}; in the end: ${later}`,
          };
        },
      );
    },
  ),
];

/** Tools that are off, called all the same. */
const OFF: readonly { name: string; args: object; on: readonly string[] }[] = [
  { name: "view_image", args: { path: "picture.png" }, on: ["features.view_image=true"] },
  { name: "create_goal", args: { objective: "see" }, on: ["features.goals=true"] },
];

/** One transparent point. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

const off: Proof[] = [
  ...OFF.map(({ name, args, on }) =>
    codex(
      `off-${name.replace("_", "-")}`,
      `${name} is off: a model that calls it all the same is told that there is no such tool`,
      "switched on again",
      ["parallel_batch_boundary"],
      (run) =>
        use(run, [[call(name, args, "c_off")]], async (scene) => {
          writeFileSync(scene.file("picture.png"), Buffer.from(PNG, "base64"));
          await scene.print({ prompt: "SCRIPT:one", ...(run.inverted ? { settings: on } : {}) });
          const told = scene.told("c_off") ?? "";
          return {
            holds: told.startsWith("unsupported call"),
            seen: `told: ${told.slice(0, 120)}; asked: ${scene.hooked("PreToolUse", "c_off")}`,
          };
        }),
    ),
  ),
  codex(
    "off-web-search",
    "no search of the web is offered, though the project asks for one",
    "live search left on",
    ["parallel_batch_boundary"],
    (run) =>
      use(run, [[exec("c_one", "echo one")]], async (scene) => {
        scene.put("project/.codex/config.toml", 'web_search = "live"\n');
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted
            ? {
                settings: ['web_search="live"'],
                // Without it the tool is left out for its own sake.
                catalog: (model: Table) => ({ ...model, use_responses_lite: false }),
              }
            : {}),
        });
        const offered = toolNames(scene.request("one", 0)!);
        return {
          holds: offered.length === 4 && !offered.some((name) => name.includes("web")),
          seen: offered.join(", "),
        };
      }),
  ),
  codex(
    "off-tool-search",
    "no search for tools is offered, which would bring in some that nobody was asked about",
    "helpers and the search for tools left on, with a model that has them behind it",
    ["parallel_batch_boundary"],
    (run) =>
      use(run, [[exec("c_one", "echo one")]], async (scene) => {
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted
            ? {
                catalog: (model: Table) => ({
                  ...model,
                  supports_search_tool: true,
                  multi_agent_version: "v1",
                }),
                settings: ["agents.enabled=true", "features.multi_agent=true", "model=gpt-5.5"],
              }
            : {}),
        });
        const offered = toolNames(scene.request("one", 0)!);
        return {
          holds: offered.length === 4 && !offered.includes("tool_search"),
          seen: offered.join(", "),
        };
      }),
  ),
];

export const tools: readonly Proof[] = [...asking, ...quiet, ...off];
