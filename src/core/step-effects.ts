/**
 * What each step of each saga does to the thread's projections, so that a journal in flight owns exactly the mismatches
 * its own steps make. A step that is missing here throws by name when it is asked about, and a test asks about all.
 */
import type { LifecycleOpKind } from "./lifecycle.ts";
import type { Projection } from "./projection.ts";

/**
 * `made`: there when the step is done. `gone`: away when it is done. `cleared`: away, unless something is in it that
 * nobody had named. `moved`: the bookmark is put elsewhere; it is somewhere all the time.
 */
export interface StepEffects extends Partial<
  Record<Exclude<Projection, "bookmark">, "made" | "gone" | "cleared">
> {
  bookmark?: "made" | "gone" | "moved";
  /** What undoing the step leaves where somebody else has written to it. */
  mayStay?: readonly Projection[];
}

/** Touches credentials, processes, rows, other threads, or nothing: no projection of this one. */
const NONE: StepEffects = {};
const WORKSPACE: StepEffects = {
  workspaceRecord: "made",
  directory: "made",
  mayStay: ["directory"],
};
const MOVES_BOOKMARK: StepEffects = { bookmark: "moved" };
const SESSION: StepEffects = { session: "made" };

/** The last steps of every saga that ends with an agent. */
const AGENT = {
  "harness-config": NONE,
  launch: NONE,
  gate: NONE,
  ready: NONE,
} as const;

/** The same where the workspace is new. */
const FIRST_AGENT = { credential: NONE, setup: NONE, ...AGENT } as const;

/** The proof that nobody and nothing has moved; its steps leave everything as it is. */
const FROZEN = { freeze: NONE, quiesce: NONE, recheck: NONE } as const;

const REMOVAL = {
  kill: { session: "gone" },
  forget: { workspaceRecord: "gone" },
  delete: { directory: "cleared" },
  revoke: NONE,
} as const;

const CHECKPOINT = { pin: NONE, bookmark: MOVES_BOOKMARK, verify: NONE } as const;

/** By kind and step name; a step for one child has that child's id behind its name. */
export const STEP_EFFECTS: Readonly<
  Record<LifecycleOpKind, Readonly<Record<string, StepEffects>>>
> = {
  Create: {
    allocate: NONE,
    workspace: WORKSPACE,
    head: NONE,
    bookmark: { bookmark: "made" },
    session: SESSION,
    ...FIRST_AGENT,
  },
  Reopen: { recheck: NONE, workspace: WORKSPACE, session: SESSION, ...FIRST_AGENT },
  Close: {
    panes: NONE,
    survivors: NONE,
    ...FROZEN,
    checkpoint: MOVES_BOOKMARK,
    verify: NONE,
    "checkpoint-child": NONE,
    "detach-child": NONE,
    reproof: NONE,
    keep: NONE,
    ...REMOVAL,
  },
  Destroy: {
    ...FROZEN,
    bookmark: { bookmark: "gone" },
    abandon: NONE,
    ...REMOVAL,
    transcript: NONE,
    tombstone: NONE,
  },
  Checkpoint: CHECKPOINT,
  Detach: {
    admission: NONE,
    refresh: NONE,
    discard: NONE,
    reconcile: NONE,
    stack: NONE,
    ...CHECKPOINT,
    edge: NONE,
  },
  Restart: { retire: NONE, ...AGENT },
  Interrupt: { stop: NONE, end: NONE, retire: NONE, ...AGENT },
  Repair: {
    recheck: NONE,
    settle: NONE,
    forget: { workspaceRecord: "gone" },
    record: WORKSPACE,
    path: { directory: "made" },
    folder: { directory: "cleared" },
    adopt: NONE,
    bookmark: { bookmark: "made" },
    name: NONE,
    session: SESSION,
    ...AGENT,
    // Undoes a failed creation to its end.
    unwind: {
      workspaceRecord: "gone",
      directory: "cleared",
      bookmark: "gone",
      session: "gone",
    },
    resume: NONE,
    // Of a delivery: rows only.
    epoch: NONE,
    discard: NONE,
    // Goes back to an operation a person chose: what that view has is in the approved plan, not here.
    operation: NONE,
    tombstone: NONE,
    // Moves the workspace to another copy of its own change, and the bookmark with it.
    recover: MOVES_BOOKMARK,
    transition: NONE,
  },
};

/** Throws by name on a step that nobody has thought about. */
export function effectsOf(kind: LifecycleOpKind, step: string): StepEffects {
  const effects = STEP_EFFECTS[kind][step.split(":")[0] ?? step];
  if (effects === undefined) throw new Error(`no projection effects recorded for ${kind}.${step}`);
  return effects;
}
