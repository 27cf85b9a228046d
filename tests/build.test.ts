/** The built binary as a user gets it: one file, anywhere, next to nothing of its own. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  patchBlessedTput,
  patchBlessedUnicode,
  patchBlessedWidget,
  patchWatcher,
} from "../scripts/patches.ts";

const ROOT = dirname(import.meta.dir);
const DIST = join(ROOT, "dist");
const VERSION = (
  JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }
).version;

const folder = mkdtempSync(join(tmpdir(), "kiki-test-build-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A bare environment: nothing of the developer's may be what makes the binary work. */
function run(command: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  const result = Bun.spawnSync(command, {
    cwd: options.cwd ?? folder,
    env: { PATH: "/usr/bin:/bin", HOME: home, TMPDIR: folder, ...options.env },
  });
  return {
    code: result.exitCode,
    out: result.stdout.toString().trim(),
    err: result.stderr.toString().trim(),
  };
}

/** A folder holding the binary and its links and nothing else. */
function aloneIn(name: string): string {
  const alone = join(folder, name);
  mkdirSync(alone);
  copyFileSync(join(DIST, "kiki"), join(alone, "kiki"));
  for (const link of ["kk", "kkd", "kk-hook"]) symlinkSync("kiki", join(alone, link));
  return alone;
}

describe("binary", () => {
  test("kk --version: copied alone into an empty folder → prints the version", () => {
    const alone = aloneIn("alone");
    const result = run([join(alone, "kk"), "--version"], { cwd: alone });
    expect(result).toMatchObject({ code: 0, err: "" });
    expect(result.out).toContain(VERSION);
  });

  test("kk: .env and bunfig preload in the current folder → neither is taken in", () => {
    const hostile = aloneIn("hostile");
    writeFileSync(join(hostile, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
    writeFileSync(join(hostile, "preload.ts"), 'require("fs").writeFileSync("preloaded", "");\n');
    writeFileSync(join(hostile, ".env"), "KIKI_AS=kk-hook\nHOME=/nonexistent\n");
    const result = run([join(hostile, "kk"), "--version"], { cwd: hostile });
    expect(result.out).toContain(VERSION);
    expect(existsSync(join(hostile, "preloaded"))).toBe(false);
  });

  test("dist: links → relative, so that the folder can be moved", () => {
    for (const link of ["kk", "kkd", "kk-hook"]) {
      expect([link, readlinkSync(join(DIST, link))]).toEqual([link, "kiki"]);
    }
  });

  test("dist: binary → names no folder of the machine that built it", () => {
    // Bun writes __dirname of bundled modules as text; one of them would point into node_modules.
    expect(readFileSync(join(DIST, "kiki")).includes(join(ROOT, "node_modules"))).toBe(false);
  });

  test("SHA256SUMS: dist/kiki → listed with its own sum", () => {
    const sum = new Bun.CryptoHasher("sha256").update(readFileSync(join(DIST, "kiki")));
    const sums = readFileSync(join(DIST, "SHA256SUMS"), "utf8").split("\n");
    expect(sums).toContain(`${sum.digest("hex")}  kiki`);
  });
});

describe("patches", () => {
  const modules = join(ROOT, "node_modules");
  const cases: [string, string, (source: string) => string][] = [
    ["widget.js", "blessed/lib/widget.js", patchBlessedWidget],
    ["tput.js", "blessed/lib/tput.js", (text) => patchBlessedTput(text, new Uint8Array([1]))],
    ["unicode.js", "blessed/lib/unicode.js", patchBlessedUnicode],
    ["watcher", "@parcel/watcher/index.js", (text) => patchWatcher(text, "/x/watcher.node")],
  ];
  for (const [name, path, patch] of cases) {
    test(`${name}: the installed source → patched, no computed require, no __dirname`, () => {
      const patched = patch(readFileSync(join(modules, path), "utf8"));
      expect(patched).not.toMatch(/require\([^'")]|__dirname/);
    });
    test(`${name}: another source → refused loudly`, () => {
      expect(() => patch("module.exports = {};")).toThrow("patch does not apply");
    });
  }

  test("widget.js: a widget kiki may use → still there; one that starts programs → gone", () => {
    const patched = patchBlessedWidget(
      readFileSync(join(modules, "blessed/lib/widget.js"), "utf8"),
    );
    expect(patched).toContain("widget.Listbar = widget.listbar = require('./widgets/listbar')");
    expect(patched).not.toContain("terminal");
  });
});

describe("install.sh", () => {
  /** A download: the script, the binary, and sums when wanted. */
  function download(name: string, sums?: string): string {
    const from = join(folder, name);
    mkdirSync(from);
    copyFileSync(join(ROOT, "install.sh"), join(from, "install.sh"));
    copyFileSync(join(DIST, "kiki"), join(from, "kiki"));
    if (sums !== undefined) writeFileSync(join(from, "SHA256SUMS"), sums);
    return from;
  }

  test("install.sh: binary with its sums → installed with links, twice, nothing else left", () => {
    const from = download("good", readFileSync(join(DIST, "SHA256SUMS"), "utf8"));
    const prefix = join(folder, "good-prefix");
    for (let i = 0; i < 2; i++) {
      const result = run(["sh", join(from, "install.sh")], { env: { KIKI_PREFIX: prefix } });
      expect(result).toMatchObject({ code: 0, err: "" });
      expect(result.out).toContain("is not on PATH");
    }
    expect(readdirSync(prefix).sort()).toEqual(["kiki", "kk", "kk-hook", "kkd"]);
    expect(lstatSync(join(prefix, "kk")).isSymbolicLink()).toBe(true);
    expect(run([join(prefix, "kk"), "--version"]).out).toContain(VERSION);
  });

  test("install.sh: no KIKI_PREFIX → ~/.local/bin, silent about PATH when it is there", () => {
    const from = download("home-download");
    const bin = join(folder, "home", ".local", "bin");
    const result = run(["sh", join(from, "install.sh")], {
      env: { PATH: `/usr/bin:/bin:${bin}` },
    });
    expect(result.out.split("\n")).toHaveLength(1);
    expect(existsSync(join(bin, "kk-hook"))).toBe(true);
  });

  test("install.sh: sums that do not match, or do not list it → one line, nothing installed", () => {
    const prefix = join(folder, "bad-prefix");
    const env = { KIKI_PREFIX: prefix };
    const damaged = download("damaged", `${"0".repeat(64)}  kiki\n`);
    const unlisted = download("unlisted", `${"0".repeat(64)}  other\n`);
    const first = run(["sh", join(damaged, "install.sh")], { env });
    expect(first.code).toBe(1);
    expect(first.err).toBe(
      "install.sh: kiki does not match SHA256SUMS: the download is damaged or not the published one",
    );
    const second = run(["sh", join(unlisted, "install.sh")], { env });
    expect(second.code).toBe(1);
    expect(second.err).toContain("does not list kiki");
    expect(existsSync(prefix)).toBe(false);
  });

  test("install.sh: a file that does not run → refused, the installed one stays", () => {
    const prefix = join(folder, "kept-prefix");
    mkdirSync(prefix);
    writeFileSync(join(prefix, "kiki"), "the one before");
    const broken = join(folder, "broken");
    writeFileSync(broken, "\x7fELF");
    const result = run(["sh", join(ROOT, "install.sh"), broken], { env: { KIKI_PREFIX: prefix } });
    expect(result.code).toBe(1);
    expect(result.err).toBe(`install.sh: ${broken} does not run on this machine`);
    expect(readdirSync(prefix)).toEqual(["kiki"]);
    expect(readFileSync(join(prefix, "kiki"), "utf8")).toBe("the one before");
  });
});
