/** The spawner: results, limits, and nothing left running. */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "bun:test";
import { baseEnv, converse, run, runOnTerminal, type RunRequest } from "../../src/backends/exec.ts";
import { processesFor } from "../../src/backends/processes/select.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const ENV = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

function sh(script: string, options: Partial<RunRequest> = {}): ReturnType<typeof run> {
  return run({ argv: ["sh", "-c", script], cwd: "/", env: ENV, timeoutMs: 20_000, ...options });
}

/** Resolves once no process has `pid` (one that only waits to be collected counts as gone). */
async function gone(pid: number): Promise<void> {
  for (
    const deadline = performance.now() + 10_000;
    performance.now() < deadline;
    await Bun.sleep(10)
  ) {
    if (processesFor().identify(pid) === null) return;
  }
  throw new Error(`process ${pid} is still there`);
}

describe("run", () => {
  test("run: output on both streams, exit code → told apart", async () => {
    const result = await sh("printf out; printf err >&2; exit 3");
    expect(result).toMatchObject({
      code: 3,
      signal: null,
      stderr: "err",
      timedOut: false,
      cut: false,
    });
    expect(result.stdout.toString()).toBe("out");
  });

  test("run: arguments with spaces, quotes, dollar → arrive as they are", async () => {
    const odd = "a b'c\"d$HOME\n;";
    const result = await run({
      argv: ["printf", "%s", odd],
      cwd: "/",
      env: ENV,
      timeoutMs: 20_000,
    });
    expect(result.stdout.toString()).toBe(odd);
  });

  test("run: only the given environment → the child sees nothing else", async () => {
    const result = await run({
      argv: ["env"],
      cwd: "/",
      env: { ...ENV, ONLY: "this" },
      timeoutMs: 20_000,
    });
    const names = result.stdout
      .toString()
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split("=")[0]);
    expect(new Set(names)).toEqual(new Set(["ONLY", "PATH"]));
  });

  test("run: input larger than a pipe → arrives whole; none → end of file at once", async () => {
    const input = "x".repeat(300_000);
    expect((await sh("cat", { input })).stdout.toString()).toBe(input);
    expect((await sh("cat")).stdout.toString()).toBe("");
  });

  test("run: ended by a signal → no code, the signal's name", async () => {
    expect(await sh("kill -9 $$")).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  test("run: too long, with children that ignore SIGTERM → the whole group ended, output kept", async () => {
    const result = await sh(
      "trap '' TERM; echo begun; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait",
      { timeoutMs: 400 },
    );
    expect(result).toMatchObject({ timedOut: true, code: null, signal: "SIGKILL" });
    const [begun, grandchild] = result.stdout.toString().trim().split("\n");
    expect(begun).toBe("begun");
    await gone(Number(grandchild));
  });

  test("run: a grandchild keeps the output open → no waiting for it", async () => {
    const begun = performance.now();
    const result = await sh("sleep 20 & echo $!");
    expect(performance.now() - begun).toBeLessThan(10_000);
    process.kill(Number(result.stdout.toString()));
  });

  test("run: aborted, before and while running → command-aborted", async () => {
    const controller = new AbortController();
    const running = sh("sleep 20", { signal: controller.signal });
    controller.abort();
    expect(await failureOf(running)).toMatchObject({ code: "command-aborted" });
    expect(await failureOf(sh("true", { signal: controller.signal }))).toMatchObject({
      code: "command-aborted",
    });
  });

  test("run: more output than allowed → ended and command-output; with cutOutput → the beginning", async () => {
    const endless = { argv: ["yes"], maxOutputBytes: 1_000 };
    expect(await failureOf(sh("", endless))).toMatchObject({ code: "command-output" });
    const result = await sh("", { ...endless, cutOutput: true });
    expect(result.cut).toBe(true);
    expect(result.stdout.toString()).toBe("y\n".repeat(500));
  });

  test("run: no such program, no such folder → their own codes", async () => {
    expect(await failureOf(sh("", { argv: ["kiki-no-such-program"] }))).toMatchObject({
      code: "command-missing",
    });
    expect(await failureOf(sh("true", { cwd: "/no/such/folder" }))).toMatchObject({
      code: "command-cwd",
    });
  });

  test("run: many at once → every output complete", async () => {
    const runs = Array.from({ length: 60 }, (_, n) => sh(`echo ${n}; echo e${n} >&2`));
    for (const [n, result] of (await Promise.all(runs)).entries()) {
      expect([result.stdout.toString(), result.stderr]).toEqual([`${n}\n`, `e${n}\n`]);
    }
  });
});

test("baseEnv: a rich environment → only what commands need, plus what is given", () => {
  const from = {
    PATH: "/bin",
    HOME: "/h",
    LC_ALL: "C",
    XDG_CONFIG_HOME: "/x",
    JJ_CONFIG: "/j",
    SSH_AUTH_SOCK: "/s",
    KIKI_INCARNATION_SECRET: "no",
    ANTHROPIC_API_KEY: "no",
    TMUX: "no",
    BUN_OPTIONS: "no",
    GIT_DIR: "no",
    JJ_LOG: "no",
    UNSET: undefined,
  };
  expect(baseEnv({ EXTRA: "1", PATH: "/mine" }, from)).toEqual({
    PATH: "/mine",
    HOME: "/h",
    LC_ALL: "C",
    XDG_CONFIG_HOME: "/x",
    JJ_CONFIG: "/j",
    SSH_AUTH_SOCK: "/s",
    EXTRA: "1",
  });
});

describe("runOnTerminal", () => {
  const show = (script: string, over: () => boolean, timeoutMs = 20_000) =>
    runOnTerminal({ argv: ["sh", "-c", script], cwd: "/", env: ENV, timeoutMs }, over);
  const never = (): boolean => false;

  test("runOnTerminal: a terminal of its own in the foreground; ends by itself → code and what it showed", async () => {
    const script = "test -t 0 && test -t 1 && stty size && echo error: no >&2; exit 3";
    const result = await show(script, never);
    expect(result).toMatchObject({ ended: "itself", code: 3 });
    expect(result.shown.replace(/\r/g, "")).toBe("45 140\nerror: no\n");
  });

  test("runOnTerminal: asks where its cursor is → answered", async () => {
    const result = await show(
      "stty raw -echo; printf '\\033[6n'; answer=$(dd bs=1 count=6 2>/dev/null); stty sane; printf '%s' \"$answer\" | od -c | head -1",
      never,
    );
    expect(result.shown).toContain("033   [   1   ;   1   R");
  });

  test("runOnTerminal: over → ended with its children, also those that ignore SIGTERM; too long → said", async () => {
    const file = `${tempDir("terminal")}/pid`;
    const looked = async (over: () => boolean, timeoutMs: number) => {
      const script = `sh -c 'trap "" TERM HUP; echo $$ >${file}; while :; do sleep 0.1; done'`;
      const { ended, code } = await show(script, over, timeoutMs);
      await gone(Number(readFileSync(file, "utf8")));
      return [ended, code];
    };
    const begun = () => existsSync(file) && readFileSync(file, "utf8") !== "";
    expect(await looked(begun, 20_000)).toEqual(["over", null]);
    expect(await looked(never, 500)).toEqual(["timed-out", null]);
  });

  test("runOnTerminal: no such program → command-missing", async () => {
    const missing = runOnTerminal(
      { argv: ["/no/such"], cwd: "/", env: ENV, timeoutMs: 1_000 },
      never,
    );
    expect(await failureOf(missing)).toMatchObject({ code: "command-missing" });
  });
});

describe("converse", () => {
  const talkTo = <T>(script: string, talk: Parameters<typeof converse<T>>[1], timeoutMs = 20_000) =>
    converse({ argv: ["sh", "-c", script], cwd: "/", env: ENV, timeoutMs }, talk);

  test("converse: lines to and fro, whole ones, then the command is ended with its children", async () => {
    const pid = await talkTo(
      "sleep 600 & echo $!; while read -r l; do printf 'got '; printf '%s é\\n' \"$l\"; done",
      async ({ say, hear }) => {
        const child = Number(await hear());
        say("one");
        say("two");
        expect([await hear(), await hear()]).toEqual(["got one é", "got two é"]);
        return child;
      },
    );
    await gone(pid);
  });

  test("converse: the command ends, or its time is over → null, never a wait for ever", async () => {
    expect(
      await talkTo("echo a; printf torn", async ({ hear }) => [await hear(), await hear()]),
    ).toEqual(["a", null]);
    expect(await talkTo("trap '' TERM; sleep 600", ({ hear }) => hear(), 50)).toBeNull();
  });

  test("converse: what the talk throws → thrown, command ended; no such program → command-missing", async () => {
    let pid = 0;
    const error = await failureOf(
      talkTo("echo $$; sleep 600", async ({ hear }) => {
        pid = Number(await hear());
        throw new Error("enough");
      }),
    );
    expect(error).toMatchObject({ message: "enough" });
    await gone(pid);
    const missing = converse(
      { argv: ["/no/such"], cwd: "/", env: ENV, timeoutMs: 1_000 },
      ({ hear }) => hear(),
    );
    expect(await failureOf(missing)).toMatchObject({ code: "command-missing" });
  });
});
