/** How a reconciliation ends without a result. Nothing in the workspace is touched after one of these is thrown. */
export type ReconcileOutcome =
  | { outcome: "materialized" }
  | { outcome: "recovery-required"; reason: string }
  | { outcome: "topology-diverged"; reason: string }
  /** Somebody else has ended it so that there is nothing to tell; `reason` is its state. */
  | { outcome: "nothing-owed"; reason: string }
  /** Nothing is known to be wrong: try at the next boundary. */
  | { outcome: "not-now"; reason: string };

export interface RecoveryRecord {
  folder: string;
  fingerprint: string;
  evidence: unknown;
}

/** Leaves the reconciliation. */
export class Stop extends Error {
  readonly outcome: ReconcileOutcome;
  readonly recovery: RecoveryRecord | null;
  /** A recovery that kiki must not even begin by itself, and why. */
  forAPerson: string | null = null;
  /** What a person is told when it comes again and again. */
  again = "edits keep coming";
  constructor(outcome: ReconcileOutcome, recovery: RecoveryRecord | null = null) {
    super(outcome.outcome);
    this.outcome = outcome;
    this.recovery = recovery;
  }
}

/**
 * What a failed command did to the files cannot be told now: whoever stands still for it must not go on. `cause`: why
 * not, as it was thrown.
 */
export class Unproven extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
  }
}

/** The repository moved between two looks: what was decided no longer describes it. Decide anew from the start. */
export class Moved extends Stop {
  constructor(reason: string) {
    super({ outcome: "not-now", reason });
  }
}
