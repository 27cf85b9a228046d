/** Many at once, and the ground taken away: whole binary, real jj and tmux. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { isThorough } from "../support/thorough.ts";
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

const NAMED = isThorough ? 12 : 1;
const TWINS = isThorough ? 4 : 2;
const NAMELESS = isThorough ? 4 : 1;
const ALL = NAMED + TWINS + NAMELESS;

test(`kk new: ${ALL} at once, some of one name and some without → ${ALL} threads, each asked about once`, async () => {
  const w = await keep(initialised());
  // Names, the same one several times, none at all.
  const named = Array.from({ length: NAMED }, (_, n) => [`task ${n}`]);
  const twins = Array.from({ length: TWINS }, () => ["twin"]);
  const nameless = Array.from({ length: NAMELESS }, () => []);
  const began = performance.now();
  const results = await Promise.all(
    [...named, ...twins, ...nameless].map((name) =>
      w.kkOnTerminal(["new", ...name, "--detach"], "y"),
    ),
  );
  console.log(`${ALL} at once: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  expect(results.filter((r) => r.code !== 0).map((r) => r.screen)).toEqual([]);
  expect(results.map((r) => r.screen.split("[y/N]").length - 1)).toEqual(Array(ALL).fill(1));
  const threads = await w.threads();
  const names = threads.map((t) => t.name);
  expect(names.filter((name) => !name.startsWith("unnamed-")).sort()).toEqual(
    [...named.flat(), ...twins.map((_, n) => (n === 0 ? "twin" : `twin-${n + 1}`))].sort(),
  );
  expect(new Set(names).size).toBe(ALL);
  expect(threads.every((t) => t.lifecycle === "Active")).toBe(true);
  for (const field of ["bookmark", "tmuxSession"] as const) {
    expect(new Set(threads.map((t) => t[field])).size).toBe(ALL);
  }
  // Each of kiki's commands is above the one before: none leaves another one heads to merge.
  const ops = await w.repo.jj(["op", "log", "--no-graph", "-T", 'parents.len() ++ "\n"']);
  expect(ops.split("\n").filter((parents) => Number(parents) > 1)).toEqual([]);
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
