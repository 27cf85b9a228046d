/** jj answers nobody for a while, whatever it is asked: what a hook gets meanwhile, and what a person sees. On real jj. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread, RigOptions } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Family {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  /** From now on every jj command of kiki's takes half a minute, or as long as before. */
  slow(yes: boolean): void;
  /** Commands that were kept waiting, and those of them that jj has begun with. */
  kept(): number;
  answered(): number;
}

async function family(settings: RigOptions = {}): Promise<Family> {
  let bin = "";
  const { rig, parent, child, agent } = await makePair({
    stoppedCommandMs: 1_500,
    ...settings,
    jjEnv(repo) {
      bin = join(repo.dir, "slow-bin");
      mkdirSync(bin);
      const real = Bun.which("jj", { PATH: repo.env["PATH"] ?? "" })!;
      writeFileSync(
        join(bin, "jj"),
        `#!/bin/sh\nif [ -f '${bin}/slow' ]; then echo "$*" >>'${bin}/kept'; sleep 30; echo "$*" >>'${bin}/answered'; fi\nexec '${real}' "$@"\n`,
      );
      chmodSync(join(bin, "jj"), 0o755);
      return { ...repo.env, PATH: `${bin}:${repo.env["PATH"] ?? ""}` };
    },
  });
  rigs.push(rig);
  const lines = (name: string): number =>
    existsSync(join(bin, name))
      ? readFileSync(join(bin, name), "utf8").trim().split("\n").length
      : 0;
  return {
    rig,
    parent,
    child,
    agent,
    slow: (yes) => (yes ? writeFileSync(join(bin, "slow"), "") : rmSync(join(bin, "slow"))),
    kept: () => lines("kept"),
    answered: () => lines("answered"),
  };
}

async function amend({ rig, parent }: Family, text: string): Promise<void> {
  rig.repo.write("parser.txt", text, parent.path);
  await rig.repo.jj(["status"], parent.path);
}

thorough(
  "jj takes half a minute while a move is being read → calls pass while it does; degraded, and no more once it is read; told then",
  async () => {
    const f = await family({ settings: { pollMs: 1_000 } });
    f.slow(true);
    await amend(f, "two\n");
    await waitFor(() => f.kept() > 0, 20_000, "a reading under way");
    // Ten calls come and go while those very commands have not answered.
    for (let n = 0; n < 10; n += 1) expect((await f.agent.batch())[0]!.text).toBeNull();
    expect(f.answered()).toBe(0);
    expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
    await waitFor(
      () =>
        f.rig.cascade.watching().degraded?.includes("has not shown its newest operations") === true,
      20_000,
      "degraded while it takes long",
    );
    f.slow(false);
    await waitFor(() => f.rig.intents(f.child).length === 1, 60_000, "the move read at last");
    await waitFor(() => f.rig.cascade.watching().degraded === null, 20_000, "no longer degraded");
    expect((await f.agent.batch())[0]!.text).toBe(f.rig.intents(f.child)[0]!.payload);
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
  },
);

test("jj takes half a minute at a boundary with work → told to hold at once, refused when jj is given up, no file changed; told by the next batch", async () => {
  const f = await family();
  await amend(f, "two\n");
  await f.rig.cascade.refreshToFrontier();
  f.slow(true);
  const id = f.agent.newId();
  const first = await f.agent.ask(id);
  expect(first.decision).toBe("hold");
  expect(f.kept()).toBe(0); // nothing of jj's was asked for that
  const held = await f.agent.confirm(first.decision === "hold" ? first.token : "");
  expect(held.decision).toBe("deny");
  const text = held.decision === "deny" ? held.output : "";
  expect(text).toContain("did not run");
  expect(f.kept()).toBeGreaterThan(0);
  await f.agent.close([{ toolUseId: id, text }]);
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
  expect(f.rig.barrier(f.child)).toBe(true);
  // The files cannot even be looked at: nothing is decided, nobody is asked, and it goes on by itself.
  expect(f.rig.intents(f.child)[0]).toMatchObject({ payload: null, recovering: true });
  expect(f.rig.attention(f.child)).toEqual([]);
  f.slow(false);
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
  expect(answer!.text).not.toContain("You had edits");
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
  expect((await f.agent.call()).text).toBeNull();
});
