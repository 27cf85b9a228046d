/** What is proved of a harness when, and what is kept: the gate's proofs, or quick ones once for each program. */
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { CAPABILITIES, type Capability, type Proof } from "../../src/core/proofs.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { provedHarness } from "../../src/lifecycle/harness-standing.ts";
import { makeProving, type Proving } from "../../src/lifecycle/proving.ts";
import type { ProcessIdentity } from "../../src/ports/processes.ts";
import type { Db } from "../../src/store/db.ts";
import { latestProofRun } from "../../src/store/harness-proofs.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeHarness, PROVEN_VERSION } from "../fakes/harness.ts";
import { FakeIds } from "../fakes/ids.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const CLAUDE = "/opt/claude";
const FOLDER = "/state/proofs";
const UNKNOWN = "2.1.999";
const open: Db[] = [];
afterAll(() => {
  for (const db of open) db.close();
  removeTempDirs();
});

let userDb: Db;
let db: Db;
let clock: FakeClock;
let harness: FakeHarness;
let proving: Proving;
let stamp: string | null;
/** What is below the folder of proofs. */
let folders: string[];
let left: ProcessIdentity[];
let ended: number[];

beforeEach(() => {
  userDb = openUserDb(join(tempDir("proving"), "state.db"));
  db = openRepoDb(join(tempDir("proving"), "state.db"));
  open.push(userDb, db);
  clock = new FakeClock();
  harness = new FakeHarness(new FakeFiles());
  harness.says = `${UNKNOWN} (Claude Code)`;
  [stamp, folders, left, ended] = ["1:1:1:1", [], [], []];
  proving = restarted();
});

function restarted(): Proving {
  return makeProving({
    userDb,
    folder: FOLDER,
    files: {
      ensureDir: (path) => void folders.push(path),
      async removeTree(path) {
        folders = folders.filter((one) => one !== path);
      },
      listDir: (path) => folders.map((one) => one.slice(path.length + 1)),
      fileStamp: () => stamp,
    },
    processes: {
      withArgument: (text) => (text.startsWith(`${FOLDER}/`) ? left : []),
      signal: (process) => {
        ended.push(process.pid);
        return "sent";
      },
    },
    clock,
    ids: new FakeIds(),
    queues: new SerialQueues(),
    log: { info() {}, warn() {}, error() {} },
    by: "kiki test",
  });
}

/** All proved, less what is named. */
function proofs(failing: Partial<Record<Capability, "failed" | "not-tried">> = {}): Proof[] {
  return CAPABILITIES.map((capability) => ({
    name: capability,
    takes: [capability],
    outcome: failing[capability] ?? "proved",
    reason: failing[capability] === undefined ? "seen" : `no ${capability}`,
  }));
}

const subject = (harnessVersion: string) =>
  ({ harness: "claude-code", adapterVersion: "fake-1", harnessVersion }) as const;

describe("proving", () => {
  test("a version the gate ran → its proofs, recorded once with when and by what; the program is not looked at", async () => {
    harness.says = `${PROVEN_VERSION} (Claude Code)`;
    clock.advance(5);
    for (const _ of [1, 2]) {
      const found = await proving.of(harness, CLAUDE, {});
      expect(found).toMatchObject({ source: "gate", version: PROVEN_VERSION });
    }
    expect(harness.provedQuickly).toEqual([]);
    expect(latestProofRun(userDb, subject(PROVEN_VERSION), null)).toMatchObject({
      source: "gate",
      provedAt: clock.now(),
      provedBy: "kiki test",
    });
    expect(userDb.query("SELECT count(*) AS n FROM harness_proof_runs").get()).toEqual({ n: 1 });
  });

  test("an unknown version → looked at once, also by several at a time and after a restart of the daemon", async () => {
    harness.quick = proofs();
    await Promise.all([1, 2, 3].map(() => proving.of(harness, CLAUDE, {})));
    const found = await restarted().of(harness, CLAUDE, {});
    expect(found.capabilities.parallel_batch_boundary).toBe(true);
    expect(harness.provedQuickly).toEqual([UNKNOWN]);
    expect(folders).toEqual([]);
    expect(latestProofRun(userDb, subject(UNKNOWN), CLAUDE)).toMatchObject({
      source: "quick",
      executable: CLAUDE,
      stamp: "1:1:1:1",
      proofs: proofs(),
    });
  });

  test("degraded → kept; another program of that version, or another state of its file → looked at anew", async () => {
    harness.quick = proofs({ parallel_batch_boundary: "failed" });
    await proving.of(harness, CLAUDE, {});
    clock.advance(3_600_000);
    await proving.of(harness, CLAUDE, {});
    expect(harness.provedQuickly).toHaveLength(1);
    await proving.of(harness, "/home/me/claude", {});
    expect(harness.provedQuickly).toHaveLength(2);
    stamp = "1:2:1:1";
    await proving.of(harness, CLAUDE, {});
    expect(harness.provedQuickly).toHaveLength(3);
    expect(proving.known(harness, UNKNOWN, CLAUDE)?.provedAt).toBe(clock.now());
  });

  for (const outcome of ["failed", "not-tried"] as const) {
    test(`exclusive hooks ${outcome} → the same answer for a plan and its yes, looked at again later`, async () => {
      harness.quick = proofs({ exclusive_pre_tool_use: outcome });
      const deps = { db, harness: () => harness, proving };
      const refuse = (): Promise<unknown> => provedHarness(deps, "claude-code", CLAUDE, {});
      for (const _ of [1, 2]) {
        expect(await failureOf(refuse())).toMatchObject({
          code: "harness-unsupported",
          message: `claude-code ${UNKNOWN}: kiki cannot prove that its hook is the only one (no exclusive_pre_tool_use)`,
        });
      }
      expect(harness.provedQuickly).toHaveLength(1);
      clock.advance(180_000);
      harness.quick = proofs();
      await refuse();
      expect(harness.provedQuickly).toHaveLength(2);
    });
  }

  test("neither a boundary nor a start with a payload → refused with both reasons", async () => {
    harness.quick = proofs({
      parallel_batch_boundary: "failed",
      restart_startup_delivery: "failed",
    });
    const refused = provedHarness(
      { db, harness: () => harness, proving },
      "claude-code",
      CLAUDE,
      {},
    );
    expect(((await failureOf(refused)) as Error).message).toBe(
      `claude-code ${UNKNOWN}: kiki has no proven way to tell its agent about a change ` +
        "(no parallel_batch_boundary; no restart_startup_delivery)",
    );
  });

  test("nothing known yet → known says so and runs nothing", () => {
    expect(proving.known(harness, UNKNOWN, CLAUDE)).toBeNull();
    expect(harness.provedQuickly).toEqual([]);
  });

  test("what a look leaves running → ended with it", async () => {
    left = [{ pid: 43, startTime: "7" }];
    await proving.of(harness, CLAUDE, {});
    expect([folders, ended]).toEqual([[], [43]]);
  });

  test("a daemon that died during a proof → its programs ended and its folders removed at the next start", async () => {
    folders = [`${FOLDER}/abc`];
    left = [{ pid: 42, startTime: "7" }];
    await proving.sweep();
    expect([folders, ended]).toEqual([[], [42]]);
  });
});
