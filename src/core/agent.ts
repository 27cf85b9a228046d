/** One incarnation as kiki knows it: its launch gate, its status, and which witness may say what about it. */
import type { AgentStatus } from "./lifecycle.ts";
import { machine, type Moves } from "./machine.ts";

/** The one-use permission to start one incarnation's process. It only moves forward. */
export const GATE_STATES = ["Activated", "Claimed", "Exec", "Revoked"] as const;
export type GateState = (typeof GATE_STATES)[number];

export const LAUNCH_GATE = machine("launch gate", ["Activated"], {
  Activated: ["Claimed", "Revoked"],
  Claimed: ["Exec", "Revoked"],
  Exec: [],
  Revoked: [],
} as const satisfies Moves<GateState>);

/** What a restart finds behind a gate. `live`: the recorded process, by pid and start time. */
export function behindGate(f: {
  state: GateState;
  live: boolean;
  ready: boolean;
}): "not-started" | "maybe-started" | "starting" | "ready" | "ended" {
  switch (f.state) {
    case "Activated":
      return "not-started";
    // Between the claim and the report of the process, only looking tells.
    case "Claimed":
      return "maybe-started";
    case "Exec":
      if (!f.live) return "ended";
      return f.ready ? "ready" : "starting";
    case "Revoked":
      return "ended";
  }
}

/** Of one incarnation. `Crashed` is final: what runs next is another incarnation. */
export const AGENT = machine("agent", ["Quiescent"], {
  Running: ["Quiescent", "Stuck", "Crashed"],
  Quiescent: ["Running", "Stuck", "Crashed"],
  Stuck: ["Running", "Quiescent", "Crashed"],
  Crashed: [],
} as const satisfies Moves<AgentStatus>);

/** Witnesses of what an agent does, strongest first. */
export const STATUS_SOURCES = ["hook", "record", "pane"] as const;
export type StatusSource = (typeof STATUS_SOURCES)[number];

export interface WitnessedStatus {
  status: AgentStatus;
  source: StatusSource;
}

/**
 * The status after one more witness. A weaker one may only raise attention, never clear it, with one exception that
 * is no attention either way: Esc fires no hook, so the record or the pane may say that work has ended.
 */
export function witness(known: WitnessedStatus, seen: WitnessedStatus): WitnessedStatus {
  if (seen.status === known.status || !AGENT.can(known.status, seen.status)) return known;
  const weaker = STATUS_SOURCES.indexOf(seen.source) > STATUS_SOURCES.indexOf(known.source);
  const raises = seen.status === "Stuck" || seen.status === "Crashed";
  const ends = known.status === "Running" && seen.status === "Quiescent";
  if (weaker && !raises && !ends) return known;
  // What a weak witness ended, a strong one may begin again, and so may the weak one itself.
  return seen;
}
