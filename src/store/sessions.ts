/**
 * `agent_sessions` (incarnations: one process of a harness each) and `launch_gates` (the one-use permission to start
 * that process). A gate only moves forward: Activated → Claimed → Exec, or to Revoked (trigger).
 */
import type { GateState } from "../core/agent.ts";
import type { IncarnationId, IntentId, ThreadId } from "../core/ids.ts";
import type { AgentStatus } from "../core/lifecycle.ts";
import { retireCalls } from "./admissions.ts";
import type { Db } from "./db.ts";
import type { HarnessColumn } from "./threads.ts";

export interface SessionRow {
  incarnation: IncarnationId;
  threadId: ThreadId;
  harness: HarnessColumn;
  harnessVersion: string;
  /** The harness's own conversation id; null until the harness has named it, where kiki does not. */
  harnessSessionId: string | null;
  secretSha256: string;
  settingsFingerprint: string;
  capabilities: Record<string, boolean>;
  pid: number | null;
  startTime: string | null;
  status: AgentStatus;
  lastEvent: string | null;
  /** Prompts that reached it so far. */
  prompts: number;
  /** Number of the prompt in which its startup id was recorded. */
  echoPrompt: number | null;
  /** The harness said that its session has started, with this incarnation's secret. */
  sessionStartedAt: number | null;
  readyAt: number | null;
  retiredAt: number | null;
}

type Raw = Omit<SessionRow, "capabilities"> & { capabilitiesJson: string };

const COLUMNS = `agent_session_id AS incarnation, thread_id AS threadId, harness,
  harness_version AS harnessVersion, harness_session_id AS harnessSessionId,
  secret_sha256 AS secretSha256, settings_fingerprint AS settingsFingerprint,
  capabilities_json AS capabilitiesJson, pid, start_time AS startTime, status, last_event AS lastEvent, prompts, startup_echo_prompt AS echoPrompt,
  session_started_at AS sessionStartedAt, ready_at AS readyAt, retired_at AS retiredAt`;

function fromRaw(r: Raw): SessionRow {
  const { capabilitiesJson, ...rest } = r;
  return { ...rest, capabilities: JSON.parse(capabilitiesJson) as Record<string, boolean> };
}

/** What an incarnation was started for: the saved payload of one epoch, under an id that is used once. */
export interface StartupClaim {
  intentId: IntentId;
  epoch: number;
  deliveryId: string;
  payloadSha256: string;
}

/**
 * A new incarnation, not started yet. Throws (partial UNIQUE) while the thread has a live one, and (triggers) when it
 * claims a delivery that is not owed, or none although one is.
 */
export function insertSession(
  db: Db,
  row: {
    startup?: StartupClaim | null;
    incarnation: IncarnationId;
    threadId: ThreadId;
    harness: HarnessColumn;
    harnessVersion: string;
    harnessSessionId: string | null;
    secretSha256: string;
    settingsFingerprint: string;
    capabilities: object;
    now: number;
  },
): void {
  const { capabilities, startup = null, ...rest } = row;
  db.query(
    `INSERT INTO agent_sessions (agent_session_id, thread_id, harness, harness_version,
       harness_session_id, secret_sha256, settings_fingerprint, capabilities_json, status, created_at,
       startup_intent_id, startup_intent_epoch, startup_delivery_id, startup_payload_sha256)
     VALUES ($incarnation, $threadId, $harness, $harnessVersion, $harnessSessionId, $secretSha256,
       $settingsFingerprint, $capabilities, 'Running', $now, $intentId, $epoch, $deliveryId, $payloadSha256)`,
  ).run({
    ...rest,
    capabilities: JSON.stringify(capabilities),
    intentId: startup?.intentId ?? null,
    epoch: startup?.epoch ?? null,
    deliveryId: startup?.deliveryId ?? null,
    payloadSha256: startup?.payloadSha256 ?? null,
  });
}

export function sessionById(db: Db, incarnation: IncarnationId): SessionRow | null {
  const r = db
    .query<Raw, { incarnation: string }>(
      `SELECT ${COLUMNS} FROM agent_sessions WHERE agent_session_id = $incarnation`,
    )
    .get({ incarnation });
  return r === null ? null : fromRaw(r);
}

/** The thread's one incarnation that has not been retired. */
export function liveSession(db: Db, threadId: ThreadId): SessionRow | null {
  const r = db
    .query<Raw, { threadId: string }>(
      `SELECT ${COLUMNS} FROM agent_sessions WHERE thread_id = $threadId AND retired_at IS NULL`,
    )
    .get({ threadId });
  return r === null ? null : fromRaw(r);
}

/** Identity of the process: a pid alone is reused. */
/** Every incarnation the thread ever had, oldest first. */
export function sessionsOf(db: Db, threadId: ThreadId): SessionRow[] {
  return db
    .query<Raw, { threadId: string }>(
      `SELECT ${COLUMNS} FROM agent_sessions WHERE thread_id = $threadId ORDER BY rowid`,
    )
    .all({ threadId })
    .map(fromRaw);
}

export function setProcess(
  db: Db,
  incarnation: IncarnationId,
  process: { pid: number; startTime: string },
): void {
  db.query(
    `UPDATE agent_sessions SET pid = $pid, start_time = $startTime
     WHERE agent_session_id = $incarnation`,
  ).run({ incarnation, ...process });
}

/** Every start of a session: the first one, a resume, `/clear` (which changes the conversation id). */
export function noteSessionStarted(
  db: Db,
  incarnation: IncarnationId,
  row: { harnessSessionId: string; now: number },
): void {
  db.query(
    `UPDATE agent_sessions SET harness_session_id = $harnessSessionId,
       session_started_at = coalesce(session_started_at, $now)
     WHERE agent_session_id = $incarnation AND retired_at IS NULL`,
  ).run({ incarnation, ...row });
}

/** Throws (CHECK) before the process is known. */
export function setReady(db: Db, incarnation: IncarnationId, now: number): void {
  db.query(
    `UPDATE agent_sessions SET ready_at = $now
     WHERE agent_session_id = $incarnation AND ready_at IS NULL AND retired_at IS NULL`,
  ).run({ incarnation, now });
}

/** True when it was live until now. `event`: how it ended, in words. */
export function retireSession(
  db: Db,
  incarnation: IncarnationId,
  row: { status: "Quiescent" | "Crashed"; event: string; now: number },
): boolean {
  const done = db
    .query(
      `UPDATE agent_sessions SET status = $status, retired_at = $now, last_event = $event,
         last_event_at = $now WHERE agent_session_id = $incarnation AND retired_at IS NULL`,
    )
    .run({ incarnation, ...row });
  return done.changes === 1;
}

/** Ended by kiki itself. Its open calls are over, its gate is nobody's, and whoever reports its end is too late. */
export function retireForGood(db: Db, incarnation: IncarnationId, now: number): void {
  const row = { status: "Crashed" as const, event: "ended by kiki", now };
  if (!retireSession(db, incarnation, row)) return;
  revokeGate(db, incarnation);
  retireCalls(db, incarnation, now);
}

/** What was proved for this version has been seen to fail: from here on it counts as unproved for every incarnation. */
export function loseCapability(db: Db, incarnation: IncarnationId, name: string): void {
  db.query(
    // Said beside it: one that was never proved is false as well, and may be proved by another kiki.
    `UPDATE agent_sessions SET capabilities_json = json_set(capabilities_json, '$.' || $name, json('false'),
       '$.lost', json_set(coalesce(capabilities_json -> '$.lost', '{}'), '$.' || $name, json('true')))
     WHERE agent_session_id = $incarnation`,
  ).run({ incarnation, name });
}

/** `proven` for a version, without what an incarnation of it has lost in this repository. */
export function keptCapabilities<T extends object>(
  db: Db,
  harness: string,
  version: string,
  proven: T,
): T {
  const lost = db
    .query<{ name: string }, [string, string]>(
      `SELECT DISTINCT c.key AS name FROM agent_sessions s, json_each(s.capabilities_json -> '$.lost') c
       WHERE s.harness = ? AND s.harness_version = ?`,
    )
    .all(harness, version);
  return { ...proven, ...Object.fromEntries(lost.map(({ name }) => [name, false])) };
}

// ---- launch gates -------------------------------------------------------------------------------------------

export interface GateRow {
  gateId: string;
  threadId: ThreadId;
  incarnation: IncarnationId;
  state: GateState;
  /** The one pane whose wrapper may pass. */
  paneId: string;
  launchFile: string;
}

const GATE_COLUMNS = `gate_id AS gateId, thread_id AS threadId, agent_session_id AS incarnation, state,
  pane_id AS paneId, launch_file AS launchFile`;

/**
 * Opens the gate of an incarnation. Throws (trigger) unless the thread's credential, head, checkpoint and tmux
 * session are durable.
 */
export function insertGate(db: Db, row: Omit<GateRow, "state"> & { now: number }): void {
  db.query(
    `INSERT INTO launch_gates (gate_id, thread_id, agent_session_id, state, pane_id, launch_file, created_at)
     VALUES ($gateId, $threadId, $incarnation, 'Activated', $paneId, $launchFile, $now)`,
  ).run({ ...row });
}

/** The thread's gate that is `Activated` or `Claimed`; at most one (partial UNIQUE). */
export function openGate(db: Db, threadId: ThreadId): GateRow | null {
  return db
    .query<GateRow, { threadId: string }>(
      `SELECT ${GATE_COLUMNS} FROM launch_gates
       WHERE thread_id = $threadId AND state IN ('Activated','Claimed')`,
    )
    .get({ threadId });
}

export function gateOf(db: Db, incarnation: IncarnationId): GateRow | null {
  return db
    .query<GateRow, { incarnation: string }>(
      `SELECT ${GATE_COLUMNS} FROM launch_gates WHERE agent_session_id = $incarnation`,
    )
    .get({ incarnation });
}

/** True when the gate was in `from`. */
export function moveGate(
  db: Db,
  gateId: string,
  from: GateState,
  to: "Claimed" | "Exec" | "Revoked",
): boolean {
  const done = db
    .query("UPDATE launch_gates SET state = $to WHERE gate_id = $gateId AND state = $from")
    .run({ gateId, from, to });
  return done.changes === 1;
}

/** Nobody passes any more; a gate that was passed stays as it is. */
export function revokeGate(db: Db, incarnation: IncarnationId): void {
  db.query(
    `UPDATE launch_gates SET state = 'Revoked'
     WHERE agent_session_id = $incarnation AND state IN ('Activated','Claimed')`,
  ).run({ incarnation });
}

/** Processes of every incarnation that has not been retired. */
export function liveAgents(db: Db): { pid: number; startTime: string }[] {
  return db
    .query<{ pid: number; startTime: string }, []>(
      `SELECT pid, start_time AS startTime FROM agent_sessions
       WHERE retired_at IS NULL AND pid IS NOT NULL AND start_time IS NOT NULL`,
    )
    .all();
}
