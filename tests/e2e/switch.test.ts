/** `kk switch` and what a new thread leaves in tmux, on a real terminal. */
import { readlinkSync } from "node:fs";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { initialised, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(90_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});

test("kk switch outside tmux → attached to exactly that session, detaching comes back with 0", async () => {
  const w = await initialised();
  worlds.push(w);
  await w.newThread(["bill"]);
  // A foreign session whose name begins like ours must never be taken for it.
  w.tmux.ok("new-session", "-d", "-s", "bill", "sleep 600");
  const [thread] = await w.threads();
  const child = Bun.spawn(["kk", "switch", "bi"], {
    cwd: w.repo.root,
    env: w.env,
    terminal: { cols: 100, rows: 30, data: () => undefined },
  });
  const clients = () =>
    w.tmux.run("list-clients", "-F", "#{session_id} #{session_name}").out.trim();
  await waitFor(() => clients() !== "", 20_000, "a client");
  expect(clients()).toBe(`${thread!.tmuxSessionId} ${thread!.tmuxSession}`);
  w.tmux.ok("detach-client", "-s", thread!.tmuxSessionId!);
  expect(await child.exited).toBe(0);
  child.terminal?.close();
});

test("a new thread's panes → inert wrappers at /, agent and shell below them in the workspace, focus on the agent", async () => {
  const w = await initialised();
  worlds.push(w);
  const made = await w.newThread(["parser"]);
  const { workspacePath } = await w.state("parser");
  const panes = w.tmux
    .ok("list-panes", "-t", made.tmuxSessionId!, "-F", "#{pane_pid} #{@kiki_role} #{pane_active}")
    .trim()
    .split("\n")
    .map((line) => line.split(" "));
  expect(panes.map(([, role, active]) => [role, active])).toEqual([
    ["agent", "1"],
    ["shell", "0"],
  ]);
  for (const [pid] of panes) {
    expect(readlinkSync(`/proc/${pid}/cwd`)).toBe("/");
    const children = await waitFor(
      async () => {
        const text = await Bun.file(`/proc/${pid}/task/${pid}/children`).text();
        return text.trim() === "" ? null : text.trim().split(" ");
      },
      10_000,
      "the wrapper's child",
    );
    expect(children).toHaveLength(1);
    expect(readlinkSync(`/proc/${children[0]}/cwd`)).toBe(workspacePath);
    const stat = await Bun.file(`/proc/${children[0]}/stat`).text();
    const [, , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    expect(pgrp).toBe(children[0]!); // a process group of its own
  }
  // The repository itself has nothing of kiki's in it.
  expect(await w.repo.jj(["status"])).toContain("no changes");
});
