/** Bad input gets one clear line saying what is wrong and what to do next, and loses nothing. */
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { initialised, makeWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});
async function keep(w: Promise<World>): Promise<World> {
  const made = await w;
  worlds.push(made);
  return made;
}

/** Exactly one line on stderr, nothing on stdout, the given exit code. */
function oneLine(
  result: { code: number; stdout: string; stderr: string },
  code: number,
  pattern: RegExp,
): void {
  expect(result.stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(result.stderr).toMatch(pattern);
  expect(result.stdout).toBe("");
  expect(result.code).toBe(code);
}

function tool(folder: string, name: string, body: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`);
  chmodSync(join(folder, name), 0o755);
}

test("kk init outside a jj repository → names `jj git init --colocate`", async () => {
  const w = await keep(makeWorld());
  const plain = join(w.dir, "plain");
  mkdirSync(plain);
  oneLine(await w.kk(["init"], plain), 3, /not (in )?a jj repo.*jj git init --colocate/i);
});

test("kk init twice → same status, exit 0, nothing registered twice", async () => {
  const w = await keep(initialised());
  const again = await w.kk(["init"]);
  expect(again.code).toBe(0);
  expect(again.stdout).toMatch(/already registered/i);
  expect((await w.kkJson<{ repos: unknown[] }>(["repo", "ls"])).repos).toHaveLength(1);
});

test.each([
  ["jj too old", "jj", 'echo "jj 0.41.0"', /jj 0\.41\.0.*0\.46/],
  ["git too old", "git", 'echo "git version 2.39.5"', /git 2\.39\.5.*2\.42/],
  ["tmux too old", "tmux", 'echo "tmux 3.0a"', /tmux 3\.0a.*3\.2/],
])(
  "kk new with %s → one line with the version that is needed, nothing created; kk doctor says it as well",
  async (_, name, body, pattern) => {
    const w = await keep(makeWorld());
    const folder = join(w.dir, "old-tools");
    tool(folder, name, body);
    if (name !== "jj") {
      await w.register();
      await w.kk(["daemon", "stop"]);
    }
    w.env["PATH"] = `${folder}:${w.env["PATH"]}`;
    // A registered repository needs a working jj only to be found; the old tool is met by `kk new`.
    if (name === "jj") {
      oneLine(await w.kk(["new", "x"]), 1, pattern);
      expect((await w.kk(["doctor"])).stdout).toMatch(/! jj .*older than/);
      return;
    }
    const before = readdirSync(w.dir).sort();
    oneLine(await w.kk(["new", "x"]), 1, pattern);
    expect(readdirSync(w.dir).sort()).toEqual(before);
    const doctor = await w.kk(["doctor"]);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(new RegExp(`! ${name} .*older than`));
  },
);

test("kk new without tmux on PATH → says so and what to install", async () => {
  const w = await keep(initialised());
  await w.kk(["daemon", "stop"]);
  const only = join(w.dir, "no-tmux");
  mkdirSync(only);
  for (const folder of (w.env["PATH"] ?? "").split(":").reverse()) {
    if (!existsSync(folder)) continue;
    for (const name of readdirSync(folder)) {
      if (name !== "tmux") tool(only, name, `exec '${join(folder, name)}' "$@"`);
    }
  }
  oneLine(await runWith(w, only, ["new", "x"]), 1, /tmux.*(install|3\.2)/i);
});

async function runWith(w: World, path: string, args: string[]): ReturnType<World["kk"]> {
  const old = w.env["PATH"]!;
  w.env["PATH"] = path;
  try {
    return await w.kk(args);
  } finally {
    w.env["PATH"] = old;
  }
}

test.each([
  ["unknown parent", ["new", "x", "--follows", "nobody"], 3, /nobody/],
  ["a name of punctuation only", ["new", "!!! ???"], 2, /letter|digit/],
  ["unknown harness", ["new", "x", "--harness", "cursor"], 2, /claude-code.*codex/],
  ["a base that names nothing", ["new", "x", "--base", "nonsense"], 1, /nonsense/],
  ["a base that names several commits", ["new", "x", "--base", "all()"], 2, /exactly one/],
  [
    "a harness argument that touches the settings",
    ["new", "x", "--harness-arg=--settings"],
    2,
    /--settings/,
  ],
  ["an unknown command", ["frobnicate"], 2, /frobnicate/],
  ["an unknown flag", ["ls", "--al"], 2, /--al\b/],
  ["status of an unknown thread", ["status", "nobody"], 3, /nobody/],
  ["switch to an unknown thread", ["switch", "nobody"], 3, /nobody/],
] as const)("%s → one line, nothing created", async (_, args, code, pattern) => {
  const w = shared ?? (shared = await keep(initialised()));
  const before = readdirSync(w.dir).sort();
  oneLine(await w.kk(args), code, pattern);
  expect(readdirSync(w.dir).sort()).toEqual(before);
  expect(await w.threads()).toEqual([]);
});
let shared: World | undefined;

test("workspace path that exists → refused, named, its content untouched", async () => {
  const w = await keep(initialised());
  const path = join(w.dir, "shop-kiki-parser");
  mkdirSync(path);
  writeFileSync(join(path, "precious.txt"), "mine\n");
  oneLine(await w.kk(["new", "parser"]), 1, /shop-kiki-parser/);
  expect(readdirSync(path)).toEqual(["precious.txt"]);
});

test("harness not on PATH → the documented line", async () => {
  const w = await keep(initialised());
  const path = (w.env["PATH"] ?? "")
    .split(":")
    .filter((p) => !p.endsWith("fixtures/agents") && !existsSync(join(p, "claude")));
  oneLine(
    await runWith(w, path.join(":"), ["new", "x"]),
    1,
    /claude.* not on PATH — install it or pass --harness/,
  );
});

test("kk new without a terminal → the plan is printed, exit 4, nothing created", async () => {
  const w = await keep(initialised());
  const result = await w.kk(["new", "parser", "-m", "write it"]);
  expect(result.code).toBe(4);
  expect(result.stdout).toContain("parser");
  expect(await w.threads()).toEqual([]);
});

test("kk new answered with no → nothing created", async () => {
  const w = await keep(initialised());
  const result = await w.kkOnTerminal(["new", "parser"], "n");
  expect(result.code).toBe(4);
  expect(await w.threads()).toEqual([]);
});

test("daemon socket replaced by a directory → one line naming it, directory kept", async () => {
  const w = await keep(makeWorld());
  const socket = join(w.stateDir, "kkd.sock");
  mkdirSync(socket, { recursive: true, mode: 0o700 });
  writeFileSync(join(socket, "keep.txt"), "x");
  oneLine(await w.kk(["ls"]), 5, /kkd\.sock/);
  expect(readdirSync(socket)).toEqual(["keep.txt"]);
});
