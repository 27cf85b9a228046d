/** Freeze and resume on strict fakes: races, crashes at every point, several owners. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { freeze, type FreezeDeps, type FreezeRequest } from "../../src/lifecycle/freeze.ts";
import { quiescence, verifyFrozen } from "../../src/lifecycle/freeze-proof.ts";
import { resume, resumeAtBoot } from "../../src/lifecycle/freeze-resume.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { heldBy, stopOwners, type StopOwner } from "../../src/store/stopped-processes.ts";
import { FakeProcesses, type FakeProcess } from "../fakes/processes.ts";
import { addThread, repoDb } from "../store/fixture.ts";
import { removeTempDirs } from "../support/temp.ts";

afterAll(removeTempDirs);

const LOCK = "/w/.jj/working_copy/working_copy.lock";
const MARK = "KIKI_INCARNATION=i-1";
const CLOSE: StopOwner = { kind: "lifecycle", id: "close-1" };
const INTENT: StopOwner = { kind: "intent", id: "intent-1" };

/** Time passes only while somebody sleeps, and then at once. */
class SleepingClock implements Clock {
  #now = 1_700_000_000_000;
  slept: () => void = () => undefined;
  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  sleep(ms: number): Promise<void> {
    this.#now += ms;
    this.slept();
    return Promise.resolve();
  }
}

let processes: FakeProcesses;
let clock: SleepingClock;
let deps: FreezeDeps;
let request: FreezeRequest;
let wrapper: FakeProcess;
let shell: FakeProcess;
let job: FakeProcess;

beforeEach(() => {
  processes = new FakeProcesses();
  clock = new SleepingClock();
  const db = repoDb();
  addThread(db, "t-1");
  const daemon = processes.spawn({ name: "kkd" });
  const server = processes.spawn({ name: "tmux" });
  wrapper = processes.spawn({ parent: server.pid, paneRoot: true });
  Object.assign(wrapper, { pgid: wrapper.pid, session: wrapper.pid });
  shell = processes.spawn({ parent: wrapper.pid, name: "bash", jobControl: true, env: [MARK] });
  shell.pgid = shell.pid;
  job = processes.spawn({ parent: shell.pid, name: "make" });
  deps = { db, processes, clock, crash: NO_CRASH, self: daemon.pid };
  request = {
    owner: CLOSE,
    threadId: "t-1",
    roots: [{ pid: wrapper.pid, startTime: wrapper.startTime }],
    since: wrapper.startTime,
    marks: [MARK],
    keep: [],
    launchers: [],
    drainMs: 1_000,
    settleMs: 1_000,
    unproved: "resume",
  };
});

function states(): string[] {
  return processes.pids.map((pid) => `${processes.get(pid).name} ${processes.get(pid).state}`);
}

describe("freeze", () => {
  test("shell with a job → both still, the wrapper and everybody else untouched; the shell notices nothing", async () => {
    const outcome = await freeze(deps, request);
    expect(outcome).toMatchObject({ outcome: "frozen", kept: [] });
    expect([shell.state, job.state]).toEqual(["stopped", "stopped"]);
    expect(processes.signals.map((s) => s.pid)).toEqual([shell.pid, job.pid]);
    expect(await verifyFrozen(deps, request)).toEqual({ outcome: "held" });
    expect(await resume(deps, CLOSE)).toEqual({ resumed: true, lost: [], moved: [], stuck: [] });
    expect(states()).not.toContain("make stopped");
    // Children first on the way back, too.
    expect(processes.signals.slice(2).map((s) => s.pid)).toEqual([job.pid, shell.pid]);
    expect(processes.disturbed).toEqual([]);
  });

  test("parent slow to stop → its child is not stopped before the parent is seen still", async () => {
    shell.lag = 3;
    await freeze(deps, request);
    expect(processes.disturbed).toEqual([]);
    expect(job.state).toBe("stopped");
  });

  test("forks during the looks → found until two looks agree", async () => {
    const born: FakeProcess[] = [];
    processes.duringSample = (nth) => {
      if (nth >= 2 && nth <= 5)
        born.push(processes.spawn({ parent: 1, env: [MARK], name: "born" }));
    };
    expect((await freeze(deps, request)).outcome).toBe("frozen");
    expect(born.map((p) => p.state)).toEqual(["stopped", "stopped", "stopped", "stopped"]);
  });

  test("forks without end → unknown, and everybody runs again", async () => {
    processes.duringSample = () => {
      processes.spawn({ parent: 1, env: [MARK] });
      // Looks cost time as well.
      void clock.sleep(50);
    };
    const outcome = await freeze(deps, request);
    expect(outcome).toMatchObject({ outcome: "unknown", reason: "processes keep starting others" });
    expect(states().filter((state) => state.endsWith("stopped"))).toEqual([]);
    expect(heldBy(deps.db, CLOSE)).toEqual([]);
  });

  test("number given to another process between look and signal → that one is never signalled", async () => {
    const others: FakeProcess[] = [];
    processes.beforeSignal = (pid) => {
      if (pid === job.pid && others.length === 0)
        others.push(processes.reuse(pid, { name: "stranger" }));
    };
    expect((await freeze(deps, request)).outcome).toBe("frozen");
    expect(processes.get(job.pid)).toMatchObject({ name: "stranger", state: "running" });
    await resume(deps, CLOSE);
    expect(processes.signals.filter((s) => s.startTime === others[0]?.startTime)).toEqual([]);
  });

  test("stopped before → recorded so and never continued; continued by somebody meanwhile → kiki's to continue", async () => {
    job.state = "stopped";
    await freeze(deps, request);
    expect(heldBy(deps.db, CLOSE).map((row) => [row.pid, row.wasStopped])).toEqual([
      [shell.pid, false],
      [job.pid, true],
    ]);
    await resume(deps, CLOSE);
    expect([shell.state, job.state]).toEqual(["running", "stopped"]);

    processes.duringSample = (nth) => {
      if (nth % 2 === 0) job.state = job.state === "stopped" && nth < 8 ? "running" : job.state;
    };
    await freeze(deps, { ...request, owner: INTENT });
    expect(job.state).toBe("stopped");
    await resume(deps, INTENT);
    expect<string>(job.state).toBe("running");
  });

  test("debugger in the set → its halted process is left alone; a debugger outside → unknown", async () => {
    Object.assign(job, { state: "traced", tracer: shell.pid });
    expect((await freeze(deps, request)).outcome).toBe("frozen");
    expect(processes.signals.map((s) => s.pid)).toEqual([shell.pid]);
    await resume(deps, CLOSE);
    expect([shell.state, job.state]).toEqual(["running", "traced"]);
    job.tracer = processes.spawn({ name: "gdb" }).pid;
    expect(await freeze(deps, request)).toMatchObject({
      outcome: "unknown",
      reason: "a process does not stand still",
      processes: [{ pid: job.pid }],
    });
    expect(shell.state).toBe("running");
  });

  test("member of another user, or never still → unknown, the rest goes on; keep-stopped → stays stopped", async () => {
    job.untouchable = true;
    for (const unproved of ["resume", "keep-stopped"] as const) {
      const outcome = await freeze(deps, { ...request, unproved });
      expect(outcome).toMatchObject({ outcome: "unknown", processes: [{ pid: job.pid }] });
      expect(shell.state).toBe(unproved === "resume" ? "running" : "stopped");
    }
    await resume(deps, CLOSE);
    job.untouchable = false;
    job.lag = 1_000_000;
    expect(await freeze(deps, request)).toMatchObject({ outcome: "unknown" });
    expect([shell.state, job.state]).toEqual(["running", "running"]);
  });

  test("daemonised process with a closed environment → unknown before anybody is stopped; older than the pane → foreign", async () => {
    const agent = processes.spawn({ name: "ssh-agent", closed: true });
    expect(await freeze(deps, request)).toMatchObject({
      outcome: "unknown",
      processes: [{ pid: agent.pid }],
    });
    expect(processes.signals).toEqual([]);
    agent.startTime = "1";
    expect((await freeze(deps, request)).outcome).toBe("frozen");
  });

  test("closed only for a moment, as in an exec → waited out", async () => {
    const agent = processes.spawn({ name: "young", closed: true, env: [MARK] });
    processes.duringSample = (nth) => {
      if (nth === 3) agent.closed = false;
    };
    expect((await freeze(deps, request)).outcome).toBe("frozen");
    expect(agent.state).toBe("stopped");
    const stranger = processes.spawn({ closed: true });
    clock.slept = () => void (stranger.closed = false);
    expect(await verifyFrozen(deps, request)).toEqual({ outcome: "held" });
  });

  test("wrapper gone, no /proc, table unreadable, daemon not visible → unknown, nobody signalled", async () => {
    const reasons: unknown[] = [];
    const attempt = async (over: Partial<FreezeDeps> = {}): Promise<void> => {
      const outcome = await freeze({ ...deps, ...over }, request);
      reasons.push(outcome.outcome === "unknown" ? outcome.reason : outcome.outcome);
    };
    processes.complete = false;
    await attempt();
    processes.complete = true;
    await attempt({ self: 1_000_000 });
    processes.duringSample = () => {
      throw new Error("EACCES");
    };
    await attempt();
    processes.duringSample = () => undefined;
    processes.end(wrapper.pid);
    await attempt();
    expect(reasons).toEqual([
      "this system does not show all processes",
      "the process table does not show the daemon itself",
      "the process table cannot be read: EACCES",
      "the process at the root of a pane is gone",
    ]);
    expect(processes.signals).toEqual([]);
  });

  test("daemon started from the pane, and what it runs → never stopped", async () => {
    const daemon = processes.spawn({ parent: job.pid, name: "kkd", env: [MARK] });
    const jj = processes.spawn({ parent: daemon.pid, name: "jj" });
    const outcome = await freeze({ ...deps, self: daemon.pid }, request);
    expect(outcome).toMatchObject({ outcome: "frozen", frozen: [] });
    expect([shell, job, jj].map((p) => p.state)).toEqual(["running", "running", "running"]);
  });
});

describe("draining", () => {
  test("lock taken between look and signal → continued at once, waited for, then stopped", async () => {
    processes.beforeSignal = (pid, signal) => {
      if (pid === job.pid && signal === "SIGSTOP" && processes.signals.length === 1)
        job.open.push(LOCK);
    };
    let freed = false;
    clock.slept = () => {
      if (job.open.length === 0 || job.state !== "running" || clock.now() < 1_700_000_000_050)
        return;
      job.open = [];
      freed = true;
    };
    expect((await freeze(deps, request)).outcome).toBe("frozen");
    expect(freed).toBe(true);
    expect(processes.signals.filter((s) => s.pid === job.pid).map((s) => s.signal)).toEqual([
      "SIGSTOP",
      "SIGCONT",
      "SIGSTOP",
    ]);
    await resume(deps, CLOSE);
    expect(job.state).toBe("running");
  });

  test("shell that became jj between look and signal → continued and waited for", async () => {
    processes.beforeSignal = (pid) => {
      if (pid === job.pid) job.name = "jj";
    };
    clock.slept = () => {
      if (job.name === "jj" && job.state === "running") processes.end(job.pid);
    };
    expect(await freeze(deps, request)).toMatchObject({
      outcome: "frozen",
      frozen: [{ pid: shell.pid }],
    });
    // It ended by itself: nothing is missing.
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true, lost: [] });
  });

  test("git that never ends → not drained after the limit, everybody runs", async () => {
    const git = processes.spawn({ parent: job.pid, name: "git", argv: ["git", "commit"] });
    const editor = processes.spawn({ parent: git.pid, name: "vi" });
    expect(await freeze(deps, request)).toMatchObject({
      outcome: "not-drained",
      processes: [{ pid: git.pid }, { pid: editor.pid }],
      resumed: { resumed: true, lost: [] },
    });
    expect(processes.signals.map((s) => s.pid)).not.toContain(git.pid);
    expect([shell.state, job.state]).toEqual(["running", "running"]);
  });
});

describe("owners and restarts", () => {
  test("two owners → the first to resume leaves it stopped, the last continues it", async () => {
    await freeze(deps, request);
    await freeze(deps, { ...request, owner: INTENT });
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true });
    expect([shell.state, job.state]).toEqual(["stopped", "stopped"]);
    await resume(deps, INTENT);
    expect([shell.state, job.state]).toEqual(["running", "running"]);
    expect(stopOwners(deps.db)).toEqual([]);
  });

  test("boot: an owner that needs nothing → its processes go on; one that does → they stay, and can be frozen again", async () => {
    await freeze(deps, { ...request, owner: INTENT });
    const other = processes.spawn({ parent: 1, env: ["KIKI_INCARNATION=i-2"] });
    await freeze(deps, { ...request, roots: [], marks: ["KIKI_INCARNATION=i-2"], since: null });
    const booted = await resumeAtBoot(deps, (owner) => owner.kind === "intent");
    expect(booted.resumed.map((r) => [r.owner, r.outcome.resumed])).toEqual([[CLOSE, true]]);
    expect(booted.stillNeeded).toEqual([INTENT]);
    expect([shell.state, job.state, other.state]).toEqual(["stopped", "stopped", "running"]);
    const late = processes.spawn({ parent: job.pid });
    expect(await freeze(deps, { ...request, owner: INTENT })).toMatchObject({ outcome: "frozen" });
    expect(late.state).toBe("stopped");
    await resume(deps, INTENT);
    expect([shell.state, job.state, late.state]).toEqual(["running", "running", "running"]);
  });

  test("crash between stop and the row that says so, and the shell became jj → continued and waited for", async () => {
    processes.beforeSignal = (pid) => {
      if (pid === job.pid) job.name = "jj";
    };
    const at = (name: string): void => {
      if (name === "freeze.signalled" && job.state === "stopped") throw new Error("it died");
    };
    const died = await freeze({ ...deps, crash: { at } }, request).catch(String);
    expect([died, job.state]).toEqual(["Error: it died", "stopped"]);
    clock.slept = () => {
      if (job.state === "running" && processes.pids.includes(job.pid)) processes.end(job.pid);
    };
    const again = await freeze(deps, { ...request, unproved: "keep-stopped" });
    expect(again).toMatchObject({ outcome: "frozen", frozen: [{ pid: shell.pid }] });
  });

  test("stopped by a person while it is waited for → stays stopped", async () => {
    processes.beforeSignal = (pid, signal) => {
      if (pid === job.pid && signal === "SIGSTOP" && processes.signals.length === 1)
        job.open.push(LOCK);
    };
    let looks = 0;
    clock.slept = () => {
      if (job.open.length === 0 || (looks += 1) < 5) return;
      if (looks === 5) job.state = "stopped";
    };
    expect((await freeze(deps, request)).outcome).toBe("not-drained");
    const continued = processes.signals.filter((s) => s.pid === job.pid && s.signal === "SIGCONT");
    expect(continued).toHaveLength(1);
  });

  test("crash at every point of freeze and resume → whoever is stopped is on the disk, and boot continues all", async () => {
    class Crash extends Error {}
    let points = 0;
    for (let at = 1; ; at += 1) {
      let passed = 0;
      const crash = {
        at: () => {
          passed += 1;
          if (passed === at) throw new Crash();
        },
      };
      const born = processes.spawn({ parent: job.pid });
      const attempt = async (): Promise<void> => {
        await freeze({ ...deps, crash }, request);
        await resume({ ...deps, crash }, CLOSE);
      };
      const crashed = await attempt().then(
        () => false,
        (error: unknown) => {
          if (error instanceof Crash) return true;
          throw error;
        },
      );
      if (!crashed) break;
      points += 1;
      const durable = new Set(heldBy(deps.db, CLOSE).map((row) => row.pid));
      for (const p of [shell, job, born]) {
        if (p.state === "stopped") expect(durable.has(p.pid)).toBe(true);
      }
      await resumeAtBoot(deps, () => false);
      expect([shell.state, job.state, born.state]).toEqual(["running", "running", "running"]);
      expect(stopOwners(deps.db)).toEqual([]);
      processes.end(born.pid);
    }
    // Three levels, recorded and signalled; three continued.
    expect(points).toBe(9);
  });
});

describe("proofs", () => {
  test("frozen, then a member continued, ended, or newly born → broken, each named", async () => {
    await freeze(deps, request);
    job.state = "running";
    expect(await verifyFrozen(deps, request)).toMatchObject({
      outcome: "broken",
      running: [{ pid: job.pid }],
    });
    job.state = "stopped";
    const late = processes.spawn({ parent: 1, env: [MARK] });
    expect(await verifyFrozen(deps, request)).toMatchObject({
      outcome: "broken",
      new: [{ pid: late.pid }],
    });
    processes.end(late.pid);
    processes.end(job.pid);
    expect(await verifyFrozen(deps, request)).toMatchObject({
      outcome: "broken",
      gone: [{ pid: job.pid }],
    });
    processes.complete = false;
    expect(await verifyFrozen(deps, request)).toMatchObject({ outcome: "unknown" });
    processes.complete = true;
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true, lost: [{ pid: job.pid }] });
  });

  test("member killed between look and signal at resume → lost, not continued", async () => {
    await freeze(deps, request);
    processes.beforeSignal = (pid) => {
      if (pid === job.pid) processes.end(job.pid);
    };
    const lost = [{ pid: job.pid, startTime: job.startTime }];
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true, lost });
  });

  test("signal refused at resume → not resumed, the row is kept for another try", async () => {
    await freeze(deps, request);
    job.untouchable = true;
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: false, stuck: [{ pid: job.pid }] });
    expect(heldBy(deps.db, CLOSE).map((row) => row.pid)).toEqual([job.pid]);
    job.untouchable = false;
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true });
  });

  test("moved to another session while stopped → named", async () => {
    await freeze(deps, request);
    job.session = 77;
    expect(await resume(deps, CLOSE)).toMatchObject({ resumed: true, moved: [{ pid: job.pid }] });
  });

  test("quiescence: closed stranger → unknown; the daemon's ancestors may be closed; no /proc → unknown", async () => {
    const stranger = processes.spawn({ name: "vault", closed: true });
    const outcome = () => quiescence(deps, "/w", []);
    expect(await outcome()).toMatchObject({ outcome: "unknown", unreadable: [{ name: "vault" }] });
    processes.get(deps.self).parent = stranger.pid;
    expect(await outcome()).toEqual({ outcome: "quiescent" });
    processes.get(deps.self).cwd = "/w";
    expect(await outcome()).toEqual({ outcome: "quiescent" });
    job.open.push("/w/file");
    expect(await outcome()).toMatchObject({ outcome: "held-by", holders: [{ pid: job.pid }] });
    processes.complete = false;
    expect(await outcome()).toMatchObject({ outcome: "unknown" });
  });
});
