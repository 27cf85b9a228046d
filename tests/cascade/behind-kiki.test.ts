/** What jj itself does, or forgets, about a stale workspace behind kiki's back: on real jj. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { removeTempDirs } from "../support/temp.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** `dirty`: the child has an edit that nobody has recorded. */
async function family(dirty: boolean): Promise<Pair> {
  const pair = await makePair({ own: { "tests.txt": "recorded\n" } });
  const { rig, child } = pair;
  rigs.push(rig);
  if (dirty) rig.repo.write("tests.txt", "recorded\nand not\n", child.path);
  return pair;
}

async function amend({ rig, parent }: Pair): Promise<void> {
  rig.repo.write("parser.txt", "two\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
}

describe("snapshot.auto-update-stale = true in the person's configuration", () => {
  const on = ({ rig }: Pair) =>
    rig.repo.jj(["config", "set", "--user", "snapshot.auto-update-stale", "true"]);

  for (const read of [true, false]) {
    const when = read ? "after kiki has read the move" : "before kiki has read the move";
    test(`agent's own jj updates its clean stale files ${when} → told all the same, nothing done twice`, async () => {
      const f = await family(false);
      await on(f);
      await amend(f);
      if (read) await f.rig.cascade.refreshToFrontier();
      await f.rig.repo.jj(["status"], f.child.path);
      expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
      await f.rig.cascade.refreshToFrontier();
      const head = await f.rig.repo.head();
      const [answer] = await f.rig.agent(f.child).batch();
      expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
      expect(answer!.text).toContain("already in place");
      expect(await f.rig.repo.head()).toBe(head);
    });

    test(`agent's own jj puts unrecorded edits beside its revision ${when} → back in the files at the next boundary, told`, async () => {
      const f = await family(true);
      await on(f);
      await amend(f);
      if (read) await f.rig.cascade.refreshToFrontier();
      await f.rig.repo.jj(["status"], f.child.path);
      // jj's doing: the tree does not show the edit any more.
      expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\n");
      await f.rig.cascade.refreshToFrontier();
      expect(f.rig.intents(f.child).map((i) => i.state)).toEqual(["Detected"]);
      const [answer] = await f.rig.agent(f.child).batch();
      expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
      expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\nand not\n");
      expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
      expect(await f.rig.repo.commit("divergent()")).toBe("");
      expect(f.rig.attention(f.child)).toEqual([]);
    });
  }

  test("kiki's own commands do not go by it: unrecorded edits on stale files → recovered, nothing beside the visible history", async () => {
    const f = await family(true);
    await on(f);
    await amend(f);
    await f.rig.cascade.refreshToFrontier();
    const [answer] = await f.rig.agent(f.child).batch();
    expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
    expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\nand not\n");
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
    expect(await f.rig.repo.commit("divergent()")).toBe("");
    expect(f.rig.attention(f.child)).toEqual([]);
  });
});

describe("the operations that a stale workspace's files are from are abandoned", () => {
  for (const collected of [false, true]) {
    for (const dirty of [false, true]) {
      test(`${collected ? "and collected as garbage" : "and still in the store"}, ${dirty ? "unrecorded edits" : "clean"} → never updated: paused for a person, every file bundled and untouched`, async () => {
        const f = await family(dirty);
        const { rig, child } = f;
        await amend(f);
        await rig.cascade.refreshToFrontier();
        const checkout = readFileSync(join(child.path, ".jj/working_copy/checkout"));
        const op = checkout.subarray(2, 66).toString("hex");
        const file = join(rig.jj.headsFolder, "../../op_store/operations", op);
        expect(existsSync(file)).toBe(true);
        const blind = "--ignore-working-copy";
        await rig.repo.jj([blind, "op", "abandon", "..@-"]);
        if (collected) await rig.repo.jj([blind, "util", "gc", "--expire", "now"]);
        expect(existsSync(file)).toBe(!collected);
        await rig.cascade.refreshToFrontier();
        const head = await rig.repo.head();

        for (let n = 0; n < 2; n += 1)
          expect((await rig.agent(child).batch())[0]!.text).toContain("waits for a person");
        await rig.reboot();
        expect((await rig.agent(child).batch())[0]!.text).toContain("waits for a person");
        const [intent] = rig.intents(child);
        expect(intent).toMatchObject({ state: "RecoveryRequired", recovering: false });
        expect(rig.attention(child)).toHaveLength(1);
        expect(rig.attention(child)[0]).toContain("its agent is paused");
        const tests = dirty ? "recorded\nand not\n" : "recorded\n";
        for (const [path, text] of [
          ["parser.txt", "one\n"],
          ["tests.txt", tests],
        ] as const) {
          expect(rig.file(child, path)).toBe(text);
          expect(readFileSync(`${intent!.recoveryBundle}/files/${path}`, "utf8")).toBe(text);
        }
        expect(await rig.repo.head()).toBe(head);
      });
    }
  }
});
