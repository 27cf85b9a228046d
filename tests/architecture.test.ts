/**
 * The rules of docs/architecture.md that a compiler does not know. Each carries its reason, which
 * is what a failure prints: a rule nobody can explain should be removed, not obeyed.
 *
 * An exception is an entry in a table here, with its own reason, never a comment in the source.
 */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, normalize } from "node:path";

const ROOT = dirname(import.meta.dir);
const MAX_LINES = 400;

// Who may import whom ----------------------------------------------------------------------------

/** One step of a thread's life. Siblings never import each other. */
const STEP = {
  may: ["core", "ports", "store"],
  why: "a step sees the world through ports; a neighbour it needs arrives as a function in deps",
};

const LAYERS: Record<string, { may: readonly string[]; why: string }> = {
  core: { may: [], why: "core is pure and read first: it must make sense without the rest" },
  ports: { may: ["core"], why: "ports are types: what kiki needs, not how it is done" },
  store: { may: ["core"], why: "tables hold core's values and know no caller" },
  rpc: { may: ["core"], why: "the contract is shared by clients, which have no daemon parts" },
  backends: { may: ["core", "ports"], why: "a backend fulfils a port and decides nothing" },
  lifecycle: STEP,
  cascade: STEP,
  repair: STEP,
  authority: STEP,
  transcript: STEP,
  publish: STEP,
  metadata: STEP,
  daemon: {
    may: [
      "core",
      "ports",
      "store",
      "rpc",
      "backends",
      "lifecycle",
      "cascade",
      "repair",
      "authority",
      "transcript",
      "publish",
      "metadata",
    ],
    why: "the daemon composes everything, but has no terminal: nothing of cmd or ui",
  },
  ui: { may: ["core", "rpc"], why: "the UI asks the daemon like any other client" },
  cmd: { may: ["core", "rpc", "ui"], why: "commands ask the daemon: no database, no jj, no ports" },
};

/** The only importer of backends in the daemon. */
const COMPOSITION_ROOT = "src/daemon/wire.ts";

/** Single files that may import a folder their layer may not. */
const IMPORT_EXCEPTIONS: Record<string, { may: readonly string[]; why: string }> = {
  "src/cmd/kkd.ts": { may: ["daemon"], why: "it is the daemon's entry" },
};

/** Files at the root of src, and who may import them. */
const ROOT_FILES = new Set(["src/main.ts", "src/version.ts", "src/globals.d.ts"]);

// One door each ----------------------------------------------------------------------------------

interface Door {
  /** What goes through this door only. */
  what: string;
  pattern: RegExp;
  /** Path prefixes inside which it is allowed. */
  inside: readonly string[];
  why: string;
  /** Path prefix → reason. */
  exceptions?: Record<string, string>;
}

const DOORS: readonly Door[] = [
  {
    what: "starting processes",
    pattern:
      /["'](?:execa|(?:node:)?child_process)["']|\bBun\.(?:spawn|spawnSync|\$)|\bposix_spawnp?\b/,
    inside: ["src/backends/exec.ts"],
    why: "one spawner: argument arrays, allow-listed environment, time-out, output cap",
    exceptions: {
      "src/cmd/pane": "the pane's inert wrapper hands its terminal to a process group of its own",
      "src/cmd/start-daemon.ts":
        "a client that finds no daemon starts it, before there is any backend",
      "src/cmd/spawn-tty.ts":
        "handing a person's terminal to tmux is the command's, not the daemon's",
      "src/cmd/hook": "the hook must start and end within milliseconds; execa alone takes longer",
    },
  },
  {
    what: "writing files",
    pattern:
      /\b(?:writeFile|appendFile|copyFile|rename)Sync\b|\bcreateWriteStream\b|\bBun\.write\((?!Bun\.std)|\b(?:writeFile|appendFile|copyFile|rename)\b[^;]*["'](?:node:)?fs\/promises["']/,
    inside: ["src/backends/files.ts"],
    why: "one durable writer: temp file, fsync, rename, fsync of the folder",
    exceptions: {
      "src/daemon/log.ts": "a log line may be lost with the machine; waiting for the disk may not",
      "src/cmd/hook-outage.ts":
        "the daemon is away: the hook leaves its own note, without backends",
    },
  },
  {
    what: "bun:sqlite",
    pattern: /["']bun:sqlite["']/,
    inside: ["src/store/"],
    why: "all SQL is in the store, where transactions and constraints are kept",
  },
  {
    what: "changing intents",
    pattern:
      /\b(?:insertIntent|insertDiverged|setIntentState|savePlan|bindSoftBatch|rebindSoftBatch|completeBatch|claimByRestart|markStartupDelivered|acknowledgeStartup|setExhausted|startEpoch)\b|(?:INSERT INTO|UPDATE) sync_intents\b/,
    inside: ["src/cascade/moves.ts", "src/store/"],
    why: "every change has its crash points there, and the crash matrix finds it by them",
  },
  {
    what: "the presenter's credential",
    pattern: /\bpresenterCredential\b|["'`/]presenter-cred\b/,
    inside: ["src/cmd/presenter-client.ts", "src/core/paths.ts"],
    why: "it confirms plans: read with a foreground terminal in hand, and never by what agents can start",
    exceptions: {
      "src/daemon/boot.ts": "the daemon writes it when it enrols a presenter",
      "src/cmd/presenter.ts": "recovering it names the file",
    },
  },
  {
    what: "the admin's credential",
    pattern: /\badminCredential\b|["'`/]admin-cred\b/,
    inside: ["src/cmd/presenter.ts", "src/core/paths.ts"],
    why: "kk never loads it by itself: only a person's kk presenter recover does",
    exceptions: { "src/daemon/boot.ts": "the daemon makes it at its first start" },
  },
  {
    what: "the console",
    pattern: /\bconsole\.|["']consola(?:\/\w+)?["']/,
    inside: ["src/cmd/", "src/ui/"],
    why: "only a command has a terminal; everything else returns values or writes the log",
  },
];

const CORE_IS_PURE = {
  pattern:
    /\bDate\.now\b|\bnew Date\(\s*\)|\bDate\(\s*\)|\bMath\.random\b|\bperformance\.|\bcrypto\.|\brandomUUID\b|\bBun\.(?:nanoseconds|randomUUIDv7|sleep)|\bprocess\.|\bset(?:Timeout|Interval|Immediate)\(/,
  why: "core has no clock and no randomness: the crash matrix and the simulation replay it exactly",
};

// The hook ---------------------------------------------------------------------------------------

/** Never in kk-hook's bundle, not even lazily. */
const HOOK_NEVER =
  /^(?:bun:sqlite|blessed|@parcel\/watcher|execa|citty|consola|zod|smol-toml|src\/(?:store|ui|daemon|backends)\/.*)$/;

// Reading sources --------------------------------------------------------------------------------

/** Comments removed, so that prose about a forbidden thing is not the thing. */
function code(source: string): string {
  return source
    .replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, "")
    .replace(/^[ \t]*\/\/.*$/gm, "")
    .replace(/[ \t]\/\/ .*$/gm, "");
}

interface Import {
  target: string;
  /** A type import leaves nothing in the bundle, but is a dependency all the same. */
  kind: "static" | "type" | "dynamic";
}

function importsOf(source: string): Import[] {
  const text = code(source);
  const found: Import[] = [];
  // The character class ends at the first thing that cannot stand in an import clause.
  for (const match of text.matchAll(
    /^(?:import|export)\s+(type\s+)?[\w$*{},\s]*?\s*from\s*["']([^"']+)["']/gm,
  )) {
    found.push({ target: match[2] ?? "", kind: match[1] ? "type" : "static" });
  }
  for (const match of text.matchAll(/^import\s*["']([^"']+)["']/gm)) {
    found.push({ target: match[1] ?? "", kind: "static" });
  }
  for (const match of text.matchAll(/\b(?:import|require)\(\s*(?:["'`]([^"'`]*)["'`])?/g)) {
    found.push({ target: match[1] ?? "(computed)", kind: "dynamic" });
  }
  return found;
}

const sources = new Map<string, string>();
for (const file of new Bun.Glob("src/**/*.ts").scanSync({ cwd: ROOT })) {
  sources.set(file, readFileSync(join(ROOT, file), "utf8"));
}

/** "src/rpc/x.ts" for a relative import, the specifier itself for a package. */
function resolveFrom(file: string, target: string): string {
  return target.startsWith(".") ? normalize(join(dirname(file), target)) : target;
}

function folderOf(file: string): string {
  return file.split("/")[1] ?? "";
}

function importViolations(file: string, source: string): string[] {
  const bad: string[] = [];
  const from = folderOf(file);
  const layer = LAYERS[from];
  for (const { target } of importsOf(source)) {
    const to = resolveFrom(file, target);
    if (target === "(computed)") {
      bad.push(`${file}: computed import: the bundler cannot follow it into the binary`);
    }
    if (!target.startsWith(".")) {
      if (target.startsWith("src/") || target.startsWith("/")) {
        bad.push(`${file} → ${target}: import by relative path, so that this table sees it`);
      }
      continue;
    }
    if (!to.startsWith("src/")) {
      bad.push(`${file} → ${to}: the product is src alone`);
      continue;
    }
    const toFolder = folderOf(to);
    if (layer === undefined || toFolder === from) continue; // main.ts, or the same folder
    if (ROOT_FILES.has(to)) {
      const allowed = to === "src/version.ts" && from !== "core";
      if (!allowed) bad.push(`${file} → ${to}: ${layer.why}`);
    } else if (!layer.may.includes(toFolder)) {
      if (!IMPORT_EXCEPTIONS[file]?.may.includes(toFolder)) {
        bad.push(
          `${file} → ${to}: ${from} may import ${layer.may.join(", ") || "nothing"}: ${layer.why}`,
        );
      }
    } else if (toFolder === "backends" && file !== COMPOSITION_ROOT) {
      bad.push(
        `${file} → ${to}: only ${COMPOSITION_ROOT} chooses backends; take a port as argument`,
      );
    }
  }
  return bad;
}

/** Everything `entry` loads: source files and packages. */
function closure(entry: string, kinds: readonly Import["kind"][]): Map<string, string> {
  const via = new Map<string, string>([[entry, "entry"]]);
  // A Map may be extended while it is walked; what is added is visited too.
  for (const file of via.keys()) {
    for (const { target, kind } of importsOf(sources.get(file) ?? "")) {
      const to = resolveFrom(file, target);
      if (kinds.includes(kind) && !via.has(to)) via.set(to, file);
    }
  }
  return via;
}

function isNodeModule(name: string): boolean {
  return name.startsWith("node:") || (builtinModules.includes(name) && !name.startsWith("bun"));
}

// The tests --------------------------------------------------------------------------------------

describe("architecture", () => {
  test("src: every folder → stands in the import table", () => {
    const unknown = [...sources.keys()].filter(
      (file) => !ROOT_FILES.has(file) && LAYERS[folderOf(file)] === undefined,
    );
    expect(unknown).toEqual([]);
  });

  test("imports: every file of src → only what its layer may import", () => {
    const bad = [...sources].flatMap(([file, source]) => importViolations(file, source));
    expect(bad).toEqual([]);
  });

  for (const door of DOORS) {
    test(`one door: ${door.what} → only in ${door.inside.join(", ")}`, () => {
      const open = [...door.inside, ...Object.keys(door.exceptions ?? {})];
      const bad = [...sources]
        .filter(([file]) => !open.some((prefix) => file.startsWith(prefix)))
        .filter(([, source]) => door.pattern.test(code(source)))
        .map(([file]) => `${file}: ${door.what} belongs in ${door.inside.join(", ")}: ${door.why}`);
      expect(bad).toEqual([]);
    });
  }

  test("core: clock, randomness, environment, timers → none", () => {
    const bad = [...sources]
      .filter(([file]) => file.startsWith("src/core/"))
      .flatMap(([file, source]) => {
        const match = CORE_IS_PURE.pattern.exec(code(source));
        return match ? [`${file}: ${match[0]}: ${CORE_IS_PURE.why}`] : [];
      });
    expect(bad).toEqual([]);
  });

  test("exports: every file of src → named, no barrels", () => {
    const bad: string[] = [];
    for (const [file, source] of sources) {
      if (/^export\s+default\b|\bas\s+default\b/m.test(code(source))) {
        bad.push(`${file}: default export: a named one has the same name at every use`);
      }
      if (file.endsWith("/index.ts") || /^export\s+\*\s+from/m.test(code(source))) {
        bad.push(`${file}: barrel: it hides who uses what and pulls whole folders into the hook`);
      }
    }
    expect(bad).toEqual([]);
  });

  test(`size: every file of src → at most ${MAX_LINES} lines`, () => {
    const bad = [...sources]
      .map(([file, source]) => ({ file, lines: source.split("\n").length - 1 }))
      .filter(({ lines }) => lines > MAX_LINES)
      .map(({ file, lines }) => `${file}: ${lines} lines: split it where its subject changes`);
    expect(bad).toEqual([]);
  });
});

describe("hook bundle", () => {
  test("kk-hook: what is loaded at start → no node module", () => {
    const loaded = closure("src/main.ts", ["static"]);
    expect([...loaded.keys()]).toContain("src/cmd/hook.ts");
    const bad = [...loaded]
      .filter(([name]) => isNodeModule(name) || HOOK_NEVER.test(name))
      .map(([name, via]) => `loads ${name} (via ${via}): it runs before every tool call`);
    expect(bad).toEqual([]);
  });

  test("kk-hook: what hook.ts loads at any time → no store, ui, blessed, sqlite", () => {
    const bad = [...closure("src/cmd/hook.ts", ["static", "dynamic"])]
      .filter(([name]) => HOOK_NEVER.test(name))
      .map(([name, via]) => `hook loads ${name} (via ${via}): the hook only asks the daemon`);
    expect(bad).toEqual([]);
  });
});

// A rule that never fires is worth nothing, so each is shown a file that breaks it.
describe("the rules themselves", () => {
  test("scanner: every form of import → found, comments and strings ignored", () => {
    const source = [
      'import { a } from "./a.ts";',
      "import {",
      "  b,",
      "  type C,",
      '} from "./b.ts";',
      'import type { D } from "./d.ts";',
      'import * as e from "./e.ts";',
      'import "./f.ts";',
      'export { g } from "./g.ts";',
      'const h = await import("./h.ts");',
      "const i = await import(name);",
      '// import { no } from "./no.ts";',
      "/* Bun.spawn, described.",
      ' * import { no } from "./no.ts"; */',
      'export function from(x: string): string { return "./no.ts"; }',
    ].join("\n");
    expect(importsOf(source).map(({ target, kind }) => `${kind} ${target}`)).toEqual([
      "static ./a.ts",
      "static ./b.ts",
      "type ./d.ts",
      "static ./e.ts",
      "static ./g.ts",
      "static ./f.ts",
      "dynamic ./h.ts",
      "dynamic (computed)",
    ]);
  });

  test("import table: a forbidden import of each kind → one violation", () => {
    const cases: [string, string][] = [
      ["src/core/x.ts", 'import { y } from "../ports/y.ts";'],
      ["src/core/x.ts", 'import { VERSION } from "../version.ts";'],
      ["src/ports/x.ts", 'import type { y } from "../store/y.ts";'],
      ["src/cascade/x.ts", 'import { y } from "../lifecycle/y.ts";'],
      ["src/backends/jj/x.ts", 'import { y } from "../../store/y.ts";'],
      ["src/daemon/boot.ts", 'import { y } from "../backends/y.ts";'],
      ["src/cmd/x.ts", 'const y = await import("../daemon/y.ts");'],
      ["src/ui/x.ts", 'import { y } from "../../tests/y.ts";'],
    ];
    for (const [file, source] of cases) {
      expect([file, importViolations(file, source).length]).toEqual([file, 1]);
    }
    expect(importViolations(COMPOSITION_ROOT, 'import { y } from "../backends/y.ts";')).toEqual([]);
    expect(importViolations("src/cmd/kkd.ts", 'import { y } from "../daemon/y.ts";')).toEqual([]);
  });

  test("doors: a typical trespass → seen", () => {
    const trespasses = [
      "const p = Bun.spawn(['jj']);",
      'import { execa } from "execa";',
      'import { spawn } from "node:child_process";',
      "writeFileSync(path, text);",
      "await Bun.write(path, text);",
      'import { readFile, rename } from "node:fs/promises";',
      'import { Database } from "bun:sqlite";',
      "console.log(x);",
      'import { consola } from "consola";',
    ];
    for (const line of trespasses) {
      expect([line, DOORS.some((door) => door.pattern.test(code(line)))]).toEqual([line, true]);
    }
    for (const line of [
      "await Bun.write(Bun.stdout, x);",
      'import { rename } from "./names.ts";',
    ]) {
      expect([line, DOORS.some((door) => door.pattern.test(code(line)))]).toEqual([line, false]);
    }
    for (const line of ["const now = Date.now();", "const d = new Date();", "Math.random()"]) {
      expect([line, CORE_IS_PURE.pattern.test(line)]).toEqual([line, true]);
    }
    expect(CORE_IS_PURE.pattern.test("new Date(at).toISOString()")).toBe(false);
  });

  test("hook rule: the modules it exists for → recognised", () => {
    for (const name of ["bun:sqlite", "blessed", "src/store/db.ts", "src/ui/theme.ts"]) {
      expect([name, HOOK_NEVER.test(name)]).toEqual([name, true]);
    }
    expect(["node:fs", "fs", "path"].map(isNodeModule)).toEqual([true, true, true]);
    expect(["bun:ffi", "bun", "src/core/ids.ts"].map(isNodeModule)).toEqual([false, false, false]);
  });
});
