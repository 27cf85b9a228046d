/** A copy of a pair is what its original was: to jj, to git, to the probe and to the cascade. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { removeTempDirs } from "../support/temp.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function pair(colocated: boolean): Promise<Pair> {
  const made = await makePair({ colocated, own: { "own.txt": "own\n" } });
  rigs.push(made.rig);
  return made;
}

describe.each([
  ["colocated", true],
  ["not colocated", false],
] as const)("%s", (_, colocated) => {
  test("copies lie apart: every path of the database and of jj is the copy's own", async () => {
    const [one, other] = [await pair(colocated), await pair(colocated)];
    expect(other.rig.repo.dir).not.toBe(one.rig.repo.dir);
    for (const { rig, parent, child } of [one, other]) {
      const rows = rig.db
        .query<{ path: string }, []>(
          "SELECT workspace_path AS path FROM threads ORDER BY created_at, name",
        )
        .all();
      expect(rows.map((row) => row.path)).toEqual([parent.path, child.path]);
      const [op] = await rig.jj.heads();
      for (const { root } of await rig.jj.workspaces(op!))
        expect(root!.startsWith(`${rig.repo.dir}/`)).toBe(true);
      for (const { path } of [parent, child]) {
        const root = await rig.repo.jj(["root"], path);
        expect(root.trim()).toBe(path);
        if (!colocated) continue;
        const gitDir = await rig.repo.git(["rev-parse", "--absolute-git-dir"], path);
        expect(gitDir.trim().startsWith(`${rig.repo.root}/.git/worktrees/`)).toBe(true);
      }
    }
    const tables = other.rig.db
      .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .all();
    const rows = tables.map(({ name }) => other.rig.db.query(`SELECT * FROM "${name}"`).all());
    expect(JSON.stringify(rows).match(/kiki-test-jj-\w+/g)).not.toBeNull();
    for (const [path] of JSON.stringify(rows).matchAll(/kiki-test-jj-\w+/g))
      expect(other.rig.repo.dir).toEndWith(path);
  });

  test("both workspaces are clean and fresh, jj and git have nothing to do, kiki has read everything", async () => {
    const { rig, parent, child } = await pair(colocated);
    const before = await rig.repo.head();
    const counts = () =>
      rig.db.query("SELECT count(*) AS ops, max(processed_at) AS at FROM op_history").get();
    const read = counts();
    for (const thread of [parent, child]) {
      const probe = await rig.jj.probe(thread.path, thread.workspace, before);
      expect(probe.state).toBe("FreshClean");
      await rig.repo.jj(["status"], thread.path);
      if (colocated)
        // As jj leaves git's index: what `@` adds is to be added.
        expect(await rig.repo.git(["status", "--porcelain"], thread.path)).toBe(
          thread === parent ? " A parser.txt\n" : " A own.txt\n",
        );
    }
    await rig.repo.jj(["status"]);
    expect(await rig.repo.head()).toBe(before);
    expect(await rig.cascade.refreshToFrontier()).toEqual([before]);
    expect(counts()).toEqual(read);
    expect(rig.intents(child)).toEqual([]);
  });

  test("files keep their times to the nanosecond, and what one copy does is not in the next", async () => {
    const one = await pair(colocated);
    const time = ({ child }: Pair) =>
      statSync(join(child.path, "own.txt"), { bigint: true }).mtimeNs;
    const [head, own] = [await one.rig.repo.head(), time(one)];
    one.rig.repo.write("own.txt", "changed\n", one.child.path);
    await one.amend("two\n");
    await one.agent.batch();
    expect(one.rig.intents(one.child)).toHaveLength(1);
    const other = await pair(colocated);
    expect(await other.rig.repo.head()).toBe(head);
    expect(time(other)).toBe(own);
    expect(other.rig.intents(other.child)).toEqual([]);
    expect(other.rig.file(other.parent, "parser.txt")).toBe("one\n");
  });
});
