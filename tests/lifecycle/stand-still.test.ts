/** Who stands still while files change, on strict fakes: what earlier incarnations left behind, and a pause that lasts. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { makeStandStill, type Held, type StandStill } from "../../src/lifecycle/stand-still.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import type { Db } from "../../src/store/db.ts";
import { retireForGood, setProcess } from "../../src/store/sessions.ts";
import { FakeProcesses, type FakeProcess } from "../fakes/processes.ts";
import { addSession, addThread, repoDb } from "../store/fixture.ts";
import { removeTempDirs } from "../support/temp.ts";

afterAll(removeTempDirs);

const HELD: Held = {
  threadId: "t-1",
  intentId: "intent-1",
  incarnation: null,
  workspacePath: "/w",
  paused: false,
};
let db: Db;
let processes: FakeProcesses;
let still: StandStill;
let wrapper: FakeProcess;

beforeEach(() => {
  db = repoDb();
  addThread(db, "t-1");
  processes = new FakeProcesses();
  const daemon = processes.spawn({ name: "kkd" });
  wrapper = processes.spawn({ name: "kk", paneRoot: true });
  let now = 0;
  still = makeStandStill({
    db,
    processes,
    clock: {
      now: () => now,
      monotonic: () => now,
      sleep: (ms) => Promise.resolve(void (now += ms)),
    },
    crash: NO_CRASH,
    self: daemon.pid,
    repoId: "r",
    stateDir: "/state",
  });
});

/** A harness of the pane, with one process of its own in a session of its own. */
function incarnation(id: string): { harness: FakeProcess; server: FakeProcess } {
  addSession(db, "t-1", id);
  const env = [`KIKI_INCARNATION=${id}`];
  const harness = processes.spawn({ parent: wrapper.pid, name: "claude", env });
  const server = processes.spawn({ parent: harness.pid, name: "server", env });
  server.session = server.pgid = server.pid;
  setProcess(db, id, harness);
  return { harness, server };
}

function ended(id: string, harness: FakeProcess): void {
  processes.end(harness.pid);
  retireForGood(db, id, 2);
}

test("hold after a restart → what the incarnation before left running stands still, too; release → it goes on", async () => {
  const before = incarnation("i-1");
  ended("i-1", before.harness);
  const now = incarnation("i-2");
  expect(await still.hold({ ...HELD, incarnation: "i-2" })).toMatchObject({ still: true });
  expect([before.server.state, now.server.state]).toEqual(["stopped", "stopped"]);
  expect(now.harness.state).toBe("running");
  await still.release("intent-1");
  expect([before.server.state, now.server.state]).toEqual(["running", "running"]);
});

test("hold, nobody lives any more → what the last one left running stands still", async () => {
  const { harness, server } = incarnation("i-1");
  ended("i-1", harness);
  expect(await still.hold(HELD)).toMatchObject({ still: true });
  expect(server.state).toBe("stopped");
});

test.each([
  { paused: false, after: "running" },
  { paused: true, after: "stopped" },
])(
  "hold that cannot be proved this time, paused $paused → those that were stopped: $after",
  async ({ paused, after }) => {
    const { server } = incarnation("i-1");
    expect(await still.hold({ ...HELD, incarnation: "i-1" })).toMatchObject({ still: true });
    const closed = processes.spawn({ parent: server.pid, name: "agent", closed: true });
    closed.untouchable = true;
    expect(await still.hold({ ...HELD, incarnation: "i-1", paused })).toMatchObject({
      still: false,
    });
    expect(server.state as string).toBe(after);
  },
);

test.each([false, true])(
  "the pane's wrapper has ended and the harness was handed to the user's manager, paused %p → only the agent's own stand still",
  async (paused) => {
    const { harness, server } = incarnation("i-1");
    const manager = processes.spawn({ name: "systemd" });
    manager.session = manager.pgid = manager.pid;
    const desktop = processes.spawn({ parent: manager.pid, name: "shell" });
    processes.end(wrapper.pid);
    harness.parent = manager.pid;
    const of = { ...HELD, incarnation: "i-1", paused };
    expect(await still.hold(of)).toMatchObject({ still: true });
    expect([manager.state, desktop.state]).toEqual(["running", "running"]);
    expect([server.state, harness.state]).toEqual(["stopped", paused ? "stopped" : "running"]);
    await still.release("intent-1");
    expect([server.state, harness.state, desktop.state]).toEqual(["running", "running", "running"]);
  },
);
