/**
 * Builds kiki: one executable file that needs nothing beside it.
 *
 *   bun scripts/build.ts                          dist/kiki for this machine, with kk, kkd, kk-hook
 *   bun scripts/build.ts --target darwin-arm64    dist/kiki-darwin-arm64; may be repeated
 *   bun scripts/build.ts --target all             every target
 *   --outdir DIR                                  instead of dist
 *
 * SHA256SUMS then covers every kiki binary in the output folder.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { hostTarget, isTarget, platformFiles, ROOT, TARGETS, type Target } from "./packages.ts";
import { dependencyPatches } from "./patches.ts";

const LINKS = ["kk", "kkd", "kk-hook"];
const BUILD_ID_LENGTH = 12;

/** Hash over everything the binary is made from; equal sources give equal ids on any machine. */
export function buildId(): string {
  const inputs = ["package.json", "package-lock.json"];
  for (const name of ["build.ts", "packages.ts", "patches.ts"]) inputs.push(`scripts/${name}`);
  for (const file of new Bun.Glob("src/**/*").scanSync({ cwd: ROOT })) inputs.push(file);
  const hash = new Bun.CryptoHasher("sha256");
  for (const file of inputs.sort()) {
    const bytes = readFileSync(join(ROOT, file));
    // The length keeps two different splits of the same bytes apart.
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex").slice(0, BUILD_ID_LENGTH);
}

function version(): string {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    version: string;
  };
  return manifest.version;
}

/** True when dist/kiki was built from the sources as they are now. */
export function isBuilt(outdir: string): boolean {
  const stamp = join(outdir, "BUILD");
  return (
    [...LINKS, "kiki"].every((name) => existsSync(join(outdir, name))) &&
    existsSync(stamp) &&
    readFileSync(stamp, "utf8").trim() === buildId()
  );
}

async function compile(target: Target, outfile: string, id: string): Promise<void> {
  const { runtime, watcherNative } = platformFiles(target);
  const result = await Bun.build({
    entrypoints: [join(ROOT, "src", "main.ts")],
    target: "bun",
    // Splitting is what makes start-up fast: each mode parses only its own chunks. Bytecode halves
    // kk's start; with it, top-level await needs esm.
    format: "esm",
    splitting: true,
    bytecode: true,
    minify: true,
    sourcemap: "none",
    define: {
      "process.env.NODE_ENV": '"production"',
      KIKI_VERSION: JSON.stringify(version()),
      KIKI_BUILD: JSON.stringify(id),
    },
    plugins: [dependencyPatches(watcherNative)],
    compile: {
      target: `bun-${target}`,
      outfile,
      executablePath: runtime,
      // kiki runs inside repositories that agents write to: a .env or a bunfig.toml preload found
      // there must never become part of kiki.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
    throw: false,
  });
  if (!result.success) {
    throw new Error(`build for ${target} failed:\n${result.logs.map(String).join("\n")}`);
  }
}

/** Puts a link in place by rename: a reader sees the old one or the new one. */
function link(outdir: string, name: string): void {
  const temporary = join(outdir, `.${name}-${process.pid}`);
  rmSync(temporary, { force: true });
  symlinkSync("kiki", temporary);
  renameSync(temporary, join(outdir, name));
}

function writeSums(outdir: string): void {
  const names = ["kiki", ...TARGETS.map((target) => `kiki-${target}`)];
  const lines = names
    .filter((name) => existsSync(join(outdir, name)))
    .map((name) => {
      const bytes = readFileSync(join(outdir, name));
      return `${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}  ${name}\n`;
    });
  const temporary = join(outdir, `.SHA256SUMS-${process.pid}`);
  writeFileSync(temporary, lines.join(""));
  renameSync(temporary, join(outdir, "SHA256SUMS"));
}

/** Builds into outdir and returns the files written. No targets: this machine's, with links. */
export async function build(targets: Target[], outdir: string): Promise<string[]> {
  mkdirSync(outdir, { recursive: true });
  // A program may be running from outdir, so each binary is made elsewhere and renamed in.
  const work = mkdtempSync(join(outdir, ".work-"));
  const written: string[] = [];
  const id = buildId();
  try {
    for (const target of targets.length > 0 ? targets : [hostTarget()]) {
      const name = targets.length > 0 ? `kiki-${target}` : "kiki";
      await compile(target, join(work, name), id);
      renameSync(join(work, name), join(outdir, name));
      written.push(join(outdir, name));
    }
    if (targets.length === 0) {
      for (const name of LINKS) link(outdir, name);
      writeFileSync(join(outdir, "BUILD"), `${id}\n`);
    }
    writeSums(outdir);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return written;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      target: { type: "string", multiple: true, default: [] },
      outdir: { type: "string", default: join(ROOT, "dist") },
    },
  });
  const targets: Target[] = [];
  for (const name of values.target) {
    if (name === "all") targets.push(...TARGETS);
    else if (isTarget(name)) targets.push(name);
    else throw new Error(`unknown target ${name}; one of: all ${TARGETS.join(" ")}`);
  }
  const started = performance.now();
  for (const file of await build([...new Set(targets)], resolve(values.outdir))) {
    console.log(`${file}  ${(Bun.file(file).size / 1e6).toFixed(1)} MB`);
  }
  console.log(`built ${version()} ${buildId()} in ${Math.round(performance.now() - started)} ms`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}
