/**
 * Platform packages for a build target: the runtime to embed and the watcher's native part.
 *
 * Those of this machine are in node_modules. npm refuses to install another platform's, so they
 * are packed from the registry into .tools/cross/ and checked against package-lock.json, which
 * lists every platform's integrity.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

export const ROOT: string = dirname(import.meta.dir);

export const TARGETS = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"] as const;
export type Target = (typeof TARGETS)[number];

export function isTarget(name: string): name is Target {
  return (TARGETS as readonly string[]).includes(name);
}

/** This machine's target, or an error naming the platform that has none. */
export function hostTarget(): Target {
  const host = `${process.platform}-${process.arch}`;
  if (!isTarget(host)) throw new Error(`kiki is not built for ${host}`);
  return host;
}

interface Locked {
  version: string;
  integrity: string;
}

function locked(name: string): Locked {
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, Partial<Locked>>;
  };
  const entry = lock.packages[`node_modules/${name}`];
  if (!entry?.version || !entry.integrity) throw new Error(`package-lock.json has no ${name}`);
  return { version: entry.version, integrity: entry.integrity };
}

function run(command: string[], cwd: string): string {
  const result = Bun.spawnSync(command, { cwd, stdout: "pipe", stderr: "pipe" });
  if (result.exitCode !== 0) {
    throw new Error(`${command.join(" ")} failed: ${result.stderr.toString().trim()}`);
  }
  return result.stdout.toString();
}

/** Unpacks name@version as locked into .tools/cross/, once; returns the package's folder. */
function fetchPackage(name: string): string {
  const { version, integrity } = locked(name);
  const home = join(ROOT, ".tools", "cross");
  const folder = join(home, `${name.replaceAll("/", "-").replace("@", "")}-${version}`);
  if (existsSync(folder)) return folder;

  mkdirSync(home, { recursive: true });
  const work = mkdtempSync(join(home, "work-"));
  try {
    run(["npm", "pack", `${name}@${version}`, "--silent", "--pack-destination", work], work);
    const tarball = [...new Bun.Glob("*.tgz").scanSync(work)][0];
    if (tarball === undefined) throw new Error(`npm pack ${name}@${version} left no file`);
    const bytes = readFileSync(join(work, tarball));
    const actual = `sha512-${new Bun.CryptoHasher("sha512").update(bytes).digest("base64")}`;
    if (actual !== integrity) {
      throw new Error(`${name}@${version} is not the one package-lock.json names: ${actual}`);
    }
    run(["tar", "-xzf", tarball], work);
    try {
      renameSync(join(work, "package"), folder);
    } catch (error) {
      // Another build was faster; its copy passed the same check.
      if (!existsSync(folder)) throw error;
    }
    return folder;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

export interface PlatformFiles {
  /** The bun executable that becomes the binary. */
  runtime: string;
  /** @parcel/watcher's .node file. */
  watcherNative: string;
}

export function platformFiles(target: Target): PlatformFiles {
  const watcher = `@parcel/watcher-${target}${target.startsWith("linux") ? "-glibc" : ""}`;
  if (target === hostTarget()) {
    const native = join(ROOT, "node_modules", watcher, "watcher.node");
    if (!existsSync(native)) throw new Error(`${watcher} is not installed; run: npm ci`);
    return { runtime: process.execPath, watcherNative: native };
  }
  const bun = `@oven/bun-${target.replace("arm64", "aarch64")}`;
  return {
    runtime: join(fetchPackage(bun), "bin", "bun"),
    watcherNative: join(fetchPackage(watcher), "watcher.node"),
  };
}
