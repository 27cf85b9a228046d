/** A `jj` (and other tools) in front of the real one that writes down every call, to count processes. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface CountedJj {
  /** The environment with the counting jj first on PATH. */
  env: Record<string, string>;
  /** Arguments of every call since the last `reset`, one line each; of another tool after its name. */
  calls(): string[];
  reset(): void;
}

/** `also`: tools besides jj. */
export function countedJj(
  dir: string,
  env: Record<string, string>,
  also: readonly string[] = [],
): CountedJj {
  const folder = join(dir, "counted");
  const log = join(folder, "calls");
  mkdirSync(folder, { recursive: true });
  for (const tool of ["jj", ...also]) {
    const real = Bun.which(tool, { PATH: env["PATH"] ?? "" });
    if (real === null) throw new Error(`no ${tool} on PATH`);
    const name = tool === "jj" ? "" : `${tool} `;
    writeFileSync(
      join(folder, tool),
      `#!/bin/sh\nprintf '%s\\n' "${name}$*" >> '${log}'\nexec '${real}' "$@"\n`,
    );
    chmodSync(join(folder, tool), 0o755);
  }
  const calls = (): string[] =>
    existsSync(log)
      ? readFileSync(log, "utf8")
          .split("\n")
          .filter((line) => line !== "")
      : [];
  return {
    env: { ...env, PATH: `${folder}:${env["PATH"] ?? ""}` },
    calls,
    reset: () => writeFileSync(log, ""),
  };
}
