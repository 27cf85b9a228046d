/**
 * What most tests of the cascade begin with: the thread `parser` and the thread `tests` that follows it, made once in a
 * process and copied. A copy is what the daemon finds at a start: everything is read, nothing is pending.
 */
import { write } from "../../src/store/db.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { repoPaths } from "../../src/core/paths.ts";
import { join } from "node:path";
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
  /** The child's. */
  agent: Agent;
  /** The parent amends `parser.txt`: one more NativeRewrite is ready for the child. */
  amend(text: string): Promise<void>;
  /** The parent adds a revision: ParentAdvance. */
  advance(file: string): Promise<void>;
}

export interface PairOptions extends RigOptions {
  /** What the parent has recorded when the child is made; default: one line in `parser.txt`. */
  before?: Record<string, string>;
  /** What the child has recorded; default: nothing. */
  own?: Record<string, string>;
}

type Threads = Pick<Pair, "parent" | "child">;

export async function makePair(options: PairOptions = {}): Promise<Pair> {
  const { before = { "parser.txt": "one\n" }, own = {}, ...of } = options;
  const { rig, parent, child } = await threadsOn(of, before, own);
  const changed = async (): Promise<void> => {
    await rig.repo.jj(["status"], parent.path);
    await rig.cascade.refreshToFrontier();
  };
  return {
    rig,
    parent,
    child,
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

async function threadsOn(
  options: RigOptions,
  before: Record<string, string>,
  own: Record<string, string>,
): Promise<Threads & { rig: Rig }> {
  const begin = async (rig: Rig): Promise<Threads> => {
    const parent = await rig.thread("parser");
    await record(rig, parent, before);
    const child = await rig.thread("tests", parent);
    await record(rig, child, own);
    await rig.cascade.refreshToFrontier();
    return { parent, child };
  };
  if (options.threads !== undefined) {
    const rig = await makeRig(options);
    return { rig, ...(await begin(rig)) };
  }
  const { colocated = false } = options;
  const key = JSON.stringify(["pair", colocated, before, own]);
  const { dir, original, known } = await copyOf(key, async () => {
    const rig = await makeRig({ colocated });
    const threads = await begin(rig);
    await closeForCopies(rig);
    return { dir: rig.repo.dir, known: threads };
  });
  moveRows(dir, original);
  const rig = await openRig(personIn(dir, join(dir, "repo")), options);
  const here = (thread: TestThread): TestThread => ({
    ...thread,
    path: thread.path.replace(original, dir),
  });
  return { rig, parent: here(known.parent), child: here(known.child) };
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
