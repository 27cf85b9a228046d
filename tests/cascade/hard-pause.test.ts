/**
 * While a person has to decide, nothing of the agent runs, its harness included: on real jj, a real process tree under
 * kiki's pane wrapper, and real signals.
 */
import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { linuxProcesses } from "../../src/backends/processes/linux.ts";
import { waitFor } from "../support/wait.ts";
import { removeTempDirs } from "../support/temp.ts";
import { busyAgent, type BusyAgent } from "./busy.ts";

const WAIT_MS = 20_000;
setDefaultTimeout(60_000);
let world: BusyAgent | null = null;
afterEach(async () => {
  await world?.end();
  world = null;
});
afterAll(removeTempDirs);

const state = (one: { pid: number; startTime: string }): string =>
  linuxProcesses.observe(one).state;

/** A harness with a background process, and an ignored file where its parent puts one: nothing kiki may decide. */
async function paused(): Promise<BusyAgent & { background: { pid: number; startTime: string } }> {
  const w = await busyAgent(`(while :; do sleep 0.05; done) &\necho $! >$D/background`);
  world = w;
  const background = await w.box.written("background");
  w.rig.repo.write("out.log", "the agent's log\n", w.child.path);
  w.rig.repo.write(".gitignore", "build/\n", w.parent.path);
  w.rig.repo.write("out.log", "the parent's\n", w.parent.path);
  await w.rig.repo.jj(["status"], w.parent.path);
  await w.rig.cascade.refreshToFrontier();
  const answer = await w.rig.agent(w.child).call();
  expect(answer.text).toContain("waits for a person");
  // Before the call has its answer.
  expect([state(w.harness), state(background)]).toEqual(["stopped", "stopped"]);
  return { ...w, background };
}

describe.skipIf(process.platform !== "linux")("a recovery that waits for a person", () => {
  test("→ harness and everything below it stopped, the pane's wrapper not; continued by the repair", async () => {
    const w = await paused();
    const wrapper = linuxProcesses.identify(linuxProcesses.parentOf(w.harness.pid)!)!;
    expect(state(wrapper)).toBe("running");
    const trouble = (await w.rig.cascade.troubles.look(w.child.id))!;
    expect(trouble).toMatchObject({ kind: "recovery", colliding: ["out.log"] });
    const words = await w.rig.cascade.troubles.settle(
      trouble.intentId,
      { do: "drop", paths: ["out.log"] },
      "no approval is asked for that",
    );
    expect(words).toContain("the agent is told at its next call");
    expect([state(w.harness), state(w.background)]).toEqual(["running", "running"]);
    const told = await w.rig.agent(w.child).call();
    expect(told.text).toBe(w.rig.intents(w.child)[0]!.payload);
    expect(w.rig.file(w.child, "out.log")).toBe("the parent's\n");
    expect(w.rig.attention(w.child)).toEqual([]);
  });

  test("a repair that fails → the harness has not moved", async () => {
    const w = await paused();
    const { intentId } = (await w.rig.cascade.troubles.look(w.child.id))!;
    await w.rig.cascade.troubles.settle(intentId, { do: "retry" }, "op");
    expect([state(w.harness), state(w.background)]).toEqual(["stopped", "stopped"]);
  });

  test("daemon restarts → both stay stopped; somebody continues the harness → its next call stops it again", async () => {
    const w = await paused();
    await w.still.resumeAtBoot();
    await w.rig.reboot();
    expect([state(w.harness), state(w.background)]).toEqual(["stopped", "stopped"]);
    process.kill(w.harness.pid, "SIGCONT");
    expect(state(w.harness)).toBe("running");
    expect((await w.rig.agent(w.child).call()).text).toContain("waits for a person");
    await waitFor(() => state(w.harness) === "stopped", WAIT_MS, "the harness stands still");
  });

  test("daemon died before the signal → stopped by the next one's start", async () => {
    const w = await paused();
    await w.still.release(w.rig.intents(w.child)[0]!.intentId);
    expect(state(w.harness)).toBe("running");
    await w.rig.reboot();
    await waitFor(() => state(w.harness) === "stopped", WAIT_MS, "the harness stands still");
  });

  test("a refused tool ran all the same → paused as well", async () => {
    const w = await busyAgent("sleep 1000 &");
    world = w;
    w.rig.repo.write("shared.txt", "parent 1\n", w.parent.path);
    await w.rig.repo.jj(["status"], w.parent.path);
    await w.rig.cascade.refreshToFrontier();
    const agent = w.rig.agent(w.child);
    const answer = await agent.call();
    await agent.close([{ ...answer, got: "it ran" }]);
    await waitFor(() => state(w.harness) === "stopped", WAIT_MS, "the harness stands still");
    expect(w.rig.intents(w.child)[0]!.state).toBe("RecoveryRequired");
  });
});
