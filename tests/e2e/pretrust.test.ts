/** Claude Code's trust dialog in a new thread's pane: for the person to answer, or answered by their configuration. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
  // Makes the scripted agent ask.
  writeFileSync(stateFile(), '{"standInTrustDialog": true, "userID": "me"}', { mode: 0o600 });
});
afterAll(() => w.close());

const stateFile = (): string => join(w.env["HOME"]!, ".claude.json");
const byName = async (name: string) => (await w.threads()).find((t) => t.name === name);

test("a dialog, pretrust off → the thread stays Creating and says where to accept it; accepted, it is Active", async () => {
  const before = readFileSync(stateFile(), "utf8");
  const made = w.kkOnTerminal(["new", "asked", "--detach"], "y");
  await waitFor(
    async () =>
      (await w.state("asked").catch(() => null))?.attention.some((a) =>
        a.message.includes("accept the dialog in the agent pane"),
      ) === true,
    40_000,
    "the attention event",
  );
  const thread = (await byName("asked"))!;
  expect([thread.lifecycle, thread.agent]).toEqual(["Creating", "blocked"]);
  expect(readFileSync(stateFile(), "utf8")).toBe(before);
  const [pane] = w.tmux
    .ok("list-panes", "-s", "-t", thread.tmuxSession!, "-F", "#{pane_id}")
    .split("\n");
  w.tmux.ok("send-keys", "-t", pane!, "1");
  expect((await made).code).toBe(0);
  expect((await w.state("asked")).attention).toEqual([]);
  expect((await byName("asked"))?.lifecycle).toBe("Active");
});

test("pretrust on → no dialog, one key of the person's file, and the plan said so", async () => {
  mkdirSync(w.stateDir, { recursive: true });
  writeFileSync(join(w.stateDir, "config.toml"), "[agent.claude-code]\npretrust = true\n");
  const result = await w.kkOnTerminal(["new", "trusted", "--detach"], "y");
  expect([result.code, result.screen]).toEqual([0, expect.stringContaining("created trusted")]);
  expect(result.screen.replace(/\s+/g, " ")).toContain(
    "the workspace is marked as trusted in Claude Code's own state file",
  );
  const state = JSON.parse(readFileSync(stateFile(), "utf8")) as Record<string, unknown>;
  const workspace = (await w.state("trusted")).workspacePath;
  expect(state).toMatchObject({
    userID: "me",
    projects: { [workspace]: { hasTrustDialogAccepted: true } },
  });
});
