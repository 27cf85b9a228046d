/**
 * A parent and its follower in a real world (world.ts), and what a person could see of them: files, commits, what the
 * agent got, rows of the database opened read-only, `kk ls` and `kk status`. Nothing of the product is called.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "bun:test";
import { Database } from "bun:sqlite";
import type { TestRepo } from "./jj-repo.ts";
import { moments, say, touch, wait, type Moment } from "./scenario.ts";
import { waitFor } from "./wait.ts";
import type { ThreadState, World } from "./world.ts";

const PATIENCE_MS = 90_000;

/** The columns of `sync_intents` that say what became of one. */
export interface IntentRow {
  id: string;
  kind: string;
  state: string;
  from: string;
  to: string;
  op: string;
  payload: string | null;
  result: string | null;
  mode: string | null;
  redeliveries: number;
  reason: string | null;
  bundle: string | null;
  receipt: string | null;
}

export interface Thread {
  name: string;
  id: string;
  path: string;
  workspace: string;
}

export interface Follower extends Thread {
  /** The event log of its agent. */
  log: string;
}

/** A registered repository of a world. */
export interface Home {
  w: World;
  repo: TestRepo;
  /** Where the daemon keeps what it knows of it. */
  state: string;
}

export interface Family extends Home {
  parent: Thread;
  child: Follower;
  /** Lets the child's agent go on from where it waits. */
  go(): void;
}

export function homeOf(w: World, repo: TestRepo): Home {
  const user = new Database(join(w.stateDir, "state.db"), { readonly: true });
  const row = user
    .query<{ id: string }, [string]>("SELECT repo_id AS id FROM repos WHERE repo_root = ?")
    .get(repo.root);
  user.close();
  return { w, repo, state: join(w.stateDir, "repos", row!.id) };
}

/** What `read` finds in the repository's database, which nobody but the daemon may write. */
export function inDb<T>(home: Home, read: (db: Database) => T): T {
  const db = new Database(join(home.state, "state.db"), { readonly: true });
  try {
    return read(db);
  } finally {
    db.close();
  }
}

export function stateOf(home: Home, thread: Thread): Promise<ThreadState> {
  return home.w.kkJson<ThreadState>(["status", thread.name, "--no-jj"], home.repo.root);
}

/** `kk new`, a person agreeing. */
export async function newThread(home: Home, name: string, args: string[] = []): Promise<Thread> {
  const { w, repo } = home;
  const made = await w.kkOnTerminal(["new", name, ...args, "--detach"], "y", repo.root);
  if (made.code !== 0) throw new Error(`kk new ${name}: exit ${made.code}\n${made.screen}`);
  const state = await w.kkJson<ThreadState>(["status", name, "--no-jj"], repo.root);
  return {
    name,
    id: state.summary.threadId,
    path: state.workspacePath,
    workspace: state.workspaceName,
  };
}

/** A thread whose agent does what `responses` say, and when it is started again what `resumed` says. */
export async function newFollower(
  home: Home,
  name: string,
  parent: string,
  responses: readonly unknown[],
  resumed: readonly unknown[] = [],
): Promise<Follower> {
  const log = join(home.w.dir, `${name}.ndjson`);
  const prompt = home.w.scenario(name, { log, responses, resumed });
  return { ...(await newThread(home, name, ["--follows", parent, "-m", prompt])), log };
}

/**
 * `<name>-parent`, moved by a person, with one described revision of `files`; and `<name>`, whose agent does `before`,
 * waits to be told to go on, and does `after` then. It ends its turn when that is over.
 */
export async function family(
  home: Home,
  name: string,
  of: {
    files?: Record<string, string>;
    before: readonly unknown[];
    after: readonly unknown[];
    /** When it is started again in its conversation. */
    resumed?: readonly unknown[];
  },
): Promise<Family> {
  const { w, repo } = home;
  const parent = await newThread(home, `${name}-parent`);
  const files = of.files ?? { [`${name}.ts`]: "v1\n" };
  for (const [path, text] of Object.entries(files)) repo.write(path, text, parent.path);
  await repo.jj(["describe", "--quiet", "-m", `${name}: first`], parent.path);
  const [next, ...rest] = of.after as [unknown[], ...unknown[]];
  const responses = [
    ...of.before,
    [touch(w.signal(`${name}-ready`)), wait(w.signal(`${name}-go`)), ...next],
    ...rest,
    [touch(w.signal(`${name}-done`)), say("done")],
  ];
  const child = await newFollower(home, name, parent.name, responses, of.resumed);
  await reached(home, `${name}-ready`);
  return { ...home, parent, child, go: () => w.raise(`${name}-go`) };
}

/** Whatever of a scenario's steps may follow a blocked batch: the same again until a call of it runs. */
export const untilRun = (...blocks: readonly unknown[]) => ({
  while: { last_result_contains: "did not run" },
  do: [blocks],
  max: 200,
});

export function reached(home: Home, signal: string): Promise<unknown> {
  return waitFor(
    () => existsSync(home.w.signal(signal)),
    PATIENCE_MS,
    () => `${signal}\n${story(home)}`,
  );
}

/** Moves the parent as a person does: files written, recorded by jj. */
export async function amend(
  f: Pick<Family, "repo" | "parent">,
  files: Record<string, string>,
): Promise<void> {
  for (const [path, text] of Object.entries(files)) f.repo.write(path, text, f.parent.path);
  await f.repo.jj(["status", "--quiet"], f.parent.path);
}

export function intents(home: Home, thread: Thread): IntentRow[] {
  return inDb(home, (db) =>
    db
      .query<IntentRow, [string]>(
        `SELECT intent_id AS id, kind, state, from_base_commit_id AS "from", to_base_commit_id AS "to",
           detected_op_id AS op, payload, result_commit_id AS result, delivery_mode AS mode,
           soft_redelivery_count AS redeliveries, reason, recovery_bundle_path AS bundle, receipt
         FROM sync_intents WHERE thread_id = ? ORDER BY seq`,
      )
      .all(thread.id),
  );
}

/** Waits until the parent's newest commit is what the child's last unresolved intent leads to. */
export async function detected(f: Family, of: Thread = f.child): Promise<IntentRow> {
  return waitFor(
    async () => {
      const to = await commitOf(f, f.parent);
      return intents(f, of).find((row) => row.state === "Detected" && row.to === to);
    },
    PATIENCE_MS,
    () => `a detected intent of ${of.name}\n${story(f)}`,
  );
}

/** Waits until nothing is owed any more and `count` intents of the child were acknowledged. */
export async function acknowledged(home: Home, of: Thread, count: number): Promise<IntentRow[]> {
  return waitFor(
    () => {
      const rows = intents(home, of).filter((row) => row.state !== "Superseded");
      return rows.length === count && rows.every((row) => row.state === "Acknowledged") && rows;
    },
    PATIENCE_MS,
    () => `${count} acknowledged intents of ${of.name}\n${story(home)}`,
  );
}

/** The exact commit of a thread's `@`, as jj has it; snapshots nothing. */
export function commitOf({ repo }: Home, of: Thread): Promise<string> {
  return repo.commit(`"${of.workspace}"@`);
}

/** What `jj log` says of each of these revisions; snapshots nothing. `op`: as they were after that operation. */
export function revisions(
  { repo }: Home,
  revset: string,
  template: string,
  op = "@",
): Promise<string> {
  const read = ["log", "--no-graph", "--ignore-working-copy", "--at-op", op];
  return repo.jj([...read, "-r", revset, "-T", template]);
}

/** A file as it lies in the workspace; null when there is none. */
export function onDisk(of: Thread, path: string): string | null {
  const file = join(of.path, path);
  return existsSync(file) ? readFileSync(file, "utf8") : null;
}

/** A file as the commit has it; null when it has none. */
export async function inCommit(
  { repo }: Home,
  commit: string,
  path: string,
): Promise<string | null> {
  const shown = await repo.tryJj([
    "file",
    "show",
    "--ignore-working-copy",
    "-r",
    commit,
    `root:"${path}"`,
  ]);
  return shown.code === 0 ? shown.stdout : null;
}

/** The same bytes in the workspace and in the commit of its `@`. */
export async function expectFiles(
  home: Home,
  of: Thread,
  files: Record<string, string | null>,
): Promise<void> {
  const at = await commitOf(home, of);
  for (const [path, text] of Object.entries(files)) {
    expect([path, "on disk", onDisk(of, path)]).toEqual([path, "on disk", text]);
    expect([path, "in @", await inCommit(home, at, path)]).toEqual([path, "in @", text]);
  }
}

/** A hook waits this long for the daemon's answer; without one, under a barrier, it refuses in general words. */
const HOOK_DEADLINE_MS = 900;
const GENERIC = "[kiki] This call did not run and nothing was changed by it.";

/**
 * Every one of these calls was denied, never ran, and its result is the payload in the wrapper of this version. On a machine
 * so busy that a hook's deadline passes, the general refusal may stand in its place, and only then: the calls of which that
 * is so are returned.
 */
export function expectDenied(
  of: Follower,
  payload: string,
  calls: Record<string, string>,
): string[] {
  const all = moments(of.log);
  const late: string[] = [];
  for (const [id, tool] of Object.entries(calls)) {
    const own = all.filter((m) => m.tool_use_id === id);
    expect({ id, ran: own.some((m) => m.kind === "tool_start") }).toEqual({ id, ran: false });
    const [asked, answered] = ["pre_start", "pre_end"].map((kind) =>
      own.find((m) => m.kind === kind),
    );
    expect({ id, decision: answered?.decision }).toEqual({ id, decision: "deny" });
    const wrapper = `PreToolUse:${tool} hook error: `;
    const got = resultOf(all, id);
    const waited = answered!.t - asked!.t;
    if (waited >= HOOK_DEADLINE_MS && got?.startsWith(`${wrapper}${GENERIC}`) === true) {
      late.push(id);
      continue;
    }
    expect({ id, got }).toEqual({ id, got: `${wrapper}${payload}` });
  }
  if (late.length > 0) console.info(`${of.name}: too busy to be answered in time: ${late.join()}`);
  return late;
}

/**
 * These calls of one batch were denied with the intent's payload, and nobody else got it. Where no call of the batch could
 * be answered in time, it was told again, and once.
 */
export function expectTold(
  of: Follower,
  intent: Pick<IntentRow, "payload" | "redeliveries" | "receipt">,
  calls: Record<string, string>,
): void {
  const payload = intent.payload!;
  const told = Object.keys(calls).length - expectDenied(of, payload, calls).length;
  if (told > 0) expect(timesTold(of, payload)).toBe(told);
  else expect(timesTold(of, payload)).toBeGreaterThan(0);
  expect(intent).toMatchObject({ receipt: "matching", redeliveries: told > 0 ? 0 : 1 });
}

export function resultOf(all: readonly Moment[], id: string): string | undefined {
  return all.find((m) => m.kind === "result" && m.tool_use_id === id)?.result;
}

/** Results that carry this payload: how often the agent was told. */
function timesTold(of: Follower, payload: string): number {
  return moments(of.log).filter((m) => m.kind === "result" && m.result?.endsWith(payload)).length;
}

/**
 * What a person looks at once everything is over: the thread is Active and in sync in `kk ls` and `kk status`, nothing asks
 * for a person, no barrier, no held call, no process left standing, no divergent change.
 */
export async function expectAtRest(home: Home, of: Thread): Promise<void> {
  const { w, repo } = home;
  const state = await stateOf(home, of);
  expect({
    lifecycle: state.summary.lifecycle,
    cascade: state.summary.cascade,
    issues: state.issues,
    attention: state.attention,
  }).toEqual({ lifecycle: "Active", cascade: "in sync", issues: [], attention: [] });
  const row = await rowOf(home, of);
  expect(row).toContain("──");
  expect(row).not.toMatch(/conflicted|blocked|↻|◐|!/);
  const status = (await w.kk(["status", of.name], repo.root)).stdout;
  expect(status).toMatch(/^cascade +── in sync$/m);
  expect(status).not.toMatch(/^(issue|next) /m);
  const standing = inDb(home, (db) =>
    db
      .query("SELECT pid, state FROM stopped_processes WHERE thread_id = ? AND settled_at IS NULL")
      .all(of.id),
  );
  expect(standing).toEqual([]);
  expect(existsSync(join(home.state, "harness", of.id, "barrier"))).toBe(false);
  const own = `"${of.workspace}"@`;
  expect(await repo.commit(`divergent() & (${own}- | ${own})`)).toBe("");
}

/** Its line in `kk ls`. */
export async function rowOf({ w, repo }: Home, of: Thread): Promise<string> {
  const { stdout } = await w.kk(["ls"], repo.root);
  return stdout.split("\n").find((line) => line.includes(` ${of.name} `)) ?? stdout;
}

/** What a failed wait needs to be understood. */
export function story(home: Home): string {
  const rows = inDb(home, (db) => [
    ...db
      .query(
        `SELECT t.name, i.seq, i.kind, i.state, i.barrier_tool_batch, i.receipt, i.soft_redelivery_count, i.reason
         FROM sync_intents i JOIN threads t ON t.thread_id = i.thread_id`,
      )
      .all(),
    ...db.query("SELECT kind, message FROM attention").all(),
  ]);
  const log = readFileSync(join(home.w.stateDir, "kkd.log"), "utf8").split("\n").slice(-25);
  return [...rows.map((r) => JSON.stringify(r)), ...log].join("\n");
}
