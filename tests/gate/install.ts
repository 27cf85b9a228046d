/**
 * The real harness binaries the gate runs, at the exact versions kiki claims to be proved with. They live in
 * `.tools/harness` with a package.json of their own: the product never depends on them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../scripts/packages.ts";

export const CLAUDE_VERSION = "2.1.332";
const CLAUDE_PACKAGE = "@anthropic-ai/claude-code";

const FOLDER = join(ROOT, ".tools/harness");
/** Folder to put on PATH: it holds `claude` and nothing that shadows a system command. */
export const HARNESS_BIN = join(FOLDER, "node_modules/.bin");
export const CLAUDE = join(HARNESS_BIN, "claude");

const MANIFEST = `${JSON.stringify(
  {
    private: true,
    dependencies: { [CLAUDE_PACKAGE]: CLAUDE_VERSION },
    // Its install script puts the platform's executable in place; nothing else may run one.
    allowScripts: { [CLAUDE_PACKAGE]: true },
  },
  null,
  2,
)}\n`;

/** A cold executable of several hundred megabytes on a busy machine. */
const VERSION_TIMEOUT_MS = 30_000;

/** What `--version` prints, null when it does not run. */
function claudeVersion(): string | null {
  if (!existsSync(CLAUDE)) return null;
  const result = Bun.spawnSync([CLAUDE, "--version"], {
    cwd: "/",
    env: { PATH: "/usr/bin:/bin", HOME: "/nonexistent" },
    stdin: "ignore",
    timeout: VERSION_TIMEOUT_MS,
  });
  return /^(\d+\.\d+\.\d+\S*)/.exec(result.stdout.toString())?.[1] ?? null;
}

function manifestIsOurs(): boolean {
  const file = join(FOLDER, "package.json");
  return existsSync(file) && readFileSync(file, "utf8") === MANIFEST;
}

/**
 * Makes sure that `.tools/harness` holds exactly the pinned Claude Code; does nothing when it does. Throws with npm's
 * last words when it cannot be had, or when the binary says another version.
 */
export async function installClaude(note: (line: string) => void): Promise<void> {
  if (manifestIsOurs() && claudeVersion() === CLAUDE_VERSION) return;
  note(`installing ${CLAUDE_PACKAGE} ${CLAUDE_VERSION} into .tools/harness`);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), MANIFEST);
  const npm = Bun.spawn(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: FOLDER,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [code, err] = await Promise.all([npm.exited, npm.stderr.text(), npm.stdout.text()]);
  if (code !== 0) {
    throw new Error(`npm could not install ${CLAUDE_PACKAGE} ${CLAUDE_VERSION}:\n${err.trim()}`);
  }
  const version = claudeVersion();
  if (version !== CLAUDE_VERSION) {
    throw new Error(`${CLAUDE} says version ${version ?? "nothing"}, not ${CLAUDE_VERSION}`);
  }
}
