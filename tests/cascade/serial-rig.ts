/** A parent, a child that follows it, and the child's agent on a serial harness: real jj, real database, real cascade. */
import { GENERIC_DENY_REASON } from "../../src/core/generic-deny.ts";
import type { IntentRow } from "../../src/store/intents.ts";
import { openCalls } from "../../src/store/admissions.ts";
import { FakeSerialAgent, type SerialDaemon } from "../fakes/serial-agent.ts";
import { FakeRecords, FakeSerialHarness } from "../fakes/serial-harness.ts";
import type { Started } from "./rig-agents.ts";
import { makePair } from "./pair.ts";
import type { Rig, TestThread, RigOptions } from "./rig.ts";

export interface SerialFamily {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  records: FakeRecords;
  harness: FakeSerialHarness;
  agent: FakeSerialAgent;
  /** The hook's side of the daemon, as the child's incarnation of this moment. */
  daemon: SerialDaemon;
  amend(text: string): Promise<void>;
  intent(n?: number): IntentRow;
  /** What the agent's file holds; null: not there. */
  file(path: string): string | null;
  /** Durable events of a kind. */
  events(kind: string): Record<string, unknown>[];
  /** What the incarnation's row says of its boundary. */
  soft(): boolean;
  /** Blocked, passed and open calls of the child's incarnation, oldest first. */
  open(): { id: string; admission: string; resolved: boolean }[];
  /** The nth replacement is ready and submits what it was started with, in a process and a turn of its own. */
  takesUp(nth?: number): Promise<Started>;
}

export async function serialFamily(options: RigOptions = {}): Promise<SerialFamily> {
  const records = new FakeRecords();
  const harness = new FakeSerialHarness(records);
  const { rig, parent, child, amend } = await makePair({ ...options, harness: harness.port });
  const caller = () => ({ threadId: child.id, incarnation: child.incarnation });
  const daemon: SerialDaemon = {
    preToolUse: (raw) => rig.cascade.preToolUse(caller(), raw),
    hold: (token) => rig.cascade.hold(caller(), token, new AbortController().signal),
    markDelivered: (intentId, turn, batch) =>
      void rig.cascade.markDelivered(caller(), intentId, turn, batch),
    event: (raw) => rig.cascade.event(caller(), raw),
  };
  const f: SerialFamily = {
    rig,
    parent,
    child,
    records,
    harness,
    daemon,
    agent: new FakeSerialAgent(harness, daemon, child.path),
    amend,
    intent: (n = 0) => rig.intents(child)[n]!,
    file: (path) => rig.file(child, path),
    events: (kind) =>
      rig.db
        .query<{ data: string }, [string]>(
          "SELECT data_json AS data FROM events WHERE kind = ? ORDER BY seq",
        )
        .all(kind)
        .map((r) => JSON.parse(r.data) as Record<string, unknown>),
    soft: () =>
      rig.db
        .query<{ soft: number | null }, [string]>(
          "SELECT capabilities_json ->> '$.parallel_batch_boundary' AS soft FROM agent_sessions WHERE agent_session_id = ?",
        )
        .get(child.incarnation)!.soft !== 0,
    open: () =>
      openCalls(rig.db, child.incarnation).map((c) => ({
        id: c.toolUseId,
        admission: c.admission,
        resolved: c.resolved,
      })),
    async takesUp(nth = 1) {
      const started = await rig.replaced(child, nth);
      rig.agents.ready(started);
      f.agent = new FakeSerialAgent(harness, daemon, child.path);
      f.agent.session = `conversation-${nth + 1}`;
      await f.agent.prompt(started.prompt!);
      return started;
    },
  };
  await f.agent.prompt("go");
  return f;
}

/** What the model gets of a refused shell command. */
export function refused(reason: string, command = "ls"): string {
  return `Command blocked by PreToolUse hook: ${reason}. Command: ${command}`;
}

/** What the launcher says in place of a hook that died. */
export const GENERIC = refused(GENERIC_DENY_REASON);
