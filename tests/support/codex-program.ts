/**
 * Stands where the native `codex` stands while kiki prepares a launch: `--version`, `debug models --bundled` and the
 * `app-server` requests of the preflight, answered from the same files as the real one (0.171.0). Started by a script
 * that `codexProgram` writes. It knows no dialogs and runs no agent.
 *
 * bun codex-program.ts <version line> <codex arguments…>
 */
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, type TomlTable } from "smol-toml";
import {
  EVENT_LABELS,
  hookHash,
  hookKey,
  type DeclaredHook,
  type HookEvent,
} from "../../fixtures/agents/codex-cli/hook-hash.ts";

type Json = Record<string, unknown>;

/** Writes an executable at `path` that is Codex as far as a preflight goes, and prints `says` for its version. */
export function codexProgram(path: string, says: string): string {
  const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
  const words = [process.execPath, import.meta.path, says].map(quote).join(" ");
  writeFileSync(path, `#!/bin/sh\nexec ${words} "$@"\n`);
  chmodSync(path, 0o755);
  return path;
}

function fileTable(path: string): TomlTable {
  if (!existsSync(path)) return {};
  const text = readFileSync(path, "utf8");
  return path.endsWith(".json") ? (JSON.parse(text) as TomlTable) : parse(text);
}

function merged(under: Json, over: Json): Json {
  const result = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const old = result[key];
    result[key] = isTable(old) && isTable(value) ? merged(old, value) : value;
  }
  return result;
}

function isTable(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `-c key=value` and `--enable name` as one table. */
function flags(args: readonly string[]): Json {
  let table: Json = {};
  for (const [i, word] of args.entries()) {
    const next = args[i + 1] ?? "";
    const setting = word === "-c" ? next : word === "--enable" ? `features.${next}=true` : null;
    if (setting === null) continue;
    try {
      table = merged(table, parse(setting));
    } catch {
      const at = setting.indexOf("=");
      table = merged(
        table,
        parse(`${setting.slice(0, at)}=${JSON.stringify(setting.slice(at + 1))}`),
      );
    }
  }
  return table;
}

const home = process.env["CODEX_HOME"] ?? "";

function hooksOf(file: string, source: string, enabled: boolean, state: Json): Json[] {
  const { hooks } = fileTable(file) as { hooks?: Json };
  if (!enabled || hooks === undefined) return [];
  return Object.keys(EVENT_LABELS).flatMap((event) =>
    ((hooks[event] ?? []) as { matcher?: string; hooks: DeclaredHook[] }[]).flatMap((group, g) =>
      group.hooks.map((hook, h) => {
        const name = event as HookEvent;
        const key = hookKey(file, name, g, h);
        const short = name === "Interrupt" || name === "SessionEnd";
        const timeout = Math.min(hook.timeout ?? (short ? 1 : 600), short ? 3 : Infinity);
        const currentHash = hookHash(name, { ...hook, timeout, ...group });
        const known = state[key] as { enabled?: boolean; trusted_hash?: string } | undefined;
        const trusted = known?.trusted_hash === currentHash;
        return {
          key,
          eventName: event.charAt(0).toLowerCase() + event.slice(1),
          command: hook.command,
          timeoutSec: timeout,
          sourcePath: file,
          source,
          enabled: known?.enabled ?? true,
          isManaged: false,
          currentHash,
          trustStatus: trusted ? "trusted" : known?.trusted_hash ? "modified" : "untrusted",
        };
      }),
    ),
  );
}

function answer(method: string, params: Json, args: readonly string[]): unknown {
  if (method === "initialize") return { userAgent: "stand-in", codexHome: home };
  const workspace = (params["cwd"] as string | undefined) ?? (params["cwds"] as [string])[0];
  const own = join(home, "config.toml");
  const project = join(workspace, ".codex/config.toml");
  const user = fileTable(own);
  const projectConfig = fileTable(project);
  const config = [user, projectConfig, flags(args)].reduce<Json>(merged, {});
  if (method === "config/read") {
    const theirs = (projectConfig["features"] ?? {}) as Json;
    const pinned = (flags(args)["features"] ?? {}) as Json;
    const origins: Json = {};
    for (const name of Object.keys(theirs)) {
      if (name in pinned) continue;
      const layer = { type: "project", dotCodexFolder: join(workspace, ".codex") };
      origins[`features.${name}`] = { name: layer };
    }
    return { config, origins };
  }
  const state = ((user["hooks"] as Json | undefined)?.["state"] ?? {}) as Json;
  const on = (config["features"] as Json | undefined)?.["hooks"] !== false;
  const hooks = [
    ...hooksOf(own, "user", on, state),
    ...hooksOf(join(workspace, ".codex/hooks.json"), "project", on, state),
    ...hooksOf(project, "project", on, state),
  ];
  return { data: [{ cwd: workspace, hooks, warnings: [], errors: [] }] };
}

if (import.meta.main) {
  const [says = "", command, ...args] = process.argv.slice(2);
  if (command === "--version") console.log(says);
  else if (command === "debug")
    console.log(
      readFileSync(join(import.meta.dir, "../../fixtures/hooks/codex/0.171.0/models.json"), "utf8"),
    );
  else if (command === "app-server") {
    for await (const line of console) {
      const { id, method, params } = JSON.parse(line) as {
        id?: number;
        method: string;
        params?: Json;
      };
      if (id !== undefined)
        console.log(JSON.stringify({ id, result: answer(method, params ?? {}, args) }));
    }
  } else process.exit(1);
}
