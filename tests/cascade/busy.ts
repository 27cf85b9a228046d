/** An agent of real processes on a real repository: a script below kiki's pane wrapper, the hook protocol by hand. */
import { realClock } from "../../src/backends/clock.ts";
import { linuxProcesses } from "../../src/backends/processes/linux.ts";
import type { ProcessIdentity } from "../../src/core/process-tree.ts";
import { makeStandStill, type StandStill } from "../../src/lifecycle/stand-still.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { Box } from "../backends/processes/rig.ts";
import { makePair } from "./pair.ts";
import { REPO_ID, type Rig, type TestThread } from "./rig.ts";

export interface BusyAgent {
  rig: Rig;
  box: Box;
  parent: TestThread;
  child: TestThread;
  /** The script's own process. */
  harness: ProcessIdentity;
  /** What the daemon's boot does first. */
  still: StandStill;
  end(): Promise<void>;
}

/** The agent's harness is a shell with `script` behind it; `$W` is its workspace. */
export async function busyAgent(script: string): Promise<BusyAgent> {
  const late: { daemon?: number } = {};
  const { rig, parent, child } = await makePair({
    before: { "shared.txt": "parent 0\n1\n2\n3\n4\n5\n6\n7\n" },
    standStill: (db, stateDir) => ({
      hold: (of) => still(db, stateDir).hold(of),
      pause: (of) => still(db, stateDir).pause(of),
      release: (id) => still(db, stateDir).release(id),
    }),
  });
  const still = (db: Rig["db"], stateDir: string) =>
    makeStandStill({
      db,
      stateDir,
      repoId: REPO_ID,
      processes: linuxProcesses,
      clock: realClock,
      crash: NO_CRASH,
      // The test itself cannot be the daemon: what it starts would be the daemon's.
      self: late.daemon!,
    });
  const box = new Box();
  const end = async (): Promise<void> => {
    await rig.close().catch(() => undefined);
    await box.end();
  };
  try {
    // Longer than any number of rounds: where the daemon is not to be seen, nothing is proved.
    late.daemon = box.stranger(["sleep", "86400"]).pid;
    await box.pane(`echo $$ >$D/harness\nW='${child.path}'\n${script}\nwait`);
    const harness = await box.written("harness");
    // The rig's agent is no process; this one is.
    rig.db.run(
      "UPDATE agent_sessions SET status = 'Quiescent', retired_at = 2 WHERE agent_session_id = ?",
      [child.incarnation],
    );
    child.incarnation = box.incarnation;
    rig.db
      .query(
        `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id,
           secret_sha256, settings_fingerprint, capabilities_json, pid, start_time, status, created_at,
           session_started_at, ready_at)
         SELECT $incarnation, thread_id, harness, harness_version, 's', lower(hex(randomblob(32))),
           settings_fingerprint, capabilities_json, $pid, $startTime, 'Running', 3, 3, 3
         FROM agent_sessions WHERE thread_id = $child`,
      )
      .run({ ...harness, child: child.id, incarnation: child.incarnation });
    return { rig, box, parent, child, harness, still: still(rig.db, rig.stateDir), end };
  } catch (error) {
    await end();
    throw error;
  }
}
