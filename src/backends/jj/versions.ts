/** The versions of jj and git kiki was measured with, and what to do when the machine's are older. */
import { fail, KikiError } from "../../core/errors.ts";
import { firstLine, run } from "../exec.ts";

/** First release with everything used here, and the one tested (`--no-integrate-operation`, `--colocate`, …). */
export const MIN_JJ = "0.46.0";
/** jj 0.46 needs `git worktree add --orphan` and `git fetch --porcelain`. */
export const MIN_GIT = "2.42.0";

const VERSION_TIMEOUT_MS = 10_000;

/** Throws KikiError `jj-missing`, `jj-too-old`, `git-missing` or `git-too-old`, each with its remedy. */
export async function checkVersions(
  env: Record<string, string>,
): Promise<{ jj: string; git: string }> {
  const jj = await installed("jj", env, "https://docs.jj-vcs.dev/latest/install-and-setup/");
  if (isOlder(jj, MIN_JJ)) {
    throw fail(
      "failed",
      "jj-too-old",
      `jj ${jj} is too old: kiki needs ${MIN_JJ} or newer`,
      `upgrade jj to ${MIN_JJ}`,
    );
  }
  const git = await installed("git", env, "https://git-scm.com/downloads");
  if (isOlder(git, MIN_GIT)) {
    throw fail(
      "failed",
      "git-too-old",
      `git ${git} is too old: jj ${jj} needs ${MIN_GIT} or newer`,
      `upgrade git to ${MIN_GIT}`,
    );
  }
  return { jj, git };
}

/** True when `version` precedes `minimum`; both dotted numbers, missing parts are 0. */
export function isOlder(version: string, minimum: string): boolean {
  const have = version.split(".").map(Number);
  const want = minimum.split(".").map(Number);
  for (let at = 0; at < want.length; at += 1) {
    const difference = (have[at] ?? 0) - (want[at] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

async function installed(
  name: "jj" | "git",
  env: Record<string, string>,
  where: string,
): Promise<string> {
  let output: string;
  try {
    const result = await run({
      argv: [name, "--version"],
      cwd: "/",
      env,
      timeoutMs: VERSION_TIMEOUT_MS,
    });
    output = result.stdout.toString("utf8");
  } catch (error) {
    if (!(error instanceof KikiError) || error.code !== "command-missing") throw error;
    throw fail("failed", `${name}-missing`, `${name} is not on PATH`, `install ${name}: ${where}`);
  }
  // "jj 0.46.0-<commit>", "git version 2.39.5 (Apple Git-154)"
  const version = /(\d+\.\d+(?:\.\d+)?)/.exec(output)?.[1];
  if (version !== undefined) return version;
  throw fail(
    "failed",
    `${name}-missing`,
    `${name} --version says ${JSON.stringify(firstLine(output))}, which is no version`,
    `check which ${name} comes first on PATH`,
  );
}
