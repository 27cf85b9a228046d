/** The one setting of jj's (0.46) that lets a command of anybody change files kiki counts on. */
import { run } from "../exec.ts";
import { jjError } from "./errors.ts";

const SETTING = "snapshot.auto-update-stale";

/** As `JjBackend.autoUpdateStale`; reads configuration only. Without kiki's own settings: what an agent's jj goes by. */
export async function autoUpdateStale(
  env: Record<string, string>,
  folder: string,
  timeoutMs: number,
): Promise<string | null> {
  const result = await run({
    argv: [
      "jj",
      "--no-pager",
      "--color=never",
      "--ignore-working-copy",
      "-R",
      folder,
      "config",
      "list",
      SETTING,
      "-T",
      'json(value) ++ "\\t" ++ if(path, path, "") ++ "\\n"',
    ],
    cwd: folder,
    env,
    timeoutMs,
  });
  if (result.code !== 0) throw jjError("read its settings", result);
  const [value, path = ""] = result.stdout.toString("utf8").trimEnd().split("\t");
  return value === "true" ? path : null;
}
