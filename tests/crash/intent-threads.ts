/** The threads of the intents' world, as `kk new` leaves them behind. */
import { repoPaths } from "../../src/core/paths.ts";
import type { CommitId } from "../../src/core/ids.ts";
import { write, type Db } from "../../src/store/db.ts";
import type { IntentRow } from "../../src/store/intents.ts";
import type { HarnessName } from "../../src/ports/harness.ts";
import type { FakeAgent } from "../fakes/agent.ts";
import type { FakeJj } from "../fakes/jj.ts";
import type { SimFiles } from "../sim/disk.ts";

export const REPO_ID = "aaaaaaaa-1111-4111-8111-111111111111";
export const STATE = "/state";

export const PARENT = "00000000-0000-4000-8000-00000000000a";
export const CHILD = "00000000-0000-4000-8000-00000000000b";
export const FOLLOWER = "00000000-0000-4000-8000-00000000000c";

export interface CrashThread {
  id: string;
  name: string;
  workspace: string;
  root: string;
  incarnation: string;
  harness: HarnessName;
}

export type CrashThreads = Record<"parent" | "child" | "follower", CrashThread>;

/** What outlives every daemon. */
export interface IntentScene {
  /** What the neighbour with the agents was asked. */
  readonly agents: { readonly asked: readonly string[] };
  readonly files: SimFiles;
  readonly jj: FakeJj;
  /** Sees only what is durable. */
  readonly outside: Db;
  readonly threads: CrashThreads;
  readonly agent: FakeAgent;
  /** Nobody can read what the child's model got for its calls. */
  readonly blind: boolean;
  /** Nothing of the child's agent can change a file now. */
  readonly still: boolean;
  /** The child's. */
  intents(): IntentRow[];
}

type Place = Pick<IntentScene, "files" | "jj" | "outside">;

function threadOf(id: string, name: string): CrashThread {
  return {
    id,
    name,
    workspace: `kk-${name}`,
    root: `/src/calc-${name}`,
    incarnation: `agent-of-${name}`,
    harness: "claude-code",
  };
}

/** A parent with one file, a child on it, and a thread that follows the child. */
export async function addThreads(
  world: Place,
  refresh: () => Promise<unknown>,
  harness: HarnessName,
): Promise<CrashThreads> {
  const parent = threadOf(PARENT, "parser");
  const child = threadOf(CHILD, "tests");
  const follower = threadOf(FOLLOWER, "docs");
  const main = world.jj.engine.store.commit(world.jj.at("default")!).parents[0]!;
  await addThread(world, refresh, parent, main, null);
  world.files.as("jj", () => world.jj.amend(parent.workspace, { "parser.txt": "one\n" }));
  await addThread(world, refresh, { ...child, harness }, world.jj.at(parent.workspace)!, parent);
  await addThread(world, refresh, follower, world.jj.at(child.workspace)!, child);
  await refresh();
  return { parent, child, follower };
}

async function addThread(
  world: Place,
  refresh: () => Promise<unknown>,
  thread: CrashThread,
  base: CommitId,
  follows: CrashThread | null,
): Promise<void> {
  const { jj, outside } = world;
  world.files.makeFolders(repoPaths(STATE, REPO_ID).root);
  const { name, workspace, root: path } = thread;
  await world.files.as("jj", () =>
    jj.addWorkspace({ name: workspace, path, base, description: name, token: `new ${name}` }),
  );
  const head = jj.at(workspace)!;
  await jj.createBookmark(`kk/${name}`, head, `bookmark of ${name}`);
  await refresh();
  const change = jj.engine.store.commit(head).change;
  write(outside, () => insertThread(outside, thread, { base, head, change, op: jj.head }, follows));
}

function insertThread(
  db: Db,
  thread: CrashThread,
  at: { base: CommitId; head: CommitId; change: string; op: string },
  follows: CrashThread | null,
): void {
  const { id, name, workspace, root, incarnation, harness } = thread;
  db.query(
    `INSERT INTO threads (thread_id, name, slug, lifecycle, harness, harness_executable, harness_args_json,
       workspace_name, workspace_path, bookmark, tmux_session, owned_stack_base_commit_id, thread_head_commit_id,
       thread_head_change_id, thread_head_op_id, checkpoint_commit_id, created_at)
     VALUES ($id, $name, $name, 'Creating', $harness, '/x/claude', '[]', $workspace, $root, $bookmark, $name,
       $base, $head, $change, $op, $head, 1)`,
  ).run({ id, name, workspace, root, harness, bookmark: `kk/${name}`, ...at });
  if (follows !== null) {
    db.query("INSERT INTO thread_links VALUES ($child, $parent, $base, 1)").run({
      child: id,
      parent: follows.id,
      base: at.base,
    });
  }
  db.query(
    `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version, harness_session_id,
       secret_sha256, settings_fingerprint, capabilities_json, pid, start_time, status, created_at, session_started_at,
       ready_at)
     VALUES ($incarnation, $id, $harness, '2.1.332', $incarnation, $hash, $hash, '{}', 4242, '1', 'Running', 1, 1, 1)`,
  ).run({ incarnation, id, harness, hash: Bun.hash(incarnation).toString(16).padStart(64, "0") });
  db.query("UPDATE threads SET lifecycle = 'Active' WHERE thread_id = $id").run({ id });
}
