/** The stand-in `codex` in a home of its own, with a hook on every event that a test can make say anything. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  EVENT_LABELS,
  hookHash,
  hookKey,
  type HookEvent,
} from "../../fixtures/agents/codex-cli/hook-hash.ts";
import { findRollout } from "../../fixtures/agents/codex-cli/rollout.ts";
import { processesMentioning } from "../../scripts/leftovers.ts";
import { removeTempDirs, tempDir } from "./temp.ts";
import { waitFor } from "./wait.ts";

export const CODEX_STANDIN = join(import.meta.dir, "../../fixtures/agents/codex");
const WAIT_MS = 10_000;
const LEFT_MS = 8_000;

export type Json = Record<string, unknown>;

/** Keeps the payload, then does what the rules say. */
const HOOK = `#!/bin/sh
payload=$(cat)
printf '%s\\n' "$payload" >> "$1/hooks.ndjson"
. "$1/rules"
`;

export interface HomeOptions {
  /** Further TOML, at the top. */
  top?: string;
  /** Further TOML, at the end. */
  end?: string;
  /** PreToolUse hooks instead of the one of all events. */
  preToolUse?: readonly { command: string; timeout?: number; matcher?: string }[];
  trustFolder?: boolean;
  trustHooks?: boolean;
  needsLogin?: boolean;
}

function readLines(path: string): Json[] {
  if (!existsSync(path)) return [];
  const complete = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return complete.map((line) => JSON.parse(line) as Json);
}

export class CodexWorld {
  readonly home: string;
  readonly project: string;
  readonly log: string;
  readonly config: string;
  readonly #hook: string;
  readonly dir: string;

  constructor(dir: string, options: HomeOptions = {}) {
    this.dir = dir;
    this.home = join(dir, "codex-home");
    this.project = join(dir, "project");
    this.log = join(dir, "events.ndjson");
    this.config = join(this.home, "config.toml");
    this.#hook = join(dir, "hook");
    for (const folder of [this.home, this.project, join(dir, "person"), join(dir, "etc")]) {
      mkdirSync(folder, { recursive: true });
    }
    writeFileSync(this.#hook, HOOK);
    chmodSync(this.#hook, 0o755);
    this.rules("");
    this.configure(options);
  }

  /** Shell that runs in every hook with $payload; may print a verdict and exit. */
  rules(...shell: string[]): void {
    writeFileSync(join(this.dir, "rules"), `${shell.join("\n")}\n`);
  }

  /** A rule: when the payload is of `event` and contains `text`, run `shell`. */
  when(event: string, text: string, shell: string): string {
    return `case $payload in *'"hook_event_name":"${event}"'*'${text}'*) ${shell};; esac`;
  }

  configure(options: HomeOptions = {}): void {
    const events = Object.keys(EVENT_LABELS) as HookEvent[];
    const hooks = events.flatMap((event) => {
      const own = event === "PreToolUse" ? options.preToolUse : undefined;
      const declared = own ?? [{ command: `'${this.#hook}' '${this.dir}'` }];
      return declared.flatMap((hook, group) => [
        `[[hooks.${event}]]`,
        ...("matcher" in hook ? [`matcher = ${JSON.stringify(hook.matcher)}`] : []),
        `[[hooks.${event}.hooks]]`,
        `type = "command"`,
        `command = ${JSON.stringify(hook.command)}`,
        ...("timeout" in hook ? [`timeout = ${hook.timeout}`] : []),
        ...(options.trustHooks === false
          ? []
          : [
              `[hooks.state.${JSON.stringify(hookKey(this.config, event, group, 0))}]`,
              `trusted_hash = "${hookHash(event, hook)}"`,
            ]),
      ]);
    });
    const lines = [
      `model = "gpt-6.2-sol"`,
      `model_provider = "scripted"`,
      `approval_policy = "never"`,
      `sandbox_mode = "danger-full-access"`,
      options.top ?? "",
      `[model_providers.scripted]`,
      `name = "scripted"`,
      `requires_openai_auth = ${options.needsLogin === true}`,
      ...(options.trustFolder === false
        ? []
        : [`[projects.${JSON.stringify(this.project)}]`, `trust_level = "trusted"`]),
      ...hooks,
      options.end ?? "",
    ];
    writeFileSync(this.config, `${lines.join("\n")}\n`);
  }

  /** The prompt that chooses a scenario of these responses. */
  scenario(responses: unknown[], more: Json = {}): string {
    const path = join(this.dir, "scenario.json");
    writeFileSync(path, JSON.stringify({ log: this.log, responses, ...more }));
    return `SCENARIO:${path}`;
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "",
      HOME: join(this.dir, "person"),
      CODEX_HOME: this.home,
      KIKI_CODEX_ETC: join(this.dir, "etc"),
    };
  }

  start(args: readonly string[], stdin: "pipe" | "ignore" = "ignore") {
    return Bun.spawn([CODEX_STANDIN, ...args], {
      cwd: this.project,
      env: this.env,
      stdin,
      stdout: "pipe",
      stderr: "pipe",
    });
  }

  /** One run to its end. */
  async run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    const child = this.start(args);
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { code, out, err: err.trim() };
  }

  /** A session over pipes: every line written is typed; SIGUSR1 is Esc. */
  interactive(...args: string[]) {
    const child = this.start(args, "pipe");
    const { stdin } = child;
    if (stdin === undefined) throw new Error("no stdin");
    return {
      escape: () => child.kill("SIGUSR1"),
      type(text: string): void {
        void stdin.write(`${text}\n`);
        void stdin.flush();
      },
      ended: () => child.exited,
    };
  }

  /** One answer of `codex app-server`. */
  async hooksList(...args: string[]): Promise<Json> {
    const child = this.start(["app-server", ...args], "pipe");
    const messages = [
      { id: 1, method: "initialize", params: { clientInfo: { name: "t", version: "0" } } },
      { method: "initialized" },
      { id: 2, method: "hooks/list", params: { cwds: [this.project] } },
    ];
    void child.stdin?.write(messages.map((message) => `${JSON.stringify(message)}\n`).join(""));
    void child.stdin?.end();
    const lines = (await new Response(child.stdout).text()).trim().split("\n");
    return JSON.parse(lines[1] ?? "{}") as Json;
  }

  /** Hooks as `hooks/list` tells of them. */
  async listed(...args: string[]): Promise<Json[]> {
    const { result } = (await this.hooksList(...args)) as { result: { data: { hooks: Json[] }[] } };
    return result.data[0]?.hooks ?? [];
  }

  get hooks(): Json[] {
    return readLines(join(this.dir, "hooks.ndjson"));
  }

  ofEvent(event: string): Json[] {
    return this.hooks.filter((hook) => hook["hook_event_name"] === event);
  }

  ofKind(kind: string): Json[] {
    return readLines(this.log).filter((event) => event["kind"] === kind);
  }

  /** What the model got for a call. */
  result(id: string): string | undefined {
    return this.ofKind("result").find((event) => event["tool_use_id"] === id)?.["result"] as
      | string
      | undefined;
  }

  get rollout(): Json[] {
    const path = findRollout(this.home, undefined);
    return path === undefined ? [] : readLines(path);
  }

  seen(what: string, look: () => boolean): Promise<unknown> {
    return waitFor(look, WAIT_MS, what);
  }
}

const made: string[] = [];

/** A world in a temporary folder. */
export function codexWorld(options: HomeOptions = {}): CodexWorld {
  const dir = tempDir("codex");
  made.push(dir);
  return new CodexWorld(dir, options);
}

/** Waits until no process of a world is left, and removes them all. */
export async function removeCodexWorlds(): Promise<void> {
  const left = () => made.flatMap((dir) => processesMentioning(dir));
  await waitFor(
    () => left().length === 0,
    LEFT_MS,
    () => JSON.stringify(left()),
  );
  removeTempDirs();
}

/** Blocks of a scenario. */
export const say = (text: string) => ({ type: "text", text });
export const use = (id: string, name: string, input: Json, more: Json = {}) => ({
  type: "tool_use",
  id,
  name,
  input,
  ...more,
});
export const exec = (id: string, cmd: string, more: Json = {}) =>
  use(id, "exec_command", { cmd, ...more });
export const patch = (id: string, ...lines: string[]) =>
  use(id, "apply_patch", { patch: ["*** Begin Patch", ...lines, "*** End Patch"].join("\n") });
/** The refusal in the form kiki uses. */
export const deny = (reason: string): string =>
  JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: reason,
    },
  });
