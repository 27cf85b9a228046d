/**
 * What Codex itself says it would run and how it is set, asked before the agent is started: `codex app-server` with the
 * launch's own home, arguments and environment (0.171.0: `initialize`, `hooks/list`, `config/read`).
 */
import { errorLine, fail } from "../../../core/errors.ts";
import { canonicalJson } from "../../../core/canonical.ts";
import { baseEnv, converse } from "../../exec.ts";
import { HOOK_EVENTS, trustHash, trustKey, type HookEventName } from "./hook-trust.ts";
import { notExclusive, notInItsHooks } from "./managed.ts";
import { hookCommand, isTable, MARK_VARIABLE, type Toml, type TomlTable } from "./settings.ts";

/** 0.2 s on a quiet machine; the first start in a home makes its databases. */
const TIMEOUT_MS = 30_000;

export interface ListedHook {
  key: string;
  eventName: string;
  command: string | null;
  sourcePath: string | null;
  source: string;
  enabled: boolean;
  isManaged: boolean;
  currentHash: string;
  trustStatus: string;
}

export interface Preflight {
  hooks: ListedHook[];
  /** Effective configuration for the workspace, all layers merged. */
  config: TomlTable;
  /** Which layer each setting is from, by its dotted name. */
  origins: Record<string, unknown>;
}

/** Throws KikiError `codex-preflight`; `codex-home` when Codex would use another home than the generated one. */
export async function askCodex(request: {
  program: string;
  args: readonly string[];
  home: string;
  workspace: string;
  env: Record<string, string>;
  /** Of the caller; Codex's own limit applies as well. */
  timeoutMs: number;
}): Promise<Preflight> {
  const { program, args, home, workspace, env } = request;
  const answers = await converse(
    {
      argv: [program, "app-server", ...args],
      cwd: workspace,
      env: baseEnv(env),
      timeoutMs: Math.min(TIMEOUT_MS, request.timeoutMs),
    },
    async ({ say, hear }) => {
      const ask = async (id: number, method: string, params: unknown): Promise<unknown> => {
        say(JSON.stringify({ id, method, params }));
        for (;;) {
          const line = await hear();
          if (line === null) throw preflightError(`it ended before it answered ${method}`);
          const answer = answerTo(line, id);
          if (answer === null) continue;
          if ("result" in answer) return answer["result"];
          throw preflightError(`${method}: ${canonicalJson(answer["error"] ?? null)}`);
        }
      };
      const client = { name: "kiki", title: "kiki", version: "1" };
      const capabilities = { experimentalApi: true };
      const hello = await ask(0, "initialize", { clientInfo: client, capabilities });
      say(JSON.stringify({ method: "initialized" }));
      const hooks = await ask(1, "hooks/list", { cwds: [workspace] });
      const config = await ask(2, "config/read", { cwd: workspace, includeLayers: false });
      return { hello, hooks, config };
    },
  ).catch((error: unknown) => {
    throw isOurs(error) ? error : preflightError(errorLine(error));
  });
  const told = (answers.hello as { codexHome?: unknown } | null)?.codexHome;
  if (told !== home) {
    throw fail(
      "failed",
      "codex-home",
      `Codex would use ${String(told)} as its home, not the one of the thread, ${home}`,
    );
  }
  const { config, origins } = answers.config as { config?: TomlTable; origins?: TomlTable };
  if (!isTable(config)) throw preflightError("config/read names no configuration");
  return { hooks: listed(answers.hooks), config, origins: origins ?? {} };
}

function answerTo(line: string, id: number): Record<string, unknown> | null {
  try {
    const message = JSON.parse(line) as Record<string, unknown>;
    return message["id"] === id ? message : null;
  } catch {
    return null; // not a message
  }
}

function listed(answer: unknown): ListedHook[] {
  const data = (answer as { data?: unknown } | null)?.data;
  if (!Array.isArray(data) || data.length !== 1) throw preflightError("hooks/list is not one list");
  const { hooks, errors } = data[0] as { hooks?: ListedHook[]; errors?: unknown[] };
  if (!Array.isArray(hooks)) throw preflightError("hooks/list has no hooks");
  if (Array.isArray(errors) && errors.length > 0)
    throw preflightError(`hooks/list: ${canonicalJson(errors)}`);
  return hooks;
}

/** Hooks of the folder's own `.codex`, with their hashes: what kiki can switch off for its agent. */
export function foreignHooks(preflight: Preflight, configFile: string): Record<string, string> {
  const foreign: Record<string, string> = {};
  for (const hook of preflight.hooks) {
    if (hook.sourcePath === configFile && hook.source === "user") continue;
    if (hook.source === "project" && !hook.isManaged) foreign[hook.key] = hook.currentHash;
  }
  return foreign;
}

/** Features that somebody besides kiki switches on, and that are therefore switched off for the agent. */
export function foreignFeatures(preflight: Preflight): string[] {
  const { features } = preflight.config;
  if (!isTable(features)) return [];
  return Object.entries(features)
    .filter(([, value]) => value === true || (isTable(value) && value["enabled"] === true))
    .map(([name]) => name)
    .filter((name) => name !== "hooks" && /^[\w-]+$/.test(name))
    .filter((name) => layerOf(preflight, `features.${name}`) === "project");
}

/**
 * What keeps kiki's variable in the commands of an agent where somebody lets them have some variables only (0.171.0:
 * `include_only`, and `include` among the `filters`, also take what `set` has given); null: nobody does.
 */
export function keepMark(preflight: Preflight): TomlTable | null {
  const only = at(preflight.config, "shell_environment_policy.include_only");
  if (Array.isArray(only) && only.length > 0)
    return { include_only: [...only.filter((name) => name !== MARK_VARIABLE), MARK_VARIABLE] };
  const filters = at(preflight.config, "shell_environment_policy.filters");
  // One that only excludes lets everything else through, and `set` comes after it.
  return isTable(filters) && Object.values(filters).includes("include")
    ? { filters: { [MARK_VARIABLE]: "include" } }
    : null;
}

/** Settings of a project that would let tools run past every hook, or take the session record away. */
const MUST_BE_UNSET = [
  "code_mode",
  "experimental_thread_store",
  "experimental_thread_store_endpoint",
  "experimental_use_unified_exec_tool",
  "marketplaces",
  "plugins",
  "tools",
] as const;

/**
 * Throws KikiError `hooks-not-exclusive` unless exactly kiki's hooks would run, and `codex-settings` where a setting
 * that the proof stands on is not in force; both name the file.
 */
export function judge(
  preflight: Preflight,
  launch: { configFile: string; hook: string; pinned: TomlTable },
): void {
  const wanted = new Map(
    (Object.keys(HOOK_EVENTS) as HookEventName[]).map((event) => [
      trustKey(launch.configFile, event),
      { event, command: hookCommand(launch.hook, event) },
    ]),
  );
  for (const hook of preflight.hooks) {
    const own = wanted.get(hook.key);
    if (own === undefined) {
      if (!hook.enabled && hook.trustStatus === "trusted" && !hook.isManaged) continue;
      throw notExclusive(
        hook.sourcePath ?? hook.key,
        `it has a hook of its own (${hook.eventName})`,
      );
    }
    wanted.delete(hook.key);
    const exact =
      hook.enabled &&
      hook.trustStatus === "trusted" &&
      hook.command === own.command &&
      hook.currentHash === trustHash(own.event, own.command);
    if (!exact) throw notInItsHooks(launch.configFile, `its ${own.event} hook ${standingOf(hook)}`);
  }
  const [missing] = wanted.values();
  if (missing !== undefined) {
    const file = fileOf(preflight.origins["features.hooks"]) ?? launch.configFile;
    const objection = `it does not run kiki's ${missing.event} hook`;
    throw file === launch.configFile
      ? notInItsHooks(file, objection)
      : notExclusive(file, objection);
  }
  checkSettings(preflight, launch.pinned, "");
  for (const name of MUST_BE_UNSET) {
    if (isNothing(preflight.config[name])) continue;
    throw notInForce(preflight, name, "it must not be set for an agent of a thread");
  }
}

function standingOf(own: ListedHook): string {
  if (!own.enabled) return "is switched off";
  return own.trustStatus === "trusted" ? "has another command or hash" : `is ${own.trustStatus}`;
}

function checkSettings(preflight: Preflight, wanted: TomlTable, prefix: string): void {
  for (const [key, value] of Object.entries(wanted)) {
    const name = `${prefix}${key}`;
    if (isTable(value)) checkSettings(preflight, value, `${name}.`);
    else if (canonicalJson(at(preflight.config, name)) !== canonicalJson(value))
      throw notInForce(preflight, name, "kiki's value is not the one in force");
  }
}

function at(config: TomlTable, name: string): Toml | null {
  let value: Toml | undefined = config;
  for (const part of name.split(".")) value = isTable(value) ? value[part] : undefined;
  return value ?? null;
}

function isNothing(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    (typeof value === "object" && Object.values(value).every((inner) => isNothing(inner)))
  );
}

function layerOf(preflight: Preflight, name: string): string | null {
  const found = Object.entries(preflight.origins).find(
    ([key]) => key === name || key.startsWith(`${name}.`),
  );
  return (found?.[1] as { name?: { type?: string } } | undefined)?.name?.type ?? null;
}

function fileOf(origin: unknown): string | null {
  const name = (origin as { name?: { file?: unknown; dotCodexFolder?: unknown } } | undefined)
    ?.name;
  const file = name?.file ?? name?.dotCodexFolder;
  return typeof file === "string" ? file : null;
}

function notInForce(preflight: Preflight, name: string, what: string): Error {
  const origin = Object.entries(preflight.origins).find(
    ([key]) => key === name || key.startsWith(`${name}.`),
  );
  return fail(
    "failed",
    "codex-settings",
    `Codex cannot be started in this thread: ${name} is set by ${fileOf(origin?.[1]) ?? "another layer"}, and ${what}`,
    `take ${name} out there`,
  );
}

function preflightError(what: string): Error {
  return fail(
    "failed",
    "codex-preflight",
    `Codex does not say which hooks it would run: ${what}`,
    "codex doctor",
  );
}

function isOurs(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "codex-preflight";
}
