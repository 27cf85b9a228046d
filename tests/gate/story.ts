/** What a story on a real harness looks at: rows as they are stored, what the model got, when files changed, panes. */
import { Database } from "bun:sqlite";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repoPaths, statePaths } from "../../src/core/paths.ts";
import { waitFor } from "../support/wait.ts";
import type { World } from "../support/world.ts";
import { STEP_MS } from "./model.ts";
import type { Report } from "./report.ts";

/** The kernel stamps files with a clock that ticks, up to 10 ms behind the one programs read. */
const CLOCK_TICK_MS = 10;

export interface IntentRow {
  intent_id: string;
  seq: number;
  kind: string;
  state: string;
  payload: string;
  payload_sha256: string;
  receipt: string | null;
  soft_redelivery_count: number;
  delivery_mode: string | null;
  delivery_epoch: number;
  delivery_exhausted_at: number | null;
  batch_completed_at: number | null;
  acknowledged_by: string | null;
  barrier_bound_at: number;
  prepared_at: number;
}

export interface AdmissionRow {
  tool_use_id: string;
  admission: string;
  answer: string | null;
  resolution: string | null;
  intent_id: string | null;
}

export interface Sessions {
  agent_session_id: string;
  capabilities_json: string;
  harness_version: string;
  harness_session_id: string;
  pid: number;
}

/** Reads the repository's database as it is on disk, while the daemon runs. */
export function readRepoDb<T>(world: World, use: (db: Database) => T): T {
  const user = new Database(statePaths(world.stateDir).userDb, { readonly: true });
  const repo = user.query<{ repo_id: string }, []>("SELECT repo_id FROM repos").get();
  user.close();
  if (repo === null) throw new Error("no repository is registered");
  const db = new Database(repoPaths(world.stateDir, repo.repo_id).db, { readonly: true });
  try {
    return use(db);
  } finally {
    db.close();
  }
}

export function intentsOf(world: World, thread: string): IntentRow[] {
  return readRepoDb(world, (db) =>
    db
      .query<IntentRow, [string]>(
        "SELECT i.* FROM sync_intents i JOIN threads t USING (thread_id) WHERE t.name = ? ORDER BY i.seq",
      )
      .all(thread),
  );
}

/** Durable events of that kind of a thread, oldest first. */
export function eventsOf(world: World, thread: string, kind: string): Record<string, unknown>[] {
  const rows = readRepoDb(world, (db) =>
    db
      .query<{ data: string }, [string, string]>(
        "SELECT e.data_json AS data FROM events e JOIN threads t USING (thread_id) WHERE t.name = ? AND e.kind = ? ORDER BY e.seq",
      )
      .all(thread, kind),
  );
  return rows.map(({ data }) => JSON.parse(data) as Record<string, unknown>);
}

/** Waits until the thread's newest intent is like that. */
export async function until(
  world: World,
  thread: string,
  test: (intent: IntentRow) => boolean,
  what: string,
): Promise<IntentRow> {
  const newest = () => intentsOf(world, thread).at(-1);
  await waitFor(
    () => newest() !== undefined && test(newest()!),
    STEP_MS,
    () => `${thread} ${what}: ${JSON.stringify(newest(), null, 1)}`,
  );
  return newest()!;
}

/** Waits until the child's newest intent covers the parent's head. */
export async function detected(
  world: World,
  of: { child: string; parent: string },
  kind: string,
): Promise<void> {
  await waitFor(
    async () => {
      const intent = (await world.state(of.child)).intents.find((i) => i.state === "Detected");
      return intent?.kind === kind && intent.toBase === (await world.state(of.parent)).head;
    },
    STEP_MS,
    `${kind} detected`,
  );
}

export function admissions(world: World, ids: readonly string[]): AdmissionRow[] {
  const rows = readRepoDb(world, (db) =>
    db.query<AdmissionRow, []>("SELECT * FROM tool_admissions").all(),
  );
  return rows.filter((row) => ids.includes(row.tool_use_id));
}

export function sessionOf(world: World, thread: string): Sessions | null {
  return readRepoDb(world, (db) =>
    db
      .query<Sessions, [string]>(
        "SELECT s.* FROM agent_sessions s JOIN threads t USING (thread_id) WHERE t.name = ? AND s.retired_at IS NULL",
      )
      .get(thread),
  );
}

export interface Move {
  child: string;
  kind: "NativeRewrite" | "ParentAdvance";
  /** Ordinal of the intent, from 1. */
  seq: number;
  /** Ids of the calls of the blocked batch. */
  calls: readonly string[];
  /** What the model's next request says was the result of each, where it says that the call was refused. */
  told: ReadonlyMap<string, string>;
  /** When that request came, ms. */
  askedAt: number;
  /** The payload in this harness's wrapper. */
  expected(callId: string, payload: string): string;
  workspace: string;
  /** Files the move brings or changes, and what they must contain afterwards. */
  brings: Readonly<Record<string, string>>;
  /** Clock time, ms, at which the child's files were last seen as they were before. */
  seenBefore: number;
}

/** Checks everything that can be checked as soon as the model has been asked again. Returns the payload. */
export function checkMove(report: Report, world: World, move: Move): string {
  const intent = intentsOf(world, move.child)[move.seq - 1];
  if (intent === undefined) throw new Error(`there is no intent ${move.seq}`);
  const { payload } = intent;
  for (const id of move.calls) {
    const expected = move.expected(id, payload);
    const got = move.told.get(id);
    report.check(
      `${id}: the next model request carries the payload, ${Buffer.byteLength(payload)} bytes, byte for byte`,
      got !== undefined && Buffer.from(got).equals(Buffer.from(expected)),
      () => `expected ${JSON.stringify(expected)}\ngot      ${JSON.stringify(got)}`,
    );
  }
  const digest = new Bun.CryptoHasher("sha256").update(payload).digest("hex");
  report.check(
    "…and it is the payload stored with the intent",
    digest === intent.payload_sha256 && intent.kind === move.kind,
    intent.kind,
  );
  const blocked = admissions(world, move.calls);
  report.check(
    `${move.calls.length === 1 ? "the call was" : `all ${move.calls.length} calls were`} blocked for this intent, none ran`,
    blocked.length === move.calls.length &&
      blocked.every(
        (row) =>
          row.admission === "Block" &&
          row.intent_id === intent.intent_id &&
          row.answer === "payload",
      ),
    () => JSON.stringify(blocked, null, 1),
  );
  for (const [name, words] of Object.entries(move.brings)) {
    report.check(
      `${name} has arrived in the child's workspace`,
      readFileSync(join(move.workspace, name), "utf8").includes(words),
    );
  }
  checkTimes(report, intent, move);
  return payload;
}

/** No file of the workspace may have changed outside the time in which the batch was held. */
function checkTimes(report: Report, intent: IntentRow, move: Move): void {
  const changed = readdirSync(move.workspace)
    .filter((name) => name !== ".jj" && name !== ".git")
    .map((name) => ({ name, at: lstatSync(join(move.workspace, name)).ctimeMs }))
    .filter(({ at }) => at > move.seenBefore);
  const from = intent.barrier_bound_at - CLOCK_TICK_MS;
  const within = changed.every(({ at }) => at >= from && at <= intent.prepared_at);
  const names = changed
    .map(({ name }) => name)
    .sort()
    .join(", ");
  const last = Math.max(...changed.map(({ at }) => at));
  report.check(
    `files changed only while the batch was held: ${names}, ${Math.round(last - intent.barrier_bound_at)} ms after the block, ` +
      `${Math.round(move.askedAt - last)} ms before the model's next request`,
    within && names === Object.keys(move.brings).sort().join(", "),
    () => JSON.stringify({ changed, bound: intent.barrier_bound_at, prepared: intent.prepared_at }),
  );
}

/** What can be checked once the agent has gone on. */
export function checkAcknowledged(report: Report, world: World, child: string, seq: number): void {
  const intent = intentsOf(world, child)[seq - 1];
  report.check(
    "the delivery is Acknowledged: matching receipt, no redelivery",
    intent?.state === "Acknowledged" &&
      intent.receipt === "matching" &&
      intent.soft_redelivery_count === 0,
    () => JSON.stringify(intent, null, 1),
  );
}

/** Pane id of the thread's agent, by kiki's own tags. */
export function agentPane({ tmux }: World, thread: string): string {
  const format = "#{pane_id} #{@kiki_role} #{session_name}";
  const panes = tmux.ok("list-panes", "-a", "-F", format).split("\n");
  const found = panes
    .map((line) => line.split(" "))
    .find(([, role, session]) => role === "agent" && session?.includes(thread) === true);
  if (found?.[0] === undefined) throw new Error(`no agent pane of ${thread}: ${panes.join(", ")}`);
  return found[0];
}

export async function show(report: Report, world: World): Promise<void> {
  report.block("kk ls", (await world.kk(["ls"])).stdout);
}

/** For whoever has to find out why: the daemon's log and the agents' screens. */
export function explain(report: Report, world: World): void {
  const log = join(world.stateDir, "kkd.log");
  if (existsSync(log))
    report.block("kkd.log", readFileSync(log, "utf8").split("\n").slice(-40).join("\n"));
  for (const line of world.tmux
    .run("list-panes", "-a", "-F", "#{pane_id} #{session_name}")
    .out.split("\n")) {
    const [pane = ""] = line.split(" ");
    if (pane !== "") report.block(line, world.tmux.run("capture-pane", "-p", "-t", pane).out);
  }
}
