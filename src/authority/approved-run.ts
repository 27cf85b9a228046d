/**
 * Carries out an approved operation that is no thread's saga, step by step, so that a restart goes on with exactly that
 * operation and with no other: a step that was begun is looked at before it is done again, and one whose outcome nobody
 * can tell leaves the operation `OutcomeUnknown`, its approval neither free nor consumed, until somebody can.
 */
import { resumeApproved } from "../core/approval.ts";
import { describeError } from "../core/errors.ts";
import type { Log } from "../ports/log.ts";
import {
  approvedOperation,
  moveApprovedOperation,
  type ApprovalStore,
  type ApprovedOperation,
} from "../store/approvals.ts";
import {
  approvedSteps,
  endApprovedStep,
  insertApprovedSteps,
  startApprovedStep,
  type ApprovedStepRow,
} from "../store/approved-steps.ts";
import { write } from "../store/db.ts";

/** What there is to see of a step that was begun. */
export type StepSeen = "done" | "not-done" | "unknown";

export interface ApprovedStep {
  readonly name: string;
  /** Whether it has happened; asked before a step that was begun is begun again. */
  observe(): StepSeen | Promise<StepSeen>;
  run(): void | Promise<void>;
}

/** What one method does with its approval. Made anew from the operation's row after a restart. */
export interface ApprovedWork {
  /** What its effect is recognised by; plain JSON, no secrets. */
  readonly identity: unknown;
  /** What has to be so in this process whenever the steps run; nothing durable. */
  prepare?(): Promise<void>;
  readonly steps: readonly ApprovedStep[];
  /** Plain JSON, no secrets. */
  outcome(): unknown;
  /** Extra writes of the transaction that ends it, in the same database. */
  onCompleted?(): void;
}

export const APPROVED_MOMENTS = ["before", "started", "effected", "completed"] as const;

export interface ApprovedRunDeps {
  at: ApprovalStore;
  now(): number;
  log: Log;
  /** `approved.<method>.<step>.<moment>`; throws where a process is to die. */
  crash: { at(name: string): void };
}

export type ApprovedEnd = Pick<ApprovedOperation, "state" | "error"> & {
  outcome: unknown;
  /** What a step has thrown in this process; null otherwise. */
  thrown: Error | null;
};

/** Inside the transaction that claims the approval: from then on it is known what is to be done, and to what. */
export function beginApproved(at: ApprovalStore, operationId: string, work: ApprovedWork): void {
  moveApprovedOperation(at, operationId, { state: "Running" });
  const names = work.steps.map((step) => step.name);
  insertApprovedSteps(at, operationId, names, work.identity);
}

/** Until its end, or until nobody can tell. Throws only what a crash point or the journal itself throws. */
export async function runApproved(
  deps: ApprovedRunDeps,
  operationId: string,
  work: ApprovedWork,
): Promise<ApprovedEnd> {
  const { at } = deps;
  const op = approvedOperation(at, operationId);
  if (op === null) throw new Error(`no approved operation ${operationId}`);
  switch (resumeApproved(op.state)) {
    case "nothing":
      return endOf(deps, operationId);
    case "start":
      write(at.db, () => beginApproved(at, operationId, work));
      break;
    case "resume":
    case "observe":
      break;
  }
  await work.prepare?.();
  for (const row of approvedSteps(at, operationId)) {
    if (row.state === "Completed") continue;
    const failed = await runStep(deps, op.method, operationId, work, row);
    if (failed === null) continue;
    const { state, error, thrown } = failed;
    write(at.db, () => {
      if (state === "Failed") {
        endApprovedStep(at, operationId, row.ordinal, { state, error });
        moveApprovedOperation(at, operationId, { state, error, now: deps.now() });
      } else if (approvedOperation(at, operationId)?.state !== "OutcomeUnknown") {
        moveApprovedOperation(at, operationId, { state, error });
      }
    });
    return endOf(deps, operationId, thrown);
  }
  write(at.db, () => {
    work.onCompleted?.();
    const outcome = work.outcome();
    moveApprovedOperation(at, operationId, { state: "Completed", outcome, now: deps.now() });
  });
  return endOf(deps, operationId);
}

interface StepFailure {
  state: "Failed" | "OutcomeUnknown";
  error: string;
  thrown: Error | null;
}

/** null: it is completed. */
async function runStep(
  deps: ApprovedRunDeps,
  method: string,
  operationId: string,
  work: ApprovedWork,
  row: ApprovedStepRow,
): Promise<StepFailure | null> {
  const { at } = deps;
  const step = work.steps.find(({ name }) => name === row.name);
  if (step === undefined) throw new Error(`${method} has no step ${row.name}`);
  const crash = (moment: (typeof APPROVED_MOMENTS)[number]): void =>
    deps.crash.at(`approved.${method}.${row.name}.${moment}`);
  const seen = row.state === "Started" ? await step.observe() : "not-done";
  if (seen === "unknown") {
    const why = `nobody can tell whether ${row.name} has happened`;
    return { state: "OutcomeUnknown", error: why, thrown: null };
  }
  if (seen === "not-done") {
    crash("before");
    write(at.db, () => startApprovedStep(at, operationId, row.ordinal));
    crash("started");
    try {
      await step.run();
    } catch (error) {
      const text = describeError(error);
      deps.log.warn(`${method} ${operationId}: ${row.name}: ${text}`);
      const state = error instanceof OutcomeUnknown ? "OutcomeUnknown" : "Failed";
      return { state, error: text, thrown: error instanceof Error ? error : null };
    }
    crash("effected");
  }
  write(at.db, () =>
    endApprovedStep(at, operationId, row.ordinal, {
      state: "Completed",
      result: { at: deps.now() },
    }),
  );
  crash("completed");
  return null;
}

/** Thrown by a step whose effect may have happened, where looking does not tell either. */
export class OutcomeUnknown extends Error {
  constructor(message: string) {
    super(message);
    this.name = "OutcomeUnknown";
  }
}

function endOf(
  deps: ApprovedRunDeps,
  operationId: string,
  thrown: Error | null = null,
): ApprovedEnd {
  const { state, error, outcome } = approvedOperation(deps.at, operationId)!;
  return {
    state,
    error,
    outcome: outcome === null ? null : (JSON.parse(outcome) as unknown),
    thrown,
  };
}
