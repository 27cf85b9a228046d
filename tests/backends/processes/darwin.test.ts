/** What kiki says where there is only `ps`: what it sees, and that it proves nothing. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { darwinProcesses } from "../../../src/backends/processes/darwin.ts";
import { freeze } from "../../../src/lifecycle/freeze.ts";
import { quiescence } from "../../../src/lifecycle/freeze-proof.ts";
import { removeTempDirs } from "../../support/temp.ts";
import { waitFor } from "../../support/wait.ts";
import { Box } from "./rig.ts";

let box: Box;
beforeEach(() => {
  box = new Box();
  box.deps.processes = darwinProcesses;
});
afterEach(async () => {
  await box.end();
});
afterAll(removeTempDirs);

test("ps: own process → in the sample, which is not complete; stop and continue by exact identity", async () => {
  const child = box.stranger(["sleep", "600"]);
  const identity = await waitFor(() => darwinProcesses.identify(child.pid), 5000, "the child");
  const { processes, complete } = darwinProcesses.sample(["A=b"]);
  expect(complete).toBe(false);
  expect(processes.find((p) => p.pid === child.pid)).toMatchObject({
    ...identity,
    parent: process.pid,
    pgid: child.pid,
    mine: true,
    name: "sleep",
    marked: "unreadable",
  });
  expect(darwinProcesses.signal({ ...identity, startTime: "then" }, "SIGSTOP")).toBe("gone");
  const state = () => darwinProcesses.observe(identity).state;
  expect(state()).toBe("running");
  expect(darwinProcesses.signal(identity, "SIGSTOP")).toBe("sent");
  await waitFor(() => state() === "stopped", 5000, "stopped");
  expect(darwinProcesses.signal(identity, "SIGCONT")).toBe("sent");
  await waitFor(() => state() === "running", 5000, "running");
});

test("ps: freeze and quiescence → unknown, nobody signalled, nothing recorded", async () => {
  const unknown = { outcome: "unknown" };
  expect(await freeze(box.deps, box.request)).toMatchObject(unknown);
  expect(await quiescence(box.deps, box.workspace, [])).toMatchObject(unknown);
  expect(box.db.query("SELECT count(*) AS n FROM stopped_processes").get()).toEqual({ n: 0 });
});
