/** Bad input: exactly one clear line that names what is wrong and what to type; good input: exactly what was said. */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { defineCommand, runCommand, type CommandDef } from "citty";
import { KikiError } from "../../src/core/errors.ts";
import { parseCommandLine } from "../../src/cmd/args.ts";
import { hermeticEnv, removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

let got: { args: Record<string, unknown>; data: unknown } | null = null;
const leaf = defineCommand({
  meta: { name: "make" },
  args: {
    name: { type: "positional", required: false },
    prompt: { type: "string", alias: "m" },
    follow: { type: "boolean", default: true, negativeDescription: "not" },
    harness: { type: "enum", options: ["claude-code", "codex"] },
    "harness-arg": { type: "string", repeat: true },
    detach: { type: "boolean" },
  },
  run({ args, data }) {
    got = { args, data };
  },
});
const root: CommandDef = defineCommand({
  meta: { name: "kk" },
  subCommands: {
    make: leaf,
    go: defineCommand({
      args: { thread: { type: "positional", required: true } },
      run: () => undefined,
    }),
    group: defineCommand({ subCommands: { list: defineCommand({ run: () => undefined }) } }),
    __hidden: defineCommand({ run: () => undefined }),
  },
  run: () => undefined,
});

async function understood(
  ...argv: string[]
): Promise<{ args: Record<string, unknown>; lists: unknown }> {
  got = null;
  const line = await parseCommandLine(root, argv);
  await runCommand(line.command, { rawArgs: line.canonical, data: line.data });
  const { args, data } = got as unknown as NonNullable<typeof got>;
  return { args, lists: (data as { lists: unknown }).lists };
}

async function complaint(...argv: string[]): Promise<string> {
  try {
    await parseCommandLine(root, argv);
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    expect(error.exitCode).toBe(2);
    return `${error.message} | ${error.hint ?? ""}`;
  }
  return "accepted";
}

describe("command line: understood", () => {
  test("every form of a flag → the same value", async () => {
    for (const argv of [
      ["-m", "x y"],
      ["-mx y"],
      ["-m=x y"],
      ["--prompt", "x y"],
      ["--prompt=x y"],
    ]) {
      expect([argv, (await understood("make", ...argv)).args["prompt"]]).toEqual([argv, "x y"]);
    }
  });

  test("value that looks like a flag or a negation → taken as it is", async () => {
    expect((await understood("make", "-m", "--no-such")).args["prompt"]).toBe("--no-such");
    expect((await understood("make", "-m=--detach")).args).toMatchObject({
      prompt: "--detach",
      follow: true,
    });
    expect((await understood("make", "--prompt=")).args["prompt"]).toBe("");
  });

  test("repeatable flag → all values in order", async () => {
    const line = await understood("make", "--harness-arg", "--model", "n", "--harness-arg=opus");
    expect(line.lists).toEqual({ "harness-arg": ["--model", "opus"] });
    expect(line.args["name"]).toBe("n");
  });

  test("negation, positional after -- → as said", async () => {
    const { args } = await understood("make", "--no-follow", "--", "--detach");
    expect(args).toMatchObject({ follow: false, name: "--detach" });
    expect(args["detach"]).toBeUndefined();
  });

  test("global flags → anywhere before --", async () => {
    expect(await parseCommandLine(root, ["--verbose", "make", "x"])).toMatchObject({
      verbose: true,
      path: ["make"],
    });
    expect(await parseCommandLine(root, ["make", "x", "--verbose"])).toMatchObject({
      verbose: true,
    });
    expect(await parseCommandLine(root, ["make", "--", "--verbose"])).toMatchObject({
      verbose: false,
    });
    expect(await parseCommandLine(root, ["make", "--bogus", "--help"])).toMatchObject({
      help: true,
    });
    expect(await parseCommandLine(root, ["--version"])).toMatchObject({ version: true, path: [] });
  });
});

describe("command line: refused", () => {
  const cases: [string[], string][] = [
    [["mkae"], 'unknown command "mkae" — did you mean kk make? | kk help'],
    [["frobnicate"], 'unknown command "frobnicate" | kk help'],
    [["__hiden"], 'unknown command "__hiden" | kk help'],
    [["toString"], 'unknown command "toString" | kk help'],
    [["group"], "kk group needs one of: list | kk help group"],
    [["group", "lits"], 'unknown command "group lits" — did you mean kk group list? | kk help'],
    [["group", "list", "x"], 'unexpected argument "x" | kk help group list'],
    [["make", "--detahc"], "unknown flag --detahc — did you mean --detach? | kk help make"],
    [["make", "--folow=x"], "unknown flag --folow — did you mean --follow? | kk help make"],
    [["make", "--no-detach"], "unknown flag --no-detach — did you mean --detach? | kk help make"],
    [["make", "-z"], "unknown flag -z | kk help make"],
    [["make", "-m"], "-m needs a value | kk help make"],
    [["make", "-m", "--detach"], "-m needs a value (to pass --detach itself: -m=…) | kk help make"],
    [["make", "--harness"], "--harness needs a value | kk help make"],
    [
      ["make", "--harness", "vim"],
      '--harness does not accept "vim": use claude-code or codex | kk help make',
    ],
    [["make", "--detach=1"], "--detach takes no value | kk help make"],
    [["make", "-m", "a", "--prompt", "b"], "--prompt is given twice | kk help make"],
    [["make", "a", "b"], 'unexpected argument "b" | kk help make'],
    [["make", ""], "<name> must not be empty | kk help make"],
    [["go"], "missing <thread> | kk help go"],
    [["--detach"], "unknown flag --detach | kk help"],
  ];
  for (const [argv, expected] of cases) {
    test(`kk ${argv.join(" ")} → ${expected}`, async () => {
      expect(await complaint(...argv)).toBe(expected);
    });
  }
});

describe("kk: bad input, whole program", () => {
  const dir = tempDir("args");
  const env = { ...hermeticEnv(dir), KIKI_PATHS__USER_STATE_DIR: join(dir, "state") };

  async function kk(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
    const main = join(import.meta.dir, "../../src/main.ts");
    const child = Bun.spawn([process.execPath, main, ...argv], {
      cwd: dir,
      env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err, code] = await Promise.all([
      child.stdout.text(),
      child.stderr.text(),
      child.exited,
    ]);
    return { code, out, err };
  }

  test("unknown command, flag, value → one line on stderr, exit 2, nothing on stdout", async () => {
    for (const argv of [
      ["stauts"],
      ["ls", "--al"],
      ["new", "-m"],
      ["daemon", "logs", "-n", "many"],
    ]) {
      const { code, out, err } = await kk(...argv);
      expect([argv, code, out]).toEqual([argv, 2, ""]);
      expect(err).toMatch(/^kk: [^\n]+\n$/);
    }
  });

  test("no daemon running → daemon status says so, exit 5, and starts none", async () => {
    const { code, out, err } = await kk("daemon", "status");
    expect([code, out]).toEqual([5, ""]);
    expect(err).toMatch(/^kk: no daemon is running on [^\n]+\n$/);
    expect((await kk("daemon", "stop")).out).toBe("no daemon is running\n");
  });

  test("state folder that is not absolute → one line, exit 2", async () => {
    const child = Bun.spawnSync(
      [process.execPath, join(import.meta.dir, "../../src/main.ts"), "daemon", "status"],
      {
        cwd: dir,
        env: { ...env, KIKI_PATHS__USER_STATE_DIR: "state" },
      },
    );
    expect(child.exitCode).toBe(2);
    expect(child.stderr.toString()).toMatch(/^kk: kiki cannot tell where its state is[^\n]+\n$/);
  });

  test("--version, help → exit 0, no escape sequences", async () => {
    const version = await kk("--version");
    expect([version.code, version.out]).toEqual([0, "kiki dev (dev)\n"]);
    const help = await kk("help", "new");
    expect(help.code).toBe(0);
    expect(help.out).toContain("--harness-arg");
    expect(help.out).not.toContain("\u001b");
  });
});
