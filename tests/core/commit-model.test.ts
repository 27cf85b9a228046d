/**
 * Classification and owned stacks against a model that knows commits only as a table of edges and asks "is there a
 * path" by writing paths out. The graphs are random: merges, rewrites with hidden predecessors, divergent changes.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { transitionFacts } from "../../src/cascade/transition-facts.ts";
import { classify } from "../../src/core/classify.ts";
import { validateStack, type StackCommit } from "../../src/core/stack.ts";
import type { CommitView, JjRepo, WorkspaceView } from "../../src/ports/jj.ts";
import { refuted, seeded } from "../support/seed.ts";

interface Commit {
  id: string;
  change: string;
  parents: string[];
  /** The version this one rewrote. */
  rewrote: string | null;
  /** What it changes and says: the same after a mere move. */
  content: number;
}

interface Graph {
  commits: Commit[];
  visible: Set<string>;
}

const name = (i: number): string => `c${i}`;

/** Commit i has one or two of the commits before it as parents, and may be a rewrite of one of them. */
const graphs: fc.Arbitrary<Graph> = fc
  .array(
    fc.record({
      parents: fc.array(fc.nat(), { minLength: 1, maxLength: 2 }),
      merge: fc.integer({ min: 0, max: 4 }),
      rewrites: fc.integer({ min: 0, max: 3 }),
      of: fc.nat(),
      moved: fc.boolean(),
      tip: fc.integer({ min: 0, max: 5 }),
    }),
    { minLength: 3, maxLength: 9, size: "max" },
  )
  .map((picks) => {
    const commits: Commit[] = [];
    for (const [i, p] of picks.entries()) {
      const old = p.rewrites === 0 && i > 1 ? commits[1 + (p.of % (i - 1))]! : null;
      const wanted = p.parents
        .slice(0, p.merge === 0 ? 2 : 1)
        .map((n) => name(i - 1 - (n % Math.min(i, 3))));
      commits.push({
        id: name(i),
        change: old?.change ?? `z${i}`,
        parents: i === 0 ? [] : [...new Set(wanted)],
        rewrote: old?.id ?? null,
        content: old !== null && p.moved ? old.content : i,
      });
    }
    const rewritten = new Set(commits.map((c) => c.rewrote));
    const isLeaf = (c: Commit): boolean => !commits.some((d) => d.parents.includes(c.id));
    // A rewritten leaf is hidden, but sometimes stays and makes its change divergent.
    const tips = commits.filter(
      (c, i) => isLeaf(c) && (!rewritten.has(c.id) || picks[i]!.tip === 0),
    );
    const visible = new Set<string>();
    for (const tip of tips) for (const id of above(commits, tip.id)) visible.add(id);
    return { commits, visible };
  });

// ---- what a jj would answer: a breadth-first walk over parents ---------------------------------------------------

function above(
  commits: readonly Commit[],
  of: string,
  parentsSeen = Number.POSITIVE_INFINITY,
): Set<string> {
  const found = new Set([of]);
  for (const id of found) {
    const { parents } = commits.find((c) => c.id === id)!;
    for (const p of parents.slice(0, parentsSeen)) found.add(p);
  }
  return found;
}

function isDivergent(g: Graph, change: string): boolean {
  return g.commits.filter((c) => c.change === change && g.visible.has(c.id)).length > 1;
}

/** The commit, what it was made of, what that was made of, … */
function versions(g: Graph, id: string): Commit[] {
  const commit = g.commits.find((c) => c.id === id)!;
  return [commit, ...(commit.rewrote === null ? [] : versions(g, commit.rewrote))];
}

function jjOf(g: Graph, parentsSeen?: number): JjRepo {
  const view = (c: Commit): CommitView => ({
    commitId: c.id,
    changeId: c.change,
    parents: c.parents,
    description: "",
    conflict: false,
    empty: false,
    divergent: isDivergent(g, c.change),
    immutable: false,
    hidden: !g.visible.has(c.id),
  });
  const ancestors = (id: string): Set<string> => above(g.commits, id, parentsSeen);
  const jj: Partial<JjRepo> = {
    // Answers are kept by it: each graph is a repository of its own.
    location: { repoRoot: "/r", repoDir: "/r/.jj/repo", colocated: false } as JjRepo["location"],
    isAncestor: async (_op, a, of) => ancestors(of).has(a),
    relations: async (_op, ids, of) =>
      g.commits
        .filter((c) => ids.includes(c.id))
        .map((c) => ({ ...view(c), behind: of.filter((id) => ancestors(id).has(c.id)) })),
    existing: async (_op, ids) => g.commits.filter((c) => ids.includes(c.id)).map(view),
    sameChange: async (_op, a, b) => versions(g, a)[0]!.content === versions(g, b)[0]!.content,
    commits: async (_op, revset) => {
      const copies = /^change_id\((\w+)\)$/.exec(revset);
      if (copies !== null)
        return g.commits.filter((c) => c.change === copies[1] && g.visible.has(c.id)).map(view);
      const change = /^change_id\((\w+)\) & ::(\w+)$/.exec(revset);
      if (change !== null) {
        const within = ancestors(change[2]!);
        return g.commits
          .filter((c) => c.change === change[1] && g.visible.has(c.id) && within.has(c.id))
          .map(view);
      }
      const roots = /^roots\((\w+)\.\.(\w+)\)$/.exec(revset)!;
      const not = ancestors(roots[1]!);
      const range = g.commits.filter((c) => ancestors(roots[2]!).has(c.id) && !not.has(c.id));
      return range.filter((c) => !c.parents.some((p) => range.some((r) => r.id === p))).map(view);
    },
    evolvedFrom: async (_op, id) => versions(g, id).map((c) => c.id),
  };
  return jj as JjRepo;
}

// ---- the model: edges as a table, ancestry as a path written out -----------------------------------------------

type Edges = [child: string, parent: string][];
const edgesOf = (g: Graph): Edges =>
  g.commits.flatMap((c) => c.parents.map((p): [string, string] => [c.id, p]));

function paths(edges: Edges, from: string, to: string): string[][] {
  if (from === to) return [[from]];
  return edges
    .filter(([child]) => child === from)
    .flatMap(([, parent]) => paths(edges, parent, to).map((rest) => [from, ...rest]));
}
const isAbove = (edges: Edges, a: string, of: string): boolean => paths(edges, of, a).length > 0;

interface Question {
  g: Graph;
  from: string;
  to: string | null;
  child: string | null;
}

function model({ g, from, to, child }: Question): string {
  const edges = edgesOf(g);
  const changeOf = (id: string): string => g.commits.find((c) => c.id === id)!.change;
  const visibleOf = (change: string): string[] =>
    g.commits.filter((c) => c.change === change && g.visible.has(c.id)).map((c) => c.id);
  if (to === null) return "ParentAbandoned";
  if (child === null) return "ChildAbandoned";
  if (to === from) return "AlreadyAligned";
  // A copy that is nothing but an earlier version of another, moved, is none that counts.
  const holds = (full: string, copy: string): boolean => {
    const [mine, theirs] = [versions(g, copy), versions(g, full)];
    const parted = mine.find((c) => theirs.includes(c));
    return [theirs[0]!, ...(parted === undefined ? [] : [parted])].some(
      (c) => c.content === mine[0]!.content,
    );
  };
  const hasAll = (full: string): boolean =>
    visibleOf(changeOf(full)).every((copy) => holds(full, copy));
  if (!hasAll(to) || !visibleOf(changeOf(child)).some(hasAll)) return "DivergentChange";
  if (isAbove(edges, to, from)) return "ParentMovedBackward";
  if (isAbove(edges, to, child)) return "NativeRewrite";
  if (g.visible.has(from) && isAbove(edges, from, child)) return "ParentAdvance";
  const evolved = visibleOf(changeOf(from)).filter((id) => isAbove(edges, id, child));
  if (evolved.length > 0) return evolved.length === 1 ? "ParentAdvance" : "AnchorNotInChild";
  // Squashed away: the one root of what the child has beyond `to` stands on a commit that `from` became.
  const ids = g.commits.map((c) => c.id);
  const own = ids.filter((id) => isAbove(edges, id, child) && !isAbove(edges, id, to));
  const roots = own.filter((id) => edges.every(([c, p]) => c !== id || !own.includes(p)));
  const below = edges.filter(([c]) => c === roots[0]).map(([, p]) => p);
  if (roots.length !== 1 || below.length !== 1) return "AnchorNotInChild";
  let at: string | null = below[0]!;
  while (at !== null && at !== from) at = g.commits.find((c) => c.id === at)!.rewrote;
  return at === from ? "ParentAdvance" : "AnchorNotInChild";
}

const questions: fc.Arbitrary<Question> = fc
  .tuple(graphs, fc.nat(), fc.nat(), fc.nat(), fc.integer({ min: 0, max: 19 }))
  .map(([g, a, b, c, gone]) => {
    const visible = [...g.visible];
    const pick = (n: number): string => visible[n % visible.length]!;
    return {
      g,
      from: name(a % g.commits.length),
      to: gone === 0 ? null : pick(b),
      child: gone === 1 ? null : pick(c),
    };
  });

async function asked(q: Question, jj: JjRepo): Promise<string> {
  const at = (id: string | null): WorkspaceView | null =>
    id === null
      ? null
      : ({
          commitId: id,
          divergent: isDivergent(q.g, q.g.commits.find((c) => c.id === id)!.change),
        } as WorkspaceView);
  const found = classify(
    await transitionFacts(jj, "op", { fromBase: q.from, parent: at(q.to), child: at(q.child) }),
  );
  return found.kind === "TopologyDiverged" ? found.reason : found.kind;
}

const agrees = (jj: (g: Graph) => JjRepo) =>
  fc.asyncProperty(questions, async (q) => {
    expect(await asked(q, jj(q.g))).toBe(model(q));
  });

describe("classification on random commit graphs", () => {
  test("classify: any graph and any transition → what the paths say", async () => {
    await fc.assert(
      agrees((g) => jjOf(g)),
      seeded(1500),
    );
  });

  test("classify: the random transitions of this file → every answer there is", () => {
    const seen = new Set(fc.sample(questions, seeded(3000)).map(model));
    expect([...seen].sort()).toEqual([
      "AlreadyAligned",
      "AnchorNotInChild",
      "ChildAbandoned",
      "DivergentChange",
      "NativeRewrite",
      "ParentAbandoned",
      "ParentAdvance",
      "ParentMovedBackward",
    ]);
  });

  test("classify: ancestry through one parent of each commit → refuted", async () => {
    const result = await fc.check(
      agrees((g) => jjOf(g, 1)),
      seeded(1500),
    );
    expect(result.failed).toBe(true);
  });
});

// ---- owned stacks ----------------------------------------------------------------------------------------------

interface Stack {
  g: Graph;
  base: string;
  head: string;
  bad: string | null;
  kind: "conflict" | "divergent" | "immutable";
  /** Commits of registered followers. */
  ours: Set<string>;
}

const stacks: fc.Arbitrary<Stack> = fc
  .tuple(
    graphs,
    fc.nat(),
    fc.nat(),
    fc.integer({ min: 0, max: 12 }),
    fc.constantFrom("conflict" as const, "divergent" as const, "immutable" as const),
    fc.boolean(),
  )
  .map(([g, b, h, bad, kind, followed]) => ({
    g,
    base: name(b % g.commits.length),
    head: name(h % g.commits.length),
    bad: bad < g.commits.length ? name(bad) : null,
    kind,
    ours: new Set(followed ? g.commits.map((c) => c.id) : []),
  }));

/** The chapter's sentences, one by one; the chain, base side first, or null. */
function stackModel(s: Stack): string[] | null {
  const edges = edgesOf(s.g);
  const ids = s.g.commits.map((c) => c.id);
  const own = ids.filter((id) => isAbove(edges, id, s.head) && !isAbove(edges, id, s.base));
  const parents = (id: string): string[] => edges.filter(([c]) => c === id).map(([, p]) => p);
  if (!isAbove(edges, s.base, s.head) || own.length === 0) return null;
  if (own.some((id) => parents(id).length !== 1 || id === s.bad)) return null;
  const roots = own.filter((id) => !own.includes(parents(id)[0]!));
  if (roots.length !== 1 || parents(roots[0]!)[0] !== s.base) return null;
  // One chain: any two of them are one above the other.
  const ordered = own.every((a) => own.every((b) => isAbove(edges, a, b) || isAbove(edges, b, a)));
  const foreign = edges.some(([c, p]) => own.includes(p) && !own.includes(c) && !s.ours.has(c));
  if (!ordered || foreign) return null;
  return own.sort((a, b) => (isAbove(edges, a, b) ? -1 : 1));
}

type Validate = typeof validateStack;

const stackAgrees = (validate: Validate): fc.IProperty<[Stack]> =>
  fc.property(stacks, (s) => {
    const not = above(s.g.commits, s.base);
    const own = s.g.commits.filter((c) => above(s.g.commits, s.head).has(c.id) && !not.has(c.id));
    const members: StackCommit[] = own.map((c) => ({
      commitId: c.id,
      changeId: c.change,
      parents: c.parents,
      conflict: c.id === s.bad && s.kind === "conflict",
      divergent: c.id === s.bad && s.kind === "divergent",
      immutable: c.id === s.bad && s.kind === "immutable",
    }));
    const outsideChildren = s.g.commits
      .filter((c) => !own.includes(c) && c.parents.some((p) => own.some((o) => o.id === p)))
      .map((c) => c.id);
    const found = validate({
      base: s.base,
      head: s.head,
      members,
      outsideChildren,
      followsChildren: s.ours,
    });
    expect(found.ok ? found.value.map((c) => c.commitId) : null).toEqual(stackModel(s));
  });

describe("owned stacks on random commit graphs", () => {
  test("stack: any graph, base and head → valid exactly when each of the chapter's sentences holds", () => {
    fc.assert(stackAgrees(validateStack), seeded(3000));
  });
  test("stack: the random stacks of this file → chains of one, two and three, and none", () => {
    const lengths = new Set(fc.sample(stacks, seeded(3000)).map((s) => stackModel(s)?.length ?? 0));
    expect([0, 1, 2, 3].every((n) => lengths.has(n))).toBe(true);
  });
  const wrong: [string, Validate][] = [
    [
      "first parents only",
      (i) =>
        validateStack({
          ...i,
          members: i.members.map((c) => ({ ...c, parents: c.parents.slice(0, 1) })),
        }),
    ],
    [
      "any root will do",
      (i) =>
        validateStack({
          ...i,
          base:
            i.members.find((c) => !i.members.some((m) => m.commitId === c.parents[0]))
              ?.parents[0] ?? i.base,
        }),
    ],
    ["descendants do not matter", (i) => validateStack({ ...i, outsideChildren: [] })],
    [
      "conflicts do not matter",
      (i) => validateStack({ ...i, members: i.members.map((c) => ({ ...c, conflict: false })) }),
    ],
  ];
  for (const [title, validate] of wrong) {
    test(`stack: ${title} → refuted`, () =>
      expect(refuted(stackAgrees(validate), 3000)).toBe(true));
  }
});
