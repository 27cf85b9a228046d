/**
 * Which projections a thread must have, must not have, or may have either way: by its lifecycle, and, while a journal
 * is in flight, by what its steps have done so far. A journal owns the mismatches its own steps make; any other one
 * fails that journal, so that there is no second state machine beside it.
 */
import type {
  Lifecycle,
  LifecycleOpKind,
  OpState,
  ProjectionIssue,
  StepState,
} from "./lifecycle.ts";
import { PROJECTIONS, type Projection } from "./projection.ts";
import { effectsOf } from "./step-effects.ts";

export type Requirement = "must" | "must-not" | "either";
export type Expectation = Readonly<Record<Projection, Requirement>>;

/** What was seen. `unknown` is not `missing`: a query that failed proves nothing. */
export interface ObservedProjections {
  workspaceRecord: "present" | "missing" | "unknown";
  /** At the recorded path; `same-object`: the very folder, but recorded under another path; `other-object`: not it. */
  directory: "present" | "missing" | "same-object" | "other-object" | "unknown";
  /** `present`: on the checkpoint, or where recorded rewrites of it lead; `moved`: anywhere else. */
  bookmark: "present" | "missing" | "moved" | "unknown";
  session: "present" | "missing" | "unknown";
}

export interface Journal {
  kind: LifecycleOpKind;
  state: OpState;
  /** The lifecycle the operation found the thread in. */
  began: Lifecycle;
  steps: readonly { name: string; state: StepState }[];
}

const all = (r: Requirement): Expectation => ({
  workspaceRecord: r,
  directory: r,
  bookmark: r,
  session: r,
});

/** Without a journal. What a journal has to say about a state comes on top of the state it began in. */
export const SETTLED = {
  Creating: all("must-not"),
  // What could not be undone is in the retained journal, and a person cleans up.
  CreateFailed: all("either"),
  Active: all("must"),
  ClosePreflight: all("must"),
  CloseCommit: all("either"),
  CloseFailed: all("either"),
  Closed: {
    workspaceRecord: "must-not",
    directory: "must-not",
    bookmark: "must",
    session: "must-not",
  },
  // Compared with the state it goes back to; by itself it promises nothing.
  ProjectionDiverged: all("either"),
  DestroyCommit: all("either"),
  DestroyFailed: all("either"),
  // Names may be used again by anybody.
  Destroyed: all("either"),
} as const satisfies Record<Lifecycle, Expectation>;

export interface Expected {
  projections: Expectation;
  /** The bookmark is being put somewhere: wherever it is, it is expected there. */
  bookmarkMoving: boolean;
}

/** What must be there now. Throws by name on a step that the table of effects does not have. */
export function expectedProjections(f: {
  lifecycle: Lifecycle;
  projectionResume: "Active" | "Closed" | null;
  journal: Journal | null;
}): Expected {
  if (f.journal === null) {
    const lifecycle = f.lifecycle === "ProjectionDiverged" ? f.projectionResume : f.lifecycle;
    return { projections: SETTLED[lifecycle ?? f.lifecycle], bookmarkMoving: false };
  }
  const now: Record<Projection, Requirement> = { ...SETTLED[f.journal.began] };
  let bookmarkMoving = false;
  for (const step of f.journal.steps) {
    const effects = effectsOf(f.journal.kind, step.name);
    for (const projection of PROJECTIONS) {
      const effect = effects[projection];
      if (effect === undefined) continue;
      const left = effects.mayStay?.includes(projection) === true;
      if (effect === "moved")
        bookmarkMoving ||= step.state !== "Pending" && step.state !== "Completed";
      else now[projection] = afterStep(now[projection], effect, step.state, left);
    }
  }
  return { projections: now, bookmarkMoving };
}

function afterStep(
  before: Requirement,
  effect: "made" | "gone" | "cleared",
  state: StepState,
  mayStay: boolean,
): Requirement {
  switch (state) {
    case "Pending":
      return before;
    case "Started":
    case "Compensating":
    case "Failed":
      return "either";
    case "Completed":
      if (effect === "cleared") return "either";
      return effect === "made" ? "must" : "must-not";
    case "Compensated":
      return mayStay ? "either" : before;
  }
}

export interface Mismatch {
  projection: Projection;
  expected: "must" | "must-not";
  observed: string;
}

export interface ProjectionAudit {
  /** Of a settled thread: each makes it `ProjectionDiverged`, with the choices of core/projection. */
  issues: ProjectionIssue[];
  /** Of a running journal: it fails. */
  failures: Mismatch[];
  /** There although it should not be, with nothing to fail and no issue to name: reported, never removed. */
  unexpected: Mismatch[];
  /** Nobody could tell; neither an issue nor a proof. */
  unknown: Projection[];
  /** The one repair that is made without asking: the same folder under another path. */
  normalisePath: boolean;
}

/** Compares what is expected with what was seen. */
export function auditProjections(
  f: Parameters<typeof expectedProjections>[0],
  seen: ObservedProjections,
): ProjectionAudit {
  const expected = expectedProjections(f);
  const audit: ProjectionAudit = {
    issues: [],
    failures: [],
    unexpected: [],
    unknown: PROJECTIONS.filter((p) => seen[p] === "unknown"),
    normalisePath: false,
  };
  const running = f.journal?.state === "Running";
  for (const projection of PROJECTIONS) {
    const requirement = expected.projections[projection];
    const observed = seen[projection];
    if (requirement === "either" || observed === "unknown") continue;
    if (projection === "directory" && requirement === "must" && observed === "same-object") {
      audit.normalisePath = !running;
      continue;
    }
    if (projection === "bookmark" && observed === "moved" && expected.bookmarkMoving) continue;
    const fits = requirement === "must" ? observed === "present" : observed === "missing";
    if (fits) continue;
    const mismatch: Mismatch = { projection, expected: requirement, observed };
    if (running) audit.failures.push(mismatch);
    else if (requirement === "must-not" || f.journal !== null) audit.unexpected.push(mismatch);
    else audit.issues.push(issueOf(projection, observed));
  }
  return audit;
}

function issueOf(projection: Projection, observed: string): ProjectionIssue {
  switch (projection) {
    case "workspaceRecord":
      return "WorkspaceRecordMissing";
    case "directory":
      return observed === "missing" ? "WorkspaceDirectoryMissing" : "WorkspacePathMismatch";
    case "bookmark":
      return observed === "missing" ? "BookmarkMissing" : "BookmarkMoved";
    case "session":
      return "SessionMissing";
  }
}
