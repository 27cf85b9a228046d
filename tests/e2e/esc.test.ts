/** A person presses Esc in the agent's pane: no hook fires, and nothing may stay "working". */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { bash } from "../support/scenario.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
});
afterAll(() => w.close());

const agentOf = async (name: string): Promise<string | null> =>
  (await w.threads()).find((t) => t.name === name)?.agent ?? null;

test("Esc during a call → idle within seconds, by the session record; the next prompt works again", async () => {
  const prompt = w.scenario("long", { responses: [[bash("b1", "tail -f /dev/null")]] });
  const thread = await w.newThread(["long", "-m", prompt]);
  await waitFor(async () => (await agentOf("long")) === "working", 20_000, "working");
  const [pane] = w.tmux
    .ok("list-panes", "-s", "-t", thread.tmuxSession!, "-F", "#{pane_id}")
    .split("\n");
  w.tmux.ok("send-keys", "-t", pane!, "Escape");
  await waitFor(async () => (await agentOf("long")) === "idle", 20_000, "idle");
  expect((await w.state("long")).summary.lastAgentEvent).toBe("Interrupted (record)");
  const again = w.scenario("again", { responses: [[bash("b1", "tail -f /dev/null")]] });
  w.tmux.ok("send-keys", "-t", pane!, "-l", again);
  w.tmux.ok("send-keys", "-t", pane!, "Enter");
  await waitFor(async () => (await agentOf("long")) === "working", 20_000, "working again");
});
