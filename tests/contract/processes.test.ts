/** What every implementation of the processes port answers: the fake always, the real table where there is /proc. */
import { afterAll, expect } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { linuxProcesses } from "../../src/backends/processes/linux.ts";
import type { ProcessIdentity, Processes } from "../../src/ports/processes.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { contract, type Scenario } from "../support/contract.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

const DEADLINE_MS = 5_000;
const MARK = "KIKI_INCARNATION=contract-7";

interface Started extends ProcessIdentity {
  name: string;
}

interface Subject {
  readonly processes: Processes;
  /** An existing folder. */
  readonly folder: string;
  /** `sleep 600`, or a shell with such a child, in a session of its own. */
  start: (of?: { env?: string; cwd?: string; open?: string; child?: boolean }) => Promise<Started>;
  /** Ended and reaped. */
  end: (target: ProcessIdentity) => Promise<void>;
  /** Ended, and nobody has asked for its exit status. */
  zombie: () => Promise<ProcessIdentity>;
  dispose(): Promise<void>;
}

function fake(): Subject {
  const processes = new FakeProcesses();
  const start: Subject["start"] = (of = {}) => {
    const parent = processes.spawn({
      name: of.child ? "sh" : "sleep",
      argv: of.child ? ["sh", "-c", "sleep 600; :"] : ["sleep", "600"],
      env: of.env === undefined ? [] : [of.env],
      cwd: of.cwd ?? "/",
      open: of.open === undefined ? [] : [of.open],
    });
    if (of.child) {
      processes.spawn({
        parent: parent.pid,
        name: "sleep",
        argv: ["sleep", "600"],
        cwd: parent.cwd,
      });
    }
    return Promise.resolve(parent);
  };
  return {
    processes,
    folder: "/work/folder",
    start,
    end: (target) => Promise.resolve(processes.end(target.pid)),
    // The fake keeps none: to the port a zombie is nobody.
    async zombie() {
      const ended = await start();
      processes.end(ended.pid);
      return ended;
    },
    dispose: () => Promise.resolve(),
  };
}

function real(): Subject {
  const folder = join(tempDir("contract"), "folder");
  mkdirSync(folder);
  const started: Bun.Subprocess[] = [];
  const spawn = (argv: string[], cwd = "/", env = ""): Bun.Subprocess => {
    const [name = "", value = ""] = env.split("=");
    const child = Bun.spawn(argv, {
      cwd,
      env: { PATH: process.env["PATH"] ?? "", ...(env === "" ? {} : { [name]: value }) },
      stdin: "ignore",
      stdout: "pipe",
      detached: true,
    });
    started.push(child);
    return child;
  };
  return {
    processes: linuxProcesses,
    folder,
    async start(of = {}) {
      const redirect = of.open === undefined ? "" : `exec 5>'${of.open}'; `;
      const script = of.child ? `sleep 600; :` : `exec sleep 600`;
      const child = spawn(["sh", "-c", redirect + script], of.cwd, of.env);
      const name = of.child ? "sh" : "sleep";
      return waitFor(
        () => {
          const { processes } = linuxProcesses.sample([]);
          const found = processes.find((p) => p.pid === child.pid && p.name === name);
          const it = of.child
            ? processes.find((p) => p.parent === child.pid && p.name === "sleep")
            : found;
          // The name changes before the arguments are there (Linux 6.18).
          const ready = it !== undefined && (linuxProcesses.argvOf(it) ?? []).length > 0;
          return ready ? found : null;
        },
        DEADLINE_MS,
        "the process started",
      );
    },
    async end(target) {
      const child = started.find((c) => c.pid === target.pid);
      child?.kill("SIGKILL");
      await child?.exited;
    },
    async zombie() {
      // The parent is the shell, and becomes a program that never asks.
      const child = spawn(["sh", "-c", "sh -c 'echo $$' & exec sleep 600"]);
      const reader = (child.stdout as ReadableStream<Uint8Array>).getReader();
      const pid = Number(new TextDecoder().decode((await reader.read()).value));
      const stat = () => Bun.file(`/proc/${pid}/stat`).text();
      const text = await waitFor(
        async () => ((await stat()).includes(") Z ") ? stat() : null),
        DEADLINE_MS,
        "a zombie",
      );
      return { pid, startTime: text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "" };
    },
    async dispose() {
      for (const child of started) {
        try {
          process.kill(-child.pid, "SIGKILL");
        } catch {
          // Ended by the scenario.
        }
        await child.exited;
      }
    },
  };
}

const same = ({ pid, startTime }: ProcessIdentity): ProcessIdentity => ({ pid, startTime });

const scenarios: Scenario<Subject>[] = [
  {
    name: "running process → identified, in the sample, running, with its arguments; ended → gone everywhere",
    async run({ processes, start, end }) {
      const it = await start();
      expect(processes.identify(it.pid)).toEqual(same(it));
      expect(processes.observe(it)).toEqual({ state: "running", tracer: null });
      expect(processes.argvOf(it)).toEqual(["sleep", "600"]);
      const seen = processes.sample([]).processes.find((p) => p.pid === it.pid);
      expect(seen).toMatchObject({ ...same(it), mine: true, name: "sleep", marked: "no" });
      expect([seen?.pgid, seen?.session]).toEqual([it.pid, it.pid]);
      await end(it);
      expect(processes.identify(it.pid)).toBeNull();
      expect(processes.parentOf(it.pid)).toBeNull();
      expect(processes.argvOf(it)).toBeNull();
      expect(processes.observe(it).state).toBe("gone");
      expect(processes.sample([]).processes.some((p) => p.pid === it.pid)).toBe(false);
      expect(processes.signal(it, "SIGSTOP")).toBe("gone");
    },
  },
  {
    name: "child → in the sample with parent, group and session of its parent",
    async run({ processes, start }) {
      const parent = await start({ child: true });
      const child = processes.sample([]).processes.find((p) => p.parent === parent.pid);
      expect(child).toMatchObject({ pgid: parent.pid, session: parent.pid, name: "sleep" });
      expect(processes.parentOf(child!.pid)).toBe(parent.pid);
    },
  },
  {
    name: "zombie → there is no such process",
    async run({ processes, zombie }) {
      const it = await zombie();
      expect(processes.identify(it.pid)).toBeNull();
      expect(processes.observe(it).state).toBe("gone");
      expect(processes.signal(it, "SIGCONT")).toBe("gone");
      expect(processes.sample([]).processes.some((p) => p.pid === it.pid)).toBe(false);
    },
  },
  {
    name: "environment entry → marked; children inherit it; a longer or shorter entry → not",
    async run({ processes, start }) {
      const marked = await start({ env: MARK, child: true });
      const longer = await start({ env: `${MARK}0` });
      const plain = await start();
      const { processes: all } = processes.sample([MARK]);
      const of = (pid: number) => all.find((p) => p.pid === pid)?.marked;
      const child = all.find((p) => p.parent === marked.pid);
      expect([of(marked.pid), child?.marked, of(longer.pid), of(plain.pid)]).toEqual([
        "yes",
        "yes",
        "no",
        "no",
      ]);
    },
  },
  {
    name: "SIGSTOP and SIGCONT → stopped, then running; its parent is not touched",
    async run({ processes, start }) {
      const parent = await start({ child: true });
      const child = processes.sample([]).processes.find((p) => p.parent === parent.pid)!;
      const state = () => processes.observe(child).state;
      expect(processes.signal(child, "SIGSTOP")).toBe("sent");
      await waitFor(() => state() === "stopped", DEADLINE_MS, "stopped");
      expect(processes.observe(parent).state).toBe("running");
      expect(processes.signal(child, "SIGCONT")).toBe("sent");
      await waitFor(() => state() === "running", DEADLINE_MS, "running");
    },
  },
  {
    name: "same number, another start time → gone, and the process that has the number is left alone",
    async run({ processes, start }) {
      const it = await start();
      const former = { pid: it.pid, startTime: "1" };
      expect(processes.observe(former).state).toBe("gone");
      expect(processes.signal(former, "SIGSTOP")).toBe("gone");
      expect(processes.argvOf(former)).toBeNull();
      expect(processes.openLocks(former)).toEqual([]);
      expect(processes.observe(it).state).toBe("running");
    },
  },
  {
    name: "folder in use by working directory and by an open file → both holders with their reasons; then nobody",
    async run({ processes, folder, start, end }) {
      const inside = await start({ cwd: folder });
      const open = await start({ open: `${folder}/file` });
      const beside = await start();
      const { holders, complete } = await processes.holders(folder);
      expect(complete).toBe(true);
      const holds = (pid: number) => holders.find((holder) => holder.pid === pid)?.holds;
      expect(holds(inside.pid)).toEqual([{ kind: "cwd", path: folder }]);
      expect(holds(open.pid)).toEqual([{ kind: "descriptor", path: `${folder}/file` }]);
      expect(holds(beside.pid)).toBeUndefined();
      await end(inside);
      await end(open);
      expect((await processes.holders(folder)).holders).toEqual([]);
    },
  },
  {
    name: "open lock of jj or git → listed; any other open file → not",
    async run({ processes, folder, start }) {
      const files = {
        jj: `${folder}/.jj/working_copy/working_copy.lock`,
        heads: `${folder}/.jj/repo/op_heads/heads/lock`,
        git: `${folder}/.git/index.lock`,
        no: `${folder}/yarn.lock`,
      };
      for (const [name, path] of Object.entries(files)) {
        if (processes === linuxProcesses) {
          mkdirSync(dirname(path), { recursive: true });
          writeFileSync(path, "");
        }
        const it = await start({ open: path });
        expect(processes.openLocks(it)).toEqual(name === "no" ? [] : [path]);
      }
    },
  },
  {
    name: "process that is closed to kiki → unreadable, never a no",
    only: ["fake"], // Root, as which tests may run, reads everything.
    async run({ processes, folder, start }) {
      const it = await start({ env: MARK });
      (processes as FakeProcesses).get(it.pid).closed = true;
      expect(processes.argvOf(it)).toBeNull();
      expect(processes.openLocks(it)).toBeNull();
      expect(processes.sample([MARK]).processes[0]?.marked).toBe("unreadable");
      const report = await processes.holders(folder);
      expect(report.unreadable).toEqual([{ ...same(it), name: "sleep" }]);
    },
  },
];

contract(
  "processes",
  [
    { name: "fake", make: fake, dispose: (subject) => subject.dispose() },
    {
      name: "linux",
      skip: process.platform === "linux" ? null : "no /proc",
      make: real,
      dispose: (subject) => subject.dispose(),
    },
  ],
  scenarios,
);
afterAll(removeTempDirs);
