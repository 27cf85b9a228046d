/** How many processes an agent waits for at a boundary, on the real jj and git. Times are `scripts/bench`'s. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { countedJj, type CountedJj } from "../support/counted-jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makeRig, type Rig } from "./rig.ts";

setDefaultTimeout(180_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const TOLD = ["log", "diff -T", "diff --stat --git"];

const KINDS: readonly { kind: string; advance: boolean; commands: readonly string[] }[] = [
  { kind: "StaleClean", advance: false, commands: ["workspace update-stale", ...TOLD] },
  {
    kind: "ParentAdvance",
    advance: true,
    // What it stands on, the rebase, the new commits and what stands on what, publishing.
    commands: ["log", "rebase", "log", "op integrate", "workspace update-stale", ...TOLD],
  },
];

for (const { kind, advance, commands } of KINDS) {
  test(`cost of a boundary: ${kind}, second one of this child → these processes and no other`, async () => {
    let counted: CountedJj | null = null;
    const rig = await makeRig({
      jjEnv: (repo) => (counted = countedJj(repo.dir, repo.env, ["git"])).env,
    });
    rigs.push(rig);
    const { repo } = rig;
    const parent = await rig.thread("parser");
    repo.write("src/parser.txt", "one\n", parent.path);
    await repo.jj(["status"], parent.path);
    const agent = rig.agent(await rig.thread("tests", parent));
    for (const round of [1, 2]) {
      if (advance) await repo.jj(["new", "-m", `step ${round}`], parent.path);
      repo.write("src/parser.txt", `round ${round}\n`, parent.path);
      await repo.jj(["util", "snapshot"], parent.path);
      await rig.cascade.refreshToFrontier();
      counted!.reset();
      const call = agent.newId();
      const { text } = await agent.call(call);
      expect(text).toContain("What changed in your base");
      if (round === 2) expect(counted!.calls().map(commandOf).sort()).toEqual([...commands].sort());
      await agent.close([{ toolUseId: call, text }]);
      await agent.batch();
    }
  });
}

/** `log`, `workspace update-stale`, `diff --stat --git`; of git all there is. */
function commandOf(call: string): string {
  if (call.startsWith("git ")) return call;
  const found = / (log|rebase|op integrate|workspace [a-z-]+|config list|diff)(?= |$)/.exec(call);
  const command = found?.[1] ?? call;
  if (command !== "diff") return command;
  return `diff ${/ (--stat --git|-T)(?= )/.exec(call)?.[1]}`;
}
