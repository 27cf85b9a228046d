/** Set-up recipes and `kk repair` as a person meets them: the real binary, real jj, git and tmux. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Output } from "../../src/rpc/contract/methods.ts";
import { processesOfFolder } from "../support/leftover-processes.ts";
import { thorough } from "../support/thorough.ts";
import { runInPane } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let w: World;
let brokenAgent: string;

beforeAll(async () => {
  w = await initialised({ files: { "base.txt": "base\n", ".gitignore": ".env\nmade/\n" } });
  mkdirSync(w.stateDir, { recursive: true });
  brokenAgent = join(w.dir, "broken-agent");
  mkdirSync(brokenAgent);
  const script = `[ "$1" = --version ] && { echo "2.1.332 (Claude Code)"; exit 0; }\necho "no license" >&2\nexit 3`;
  writeFileSync(join(brokenAgent, "claude"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(brokenAgent, "claude"), 0o755);
});
afterAll(() => w.close());

type Diagnosis = Output<"DiagnoseRepair">["diagnoses"][number];

function configure(text: string): void {
  writeFileSync(join(w.stateDir, "config.toml"), text);
}

/** Runs `kk` on a terminal of its own and says yes. */
async function agreed(args: readonly string[], env: Record<string, string> = {}) {
  const pane = runInPane({
    socket: w.tmux.socket,
    env: { ...w.env, ...env },
    cwd: w.repo.root,
    command: ["kk", ...args],
    outside: true,
  });
  await pane.waitForText(/\[y\/N\]/, 60_000);
  pane.type("y");
  pane.enter();
  return { code: await pane.exitCode(60_000), text: pane.history() };
}

async function diagnosis(name: string): Promise<Diagnosis> {
  const { stdout } = await w.kk(["repair", name, "--json"]);
  return (JSON.parse(stdout) as { diagnoses: Diagnosis[] }).diagnoses[0]!;
}

const failing = (name: string) =>
  agreed(["new", name], { PATH: `${brokenAgent}:${w.env["PATH"]}` });

describe("set-up recipe", () => {
  test("recipe of the repository → files and command named in the plan, done before the agent starts; a change of it is said", async () => {
    writeFileSync(join(w.repo.root, ".env"), "KEY=1\n");
    const shared = join(w.repo.root, ".kiki.toml");
    const plan = async (): Promise<string> => (await w.kk(["new", "planned"])).stdout;
    writeFileSync(
      shared,
      '[setup]\ncopy = [".env"]\nrun = "echo hello; mkdir made; pwd > made/where"\n',
    );
    const { code, text } = await agreed(["new", "fresh", "--detach"]);
    expect([code, text]).toEqual([0, expect.stringContaining("copies     .env")]);
    expect(text).toContain("you are asked about this recipe for the first time");
    expect(text).toContain("runs       echo hello; mkdir made; pwd > made/where");
    const { workspacePath, attention } = await w.state("fresh");
    expect(readFileSync(join(workspacePath, ".env"), "utf8")).toBe("KEY=1\n");
    expect(readFileSync(join(workspacePath, "made/where"), "utf8")).toBe(`${workspacePath}\n`);
    expect(attention).toEqual([]);
    expect(await plan()).toContain("the same as last agreed to");
    writeFileSync(shared, '[setup]\nrun = "true"\n');
    expect(await plan()).toContain("CHANGED since a recipe of it was last agreed to");
    writeFileSync(shared, "");
  });

  thorough(
    "command fails and leaves a process behind → thread Active, warning with the log in kk new and kk status, nothing runs on",
    async () => {
      configure('[setup]\nrun = "sleep 300 & echo no network >&2; exit 9"\n');
      const { code, text } = await agreed(["new", "warned", "--detach"]);
      expect(code).toBe(0);
      expect(text.replaceAll("\n", " ")).toMatch(
        /! "warned": the set-up recipe failed \(exit code 9\)/,
      );
      const { stdout } = await w.kk(["status", "warned", "--no-jj"]);
      const log = /^issue .*setup-failed: .*no network — log: (.*)$/m.exec(stdout)?.[1];
      expect(stdout).toMatch(/^lifecycle {3}Active$/m);
      expect(readFileSync(log!, "utf8")).toMatch(
        /^kiki: runs sleep 300 .*\nno network\nkiki: left running, and ended, process \d+\nkiki: the recipe failed \(exit code 9\)$/m,
      );
      const { workspacePath } = await w.state("warned");
      expect(processesOfFolder(workspacePath, "sleep")).toEqual([]);
    },
  );

  thorough(
    "runs longer than its limit → progress says what runs; ended, warning, Active",
    async () => {
      configure('[setup]\nrun = "sleep 300"\ntimeout_s = 1\n');
      const { code, text } = await agreed(["new", "slow", "--detach"]);
      expect(code).toBe(0);
      expect(text).toContain("… setup: sleep 300 — log: ");
      expect(text.replaceAll("\n", " ")).toContain("the set-up recipe was ended after 1 s");
    },
  );
});

describe("kk repair", () => {
  beforeAll(() => configure(""));

  test("nothing wrong → says so, exit 0; with --all too", async () => {
    const one = await w.kk(["repair", "fresh"]);
    expect([one.code, one.stdout]).toEqual([0, expect.stringContaining("nothing to repair")]);
    expect(await w.kk(["repair", "--all"])).toMatchObject({
      code: 0,
      stdout: "nothing to repair\n",
    });
  });

  test("failed creation → recorded, observed, two plans with ids, exit 6; looking twice gives the same ids", async () => {
    expect((await failing("broken")).code).toBe(1);
    const shown = await w.kk(["repair", "broken"]);
    expect([shown.code, shown.stderr]).toEqual([6, ""]);
    expect(shown.stdout).toMatch(/^ {2}! lifecycle +CreateFailed$/m);
    expect(shown.stdout).toMatch(/^ {2}✓ bookmark +none$/m);
    expect(shown.stdout).toMatch(/^repair [0-9a-f]{12} {2}creation-retry: /m);
    expect(await w.kk(["repair", "broken"])).toEqual(shown);
    expect((await w.kk(["repair", "--all"])).stdout).toBe(shown.stdout);
    const status = await w.kk(["status", "broken"]);
    expect(status.stdout).toMatch(/^next +mend what it says, then kk repair broken$/m);
  });

  test("--apply without a terminal → the plan, exit 4, nothing changed; an unknown id → exit 6", async () => {
    const before = await diagnosis("broken");
    const retry = before.plans.find((plan) => plan.kind === "creation-retry")!;
    const refused = await w.kk(["repair", "broken", "--apply", retry.id]);
    expect([refused.code, refused.stdout]).toEqual([
      4,
      expect.stringContaining('Make thread "broken" once more'),
    ]);
    expect(await diagnosis("broken")).toEqual(before);
    expect(await w.kk(["repair", "broken", "--apply", "000000000000"])).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("there is no repair 000000000000"),
    });
  });

  test("retry → Active under the same id and name, with the agent that works now", async () => {
    const { threadId } = (await w.state("broken")).summary;
    const retry = (await diagnosis("broken")).plans.find((p) => p.kind === "creation-retry")!;
    const { code, text } = await agreed(["repair", "broken", "--apply", retry.id]);
    expect([code, text]).toEqual([0, expect.stringContaining("created broken")]);
    const { summary, attention, workspacePath } = await w.state("broken");
    expect([summary.threadId, summary.lifecycle, attention]).toEqual([threadId, "Active", []]);
    expect(existsSync(workspacePath)).toBe(true);
    expect((await w.kk(["repair", "broken"])).code).toBe(0);
  });

  test("clean-up → gone from every list, and the name is free", async () => {
    expect((await failing("spoilt")).code).toBe(1);
    const cleanup = (await diagnosis("spoilt")).plans.find((p) => p.kind === "creation-cleanup")!;
    const { code, text } = await agreed(["repair", "spoilt", "--apply", cleanup.id]);
    expect([code, text]).toEqual([
      0,
      expect.stringContaining("spoilt is gone; its names are free"),
    ]);
    expect((await w.threads()).map((t) => t.name)).not.toContain("spoilt");
    expect((await w.kk(["status", "spoilt"])).code).toBe(3);
    const again = await w.newThread(["spoilt"]);
    expect([again.name, again.bookmark, again.lifecycle]).toEqual([
      "spoilt",
      "kk/spoilt",
      "Active",
    ]);
  });

  test("--all with a thread → usage; a thread nobody knows → not found", async () => {
    expect((await w.kk(["repair", "--all", "broken"])).code).toBe(2);
    expect((await w.kk(["repair", "nobody"])).code).toBe(3);
  });

  test("session killed by hand → observed, said that there is no repair yet, exit 6", async () => {
    const { tmuxSessionId } = (await w.state("spoilt")).summary;
    w.tmux.ok("kill-session", "-t", tmuxSessionId!);
    const shown = await waitFor(
      async () => {
        const result = await w.kk(["repair", "spoilt"]);
        return result.code === 6 ? result : null;
      },
      10_000,
      "the session is missed",
    );
    expect(shown.stdout).toMatch(/^ {2}! SessionMissing +there is no tmux session /m);
    expect(shown.stdout).toContain("note  this version has no repair for it");
  });
});
