/**
 * jj contract: a random walk. People and agents in three stacked workspaces do whatever comes, and after every step
 * both worlds must show the same repository. `KIKI_TEST_SEED` replays one.
 */
import type { CommitId, OpId } from "../../src/core/ids.ts";
import type { Observer, Scenario, World } from "./jj-driver.ts";
import { addThread } from "./jj-scenarios-history.ts";

const STEPS = 24;
const WORKSPACES = ["default", "kk-b", "kk-c"] as const;
const FILES = ["base.txt", "p.txt", "q.txt"] as const;

interface Walk {
  world: World;
  see: Observer;
  /** 0 ≤ result < n. */
  pick: (n: number) => number;
}

type Step = (walk: Walk, workspace: string, step: number) => Promise<unknown>;

const ACTIONS: Record<string, Step> = {
  edit: async ({ world, pick }, workspace, step) => {
    const lines = ["line 1", "line 2", "line 3"];
    lines[pick(3)] = `step ${step}`;
    world.in(workspace).write(FILES[pick(3)]!, `${lines.join("\n")}\n`);
  },
  record: ({ world }, workspace) => world.in(workspace).status(),
  describe: ({ world }, workspace, step) => world.in(workspace).describe(`${workspace} ${step}`),
  commit: ({ world }, workspace, step) => world.in(workspace).commit(`done ${step}`),
  new: ({ world }, workspace) => world.in(workspace).newChange(),
  squash: ({ world }, workspace) => world.in(workspace).squash(),
  undo: ({ world }, workspace) => world.in(workspace).undo(),
  update: ({ world }, workspace, step) =>
    world.repo.updateStale(world.folder(workspace), `token-${step}`),
  bookmark: async ({ world, see }, workspace) =>
    world.in(workspace).bookmark("mark", await see.at(workspace)),
  concurrent: async ({ world, see }, workspace, step) => {
    const op = await see.head();
    await world.at(op, workspace).describe(`at once ${step}`);
    await world.at(op, "default").newChange({ message: `beside ${step}` });
    await world.repo.deleteBookmark("mark", `token-${step}`);
  },
  advance: async ({ world, see }, _workspace, step) => {
    const at = await see.head();
    const [base, head] = [await see.at("default"), await see.at("kk-b")];
    const chain = await world.repo.commits(at, `${base}..${head}`);
    const named = chain.map((c) => c.commitId);
    await advance(world, { at, chain: named.reverse(), onto: base }, `token-${step}`);
  },
};

async function advance(
  world: World,
  plan: { at: OpId; chain: CommitId[]; onto: CommitId },
  token: string,
): Promise<void> {
  const staged = await world.repo.stageRebase({ ...plan, token });
  await world.repo.integrate(staged.id, token);
}

export function walkOf(seed: number): Scenario {
  return {
    name: `random walk of ${STEPS} steps, seed ${seed} → the same repository after every step`,
    async run(world, see) {
      const walk = { world, see, pick: picker(seed) };
      await addThread(world, "kk-b", await see.at("default"));
      await addThread(world, "kk-c", await see.at("kk-b"));
      await see.view("start");
      const names = Object.keys(ACTIONS);
      for (let step = 1; step <= STEPS; step += 1) {
        const name = names[walk.pick(names.length)]!;
        const workspace = WORKSPACES[walk.pick(WORKSPACES.length)]!;
        const what = `${step}. ${name} in ${workspace}`;
        await see.refused(what, () => ACTIONS[name]!(walk, workspace, step));
        if (name !== "edit") await see.view(what);
        if (step % 2 === 0) await see.workspace(what, workspace);
      }
    },
  };
}

/** mulberry32. */
function picker(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
  };
}
