/** jj, git and holders of their locks are waited for, never stopped: a stopped one blocks every jj command. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { linuxProcesses } from "../../../src/backends/processes/linux.ts";
import type { Processes, ProcessIdentity } from "../../../src/ports/processes.ts";
import { freeze } from "../../../src/lifecycle/freeze.ts";
import { heldBy } from "../../../src/store/stopped-processes.ts";
import { makeRepo, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs } from "../../support/temp.ts";
import { waitFor } from "../../support/wait.ts";
import { Box, keys } from "./rig.ts";

const LINUX = process.platform === "linux";
let box: Box;
let repo: TestRepo;
/** pid → the signals it got. */
let signalled: Map<number, string[]>;

beforeEach(async () => {
  if (!LINUX) return;
  box = new Box();
  repo = await makeRepo();
  signalled = new Map();
  const processes: Processes = {
    ...linuxProcesses,
    signal(target, signal) {
      signalled.set(target.pid, [...(signalled.get(target.pid) ?? []), signal]);
      return linuxProcesses.signal(target, signal);
    },
  };
  box.deps.processes = processes;
});
afterEach(async () => {
  if (LINUX) await box.end();
});
afterAll(removeTempDirs);

const lockFile = (): string => join(repo.root, ".jj/working_copy/working_copy.lock");

/** Holds the working copy's lock as jj does (flock on the file) until `go` appears, then runs on. */
const HOLDER = `sh -c 'exec 9>>"$0"; flock 9; echo $$ >$D/holder; while [ ! -e $D/go ]; do sleep 0.02; done;
  rm "$0"; exec 9>&-; echo x >$D/released; exec sleep 600' `;

async function untilJj(): Promise<ProcessIdentity> {
  return waitFor(
    () =>
      linuxProcesses
        .sample(box.request.marks)
        .processes.find((p) => p.marked === "yes" && p.name === "jj"),
    10_000,
    "a jj of the pane",
  );
}

describe.skipIf(!LINUX)("draining on Linux", () => {
  test("jj blocked on a lock that a member holds → neither is stopped before both are through; then kiki's jj works", async () => {
    const env = Object.entries(repo.env)
      .map(([name, value]) => `${name}='${value}'`)
      .join(" ");
    await box.pane(
      `${HOLDER} '${lockFile()}' & while [ ! -e $D/holder ]; do sleep 0.02; done
       env ${env} jj -R '${repo.root}' --no-pager st >$D/st 2>&1; echo $? >$D/code; exec sleep 601`,
    );
    const [holder, jj] = [await box.written("holder"), await untilJj()];
    box.request.drainMs = 20_000;
    const freezing = freeze(box.deps, box.request);
    await waitFor(() => linuxProcesses.openLocks(holder)?.length === 1, 5000, "the lock seen");
    writeFileSync(join(box.dir, "go"), "");
    const outcome = await freezing;
    expect(outcome).toMatchObject({ outcome: "frozen" });
    if (outcome.outcome !== "frozen") return;
    // jj ended by itself, with success; the holder was stopped only as the ordinary process it was afterwards.
    expect(signalled.get(jj.pid)).toBeUndefined();
    expect(existsSync(join(box.dir, "released"))).toBe(true);
    expect(keys(outcome.frozen)).toContain(keys([holder])[0]!);
    expect(await repo.tryJj(["st"])).toMatchObject({ code: 0 });
  });

  test("lock that is never given back → not drained, named; everything that was stopped goes on", async () => {
    await box.pane(
      `${HOLDER} '${lockFile()}' & sh -c 'echo $$ >$D/other; while :; do echo x >>$D/o; sleep 0.01; done' & wait`,
    );
    const [holder, other] = [await box.written("holder"), await box.written("other")];
    box.request.drainMs = 1_000;
    const outcome = await freeze(box.deps, box.request);
    expect(outcome).toMatchObject({ outcome: "not-drained", resumed: { resumed: true, lost: [] } });
    if (outcome.outcome !== "not-drained") return;
    // A short-lived child of the holder has the descriptor too.
    expect(keys(outcome.processes)).toContain(keys([holder])[0]!);
    expect(keys(outcome.processes)).not.toContain(keys([other])[0]!);
    expect(signalled.get(holder.pid)).toBeUndefined();
    // Half of the time everything else stood still, in case it was the one to take the next lock.
    expect(signalled.get(other.pid)).toEqual(["SIGSTOP", "SIGCONT"]);
    const before = box.size("o");
    await waitFor(() => box.size("o") > before, 5000, "the other writing again");
    expect(heldBy(box.db, box.request.owner)).toEqual([]);
  });

  test("loop that runs jj again and again → frozen between two of them, no lock left behind", async () => {
    const env = Object.entries(repo.env)
      .map(([name, value]) => `${name}='${value}'`)
      .join(" ");
    await box.pane(
      `while :; do echo x >>'${repo.root}/f'; env ${env} jj -R '${repo.root}' --no-pager st >/dev/null; echo x >>$D/loops; done`,
    );
    await waitFor(() => box.size("loops") > 4, 20_000, "some rounds");
    // The first half of this is spent on waiting for a moment without jj, which a loop like this may not have.
    box.request.drainMs = 3_000;
    expect(await freeze(box.deps, box.request)).toMatchObject({ outcome: "frozen" });
    expect(existsSync(lockFile())).toBe(false);
    expect(await repo.tryJj(["st"])).toMatchObject({ code: 0 });
  });
});
