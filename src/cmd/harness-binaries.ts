/** Which program each harness is, looked up on the person's PATH: the daemon's may be another. */
import { resolve } from "node:path";

export const HARNESS_BINARIES: Readonly<Record<string, string>> = {
  "claude-code": "claude",
  codex: "codex",
};

/** The harness of `kk new` without `--harness`. */
export const DEFAULT_HARNESS = "claude-code";

/** Absolute path, or null when it is not on PATH. Links are kept: a harness may look at the name it is called by. */
export function findHarness(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): string | null {
  const binary = HARNESS_BINARIES[name];
  if (binary === undefined) return null;
  const found = Bun.which(binary, { PATH: env["PATH"] ?? "" });
  return found === null ? null : resolve(found);
}
