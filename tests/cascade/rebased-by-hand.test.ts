/** A person who brings the child onto the parent's new revision before kiki's turn comes, again and again, on real jj. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** The child's stack is two revisions: one that is done, and its `@`. */
async function family(): Promise<Pair> {
  const pair = await makePair();
  const { rig, child } = pair;
  rigs.push(rig);
  rig.repo.write("tests.txt", "t1\n", child.path);
  await rig.repo.jj(["commit", "-m", "first test"], child.path);
  rig.repo.write("more.txt", "t2\n", child.path);
  await rig.repo.jj(["describe", "-m", "second test"], child.path);
  await rig.cascade.refreshToFrontier();
  return pair;
}

/** Every commit of the repository that is visible, with its change: a rewrite shows up here. */
async function visible(rig: Rig): Promise<string> {
  const template = 'change_id ++ " " ++ commit_id ++ " " ++ description.first_line() ++ "\\n"';
  const at = ["--ignore-working-copy", "--at-op", await rig.repo.head()];
  return rig.repo.jj([...at, "log", "--no-graph", "-r", "all()", "-T", template]);
}

describe("a person rebases the child's stack first, then kiki's turn, three times in a row", () => {
  for (const [where, what] of [
    ["in the child's workspace", "its files are there already"],
    ["in the main workspace", "kiki brings the files"],
  ] as const) {
    for (const read of ["only then", "in between as well"]) {
      // The default suite has each place and each way to read once.
      const play = where.startsWith("in the child's") === (read === "only then") ? test : thorough;
      play(
        `${where}, operations read ${read} → converges: told once each, ${what}, not one new commit id, no operation of kiki's`,
        async () => {
          const { rig, parent, child } = await family();
          const agent = rig.agent(child);
          const told: string[] = [];
          for (const round of [1, 2, 3]) {
            await rig.repo.jj(["new", "-m", `adds lexer${round}`], parent.path);
            rig.repo.write(`lexer${round}.txt`, `${round}\n`, parent.path);
            await rig.repo.jj(["status"], parent.path);
            if (read !== "only then") {
              await rig.cascade.refreshToFrontier();
              expect(
                rig
                  .intents(child)
                  .map((i) => i.state)
                  .at(-1),
              ).toBe("Detected");
            }
            await rig.repo.jj(
              ["rebase", "-s", "kk-tests@-", "-d", "kk-parser@"],
              where === "in the main workspace" ? rig.repo.root : child.path,
            );
            const [head, commits] = [await rig.repo.head(), await visible(rig)];
            await rig.cascade.refreshToFrontier();

            const answers = await agent.batch();
            const intent = rig.intents(child).at(-1)!;
            expect(rig.intents(child)).toHaveLength(round);
            expect(intent).toMatchObject({ state: "Delivered", softRedeliveryCount: 0 });
            expect(answers.map((a) => a.text)).toEqual([intent.payload!]);
            told.push(intent.payload!);
            expect(intent.payload).toContain(`A lexer${round}.txt`);
            expect(rig.file(child, `lexer${round}.txt`)).toBe(`${round}\n`);
            expect(rig.file(child, "more.txt")).toBe("t2\n");
            // The next turn acknowledges, and nothing more is said.
            expect((await agent.batch())[0]!.text).toBeNull();
            expect(rig.intents(child).map((i) => i.state)).toEqual(
              Array.from({ length: round }, () => "Acknowledged"),
            );
            expect(await visible(rig)).toBe(commits);
            expect(await rig.repo.head()).toBe(head);
            expect(await rig.repo.commit("kk-tests@--")).toBe(await rig.head(parent));
          }
          expect(new Set(told).size).toBe(3);
          expect(rig.attention(child)).toEqual([]);
          // jj agrees: nothing is stale, and looking records nothing.
          await rig.repo.jj(["status"], child.path);
          expect((await agent.batch())[0]!.text).toBeNull();
          expect(rig.intents(child)).toHaveLength(3);
        },
      );
    }
  }
});
