/** The versions of jj and git kiki was measured with, and what to do when the machine's are older. */
import { fail, KikiError } from "../../core/errors.ts";
import { isAtLeast, requirement, versionIn } from "../../core/tool-versions.ts";
import { firstLine, run } from "../exec.ts";

const VERSION_TIMEOUT_MS = 10_000;

/** Throws KikiError `jj-missing`, `jj-too-old`, `git-missing` or `git-too-old`, each with its remedy. */
export async function checkVersions(
  env: Record<string, string>,
): Promise<{ jj: string; git: string }> {
  const jj = await installed("jj", env);
  const { minimum: minJj, fix: fixJj } = requirement("jj");
  if (!isAtLeast(jj, minJj)) {
    throw fail("failed", "jj-too-old", `jj ${jj} is too old: kiki needs ${minJj} or newer`, fixJj);
  }
  const git = await installed("git", env);
  const { minimum: minGit, fix: fixGit } = requirement("git");
  if (!isAtLeast(git, minGit)) {
    throw fail(
      "failed",
      "git-too-old",
      `git ${git} is too old: jj ${jj} needs ${minGit} or newer`,
      fixGit,
    );
  }
  return { jj, git };
}

async function installed(name: "jj" | "git", env: Record<string, string>): Promise<string> {
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
    throw fail("failed", `${name}-missing`, `${name} is not on PATH`, requirement(name).fix);
  }
  // "jj 0.46.0-<commit>", "git version 2.39.5 (Apple Git-154)"
  const version = versionIn(output);
  if (version !== null) return version;
  throw fail(
    "failed",
    `${name}-missing`,
    `${name} --version says ${JSON.stringify(firstLine(output))}, which is no version`,
    `check which ${name} comes first on PATH`,
  );
}
