/**
 * Configuration as the daemon has it: files are looked at on every use and read when they changed, and what cannot be
 * read any more stays as it was.
 */
import { readEnvironment } from "../core/config/environment.ts";
import {
  emptyLayer,
  readDocument,
  readValues,
  unreadableLayer,
  type Entries,
  type LayerRead,
  type Problem,
} from "../core/config/layer.ts";
import { findKey } from "../core/config/lookup.ts";
import { effective, keepLastGood, type Effective } from "../core/config/merge.ts";
import { problemLine } from "../core/config/problem.ts";
import type { Layer, ReadBy } from "../core/config/spec.ts";
import { repoPaths, sharedConfig, statePaths } from "../core/paths.ts";
import type { CascadeSettings } from "../cascade/deps.ts";
import type { CreationSettings } from "../lifecycle/creation-deps.ts";
import type { Log } from "../ports/log.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A configuration is a page; anything much larger is something else. */
const MAX_CONFIG_BYTES = 256 * 1024;

/** Where configuration is asked for. `thread`: the values of its rows. */
export interface Place {
  repo: { repoId: string; repoRoot: string } | null;
  thread?: Readonly<Record<string, unknown>> | null;
}

export interface ConfigFile {
  layer: Layer;
  path: string;
}

/** `same`: it has the version `known`. `why` completes "it …". */
export type VersionedRead =
  | { is: "absent" | "same" }
  | { is: "read"; bytes: Uint8Array; version: string | null }
  | { is: "unusable"; why: string };

export interface ConfigDeps {
  stateDir: string;
  /** A file, unless it is still as `known`. Never throws. */
  readVersioned(path: string, known: string | null, maxBytes: number): VersionedRead;
  /** The daemon's own. */
  env: Env;
  /** The person's home, for `~/`. */
  home: string | null;
  log: () => Pick<Log, "info" | "warn">;
}

interface Known {
  version: string | null;
  /** null: there was nothing to read. */
  bytes: Uint8Array | null;
  read: LayerRead;
  present: boolean;
}

export class Config {
  readonly #deps: ConfigDeps;
  readonly #known = new Map<string, Known>();
  readonly #daemonEnv: LayerRead;

  constructor(deps: ConfigDeps) {
    this.#deps = deps;
    this.#daemonEnv = readEnvironment(deps.env);
  }

  /** What counts at a place. With the caller's environment, for a command; without, for the daemon's own work. */
  at(place: Place, callerEnv?: Env): Effective {
    const files = this.files(place).map(({ layer, path }) => this.#file(layer, path).read);
    const thread = place.thread == null ? [] : [readValues("thread", place.thread)];
    const env = callerEnv === undefined ? this.#daemonEnv : this.#envFor(callerEnv);
    return effective([...files, ...thread, env]);
  }

  /** Lowest first, there or not. */
  files({ repo }: Place): ConfigFile[] {
    const { stateDir } = this.#deps;
    const user: ConfigFile = { layer: "user", path: statePaths(stateDir).config };
    if (repo === null) return [user];
    return [
      { layer: "repo-shared", path: sharedConfig(repo.repoRoot) },
      user,
      { layer: "repo-local", path: repoPaths(stateDir, repo.repoId).config },
    ];
  }

  isPresent({ layer, path }: ConfigFile): boolean {
    return this.#file(layer, path).present;
  }

  /** What a creation reads. */
  creation(repo: Place["repo"]): CreationSettings {
    const now = this.at({ repo });
    const recipe = (["setup.copy", "setup.run"] as const).map(
      (key) => now.setting(key)?.source.layer,
    );
    const root = now.optional("paths.workspaces_root");
    return {
      setup: {
        copy: now.value("setup.copy"),
        run: now.value("setup.run"),
        timeoutS: now.value("setup.timeout_s"),
        // The repository's own recipe is the one a person has not written: named wherever a part of it is its.
        source: recipe.find((layer) => layer === "repo-shared") ?? highest(recipe),
      },
      workspacesRoot: root === null ? null : this.#expanded(root),
      briefing: now.value("agent.briefing"),
      agentEnv: now.map("agent.env.<NAME>"),
      codex: { boundary: now.value("agent.codex.boundary"), auth: now.value("agent.codex.auth") },
      claudeCode: { pretrust: now.value("agent.claude-code.pretrust") },
      shellPane: {
        wanted: now.value("ui.shell_pane"),
        position: now.value("ui.shell_pane_position"),
        sizePercent: now.value("ui.shell_pane_size_pct"),
        minRows: now.value("ui.shell_pane_min_rows"),
      },
    };
  }

  /** The arguments of a harness nobody gave any. */
  harnessArgs(repo: Place["repo"], harness: string): string[] {
    return this.at({ repo }).map("agent.harness_args.<name>")[harness] ?? [];
  }

  /** `base` with what can be configured of it, read anew at each use. */
  cascade(repo: Place["repo"], base: CascadeSettings): CascadeSettings {
    const seconds = (key: "cascade.hold_s" | "cascade.drain_s"): number =>
      this.at({ repo }).value(key) * 1000;
    return Object.defineProperties(
      { ...base },
      {
        holdMs: { get: () => seconds("cascade.hold_s") },
        snapshot: { get: () => this.at({ repo }).value("cascade.snapshot") },
        drainMs: { get: () => seconds("cascade.drain_s") },
        attempts: { get: () => this.at({ repo }).value("cascade.attempts") },
      },
    );
  }

  #file(layer: Layer, path: string): Known {
    const before = this.#known.get(path);
    const seen = this.#deps.readVersioned(path, before?.version ?? null, MAX_CONFIG_BYTES);
    if (before !== undefined && isSame(before, seen)) return before;
    const now = keepLastGood(before?.read ?? null, layerFrom(layer, path, seen));
    const known: Known = {
      version: seen.is === "read" ? seen.version : null,
      bytes: seen.is === "read" ? seen.bytes : null,
      read: now,
      present: seen.is !== "absent",
    };
    this.#known.set(path, known);
    this.#report(path, before?.read.problems ?? [], now.problems);
    return known;
  }

  /** Once for each change, not for each use. */
  #report(path: string, before: readonly Problem[], now: readonly Problem[]): void {
    const lines = now.map(problemLine);
    if (lines.join("\n") === before.map(problemLine).join("\n")) return;
    const log = this.#deps.log();
    for (const line of lines) log.warn(`configuration: ${line}`);
    if (lines.length === 0) log.info(`configuration: ${path} is in order again`);
  }

  /** Each key from the environment of whoever reads it. */
  #envFor(callerEnv: Env): LayerRead {
    const caller = readEnvironment(callerEnv);
    const entries = new Map([
      ...readersOnly(this.#daemonEnv.entries, "daemon"),
      ...readersOnly(caller.entries, "command"),
    ]);
    const ignored = [...readersOnly(caller.entries, "daemon")].flatMap(
      ([key, entry]): Problem[] => {
        const daemons = this.#daemonEnv.entries.get(key);
        if (JSON.stringify(daemons?.value) === JSON.stringify(entry.value)) return [];
        const how = daemons === undefined ? "without it" : "with another value";
        const message =
          `${entry.source.variable} is set in this shell, but the daemon, which reads it, was started ${how}; ` +
          "kk daemon restart takes it over";
        return [{ ...entry.source, severity: "warning", key, message }];
      },
    );
    const said = new Set(caller.problems.map((problem) => problem.variable));
    const daemons = this.#daemonEnv.problems.filter((problem) => !said.has(problem.variable));
    return { ...caller, entries, problems: [...daemons, ...caller.problems, ...ignored] };
  }

  #expanded(path: string): string {
    const { home } = this.#deps;
    const full = path.startsWith("~/") && home !== null ? `${home}${path.slice(1)}` : path;
    return full.replace(/(?<=.)\/+$/, "");
  }
}

/** A file that was just changed is read on every use for a while, but not parsed each time. */
function isSame(before: Known, seen: VersionedRead): boolean {
  if (seen.is === "same") return true;
  if (seen.is !== "read" || before.bytes === null) return false;
  if (Buffer.compare(before.bytes, seen.bytes) !== 0) return false;
  before.version = seen.version;
  return true;
}

function layerFrom(layer: Layer, path: string, seen: VersionedRead): LayerRead {
  switch (seen.is) {
    case "read":
      return readDocument(layer, path, seen.bytes);
    case "unusable":
      return unreadableLayer(layer, path, `it ${seen.why}`);
    case "absent":
    case "same":
      return emptyLayer(layer);
  }
}

function readersOnly(entries: Entries, readBy: ReadBy): Entries {
  return new Map(
    [...entries].filter(([key]) => {
      const found = findKey(key.split("."));
      return found.is === "key" && found.spec.readBy === readBy;
    }),
  );
}

function highest(layers: readonly (Layer | undefined)[]): string {
  return layers.find((layer) => layer !== undefined && layer !== "default") ?? "default";
}
