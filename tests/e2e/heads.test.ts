/** Agents whose jj commands overlap, and people who make threads meanwhile: the whole binary, real jj and tmux. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { bash, say, touch, wait } from "../support/scenario.ts";
import { isThorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(240_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});

/** Full ids, as they lie there. */
function heads(w: World): string[] {
  const folder = join(w.repo.root, ".jj/repo/op_heads/heads");
  return readdirSync(folder).filter((name) => /^[0-9a-f]{128}$/.test(name));
}

/** Two jj commands of which neither sees the other, as an agent's parallel calls may run them. */
const AT_ONCE = [
  "op=$(jj --no-pager op log --no-graph -n1 -T id --ignore-working-copy)",
  'jj --at-op "$op" bookmark create "one-$1" -r "root()+"',
  'jj --at-op "$op" bookmark create "two-$1" -r "root()+"',
];

const MANY = isThorough ? 5 : 3;
const TASKS = Array.from({ length: MANY + 1 }, (_, n) => `task ${n + 1}`);

test(`kk new: ${MANY} at once while agents run jj at once and leave two heads behind → ${MANY} Active threads, one head, nothing of theirs lost`, async () => {
  const w = await initialised();
  worlds.push(w);
  const script = w.scenario("forker", {
    responses: [
      [
        touch(w.signal("ready")),
        wait(w.signal("go")),
        bash("f1", `set -- a\n${AT_ONCE.join("\n")}`),
      ],
      // Thinks from then on: no jj command of its own comes to merge what it has left.
      [touch(w.signal("forked")), wait(w.signal("never")), say("done")],
    ],
  });
  await w.newThread(["forker", "-m", script]);
  const busy = w.scenario("busy", {
    responses: [
      [touch(w.signal("busy-ready")), wait(w.signal("go")), bash("b0", "jj status")],
      ...[1, 2, 3, 4, 5, 6].map((n) => [
        bash(`b${n}a`, `jj describe -m step-${n}`),
        bash(`b${n}b`, `jj bookmark create busy-${n} -r 'root()+'`),
      ]),
      [touch(w.signal("busy-done")), say("done")],
    ],
  });
  await w.newThread(["busy", "-m", busy]);
  for (const signal of ["ready", "busy-ready"])
    await waitFor(() => existsSync(w.signal(signal)), 60_000, signal);
  w.raise("go");
  const results = await Promise.all(
    TASKS.slice(0, MANY).map((task) => w.kkOnTerminal(["new", task, "--detach"], "y")),
  );
  expect(results.filter((r) => r.code !== 0).map((r) => r.screen)).toEqual([]);
  for (const signal of ["forked", "busy-done"])
    await waitFor(() => existsSync(w.signal(signal)), 60_000, signal);
  // Once more, with nobody else there: two heads that stay.
  const at = await w.repo.head();
  for (const name of ["x", "y"])
    await w.repo.jj([`--at-op=${at}`, "bookmark", "create", name, "-r", "root()+"]);
  expect(heads(w)).toHaveLength(2);
  const last = await w.kkOnTerminal(["new", TASKS[MANY]!, "--follows", "busy", "--detach"], "y");
  expect([last.code, last.code === 0 ? "" : last.screen]).toEqual([0, ""]);
  const threads = await w.threads();
  expect(threads.map((t) => `${t.name}: ${t.lifecycle}`).sort()).toEqual(
    ["busy", "forker", ...TASKS].map((n) => `${n}: Active`),
  );
  await waitFor(() => heads(w).length === 1, 30_000, "one head");
  const names = await w.repo.jj([
    "bookmark",
    "list",
    "--ignore-working-copy",
    "-T",
    'name ++ "\n"',
  ]);
  expect(names.split("\n")).toEqual(
    expect.arrayContaining(["one-a", "two-a", "x", "y", ...[1, 6].map((n) => `busy-${n}`)]),
  );
});
