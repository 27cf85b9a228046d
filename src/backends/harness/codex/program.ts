/**
 * The native program behind `codex`. From npm that is a node script (0.171.0: `bin/codex.js`) that finds the program in
 * a package of the platform and runs it, with an old node as its child. An incarnation is one process, so it is
 * started directly; any other installation is taken as it is.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

const TARGETS: Readonly<Record<string, { triple: string; package: string }>> = {
  "linux-x64": { triple: "x86_64-unknown-linux-musl", package: "@openai/codex-linux-x64" },
  "linux-arm64": { triple: "aarch64-unknown-linux-musl", package: "@openai/codex-linux-arm64" },
  "darwin-x64": { triple: "x86_64-apple-darwin", package: "@openai/codex-darwin-x64" },
  "darwin-arm64": { triple: "aarch64-apple-darwin", package: "@openai/codex-darwin-arm64" },
};

export function nativeProgram(
  executable: string,
  platform: string = `${process.platform}-${process.arch}`,
): string {
  const target = TARGETS[platform];
  if (target === undefined) return executable;
  try {
    const script = realpathSync(executable);
    const root = join(dirname(script), "..");
    const { name } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      name?: unknown;
    };
    if (name !== "@openai/codex") return executable;
    const inVendor = (folder: string): string =>
      join(folder, "vendor", target.triple, "bin", "codex");
    const places = [...above(script).map((folder) => join(folder, target.package)), root];
    return places.map(inVendor).find((path) => existsSync(path)) ?? executable;
  } catch {
    return executable; // no script of npm's
  }
}

/** Where node looks for packages, nearest first. */
function above(script: string): string[] {
  const folders: string[] = [];
  for (let at = dirname(script); at !== dirname(at); at = dirname(at)) {
    folders.push(join(at, "node_modules"));
  }
  return folders;
}
