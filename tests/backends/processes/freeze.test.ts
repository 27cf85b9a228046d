/** Freezing real process trees below kiki's pane wrapper in real tmux. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { linuxProcesses } from "../../../src/backends/processes/linux.ts";
import { freeze, type FreezeOutcome } from "../../../src/lifecycle/freeze.ts";
import { verifyFrozen } from "../../../src/lifecycle/freeze-proof.ts";
import { resume } from "../../../src/lifecycle/freeze-resume.ts";
import { heldBy } from "../../../src/store/stopped-processes.ts";
import { removeTempDirs } from "../../support/temp.ts";
import { waitFor } from "../../support/wait.ts";
import { Box, keys } from "./rig.ts";

const LINUX = process.platform === "linux";
let box: Box;
beforeEach(() => {
  if (LINUX) box = new Box();
});
afterEach(async () => {
  if (LINUX) await box.end();
});
afterAll(removeTempDirs);

async function frozen(): Promise<Extract<FreezeOutcome, { outcome: "frozen" }>> {
  const outcome = await freeze(box.deps, box.request);
  if (outcome.outcome !== "frozen") throw new Error(JSON.stringify(outcome));
  return outcome;
}

/**
 * That nothing is written cannot be waited for, only looked for: for a second, which is a hundred times the period of
 * every writer here, all the while giving tmux reasons to look at its panes.
 */
async function expectStill(files: string[]): Promise<void> {
  const before = files.map((file) => box.size(file));
  const until = performance.now() + 1000;
  while (performance.now() < until) {
    box.screen();
    expect(await verifyFrozen(box.deps, box.request)).toEqual({ outcome: "held" });
    expect(files.map((file) => box.size(file))).toEqual(before);
    await Bun.sleep(50);
  }
}

describe.skipIf(!LINUX)("freeze on Linux under tmux", () => {
  test("three levels forking all the time → fixed point, nothing written for a second, resume → all go on", async () => {
    const level = (n: number): string =>
      n === 0
        ? ""
        : `( ${level(n - 1)} while :; do ( echo x >>$D/c${n}; : ) & sleep 0.01; done ) &`;
    await box.pane(`${level(3)} wait`);
    const files = ["c1", "c2", "c3"];
    await waitFor(() => files.every((file) => box.size(file) > 20), 10_000, "all levels writing");

    const { frozen: stopped } = await frozen();
    expect(stopped.length).toBeGreaterThanOrEqual(4);
    expect(heldBy(box.db, box.request.owner).every((row) => row.state === "Stopped")).toBe(true);
    await expectStill(files);

    const outcome = await resume(box.deps, box.request.owner);
    expect(outcome).toEqual({ resumed: true, lost: [], moved: [], stuck: [] });
    const before = files.map((file) => box.size(file));
    await waitFor(() => files.every((f, i) => box.size(f) > before[i]! + 20), 10_000, "all again");
    expect(heldBy(box.db, box.request.owner)).toEqual([]);
  });

  test("process that leaves a copy of itself and ends, over and over, in new sessions → caught all the same", async () => {
    box.file("hop", `#!/bin/sh\necho x >>$D/hops; sleep 0.005; setsid $D/hop & exit 0\n`, 0o755);
    await box.pane("$D/hop; exec sleep 600");
    await waitFor(() => box.size("hops") > 20, 10_000, "hopping");
    await frozen();
    await expectStill(["hops"]);
    await resume(box.deps, box.request.owner);
    const before = box.size("hops");
    await waitFor(() => box.size("hops") > before + 10, 10_000, "hopping again");
  });

  test("daemon of its own session whose parents have ended → found by the environment, stopped and continued", async () => {
    await box.pane(
      `(setsid sh -c 'echo $$ >$D/daemon; while :; do echo x >>$D/d; sleep 0.01; done' & ) ; exec sleep 600`,
    );
    const daemon = await box.written("daemon");
    await waitFor(
      () => linuxProcesses.parentOf(daemon.pid) === 1 && box.size("d") > 10,
      10_000,
      "it",
    );
    const { frozen: stopped } = await frozen();
    expect(keys(stopped)).toContain(keys([daemon])[0]!);
    await expectStill(["d"]);
    await resume(box.deps, box.request.owner);
    expect(box.state(daemon)).toBe("running");
  });

  test("orphan that cleaned its environment but stayed in the pane's session → found by the session", async () => {
    await box.pane(`(env -i sh -c 'echo $$ >"$0"/orphan; exec sleep 600' $D & ) ; exec sleep 600`);
    const orphan = await box.written("orphan");
    await waitFor(() => linuxProcesses.parentOf(orphan.pid) === 1, 10_000, "an orphan");
    expect(keys((await frozen()).frozen)).toContain(keys([orphan])[0]!);
  });

  test("job that was stopped before → recorded so, still stopped after resume; the others run", async () => {
    await box.pane(
      // Who starts it continues its group once, at the beginning: it stops again until it was seen.
      `sh -c 'echo $$ >$D/stopped; until [ -e $D/seen ]; do kill -STOP $$; done; echo x >$D/woke; exec sleep 600' &
       sh -c 'echo $$ >$D/running; exec sleep 600' & exec sleep 600`,
    );
    const [halted, running] = [await box.written("stopped"), await box.written("running")];
    await waitFor(() => box.state(halted) === "stopped", 5000, "the job stopped");
    box.file("seen", "");
    await frozen();
    const rows = heldBy(box.db, box.request.owner);
    expect(rows.filter((row) => row.wasStopped).map((row) => row.pid)).toEqual([halted.pid]);
    expect((await resume(box.deps, box.request.owner)).resumed).toBe(true);
    expect([box.state(halted), box.state(running)]).toEqual(["stopped", "running"]);
    expect(box.size("woke")).toBe(0);
  });

  test("interactive shell with a job in the foreground → after resume the job has the terminal as before", async () => {
    box.file(".bashrc", "PS1='ready> '\n");
    const pane = await box.pane("exec bash -i");
    await pane.waitForText(/^ready>/m);
    pane.type("cat");
    pane.enter();
    pane.type("one");
    pane.enter();
    await pane.waitForText(/one\none/);
    expect((await frozen()).frozen).toHaveLength(2);
    await resume(box.deps, box.request.owner);
    pane.type("two");
    pane.enter();
    await pane.waitForText(/two\ntwo/);
    expect(pane.history()).not.toMatch(/Stopped/);
  });

  test("parent caught in the middle of its vfork → counts as still, both go on afterwards", async () => {
    const fifo = join(box.dir, "fifo");
    expect(Bun.spawnSync(["mkfifo", fifo]).exitCode).toBe(0);
    const standin = join(import.meta.dir, "../../support/vfork-standin.ts");
    await box.pane(`exec ${process.execPath} ${standin} $D/fifo $D/parent $D/spawned`);
    const parent = await box.written("parent");
    // Its child waits for a writer of the pipe, before it has become another program.
    const inVfork = () => readFileSync(`/proc/${parent.pid}/stat`, "utf8").includes(") D ");
    await waitFor(inVfork, 10_000, "the parent waiting for its child");
    const { frozen: stopped } = await frozen();
    expect(stopped).toHaveLength(2);
    expect(inVfork()).toBe(true);
    expect(box.state(parent)).toBe("stopped");
    expect((await resume(box.deps, box.request.owner)).resumed).toBe(true);
    writeFileSync(fifo, "");
    await box.until("spawned");
  });

  test("hook chain and harness are left running, what else the harness started is not", async () => {
    const launcher = box.file(
      "hook",
      `#!/bin/sh\necho $$ >$D/hook-$1; x=$(sleep 600; echo) ; exit 0\n`,
      0o755,
    );
    box.request.launchers = [launcher];
    await box.pane(
      `echo $$ >$D/harness; $D/hook PreToolUse & sh -c "'$D/hook' Stop" &
       sh -c 'echo $$ >$D/tool; : '"$D/hook"'; while :; do echo x >>$D/t; sleep 0.01; done' & wait`,
    );
    const [pre, stop, tool] = [
      await box.written("hook-PreToolUse"),
      await box.written("hook-Stop"),
      await box.written("tool"),
    ];
    const harness = await box.written("harness");
    box.request.keep = [{ process: harness, reach: "itself", why: "the harness" }];
    await waitFor(() => box.size("t") > 5, 5000, "the tool writing");
    const outcome = await frozen();
    expect(outcome.frozen.map((process) => process.pid)).toContain(tool.pid);
    for (const process of [pre, stop, harness]) expect(box.state(process)).toBe("running");
    const whys = outcome.kept.map((kept) => kept.why);
    expect(whys.filter((why) => why === "a hook of the harness").length).toBeGreaterThanOrEqual(4);
    expect(whys).toContain("the harness");
    await expectStill(["t"]);
  });

  test("tree that a stranger ended meanwhile → resumed, and the missing one is named", async () => {
    await box.pane(`sh -c 'echo $$ >$D/victim; exec sleep 600' & exec sleep 601`);
    const victim = await box.written("victim");
    await frozen();
    process.kill(victim.pid, "SIGKILL");
    await waitFor(() => box.state(victim) === "gone", 5000, "the victim gone");
    expect(await verifyFrozen(box.deps, box.request)).toMatchObject({
      outcome: "broken",
      gone: [victim],
    });
    const outcome = await resume(box.deps, box.request.owner);
    expect(outcome).toEqual({ resumed: true, lost: [victim], moved: [], stuck: [] });
  });
});
