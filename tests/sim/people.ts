/** What people do in a simulated world: jj in any workspace, editors, concurrent commands. Any of it may be refused. */
import { KikiError } from "../../src/core/errors.ts";
import { ROOT_OP } from "../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../src/core/revset.ts";
import type { FakePerson } from "../fakes/jj/person.ts";
import type { Random } from "../support/random.ts";
import type { World } from "./world.ts";

/** One thing a person may do in a workspace. */
interface Deed {
  name: string;
  weight: number;
  does: (who: FakePerson, w: World, r: Random) => void;
}

const PATHS = ["shared.txt", "main.txt", "lib/a.txt", "lib/b.txt"];

function somewhere(r: Random, who: string): string {
  return r.chance(0.3) ? `lib/${who}-${r.below(3)}.txt` : r.pick(PATHS);
}

/** A file with one more line, somewhere; or a new one. `which`: relative to `root`. */
export function edited(
  w: World,
  r: Random,
  root: string,
  who: string,
  which: string | null = null,
): { path: string; text: string } {
  const path = which ?? somewhere(r, who);
  const old = (w.files.get(`${root}/${path}`) ?? "")
    .split("\n")
    // Whoever edits a conflict resolves it whole; the fake knows nothing else.
    .filter(
      (line) => line !== "" && !/^(<<<<<<<|>>>>>>>|%%%%%%%|\+\+\+\+\+\+\+|-------|\\\\)/.test(line),
    );
  const at = r.below(old.length + 1);
  if (r.chance(0.2) && old.length > 0) old.splice(r.below(old.length), 1, w.fresh(who));
  else old.splice(at, 0, w.fresh(who));
  return { path, text: `${old.join("\n")}\n` };
}

function write(who: FakePerson, w: World, r: Random): void {
  const { path, text } = edited(w, r, who.root, "person");
  w.files.as("edit", () => who.write(path, text));
}

const below = (who: FakePerson, w: World): string =>
  w.jj.engine.store.commit(who.head).parents[0] ?? ROOT_COMMIT;

const DEEDS: readonly Deed[] = [
  { name: "st", weight: 6, does: (who) => who.status() },
  {
    name: "amend",
    weight: 8,
    does: (who, w, r) => {
      write(who, w, r);
      who.status();
    },
  },
  { name: "edit a file", weight: 3, does: write },
  { name: "describe", weight: 5, does: (who, w) => who.describe(w.fresh("described")) },
  { name: "new", weight: 4, does: (who) => who.new() },
  { name: "commit", weight: 5, does: (who, w) => who.commit(w.fresh("committed")) },
  {
    name: "describe @-",
    weight: 3,
    does: (who, w) => who.describe(w.fresh("described"), below(who, w)),
  },
  { name: "squash", weight: 3, does: (who) => who.squash() },
  { name: "edit @-", weight: 2, does: (who, w) => who.edit(below(who, w)) },
  { name: "new @-", weight: 1, does: (who, w) => who.new({ on: [below(who, w)] }) },
  { name: "abandon @", weight: 1, does: (who) => who.abandon(who.head) },
  { name: "abandon @-", weight: 1, does: (who, w) => who.abandon(below(who, w)) },
  {
    name: "rebase onto another's @",
    weight: 2,
    does: (who, w, r) => {
      const heads = [...w.jj.engine.newestHead().view.workspaces.values()];
      who.rebase(
        r.chance(0.7) ? "-s" : "-r",
        r.chance(0.6) ? who.head : below(who, w),
        r.pick(heads),
      );
    },
  },
  { name: "undo", weight: 2, does: (who) => who.undo() },
  {
    name: "op restore",
    weight: 1,
    does: (who, w) => {
      const parent = w.jj.engine.newestHead().parents[0];
      if (parent !== undefined && parent !== ROOT_OP) who.restoreOperation(parent);
    },
  },
  { name: "update-stale", weight: 6, does: (who) => who.updateStale() },
  { name: "git commit", weight: 2, does: (who, w) => void who.gitCommit(w.fresh("git")) },
];

/** One deed in one workspace; false when jj refused it. */
export function personActs(w: World, r: Random, workspace: string, deed?: string): string {
  const chosen =
    deed === undefined ? weighted(r, DEEDS, (d) => d.weight) : DEEDS.find((d) => d.name === deed)!;
  return attempt(w, `${workspace}: ${chosen.name}`, () => {
    chosen.does(w.jj.in(workspace), w, r);
  });
}

/** Commands that began before others ended: each leaves a head of its own. */
export function personConcurrently(w: World, r: Random, workspace: string): string {
  const op = w.jj.engine.newestHead();
  const at = r.chance(0.7) ? op.id : (op.parents[0] ?? op.id);
  if (at === ROOT_OP) return "nothing";
  return attempt(w, `${workspace}: concurrently`, () => {
    const who = w.jj.personAt(at, workspace);
    if (r.chance(0.5)) w.jj.personAt(at, "default").describe(w.fresh("beside"));
    if (r.chance(0.6)) who.describe(w.fresh("concurrent"));
    else who.commit(w.fresh("concurrent"));
  });
}

export function attempt(w: World, name: string, does: () => void): string {
  try {
    w.files.as("jj", does);
    return name;
  } catch (error) {
    if (error instanceof KikiError) return `${name} (refused: ${error.code})`;
    // The fake's person gives plain errors for a workspace or a commit that is not there, and for what it cannot play.
    if (
      error instanceof Error &&
      /no workspace|colocated|records no|undefined|not in this fake/.test(error.message)
    )
      return `${name} (impossible)`;
    throw error;
  }
}

export function weighted<T>(r: Random, from: readonly T[], weight: (of: T) => number): T {
  const total = from.reduce((sum, of) => sum + weight(of), 0);
  let at = r.below(total);
  for (const of of from) {
    at -= weight(of);
    if (at < 0) return of;
  }
  return from.at(-1)!;
}
