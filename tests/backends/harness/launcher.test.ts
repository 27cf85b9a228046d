/** The generated launcher, run by real shells, around sidecars that live and die in every way. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { launcherText, shellQuote } from "../../../src/backends/harness/launcher.ts";
import {
  denyVerdict,
  GENERIC_DENY_REASON,
  genericDenyOutput,
} from "../../../src/core/generic-deny.ts";
import {
  HookBox,
  hookCommand,
  INCARNATION,
  preToolUse,
  runProgram,
  SECRET,
  type HookResult,
} from "../../support/hook-runner.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

const SHELLS = ["/bin/sh", "/bin/dash", "/bin/bash"].filter(
  (path, i, all) =>
    existsSync(path) && (i === 0 || realpathSync(path) !== realpathSync(all[0] ?? "")),
);
const PAYLOAD = preToolUse("toolu_7", { text: "é 🚀 'quoted' \\n $HOME `x`" });

/** A thread's harness folder, its name full of what shells trip over, and a stand-in for kk-hook. */
class Launch {
  readonly root = tempDir("launcher");
  readonly folder = join(this.root, 'it\'s a $(harness) "folder"');
  readonly sidecar = join(this.folder, "kk hook");
  readonly errorLog = join(this.root, "errors", "thread.log");
  env: Record<string, string> = {
    PATH: process.env["PATH"] ?? "/usr/bin:/bin",
    HOME: this.root,
    KIKI_INCARNATION_SECRET: SECRET,
  };

  constructor() {
    mkdirSync(this.folder, { mode: 0o700 });
    this.write({});
  }

  write(hook: { executable?: string; socket?: string; credentialFile?: string }): void {
    const text = launcherText({
      incarnation: INCARNATION,
      hook: {
        executable: this.sidecar,
        socket: join(this.root, "kkd.sock"),
        credentialFile: join(this.root, "credential"),
        errorLog: this.errorLog,
        passedFolder: this.path("passed"),
        spoolFolder: this.path("spool"),
        barrierFile: this.path("barrier"),
        kk: join(this.root, "kk"),
        stateDir: this.root,
        ...hook,
      },
    });
    writeFileSync(this.path("hook"), text);
    chmodSync(this.path("hook"), 0o700);
  }

  /** Body of a shell script that stands for kk-hook. */
  stand(body: string): void {
    writeFileSync(this.sidecar, `#!/bin/sh\n${body}\n`);
    chmodSync(this.sidecar, 0o700);
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  names(name: string): string[] {
    return existsSync(this.path(name)) ? readdirSync(this.path(name)) : [];
  }

  log(): string {
    return existsSync(this.errorLog) ? readFileSync(this.errorLog, "utf8") : "";
  }

  run(shell: string | null, event = "PreToolUse", payload = PAYLOAD): Promise<HookResult> {
    const argv = [...(shell === null ? [] : [shell]), this.path("hook"), event];
    return runProgram(argv, payload, this.env, this.root);
  }
}

test("shellQuote: any text → one word, unchanged", async () => {
  const text = 'a\'b "c" $HOME `id` \\ \n*?[x] é🚀 -n';
  const result = await runProgram(["/bin/sh", "-c", `printf %s ${shellQuote(text)}`], "", {}, "/");
  expect(result.stdout).toBe(text);
});

for (const shell of SHELLS) {
  describe(`launcher under ${shell}`, () => {
    let launch: Launch;
    beforeEach(() => {
      launch = new Launch();
    });

    test("exit 10 → exit 0, silent, payload and inputs handed on, BUN_* gone", async () => {
      launch.stand(`cat > got.json; env > got.env; printf '%s\\n' "$@" > got.args; exit 10`);
      launch.env = {
        ...launch.env,
        BUN_OPTIONS: "--preload=/x.ts",
        BUN_BE_BUN: "1",
        NODE_OPTIONS: "--x",
        KIKI_HOOK_SOCKET: "/somebody/else",
      };
      const result = await launch.run(shell);
      expect([result.code, result.stdout, result.stderr]).toEqual([0, "", ""]);
      expect(readFileSync(join(launch.root, "got.json"), "utf8")).toBe(PAYLOAD);
      expect(readFileSync(join(launch.root, "got.args"), "utf8")).toBe("PreToolUse\n");
      const env = readFileSync(join(launch.root, "got.env"), "utf8").split("\n");
      for (const line of [
        `KIKI_HOOK_SOCKET=${join(launch.root, "kkd.sock")}`,
        `KIKI_HOOK_BARRIER=${launch.path("barrier")}`,
        `KIKI_HOOK_PASSED=${launch.path("passed")}`,
        `KIKI_INCARNATION=${INCARNATION}`,
        `KIKI_INCARNATION_SECRET=${SECRET}`,
        `KIKI_BIN=${join(launch.root, "kk")}`,
      ]) {
        expect(env).toContain(line);
      }
      expect(env.filter((line) => /^(BUN_|NODE_OPTIONS)/.test(line))).toEqual([]);
      expect(launch.names("passed")).toEqual([]);
    });

    test("exit 11 → the verdict byte for byte, exit 0", async () => {
      const verdict = denyVerdict("lines\n  and 'quotes' \\ $HOME `x` é 🚀 % %s \t end");
      writeFileSync(join(launch.root, "verdict"), verdict);
      launch.stand(`cat >/dev/null; cat ${shellQuote(join(launch.root, "verdict"))}; exit 11`);
      const result = await launch.run(shell);
      expect([result.code, result.stdout]).toEqual([0, `${verdict}\n`]);
    });

    test("exit 11 with no, broken or foreign output → generic deny", async () => {
      for (const output of ["", '{"hookSpecificOutput":{"trunc', "no verdict", "{}"]) {
        launch.stand(`cat >/dev/null; printf '%s' ${shellQuote(output)}; exit 11`);
        const result = await launch.run(shell);
        expect([output, result.code, result.stdout]).toEqual([
          output,
          0,
          `${genericDenyOutput()}\n`,
        ]);
      }
    });

    /** Every way to die: what the sidecar is, and whether its payload can still be read. */
    const deaths: Record<string, { stand: (l: Launch) => void; unread: boolean }> = {
      missing: { stand: () => undefined, unread: true },
      "not executable": {
        stand: (l) => {
          l.stand("exit 10");
          chmodSync(l.sidecar, 0o600);
        },
        unread: true,
      },
      "killed by SIGKILL": { stand: (l) => l.stand("cat >/dev/null; kill -9 $$"), unread: false },
      "garbage with exit 0": {
        stand: (l) => l.stand(`cat >/dev/null; echo '{"hookSpecificOutput":{}}'; exit 0`),
        unread: false,
      },
      "exit 1": { stand: (l) => l.stand("cat >/dev/null; echo oops; exit 1"), unread: false },
    };
    for (const [name, death] of Object.entries(deaths)) {
      test(`sidecar ${name}, no barrier → pass, record and one log line`, async () => {
        death.stand(launch);
        const result = await launch.run(shell);
        expect([result.code, result.stdout]).toEqual([0, ""]);
        const names = launch.names("passed");
        expect(names).toHaveLength(1);
        expect(names[0]).toMatch(new RegExp(`^${INCARNATION}\\.\\d+$`));
        const record = join(launch.path("passed"), names[0] ?? "");
        expect(statSync(record).mode & 0o777).toBe(0o600);
        expect(readFileSync(record, "utf8")).toBe(death.unread ? PAYLOAD : "");
        expect(launch.log()).toMatch(
          /^\d{4}-\d\d-\d\dT[\d:]+Z PreToolUse - passed without asking: kk-hook ended with \d+\n$/,
        );
      });

      test(`sidecar ${name}, barrier up → generic deny, no record, no log`, async () => {
        death.stand(launch);
        writeFileSync(launch.path("barrier"), "");
        const result = await launch.run(shell);
        expect([result.code, result.stdout]).toEqual([0, `${genericDenyOutput()}\n`]);
        expect(launch.names("passed")).toEqual([]);
        expect(launch.log()).toBe("");
      });
    }

    test("another event, sidecar missing → spooled from the launcher, exit 0, silent", async () => {
      const result = await launch.run(shell, "PostToolBatch");
      expect([result.code, result.stdout]).toEqual([0, ""]);
      const names = launch.names("spool");
      expect(names).toHaveLength(1);
      expect(names[0]).toMatch(/^\d{15}-\d+-0\.json$/);
      expect(JSON.parse(readFileSync(join(launch.path("spool"), names[0] ?? ""), "utf8"))).toEqual({
        incarnation: INCARNATION,
        secret: SECRET,
        event: JSON.parse(PAYLOAD),
      });
    });

    test("another event, sidecar killed under a barrier → exit 0, silent, logged", async () => {
      writeFileSync(launch.path("barrier"), "");
      launch.stand("cat >/dev/null; echo noise; kill -9 $$");
      const result = await launch.run(shell, "PostToolBatch");
      expect([result.code, result.stdout]).toEqual([0, ""]);
      expect([launch.names("spool"), launch.names("passed")]).toEqual([[], []]);
      expect(launch.log()).toContain("PostToolBatch - event lost");
    });

    test("stop, whatever kk-hook says or how it ends → exit 0, silent: the stop is never blocked", async () => {
      writeFileSync(launch.path("barrier"), "");
      for (const body of ["echo noise; exit 11", "echo noise; exit 2", "echo noise; kill -9 $$"]) {
        launch.stand(`cat >/dev/null; ${body}`);
        const result = await launch.run(shell, "Stop");
        expect([result.code, result.stdout]).toEqual([0, ""]);
      }
    });

    test("command in a skill → silent without a barrier, denied with one, kk-hook not asked", async () => {
      launch.stand("echo asked > asked; exit 1");
      expect(await launch.run(shell, "PreSkillShellCommand")).toMatchObject({
        code: 0,
        stdout: "",
      });
      writeFileSync(launch.path("barrier"), "");
      const result = await launch.run(shell, "PreSkillShellCommand");
      expect([result.code, result.stdout]).toEqual([
        0,
        `${denyVerdict(GENERIC_DENY_REASON, "PreSkillShellCommand")}\n`,
      ]);
      expect(existsSync(join(launch.root, "asked"))).toBe(false);
    });

    test("nowhere to write at all → still pass; under a barrier still deny", async () => {
      writeFileSync(launch.path("passed"), "a file, not a folder");
      writeFileSync(join(launch.root, "errors"), "a file, not a folder");
      writeFileSync(launch.path("spool"), "a file, not a folder");
      expect(await launch.run(shell)).toMatchObject({ code: 0, stdout: "" });
      expect(await launch.run(shell, "Stop")).toMatchObject({ code: 0, stdout: "" });
      writeFileSync(launch.path("barrier"), "");
      expect(await launch.run(shell)).toMatchObject({
        code: 0,
        stdout: `${genericDenyOutput()}\n`,
      });
    });

    test("state folder removed → pass, no PATH needed", async () => {
      launch.env = { KIKI_INCARNATION_SECRET: SECRET };
      const text = readFileSync(launch.path("hook"), "utf8");
      const elsewhere = join(launch.root, "copy");
      writeFileSync(elsewhere, text);
      rmSync(launch.folder, { recursive: true });
      const argv = [shell, elsewhere, "PreToolUse"];
      const result = await runProgram(argv, PAYLOAD, launch.env, launch.root);
      expect([result.code, result.stdout]).toEqual([0, ""]);
      expect(launch.names("passed")).toHaveLength(1);
    });
  });
}

describe("launcher and the real kk-hook", () => {
  test("run as the harness runs it: daemon passes, denies, is gone → pass, verdict, record", async () => {
    const launch = new Launch();
    const box = new HookBox();
    try {
      const command = hookCommand();
      if (command.length === 1) launch.write({ executable: command[0] ?? "", socket: box.socket });
      else {
        launch.write({ socket: box.socket });
        launch.stand(`exec ${command.map(shellQuote).join(" ")} "$@"`);
      }
      let decision: unknown = { decision: "pass" };
      box.serve(() => Response.json(decision));
      expect(await launch.run(null)).toMatchObject({ code: 0, stdout: "" });
      expect(box.received[0]?.body).toBe(
        `{"incarnation":"${INCARNATION}","secret":"${SECRET}","event":${PAYLOAD}}`,
      );
      const output = denyVerdict("because 'x' é");
      decision = { decision: "deny", output };
      expect(await launch.run(null)).toMatchObject({ code: 0, stdout: `${output}\n` });
    } finally {
      await box.close();
    }
    expect(await launch.run(null)).toMatchObject({ code: 0, stdout: "" });
    expect(launch.names("passed")).toHaveLength(1);
    expect(launch.log()).toContain("toolu_7 passed without asking: daemon: unreachable");
  });
});
