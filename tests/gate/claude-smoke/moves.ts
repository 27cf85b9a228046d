/** One move of the parent as the child's agent met it: what is stored, what the model got, what happened to the files. */
import { Database } from "bun:sqlite";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repoPaths, statePaths } from "../../../src/core/paths.ts";
import type { ModelMessage, RecordedRequest } from "../../../fixtures/model-servers/claude.ts";
import type { World } from "../../support/world.ts";
import type { Report } from "../report.ts";
import { TOOL_OF } from "./agents.ts";

/** The kernel stamps files with a clock that ticks, up to 10 ms behind the one programs read. */
const CLOCK_TICK_MS = 10;

interface IntentRow {
  intent_id: string;
  kind: string;
  state: string;
  payload: string;
  payload_sha256: string;
  receipt: string | null;
  soft_redelivery_count: number;
  barrier_bound_at: number;
  prepared_at: number;
}

interface AdmissionRow {
  tool_use_id: string;
  admission: string;
  answer: string | null;
  resolution: string | null;
  intent_id: string | null;
}

export interface Sessions {
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

function intents(world: World): IntentRow[] {
  return readRepoDb(world, (db) =>
    db.query<IntentRow, []>("SELECT * FROM sync_intents ORDER BY seq").all(),
  );
}

function admissions(world: World, ids: readonly string[]): AdmissionRow[] {
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

/** Tool results of a request by call id; a content that is not one string is kept as JSON. */
function toolResults(
  messages: readonly ModelMessage[],
): Map<string, { text: string; isError: boolean }> {
  const found = new Map<string, { text: string; isError: boolean }>();
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    for (const part of content) {
      if (part["type"] !== "tool_result") continue;
      const body = part["content"];
      found.set(String(part["tool_use_id"]), {
        text: typeof body === "string" ? body : JSON.stringify(body),
        isError: part["is_error"] === true,
      });
    }
  }
  return found;
}

export interface Move {
  kind: "NativeRewrite" | "ParentAdvance";
  /** Ordinal of the intent, from 1. */
  seq: number;
  /** Ids of the calls of the blocked batch. */
  calls: readonly string[];
  /** The next request of the child's model after that batch. */
  next: RecordedRequest;
  workspace: string;
  /** Files the move brings or changes, and what they must contain afterwards. */
  brings: Readonly<Record<string, string>>;
  /** Clock time, ms, at which the child's files were last seen as they were before. */
  seenBefore: number;
}

/** Checks everything that can be checked as soon as the model has been asked again. Returns the payload. */
export function checkMove(report: Report, world: World, move: Move): string {
  const intent = intents(world)[move.seq - 1];
  if (intent === undefined) throw new Error(`there is no intent ${move.seq}`);
  const { payload } = intent;
  const sent = toolResults(move.next.body.messages);
  for (const id of move.calls) {
    const expected = `PreToolUse:${TOOL_OF[id]} hook error: ${payload}`;
    const got = sent.get(id);
    report.check(
      `${id}: the next model request carries the payload, ${Buffer.byteLength(payload)} bytes, byte for byte`,
      got !== undefined && got.isError && Buffer.from(got.text).equals(Buffer.from(expected)),
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
    "all three calls were blocked for this intent, none ran",
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
      `${Math.round(move.next.at - last)} ms before the model's next request`,
    within && names === Object.keys(move.brings).sort().join(", "),
    () => JSON.stringify({ changed, bound: intent.barrier_bound_at, prepared: intent.prepared_at }),
  );
}

/** What can be checked once the agent has gone on. */
export function checkAcknowledged(report: Report, world: World, seq: number): void {
  const intent = intents(world)[seq - 1];
  report.check(
    "the delivery is Acknowledged: matching receipt, no redelivery",
    intent?.state === "Acknowledged" &&
      intent.receipt === "matching" &&
      intent.soft_redelivery_count === 0,
    () => JSON.stringify(intent, null, 1),
  );
}

/** The session's own record must show the model's view: the denial for each blocked call. */
export function checkRecord(
  report: Report,
  file: string,
  calls: readonly string[],
  payload: string,
): void {
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  const messages = lines
    .map((line) => JSON.parse(line) as { type?: string; message?: ModelMessage })
    .flatMap(({ type, message }) => (type === "user" && message !== undefined ? [message] : []));
  const found = toolResults(messages);
  report.check(
    "the session's record holds the denial for each call",
    calls.every((id) => found.get(id)?.text === `PreToolUse:${TOOL_OF[id]} hook error: ${payload}`),
    () => calls.map((id) => `${id}: ${found.get(id)?.text.slice(0, 100)}`).join("\n"),
  );
}
