/** Every state machine of core with the table whose triggers froze it. */
import { APPROVED_OPERATION, CHALLENGE } from "../../../src/core/approval.ts";
import { INTENT } from "../../../src/core/intent.ts";
import { LIFECYCLE, OPERATION, STEP } from "../../../src/core/lifecycle.ts";
import { machine } from "../../../src/core/machine.ts";
import type { Kind } from "./world.ts";

export interface FrozenMachine {
  table: string;
  column: string;
  trigger: string;
  states: readonly string[];
  initial: readonly string[];
  all: readonly (readonly [string, string])[];
}

type Table = Pick<FrozenMachine, "states" | "initial" | "all">;

function frozen(
  table: string,
  of: Table,
  names: { column?: string; trigger?: string } = {},
): FrozenMachine {
  const { column = "state", trigger = `${table}_move` } = names;
  return { table, column, trigger, states: of.states, initial: of.initial, all: of.all };
}

// Machines that only the store has.
const GATE = machine("launch gate", ["Activated"], {
  Activated: ["Claimed", "Revoked"],
  Claimed: ["Exec", "Revoked"],
  Exec: [],
  Revoked: [],
});
const STOP = machine("stopped process", ["Recorded"], {
  Recorded: ["Stopped", "Resumed", "Gone"],
  // Recorded again: another round of the same freeze, or a later one of the same owner.
  Stopped: ["Resumed", "Gone", "Recorded"],
  Resumed: ["Recorded"],
  Gone: [],
});
const REMOTE_PLAN = machine("remote plan", ["Pending"], {
  Pending: ["Claimed", "Withdrawn"],
  // → Pending: the claimed operation failed, and the plan waits for another approval.
  Claimed: ["Done", "Pending"],
  Done: [],
  Withdrawn: [],
});

export function frozenMachines(kind: Kind): FrozenMachine[] {
  const p = kind === "user" ? "user_" : "";
  const both = [
    frozen(`${p}approval_challenges`, CHALLENGE),
    frozen(`${p}approved_operations`, APPROVED_OPERATION),
    frozen(`${p}approved_operation_steps`, STEP),
  ];
  if (kind === "user") return both;
  return [
    ...both,
    frozen("threads", LIFECYCLE, { column: "lifecycle" }),
    frozen("thread_lifecycle_ops", OPERATION),
    frozen("thread_lifecycle_steps", STEP),
    frozen("sync_intents", INTENT),
    frozen("launch_gates", GATE, { trigger: "launch_gates_forward" }),
    frozen("stopped_processes", STOP),
    frozen("remote_plans", REMOTE_PLAN),
  ];
}
