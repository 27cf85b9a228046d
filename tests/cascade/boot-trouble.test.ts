/** A start of the daemon in which one step of the recovery fails: the others are done, and that one is tried again. */
import { mkdirSync, rmdirSync } from "node:fs";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { runAgain, runSteps, type BootStep } from "../../src/cascade/boot-steps.ts";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { FakeClock } from "../fakes/clock.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makeRig, REPO_ID, type Rig } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

test("one thread's spool cannot be read at boot → operations are read all the same, others are told; its own once it can", async () => {
  const rig = await makeRig({ settings: { pollMs: 200 } });
  rigs.push(rig);
  const parent = await rig.thread("parser");
  const [blocked, other] = [await rig.thread("blocked", parent), await rig.thread("other", parent)];
  rig.repo.write("parser.txt", "one\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
  for (const child of [blocked, other]) {
    await rig.agent(child).call();
    expect(rig.intents(child)[0]!.state).toBe("Delivered");
  }

  const { spool } = threadPaths(rig.stateDir, REPO_ID, blocked.id);
  const odd = `${spool}/000000000000001-1-0.json`;
  mkdirSync(odd, { recursive: true });
  await rig.reboot();
  expect(rig.cascade.watching().reason).not.toBe("not started");
  rig.repo.write("parser.txt", "two\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  await waitFor(() => rig.intents(other).length === 2, 20_000, "the parent's next move is noticed");

  // Its own calls have no answer that counts meanwhile: the hook goes by the marker.
  expect(rig.barrier(blocked)).toBe(true);
  expect(await failureOf(rig.agent(blocked).ask("toolu_early"))).toMatchObject({ code: "EISDIR" });
  expect(rig.attention(blocked)).toHaveLength(1);
  rmdirSync(odd);
  expect((await rig.agent(blocked).call()).text).not.toBeNull();
  await waitFor(() => rig.attention(blocked).length === 0, 20_000, "taken up, and said no more");
});

test("what the daemon before had running cannot be looked at → nobody is resumed beside it; once it can, all in order", async () => {
  const clock = new FakeClock();
  const said: string[] = [];
  const line = (text: string): void => void said.push(text);
  const deps = { clock, log: { info: line, error: line } } as unknown as CascadeDeps;
  const done: string[] = [];
  let blind = true;
  const step = (what: string, more: Partial<BootStep> = {}): BootStep => ({
    threadId: null,
    what,
    run: () => void done.push(what),
    ...more,
  });
  const look = (): void => {
    if (blind) throw new Error("EIO");
    done.push("running");
  };
  const steps = [step("running", { gate: true, run: look }), step("thread a"), step("agents")];
  const failed = await runSteps(deps, steps);
  expect(done).toEqual([]);
  expect(said).toEqual(["recovery of running failed and is tried again"]);
  const again = runAgain(deps, failed, new AbortController().signal);
  blind = false;
  clock.advance(5_000);
  await again;
  expect(done).toEqual(["running", "thread a", "agents"]);
});
