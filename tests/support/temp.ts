/** Temporary folders and a hermetic environment for tests that run real tools. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const made = new Set<string>();

// For scripts. Under `bun test` (1.4.5) exit handlers do not run: a test file says `afterAll(removeTempDirs)`.
process.on("exit", removeTempDirs);

/** A fresh folder, absolute and without symlinks in its path. Removed by `removeTempDirs`. */
export function tempDir(label = ""): string {
  const dir = mkdtempSync(
    join(realpathSync(tmpdir()), `kiki-test-${label === "" ? "" : `${label}-`}`),
  );
  made.add(dir);
  return dir;
}

/** Removes every folder `tempDir` made in this process. A test file that uses `tempDir` says `afterAll(removeTempDirs)`. */
export function removeTempDirs(): void {
  for (const dir of made) {
    rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    made.delete(dir);
  }
}

/**
 * Environment in which jj, git and kiki see nothing of the machine's user: home, jj configuration and git
 * configuration all lie in `dir`. The tools of `.tools/bin`, where present, come first on PATH.
 */
export function hermeticEnv(dir: string): Record<string, string> {
  const home = join(dir, "home");
  const jjConfig = join(dir, "jj.toml");
  const gitConfig = join(dir, "gitconfig");
  mkdirSync(home, { recursive: true });
  if (!existsSync(jjConfig)) {
    writeFileSync(jjConfig, '[user]\nname = "Test Person"\nemail = "person@example.com"\n');
  }
  if (!existsSync(gitConfig)) {
    writeFileSync(
      gitConfig,
      "[user]\n\tname = Test Person\n\temail = person@example.com\n[init]\n\tdefaultBranch = main\n",
    );
  }
  const tools = [join(ROOT, ".tools/bin")].filter((folder) => existsSync(folder));
  return {
    PATH: [...tools, process.env["PATH"] ?? "/usr/bin:/bin"].join(":"),
    HOME: home,
    USER: "tester",
    LOGNAME: "tester",
    SHELL: "/bin/sh",
    LANG: "C.UTF-8",
    TZ: "UTC",
    TMPDIR: dir,
    XDG_CONFIG_HOME: join(home, ".config"),
    XDG_CACHE_HOME: join(home, ".cache"),
    JJ_CONFIG: jjConfig,
    GIT_CONFIG_GLOBAL: gitConfig,
    GIT_CONFIG_NOSYSTEM: "1",
  };
}
