/**
 * Processes that exist because a test says so. Stricter than a kernel: process 1, kernel numbers and itself may not be
 * signalled at all, and what a careless caller would do to a person's terminal is recorded (`disturbed`).
 */
import { isLockFile } from "../../src/core/freeze.ts";
import type { ProcessFacts } from "../../src/core/process-tree.ts";
import type {
  Hold,
  HolderReport,
  Observation,
  ProcessIdentity,
  Processes,
  ProcessSample,
  ProcessSignal,
} from "../../src/ports/processes.ts";

export interface FakeProcess extends ProcessIdentity {
  parent: number;
  pgid: number;
  session: number;
  mine: boolean;
  name: string;
  argv: string[];
  /** Whole entries, `NAME=value`. */
  env: string[];
  state: "running" | "stopped" | "traced";
  tracer: number | null;
  /** Files it has open; locks of jj and git are recognised by their path. */
  open: string[];
  cwd: string;
  root: string;
  maps: string[];
  /** Made itself undumpable: environment, descriptors, folders and arguments are closed. */
  closed: boolean;
  /** Another user's, or protected: a signal is refused. */
  untouchable: boolean;
  /** The root of a tmux pane: the server continues it, and its process group, as soon as it stops. */
  paneRoot: boolean;
  /** A shell that watches its children: seeing one stop, it takes its terminal back (`disturbed`). */
  jobControl: boolean;
  /** How many looks a stop takes: a thread in the middle of a system call. */
  lag: number;
}

export class FakeProcesses implements Processes {
  /** Every signal sent, in order. */
  readonly signals: { pid: number; startTime: string; signal: ProcessSignal }[] = [];
  /** Shells that saw a child stop while they ran. */
  readonly disturbed: number[] = [];
  /** False: this system has no /proc. */
  complete = true;
  /** What happens while the process table is read: forks, exits. Called at the start of each sample, counted from 1. */
  duringSample: (nth: number) => void = () => undefined;
  /** What happens between a look and its signal, before the signal arrives. */
  beforeSignal: (pid: number, signal: ProcessSignal) => void = () => undefined;
  readonly #alive = new Map<number, FakeProcess>();
  readonly #pending = new Map<number, number>();
  #nextPid = 1000;
  #samples = 0;

  /** A process of the user's, child of process 1, in a session of its own. */
  start(argument = ""): ProcessIdentity {
    return identityOf(this.spawn({ argv: [argument] }));
  }

  /** A process the test did not start, for example its own. */
  add(pid: number): void {
    this.#put({ pid, startTime: String(pid), pgid: pid, session: pid });
  }

  /** A child inherits group, session and environment from a parent that is there. */
  spawn(of: Partial<Omit<FakeProcess, "pid">> = {}): FakeProcess {
    this.#nextPid += 1;
    return this.#put({ pid: this.#nextPid, startTime: String(this.#nextPid * 7), ...of });
  }

  /** Another process under a number that was another's. */
  reuse(pid: number, of: Partial<Omit<FakeProcess, "pid">> = {}): FakeProcess {
    this.end(pid);
    this.#nextPid += 1;
    return this.#put({ pid, startTime: String(this.#nextPid * 7), ...of });
  }

  /** Its children go to process 1, with the session and group they have. */
  end(pid: number): void {
    this.#alive.delete(pid);
    this.#pending.delete(pid);
    for (const other of this.#alive.values()) if (other.parent === pid) other.parent = 1;
  }

  /** The live process, to be changed in place; throws when there is none. */
  get(pid: number): FakeProcess {
    const found = this.#alive.get(pid);
    if (found === undefined) throw new Error(`fake processes: no process ${pid}`);
    return found;
  }

  get pids(): number[] {
    return [...this.#alive.keys()];
  }

  identify(pid: number): ProcessIdentity | null {
    const found = this.#alive.get(pid);
    return found === undefined ? null : identityOf(found);
  }

  parentOf(pid: number): number | null {
    return this.#alive.get(pid)?.parent ?? null;
  }

  withArgument(text: string): ProcessIdentity[] {
    return [...this.#alive.values()]
      .filter((p) => p.argv.some((argument) => argument.includes(text)))
      .map(identityOf);
  }

  sample(marks: readonly string[]): ProcessSample {
    this.#samples += 1;
    this.duringSample(this.#samples);
    const processes = [...this.#alive.values()].map((p): ProcessFacts => {
      const marked = p.env.some((entry) => marks.includes(entry)) ? "yes" : "no";
      const closed = p.mine && p.closed && marks.length > 0;
      return {
        ...identityOf(p),
        parent: p.parent,
        pgid: p.pgid,
        session: p.session,
        mine: p.mine,
        name: p.name,
        marked: closed ? "unreadable" : p.mine ? marked : "no",
      };
    });
    return { processes, complete: this.complete };
  }

  argvOf(process: ProcessIdentity): string[] | null {
    const found = this.#find(process);
    return found === null || found.closed ? null : [...found.argv];
  }

  observe(process: ProcessIdentity): Observation {
    const found = this.#find(process);
    if (found === null) return { state: "gone", tracer: null };
    const left = this.#pending.get(found.pid);
    if (left !== undefined && left <= 1) this.#stopNow(found);
    else if (left !== undefined) this.#pending.set(found.pid, left - 1);
    return { state: found.state, tracer: found.state === "traced" ? found.tracer : null };
  }

  signal(process: ProcessIdentity, signal: ProcessSignal): "sent" | "gone" | "refused" {
    if (process.pid <= 2) throw new Error(`fake processes: ${signal} to process ${process.pid}`);
    this.beforeSignal(process.pid, signal);
    const found = this.#find(process);
    if (found === null) return "gone";
    if (found.untouchable) return "refused";
    this.signals.push({ ...identityOf(found), signal });
    if (signal === "SIGTERM" || signal === "SIGKILL") this.end(found.pid);
    else if (signal === "SIGCONT") {
      this.#pending.delete(found.pid);
      if (found.state === "stopped") found.state = "running";
    } else if (found.state === "running") {
      if (found.lag > 0) this.#pending.set(found.pid, found.lag);
      else this.#stopNow(found);
    }
    return "sent";
  }

  openLocks(process: ProcessIdentity): string[] | null {
    const found = this.#find(process);
    if (found === null) return [];
    return found.closed ? null : found.open.filter(isLockFile);
  }

  holders(folder: string): Promise<HolderReport> {
    const report: HolderReport = { holders: [], unreadable: [], complete: this.complete };
    if (!this.complete) return Promise.resolve(report);
    for (const process of this.#alive.values()) {
      if (!process.mine) continue;
      const who = { ...identityOf(process), name: process.name };
      if (process.closed) report.unreadable.push(who);
      const holds = [
        { kind: "cwd", path: process.cwd },
        { kind: "root", path: process.root },
        ...process.open.map((path) => ({ kind: "descriptor", path })),
        ...process.maps.map((path) => ({ kind: "map", path })),
      ].filter(({ path }) => path === folder || path.startsWith(`${folder}/`)) as Hold[];
      if (!process.closed && holds.length > 0) report.holders.push({ ...who, holds });
    }
    return Promise.resolve(report);
  }

  #put(of: Partial<FakeProcess> & ProcessIdentity): FakeProcess {
    const parent = this.#alive.get(of.parent ?? 1);
    const process: FakeProcess = {
      parent: 1,
      pgid: parent?.pgid ?? of.pid,
      session: parent?.session ?? of.pid,
      mine: true,
      name: "program",
      argv: [""],
      env: [...(parent?.env ?? [])],
      state: "running",
      tracer: null,
      open: [],
      cwd: "/",
      root: "/",
      maps: [],
      closed: false,
      untouchable: false,
      paneRoot: false,
      jobControl: false,
      lag: 0,
      ...of,
    };
    this.#alive.set(process.pid, process);
    return process;
  }

  #find(process: ProcessIdentity): FakeProcess | null {
    const found = this.#alive.get(process.pid);
    return found === undefined || found.startTime !== process.startTime ? null : found;
  }

  #stopNow(process: FakeProcess): void {
    this.#pending.delete(process.pid);
    if (process.paneRoot) {
      for (const other of this.#alive.values()) {
        if (other.pgid === process.pgid && other.state === "stopped") other.state = "running";
      }
      return;
    }
    process.state = "stopped";
    const parent = this.#alive.get(process.parent);
    if (parent?.jobControl && parent.state === "running") this.disturbed.push(parent.pid);
  }
}

function identityOf({ pid, startTime }: ProcessIdentity): ProcessIdentity {
  return { pid, startTime };
}
