/** A CODEX_HOME for the real Codex CLI: the scripted model as its provider, one trusted hook on every event, no dialogs. */
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  EVENT_LABELS,
  hookHash,
  hookKey,
  type HookEvent,
} from "../../fixtures/agents/codex-cli/hook-hash.ts";
import { CODEX } from "./install.ts";

const MODEL = "gpt-6.2-sol";

export interface CodexHome {
  /** Value for CODEX_HOME, a real path. */
  readonly path: string;
  readonly env: Record<string, string>;
}

export interface CodexHomeOptions {
  readonly modelUrl: string;
  readonly workspace: string;
  /** Shell command of the hook on that event; null: no hooks. */
  readonly hook: ((event: HookEvent) => string) | null;
  /** Whether the workspace is trusted; default true. */
  readonly trusted?: boolean;
  /** Whether the provider asks for a login; default false. */
  readonly needsLogin?: boolean;
  /** Whether the hooks' hashes are stored; default true. */
  readonly trustHooks?: boolean;
}

/** Everything in TOML that JSON can spell the same way. */
const quoted = (text: string): string => JSON.stringify(text);

/** Makes `<dir>/codex-home`, `<dir>/home` and `<dir>/tmp`; they must lie beside each other (facts §0). */
export function makeCodexHome(dir: string, options: CodexHomeOptions): CodexHome {
  for (const name of ["codex-home", "home", "tmp"]) mkdirSync(join(dir, name), { recursive: true });
  const path = realpathSync(join(dir, "codex-home"));
  const env = {
    PATH: process.env["PATH"] ?? "/usr/bin:/bin",
    HOME: join(dir, "home"),
    CODEX_HOME: path,
    TMPDIR: join(dir, "tmp"),
    SHELL: "/bin/bash",
    LANG: "C.UTF-8",
  };
  writeFileSync(join(path, "catalog.json"), directCatalog(env));
  const config = join(path, "config.toml");
  const events = Object.keys(EVENT_LABELS) as HookEvent[];
  const { hook } = options;
  const hooks = (hook === null ? [] : events).flatMap((event) => {
    const command = hook!(event);
    const key = hookKey(config, event, 0, 0);
    return [
      `[[hooks.${event}]]`,
      `[[hooks.${event}.hooks]]`,
      `type = "command"`,
      `command = ${quoted(command)}`,
      ...(options.trustHooks === false
        ? []
        : [`[hooks.state.${quoted(key)}]`, `trusted_hash = "${hookHash(event, { command })}"`]),
    ];
  });
  const lines = [
    `model = "${MODEL}"`,
    `model_provider = "scripted"`,
    `approval_policy = "never"`,
    `sandbox_mode = "danger-full-access"`,
    `check_for_update_on_startup = false`,
    `web_search = "disabled"`,
    `tool_output_token_limit = 100000`,
    `model_catalog_json = ${quoted(join(path, "catalog.json"))}`,
    `[model_providers.scripted]`,
    `name = "scripted"`,
    `base_url = "${options.modelUrl}"`,
    `wire_api = "responses"`,
    `requires_openai_auth = ${options.needsLogin === true}`,
    `supports_websockets = false`,
    `[features]`,
    `hooks = true`,
    ...["daemon_auto_start", "plugins", "apps", "goals", "view_image"].map((f) => `${f} = false`),
    ...["multi_agent", "sleep_tool", "unified_exec_tty"].map((f) => `${f} = false`),
    `[agents]`,
    `enabled = false`,
    `[mcp_servers.codex_tui]`,
    `enabled = false`,
    `command = "true"`,
    `[analytics]`,
    `enabled = false`,
    `[feedback]`,
    `enabled = false`,
    ...(options.trusted === false
      ? []
      : [`[projects.${quoted(options.workspace)}]`, `trust_level = "trusted"`]),
    ...hooks,
  ];
  writeFileSync(config, `${lines.join("\n")}\n`);
  return { path, env };
}

/** The bundled catalog as text, as `codex debug models` prints it. */
export function bundledCatalog(env: Record<string, string>): string {
  const result = Bun.spawnSync([CODEX, "debug", "models"], { env, cwd: "/", stdin: "ignore" });
  if (result.exitCode !== 0) throw new Error(`codex debug models: ${result.stderr.toString()}`);
  return result.stdout.toString();
}

/** One model whose calls are made directly, one at a time, and whose tools all fire hooks. */
function directCatalog(env: Record<string, string>): string {
  const { models } = JSON.parse(bundledCatalog(env)) as { models: Record<string, unknown>[] };
  const model = models.find(({ slug }) => slug === MODEL);
  if (model === undefined) throw new Error(`no model ${MODEL} in the bundled catalog`);
  return JSON.stringify({
    models: [
      {
        ...model,
        tool_mode: "direct",
        multi_agent_version: "disabled",
        use_responses_lite: true,
        experimental_supported_tools: [],
        supports_search_tool: false,
      },
    ],
  });
}
