/** A version of Claude Code without launch flags for settings: kiki's hooks in the workspace's local settings file. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { claudeShim, type ShimBehaviour } from "../support/claude-shim.ts";
import { onTerminal, type TerminalResult } from "../support/person.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const LOCAL = ".claude/settings.local.json";
let w: World;
beforeAll(async () => {
  w = await initialised({
    files: { "a.txt": "a\n", ".gitignore": `${LOCAL}\n`, ".claude/settings.json": "{}\n" },
  });
});
afterAll(() => w.close());

function kkNew(behaviour: ShimBehaviour, name: string): Promise<TerminalResult> {
  const env = { ...w.env, PATH: `${claudeShim(w.dir, behaviour)}:${w.env["PATH"]}` };
  return onTerminal(env, ["kk", "new", name, "--detach"], "y", w.repo.root);
}

const pathOf = async (name: string): Promise<string> =>
  join((await w.state(name)).workspacePath, LOCAL);

async function endAgent(name: string): Promise<void> {
  const thread = (await w.threads()).find((t) => t.name === name)!;
  const [pane] = w.tmux
    .ok("list-panes", "-s", "-t", thread.tmuxSession!, "-F", "#{pane_id}")
    .split("\n");
  w.tmux.ok("send-keys", "-t", pane!, "-l", "/exit");
  w.tmux.ok("send-keys", "-t", pane!, "Enter");
}

test("foreign hooks stay out → the thread is Active, said in the plan; the file is given back when the agent ends", async () => {
  const made = await kkNew("no-flags-reads-local-only", "old");
  expect([made.code, made.screen]).toEqual([0, expect.stringContaining("created old")]);
  expect(made.screen.replace(/\s+/g, " ")).toContain(
    "kiki's hooks are in .claude/settings.local.json of its workspace",
  );
  const file = await pathOf("old");
  expect(readFileSync(file, "utf8")).toContain("PreToolUse");
  await endAgent("old");
  await waitFor(() => !existsSync(file), 20_000, "the file given back");
  expect((await w.state("old")).attention).toEqual([]);
  expect((await w.repo.jj(["status"], join(file, "../.."))).includes(LOCAL)).toBe(false);
});

thorough("edited while the agent runs → left as it is, and a person hears of it", async () => {
  await kkNew("no-flags-reads-local-only", "edited");
  const file = await pathOf("edited");
  writeFileSync(file, '{"mine": true}');
  await endAgent("edited");
  await waitFor(
    async () => (await w.state("edited")).attention.some((a) => a.message.includes("was edited")),
    20_000,
    "the attention event",
  );
  expect(readFileSync(file, "utf8")).toBe('{"mine": true}');
});

thorough("the daemon was away when the agent ended → given back at its next start", async () => {
  await kkNew("no-flags-reads-local-only", "late");
  const file = await pathOf("late");
  const pid = w.daemonPid();
  process.kill(pid, "SIGKILL");
  await w.gone(pid);
  await endAgent("late");
  await w.kk(["ls"]);
  await waitFor(() => !existsSync(file), 30_000, "the file given back");
});

test("foreign hooks run → refused, nothing written", async () => {
  const made = await kkNew("no-flags", "loud");
  expect(made.code).not.toBe(0);
  expect(made.screen.replace(/\s+/g, " ")).toContain("hooks that are not kiki's ran in it");
  expect((await w.threads()).some((t) => t.name === "loud")).toBe(false);
});
