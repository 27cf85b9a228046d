/** Telling a person's terminal from what an agent has started. */
import { expect, test } from "bun:test";
import { presenceProblem } from "../../src/authority/broker.ts";
import { presenceOf } from "../../src/authority/presence.ts";
import { terminalsFor } from "../../src/backends/processes/terminals.ts";
import { processesFor } from "../../src/backends/processes/select.ts";
import type { OnTerminal } from "../../src/ports/terminals.ts";
import { waitFor } from "../support/wait.ts";

interface Proc extends OnTerminal {
  parent: number;
}
const shell: Proc = {
  parent: 1,
  startTime: "10",
  terminal: "tty 1",
  foreground: true,
  agentMark: false,
};
/** 10 a person's kk below their shell 9; 20 an agent in its pane, 21 its child. */
const TABLE: Record<number, Proc> = {
  9: shell,
  10: { ...shell, parent: 9 },
  20: { ...shell, parent: 1, startTime: "20", terminal: "tty 5", agentMark: true },
  21: { ...shell, parent: 20, terminal: "tty 9" },
};

function presence(pid: number | undefined, more: Record<number, Partial<Proc>> = {}) {
  const at = (p: number): Proc | null => {
    const row = TABLE[p] ?? (more[p] === undefined ? null : shell);
    return row === null ? null : { ...row, ...more[p] };
  };
  return presenceOf(
    {
      terminals: { look: at },
      processes: {
        parentOf: (p) => at(p)?.parent ?? null,
        identify: (p) => (at(p) === null ? null : { pid: p, startTime: at(p)!.startTime }),
      },
      agents: () => [{ pid: 20, startTime: "20" }],
    },
    pid,
  );
}

function problem(pid: number | undefined, more: Record<number, Partial<Proc>> = {}): string {
  return presenceProblem(presence(pid, more))?.code ?? "may confirm";
}

test("a person's command in the foreground of its terminal → may confirm, there", () => {
  expect(presence(10)).toEqual({
    terminal: "tty 1",
    foreground: true,
    agent: false,
    unreadable: false,
  });
  expect(problem(10)).toBe("may confirm");
});

test("in the background, without a terminal, no such process, no pid given → refused by name", () => {
  expect(problem(10, { 10: { foreground: false } })).toBe("not-foreground");
  expect(problem(10, { 10: { terminal: null, foreground: false } })).toBe("approval-no-terminal");
  expect(problem(99)).toBe("approval-no-terminal");
  expect(problem(undefined)).toBe("approval-no-terminal");
});

test("an agent, and its child on a terminal of its own → presenter-is-an-agent", () => {
  expect(problem(20)).toBe("presenter-is-an-agent");
  expect(problem(21)).toBe("presenter-is-an-agent");
});

test("child that was orphaned → known by its environment, or an ancestor's", () => {
  expect(problem(30, { 30: { parent: 1, terminal: "tty 9", agentMark: true } })).toBe(
    "presenter-is-an-agent",
  );
  expect(problem(31, { 31: { parent: 30 }, 30: { parent: 1, agentMark: true } })).toBe(
    "presenter-is-an-agent",
  );
});

test("child that was orphaned with a clean environment on the agent's terminal → known by that terminal", () => {
  expect(problem(32, { 32: { parent: 1, terminal: "tty 5" } })).toBe("presenter-is-an-agent");
});

test("environment that cannot be read → not taken for a person; a root-owned ancestor's is no matter", () => {
  expect(problem(10, { 10: { agentMark: null } })).toBe("presenter-unreadable");
  expect(presence(10, { 10: { agentMark: null } }).agent).toBe(true);
  expect(problem(10, { 9: { agentMark: null } })).toBe("may confirm");
});

test("pid of an agent used again by somebody else's shell → told apart by start time", () => {
  const more = { 20: { startTime: "77", agentMark: false }, 21: { terminal: "tty 9" } };
  expect(problem(21, more)).toBe("may confirm");
});

test("ancestors in a circle → an end", () => {
  expect(problem(40, { 40: { parent: 41 }, 41: { parent: 40 } })).toBe("may confirm");
});

// The real thing ---------------------------------------------------------------------------------

const terminals = terminalsFor();

async function inTerminal<T>(argv: string[], look: (pid: number) => T, env = {}): Promise<T> {
  let said = "";
  const child = Bun.spawn(argv, {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    terminal: { cols: 80, rows: 24, data: (_, data) => void (said += data.toString()) },
  });
  try {
    await waitFor(
      () => /pid (\d+) /.test(said),
      5_000,
      () => `a pid in ${JSON.stringify(said)}`,
    );
    return look(Number(/pid (\d+) /.exec(said)![1]));
  } finally {
    child.kill("SIGKILL");
    await child.exited;
    child.terminal?.close();
  }
}
const WAIT = "echo pid $$ .; read line";

test("linux: foreground of a terminal → its terminal, equal for the same session only", async () => {
  const look = (pid: number) => terminals.look(pid);
  const [one, two] = [
    await inTerminal(["sh", "-c", WAIT], look),
    await inTerminal(["sh", "-c", WAIT], look),
  ];
  expect(one).toMatchObject({ foreground: true, agentMark: false });
  expect(one!.terminal).toMatch(/^tty \d+ session \d+@\d+$/);
  expect(two!.terminal).not.toBe(one!.terminal);
});

test("linux: background job of an interactive shell → not in the foreground", async () => {
  const script = "set -m; sh -c 'echo pid $$ .; sleep 30' & wait";
  const seen = await inTerminal(["sh", "-c", script], (pid) => terminals.look(pid));
  expect(seen).toMatchObject({ foreground: false });
  expect(seen!.terminal).not.toBeNull();
});

test("linux: mark in the environment → seen; without a terminal → none; no such process → null", async () => {
  const marked = await inTerminal(["sh", "-c", WAIT], (pid) => terminals.look(pid), {
    KIKI_INCARNATION: "i1",
  });
  expect(marked!.agentMark).toBe(true);
  const mention = await inTerminal(["sh", "-c", WAIT], (pid) => terminals.look(pid), {
    OTHER: "KIKI_INCARNATION=i1",
  });
  expect(mention!.agentMark).toBe(false);
  const child = Bun.spawn(["setsid", "-w", "sleep", "30"], { env: {} });
  try {
    await waitFor(() => terminals.look(child.pid) !== null, 5_000, "the process");
    const { startTime } = processesFor().identify(child.pid)!;
    expect(terminals.look(child.pid)!.startTime).toBe(startTime);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
  expect(terminals.look(child.pid)).toBeNull();
});
