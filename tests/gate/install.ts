/**
 * The real harness binaries the gate runs, at the exact versions kiki claims to be proved with. They live in
 * `.tools/harness` with a package.json of their own: the product never depends on them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../scripts/packages.ts";

interface Pinned {
  package: string;
  version: string;
  /** Absolute path of the executable. */
  executable: string;
  /** Takes the version out of what `--version` prints. */
  says: RegExp;
}

const FOLDER = join(ROOT, ".tools/harness");
/** Folder to put on PATH: it holds `claude` and `codex` and nothing that shadows a system command. */
export const HARNESS_BIN = join(FOLDER, "node_modules/.bin");

export const CLAUDE_VERSION = "2.1.332";
export const CODEX_VERSION = "0.171.0";
export const CLAUDE = join(HARNESS_BIN, "claude");
export const CODEX = join(HARNESS_BIN, "codex");

const PINNED: readonly Pinned[] = [
  {
    package: "@anthropic-ai/claude-code",
    version: CLAUDE_VERSION,
    executable: CLAUDE,
    says: /^(\d+\.\d+\.\d+\S*)/,
  },
  {
    package: "@openai/codex",
    version: CODEX_VERSION,
    executable: CODEX,
    says: /^codex-cli (\d+\.\d+\.\d+\S*)/,
  },
];

const MANIFEST = `${JSON.stringify(
  {
    private: true,
    dependencies: Object.fromEntries(PINNED.map((p) => [p.package, p.version])),
    // Its install script puts the platform's executable in place; nothing else may run one.
    allowScripts: { "@anthropic-ai/claude-code": true },
  },
  null,
  2,
)}\n`;

/** A cold executable of several hundred megabytes on a busy machine. */
const VERSION_TIMEOUT_MS = 30_000;

/** What `--version` prints, null when it does not run. */
function versionOf(pinned: Pinned): string | null {
  if (!existsSync(pinned.executable)) return null;
  const result = Bun.spawnSync([pinned.executable, "--version"], {
    cwd: "/",
    // Codex's executable is a node script that starts the real one.
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: "/nonexistent" },
    stdin: "ignore",
    timeout: VERSION_TIMEOUT_MS,
  });
  return pinned.says.exec(result.stdout.toString())?.[1] ?? null;
}

function manifestIsOurs(): boolean {
  const file = join(FOLDER, "package.json");
  return existsSync(file) && readFileSync(file, "utf8") === MANIFEST;
}

/**
 * Makes sure that `.tools/harness` holds exactly the pinned harnesses; does nothing when it does. Throws with npm's
 * last words when one cannot be had, or when a binary says another version.
 */
export async function installHarnesses(note: (line: string) => void): Promise<void> {
  if (manifestIsOurs() && PINNED.every((p) => versionOf(p) === p.version)) return;
  const names = PINNED.map((p) => `${p.package} ${p.version}`).join(" and ");
  note(`installing ${names} into .tools/harness`);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), MANIFEST);
  const npm = Bun.spawn(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: FOLDER,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [code, err] = await Promise.all([npm.exited, npm.stderr.text(), npm.stdout.text()]);
  if (code !== 0) throw new Error(`npm could not install ${names}:\n${err.trim()}`);
  for (const pinned of PINNED) {
    const version = versionOf(pinned);
    if (version !== pinned.version) {
      throw new Error(
        `${pinned.executable} says version ${version ?? "nothing"}, not ${pinned.version}`,
      );
    }
  }
}
