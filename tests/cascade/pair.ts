/**
 * What most tests of the cascade begin with: the thread `parser` and the thread `tests` that follows it, made once in a
 * process and copied. A copy is what the daemon finds at a start: everything is read, nothing is pending.
 */
import { join } from "node:path";
import { repoPaths } from "../../src/core/paths.ts";
import { write } from "../../src/store/db.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { copyOf } from "../support/copies.ts";
import { personIn } from "../support/jj-repo.ts";
import {
  closeForCopies,
  makeRig,
  openRig,
  REPO_ID,
  type Agent,
  type Rig,
  type RigOptions,
  type TestThread,
} from "./rig.ts";

export interface Pair {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  /** The newest operation before the child was made. */
  beforeChild: string;
  /** The child's. */
  agent: Agent;
  /** The parent amends `parser.txt`: one more NativeRewrite is ready for the child. */
  amend: (text: string) => Promise<void>;
  /** The parent adds a revision: ParentAdvance. */
  advance: (file: string) => Promise<void>;
}

export interface PairOptions extends RigOptions {
  /** What the parent has recorded when the child is made; default: one line in `parser.txt`. */
  before?: Record<string, string>;
  /** What the child has recorded; default: nothing. */
  own?: Record<string, string>;
}

interface Begun {
  rig: Rig;
  threads: TestThread[];
}

export async function makePair(options: PairOptions = {}): Promise<Pair> {
  const { before = { "parser.txt": "one\n" }, own = {}, ...of } = options;
  const { rig, parent, child, beforeChild } = await begin(of, before, own);
  const changed = async (): Promise<void> => {
    await rig.repo.jj(["status"], parent.path);
    await rig.cascade.refreshToFrontier();
  };
  return {
    rig,
    parent,
    child,
    beforeChild,
    agent: rig.agent(child),
    async amend(text) {
      rig.repo.write("parser.txt", text, parent.path);
      await changed();
    },
    async advance(file) {
      await rig.repo.jj(["new", "-m", `adds ${file}`], parent.path);
      rig.repo.write(file, `${file}\n`, parent.path);
      await changed();
    },
  };
}

async function begin(
  options: RigOptions,
  before: Record<string, string>,
  own: Record<string, string>,
): Promise<Pick<Pair, "rig" | "parent" | "child" | "beforeChild">> {
  const { colocated = false } = options;
  const alone = async (on: RigOptions): Promise<Begun> => {
    const rig = await makeRig(on);
    return { rig, threads: [await rig.thread("parser")] };
  };
  const both = async ({ rig, threads: [parent] }: Begun): Promise<Begun & { at: string }> => {
    await record(rig, parent!, before);
    const at = await rig.repo.head();
    const child = await rig.thread("tests", parent);
    await record(rig, child, own);
    await rig.cascade.refreshToFrontier();
    return { rig, threads: [parent!, child], at };
  };
  const { rig, threads, at } =
    options.threads === undefined
      ? await onCopy(["pair", colocated, before, own], options, async () =>
          // Tests whose pairs differ in their files have this much in common.
          both(await onCopy(["parent", colocated], { colocated }, () => alone({ colocated }))),
        )
      : await both(await alone(options));
  const [parent, child] = threads as [TestThread, TestThread];
  return { rig, parent, child, beforeChild: at };
}

/** A rig on a copy of what `make` makes. */
async function onCopy<T extends Begun>(
  key: unknown[],
  options: RigOptions,
  make: () => Promise<T>,
): Promise<T> {
  const { dir, original, known } = await copyOf(JSON.stringify(key), async () => {
    const made = await make();
    await closeForCopies(made.rig);
    return { dir: made.rig.repo.dir, known: made };
  });
  moveRows(dir, original);
  const rig = await openRig(personIn(dir, join(dir, "repo")), options);
  const threads = known.threads.map((thread) => ({
    ...thread,
    path: thread.path.replace(original, dir),
  }));
  return { ...known, rig, threads };
}

async function record(rig: Rig, thread: TestThread, files: Record<string, string>): Promise<void> {
  if (Object.keys(files).length === 0) return;
  for (const [path, text] of Object.entries(files)) rig.repo.write(path, text, thread.path);
  await rig.repo.jj(["status"], thread.path);
}

/** kiki's rows alone hold paths; jj and git go by relative ones (jj's operations name the command lines they were). */
function moveRows(dir: string, original: string): void {
  const db = openRepoDb(repoPaths(join(dir, "state"), REPO_ID).db);
  write(db, () => {
    db.query("UPDATE threads SET workspace_path = replace(workspace_path, $original, $dir)").run({
      original,
      dir,
    });
  });
  db.close();
}
