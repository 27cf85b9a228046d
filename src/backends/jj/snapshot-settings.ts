/**
 * The settings that decide what jj (0.46) would record of a folder. The probe answers only for the values it was
 * checked against; with any other it says so instead of guessing.
 */
import { realpathSync } from "node:fs";
import { run } from "../exec.ts";
import { FIXED } from "./cli.ts";
import { readConfigFiles, type ConfigFiles } from "./config-files.ts";
import type { JjContext } from "./context.ts";
import { jjError } from "./errors.ts";

export interface SnapshotSettings {
  /** Larger untracked files stay untracked; bytes. */
  maxNewFileBytes: number;
}

type Answer = SnapshotSettings | { unproved: string };

/** Setting → values under which the probe has been compared with jj's own answer. */
const PROVED: Record<string, readonly string[]> = {
  "snapshot.auto-track": ["all()"],
  "working-copy.eol-conversion": ["none"],
  "working-copy.exec-bit-change": ["auto", "respect"],
};
const MAX_NEW_FILE = "snapshot.max-new-file-size";

const UNITS: Record<string, number> = {
  "": 1,
  b: 1,
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
  t: 1024 ** 4,
};

/** Workspaces whose answer is kept in memory. */
const MAX_KEPT = 200;

/**
 * Asks jj, and keeps its answer for as long as every file it comes from is what it was, by content and by stat: a probe
 * is made several times at one boundary, and a jj process costs more than all the rest of it.
 */
export class SettingsReader {
  readonly #ctx: JjContext;
  readonly #kept = new Map<string, { files: string; answer: Answer }>();

  constructor(ctx: JjContext) {
    this.#ctx = ctx;
  }

  /** The settings in force for a workspace, or the reason why the probe cannot answer. Reads configuration only. */
  async read(workspaceRoot: string): Promise<Answer> {
    const before = readConfigFiles(this.#ctx, workspaceRoot);
    const kept = this.#kept.get(workspaceRoot);
    if (kept !== undefined && before !== null && kept.files === before.state) return kept.answer;
    this.#kept.delete(workspaceRoot);
    const { answer, from } = await askJj(this.#ctx, workspaceRoot);
    if (before !== null && from !== null && this.#comesFrom(from, before, workspaceRoot)) {
      if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
      this.#kept.set(workspaceRoot, { files: before.state, answer });
    }
    return answer;
  }

  /** jj read nothing but these files, and read them as they were before and are now. */
  #comesFrom(from: ReadonlySet<string>, before: ConfigFiles, workspaceRoot: string): boolean {
    const known = [...from].every((path) => before.paths.has(resolved(path)));
    return known && readConfigFiles(this.#ctx, workspaceRoot)?.state === before.state;
  }
}

function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** jj's own answer, and the files that any setting comes from; null when jj failed, which may be otherwise next time. */
async function askJj(
  ctx: JjContext,
  workspaceRoot: string,
): Promise<{ answer: Answer; from: Set<string> | null }> {
  const result = await run({
    argv: [
      "jj",
      ...FIXED,
      "--ignore-working-copy",
      "-R",
      workspaceRoot,
      "config",
      "list",
      "--include-defaults",
      "--include-overridden",
      "-T",
      'name ++ "\\t" ++ json(overridden) ++ "\\t" ++ json(if(path, path, "")) ++ "\\t" ++ json(value) ++ "\\n"',
    ],
    cwd: workspaceRoot,
    env: ctx.env,
    timeoutMs: ctx.limits.readTimeoutMs,
  });
  if (result.code !== 0)
    return { answer: { unproved: jjError("read its settings", result).message }, from: null };
  const from = new Set<string>();
  const settings = new Map<string, unknown>();
  for (const line of result.stdout.toString("utf8").split("\n")) {
    const [name = "", overridden, path, ...value] = line.split("\t");
    if (path === undefined) continue;
    if (path !== '""') from.add(JSON.parse(path) as string);
    if (overridden === "false" && (name in PROVED || name === MAX_NEW_FILE))
      settings.set(name, JSON.parse(value.join("\t")));
  }
  return { answer: judge(settings), from };
}

function judge(settings: ReadonlyMap<string, unknown>): Answer {
  for (const [name, proved] of Object.entries(PROVED)) {
    const value = settings.get(name);
    if (!proved.includes(String(value))) {
      return { unproved: `the setting ${name} = ${JSON.stringify(value)}` };
    }
  }
  const bytes = byteSize(settings.get(MAX_NEW_FILE));
  if (bytes === null) return { unproved: `the setting ${MAX_NEW_FILE}` };
  return { maxNewFileBytes: bytes };
}

/** jj's sizes: a number of bytes or "1MiB", "10 KiB"; 0 is no limit. null for what is neither. */
export function byteSize(value: unknown): number | null {
  const match = /^(\d+)\s*(?:([kmgt])i?)?b?$/i.exec(String(value).trim());
  if (match === null) return null;
  const bytes = Number(match[1]) * UNITS[(match[2] ?? "").toLowerCase()]!;
  return bytes === 0 ? Number.POSITIVE_INFINITY : bytes;
}
