/** What is kept of jj's answers about one operation. */
import { expect, test } from "bun:test";
import { related } from "../../src/cascade/related.ts";
import type { CommitRelations, JjRepo } from "../../src/ports/jj.ts";

type Asks = Pick<JjRepo, "location" | "relations"> & { asked: string[] };

function repo(): Asks {
  const asked: string[] = [];
  return {
    asked,
    location: { workspaceRoot: "/r", repoRoot: "/r", repoDir: "/r/.jj/repo", colocated: false },
    relations(op, ids, of) {
      asked.push(`${op} ${ids.join("")} ${of.join("")}`);
      return Promise.resolve(ids.map((id) => ({ commitId: id, behind: of }) as CommitRelations));
    },
  };
}

const set = (text: string): Set<string> => new Set(text);

test("related: the same or less of the same operation → asked once, by whatever wraps the repository", async () => {
  const jj = repo();
  const first = await related(jj, "op1", set("abc"), set("ab"));
  expect(await related({ ...jj }, "op1", set("ac"), set("b"))).toBe(first);
  expect(first.rows.get("a")?.behind).toEqual(["a", "b"]);
  expect(jj.asked).toEqual(["op1 abc ab"]);
});

test("related: another operation, another commit, another repository at the same place → asked", async () => {
  const jj = repo();
  const other = repo();
  await related(jj, "op1", set("ab"), set("a"));
  await related(jj, "op2", set("ab"), set("a"));
  await related(jj, "op1", set("ad"), set("a"));
  await related(jj, "op2", set("ab"), set("b"));
  await related(other, "op1", set("ab"), set("a"));
  expect(jj.asked).toEqual(["op1 ab a", "op2 ab a", "op1 ad a", "op2 ab b"]);
  expect(other.asked).toEqual(["op1 ab a"]);
});
