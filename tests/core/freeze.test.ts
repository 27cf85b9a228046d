/** Membership, order and sorting of a frozen tree, on process tables nobody ever had. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  freezeRound,
  isHookCommand,
  isLockFile,
  isVersionControl,
  sameStopSet,
  type FreezeRules,
} from "../../src/core/freeze.ts";
import {
  keyOf,
  processTree,
  ProcessTable,
  type ProcessFacts,
  type TreeQuery,
} from "../../src/core/process-tree.ts";
import { hookCommand } from "../../src/backends/harness/codex/settings.ts";

const SEED = process.env["KIKI_TEST_SEED"];
const SETTINGS = { numRuns: 300, ...(SEED === undefined ? {} : { seed: Number(SEED) }) };

function facts(of: Partial<ProcessFacts> & { pid: number }): ProcessFacts {
  return {
    startTime: String(of.pid),
    parent: 1,
    pgid: of.pid,
    session: of.pid,
    mine: true,
    name: "program",
    marked: "no",
    ...of,
  };
}

/**
 * A machine: 1 (init) → 2 (tmux) → 3 (wrapper, the root), and processes 10… each with an earlier one as parent. `born`
 * is the true parent; `parent` what the kernel shows after some have ended.
 */
interface Machine {
  table: ProcessFacts[];
  born: Map<number, number>;
  ended: Set<number>;
}

const machines = fc
  .array(
    fc.record({
      parent: fc.nat(),
      ends: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
      session: fc.integer({ min: 0, max: 2 }).map((n) => n === 0),
      cleans: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
      closed: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
    }),
    { maxLength: 30 },
  )
  .map((plans): Machine => {
    const born = new Map([[3, 2]]);
    const marked = new Set<number>([3]);
    const sessions = new Map([
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
    const ended = new Set<number>();
    const closed = new Set<number>();
    plans.forEach((plan, at) => {
      const pid = 10 + at;
      const parents = [1, 2, 3, ...Array.from({ length: at }, (_, i) => 10 + i)];
      const parent = parents[plan.parent % parents.length] ?? 1;
      born.set(pid, parent);
      if (marked.has(parent) && !plan.cleans) marked.add(pid);
      sessions.set(pid, plan.session ? pid : (sessions.get(parent) ?? pid));
      if (plan.ends) ended.add(pid);
      if (plan.closed) closed.add(pid);
    });
    const live = (pid: number): boolean => !ended.has(pid);
    const table = [1, 2, 3, ...[...born.keys()].filter((pid) => pid > 3 && live(pid))].map(
      (pid) => {
        const parent = pid === 1 ? 0 : pid === 2 ? 1 : (born.get(pid) ?? 1);
        const mark = marked.has(pid) && pid > 3 ? "yes" : "no";
        return facts({
          pid,
          parent: parent === 0 || live(parent) ? parent : 1,
          session: sessions.get(pid) ?? pid,
          marked: closed.has(pid) ? "unreadable" : mark,
        });
      },
    );
    return { table, born, ended };
  });

const ROOT = { pid: 3, startTime: "3" };
const query = (over: Partial<TreeQuery> = {}): TreeQuery => ({
  roots: [ROOT],
  since: "3",
  known: new Set(),
  ...over,
});

function isBornOfRoot(machine: Machine, pid: number): boolean {
  for (let at: number | undefined = pid; at !== undefined; at = machine.born.get(at)) {
    if (at === 3) return true;
  }
  return false;
}

/** Its parents up to the root all live: found without any other trace. */
function isLinked(machine: Machine, pid: number): boolean {
  for (let at = pid; at !== 3;) {
    const up = machine.born.get(at);
    if (up === undefined || machine.ended.has(up)) return false;
    at = up;
  }
  return true;
}

describe("process tree", () => {
  test("random machines: members are exactly born of the root, every traceable one is there, or is unprovable", () => {
    fc.assert(
      fc.property(machines, (machine) => {
        const table = new ProcessTable(machine.table);
        const { members, unprovable } = processTree(table, query());
        const pids = new Set(members.map((p) => p.pid));
        for (const { pid } of members) expect(isBornOfRoot(machine, pid)).toBe(true);
        for (const p of machine.table.filter((q) => q.pid > 3 && isBornOfRoot(machine, q.pid))) {
          const traceable = isLinked(machine, p.pid) || p.marked === "yes" || p.session === 3;
          if (traceable) expect(pids.has(p.pid)).toBe(true);
        }
        // What cannot be told is named: a closed process handed to process 1, alone at the top of its family.
        for (const p of machine.table) {
          if (p.marked !== "unreadable" || pids.has(p.pid) || p.pid <= 3 || p.parent > 2) continue;
          expect(unprovable.map((u) => u.pid)).toContain(p.pid);
        }
      }),
      SETTINGS,
    );
  });

  test("random machines: parents come before children; a known orphan stays; its descendants with it", () => {
    fc.assert(
      fc.property(machines, fc.nat(), (machine, pick) => {
        const table = new ProcessTable(machine.table);
        const { members } = processTree(table, query());
        const order = new Map(members.map((p, at) => [p.pid, at]));
        for (const p of members) {
          const above = order.get(p.parent);
          if (above !== undefined) expect(above).toBeLessThan(order.get(p.pid)!);
        }
        const strangers = machine.table.filter((p) => p.pid > 3 && !order.has(p.pid));
        const known = strangers[pick % Math.max(1, strangers.length)];
        if (known === undefined) return;
        const again = processTree(table, query({ known: new Set([keyOf(known)]) })).members;
        for (const pid of table.descendants(known.pid)) {
          expect(again.some((p) => p.pid === pid)).toBe(true);
        }
      }),
      SETTINGS,
    );
  });

  test("session shared with what is above the root → is the person's: nobody is taken by it", () => {
    const table = new ProcessTable([
      facts({ pid: 2 }),
      facts({ pid: 3, parent: 2, session: 2 }),
      facts({ pid: 10, parent: 2, session: 2 }),
      facts({ pid: 11, parent: 3, session: 2 }),
    ]);
    expect(processTree(table, query()).members.map((p) => p.pid)).toEqual([11]);
  });

  test("closed process that began before the root, or of a family with another environment → foreign", () => {
    const closed = { marked: "unreadable" as const };
    const tree = (list: ProcessFacts[]) =>
      processTree(new ProcessTable([facts({ pid: 3 }), ...list]), query()).unprovable.map(
        (p) => p.pid,
      );
    expect(tree([facts({ pid: 20, startTime: "2", ...closed })])).toEqual([]);
    expect(tree([facts({ pid: 20 }), facts({ pid: 21, parent: 20, ...closed })])).toEqual([]);
    expect(tree([facts({ pid: 20, ...closed })])).toEqual([20]);
    expect(tree([facts({ pid: 20, mine: false, ...closed })])).toEqual([]);
  });

  test("root gone, or its number another's → missing, nobody is taken for its child", () => {
    const table = new ProcessTable([
      facts({ pid: 3, startTime: "99" }),
      facts({ pid: 10, parent: 3 }),
    ]);
    expect(processTree(table, query())).toEqual({
      members: [],
      unprovable: [],
      missingRoots: [ROOT],
    });
  });
});

describe("freeze round", () => {
  const ordinary = () => ({ argv: ["program"], holdsLock: false });
  const none: FreezeRules = { keep: [], launchers: [] };

  test("random machines: every member is in exactly one set; nobody kept is stopped; equal samples are equal", () => {
    fc.assert(
      fc.property(machines, fc.nat(), fc.nat(), (machine, kept, locked) => {
        const members = processTree(new ProcessTable(machine.table), query()).members;
        const at = (n: number) => members[n % Math.max(1, members.length)];
        const keep =
          members.length === 0 ? [] : [{ process: at(kept)!, reach: "family" as const, why: "kk" }];
        const holdsLock = (p: ProcessFacts) => p.pid === at(locked)?.pid;
        const round = freezeRound(machine.table, query(), { ...none, keep }, (p) => ({
          argv: [],
          holdsLock: holdsLock(p),
        }));
        const sets = [
          round.stop.map((s) => s.process),
          round.drain,
          round.kept.map((k) => k.process),
        ];
        expect(sets.flat().map(keyOf).toSorted()).toEqual(members.map(keyOf).toSorted());
        const family = new Set(
          keep.flatMap((k) => [...new ProcessTable(machine.table).descendants(k.process.pid)]),
        );
        for (const p of [...sets[0]!, ...sets[1]!]) expect(family.has(p.pid)).toBe(false);
        expect(sets[0]!.some(holdsLock)).toBe(false);
        const again = freezeRound(machine.table.toReversed(), query(), { ...none, keep }, (p) => ({
          argv: [],
          holdsLock: holdsLock(p),
        }));
        expect(sameStopSet(round, again)).toBe(true);
      }),
      SETTINGS,
    );
  });

  test("git with an ssh below it → both are waited for; the shell above is stopped", () => {
    const sample = [
      facts({ pid: 3 }),
      facts({ pid: 10, parent: 3, name: "sh" }),
      facts({ pid: 11, parent: 10, name: "git" }),
      facts({ pid: 12, parent: 11, name: "ssh" }),
    ];
    const round = freezeRound(sample, query(), none, ordinary);
    expect(round.drain.map((p) => p.pid)).toEqual([11, 12]);
    expect(round.stop.map((s) => s.process.pid)).toEqual([10]);
  });

  test("reaches: itself leaves its children to be stopped, ancestors those above", () => {
    const sample = [
      facts({ pid: 3 }),
      facts({ pid: 10, parent: 3 }),
      facts({ pid: 11, parent: 10 }),
      facts({ pid: 12, parent: 11 }),
    ];
    const stopped = (reach: "itself" | "ancestors" | "descendants" | "family") =>
      freezeRound(
        sample,
        query(),
        { ...none, keep: [{ process: sample[2]!, reach, why: "kk" }] },
        ordinary,
      ).stop.map((s) => s.process.pid);
    expect(stopped("itself")).toEqual([10, 12]);
    expect(stopped("ancestors")).toEqual([12]);
    expect(stopped("descendants")).toEqual([10]);
    expect(stopped("family")).toEqual([]);
  });
});

describe("who is what", () => {
  const launcher = "/state/harness/t/hook";
  test("hook chain: the launcher's own shapes → hook; a command that mentions it → not", () => {
    const is = (...argv: string[]) => isHookCommand(argv, [launcher]);
    expect(is("/bin/sh", launcher, "PreToolUse")).toBe(true);
    expect(is("/bin/bash", "-c", `'${launcher}' Stop`)).toBe(true);
    expect(is("sh", "-lc", `${launcher} PreToolUse || { echo blocked; exit 2; }`)).toBe(true);
    for (const shell of ["/bin/bash", "/usr/bin/fish", "/bin/tcsh", "/bin/ksh"])
      expect(is(shell, "-c", hookCommand(launcher, "PreToolUse"))).toBe(true);
    const last = (words: string) => `'${launcher}' PreToolUse || /bin/sh -c '${words}; exit 2'`;
    expect(is("sh", "-c", last("make"))).toBe(false);
    expect(is("sh", "-c", last('echo "$(make)" >&2'))).toBe(false);
    expect(is("sh", "-c", `${last('echo "a" >&2')} && make`)).toBe(false);
    expect(is("sh", "-c", `${launcher} Stop || { echo a\nmake; exit 2; }`)).toBe(false);
    expect(is("sh", "-c", `${launcher} Stop || { echo $(make); exit 2; }`)).toBe(false);
    expect(is("sh", "-c", `${launcher} Stop; sleep 600`)).toBe(false);
    expect(is("sh", "-c", `${launcher} Stop & make`)).toBe(false);
    expect(is("sh", "-c", `${launcher}x Stop`)).toBe(false);
    expect(is("sh", "-c", `cat ${launcher}`)).toBe(false);
    expect(is("cat", launcher, "Stop")).toBe(false);
    expect(is("sh", launcher, "Stop", "more")).toBe(false);
    expect(isHookCommand(null, [launcher])).toBe(false);
    expect(is("sh", "/other/hook", "Stop")).toBe(false);
  });

  test("jj and git by name; git's long-lived helpers → ordinary processes", () => {
    const is = (name: string, argv: string[] | null) => isVersionControl({ name }, argv);
    expect(is("jj", ["jj", "st"])).toBe(true);
    expect(is("git-remote-http", null)).toBe(true);
    expect(is("wrapped", ["/opt/bin/git", "commit"])).toBe(true);
    expect(is("git", ["git", "-C", "/x", "-c", "a=b", "commit"])).toBe(true);
    expect(is("git", null)).toBe(true);
    expect(is("git", ["git", "-C", "/x", "cat-file", "--batch"])).toBe(false);
    expect(is("git", ["git", "--no-pager", "fsmonitor--daemon", "run"])).toBe(false);
    expect(is("lazyjj", ["lazyjj"])).toBe(false);
    expect(is("gitea", ["gitea"])).toBe(false);
  });

  test("lock files: below .jj or .git and named so → yes; deleted, or elsewhere → no", () => {
    for (const path of [
      "/w/.jj/working_copy/working_copy.lock",
      "/w/.jj/repo/op_heads/heads/lock",
      "/w/.git/worktrees/a/index.lock",
    ]) {
      expect(isLockFile(path)).toBe(true);
      expect(isLockFile(`${path} (deleted)`)).toBe(false);
    }
    for (const path of ["/w/yarn.lock", "/w/.git/index", "/w/.jjx/a.lock", "/w/.git/block"]) {
      expect(isLockFile(path)).toBe(false);
    }
  });
});
