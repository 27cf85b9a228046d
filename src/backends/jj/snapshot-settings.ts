/**
 * The settings that decide what jj (0.46) would record of a folder. The probe answers only for the values it was
 * checked against; with any other it says so instead of guessing.
 */
import { run } from "../exec.ts";
import { FIXED } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { jjError } from "./errors.ts";

export interface SnapshotSettings {
  /** Larger untracked files stay untracked; bytes. */
  maxNewFileBytes: number;
}

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

/** The settings in force for a workspace, or the reason why the probe cannot answer. Reads configuration only. */
export async function snapshotSettings(
  ctx: JjContext,
  workspaceRoot: string,
): Promise<SnapshotSettings | { unproved: string }> {
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
      "-T",
      'name ++ "\\t" ++ json(value) ++ "\\n"',
    ],
    cwd: workspaceRoot,
    env: ctx.env,
    timeoutMs: ctx.limits.readTimeoutMs,
  });
  if (result.code !== 0) return { unproved: jjError("read its settings", result).message };
  const settings = new Map<string, unknown>();
  for (const line of result.stdout.toString("utf8").split("\n")) {
    const tab = line.indexOf("\t");
    const name = line.slice(0, tab);
    if (name in PROVED || name === MAX_NEW_FILE)
      settings.set(name, JSON.parse(line.slice(tab + 1)));
  }
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
