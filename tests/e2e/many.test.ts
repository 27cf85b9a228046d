/** Many at once, and the ground taken away: whole binary, real jj and tmux. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(240_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});
async function keep(w: Promise<World>): Promise<World> {
  const made = await w;
  worlds.push(made);
  return made;
}

test("kk new: 20 at once → 20 threads", async () => {
  const w = await keep(initialised());
  const names = Array.from({ length: 20 }, (_, n) => `task ${n}`);
  const results = await Promise.all(
    names.map((name) => w.kkOnTerminal(["new", name, "--detach"], "y")),
  );
  const failed = results.filter((r) => r.code !== 0).map((r) => r.screen);
  expect(failed).toEqual([]);
  const threads = await w.threads();
  expect(threads.map((x) => x.name).sort()).toEqual(names.sort());
  expect(threads.every((x) => x.lifecycle === "Active")).toBe(true);
});

test("kk ls: tmux killed under an agent → soon no longer running, and said so", async () => {
  const w = await keep(initialised());
  await w.newThread(["parser"]);
  await w.tmux.kill();
  const state = await waitFor(
    async () => {
      const now = await w.state("parser");
      return now.incarnation === null ? now : null;
    },
    30_000,
    "the agent retired",
  );
  expect([state.summary.lifecycle, state.summary.agent]).toEqual(["Active", "blocked"]);
  expect(state.attention.map((a) => a.kind)).toEqual(["agent-crashed"]);
});
